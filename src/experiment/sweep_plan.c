/* A sweep's points and cells, before anything is measured: see sweep.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/sweep.h"

static enum locus_status out_of_memory(locus_error *error)
{
    return locus_fail_memory(error, sizeof(struct locus_cell));
}

int locus_default_lengths(int trained_length, int lengths[LOCUS_DEFAULT_LENGTHS])
{
    int n = 0;
    for (int64_t length = 8 * (int64_t)trained_length; length > 0 && n < LOCUS_DEFAULT_LENGTHS;
         length /= 2)
        if (length <= INT32_MAX) lengths[n++] = (int)length;
    return n;
}

struct locus_plan locus_sweep_plan_at(const struct locus_sweep *sweep, int length)
{
    return locus_plan_at(sweep->plan, length);
}

struct locus_plan locus_sweep_bucket_plan(const struct locus_sweep *sweep, int length)
{
    return (struct locus_plan){LOCUS_WINDOWS, length, 0, sweep->plan.first};
}

/* ---- points ------------------------------------------------------------------------------- */

static const char *task_name(const struct locus_sweep *sweep)
{
    return sweep->task < 0 ? "perplexity" : locus_task_name((enum locus_task)sweep->task);
}

/* Positions that a series' session needs for a length. */
static enum locus_status count_tokens(const struct locus_sweep *sweep, int model, int length,
                                      int *n_tokens, locus_error *error)
{
    const struct locus_trials trials = {.task = (enum locus_task)sweep->task,
                                        .length = length,
                                        .n_trials = sweep->n_trials,
                                        .seed = sweep->seed,
                                        .begin = sweep->begins[model].token};
    locus_error failure;
    *n_tokens = length;
    if (sweep->task < 0) return LOCUS_OK;
    enum locus_status status =
        locus_trials_tokens(&trials, sweep->models[model].tokenizer, n_tokens, &failure);
    return status ? locus_fail(error, status, "%s: %s", sweep->models[model].name, failure.message)
                  : LOCUS_OK;
}

static enum locus_status fill_point(const struct locus_sweep *sweep, struct locus_series *series,
                                    struct locus_point *point, int length, locus_error *error)
{
    const struct locus_opened_model *model = &sweep->models[series->model];
    const int n_texts = locus_sweep_n_texts(sweep);
    enum locus_status status = count_tokens(sweep, series->model, length, &point->n_tokens, error);
    if (status) return status;
    const int n_positions =
        n_texts ? locus_corpora_longest(&sweep->corpora[series->model * n_texts], n_texts)
                : point->n_tokens;
    locus_session_params params = sweep->params;
    params.position = series->position;
    locus_error refusal;
    status = locus_describe_for_text(&point->session, model->model, &params, point->n_tokens,
                                     n_positions, &refusal);
    if (!status) {
        point->served = true;
        if (!locus_row_set_session(&point->row, task_name(sweep), model, &point->session))
            status = out_of_memory(error);
    } else if (status == LOCUS_ERROR_MEMORY)
        status = locus_fail(error, status, "%s: %s", model->name, refusal.message);
    else {
        series->refused_from = length;
        series->refusal = refusal;
        status = LOCUS_OK;
    }
    return status;
}

/* The first series before this one that is the same at a length. */
static int find_same(const struct locus_sweep *sweep, int series, int index)
{
    for (int i = 0; i < series; i++)
        if (sweep->series[i].model == sweep->series[series].model &&
            locus_points_agree(locus_sweep_point(sweep, i, index),
                               locus_sweep_point(sweep, series, index)))
            return i;
    return -1;
}

static enum locus_status fill_series(struct locus_sweep *sweep, int index, locus_error *error)
{
    struct locus_series *series = &sweep->series[index];
    const struct locus_point *longest = NULL, *shortest = NULL; /* of those served */
    for (int i = 0; i < sweep->n_lengths; i++) {
        struct locus_point *point = locus_sweep_point(sweep, index, i);
        enum locus_status status = fill_point(sweep, series, point, sweep->lengths[i], error);
        if (status) return status;
        if (point->served) shortest = point;
        if (!longest) longest = shortest;
        point->same_as = find_same(sweep, index, i);
    }
    if (!longest) {
        if (error) *error = series->refusal;
        return series->refusal.status;
    }
    struct locus_buffer label = {0};
    locus_layer_specs_print_range(&shortest->session.specs, &longest->session.specs, &label);
    if (label.failed) locus_buffer_free(&label);
    series->label = label.bytes;
    return label.bytes ? LOCUS_OK : out_of_memory(error);
}

/* ---- cells -------------------------------------------------------------------------------- */

/* Appends the cell, its row begun with its point's. */
static enum locus_status add_cell(struct locus_sweep *sweep, const struct locus_cell *cell,
                                  locus_error *error)
{
    struct locus_cell *cells = realloc(sweep->cells, ((size_t)sweep->n_cells + 1) * sizeof *cells);
    if (!cells) return out_of_memory(error);
    sweep->cells = cells;
    struct locus_cell *added = &cells[sweep->n_cells++];
    *added = *cell;
    const struct locus_point *point = locus_sweep_point(sweep, cell->series, cell->point);
    if (!point->served) added->state = LOCUS_CELL_REFUSED;
    return locus_row_copy(&added->row, &point->row) ? LOCUS_OK : out_of_memory(error);
}

/* Predictions of a cell on one text. */
static int64_t count_predictions(const struct locus_sweep *sweep, const struct locus_cell *cell,
                                 const struct locus_plan *plan, int text)
{
    const struct locus_corpus *corpus = locus_sweep_corpus(sweep, cell->series, text);
    return cell->kind == LOCUS_CELL_POSITION
               ? locus_corpus_rows(corpus, plan, cell->first, cell->length)
               : locus_corpus_predictions(corpus, plan);
}

/* Appends a cell of perplexity, and says in its row what its plan is. */
static enum locus_status add_planned(struct locus_sweep *sweep, const struct locus_cell *planned,
                                     locus_error *error)
{
    enum locus_status status = add_cell(sweep, planned, error);
    if (status) return status;
    struct locus_cell *cell = &sweep->cells[sweep->n_cells - 1];
    const int n_texts = locus_sweep_n_texts(sweep);
    const bool pooled = cell->text == n_texts, bucket = cell->kind == LOCUS_CELL_POSITION;
    const int first = pooled ? 0 : cell->text, end = pooled ? n_texts : cell->text + 1;
    const struct locus_text *text = &sweep->texts->items[first];
    const struct locus_plan plan = bucket
                                       ? locus_sweep_bucket_plan(sweep, sweep->lengths[cell->point])
                                       : locus_sweep_plan_at(sweep, cell->length);
    int64_t n = 0;
    int longest = plan.length;
    for (int i = first; i < end; i++) {
        const int fills = locus_corpus_longest(locus_sweep_corpus(sweep, cell->series, i), &plan);
        if (fills < longest) longest = fills;
        n += count_predictions(sweep, cell, &plan, i);
    }
    cell->past = longest < plan.length;
    if (n == 0 && !cell->past) cell->state = LOCUS_CELL_REFUSED; /* an empty bucket */
    struct locus_row *row = &cell->row;
    bool set = locus_row_set_plan(row, pooled ? "pooled" : text->name,
                                  pooled ? sweep->texts->sha : text->sha, &plan,
                                  locus_sweep_corpus(sweep, cell->series, first));
    if (bucket) {
        set &= locus_row_set_text(row, LOCUS_COLUMN_PROTOCOL, "by-position");
        set &= locus_row_set_int(row, LOCUS_COLUMN_LENGTH, cell->length);
    }
    set &= locus_row_set_int(row, LOCUS_COLUMN_LONGEST_WINDOW, longest);
    if (!cell->past) set &= locus_row_set_int(row, LOCUS_COLUMN_TOKENS, n);
    return set ? LOCUS_OK : out_of_memory(error);
}

int locus_sweep_buckets(const struct locus_sweep *sweep, int longest, int *ends)
{
    int n = 0;
    if (sweep->n_lengths == 1) {
        while (n < 31 && longest >> n > 0)
            n++;
        for (int i = 0; i < n; i++)
            ends[i] = longest >> (n - 1 - i);
        return n;
    }
    for (int i = sweep->n_lengths - 1; i >= 0; i--)
        if (sweep->lengths[i] <= longest) ends[n++] = sweep->lengths[i];
    return n;
}

/* The index of the longest length that a series serves and the text fills; n_lengths: none. Texts
 * that differ in it have no pooled one. */
static int find_longest(const struct locus_sweep *sweep, int series, int text)
{
    if (text == locus_sweep_n_texts(sweep)) {
        const int first = find_longest(sweep, series, 0);
        for (int i = 1; i < text; i++)
            if (find_longest(sweep, series, i) != first) return sweep->n_lengths;
        return first;
    }
    int i = 0;
    for (; i < sweep->n_lengths; i++) {
        const struct locus_plan plan = locus_sweep_bucket_plan(sweep, sweep->lengths[i]);
        if (locus_sweep_point(sweep, series, i)->served &&
            locus_corpus_longest(locus_sweep_corpus(sweep, series, text), &plan) == plan.length)
            break;
    }
    return i;
}

/* The rows by position: buckets of the longest windows that are served and filled. */
static enum locus_status add_buckets(struct locus_sweep *sweep, struct locus_cell cell,
                                     locus_error *error)
{
    const int longest = find_longest(sweep, cell.series, cell.text);
    if (longest == sweep->n_lengths) return LOCUS_OK;
    int *ends = malloc((size_t)(32 + sweep->n_lengths) * sizeof *ends);
    if (!ends) return out_of_memory(error);
    const int n = locus_sweep_buckets(sweep, sweep->lengths[longest], ends);
    enum locus_status status = LOCUS_OK;
    cell.kind = LOCUS_CELL_POSITION;
    cell.point = longest;
    for (int i = 0; i < n && !status; i++) {
        cell.first = i > 0 ? ends[i - 1] : 0;
        cell.length = ends[i];
        status = add_planned(sweep, &cell, error);
    }
    free(ends);
    return status;
}

/* A series' rows on a text: the protocol's, longest first, then those by position. */
static enum locus_status add_text_cells(struct locus_sweep *sweep, int series, int text,
                                        locus_error *error)
{
    struct locus_cell cell = {
        .kind = LOCUS_CELL_PLAN, .series = series, .text = text, .twin = -1, .depth = -1};
    for (int i = 0; i < sweep->n_lengths; i++) {
        cell.length = sweep->lengths[i];
        cell.point = i;
        enum locus_status status = add_planned(sweep, &cell, error);
        if (status) return status;
    }
    return sweep->by_position ? add_buckets(sweep, cell, error) : LOCUS_OK;
}

static enum locus_status add_trials(struct locus_sweep *sweep, const struct locus_cell *planned,
                                    locus_error *error)
{
    enum locus_status status = add_cell(sweep, planned, error);
    if (status) return status;
    struct locus_cell *cell = &sweep->cells[sweep->n_cells - 1];
    struct locus_row *row = &cell->row;
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)sweep->seed);
    bool set = locus_row_set_int(row, LOCUS_COLUMN_LENGTH, cell->length);
    set &= locus_row_set_begin(row, sweep->begins[sweep->series[cell->series].model].rule);
    if (cell->depth >= 0) set &= locus_row_set_real(row, LOCUS_COLUMN_DEPTH, cell->depth);
    set &= locus_row_set_int(row, LOCUS_COLUMN_TRIALS, sweep->n_trials);
    set &= locus_row_set_text(row, LOCUS_COLUMN_SEED, seed);
    return set ? LOCUS_OK : out_of_memory(error);
}

/* A series' rows of a task, shortest first. */
static enum locus_status add_task_cells(struct locus_sweep *sweep, int series, locus_error *error)
{
    struct locus_cell cell = {.kind = LOCUS_CELL_TRIALS, .series = series, .twin = -1, .depth = -1};
    const int n_depths = sweep->task == LOCUS_TASK_PASSKEY ? LOCUS_N_DEPTHS : 1;
    for (int i = sweep->n_lengths - 1; i >= 0; i--)
        for (int j = 0; j < n_depths; j++) {
            cell.length = sweep->lengths[i];
            cell.point = i;
            if (n_depths > 1) cell.depth = (double)j / (n_depths - 1);
            enum locus_status status = add_trials(sweep, &cell, error);
            if (status) return status;
        }
    return LOCUS_OK;
}

static enum locus_status add_cells(struct locus_sweep *sweep, int series, locus_error *error)
{
    const int n_texts = locus_sweep_n_texts(sweep);
    if (sweep->task >= 0) return add_task_cells(sweep, series, error);
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < n_texts + (n_texts > 1) && !status; i++)
        status = add_text_cells(sweep, series, i, error);
    return status;
}

/* Finds the cell that the same session measures in the same way for an earlier series. */
static void find_twin(struct locus_sweep *sweep, struct locus_cell *cell)
{
    const int same = locus_sweep_point(sweep, cell->series, cell->point)->same_as;
    if (same < 0) return;
    const struct locus_cell *twin =
        locus_sweep_cell(sweep, cell->kind, same, cell->text, cell->length, cell->depth);
    if (twin && twin->point == cell->point) cell->twin = (int)(twin - sweep->cells);
}

enum locus_status locus_sweep_plan(struct locus_sweep *sweep, locus_error *error)
{
    const size_t n_points = (size_t)sweep->n_series * (size_t)sweep->n_lengths;
    sweep->points = calloc(n_points, sizeof *sweep->points);
    if (!sweep->points) return locus_fail_memory(error, n_points * sizeof *sweep->points);
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < sweep->n_series && !status; i++)
        status = fill_series(sweep, i, error);
    for (int i = 0; i < sweep->n_series && !status; i++)
        status = add_cells(sweep, i, error);
    for (int i = 0; i < sweep->n_cells && !status; i++)
        find_twin(sweep, &sweep->cells[i]);
    return status;
}

void locus_sweep_free(struct locus_sweep *sweep)
{
    const size_t n_points = (size_t)sweep->n_series * (size_t)sweep->n_lengths;
    for (int i = 0; i < sweep->n_cells; i++)
        locus_row_free(&sweep->cells[i].row);
    for (size_t i = 0; i < n_points && sweep->points; i++) {
        locus_row_free(&sweep->points[i].row);
        locus_description_free(&sweep->points[i].session);
    }
    for (int i = 0; i < sweep->n_series; i++) {
        free(sweep->series[i].label);
        sweep->series[i].label = NULL;
    }
    free(sweep->cells);
    free(sweep->points);
    sweep->cells = NULL;
    sweep->points = NULL;
    sweep->n_cells = 0;
}

/* ---- places ------------------------------------------------------------------------------- */

int locus_sweep_longest(const struct locus_sweep *sweep, int text)
{
    const struct locus_plan plan = locus_sweep_plan_at(sweep, sweep->lengths[0]);
    int longest = plan.length;
    for (int i = 0; i < sweep->n_models; i++) {
        const struct locus_corpus *corpus = &sweep->corpora[i * sweep->texts->n_items + text];
        const int n = locus_corpus_longest(corpus, &plan);
        if (n < longest) longest = n;
    }
    return longest;
}

const struct locus_cell *locus_sweep_cell(const struct locus_sweep *sweep,
                                          enum locus_cell_kind kind, int series, int text,
                                          int length, double depth)
{
    for (int i = 0; i < sweep->n_cells; i++) {
        const struct locus_cell *cell = &sweep->cells[i];
        if (cell->kind == kind && cell->series == series && cell->text == text &&
            cell->length == length && cell->depth == depth)
            return cell;
    }
    return NULL;
}
