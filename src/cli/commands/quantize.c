/* locus quantize: a checkpoint with its matrices in another type. */
#include "model/quantize.h"

#include <strings.h>

#include "cli/commands/commands.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"
#include "cli/kit/outputs.h"

struct quantize_options {
    struct locus_common common;
    bool pure;
};

static const struct locus_option table[] = {
    {.name = "pure",
     .type = LOCUS_OPTION_FLAG,
     .offset = offsetof(struct quantize_options, pure),
     .help = "q4_0: the embedding and the head, too, which are q8_0 otherwise"},
    {0},
};

/* The type of that name, in either case; NULL: none that can be written. */
static const struct locus_tensor_type_info *find_type(const char *name)
{
    const struct locus_tensor_type_info *info;
    size_t t = 0;
    while ((info = locus_quantize_type(t)) && strcasecmp(info->name, name))
        t++;
    return info;
}

static int run(void *values, int n_operands, char **operands)
{
    const struct quantize_options *options = values;
    if (n_operands != 3)
        return locus_log_usage("quantize", "found %d arguments, expected three: IN OUT TYPE",
                               n_operands);
    const struct locus_tensor_type_info *type = find_type(operands[2]);
    if (!type)
        return locus_log_usage("quantize", "type '%s', expected f32, f16, bf16, q8_0 or q4_0",
                               operands[2]);
    const struct locus_output_request request = {"OUT", operands[1], .binary = true};
    bool taken;
    int status = locus_outputs_stdout("quantize", &request, 1, &taken);
    if (status >= 0) return status;
    struct locus_quantize job = {.type = type->type,
                                 .pure = options->pure,
                                 .n_threads = options->common.n_threads,
                                 .stopped = locus_interrupted};
    locus_error error;
    locus_interrupt_watch();
    if (locus_quantize(&job, operands[0], operands[1], &error)) return locus_output_failed(&error);
    if (job.n_fallbacks && !options->common.quiet)
        locus_log_note("note: %d matrices have rows that are no multiple of 32: written as f16",
                       job.n_fallbacks);
    if (!options->common.quiet)
        locus_log_note("%s: %.1f MB of tensors, from %.1f MB", operands[1],
                       (double)job.bytes_after / 1e6, (double)job.bytes_before / 1e6);
    return LOCUS_EXIT_DONE;
}

const struct locus_command locus_command_quantize = {
    .name = "quantize",
    .summary = "Write a checkpoint with its matrices in another type.",
    .usage = "[--pure] IN OUT f32|f16|bf16|q8_0|q4_0",
    .details =
        "Vectors, and what belongs to a position scheme, stay as they are. The embedding and "
        "the head of a q4_0\nfile are q8_0 unless --pure. OUT may be IN; - is standard output.",
    .options = table,
    .values_size = sizeof(struct quantize_options),
    .takes_operands = true,
    .run = run,
};
