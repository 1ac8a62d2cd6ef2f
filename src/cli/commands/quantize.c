/* locus quantize: a checkpoint with its matrices in another type. */
#include "model/quantize.h"

#include <strings.h>

#include "base/text.h"
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
     .help = "every matrix in the one type, the embedding and the head, too"},
    {0},
};

/* The names of all that can be written. */
static void names(struct locus_buffer *text)
{
    const struct locus_recipe *recipe;
    for (size_t i = 0; (recipe = locus_recipe_at(i)); i++) {
        const bool last = !locus_recipe_at(i + 1);
        locus_buffer_printf(text, "%s%s", i == 0 ? "" : last ? " or " : ", ", recipe->name);
    }
}

static int refuse(const char *name)
{
    const struct locus_tensor_type_info *info;
    struct locus_buffer expected = {0};
    size_t i = 0;
    names(&expected);
    while ((info = locus_tensor_type_at(i)) && strcasecmp(info->name, name))
        i++;
    const int status = locus_log_usage("quantize", "type '%s'%s, expected %s", name,
                                       info ? " is read, not written" : "",
                                       expected.failed ? "another" : expected.bytes);
    locus_buffer_free(&expected);
    return status;
}

/* One line on the matrices that have another type than the recipe wants. */
static void note_fallbacks(const struct locus_quantize *job)
{
    struct locus_buffer types = {0};
    int n = 0;
    for (uint32_t t = 0; t < LOCUS_N_TENSOR_TYPES; t++) {
        if (!job->n_fallbacks[t]) continue;
        locus_buffer_printf(&types, "%s%d as %s", n ? ", " : "", job->n_fallbacks[t],
                            locus_tensor_type_find(t)->name);
        n += job->n_fallbacks[t];
    }
    if (n)
        locus_log_note("note: rows of %d matrices are no multiple of %d: written %s", n,
                       locus_tensor_type_find(job->recipe->type)->block_values,
                       types.failed ? "otherwise" : types.bytes);
    locus_buffer_free(&types);
}

static int run(void *values, int n_operands, char **operands)
{
    const struct quantize_options *options = values;
    if (n_operands != 3)
        return locus_log_usage("quantize", "found %d argument%s, expected three: IN OUT TYPE",
                               n_operands, locus_plural(n_operands));
    const struct locus_recipe *recipe = locus_recipe_find(operands[2]);
    if (!recipe) return refuse(operands[2]);
    const struct locus_output_request request = {"OUT", operands[1], .binary = true};
    bool taken;
    int status = locus_outputs_stdout("quantize", &request, 1, &taken);
    if (status >= 0) return status;
    struct locus_quantize job = {.recipe = recipe,
                                 .pure = options->pure,
                                 .n_threads = options->common.n_threads,
                                 .stopped = locus_interrupted};
    locus_error error;
    locus_interrupt_watch();
    if (locus_quantize(&job, operands[0], operands[1], &error)) return locus_output_failed(&error);
    if (!options->common.quiet) note_fallbacks(&job);
    if (!options->common.quiet)
        locus_log_note("%s: %.1f MB of tensors, from %.1f MB", operands[1],
                       (double)job.bytes_after / 1e6, (double)job.bytes_before / 1e6);
    return LOCUS_EXIT_DONE;
}

const struct locus_command locus_command_quantize = {
    .name = "quantize",
    .summary = "Write a checkpoint with its matrices in another type.",
    .usage = "[--pure] IN OUT TYPE",
    .details =
        "TYPE is, from the largest file to the smallest, f32, bf16, f16, q8_0, q6_k, q5_k_m, q5_k, "
        "q4_k_m, q4_k, q3_k or q2_k; or one of the simpler q5_1, q5_0, q4_1 and q4_0, in any "
        "case. "
        "What ends in _m is a mixture as llama-quantize makes it: of some layers the values and "
        "what "
        "leaves the feed-forward part are q6_k.\nVectors, and what belongs to a position scheme, "
        "stay "
        "as they are. Unless --pure, the head, and the embedding where it is the head's matrix, "
        "are "
        "q6_k in a file of a smaller type with a k; both are q8_0 in one of the simpler types. "
        "Where "
        "rows are no multiple of 256, q8_0, q5_1, q5_0 and q4_0 stand for q6_k, q5_k, q4_k, and "
        "what is smaller; of 32, f16. f64, iq4_nl and mxfp4 are read, not written. OUT may be IN; "
        "- is standard output.",
    .options = table,
    .values_size = sizeof(struct quantize_options),
    .takes_operands = true,
    .run = run,
};
