/* locus perplexity: how well a model predicts texts.
 *
 *     options -> texts -> model, tokens -> session of the windows' length -> losses -> rows ->
 *     table or JSON, files
 *
 * Every step returns -1 to go on, or the exit status.
 */
#include "cli/commands/perplexity.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/outputs.h"
#include "cli/kit/page.h"
#include "cli/kit/session_options.h"
#include "cli/kit/table.h"
#include "forward/session.h"

static const char command_name[] = "perplexity";

#define FIELD(member) offsetof(struct locus_perplexity_options, member)

static const struct locus_option table[] = {
    {.name = "length",
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(length),
     .argument = "L",
     .min = 1,
     .max = INT_MAX,
     .help = "tokens a window (default: the trained length)"},
    {.name = "reference",
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(reference),
     .argument = "FILE",
     .help = "a model of the same vocabulary: also say how far from its predictions these are"},
    {.name = "per-token",
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(per_token),
     .argument = "FILE",
     .help = "write a CSV: index, position, id, piece, nll (and reference_nll, kl, same_top)"},
    {.name = "logits",
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(logits),
     .argument = "FILE",
     .help = "write the logits behind each prediction, float32, as .npy"},
    {.name = "json", .type = LOCUS_OPTION_FLAG, .offset = FIELD(json), .help = "one object"},
    {.name = NULL},
};

static int fail(struct locus_perplexity *run, const locus_error *error)
{
    locus_progress_clear(&run->progress);
    return locus_output_failed(error);
}

static int out_of_memory(void)
{
    return locus_log_error("out of memory for the results");
}

/* ---- what to measure ---------------------------------------------------------------------- */

static int read_texts(struct locus_perplexity *run, int n_operands, char **operands)
{
    const struct locus_perplexity_options *options = run->options;
    const struct locus_output_request requests[] = {
        {"--per-token", options->per_token, .binary = false},
        {"--logits", options->logits, .binary = true},
        {"--json", options->json ? "-" : NULL, .binary = false}};
    int status = locus_outputs_stdout(command_name, requests, 3, &run->stdout_taken);
    if (options->json) run->stdout_taken = false; /* it is what print prints */
    if (status < 0) status = locus_check_position(command_name, options->common.position);
    if (status < 0)
        status = locus_text_list_read(&run->texts, command_name, &options->text.files, n_operands,
                                      operands);
    if (status < 0 && run->texts.n_items > 1 && (options->per_token || options->logits))
        status = locus_log_usage(command_name, "%s takes one text, found %d",
                                 options->logits ? "--logits" : "--per-token", run->texts.n_items);
    if (status < 0 && options->json) locus_text_list_hash(&run->texts);
    return status;
}

/* The plan at --length or else the trained length, that no text need fill: then the longest window
 * says how long the windows are. Returns -1 to go on, or the exit status. */
static int fit_plan(struct locus_perplexity *run, int longest)
{
    const struct locus_perplexity_options *options = run->options;
    const int n_context = options->common.n_context;
    const int trained = run->model.info.trained_length;
    const int length = options->length ? options->length : trained < longest ? trained : longest;
    run->plan.stride = options->text.stride;
    run->plan = locus_plan_at(run->plan, length);
    int status = locus_plan_refuse(&run->plan, command_name);
    if (status < 0 && n_context && n_context < length)
        status = locus_log_usage(command_name, "-c (--context) is %d, less than the windows' %d",
                                 n_context, length);
    return status;
}

static int open_model(struct locus_perplexity *run)
{
    const struct locus_perplexity_options *options = run->options;
    int status = locus_plan_option(&run->plan, command_name, &options->text);
    if (status < 0) status = locus_model_option(&run->model, &options->common);
    if (status < 0 && options->json) status = locus_model_hash_option(&run->model);
    if (status < 0) status = fit_plan(run, INT_MAX);
    if (status < 0)
        status = locus_begin_option(&run->corpus_options.begin, command_name, options->text.begin,
                                    run->plan.protocol, &run->model);
    const char *outputs[] = {options->per_token, options->logits};
    for (int i = 0; i < 2 && status < 0; i++)
        status = locus_output_apart(command_name, outputs[i], run->model.path);
    for (int i = 0; i < 2 && status < 0; i++)
        status = locus_output_apart(command_name, outputs[i], options->reference);
    if (status < 0) status = locus_outputs_apart(command_name, outputs, 2, &run->texts);
    if (status < 0) status = locus_outputs_check(outputs, 2, &run->held);
    if (status < 0) status = locus_reference_open(run);
    return status;
}

static int encode_texts(struct locus_perplexity *run)
{
    run->corpora = calloc((size_t)run->texts.n_items, sizeof *run->corpora);
    run->rows = calloc((size_t)run->texts.n_items + 1, sizeof *run->rows);
    if (!run->corpora || !run->rows) return out_of_memory();
    for (int i = 0; i < run->texts.n_items; i++) {
        const struct locus_text *text = &run->texts.items[i];
        struct locus_corpus *corpus = &run->corpora[i];
        int status = locus_text_encode(corpus, &run->model, text, &run->corpus_options,
                                       run->options->common.quiet);
        if (status < 0) status = locus_reference_encode(run, i);
        if (status >= 0) return status;
    }
    return -1;
}

/* No text is measured at a length that it doesn't fill: one that was asked for is refused, the
 * default gives way. */
static int fit_lengths(struct locus_perplexity *run)
{
    const struct locus_plan asked = run->plan;
    int longest = 0, status = -1;
    for (int i = 0; i < run->texts.n_items; i++) {
        const int n = locus_corpus_longest(&run->corpora[i], &asked);
        if (n > longest) longest = n;
        if (status < 0 && run->options->length && n < asked.length)
            status = locus_log_error("%s: the longest window that it fills has %d tokens, fewer "
                                     "than --length %d",
                                     run->texts.items[i].path, n, asked.length);
    }
    if (status < 0 && longest < asked.length) status = fit_plan(run, longest);
    for (int i = 0; i < run->texts.n_items && status < 0; i++)
        if (locus_corpus_predictions(&run->corpora[i], &run->plan) == 0)
            status = locus_log_error("%s: %d tokens, fewer than the %d of a window under %s",
                                     run->texts.items[i].path, run->corpora[i].n_tokens,
                                     run->plan.length, locus_protocol_name(run->plan.protocol));
    return status;
}

static int create_session(struct locus_perplexity *run)
{
    const struct locus_common *common = &run->options->common;
    locus_session_params params = locus_session_options(common);
    locus_error error;
    run->session =
        locus_session_for_text(run->model.model, &params, run->plan.length,
                               locus_corpora_longest(run->corpora, run->texts.n_items), &error);
    if (!run->session) return locus_log_refusal(command_name, &error);
    locus_tell_session(common, run->model.path, &run->model.info, run->session);
    return locus_reference_session(run);
}

/* ---- measuring ---------------------------------------------------------------------------- */

static bool stopped(void *context)
{
    (void)context;
    return locus_interrupted();
}

static void advance(void *context, double work)
{
    struct locus_perplexity *run = context;
    locus_progress_advance(&run->progress, work);
}

/* A text's row, and with it the files of what it says a token. */
static int finish_text(struct locus_perplexity *run, int index, const struct locus_losses *losses,
                       double seconds)
{
    const struct locus_corpus *corpus = &run->corpora[index];
    const struct locus_text *text = &run->texts.items[index];
    const struct locus_summary summary = locus_summary_of(losses, corpus);
    locus_error error;
    if (summary.tokens == 0) return -1; /* interrupted before anything was */
    struct locus_row *row = &run->rows[run->n_rows++];
    bool set = locus_row_set_session(row, "perplexity", &run->model, &run->session->setup);
    set &= locus_row_set_plan(row, text->name, text->sha, &run->plan, corpus);
    /* The default may be more than one of several texts fills. */
    set &= locus_row_set_int(row, LOCUS_COLUMN_LENGTH, locus_corpus_longest(corpus, &run->plan));
    set &= locus_row_set_summary(row, &summary);
    set &= locus_row_set_real(row, LOCUS_COLUMN_SECONDS, seconds);
    if (!set) return out_of_memory();
    const struct locus_divergence *divergence =
        run->options->reference ? &run->reference.divergences[index] : NULL;
    if (run->options->per_token && locus_per_token_write(run, corpus, losses, divergence, &error))
        return fail(run, &error);
    return -1;
}

static enum locus_status run_plan(struct locus_perplexity *run, int index,
                                  struct locus_losses *losses, bool *whole, locus_error *error)
{
    const struct locus_watch watch = {.context = run,
                                      .stopped = stopped,
                                      .advance = advance,
                                      .window = run->options->logits ? locus_logits_window : NULL};
    const struct locus_corpus *corpus = &run->corpora[index];
    enum locus_status status = locus_losses_init(losses, &run->plan, corpus, error);
    if (status) return status;
    if (!run->options->reference)
        return locus_measure(run->session, corpus, losses, 1, &watch, whole, error);
    struct locus_divergence *divergence = &run->reference.divergences[index];
    status = locus_divergence_init(divergence, corpus->n_tokens, error);
    return status ? status
                  : locus_measure_against(run->session, run->reference.session, corpus, losses,
                                          divergence, &watch, whole, error);
}

static int measure_text(struct locus_perplexity *run, int index)
{
    struct locus_losses losses;
    locus_error error;
    bool whole;
    const double start = locus_now();
    run->progress.label = run->texts.items[index].name;
    int status;
    if (run_plan(run, index, &losses, &whole, &error))
        status = fail(run, &error);
    else {
        locus_progress_clear(&run->progress);
        status = finish_text(run, index, &losses, locus_now() - start);
        if (status < 0 && !whole) {
            if (!run->options->common.quiet)
                locus_log_note("interrupted: the last text is not whole");
            status = LOCUS_EXIT_INTERRUPTED;
        }
    }
    locus_losses_free(&losses);
    return status;
}

static int measure(struct locus_perplexity *run)
{
    double work = 0;
    locus_error error;
    for (int i = 0; i < run->texts.n_items; i++)
        work += locus_plan_work(&run->plan, &run->corpora[i], run->model.info.n_embd);
    locus_progress_begin(&run->progress, work, run->options->common.quiet);
    if (run->options->logits && locus_logits_begin(run, &error)) return fail(run, &error);
    int status = -1;
    for (int i = 0; i < run->texts.n_items && status < 0; i++)
        status = measure_text(run, i);
    if (status < 0 && run->options->logits && locus_output_commit(&run->logits, &error))
        return fail(run, &error);
    return status;
}

/* The row over all texts, where there are several. */
static int pool(struct locus_perplexity *run)
{
    const int n = run->n_rows;
    if (n < 2) return -1;
    const struct locus_row **rows = malloc((size_t)n * sizeof *rows);
    bool pooled = rows != NULL;
    for (int i = 0; i < n && rows; i++)
        rows[i] = &run->rows[i];
    if (rows) pooled = locus_row_pool(&run->rows[run->n_rows++], rows, n, run->texts.sha);
    free(rows);
    return pooled ? -1 : out_of_memory();
}

/* ---- the result --------------------------------------------------------------------------- */

/* The row over everything, and under "texts" a row each. `summaries` is NULL without --reference.
 */
static void append_json(const struct locus_perplexity *run,
                        const struct locus_divergence_summary *summaries, struct locus_buffer *out)
{
    struct locus_json json = {.out = out};
    const int last = run->n_rows - 1, n_texts = last > 0 ? last : 1;
    locus_json_open(&json, NULL, '{');
    locus_json_row(&json, &run->rows[last]);
    if (summaries) locus_reference_json(run, &summaries[last], &json);
    locus_json_open(&json, "texts", '[');
    for (int i = 0; i < n_texts; i++) {
        locus_json_open(&json, NULL, '{');
        locus_json_row(&json, &run->rows[i]);
        if (summaries) locus_reference_json(run, &summaries[i], &json);
        locus_json_close(&json, '}');
    }
    locus_json_close(&json, ']');
    locus_json_close(&json, '}');
    locus_buffer_append(out, "\n", 1);
}

/* A number that may be huge, or none. */
static void add_real(struct locus_table *lines, double value)
{
    if (isnan(value))
        locus_table_add(lines, "-");
    else
        locus_table_add(lines, value < 1e9 ? "%.4f" : "%.4e", value);
}

static void append_table(const struct locus_perplexity *run, struct locus_buffer *out)
{
    static const char *const head[] = {"text",       "length", "tokens",        "nll",
                                       "perplexity", "+-",     "bits per byte", "position"};
    struct locus_table lines = {.n_columns = sizeof head / sizeof *head,
                                .n_left = 1,
                                .width = locus_page_columns(STDOUT_FILENO)};
    for (int i = 0; i < lines.n_columns; i++)
        locus_table_add(&lines, "%s", head[i]);
    for (int i = 0; i < run->n_rows; i++) {
        const struct locus_row *row = &run->rows[i];
        locus_table_add(&lines, "%s", row->cells[LOCUS_COLUMN_TEXT]);
        locus_table_add(&lines, "%s", row->cells[LOCUS_COLUMN_LENGTH]);
        locus_table_add(&lines, "%s", row->cells[LOCUS_COLUMN_TOKENS]);
        locus_table_add(&lines, "%.5f", locus_row_number(row, LOCUS_COLUMN_NLL));
        add_real(&lines, locus_row_number(row, LOCUS_COLUMN_PERPLEXITY));
        add_real(&lines, locus_row_number(row, LOCUS_COLUMN_STANDARD_ERROR));
        add_real(&lines, locus_row_number(row, LOCUS_COLUMN_BITS_PER_BYTE));
        locus_table_add(&lines, "%s", row->cells[LOCUS_COLUMN_POSITION]);
    }
    locus_table_print(&lines, out);
}

/* Returns the exit status. */
static int print(struct locus_perplexity *run)
{
    struct locus_divergence_summary *summaries = NULL;
    struct locus_buffer out = {0};
    locus_error error;
    if (run->n_rows == 0 || run->stdout_taken) return LOCUS_EXIT_DONE;
    if (run->options->reference && locus_reference_sum(run, &summaries, &error))
        return fail(run, &error);
    if (run->options->json)
        append_json(run, summaries, &out);
    else
        append_table(run, &out);
    if (summaries && !run->options->json) locus_reference_table(run, summaries, &out);
    free(summaries);
    return locus_stdout_finish(&out);
}

static void release(struct locus_perplexity *run)
{
    locus_output_abort(&run->logits);
    locus_outputs_release(&run->held);
    for (int i = 0; i < run->n_rows; i++)
        locus_row_free(&run->rows[i]);
    for (int i = 0; i < run->texts.n_items && run->corpora; i++)
        locus_corpus_free(&run->corpora[i]);
    free(run->rows);
    free(run->corpora);
    locus_reference_release(run);
    locus_session_free(run->session);
    locus_opened_model_close(&run->model);
    locus_text_list_free(&run->texts);
}

static int perplexity(void *values, int n_operands, char **operands)
{
    struct locus_perplexity run = {.options = values};
    run.corpus_options.documents = run.options->text.documents;
    locus_interrupt_watch();
    int status = read_texts(&run, n_operands, operands);
    if (status < 0) status = open_model(&run);
    if (status < 0) status = encode_texts(&run);
    if (status < 0) status = fit_lengths(&run);
    if (status < 0) status = create_session(&run);
    if (status < 0) status = measure(&run);
    if (status < 0 || status == LOCUS_EXIT_INTERRUPTED) {
        int shown = pool(&run);
        if (shown < 0) shown = print(&run);
        if (status < 0) status = shown;
    }
    release(&run);
    return status;
}

const struct locus_command locus_command_perplexity = {
    .name = "perplexity",
    .summary = "Measure how well a model predicts texts.",
    .usage = "[-m FILE] -f TEXT... [options]",
    .details =
        "A window of L tokens starts from position 0. A text of N tokens, those that the "
        "tokenizer wants before and after it included, has N-1 to predict.\n"
        "  windows  side by side: L tokens are fed, each predicts the next, all N-1 count\n"
        "  sliding  Hugging Face's strided perplexity: windows of L tokens step by S; the first "
        "predicts its last L-1, each after it what no window before held (S tokens, fewer at the "
        "end): N-1 in all, each counted once. Where S is L, nothing predicts a window's first "
        "token\n"
        "  half     as llama.cpp's perplexity: whole windows of L tokens, the last "
        "L-1-floor(L/2) of each count\n"
        "A text that fills no window of --length is refused; where "
        "none is given, L is at most the longest window.\n"
        "--begin first puts begin-of-text before each document, every puts it over the first "
        "token of later windows, too, and none nowhere. Without --begin it is first where the "
        "tokenizer wants the token, else none; under half, which knows no first, every or none, "
        "as in llama.cpp. --first measures the first window of a document alone: the text, or "
        "with --documents each of its documents.\n"
        "Averages are over tokens; +- is one standard error, as if they were independent. "
        "Several texts are also pooled. --json has the pooled row's keys, and under \"texts\" a "
        "row each.\n"
        "--reference runs a second model, for one the F32 checkpoint of a quantised -m, under "
        "the same options over the same windows: the Kullback-Leibler divergence from its "
        "predictions, in nats a token, and how often both think the same token the likeliest.\n"
        "In the CSV of --per-token an apostrophe stands before a piece that a spreadsheet would "
        "take for a formula.\n"
        "A FILE that is - is standard output, which then carries that alone.",
    .shared = locus_text_option_table,
    .options = table,
    .values_size = sizeof(struct locus_perplexity_options),
    .takes_operands = true,
    .runs_session = true,
    .run = perplexity,
};
