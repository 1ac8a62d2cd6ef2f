/* locus extrapolate: how far position schemes carry a model past its trained length.
 *
 *     options -> texts, models -> a sweep planned -> cells found in --csv (--resume) -> the others
 *     measured, each written as it is done -> table, JSON, picture
 *
 * Every step returns -1 to go on, or the exit status.
 */
#include "cli/commands/extrapolate.h"

#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "cli/commands/commands.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/outputs.h"
#include "cli/kit/session_options.h"

static const char command_name[] = "extrapolate";

static int out_of_memory(void)
{
    return locus_log_error("out of memory for the plan");
}

/* ---- options ------------------------------------------------------------------------------ */

/* Whether one of the outputs is standard output, or no file and asked to hold several pictures. */
static int check_streams(struct locus_extrapolate *run)
{
    const struct locus_extrapolate_options *options = run->options;
    const struct locus_output_request requests[] = {{"--csv", options->csv, .binary = false},
                                                    {"--json", options->json, .binary = false},
                                                    {"--png", options->png, .binary = true}};
    int status = locus_outputs_stdout(command_name, requests, 3, &run->stdout_taken);
    if (status >= 0) return status;
    if (options->resume && options->csv && locus_output_is_stdout(options->csv))
        return locus_log_usage(command_name, "--resume reads what --csv has: expected a file, "
                                             "found standard output");
    if (options->png && run->sweep.task == LOCUS_TASK_PASSKEY && run->sweep.n_series > 1 &&
        !locus_output_is_file(options->png))
        return locus_log_usage(command_name,
                               "--png %s: %d pictures, expected one for what is no file",
                               options->png, run->sweep.n_series);
    return -1;
}

static int read_options(struct locus_extrapolate *run, int n_operands, char **operands)
{
    int status = locus_extrapolate_read_options(run);
    if (status < 0) status = check_streams(run);
    if (status < 0 && run->sweep.task < 0)
        return locus_text_list_read(&run->texts, command_name, &run->options->text.files,
                                    n_operands, operands);
    if (status < 0 && n_operands > 0)
        return locus_options_stray(&locus_command_extrapolate, operands[0]);
    return status;
}

/* ---- models and texts --------------------------------------------------------------------- */

/* Whether a file is to tell states of models and texts apart. */
static bool needs_hashes(const struct locus_extrapolate *run)
{
    return run->options->csv || run->options->json;
}

/* --begin for a model; tasks begin as they were trained, with whatever token the model has. */
static int choose_begin(const struct locus_extrapolate *run, const struct locus_opened_model *model,
                        struct locus_begin *begin)
{
    const int32_t token = model->info.bos_token;
    if (run->sweep.task < 0 || run->options->text.begin)
        return locus_begin_option(begin, command_name, run->options->text.begin,
                                  run->sweep.plan.protocol, model);
    *begin = (struct locus_begin){token < 0 ? LOCUS_BEGIN_NONE : LOCUS_BEGIN_FIRST, token};
    return -1;
}

/* The model of a series, opened once however many series it has. */
static int open_model(struct locus_extrapolate *run, int index)
{
    struct locus_common common = run->options->common;
    for (int i = 0; i < index; i++) {
        const char *a = run->model_options[i], *b = run->model_options[index];
        if (a && b ? strcmp(a, b) != 0 : a != b) continue;
        run->series[index].model = run->series[i].model;
        return -1;
    }
    const int n = run->series[index].model = run->sweep.n_models++;
    common.model = run->model_options[index];
    int status = locus_model_option(&run->models[n], &common);
    if (status < 0 && needs_hashes(run)) status = locus_model_hash_option(&run->models[n]);
    return status < 0 ? choose_begin(run, &run->models[n], &run->begins[n]) : status;
}

static int open_models(struct locus_extrapolate *run)
{
    const size_t n = (size_t)run->sweep.n_series;
    run->sweep.models = run->models = calloc(n, sizeof *run->models);
    run->sweep.begins = run->begins = calloc(n, sizeof *run->begins);
    if (!run->models || !run->begins) return out_of_memory();
    int status = -1;
    for (int i = 0; i < run->sweep.n_series && status < 0; i++)
        status = open_model(run, i);
    return status;
}

static int encode_texts(struct locus_extrapolate *run)
{
    const int n_texts = run->texts.n_items, n_models = run->sweep.n_models;
    run->sweep.texts = &run->texts;
    run->sweep.corpora = run->corpora =
        calloc((size_t)n_models * (size_t)n_texts, sizeof *run->corpora);
    if (!run->corpora) return out_of_memory();
    if (needs_hashes(run)) locus_text_list_hash(&run->texts);
    int status = -1;
    for (int i = 0; i < n_models * n_texts && status < 0; i++) {
        const int model = i / n_texts;
        const struct locus_corpus_options options = {run->options->text.documents,
                                                     run->begins[model]};
        status =
            locus_text_encode(&run->corpora[i], &run->models[model], &run->texts.items[i % n_texts],
                              &options, run->options->common.quiet || model > 0);
    }
    return status;
}

/* Lengths where none were given; all have to suit the protocol, the shortest one the stride. */
static int settle_lengths(struct locus_extrapolate *run)
{
    struct locus_sweep *sweep = &run->sweep;
    if (sweep->n_lengths == 0) {
        sweep->lengths = run->lengths = calloc(LOCUS_DEFAULT_LENGTHS, sizeof *run->lengths);
        if (!run->lengths) return out_of_memory();
        sweep->n_lengths = locus_default_lengths(run->models[0].info.trained_length, run->lengths);
    }
    const int n_context = run->options->common.n_context;
    if (n_context && n_context < run->lengths[0])
        return locus_log_usage(command_name, "-c (--context) is %d, less than the longest %d",
                               n_context, run->lengths[0]);
    const struct locus_plan plan = locus_sweep_plan_at(sweep, run->lengths[sweep->n_lengths - 1]);
    return sweep->task < 0 ? locus_plan_refuse(&plan, command_name) : -1;
}

/* ---- the plan ----------------------------------------------------------------------------- */

/* Says which lengths a series can't serve, of those that can serve some. */
static void tell_refused(const struct locus_extrapolate *run)
{
    for (int i = 0; i < run->sweep.n_series && !run->options->common.quiet; i++) {
        const struct locus_series *series = &run->series[i];
        if (series->refused_from && series->label)
            locus_log_note("note: %s: no length from %d on: %s", run->models[series->model].name,
                           series->refused_from, series->refusal.message);
    }
}

/* Says which texts don't fill the longest windows; an error where none fills any. */
static int tell_longest(const struct locus_extrapolate *run)
{
    const struct locus_sweep *sweep = &run->sweep;
    const int shortest = run->lengths[sweep->n_lengths - 1];
    bool any = false;
    for (int i = 0; i < sweep->n_cells; i++)
        any |= sweep->cells[i].state == LOCUS_CELL_PENDING && !sweep->cells[i].past;
    for (int i = 0; i < run->texts.n_items; i++) {
        const struct locus_text *text = &run->texts.items[i];
        const int longest = locus_sweep_longest(sweep, i);
        if (!any && longest < shortest)
            return locus_log_error("%s: the longest window that it fills has %d tokens, fewer than "
                                   "the shortest length, %d",
                                   text->path, longest, shortest);
        if (longest < run->lengths[0] && !run->options->common.quiet)
            locus_log_note("note: %s: the longest window that it fills has %d tokens: no result "
                           "for lengths past that",
                           text->name, longest);
    }
    return -1;
}

static int plan(struct locus_extrapolate *run)
{
    struct locus_sweep *sweep = &run->sweep;
    locus_error error;
    sweep->params = locus_session_options(&run->options->common);
    sweep->by_position = run->options->by_position;
    sweep->n_trials = run->options->n_trials;
    sweep->seed = run->options->common.seed;
    int status = open_models(run);
    if (status < 0 && sweep->task < 0) status = encode_texts(run);
    if (status < 0) status = settle_lengths(run);
    if (status >= 0) return status;
    const bool planned = locus_sweep_plan(sweep, &error) == LOCUS_OK;
    tell_refused(run);
    if (!planned) return locus_log_refusal(command_name, &error);
    return sweep->task < 0 ? tell_longest(run) : -1;
}

/* What can't be written is better known before the sweep. */
static int check_outputs(struct locus_extrapolate *run)
{
    int status = locus_extrapolate_name_pictures(run);
    if (status >= 0) return status;
    const int n = 2 + run->n_pictures;
    const char **outputs = malloc((size_t)n * sizeof *outputs);
    if (!outputs) return out_of_memory();
    outputs[0] = run->options->csv;
    outputs[1] = run->options->json;
    for (int i = 2; i < n; i++)
        outputs[i] = run->pictures[i - 2];
    status = locus_outputs_apart(command_name, outputs, n, &run->texts);
    for (int i = 0; i < run->sweep.n_models * n && status < 0; i++)
        status = locus_output_apart(command_name, outputs[i % n], run->models[i / n].path);
    if (status < 0) status = locus_outputs_check(outputs + 1, n - 1, &run->held);
    free(outputs);
    return status;
}

/* ---- measuring ---------------------------------------------------------------------------- */

/* Says, in one line, why results that look as if they were there are computed again. The old rows
 * stay in the file. */
static void tell_changes(const struct locus_extrapolate *run,
                         const struct locus_sweep_changes *changes)
{
    const struct {
        const char *what, *name;
    } causes[] = {{"the model ", changes->model},
                  {"the text ", changes->text},
                  {"the version ", changes->version}};
    struct locus_buffer list = {0};
    if (changes->n_cells == 0 || run->options->common.quiet) return;
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (causes[i].name)
            locus_buffer_printf(&list, "%s%s%s", list.length ? " and " : "", causes[i].what,
                                causes[i].name);
    locus_log_note("note: %s: %d result%s computed again, as %s changed", run->options->csv,
                   changes->n_cells, changes->n_cells == 1 ? " is" : "s are",
                   list.failed ? "something" : list.bytes);
    locus_buffer_free(&list);
}

/* Opens --csv, and takes what it has already. */
static int open_csv(struct locus_extrapolate *run)
{
    const struct locus_extrapolate_options *options = run->options;
    struct locus_sweep_changes changes;
    locus_error error;
    if (!options->csv) return -1;
    run->has_csv = true;
    const enum locus_csv_mode mode = options->resume  ? LOCUS_CSV_RESUME
                                     : options->force ? LOCUS_CSV_REPLACE
                                                      : LOCUS_CSV_NEW;
    if (locus_csv_open(&run->csv, options->csv, mode, &error) ||
        locus_sweep_resume(&run->sweep, &run->csv, &changes, &error))
        return locus_output_failed(&error);
    tell_changes(run, &changes);
    return -1;
}

static bool stopped(void *context)
{
    (void)context;
    return locus_interrupted();
}

static void advance(void *context, double work)
{
    struct locus_extrapolate *run = context;
    locus_progress_advance(&run->progress, work);
}

/* What of a series' SPEC isn't the same in all, from a key or a name on; "": all of it is. */
static const char *own_part(const struct locus_extrapolate *run, int index)
{
    const char *label = run->series[index].label;
    size_t same = strlen(label), start = 0;
    bool differ = false;
    for (int i = 0; i < run->sweep.n_series; i++) {
        const char *other = run->series[i].label;
        size_t n = 0;
        while (other && n < same && other[n] == label[n])
            n++;
        differ |= other && strcmp(other, label) != 0;
        if (other) same = n;
    }
    for (size_t i = 0; i < same; i++)
        if (label[i] == ',' || label[i] == ':') start = i + 1;
    return differ ? label + start : "";
}

/* The bar says what tells the cell from the others. */
static void begin(void *context, const struct locus_cell *cell)
{
    struct locus_extrapolate *run = context;
    struct locus_buffer *label = &run->progress_label;
    const char *spec = own_part(run, cell->series);
    label->length = 0;
    locus_buffer_printf(label, "length %d", cell->length);
    if (*spec) locus_buffer_printf(label, ", %s", spec);
    if (run->sweep.n_models > 1)
        locus_buffer_printf(label, ", %s", run->models[run->series[cell->series].model].name);
    if (run->texts.n_items > 1 && cell->text < run->texts.n_items)
        locus_buffer_printf(label, ", %s", run->texts.items[cell->text].name);
    run->progress.label = label->failed ? "" : label->bytes;
}

static void give_up(void *context, const struct locus_cell *cell, const locus_error *error)
{
    struct locus_extrapolate *run = context;
    locus_progress_clear(&run->progress);
    locus_log_note("warning: %s, length %d: %s", run->series[cell->series].label, cell->length,
                   error->message);
}

static int measure(struct locus_extrapolate *run)
{
    const struct locus_sweep_watch watch = {
        .watch = {.context = run, .stopped = stopped, .advance = advance},
        .begin = begin,
        .give_up = give_up};
    const struct locus_sweep *sweep = &run->sweep;
    locus_error error;
    bool whole;
    locus_progress_begin(&run->progress, locus_sweep_work(sweep), run->options->common.quiet);
    enum locus_status status =
        locus_sweep_run(&run->sweep, run->has_csv ? &run->csv : NULL, &watch, &whole, &error);
    locus_progress_clear(&run->progress);
    if (status) return locus_output_failed(&error);
    if (whole) return -1;
    int n_done = 0;
    for (int i = 0; i < sweep->n_cells; i++)
        n_done += sweep->cells[i].state == LOCUS_CELL_DONE;
    if (!run->options->common.quiet)
        locus_log_note("interrupted: %d of %d results%s", n_done, sweep->n_cells,
                       run->has_csv ? "; --resume goes on from there" : "");
    return LOCUS_EXIT_INTERRUPTED;
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* Whether one cell at least has a result; those past a text's end have none. */
static bool has_result(const struct locus_sweep *sweep)
{
    for (int i = 0; i < sweep->n_cells; i++)
        if (sweep->cells[i].state == LOCUS_CELL_DONE && !sweep->cells[i].past) return true;
    return false;
}

/* Whatever there is is shown, though one part can't be written. A run that has nothing to show, why
 * being said, has failed. `measured`: -1, or the exit status of a run that was interrupted. */
static int report(const struct locus_extrapolate *run, int measured)
{
    int status = measured < 0 ? LOCUS_EXIT_DONE : measured;
    const bool nothing = measured < 0 && !has_result(&run->sweep);
    const int statuses[] = {run->stdout_taken ? LOCUS_EXIT_DONE : locus_extrapolate_print(run),
                            locus_extrapolate_write_json(run), locus_extrapolate_draw(run)};
    for (int i = 0; i < 3; i++)
        if (status == LOCUS_EXIT_DONE) status = statuses[i];
    return nothing ? LOCUS_EXIT_FAILED : status;
}

static void release(struct locus_extrapolate *run)
{
    locus_sweep_free(&run->sweep);
    locus_buffer_free(&run->progress_label);
    for (int i = 0; i < run->sweep.n_models * run->texts.n_items && run->corpora; i++)
        locus_corpus_free(&run->corpora[i]);
    for (int i = 0; i < run->sweep.n_models; i++)
        locus_opened_model_close(&run->models[i]);
    locus_outputs_release(&run->held);
    for (int i = 0; i < run->n_pictures; i++)
        free(run->pictures[i]);
    free(run->pictures);
    free(run->corpora);
    free(run->models);
    free(run->begins);
    free(run->model_options);
    free(run->series);
    free(run->lengths);
    locus_text_list_free(&run->texts);
    if (run->has_csv) locus_csv_close(&run->csv);
}

static int extrapolate(void *values, int n_operands, char **operands)
{
    struct locus_extrapolate run = {.options = values};
    locus_interrupt_watch();
    int status = read_options(&run, n_operands, operands);
    if (status < 0) status = plan(&run);
    if (status < 0) status = check_outputs(&run);
    if (status < 0) status = open_csv(&run);
    if (status < 0) {
        status = measure(&run);
        if (status < 0 || status == LOCUS_EXIT_INTERRUPTED) status = report(&run, status);
    }
    release(&run);
    return status;
}

const struct locus_command locus_command_extrapolate = {
    .name = "extrapolate",
    .summary = "Measure models and position schemes past the trained length.",
    .usage = "[-m FILE [-P SPEC]...]... -f TEXT... [--lengths LIST] [options]\n"
             "[-m FILE [-P SPEC]...]... --task NAME [--trials N] [options]",
    .details =
        "-m and -P repeat: a -P belongs to the -m before it, and a -m without one runs the "
        "model's own scheme.\n"
        "factor=auto in a SPEC becomes max(1, length / trained length), of a table max(1, "
        "(length - 1) / (rows - 1)): "
        "the last position is its last row.\n"
        "A length that a text fills no window of has no result: '-', and empty cells. Of several "
        "texts the pooled result needs all of them. --by-position takes the longest windows that "
        "are filled.\n"
        "Rows of the CSV come longest length first: a long window serves the shorter ones that "
        "start where it does. A run that was killed goes on with --resume, which takes a row "
        "only if model, text, version and all settings are the same, and of several the last. A "
        "file that holds anything is replaced by --force only.\n"
        "In CSVs an apostrophe stands before a text that a spreadsheet would take for a "
        "formula.\n"
        "Tasks are answered by the likeliest token, and right if all of the answer is. passkey "
        "is asked at eleven depths; --png draws a heat map a model and SPEC: FILE.png, or "
        "FILE-1.png, FILE-2.png and so on where there are several. A FILE that is - is standard "
        "output, which then carries that alone.",
    .shared = locus_text_option_table,
    .options = locus_extrapolate_table,
    .values_size = sizeof(struct locus_extrapolate_options),
    .takes_operands = true,
    .runs_session = true,
    .run = extrapolate,
};
