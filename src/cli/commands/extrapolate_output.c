/* locus extrapolate: its results as tables, JSON and pictures. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/output.h"
#include "base/text.h"
#include "chart/chart.h"
#include "cli/commands/extrapolate.h"
#include "cli/kit/json.h"
#include "cli/kit/log.h"
#include "cli/kit/outputs.h"
#include "cli/kit/page.h"
#include "cli/kit/table.h"
#include "model/model.h"

/* ---- tables ------------------------------------------------------------------------------- */

/* The text that speaks for all: the pooled one of several. */
static int main_text(const struct locus_extrapolate *run)
{
    return run->texts.n_items > 1 ? run->texts.n_items : 0;
}

/* "A" to "Z", "AA", ... */
static const char *letters_of(int index, char name[8])
{
    int n = 0;
    char reversed[8];
    for (int rest = index + 1; rest > 0 && n < 7; rest = (rest - 1) / 26)
        reversed[n++] = (char)('A' + (rest - 1) % 26);
    for (int i = 0; i < n; i++)
        name[i] = reversed[n - 1 - i];
    name[n] = '\0';
    return name;
}

static enum locus_column result_column(const struct locus_extrapolate *run)
{
    return run->sweep.task < 0 ? LOCUS_COLUMN_PERPLEXITY : LOCUS_COLUMN_ACCURACY;
}

static double result_of(const struct locus_extrapolate *run, const struct locus_cell *cell)
{
    return cell && cell->state == LOCUS_CELL_DONE ? locus_row_number(&cell->row, result_column(run))
                                                  : (double)NAN;
}

static void add_result(struct locus_table *table, double result)
{
    if (isnan(result))
        locus_table_add(table, "-");
    else if (result < 1e6)
        locus_table_add(table, "%.3f", result);
    else
        locus_table_add(table, "%.3e", result);
}

/* What a model was trained on, in the unit of the run's lengths; 0: nothing of the kind. */
static int trained_on(const struct locus_extrapolate *run, int index)
{
    const struct locus_opened_model *model = &run->models[run->series[index].model];
    const struct locus_checkpoint *checkpoint = locus_model_checkpoint(model->model);
    const char *task;
    size_t n_bytes;
    int64_t length;
    if (run->sweep.task >= 0 &&
        locus_checkpoint_string(checkpoint, "locus.task", &task, &n_bytes) &&
        locus_text_is(task, n_bytes, locus_task_name((enum locus_task)run->sweep.task)) &&
        locus_checkpoint_int(checkpoint, "locus.task_length", &length) && length > 0 &&
        length < INT_MAX)
        return (int)length;
    const bool tokens = run->sweep.task < 0 || run->sweep.task == LOCUS_TASK_PASSKEY;
    return tokens ? model->info.trained_length : 0;
}

static void print_legend(const struct locus_extrapolate *run, struct locus_buffer *out)
{
    struct locus_table table = {.n_columns = 4, .n_left = 4};
    char name[8];
    for (int i = 0; i < run->sweep.n_series; i++) {
        const struct locus_series *series = &run->series[i];
        const struct locus_opened_model *model = &run->models[series->model];
        locus_table_add(&table, "%s", letters_of(i, name));
        locus_table_add(&table, "%s", model->name);
        const int trained = trained_on(run, i);
        if (trained > 0)
            locus_table_add(&table, "trained %d", trained);
        else
            locus_table_add(&table, "%s", ""); /* on nothing of this unit */
        locus_table_add(&table, "%s", series->label);
    }
    locus_table_print(&table, out);
    locus_page_fold(out, 0, locus_page_columns(STDOUT_FILENO));
}

/* How long the windows are that a series' losses by position come from. */
static void add_windows(const struct locus_extrapolate *run, int text, int n_lengths,
                        const int *lengths, struct locus_table *table)
{
    locus_table_add(table, "windows of");
    for (int i = 0; i < run->sweep.n_series; i++) {
        const struct locus_cell *cell = NULL;
        for (int j = 0; j < n_lengths && !cell; j++)
            cell = locus_sweep_cell(&run->sweep, LOCUS_CELL_POSITION, i, text, lengths[j], -1);
        if (cell)
            locus_table_add(table, "%d", run->lengths[cell->point]);
        else
            locus_table_add(table, "-");
    }
}

/* A line a length, a column a series. */
static void print_lengths(const struct locus_extrapolate *run, enum locus_cell_kind kind, int text,
                          const int *lengths, int n_lengths, struct locus_buffer *out)
{
    struct locus_table table = {.n_columns = 1 + run->sweep.n_series,
                                .width = locus_page_columns(STDOUT_FILENO)};
    char name[8];
    locus_table_add(&table, kind == LOCUS_CELL_POSITION ? "position" : "length");
    for (int i = 0; i < run->sweep.n_series; i++)
        locus_table_add(&table, "%s", letters_of(i, name));
    if (kind == LOCUS_CELL_POSITION) add_windows(run, text, n_lengths, lengths, &table);
    for (int j = 0; j < n_lengths; j++) {
        locus_table_add(&table, kind == LOCUS_CELL_POSITION ? "up to %d" : "%d", lengths[j]);
        for (int i = 0; i < run->sweep.n_series; i++)
            add_result(&table, result_of(run, locus_sweep_cell(&run->sweep, kind, i, text,
                                                               lengths[j], -1)));
    }
    locus_table_print(&table, out);
}

/* A passkey table: a line a depth, a column a length. */
static void print_depths(const struct locus_extrapolate *run, int index, struct locus_buffer *out)
{
    struct locus_table table = {.n_columns = 1 + run->sweep.n_lengths,
                                .width = locus_page_columns(STDOUT_FILENO)};
    locus_table_add(&table, "depth");
    for (int i = run->sweep.n_lengths - 1; i >= 0; i--)
        locus_table_add(&table, "%d", run->lengths[i]);
    for (int j = 0; j < LOCUS_N_DEPTHS; j++) {
        const double depth = (double)j / (LOCUS_N_DEPTHS - 1);
        locus_table_add(&table, "%.1f", depth);
        for (int i = run->sweep.n_lengths - 1; i >= 0; i--)
            add_result(&table, result_of(run, locus_sweep_cell(&run->sweep, LOCUS_CELL_TRIALS,
                                                               index, 0, run->lengths[i], depth)));
    }
    locus_table_print(&table, out);
}

/* " by 256", or what the default comes to. */
static void name_stride(const struct locus_extrapolate *run, struct locus_buffer *out)
{
    if (run->sweep.plan.protocol != LOCUS_SLIDING) return;
    const int shortest =
        locus_sweep_plan_at(&run->sweep, run->lengths[run->sweep.n_lengths - 1]).stride;
    const int longest = locus_sweep_plan_at(&run->sweep, run->lengths[0]).stride;
    locus_buffer_printf(out, " by %d", shortest);
    if (longest != shortest) locus_buffer_printf(out, " to %d", longest);
}

static void print_text(const struct locus_extrapolate *run, int text, const int *ascending,
                       const int *ends, int n_ends, struct locus_buffer *out)
{
    const char *name = text < run->texts.n_items ? run->texts.items[text].name : "all texts";
    locus_buffer_printf(out, "\nperplexity of ");
    locus_text_append(out, name);
    locus_buffer_printf(out, ", %s", locus_protocol_name(run->sweep.plan.protocol));
    name_stride(run, out);
    if (run->sweep.plan.first) locus_buffer_printf(out, ", first windows");
    locus_buffer_append(out, "\n", 1);
    print_lengths(run, LOCUS_CELL_PLAN, text, ascending, run->sweep.n_lengths, out);
    if (!run->options->by_position) return;
    locus_buffer_printf(out, "\nperplexity of ");
    locus_text_append(out, name);
    locus_buffer_printf(out, ", by position in the longest windows\n");
    print_lengths(run, LOCUS_CELL_POSITION, text, ends, n_ends, out);
}

int locus_extrapolate_print(const struct locus_extrapolate *run)
{
    struct locus_buffer out = {0};
    const size_t n = (size_t)run->sweep.n_lengths;
    int *ascending = malloc(n * sizeof *ascending), *ends = malloc((32 + n) * sizeof *ends);
    if (!ascending || !ends) out.failed = true;
    for (size_t i = 0; i < n && ascending; i++)
        ascending[i] = run->lengths[n - 1 - i];
    print_legend(run, &out);
    const int n_texts = run->texts.n_items;
    const int n_ends = ends ? locus_sweep_buckets(&run->sweep, run->lengths[0], ends) : 0;
    for (int i = 0; i < n_texts + (n_texts > 1) && !out.failed; i++)
        print_text(run, i, ascending, ends, n_ends, &out);
    for (int i = 0; run->sweep.task == LOCUS_TASK_PASSKEY && i < run->sweep.n_series; i++) {
        char name[8];
        locus_buffer_printf(&out, "\npasskey, share of %d right by depth and length: %s\n",
                            run->options->n_trials, letters_of(i, name));
        print_depths(run, i, &out);
    }
    if (run->sweep.task >= 0 && run->sweep.task != LOCUS_TASK_PASSKEY && !out.failed) {
        locus_buffer_printf(&out, "\n%s, share of %d right\n",
                            locus_task_name((enum locus_task)run->sweep.task),
                            run->options->n_trials);
        print_lengths(run, LOCUS_CELL_TRIALS, 0, ascending, run->sweep.n_lengths, &out);
    }
    free(ascending);
    free(ends);
    return locus_stdout_finish(&out);
}

/* ---- JSON --------------------------------------------------------------------------------- */

int locus_extrapolate_write_json(const struct locus_extrapolate *run)
{
    if (!run->options->json) return LOCUS_EXIT_DONE;
    struct locus_buffer out = {0};
    struct locus_json json = {.out = &out};
    locus_error error;
    locus_json_open(&json, NULL, '[');
    for (int i = 0; i < run->sweep.n_cells; i++) {
        const struct locus_cell *cell = &run->sweep.cells[i];
        if (cell->state != LOCUS_CELL_DONE || cell->twin >= 0) continue;
        locus_json_open(&json, NULL, '{');
        locus_json_row(&json, &cell->row);
        locus_json_close(&json, '}');
    }
    locus_json_close(&json, ']');
    locus_buffer_append(&out, "\n", 1);
    enum locus_status status =
        out.failed ? locus_fail_memory(&error, out.length)
                   : locus_output_save(run->options->json, out.bytes, out.length, &error);
    locus_buffer_free(&out);
    return status ? locus_output_failed(&error) : LOCUS_EXIT_DONE;
}

/* ---- pictures ----------------------------------------------------------------------------- */

/* "name.png" or, of several, "name-1.png". */
int locus_extrapolate_name_pictures(struct locus_extrapolate *run)
{
    const char *png = run->options->png;
    if (!png) return -1;
    const int n = run->sweep.task == LOCUS_TASK_PASSKEY ? run->sweep.n_series : 1;
    const char *dot = strrchr(png, '.'), *slash = strrchr(png, '/');
    if (!dot || (slash && dot < slash)) dot = png + strlen(png);
    bool named = (run->pictures = calloc((size_t)n, sizeof *run->pictures)) != NULL;
    for (int i = 0; i < n && named; i++) {
        struct locus_buffer path = {0};
        if (n == 1)
            locus_buffer_printf(&path, "%s", png);
        else
            locus_buffer_printf(&path, "%.*s-%d%s", (int)(dot - png), png, i + 1, dot);
        run->pictures[i] = path.bytes;
        run->n_pictures = i + 1;
        named = !path.failed;
    }
    return named ? -1 : locus_log_error("out of memory for the results");
}

/* A model's name without its ending. */
static void append_stem(struct locus_buffer *out, const char *name)
{
    static const char ending[] = ".gguf";
    const size_t n = sizeof ending - 1;
    const bool ends = strlen(name) > n && strcmp(name + strlen(name) - n, ending) == 0;
    locus_text_append(out, name);
    if (ends && !out->failed) out->bytes[out->length -= n] = '\0';
}

/* "SPEC (model)"; where all are of one model, which the title names, the SPEC alone. */
static void name_series(const struct locus_extrapolate *run, int index, struct locus_buffer *name)
{
    const struct locus_series *who = &run->series[index];
    locus_buffer_printf(name, "%s", who->label);
    if (run->sweep.n_models < 2) return;
    locus_buffer_append(name, " (", 2);
    append_stem(name, run->models[who->model].name);
    locus_buffer_append(name, ")", 1);
}

/* A line: x[n], y[n], error[n] in one block. */
static bool fill_series(const struct locus_extrapolate *run, enum locus_cell_kind kind, int index,
                        struct locus_chart_series *series)
{
    const int text = run->sweep.task < 0 ? main_text(run) : 0;
    double *values = malloc(3 * (size_t)run->sweep.n_cells * sizeof *values);
    struct locus_buffer name = {0};
    double *x = values, *y = values + run->sweep.n_cells, *error = values + 2 * run->sweep.n_cells;
    int n = 0;
    for (int i = run->sweep.n_cells - 1; i >= 0 && values;
         i--) { /* mostly from longest to shortest */
        const struct locus_cell *cell = &run->sweep.cells[i];
        if (cell->kind != kind || cell->series != index || cell->text != text ||
            cell->state != LOCUS_CELL_DONE || isnan(result_of(run, cell)))
            continue;
        x[n] = cell->length;
        y[n] = result_of(run, cell);
        error[n++] = locus_row_number(&cell->row, LOCUS_COLUMN_STANDARD_ERROR);
    }
    name_series(run, index, &name);
    if (kind == LOCUS_CELL_POSITION) locus_buffer_printf(&name, ", by position");
    *series = (struct locus_chart_series){.name = name.bytes,
                                          .n = n,
                                          .x = x,
                                          .y = y,
                                          .error = error,
                                          .trained_length = trained_on(run, index)};
    return values && !name.failed;
}

/* As much of it as a title has room for. */
static void append_text_name(const struct locus_extrapolate *run, int text,
                             struct locus_buffer *out)
{
    char name[101];
    snprintf(name, sizeof name, "%s",
             text < run->texts.n_items ? run->texts.items[text].name : "all texts");
    name[locus_utf8_whole(name, strlen(name))] = '\0'; /* it may be cut */
    locus_text_append(out, name);
}

static void title_lines(const struct locus_extrapolate *run, int text, struct locus_buffer *title)
{
    if (run->sweep.task >= 0)
        locus_buffer_printf(title, "Task %s: %d text%s a point",
                            locus_task_name((enum locus_task)run->sweep.task),
                            run->options->n_trials, locus_plural(run->options->n_trials));
    else {
        locus_buffer_printf(title, "Perplexity of ");
        append_text_name(run, text, title);
        locus_buffer_printf(title, ", %s", locus_protocol_name(run->sweep.plan.protocol));
        name_stride(run, title);
    }
    if (run->sweep.task < 0 && run->sweep.plan.first) locus_buffer_printf(title, ", first windows");
    if (run->sweep.n_models > 1) return;
    locus_buffer_append(title, "\n", 1);
    append_stem(title, run->models[0].name);
}

/* *is_ascii becomes false where the font lacks a character. */
static enum locus_status draw_lines(const struct locus_extrapolate *run, bool *is_ascii,
                                    locus_error *error)
{
    const int n_kinds = run->options->by_position ? 2 : 1;
    const int n_series = n_kinds * run->sweep.n_series;
    struct locus_chart_series *series = calloc((size_t)n_series, sizeof *series);
    if (!series) return locus_fail_memory(error, (size_t)n_series * sizeof *series);
    bool filled = true;
    for (int i = 0; i < n_series; i++) {
        const enum locus_cell_kind kind = run->sweep.task >= 0      ? LOCUS_CELL_TRIALS
                                          : i / run->sweep.n_series ? LOCUS_CELL_POSITION
                                                                    : LOCUS_CELL_PLAN;
        filled &= fill_series(run, kind, i % run->sweep.n_series, &series[i]);
    }
    const int text = main_text(run);
    struct locus_buffer title = {0};
    title_lines(run, text, &title);
    const struct locus_line_chart chart = {
        .title = title.bytes,
        .x = {.label = run->sweep.task < 0 ? "length (tokens)" : "length",
              .scale = run->sweep.task < 0 ? LOCUS_SCALE_LOG2 : LOCUS_SCALE_LINEAR},
        .y = {.label = run->sweep.task < 0 ? "perplexity" : "share right",
              .min = run->sweep.task < 0 ? 0 : -0.03, /* shares: the markers of 0 and 1 within */
              .max = run->sweep.task < 0 ? 0 : 1.03},
        .n_series = n_series,
        .series = series,
    };
    enum locus_status status =
        filled && !title.failed
            ? locus_line_chart_write(run->pictures[0], &chart, error)
            : locus_fail_memory(error, (size_t)run->sweep.n_cells * sizeof(double));
    *is_ascii &= locus_line_chart_is_ascii(&chart);
    for (int i = 0; i < n_series; i++) {
        free((char *)(uintptr_t)series[i].name);
        free((double *)(uintptr_t)series[i].x);
    }
    locus_buffer_free(&title);
    free(series);
    return status;
}

/* Passkey: depth down, length across. values[LOCUS_N_DEPTHS, n_lengths], names[n_lengths] */
static void fill_map(const struct locus_extrapolate *run, int index, float *values,
                     const char **names)
{
    const int n = run->sweep.n_lengths;
    for (int i = 0; i < n; i++) {
        names[i] = "";
        for (int j = 0; j < LOCUS_N_DEPTHS; j++) {
            const struct locus_cell *cell =
                locus_sweep_cell(&run->sweep, LOCUS_CELL_TRIALS, index, 0, run->lengths[n - 1 - i],
                                 (double)j / (LOCUS_N_DEPTHS - 1));
            values[j * n + i] = (float)result_of(run, cell);
            if (cell && cell->row.cells[LOCUS_COLUMN_LENGTH])
                names[i] = cell->row.cells[LOCUS_COLUMN_LENGTH];
        }
    }
}

static enum locus_status draw_map(const struct locus_extrapolate *run, int index, bool *is_ascii,
                                  locus_error *error)
{
    const struct locus_series *who = &run->series[index];
    const struct locus_opened_model *model = &run->models[who->model];
    const size_t n_columns = (size_t)run->sweep.n_lengths;
    float *values = malloc(LOCUS_N_DEPTHS * n_columns * sizeof *values);
    const char **names = malloc(n_columns * sizeof *names);
    struct locus_buffer title = {0}, mark = {0};
    const int trained = trained_on(run, index);
    int n_trained = 0;
    while (n_trained < run->sweep.n_lengths &&
           run->lengths[run->sweep.n_lengths - 1 - n_trained] <= trained)
        n_trained++;
    locus_buffer_printf(&mark, "trained length %d", trained);
    locus_buffer_printf(&title, "Task passkey: %d text%s a cell\n%s (", run->options->n_trials,
                        locus_plural(run->options->n_trials), who->label);
    append_stem(&title, model->name);
    locus_buffer_append(&title, ")", 1);
    enum locus_status status;
    if (!values || !names || title.failed || mark.failed)
        status = locus_fail_memory(error, LOCUS_N_DEPTHS * n_columns * sizeof *values);
    else {
        fill_map(run, index, values, names);
        const struct locus_heat_map map = {
            .title = title.bytes,
            .value_label = "share right",
            .n_rows = LOCUS_N_DEPTHS,
            .n_columns = run->sweep.n_lengths,
            .values = values,
            .rows = {.label = "depth of the key", .step = 1.0 / (LOCUS_N_DEPTHS - 1)},
            .columns = {.label = "length (tokens)", .names = names},
            .mark_after = n_trained,
            .mark_label = mark.bytes,
            .min = 0,
            .max = 1,
        };
        status = locus_heat_map_write(run->pictures[index], &map, error);
        *is_ascii &= locus_heat_map_is_ascii(&map);
    }
    free(values);
    free(names);
    locus_buffer_free(&title);
    locus_buffer_free(&mark);
    return status;
}

int locus_extrapolate_draw(const struct locus_extrapolate *run)
{
    locus_error error;
    enum locus_status status = LOCUS_OK;
    bool is_ascii = true;
    if (!run->options->png) return LOCUS_EXIT_DONE;
    if (run->sweep.task == LOCUS_TASK_PASSKEY)
        for (int i = 0; i < run->sweep.n_series && !status; i++)
            status = draw_map(run, i, &is_ascii, &error);
    else
        status = draw_lines(run, &is_ascii, &error);
    if (!status) locus_picture_note(is_ascii, run->options->common.quiet);
    return status ? locus_output_failed(&error) : LOCUS_EXIT_DONE;
}
