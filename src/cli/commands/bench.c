/* locus bench: how fast a model runs, beside what this machine could do at most. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/json.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/page.h"
#include "cli/kit/session_options.h"
#include "model/model.h"

struct bench_options {
    struct locus_common common;
    int n_prompt, n_generated, repetitions, n_depth;
    bool json;
};

struct bench {
    const struct bench_options *options;
    char *path;
    locus_model *model;
    locus_session *session;
    struct locus_ceilings ceilings;
    struct locus_bench_result result;
    double load_ms, peak_memory_mb;
};

#define FIELD(member) offsetof(struct bench_options, member)
static const struct locus_option table[] = {
    {.name = "prompt",
     .letter = 'p',
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(n_prompt),
     .argument = "N",
     .fallback = "512",
     .min = 1,
     .max = 1 << 24,
     .help = "tokens of the prompt"},
    {.name = "tokens",
     .letter = 'n',
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(n_generated),
     .argument = "N",
     .fallback = "64",
     .min = 1,
     .max = 1 << 24,
     .help = "tokens to generate"},
    {.name = "repetitions",
     .letter = 'r',
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(repetitions),
     .argument = "N",
     .fallback = "5",
     .min = 1,
     .max = 10000,
     .help = "how often; the first, not counted, is one more"},
    {.name = "depth",
     .letter = 'd',
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(n_depth),
     .argument = "N",
     .fallback = "0",
     .min = 0,
     .max = 1 << 24,
     .help = "tokens in the cache before either begins"},
    {.name = "json",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(json),
     .help = "one object instead of the table"},
    {0},
};

/* ---- measuring ---------------------------------------------------------------------------- */

static int open_session(struct bench *bench)
{
    const struct bench_options *options = bench->options;
    int status = LOCUS_EXIT_FAILED;
    locus_error error;
    if (!(bench->path = locus_model_file(&options->common, &status))) return status;
    double start = locus_now();
    if (!(bench->model = locus_model_open(bench->path, &error)))
        return locus_log_error("%s", error.message);
    bench->load_ms = (locus_now() - start) * 1e3;
    int longest =
        options->n_prompt > options->n_generated ? options->n_prompt : options->n_generated;
    locus_session_params params = locus_session_options(&options->common);
    if (params.n_context && params.n_context < options->n_depth + longest)
        return locus_log_usage("bench", "-c (--context) is %d, less than the %d positions needed",
                               params.n_context, options->n_depth + longest);
    if (!params.n_context) params.n_context = options->n_depth + longest;
    bench->session = locus_session_create(bench->model, &params, &error);
    return bench->session ? -1 : locus_log_refusal("bench", &error);
}

/* The peak is the model's own: read before the ceilings take memory for theirs. */
static int measure(struct bench *bench)
{
    const struct bench_options *options = bench->options;
    const struct locus_bench_params params = {options->n_prompt, options->n_generated,
                                              options->n_depth, options->repetitions,
                                              locus_interrupted};
    struct rusage usage;
    locus_error error;
    if (locus_bench_run(&bench->result, bench->session, &params, &error))
        return locus_log_error("%s", error.message);
    if (!getrusage(RUSAGE_SELF, &usage)) bench->peak_memory_mb = (double)usage.ru_maxrss / 1e3;
    if (locus_ceilings_measure(&bench->ceilings, locus_bench_weight_bytes(bench->model),
                               locus_session_n_threads(bench->session), &error))
        return locus_log_error("%s", error.message);
    return -1;
}

/* NaN where the ceiling isn't measured. */
static double prompt_fraction(const struct bench *bench)
{
    double ceiling =
        locus_bench_compute_ceiling(&bench->ceilings, locus_bench_weight_type(bench->model)) * 1e9 /
        bench->result.prompt_operations;
    return ceiling > 0 ? bench->result.prompt.median / ceiling : NAN;
}

static double generation_fraction(const struct bench *bench)
{
    double ceiling = bench->ceilings.read_gb_per_second * 1e9 / bench->result.generation_bytes;
    return bench->result.generation.median / ceiling;
}

/* ---- telling ------------------------------------------------------------------------------ */

static void add_rate(struct locus_json *json, const char *key, int n_tokens,
                     const struct locus_rate *rate, double fraction)
{
    locus_json_open(json, key, '{');
    locus_json_int(json, "tokens", n_tokens);
    locus_json_open(json, "tokens_per_second", '{');
    locus_json_measure(json, "median", rate->median);
    locus_json_measure(json, "min", rate->min);
    locus_json_measure(json, "max", rate->max);
    locus_json_close(json, '}');
    locus_json_measure(json, "fraction_of_ceiling", fraction);
    locus_json_close(json, '}');
}

static void add_ceiling(struct locus_json *json, const char *key, double rate)
{
    locus_json_measure(json, key, rate > 0 ? rate : NAN);
}

static int print_json(const struct bench *bench)
{
    const struct bench_options *options = bench->options;
    struct locus_buffer out = {0};
    struct locus_json json = {.out = &out};
    locus_json_open(&json, NULL, '{');
    locus_json_text(&json, "model", bench->path);
    locus_json_text(&json, "type", locus_model_info_get(bench->model).weight_type);
    locus_json_text(&json, "kernels", locus_session_kernels(bench->session));
    locus_json_int(&json, "threads", locus_session_n_threads(bench->session));
    add_rate(&json, "prompt", options->n_prompt, &bench->result.prompt, prompt_fraction(bench));
    add_rate(&json, "generation", options->n_generated, &bench->result.generation,
             generation_fraction(bench));
    locus_json_open(&json, "ceilings", '{');
    add_ceiling(&json, "read_gb_per_second", bench->ceilings.read_gb_per_second);
    add_ceiling(&json, "f32_gflops", bench->ceilings.f32_gflops);
    add_ceiling(&json, "bf16_gflops", bench->ceilings.bf16_gflops);
    add_ceiling(&json, "int8_gops", bench->ceilings.int8_gops);
    locus_json_close(&json, '}');
    locus_json_measure(&json, "load_ms", bench->load_ms);
    locus_json_measure(&json, "peak_memory_mb", bench->peak_memory_mb);
    locus_json_close(&json, '}');
    locus_buffer_append(&out, "\n", 1);
    return locus_stdout_finish(&out);
}

static void append_rate(struct locus_buffer *out, const char *label, int n_tokens,
                        const struct locus_rate *rate, double fraction)
{
    locus_buffer_printf(out, "%-10s %7d %12.1f %10.1f %10.1f ", label, n_tokens, rate->median,
                        rate->min, rate->max);
    if (isnan(fraction))
        locus_buffer_printf(out, "%9s\n", "-");
    else
        locus_buffer_printf(out, "%9.2f\n", fraction);
}

static void append_ceiling(struct locus_buffer *out, const char *label, double rate,
                           const char *unit)
{
    if (rate > 0) locus_buffer_printf(out, ", %s %.0f %s", label, rate, unit);
}

static int print_table(const struct bench *bench)
{
    const struct bench_options *options = bench->options;
    const struct locus_ceilings *ceilings = &bench->ceilings;
    struct locus_buffer out = {0};
    locus_text_append(&out, bench->path);
    locus_buffer_printf(&out, ", %s, kernels %s, %d thread%s, position %s\n\n",
                        locus_model_info_get(bench->model).weight_type,
                        locus_session_kernels(bench->session),
                        locus_session_n_threads(bench->session),
                        locus_plural(locus_session_n_threads(bench->session)),
                        locus_session_position(bench->session));
    locus_buffer_printf(&out, "%-10s %7s %12s %10s %10s %9s\n", "", "tokens", "tokens/s", "min",
                        "max", "ceiling");
    append_rate(&out, "prompt", options->n_prompt, &bench->result.prompt, prompt_fraction(bench));
    append_rate(&out, "generation", options->n_generated, &bench->result.generation,
                generation_fraction(bench));
    locus_buffer_printf(&out, "\nthis machine: read %.1f GB/s", ceilings->read_gb_per_second);
    append_ceiling(&out, "f32", ceilings->f32_gflops, "GFLOP/s");
    append_ceiling(&out, "bf16", ceilings->bf16_gflops, "GFLOP/s");
    append_ceiling(&out, "int8", ceilings->int8_gops, "GOP/s");
    locus_buffer_printf(&out, "\nload %.0f ms, peak memory %.0f MB\n", bench->load_ms,
                        bench->peak_memory_mb);
    locus_page_fold(&out, 0, locus_page_columns(STDOUT_FILENO));
    return locus_stdout_finish(&out);
}

static int run(void *values, int n_operands, char **operands)
{
    (void)n_operands, (void)operands;
    struct bench bench = {.options = values};
    locus_interrupt_watch();
    int status = open_session(&bench);
    if (status < 0) status = measure(&bench);
    if (status < 0) status = bench.options->json ? print_json(&bench) : print_table(&bench);
    if (status == LOCUS_EXIT_DONE && locus_interrupted()) status = LOCUS_EXIT_INTERRUPTED;
    locus_session_free(bench.session);
    locus_model_free(bench.model);
    free(bench.path);
    return status;
}

const struct locus_command locus_command_bench = {
    .name = "bench",
    .summary = "Measure tokens a second, beside what this machine can do at most.",
    .usage = "[-m FILE] [-p N] [-n N] [-r N] [-d N] [--json]",
    .details =
        "\"ceiling\" is the fraction of what this machine's multiply-adds (prompt) or memory "
        "(generation) allow, measured in the same run: a prompt's token costs its multiply-adds, "
        "a generated one reads all weights and its part of the cache (a small model stays in the "
        "CPU's caches, and passes 1). \"-\": this CPU's rate for such weights isn't measured.",
    .options = table,
    .values_size = sizeof(struct bench_options),
    .runs_session = true,
    .run = run,
};
