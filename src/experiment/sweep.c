/* A sweep's cells, found or measured: see sweep.h. */
#include "experiment/sweep.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "forward/session.h"

/* ---- cells done before -------------------------------------------------------------------- */

/* Rows that no cell took and that are of another model, text or version of the same name: their
 * results are measured again. */
static void find_changes(const struct locus_sweep *sweep, const struct locus_csv *csv,
                         const bool *taken, struct locus_sweep_changes *changes)
{
    const struct {
        enum locus_column column, name;
        const char **changed;
    } causes[] = {{LOCUS_COLUMN_MODEL_SHA, LOCUS_COLUMN_MODEL, &changes->model},
                  {LOCUS_COLUMN_TEXT_SHA, LOCUS_COLUMN_TEXT, &changes->text},
                  {LOCUS_COLUMN_VERSION, LOCUS_COLUMN_VERSION, &changes->version}};
    for (int i = 0; i < sweep->n_cells; i++) {
        const struct locus_row *row = &sweep->cells[i].row;
        bool again = false;
        if (sweep->cells[i].state != LOCUS_CELL_PENDING) continue;
        for (int j = csv->n_rows - 1; j >= 0 && !again; j--) /* the newest tells */
            for (size_t k = 0; k < sizeof causes / sizeof *causes && !taken[j]; k++) {
                if (!locus_row_is_outdated(&csv->rows[j], row, causes[k].column)) continue;
                again = true;
                if (!*causes[k].changed) *causes[k].changed = row->cells[causes[k].name];
            }
        changes->n_cells += again;
    }
}

enum locus_status locus_sweep_resume(struct locus_sweep *sweep, const struct locus_csv *csv,
                                     struct locus_sweep_changes *changes, locus_error *error)
{
    const size_t n_bytes = (size_t)csv->n_rows + 1;
    bool *taken = calloc(n_bytes, sizeof *taken);
    *changes = (struct locus_sweep_changes){.n_cells = 0};
    if (!taken) return locus_fail_memory(error, n_bytes);
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < sweep->n_cells && !status; i++) {
        struct locus_cell *cell = &sweep->cells[i];
        const struct locus_row *found =
            cell->state == LOCUS_CELL_PENDING ? locus_csv_find(csv, &cell->row) : NULL;
        if (!found) continue;
        taken[found - csv->rows] = true;
        locus_row_free(&cell->row);
        if (!locus_row_copy(&cell->row, found)) status = locus_fail_memory(error, sizeof *found);
        cell->state = LOCUS_CELL_DONE;
    }
    if (!status) find_changes(sweep, csv, taken, changes);
    free(taken);
    return status;
}

/* ---- cells being done --------------------------------------------------------------------- */

struct run {
    struct locus_sweep *sweep;
    struct locus_csv *csv; /* NULL: none */
    const struct locus_sweep_watch *watch;
    bool whole; /* nothing has stopped it */
    locus_error *error;
};

static enum locus_status out_of_memory(const struct run *run)
{
    return locus_fail_memory(run->error, sizeof(struct locus_row));
}

static enum locus_status finish(const struct run *run, struct locus_cell *cell)
{
    cell->state = LOCUS_CELL_DONE;
    return run->csv ? locus_csv_add(run->csv, &cell->row, run->error) : LOCUS_OK;
}

/* A cell that can't be measured after all is left empty. */
static enum locus_status give_up(const struct run *run, struct locus_cell *cell,
                                 const locus_error *reason)
{
    if (reason->status == LOCUS_ERROR_MEMORY) {
        if (run->error) *run->error = *reason;
        return reason->status;
    }
    if (run->watch->give_up) run->watch->give_up(run->watch->watch.context, cell, reason);
    cell->state = LOCUS_CELL_REFUSED;
    return LOCUS_OK;
}

static enum locus_status copy_twin(const struct run *run, struct locus_cell *cell)
{
    const struct locus_cell *twin = &run->sweep->cells[cell->twin];
    locus_row_free(&cell->row);
    cell->state = twin->state;
    return locus_row_copy(&cell->row, &twin->row) ? LOCUS_OK : out_of_memory(run);
}

/* Does what needs no measuring; *pending is whether that is not all. */
static enum locus_status settle(const struct run *run, struct locus_cell *cell, bool *pending)
{
    *pending = false;
    if (cell->state != LOCUS_CELL_PENDING) return LOCUS_OK;
    if (cell->twin >= 0) return copy_twin(run, cell);
    if (cell->past) return finish(run, cell);
    *pending = true;
    return LOCUS_OK;
}

static bool is_to_be_measured(const struct locus_cell *cell)
{
    return cell->state == LOCUS_CELL_PENDING && cell->twin < 0 && !cell->past;
}

/* A cell's work, as `advance` counts it: windows that are filled already count, too. */
static double work_of(const struct locus_sweep *sweep, const struct locus_cell *cell)
{
    const struct locus_opened_model *model = &sweep->models[sweep->series[cell->series].model];
    const struct locus_point *point = locus_sweep_point(sweep, cell->series, cell->point);
    if (!is_to_be_measured(cell)) return 0;
    if (cell->kind == LOCUS_CELL_TRIALS) return (double)sweep->n_trials * point->n_tokens;
    if (cell->text == locus_sweep_n_texts(sweep)) return 0;
    const struct locus_plan plan = cell->kind == LOCUS_CELL_POSITION
                                       ? locus_sweep_bucket_plan(sweep, sweep->lengths[cell->point])
                                       : locus_sweep_plan_at(sweep, cell->length);
    return locus_plan_work(&plan, locus_sweep_corpus(sweep, cell->series, cell->text),
                           model->info.n_embd);
}

double locus_sweep_work(const struct locus_sweep *sweep)
{
    double work = 0;
    for (int i = 0; i < sweep->n_cells; i++)
        work += work_of(sweep, &sweep->cells[i]);
    return work;
}

/* The session of a series at lengths[index]. */
static locus_session *open_point(const struct locus_sweep *sweep, int series, int index,
                                 locus_error *error)
{
    const struct locus_session_extras extras = {
        .description = &locus_sweep_point(sweep, series, index)->session};
    return locus_session_create_with(sweep->models[sweep->series[series].model].model, NULL,
                                     &extras, error);
}

/* ---- perplexity --------------------------------------------------------------------------- */

/* A series on a text at every length, for no more forward passes than they need: a long window
 * serves shorter ones that start where it does, as long as the SPEC resolves to the same for both.
 */
struct windows {
    const struct locus_sweep *sweep;
    int series;
    const struct locus_corpus *corpus;
    struct locus_losses *losses; /* [n_lengths], longest first; those measured hold numbers */
    locus_session *session;      /* NULL, or of lengths[session_index] */
    int session_index;
};

static enum locus_status open_windows(struct windows *windows, const struct locus_cell *cell,
                                      bool by_position, const struct run *run)
{
    const struct locus_sweep *sweep = run->sweep;
    *windows =
        (struct windows){.sweep = sweep,
                         .series = cell->series,
                         .corpus = locus_sweep_corpus(sweep, cell->series, cell->text),
                         .losses = calloc((size_t)sweep->n_lengths, sizeof *windows->losses)};
    if (!windows->losses) return out_of_memory(run);
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < sweep->n_lengths && !status; i++) {
        const struct locus_plan plan = by_position
                                           ? locus_sweep_bucket_plan(sweep, sweep->lengths[i])
                                           : locus_sweep_plan_at(sweep, sweep->lengths[i]);
        status = locus_losses_init(&windows->losses[i], &plan, windows->corpus, run->error);
    }
    return status;
}

static void close_windows(struct windows *windows)
{
    for (int i = 0; windows->losses && i < windows->sweep->n_lengths; i++)
        locus_losses_free(&windows->losses[i]);
    free(windows->losses);
    locus_session_free(windows->session);
}

static bool same_spec(const struct windows *windows, int a, int b)
{
    return locus_points_agree(locus_sweep_point(windows->sweep, windows->series, a),
                              locus_sweep_point(windows->sweep, windows->series, b));
}

/* Measures at lengths[index], and what falls off for the shorter ones. */
static enum locus_status measure_windows(struct windows *windows, int index,
                                         const struct locus_watch *watch, bool *whole,
                                         locus_error *error)
{
    const struct locus_sweep *sweep = windows->sweep;
    struct locus_losses *losses = &windows->losses[index];
    if (windows->session &&
        (windows->session_index > index || !same_spec(windows, windows->session_index, index))) {
        locus_session_free(windows->session);
        windows->session = NULL;
    }
    if (!windows->session) {
        windows->session = open_point(sweep, windows->series, index, error);
        if (!windows->session) return LOCUS_ERROR_UNSUPPORTED;
        windows->session_index = index;
    }
    int n = 1;
    while (index + n < sweep->n_lengths && same_spec(windows, index, index + n))
        n++;
    return locus_measure(windows->session, windows->corpus, losses, n, watch, whole, error);
}

static enum locus_status measure_cell(struct run *run, struct windows *windows,
                                      struct locus_cell *cell)
{
    locus_error reason;
    const double start = locus_now();
    if (measure_windows(windows, cell->point, &run->watch->watch, &run->whole, &reason))
        return give_up(run, cell, &reason);
    if (!run->whole) return LOCUS_OK;
    const struct locus_losses *losses = &windows->losses[cell->point];
    const struct locus_summary summary =
        cell->kind == LOCUS_CELL_POSITION
            ? locus_summary_of_rows(losses, windows->corpus, cell->first, cell->length)
            : locus_summary_of(losses, windows->corpus);
    bool set = locus_row_set_summary(&cell->row, &summary);
    set &= locus_row_set_real(&cell->row, LOCUS_COLUMN_SECONDS, locus_now() - start);
    return set ? finish(run, cell) : out_of_memory(run);
}

/* The pooled row, once every text has its own. */
static enum locus_status pool_cell(const struct run *run, struct locus_cell *cell)
{
    const struct locus_sweep *sweep = run->sweep;
    const int n_texts = locus_sweep_n_texts(sweep);
    const struct locus_row **rows = malloc((size_t)n_texts * sizeof *rows);
    if (!rows) return out_of_memory(run);
    int n = 0;
    for (int i = 0; i < n_texts; i++) {
        const struct locus_cell *part =
            locus_sweep_cell(sweep, cell->kind, cell->series, i, cell->length, cell->depth);
        if (part && part->state == LOCUS_CELL_DONE) rows[n++] = &part->row;
    }
    const double expected = locus_row_number(&cell->row, LOCUS_COLUMN_TOKENS);
    locus_row_free(&cell->row);
    const bool pooled = n == 0 || locus_row_pool(&cell->row, rows, n, sweep->texts->sha);
    free(rows);
    if (!pooled) return out_of_memory(run);
    if (locus_row_number(&cell->row, LOCUS_COLUMN_TOKENS) == expected) return finish(run, cell);
    cell->state = LOCUS_CELL_REFUSED; /* as one of its texts was */
    return LOCUS_OK;
}

/* Cells [first, first + n): a series on a text, or on all of them pooled. */
static enum locus_status measure_text(struct run *run, struct locus_cell *cells, int n)
{
    const struct locus_sweep *sweep = run->sweep;
    const bool pooled = cells->text == locus_sweep_n_texts(sweep);
    /* Buckets have windows of their own where the protocol's are not side by side. */
    const bool own_buckets = sweep->by_position && sweep->plan.protocol != LOCUS_WINDOWS;
    struct windows by_length = {.losses = NULL}, by_position = {.losses = NULL};
    enum locus_status status = LOCUS_OK;
    bool any = false;
    for (int i = 0; i < n; i++)
        any |= is_to_be_measured(&cells[i]);
    if (any && !pooled) status = open_windows(&by_length, cells, false, run);
    if (any && !pooled && own_buckets && !status)
        status = open_windows(&by_position, cells, true, run);
    for (int i = 0; i < n && !status && run->whole; i++) {
        struct locus_cell *cell = &cells[i];
        bool pending;
        status = settle(run, cell, &pending);
        if (status || !pending) continue;
        if (run->watch->begin) run->watch->begin(run->watch->watch.context, cell);
        const bool bucket = cell->kind == LOCUS_CELL_POSITION && own_buckets;
        status = pooled ? pool_cell(run, cell)
                        : measure_cell(run, bucket ? &by_position : &by_length, cell);
    }
    close_windows(&by_length);
    close_windows(&by_position);
    return status;
}

static enum locus_status measure_texts(struct run *run)
{
    struct locus_cell *cells = run->sweep->cells;
    enum locus_status status = LOCUS_OK;
    for (int i = 0, n; i < run->sweep->n_cells && !status && run->whole; i += n) {
        for (n = 1; i + n < run->sweep->n_cells && cells[i + n].series == cells[i].series &&
                    cells[i + n].text == cells[i].text;)
            n++;
        status = measure_text(run, &cells[i], n);
    }
    return status;
}

/* ---- tasks -------------------------------------------------------------------------------- */

static enum locus_status measure_trials(struct run *run, struct locus_cell *cell,
                                        locus_session *session)
{
    const struct locus_sweep *sweep = run->sweep;
    const int index = sweep->series[cell->series].model;
    const struct locus_opened_model *model = &sweep->models[index];
    const struct locus_trials trials = {.task = (enum locus_task)sweep->task,
                                        .length = cell->length,
                                        .n_trials = sweep->n_trials,
                                        .depth = cell->depth < 0 ? 0 : cell->depth,
                                        .seed = sweep->seed,
                                        .begin = sweep->begins[index].token};
    locus_error reason;
    int n_right;
    const double start = locus_now();
    if (locus_trials_run(&trials, model->model, model->tokenizer, session, &run->watch->watch,
                         &n_right, &run->whole, &reason))
        return give_up(run, cell, &reason);
    if (!run->whole) return LOCUS_OK;
    const double n = trials.n_trials, share = n_right / n;
    struct locus_row *row = &cell->row;
    bool set = locus_row_set_real(row, LOCUS_COLUMN_ACCURACY, share);
    set &= locus_row_set_real(row, LOCUS_COLUMN_STANDARD_ERROR, sqrt(share * (1 - share) / n));
    set &= locus_row_set_real(row, LOCUS_COLUMN_SECONDS, locus_now() - start);
    return set ? finish(run, cell) : out_of_memory(run);
}

/* Cells of one point follow each other and share its session. */
static enum locus_status measure_task(struct run *run)
{
    const struct locus_sweep *sweep = run->sweep;
    const struct locus_point *open = NULL;
    locus_session *session = NULL;
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < sweep->n_cells && !status && run->whole; i++) {
        struct locus_cell *cell = &sweep->cells[i];
        bool pending;
        status = settle(run, cell, &pending);
        if (status || !pending) continue;
        const struct locus_point *point = locus_sweep_point(sweep, cell->series, cell->point);
        if (point != open) {
            locus_session_free(session);
            session = open_point(sweep, cell->series, cell->point, run->error);
            if (!session) return LOCUS_ERROR_UNSUPPORTED;
            open = point;
        }
        if (run->watch->begin) run->watch->begin(run->watch->watch.context, cell);
        status = measure_trials(run, cell, session);
    }
    locus_session_free(session);
    return status;
}

enum locus_status locus_sweep_run(struct locus_sweep *sweep, struct locus_csv *csv,
                                  const struct locus_sweep_watch *watch, bool *whole,
                                  locus_error *error)
{
    const struct locus_sweep_watch nobody = {.begin = NULL};
    struct run run = {.sweep = sweep,
                      .csv = csv,
                      .watch = watch ? watch : &nobody,
                      .whole = true,
                      .error = error};
    enum locus_status status = sweep->task < 0 ? measure_texts(&run) : measure_task(&run);
    *whole = run.whole;
    return status;
}
