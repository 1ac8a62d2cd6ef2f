/* locus extrapolate: how far position schemes carry a model past its trained length.
 *
 *     options -> texts -> plan: a cell a row -> cells found in --csv (--resume) -> the others
 *     measured, each written as it is done -> table, JSON, picture
 *
 * Every step returns false when the run is over, with the exit status in run->status.
 */
#include "cli/commands/extrapolate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/output.h"
#include "cli/commands/commands.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"
#include "cli/kit/outputs.h"
#include "cli/kit/session_options.h"
#include "experiment/extrapolate.h"
#include "experiment/setting.h"

static bool fail(struct locus_extrapolate *run, const locus_error *error)
{
    locus_progress_clear(&run->progress);
    run->status = locus_output_failed(error);
    return false;
}

static bool out_of_memory(struct locus_extrapolate *run)
{
    locus_progress_clear(&run->progress);
    run->status = locus_log_error("out of memory for the results");
    return false;
}

/* Whether one of the outputs is standard output, or no file and asked to hold several pictures; -1,
 * or the exit status. */
static int check_streams(struct locus_extrapolate *run)
{
    const struct locus_extrapolate_options *options = run->options;
    const struct locus_output_request requests[] = {{"--csv", options->csv, .binary = false},
                                                    {"--json", options->json, .binary = false},
                                                    {"--png", options->png, .binary = true}};
    int status = locus_outputs_stdout("extrapolate", requests, 3, &run->stdout_taken);
    if (status >= 0) return status;
    if (options->resume && options->csv && locus_output_is_stdout(options->csv))
        return locus_log_usage("extrapolate", "--resume reads what --csv has: expected a file, "
                                              "found standard output");
    if (options->png && run->task == LOCUS_TASK_PASSKEY && run->n_contenders > 1 &&
        !locus_output_is_file(options->png))
        return locus_log_usage("extrapolate",
                               "--png %s: %d pictures, expected one for what is no file",
                               options->png, run->n_contenders);
    return -1;
}

static bool read_options(struct locus_extrapolate *run, int n_operands, char **operands)
{
    int status = locus_extrapolate_read_options(run);
    if (status < 0) status = check_streams(run);
    if (status < 0 && run->task < 0)
        status = locus_text_list_read(&run->texts, "extrapolate", &run->options->text.files,
                                      n_operands, operands);
    else if (status < 0 && n_operands > 0)
        status = locus_log_usage("extrapolate", "'%s' belongs to no option", operands[0]);
    if (status >= 0) run->status = status;
    return status < 0;
}

/* What can't be written is better known before the sweep. */
static bool check_outputs(struct locus_extrapolate *run)
{
    if (!locus_extrapolate_name_pictures(run)) return out_of_memory(run);
    const int n = 2 + run->n_pictures;
    const char **outputs = malloc((size_t)n * sizeof *outputs);
    if (!outputs) return out_of_memory(run);
    outputs[0] = run->options->csv;
    outputs[1] = run->options->json;
    for (int i = 2; i < n; i++)
        outputs[i] = run->pictures[i - 2];
    int status = locus_outputs_apart("extrapolate", outputs, n, &run->texts);
    for (int i = 0; i < run->n_subjects * n && status < 0; i++)
        status = locus_output_apart("extrapolate", outputs[i % n], run->subjects[i / n].path);
    if (status < 0) status = locus_outputs_check(outputs + 1, n - 1);
    free(outputs);
    if (status >= 0) run->status = status;
    return status < 0;
}

/* ---- cells done --------------------------------------------------------------------------- */

/* Says, in one line, why results that look as if they were there are computed again: rows that no
 * cell took are of another model, text or version of the same name. They stay in the file. */
static void note_outdated(const struct locus_extrapolate *run, const bool *taken)
{
    static const struct {
        enum locus_column column, name;
        const char *what;
    } causes[] = {{LOCUS_COLUMN_MODEL_SHA, LOCUS_COLUMN_MODEL, "the model "},
                  {LOCUS_COLUMN_TEXT_SHA, LOCUS_COLUMN_TEXT, "the text "},
                  {LOCUS_COLUMN_VERSION, LOCUS_COLUMN_VERSION, "the version "}};
    enum { N = sizeof causes / sizeof *causes };
    const char *changed[N] = {NULL};
    int n_again = 0, n_named = 0;
    for (int i = 0; i < run->n_cells; i++) {
        const struct locus_row *row = &run->cells[i].row;
        bool again = false;
        if (run->cells[i].state != LOCUS_CELL_PENDING) continue;
        for (int j = run->csv.n_rows - 1; j >= 0 && !again; j--) /* the newest tells */
            for (int k = 0; k < N && !taken[j]; k++) {
                if (!locus_row_is_outdated(&run->csv.rows[j], row, causes[k].column)) continue;
                again = true;
                if (!changed[k]) changed[k] = row->cells[causes[k].name];
            }
        n_again += again;
    }
    if (n_again == 0 || run->options->common.quiet) return;
    struct locus_buffer list = {0};
    for (int k = 0; k < N; k++)
        if (changed[k])
            locus_buffer_printf(&list, "%s%s%s", n_named++ ? " and " : "", causes[k].what,
                                changed[k]);
    locus_log_note("note: %s: %d results are computed again, as %s changed", run->options->csv,
                   n_again, list.failed ? "something" : list.bytes);
    locus_buffer_free(&list);
}

/* Cells that the CSV has already. */
static bool take_up(struct locus_extrapolate *run)
{
    locus_error error;
    if (!run->options->csv) return true;
    run->has_csv = true;
    const enum locus_csv_mode mode = run->options->resume  ? LOCUS_CSV_RESUME
                                     : run->options->force ? LOCUS_CSV_REPLACE
                                                           : LOCUS_CSV_NEW;
    if (locus_csv_open(&run->csv, run->options->csv, mode, &error)) return fail(run, &error);
    bool *taken = calloc((size_t)run->csv.n_rows + 1, sizeof *taken);
    if (!taken) return out_of_memory(run);
    for (int i = 0; i < run->n_cells; i++) {
        struct locus_cell *cell = &run->cells[i];
        const struct locus_row *found =
            cell->state == LOCUS_CELL_PENDING ? locus_csv_find(&run->csv, &cell->row) : NULL;
        if (!found) continue;
        taken[found - run->csv.rows] = true;
        locus_row_free(&cell->row);
        if (!locus_row_copy(&cell->row, found)) {
            free(taken);
            return out_of_memory(run);
        }
        cell->state = LOCUS_CELL_DONE;
    }
    note_outdated(run, taken);
    free(taken);
    return true;
}

static bool finish_cell(struct locus_extrapolate *run, struct locus_cell *cell)
{
    locus_error error;
    cell->state = LOCUS_CELL_DONE;
    return run->has_csv && locus_csv_add(&run->csv, &cell->row, &error) ? fail(run, &error) : true;
}

static bool finish_summary(struct locus_extrapolate *run, struct locus_cell *cell,
                           const struct locus_summary *summary, double seconds)
{
    bool set = locus_row_set_summary(&cell->row, summary);
    set &= locus_row_set_real(&cell->row, LOCUS_COLUMN_SECONDS, seconds);
    return set ? finish_cell(run, cell) : out_of_memory(run);
}

/* A cell that can't be measured after all: said, and left empty. */
static bool give_up(struct locus_extrapolate *run, struct locus_cell *cell,
                    const locus_error *error)
{
    if (error->status == LOCUS_ERROR_MEMORY) return fail(run, error);
    locus_progress_clear(&run->progress);
    locus_log_note("warning: %s, length %d: %s", run->contenders[cell->contender].label,
                   cell->length, error->message);
    cell->state = LOCUS_CELL_REFUSED;
    return true;
}

/* ---- watching ----------------------------------------------------------------------------- */

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

static bool interrupted(struct locus_extrapolate *run)
{
    run->status = LOCUS_EXIT_INTERRUPTED;
    return false;
}

/* The work of a cell, as `advance` counts it. */
static double cell_work(const struct locus_extrapolate *run, const struct locus_cell *cell)
{
    const struct locus_opened_model *subject =
        &run->subjects[run->contenders[cell->contender].subject];
    if (cell->state != LOCUS_CELL_PENDING || cell->past) return 0;
    if (cell->kind == LOCUS_CELL_TRIALS)
        return (double)run->options->n_trials *
               locus_extrapolate_setting(run, cell->contender, cell->setting)->n_tokens;
    if (cell->kind == LOCUS_CELL_POSITION || cell->text >= run->texts.n_items) return 0;
    const struct locus_plan plan = locus_extrapolate_plan_at(run, cell->length);
    return locus_plan_work(&plan, locus_extrapolate_corpus(run, cell->contender, cell->text),
                           subject->info.n_embd);
}

static void begin_progress(struct locus_extrapolate *run)
{
    double work = 0;
    for (int i = 0; i < run->n_cells; i++)
        work += cell_work(run, &run->cells[i]);
    locus_progress_begin(&run->progress, work, run->options->common.quiet);
}

/* ---- perplexity --------------------------------------------------------------------------- */

/* The cells of one contender on one text, and what measures them. */
struct stretch {
    struct locus_cell *cells;
    int n_cells;
    struct locus_extrapolation by_length;
    struct locus_extrapolation by_position; /* of its own where the protocol isn't `windows` */
};

static bool begin_stretch(struct locus_extrapolate *run, struct stretch *stretch,
                          const struct locus_watch *watch, const char **specs)
{
    const struct locus_cell *first = stretch->cells;
    const struct locus_contender *contender = &run->contenders[first->contender];
    struct locus_extrapolation e = {
        .model = run->subjects[contender->subject].model,
        .params = locus_session_options(&run->options->common),
        .corpus = locus_extrapolate_corpus(run, first->contender, first->text),
        .n_lengths = run->n_lengths,
        .specs = specs,
        .watch = watch,
    };
    e.params.position = contender->position;
    struct locus_plan *plans = malloc((size_t)run->n_lengths * sizeof *plans);
    if (!plans) return out_of_memory(run);
    for (int i = 0; i < run->n_lengths; i++) {
        specs[i] = locus_extrapolate_setting(run, first->contender, i)->spec;
        plans[i] = locus_extrapolate_plan_at(run, run->lengths[i]);
    }
    stretch->by_length = stretch->by_position = e;
    locus_error error;
    bool begun = locus_extrapolation_init(&stretch->by_length, plans, &error) == LOCUS_OK;
    if (begun && run->options->by_position && run->plan.protocol != LOCUS_WINDOWS) {
        for (int i = 0; i < run->n_lengths; i++)
            plans[i] = locus_extrapolate_bucket_plan(run, run->lengths[i]);
        begun = locus_extrapolation_init(&stretch->by_position, plans, &error) == LOCUS_OK;
    }
    free(plans);
    return begun ? true : fail(run, &error);
}

static bool measure_cell(struct locus_extrapolate *run, struct stretch *stretch,
                         struct locus_cell *cell)
{
    const bool bucket = cell->kind == LOCUS_CELL_POSITION;
    struct locus_extrapolation *e =
        bucket && run->plan.protocol != LOCUS_WINDOWS ? &stretch->by_position : &stretch->by_length;
    locus_error error;
    bool whole;
    const double start = locus_now();
    if (locus_extrapolation_measure(e, cell->setting, &whole, &error))
        return give_up(run, cell, &error);
    if (!whole) return interrupted(run);
    const struct locus_losses *losses = &e->losses[cell->setting];
    const struct locus_summary summary =
        bucket ? locus_summary_of_rows(losses, e->corpus, cell->first, cell->length)
               : locus_summary_of(losses, e->corpus);
    return finish_summary(run, cell, &summary, locus_now() - start);
}

/* The pooled row of a setting, once every text has its own. */
static bool pool_cell(struct locus_extrapolate *run, struct locus_cell *cell)
{
    const int n_texts = run->texts.n_items;
    const struct locus_row **rows = malloc((size_t)n_texts * sizeof *rows);
    if (!rows) return out_of_memory(run);
    int n = 0;
    for (int i = 0; i < n_texts; i++) {
        const struct locus_cell *part =
            locus_extrapolate_cell(run, cell->kind, cell->contender, i, cell->length, cell->depth);
        if (part && part->state == LOCUS_CELL_DONE) rows[n++] = &part->row;
    }
    const double expected = locus_row_number(&cell->row, LOCUS_COLUMN_TOKENS);
    locus_row_free(&cell->row);
    bool pooled = n == 0 || locus_row_pool(&cell->row, rows, n, run->texts.sha);
    free(rows);
    if (!pooled) return out_of_memory(run);
    if (locus_row_number(&cell->row, LOCUS_COLUMN_TOKENS) == expected)
        return finish_cell(run, cell);
    cell->state = LOCUS_CELL_REFUSED; /* as one of its texts was */
    return true;
}

static bool run_stretch(struct locus_extrapolate *run, struct stretch *stretch)
{
    const int text = stretch->cells->text;
    bool pending = false;
    for (int i = 0; i < stretch->n_cells; i++)
        pending |= stretch->cells[i].state == LOCUS_CELL_PENDING;
    if (!pending) return true;
    const struct locus_watch watch = {.context = run, .stopped = stopped, .advance = advance};
    const char **specs = calloc((size_t)run->n_lengths, sizeof *specs);
    if (!specs) return out_of_memory(run);
    bool going = text == run->texts.n_items || begin_stretch(run, stretch, &watch, specs);
    run->progress.label = run->contenders[stretch->cells->contender].label;
    for (int i = 0; i < stretch->n_cells && going; i++) {
        struct locus_cell *cell = &stretch->cells[i];
        if (cell->state != LOCUS_CELL_PENDING) continue;
        going = cell->past                   ? finish_cell(run, cell)
                : text == run->texts.n_items ? pool_cell(run, cell)
                                             : measure_cell(run, stretch, cell);
    }
    locus_extrapolation_free(&stretch->by_length);
    locus_extrapolation_free(&stretch->by_position);
    free(specs);
    return going;
}

static bool measure_texts(struct locus_extrapolate *run)
{
    for (int i = 0; i < run->n_cells;) {
        struct stretch stretch = {.cells = &run->cells[i]};
        while (i < run->n_cells && run->cells[i].contender == stretch.cells->contender &&
               run->cells[i].text == stretch.cells->text)
            i++, stretch.n_cells++;
        if (!run_stretch(run, &stretch)) return false;
    }
    return true;
}

/* ---- tasks -------------------------------------------------------------------------------- */

static bool measure_trials(struct locus_extrapolate *run, struct locus_cell *cell,
                           locus_session *session)
{
    const struct locus_contender *contender = &run->contenders[cell->contender];
    const struct locus_opened_model *subject = &run->subjects[contender->subject];
    const struct locus_watch watch = {.context = run, .stopped = stopped, .advance = advance};
    const struct locus_trials trials = {.task = (enum locus_task)run->task,
                                        .length = cell->length,
                                        .n_trials = run->options->n_trials,
                                        .depth = cell->depth < 0 ? 0 : cell->depth,
                                        .seed = run->options->common.seed,
                                        .begin = run->begins[contender->subject].token};
    locus_error error;
    int n_right;
    bool whole;
    const double start = locus_now();
    if (locus_trials_run(&trials, subject->model, subject->tokenizer, session, &watch, &n_right,
                         &whole, &error))
        return give_up(run, cell, &error);
    if (!whole) return interrupted(run);
    const double n = trials.n_trials, share = n_right / n;
    bool set = locus_row_set_real(&cell->row, LOCUS_COLUMN_ACCURACY, share);
    set &=
        locus_row_set_real(&cell->row, LOCUS_COLUMN_STANDARD_ERROR, sqrt(share * (1 - share) / n));
    set &= locus_row_set_real(&cell->row, LOCUS_COLUMN_SECONDS, locus_now() - start);
    return set ? finish_cell(run, cell) : out_of_memory(run);
}

/* Cells of one setting follow each other and share its session. */
static bool measure_task(struct locus_extrapolate *run)
{
    const struct locus_setting *setting = NULL;
    locus_session *session = NULL;
    bool going = true;
    for (int i = 0; i < run->n_cells && going; i++) {
        struct locus_cell *cell = &run->cells[i];
        const struct locus_contender *contender = &run->contenders[cell->contender];
        if (cell->state != LOCUS_CELL_PENDING) continue;
        const struct locus_setting *needed =
            locus_extrapolate_setting(run, cell->contender, cell->setting);
        if (needed != setting) {
            locus_session_params params = locus_session_options(&run->options->common);
            locus_error error;
            params.position = contender->position;
            locus_session_free(session);
            session = locus_session_for_length(run->subjects[contender->subject].model, &params,
                                               needed->n_tokens, &error);
            if (!session) return fail(run, &error);
            setting = needed;
        }
        run->progress.label = contender->label;
        going = measure_trials(run, cell, session);
    }
    locus_session_free(session);
    return going;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static bool measure(struct locus_extrapolate *run)
{
    begin_progress(run);
    bool going = run->task < 0 ? measure_texts(run) : measure_task(run);
    locus_progress_clear(&run->progress);
    if (run->status == LOCUS_EXIT_INTERRUPTED && !run->options->common.quiet) {
        int n_done = 0;
        for (int i = 0; i < run->n_cells; i++)
            n_done += run->cells[i].state == LOCUS_CELL_DONE;
        locus_log_note("interrupted: %d of %d results%s", n_done, run->n_cells,
                       run->has_csv ? "; --resume goes on from there" : "");
    }
    return going;
}

/* Whether one cell at least has a result; those past a text's end have none. */
static bool has_result(const struct locus_extrapolate *run)
{
    for (int i = 0; i < run->n_cells; i++)
        if (run->cells[i].state == LOCUS_CELL_DONE && !run->cells[i].past) return true;
    return false;
}

/* Whatever there is is shown, though one part can't be written. A run that has nothing to show, why
 * being said, has failed. */
static void report(struct locus_extrapolate *run)
{
    const bool nothing = run->status == LOCUS_EXIT_DONE && !has_result(run);
    int statuses[] = {run->stdout_taken ? LOCUS_EXIT_DONE : locus_extrapolate_print(run),
                      locus_extrapolate_write_json(run), locus_extrapolate_draw(run)};
    for (int i = 0; i < 3; i++)
        if (run->status == LOCUS_EXIT_DONE) run->status = statuses[i];
    if (nothing) run->status = LOCUS_EXIT_FAILED;
}

static void release(struct locus_extrapolate *run)
{
    for (int i = 0; i < run->n_cells; i++)
        locus_row_free(&run->cells[i].row);
    for (int i = 0; i < run->n_contenders * run->n_lengths && run->settings; i++) {
        locus_row_free(&run->settings[i].row);
        free(run->settings[i].spec);
    }
    for (int i = 0; i < run->n_subjects * run->texts.n_items && run->corpora; i++)
        locus_corpus_free(&run->corpora[i]);
    for (int i = 0; i < run->n_subjects; i++)
        locus_opened_model_close(&run->subjects[i]);
    for (int i = 0; i < run->n_contenders; i++)
        free(run->contenders[i].label);
    for (int i = 0; i < run->n_pictures; i++)
        free(run->pictures[i]);
    free(run->pictures);
    free(run->cells);
    free(run->settings);
    free(run->corpora);
    free(run->subjects);
    free(run->begins);
    free(run->contenders);
    free(run->lengths);
    locus_text_list_free(&run->texts);
    if (run->has_csv) locus_csv_close(&run->csv);
}

static int extrapolate(void *values, int n_operands, char **operands)
{
    struct locus_extrapolate run = {.options = values};
    locus_interrupt_watch();
    if (read_options(&run, n_operands, operands) && locus_extrapolate_plan(&run) &&
        check_outputs(&run) && take_up(&run) &&
        (measure(&run) || run.status == LOCUS_EXIT_INTERRUPTED))
        report(&run);
    release(&run);
    return run.status;
}

const struct locus_command locus_command_extrapolate = {
    .name = "extrapolate",
    .summary = "Measure models and position schemes past the trained length.",
    .usage = "[-m FILE [-P SPEC]...]... -f TEXT... [--lengths LIST] [options]\n"
             "[-m FILE [-P SPEC]...]... --task NAME [--trials N] [options]",
    .details =
        "-m and -P repeat: a -P belongs to the -m before it, and a -m without one runs the model's "
        "own scheme.\nfactor=auto in a SPEC becomes max(1, length / trained length), of a table "
        "max(1, (length - 1) / (rows - 1)):\nthe last position is its last row.\n"
        "A length that a text fills no window of has no result: '-', and empty cells. Of several "
        "texts the pooled\nresult needs all of them. --by-position takes the longest windows that "
        "are filled.\n"
        "Rows of the CSV come longest length first: a long window serves the shorter ones that "
        "start where it\ndoes. A run that was killed goes on with --resume, which takes a row only "
        "if model, text, version and all\nsettings are the same, and of several the last. A file "
        "that holds anything is replaced by --force only.\nIn CSVs an apostrophe stands before a "
        "text that a spreadsheet would take for a formula.\n"
        "Tasks are answered by the likeliest token, and right if all of the answer is. passkey is "
        "asked at eleven\ndepths; --png draws a heat map a model and SPEC: FILE.png, or "
        "FILE-1.png, "
        "FILE-2.png and so on where there\nare several. A FILE that is - is standard output, which "
        "then carries that alone.",
    .shared = locus_text_option_table,
    .options = locus_extrapolate_table,
    .values_size = sizeof(struct locus_extrapolate_options),
    .takes_operands = true,
    .runs_session = true,
    .run = extrapolate,
};
