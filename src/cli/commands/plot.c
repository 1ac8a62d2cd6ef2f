/* locus plot: pictures of what a position scheme does.
 *
 *     options -> model -> numbers of the scheme (experiment/probe.h), or of a session's attention
 *             -> chart -> file
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "chart/chart.h"
#include "cli/commands/commands.h"
#include "cli/commands/plot_text.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/outputs.h"
#include "cli/kit/session_options.h"
#include "experiment/probe.h"
#include "forward/map.h"
#include "forward/session.h"

struct plot_options {
    struct locus_common common; /* first, as in every command */
    struct locus_texts positions;
    const char *prompt, *output;
    int length, layer, head;
};

struct plot {
    const struct plot_options *options;
    locus_model *model;
    char *name;                      /* the model file's, without folder and ending, as one line */
    struct locus_scheme_probe probe; /* of the first SPEC */
    struct locus_plot_text text;     /* of -p */
};

enum { MAX_LENGTH = 1 << 16, MAX_LINES = 16, MAX_PIECES = 64 };

#define FIELD(member) offsetof(struct plot_options, member)

static const struct locus_option table[] = {
    {.name = "output",
     .letter = 'o',
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(output),
     .argument = "FILE",
     .help = "the PNG file to write; -: standard output"},
    {.name = "position",
     .letter = 'P',
     .type = LOCUS_OPTION_TEXTS,
     .offset = FIELD(positions),
     .argument = "SPEC",
     .help = "position scheme in place of the model's; rotation: a line each (repeats)"},
    {.name = "length",
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(length),
     .argument = "N",
     .min = 2,
     .max = MAX_LENGTH,
     .help = "positions, or distances (default: the trained length)"},
    {.name = "layer",
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(layer),
     .argument = "N",
     .fallback = "0",
     .min = 0,
     .max = INT_MAX,
     .help = "of bias, rotation and attention"},
    {.name = "head",
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(head),
     .argument = "N",
     .fallback = "0",
     .min = 0,
     .max = INT_MAX,
     .help = "of rotation and attention"},
    {.name = "prompt",
     .letter = 'p',
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(prompt),
     .argument = "TEXT",
     .help = "the text that attention reads; a table's, where the scheme reads it"},
    {.name = NULL},
};

static int fail(const locus_error *error)
{
    return locus_log_refusal("plot", error);
}

/* The exit status once the picture is written, or isn't. A signal on the way, which the caller
 * watches for, has left it whole or not there at all. */
static int finish_writing(enum locus_status status, const locus_error *error)
{
    if (status && status != LOCUS_ERROR_IO) return fail(error);
    if (status) return locus_output_failed(error);
    return locus_interrupted() ? LOCUS_EXIT_INTERRUPTED : LOCUS_EXIT_DONE;
}

static int fail_memory(void)
{
    return locus_log_error("out of memory for the plot");
}

/* ---- what plots share --------------------------------------------------------------------- */

static const char *first_spec(const struct plot *plot)
{
    return plot->options->positions.n_items ? plot->options->positions.items[0] : NULL;
}

/* WHAT, and below it the SPEC and the model; to be freed; NULL: out of memory. */
static char *make_title(const struct plot *plot, const char *what, const char *spec)
{
    struct locus_buffer title = {0};
    locus_buffer_printf(&title, "%s\n%s (%s)", what, spec, plot->name);
    if (!title.failed) return title.bytes;
    locus_buffer_free(&title);
    return NULL;
}

static int draw_map(struct plot *plot, const char *what, const char *spec,
                    struct locus_heat_map *map)
{
    locus_error error;
    char *title = make_title(plot, what, spec);
    if (!title) return fail_memory();
    map->title = title;
    locus_interrupt_watch();
    enum locus_status status = locus_heat_map_write(plot->options->output, map, &error);
    if (!status) locus_picture_note(locus_heat_map_is_ascii(map), plot->options->common.quiet);
    free(title);
    return finish_writing(status, &error);
}

/* The scheme for as many positions as were asked for. -1, or the exit status. */
static int open_probe(struct plot *plot, const char *spec, int length)
{
    locus_error error;
    locus_scheme_probe_close(&plot->probe);
    if (locus_scheme_probe_open(&plot->probe, plot->model, spec, length, &error))
        return fail(&error);
    return -1;
}

/* ---- the plots ---------------------------------------------------------------------------- */

/* The scheme's table [length, n_embd], to be freed; NULL: the exit status is in *status. */
static float *make_table(struct plot *plot, int *status)
{
    locus_error error;
    int length = plot->text.n_tokens ? plot->text.n_tokens : plot->options->length;
    if ((*status = open_probe(plot, first_spec(plot), length)) >= 0) return NULL;
    size_t n = (size_t)plot->probe.length * (size_t)plot->model->config.n_embd;
    float *values = calloc(n, sizeof *values);
    if (!values) {
        *status = fail_memory();
    } else if (locus_probe_table(&plot->probe, plot->text.tokens, values, &error)) {
        bool no_text = error.status == LOCUS_ERROR_ARGUMENT && !plot->text.tokens;
        *status =
            no_text ? locus_log_usage("plot", "%s: give it with -p", error.message) : fail(&error);
        free(values);
        values = NULL;
    }
    return values;
}

static int plot_table(struct plot *plot)
{
    int status;
    float *values = make_table(plot, &status);
    if (!values) return status;
    struct locus_heat_map map = {.value_label = "added to the embedding",
                                 .n_rows = plot->probe.length,
                                 .n_columns = plot->model->config.n_embd,
                                 .values = values,
                                 .rows = {.label = "position"},
                                 .columns = {.label = "dimension"},
                                 .palette = LOCUS_VIRIDIS};
    status = draw_map(plot, "Position embedding", plot->probe.positions.text, &map);
    free(values);
    return status;
}

static int plot_similarity(struct plot *plot)
{
    int status;
    float *values = make_table(plot, &status);
    if (!values) return status;
    int n = plot->probe.length;
    float *cosines =
        n <= LOCUS_PLOT_MAX_MATRIX ? calloc((size_t)n * (size_t)n, sizeof *cosines) : NULL;
    if (n > LOCUS_PLOT_MAX_MATRIX)
        status = locus_log_usage("plot", "similarity: %d positions, expected at most %d", n,
                                 (int)LOCUS_PLOT_MAX_MATRIX);
    else if (!cosines)
        status = fail_memory();
    else {
        locus_probe_similarity(values, n, plot->model->config.n_embd, cosines);
        float min = 1;
        for (size_t i = 0; i < (size_t)n * (size_t)n; i++)
            if (cosines[i] < min) min = cosines[i];
        struct locus_heat_map map = {.value_label = "cosine similarity",
                                     .n_rows = n,
                                     .n_columns = n,
                                     .values = cosines,
                                     .rows = {.label = "position"},
                                     .columns = {.label = "position"},
                                     .palette = LOCUS_INFERNO,
                                     .min = min < 1 ? (double)min : 0,
                                     .max = 1,
                                     .square = true};
        status = draw_map(plot, "Position similarity", plot->probe.positions.text, &map);
    }
    free(cosines);
    free(values);
    return status;
}

static int plot_bias(struct plot *plot)
{
    locus_error error;
    int status = open_probe(plot, first_spec(plot), plot->options->length);
    if (status >= 0) return status;
    size_t n_head = (size_t)plot->model->config.n_head, n = (size_t)plot->probe.length;
    float *bias = calloc(n_head * n, sizeof *bias);
    if (!bias) return fail_memory();
    if (locus_probe_bias(&plot->probe, plot->options->layer, bias, &error)) {
        status = fail(&error);
    } else {
        struct locus_heat_map map = {.value_label = "added to the score",
                                     .n_rows = (int)n_head,
                                     .n_columns = (int)n,
                                     .values = bias,
                                     .rows = {.label = "head"},
                                     .columns = {.label = "distance from query to key (tokens)"},
                                     .palette = LOCUS_VIRIDIS};
        status = draw_map(plot, "Attention bias", plot->probe.positions.text, &map);
    }
    free(bias);
    return status;
}

/* One line a SPEC. */
struct rotation_lines {
    int n;
    struct locus_chart_series series[MAX_LINES];
    double *x[MAX_LINES], *y[MAX_LINES];
    char *names[MAX_LINES];
};

static int add_line(struct plot *plot, struct rotation_lines *lines, const char *spec)
{
    locus_error error;
    int status = open_probe(plot, spec, plot->options->length);
    if (status >= 0) return status;
    int n = plot->probe.length, at = lines->n++;
    lines->x[at] = calloc((size_t)n, sizeof **lines->x);
    lines->y[at] = calloc((size_t)n, sizeof **lines->y);
    lines->names[at] = strdup(plot->probe.positions.text);
    if (!lines->x[at] || !lines->y[at] || !lines->names[at]) return fail_memory();
    if (locus_probe_rotation(&plot->probe, plot->options->layer, plot->options->head, lines->y[at],
                             &error))
        return fail(&error);
    for (int i = 0; i < n; i++)
        lines->x[at][i] = i;
    int trained = plot->model->config.trained_length;
    lines->series[at] = (struct locus_chart_series){.name = lines->names[at],
                                                    .n = n,
                                                    .x = lines->x[at],
                                                    .y = lines->y[at],
                                                    .trained_length = trained < n ? trained : 0};
    return -1;
}

static int draw_rotation(struct plot *plot, const struct rotation_lines *lines)
{
    locus_error error;
    struct locus_buffer title = {0};
    locus_buffer_printf(&title, "Mean q.k against distance\n%s", plot->name);
    if (title.failed) return fail_memory();
    struct locus_line_chart chart = {
        .title = title.bytes,
        .x = {.label = "distance from query to key (tokens)", .scale = LOCUS_SCALE_LINEAR},
        .y = {.label = "mean q.k of equal unit vectors", .scale = LOCUS_SCALE_LINEAR},
        .n_series = lines->n,
        .series = lines->series};
    locus_interrupt_watch();
    enum locus_status status = locus_line_chart_write(plot->options->output, &chart, &error);
    if (!status) locus_picture_note(locus_line_chart_is_ascii(&chart), plot->options->common.quiet);
    locus_buffer_free(&title);
    return finish_writing(status, &error);
}

static int plot_rotation(struct plot *plot)
{
    const struct locus_texts *specs = &plot->options->positions;
    if (specs->n_items > MAX_LINES)
        return locus_log_usage("plot", "rotation: %d times -P, expected at most %d", specs->n_items,
                               (int)MAX_LINES);
    struct rotation_lines lines = {0};
    int status = specs->n_items ? -1 : add_line(plot, &lines, NULL);
    for (int i = 0; status < 0 && i < specs->n_items; i++)
        status = add_line(plot, &lines, specs->items[i]);
    if (status < 0) status = draw_rotation(plot, &lines);
    for (int i = 0; i < lines.n; i++) {
        free(lines.x[i]);
        free(lines.y[i]);
        free(lines.names[i]);
    }
    return status;
}

static int draw_attention(struct plot *plot, const locus_session *session, float *weights)
{
    int n = plot->text.n_tokens;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++)
            weights[(size_t)i * (size_t)n + (size_t)j] = NAN; /* the future is no weight of 0 */
    char what[64];
    snprintf(what, sizeof what, "Attention of layer %d, head %d", plot->options->layer,
             plot->options->head);
    /* Many tokens are told by number, and many cells share a pixel: the colours then reach up to
     * the largest weight, not to 1. */
    bool few = n <= MAX_PIECES;
    struct locus_heat_map map = {.value_label = "attention weight",
                                 .n_rows = n,
                                 .n_columns = n,
                                 .values = weights,
                                 .rows = {.label = few ? "query" : "position of the query"},
                                 .columns = {.label = few ? "key" : "position of the key"},
                                 .palette = LOCUS_VIRIDIS,
                                 .min = 0,
                                 .max = few ? 1 : 0,
                                 .square = true};
    if (few) map.rows.names = map.columns.names = plot->text.pieces;
    return draw_map(plot, what, locus_session_position(session), &map);
}

static int plot_attention(struct plot *plot)
{
    if (!plot->text.tokens)
        return locus_log_usage("plot", "attention needs a text: give it with -p");
    locus_error error;
    locus_session_params params = locus_session_options(&plot->options->common);
    params.position = first_spec(plot);
    params.n_context = plot->text.n_tokens;
    locus_session *session = locus_session_create(plot->model, &params, &error);
    if (!session) return fail(&error);
    int status;
    size_t n = (size_t)plot->text.n_tokens;
    float *weights = calloc(n * n, sizeof *weights);
    if (!weights)
        status = fail_memory();
    else if (locus_session_probe(session, plot->text.tokens, plot->text.n_tokens,
                                 plot->options->layer, plot->options->head, weights, &error))
        status = fail(&error);
    else
        status = draw_attention(plot, session, weights);
    free(weights);
    locus_session_free(session);
    return status;
}

/* ---- the command -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*draw)(struct plot *plot);
    bool several; /* takes more than one SPEC */
} kinds[] = {
    {"table", plot_table, false},         {"similarity", plot_similarity, false},
    {"bias", plot_bias, false},           {"rotation", plot_rotation, true},
    {"attention", plot_attention, false},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* The index of the kind, or -1, with the exit status in *status. */
static int find_kind(const struct plot_options *options, int n_operands, char **operands,
                     int *status)
{
    const char *known = "expected table, similarity, bias, rotation or attention";
    *status = LOCUS_EXIT_USAGE;
    if (n_operands == 0) {
        locus_log_usage("plot", "no plot named: %s", known);
        return -1;
    }
    struct locus_suggestion suggestion = locus_suggestion_near(operands[0]);
    int kind = 0;
    for (; kind < N_KINDS && strcmp(kinds[kind].name, operands[0]) != 0; kind++)
        locus_suggestion_offer(&suggestion, kinds[kind].name);
    if (kind == N_KINDS)
        locus_log_usage("plot", "found plot '%s', %s%s%s%s", operands[0], known,
                        suggestion.nearest ? "; did you mean '" : "",
                        suggestion.nearest ? suggestion.nearest : "",
                        suggestion.nearest ? "'?" : "");
    else if (n_operands > 1)
        locus_log_usage("plot", "one plot a run, found also '%s'", operands[1]);
    else if (!options->output || !*options->output)
        locus_log_usage("plot", "no file named: give it with -o FILE.png");
    else if (options->positions.n_items > 1 && !kinds[kind].several)
        locus_log_usage("plot", "%s takes one -P, found %d", kinds[kind].name,
                        options->positions.n_items);
    else
        return kind;
    return -1;
}

/* The name as pictures have it; NULL: out of memory. */
static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    char *copy = strndup(name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
    if (copy) locus_text_tame(copy);
    return copy;
}

static int run(void *values, int n_operands, char **operands)
{
    struct plot plot = {.options = values};
    int status, kind = find_kind(plot.options, n_operands, operands, &status);
    if (kind < 0) return status;
    for (int i = 0; i < plot.options->positions.n_items; i++) {
        status = locus_check_position("plot", plot.options->positions.items[i]);
        if (status >= 0) return status;
    }
    const struct locus_output_request request = {"-o", plot.options->output, .binary = true};
    bool taken;
    if ((status = locus_outputs_stdout("plot", &request, 1, &taken)) >= 0) return status;
    locus_error error;
    char *path = locus_model_file(&plot.options->common, &status);
    if (!path) return status;
    status = locus_output_apart("plot", plot.options->output, path);
    if (status >= 0) {
        free(path);
        return status;
    }
    if (!(plot.name = name_of(path)))
        status = fail_memory();
    else if (!(plot.model = locus_model_open(path, &error)))
        status = fail(&error);
    else if ((status = locus_plot_text_read(&plot.text, plot.model, plot.options->prompt)) < 0) {
        locus_model_file_note(path, plot.text.assumed, plot.options->common.quiet);
        status = kinds[kind].draw(&plot);
    }
    locus_plot_text_free(&plot.text);
    locus_scheme_probe_close(&plot.probe);
    locus_model_free(plot.model);
    free(plot.name);
    free(path);
    return status;
}

const struct locus_command locus_command_plot = {
    .name = "plot",
    .summary = "Draw what a position scheme does into a PNG file.",
    .usage = "table|similarity|bias|rotation|attention [-m FILE] [-P SPEC] -o FILE.png [options]",
    .details =
        "table       what the scheme adds to the embedding: position by dimension\n"
        "similarity  cosine of what it adds at every two positions\n"
        "bias        what it adds to the scores: head by distance\n"
        "rotation    mean q.k against distance, q and k being equal before they are rotated\n"
        "attention   the weights of one head over a text (-p), in a session\n"
        "A scheme that does nothing of the kind is refused, with the plots that fit.",
    .options = table,
    .values_size = sizeof(struct plot_options),
    .takes_operands = true,
    .run = run,
};
