/* Line charts: see chart.h.
 *
 *     title
 *     trained length     <- above the frame, where no line passes
 *     +--------------+   -o- legend beside the frame,
 *     |              |       wrapped at commas
 *     +--------------+
 *       ticks, label
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chart/axes.h"
#include "chart/series.h"

static const struct locus_colour ink = {0x26, 0x26, 0x26}, grid = {0xE4, 0xE4, 0xE4},
                                 grey = {0x80, 0x80, 0x80};

enum { MARGIN = 16, LABEL = 26, MARK_ROW = 22, MAX_MARKS = 6 };

struct drawing {
    const struct locus_line_chart *chart;
    struct locus_canvas canvas;
    struct locus_axis x, y;
    struct locus_box frame; /* inside it the lines */
    struct locus_legend legend;
    int width, height;
    int n_marks;
    double marks[MAX_MARKS]; /* trained lengths, each once, ascending */
};

static const char *series_name(const void *context, int index)
{
    const struct locus_line_chart *chart = context;
    return chart->series[index].name;
}

/* ---- ranges and layout -------------------------------------------------------------------- */

static void add_mark(struct drawing *drawing, double length)
{
    int at = 0;
    while (at < drawing->n_marks && drawing->marks[at] < length)
        at++;
    if (!(length > 0) || !isfinite(length) || drawing->n_marks == MAX_MARKS ||
        (at < drawing->n_marks && drawing->marks[at] == length))
        return;
    memmove(drawing->marks + at + 1, drawing->marks + at,
            (size_t)(drawing->n_marks - at) * sizeof *drawing->marks);
    drawing->marks[at] = length;
    drawing->n_marks++;
}

static double error_at(const struct locus_chart_series *series, int i)
{
    return series->error && series->error[i] > 0 && isfinite(series->error[i]) ? series->error[i]
                                                                               : 0;
}

static void fit_axes(struct drawing *drawing)
{
    const struct locus_line_chart *chart = drawing->chart;
    struct locus_extent x = LOCUS_EXTENT_EMPTY, y = LOCUS_EXTENT_EMPTY;
    for (int s = 0; s < chart->n_series; s++) {
        const struct locus_chart_series *series = &chart->series[s];
        for (int i = 0; i < series->n; i++) {
            double at = series->x[i], value = series->y[i], error = error_at(series, i);
            if (!isfinite(at) || !isfinite(value)) continue;
            locus_extent_add(&x, at);
            locus_extent_add(&y, value);
            /* A band that nears zero may not stretch a logarithmic axis without end. */
            locus_extent_add(&y, value + error);
            locus_extent_add(&y, value > 0 ? fmax(value - error, value / 2) : value - error);
        }
        add_mark(drawing, series->trained_length);
    }
    for (int i = 0; i < drawing->n_marks && x.min <= x.max; i++)
        locus_extent_add(&x, drawing->marks[i]);
    locus_axis_fit(&drawing->x, &chart->x, &x, LOCUS_SCALE_LOG2);
    locus_axis_fit(&drawing->y, &chart->y, &y, LOCUS_SCALE_LOG10);
}

static void place_frame(struct drawing *drawing)
{
    const struct locus_line_chart *chart = drawing->chart;
    struct locus_box *frame = &drawing->frame;
    drawing->legend = (struct locus_legend){.n_names = chart->n_series,
                                            .name = series_name,
                                            .context = chart,
                                            .text_width = drawing->width * 0.3};
    locus_legend_measure(&drawing->legend);
    frame->top = MARGIN + locus_title_height(chart->title) + (drawing->n_marks ? MARK_ROW : 0);
    int below = MARGIN + 22 + (chart->x.label ? LABEL : 0);
    int needed = frame->top + drawing->legend.height + below;
    if (needed > drawing->height)
        drawing->height = needed < LOCUS_CHART_MAX_SIDE ? needed : LOCUS_CHART_MAX_SIDE;
    frame->bottom = drawing->height - below;
    drawing->y.from = frame->bottom - 0.5;
    drawing->y.to = frame->top + 0.5;
    locus_axis_tick(&drawing->y, &locus_text_plain, true);
    frame->left = MARGIN + (chart->y.label ? LABEL : 0) + 12 +
                  (int)locus_axis_text_width(&drawing->y, &locus_text_plain);
    frame->right = drawing->width - MARGIN - 6;
    if (drawing->legend.height > 0)
        frame->right -= (int)drawing->legend.text_width + LOCUS_LEGEND_SAMPLE + 14;
    if (frame->right < frame->left + 20) frame->right = frame->left + 20;
    drawing->x.from = frame->left + 0.5;
    drawing->x.to = frame->right - 0.5;
    locus_axis_tick(&drawing->x, &locus_text_plain, false);
}

/* ---- drawing ------------------------------------------------------------------------------ */

static struct locus_point place(const struct drawing *drawing, double x, double y)
{
    return (struct locus_point){locus_axis_place(&drawing->x, x), locus_axis_place(&drawing->y, y)};
}

static bool is_point(struct locus_point point)
{
    return isfinite(point.x) && isfinite(point.y);
}

static void draw_grid(struct drawing *drawing)
{
    struct locus_box frame = drawing->frame;
    for (int i = 0; i < drawing->x.n_ticks; i++) {
        int x = (int)floor(locus_axis_place(&drawing->x, drawing->x.ticks[i].value));
        struct locus_box line = {x, frame.top, x + 1, frame.bottom};
        if (drawing->x.ticks[i].text[0]) locus_canvas_fill(&drawing->canvas, line, grid);
    }
    for (int i = 0; i < drawing->y.n_ticks; i++) {
        int y = (int)floor(locus_axis_place(&drawing->y, drawing->y.ticks[i].value));
        struct locus_box line = {frame.left, y, frame.right, y + 1};
        if (drawing->y.ticks[i].text[0]) locus_canvas_fill(&drawing->canvas, line, grid);
    }
}

/* Edges of the band at point i: its pixels, the lower one at the frame where a logarithm has none.
 */
static void band_edges(const struct drawing *drawing, const struct locus_chart_series *series,
                       int i, double *top, double *bottom)
{
    double error = error_at(series, i);
    *top = locus_axis_place(&drawing->y, series->y[i] + error);
    *bottom = locus_axis_place(&drawing->y, series->y[i] - error);
    if (!(*bottom <= drawing->frame.bottom + 1)) *bottom = drawing->frame.bottom + 1;
    if (!(*top >= drawing->frame.top - 1)) *top = drawing->frame.top - 1;
}

static void draw_band(struct drawing *drawing, int s)
{
    enum { SAMPLES = 4 };
    const struct locus_chart_series *series = &drawing->chart->series[s];
    for (int i = 0; i + 1 < series->n; i++) {
        struct locus_point a = place(drawing, series->x[i], series->y[i]);
        struct locus_point b = place(drawing, series->x[i + 1], series->y[i + 1]);
        if (!is_point(a) || !is_point(b) || a.x == b.x) continue;
        double top_a, bottom_a, top_b, bottom_b;
        band_edges(drawing, series, i, &top_a, &bottom_a);
        band_edges(drawing, series, i + 1, &top_b, &bottom_b);
        double left = fmax(fmin(a.x, b.x), drawing->frame.left);
        double right = fmin(fmax(a.x, b.x), drawing->frame.right);
        if (!(left < right)) continue;
        for (int column = (int)left; column <= (int)right; column++)
            for (int sample = 0; sample < SAMPLES; sample++) {
                double x = column + (sample + 0.5) / SAMPLES, t = (x - a.x) / (b.x - a.x);
                if (x < left || x >= right) continue;
                locus_canvas_column(&drawing->canvas, column, top_a + (top_b - top_a) * t,
                                    bottom_a + (bottom_b - bottom_a) * t, 1.0 / SAMPLES);
            }
    }
    locus_series_paint(&drawing->canvas, s, 0.2);
}

/* A point without a neighbour has no band: its error is a bar. */
static void draw_bars(struct drawing *drawing, int s)
{
    const struct locus_chart_series *series = &drawing->chart->series[s];
    for (int i = 0; i < series->n; i++) {
        struct locus_point at = place(drawing, series->x[i], series->y[i]);
        bool before = i > 0 && is_point(place(drawing, series->x[i - 1], series->y[i - 1]));
        bool after =
            i + 1 < series->n && is_point(place(drawing, series->x[i + 1], series->y[i + 1]));
        if (!is_point(at) || before || after || error_at(series, i) == 0) continue;
        double top, bottom;
        band_edges(drawing, series, i, &top, &bottom);
        locus_canvas_segment(&drawing->canvas, (struct locus_point){at.x, top},
                             (struct locus_point){at.x, bottom}, 1.5);
    }
    locus_series_paint(&drawing->canvas, s, 1);
}

static void draw_line(struct drawing *drawing, int s)
{
    const struct locus_chart_series *series = &drawing->chart->series[s];
    struct locus_dash dash = {0};
    for (int i = 0; i + 1 < series->n; i++) {
        struct locus_point a = place(drawing, series->x[i], series->y[i]);
        struct locus_point b = place(drawing, series->x[i + 1], series->y[i + 1]);
        if (is_point(a) && is_point(b)) locus_series_segment(&drawing->canvas, s, &dash, a, b);
    }
    locus_series_paint(&drawing->canvas, s, 1);
}

/* Markers of a dense line keep a distance, different from line to line so that they don't hide
 * each other. */
static void draw_markers(struct drawing *drawing, int s)
{
    const double distance = 60;
    const struct locus_chart_series *series = &drawing->chart->series[s];
    struct locus_box frame = drawing->frame;
    bool dense = series->n > 24;
    double last = dense ? frame.left - distance + 13.0 * (s % 5) : -INFINITY;
    for (int i = 0; i < series->n; i++) {
        struct locus_point at = place(drawing, series->x[i], series->y[i]);
        if (!is_point(at) || at.x < frame.left - 1 || at.x > frame.right + 1 ||
            at.y < frame.top - 1 || at.y > frame.bottom + 1)
            continue;
        if (dense && fabs(at.x - last) < distance) continue;
        locus_series_marker(&drawing->canvas, s, at);
        last = at.x;
    }
}

/* The dashed lines at trained lengths, and what they are, above the frame. */
static void draw_marks(struct drawing *drawing)
{
    const struct locus_text_style *style = &locus_text_small;
    struct locus_box frame = drawing->frame;
    double free_from = frame.left - 20;
    for (int i = 0; i < drawing->n_marks; i++) {
        double x = locus_axis_place(&drawing->x, drawing->marks[i]);
        if (!(x >= frame.left && x <= frame.right)) continue;
        int column = (int)floor(x);
        for (int y = frame.top; y < frame.bottom; y += 10)
            locus_canvas_fill(&drawing->canvas,
                              (struct locus_box){column, y, column + 1,
                                                 y + 6 < frame.bottom ? y + 6 : frame.bottom},
                              grey);
        char number[32], text[64];
        locus_number_print(number, drawing->marks[i], 1);
        snprintf(text, sizeof text, drawing->n_marks == 1 ? "trained length %s" : "trained %s",
                 number);
        double half = locus_text_width(style, text, strlen(text)) / 2;
        double centre = fmax(half + 4, fmin(x, drawing->width - half - 4));
        if (centre - half < free_from) continue;
        free_from = centre + half + 8;
        locus_text_draw(&drawing->canvas, style, text, strlen(text), centre, frame.top - 11,
                        LOCUS_ALIGN_CENTRE, false);
    }
}

static void draw_frame(struct drawing *drawing)
{
    struct locus_canvas *canvas = &drawing->canvas;
    struct locus_box f = drawing->frame;
    locus_canvas_fill(canvas, (struct locus_box){f.left, f.top, f.right, f.top + 1}, ink);
    locus_canvas_fill(canvas, (struct locus_box){f.left, f.bottom - 1, f.right, f.bottom}, ink);
    locus_canvas_fill(canvas, (struct locus_box){f.left, f.top, f.left + 1, f.bottom}, ink);
    locus_canvas_fill(canvas, (struct locus_box){f.right - 1, f.top, f.right, f.bottom}, ink);
    locus_axis_draw_below(canvas, &drawing->x, f.bottom);
    locus_axis_draw_beside(canvas, &drawing->y, f.left, false);
    const struct locus_line_chart *chart = drawing->chart;
    locus_title_draw(canvas, chart->title);
    if (chart->x.label)
        locus_text_draw_cut(canvas, &locus_text_plain, chart->x.label, drawing->width - 2 * MARGIN,
                            (f.left + f.right) / 2.0, drawing->height - MARGIN - 4,
                            LOCUS_ALIGN_CENTRE, false);
    if (chart->y.label)
        locus_text_draw_cut(canvas, &locus_text_plain, chart->y.label, drawing->height - 2 * MARGIN,
                            MARGIN + 9, (f.top + f.bottom) / 2.0, LOCUS_ALIGN_CENTRE, true);
}

/* How many points of a line there are to see. */
static int count_points(const struct drawing *drawing, int s)
{
    const struct locus_chart_series *series = &drawing->chart->series[s];
    int n = 0;
    for (int i = 0; i < series->n; i++)
        n += is_point(place(drawing, series->x[i], series->y[i]));
    return n;
}

/* Calls `part` for every line, those of fewer points last: what ends early lies on the others,
 * which are seen further on. */
static void draw_each(struct drawing *drawing, void (*part)(struct drawing *drawing, int s))
{
    int next = INT_MAX; /* points of the lines to draw now */
    while (next >= 0) {
        int fewer = -1;
        for (int s = 0; s < drawing->chart->n_series; s++) {
            const int n = count_points(drawing, s);
            if (n == next) part(drawing, s);
            if (n < next && n > fewer) fewer = n;
        }
        next = fewer;
    }
}

static void draw(struct drawing *drawing)
{
    struct locus_box frame = drawing->frame;
    int n_series = drawing->chart->n_series;
    draw_grid(drawing);
    draw_marks(drawing);
    locus_canvas_clip(&drawing->canvas, &frame);
    for (int s = 0; s < n_series; s++)
        if (drawing->chart->series[s].error) {
            draw_band(drawing, s);
            draw_bars(drawing, s);
        }
    draw_each(drawing, draw_line);
    locus_canvas_clip(&drawing->canvas, NULL);
    draw_frame(drawing);
    draw_each(drawing, draw_markers);
    int n_points = 0;
    for (int s = 0; s < n_series; s++)
        n_points += count_points(drawing, s);
    if (n_points == 0)
        locus_text_draw(&drawing->canvas, &locus_text_plain, "no values", 9,
                        (frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0,
                        LOCUS_ALIGN_CENTRE, false);
    locus_legend_draw(&drawing->canvas, &drawing->legend, frame.right + 20, frame.top);
}

bool locus_line_chart_is_ascii(const struct locus_line_chart *chart)
{
    bool is_ascii = locus_text_is_ascii(chart->title) && locus_text_is_ascii(chart->x.label) &&
                    locus_text_is_ascii(chart->y.label);
    for (int i = 0; i < chart->n_series && is_ascii; i++)
        is_ascii = locus_text_is_ascii(chart->series[i].name);
    return is_ascii;
}

enum locus_status locus_line_chart_draw(struct locus_buffer *png,
                                        const struct locus_line_chart *chart, locus_error *error)
{
    struct drawing drawing = {.chart = chart,
                              .width = chart->width ? chart->width : 960,
                              .height = chart->height ? chart->height : 560};
    enum locus_status status = locus_canvas_check(drawing.width, drawing.height, error);
    if (status) return status;
    fit_axes(&drawing);
    place_frame(&drawing);
    status = locus_canvas_create(&drawing.canvas, drawing.width, drawing.height, error);
    if (status) return status;
    draw(&drawing);
    return locus_png_encode(&drawing.canvas, png, error);
}

enum locus_status locus_line_chart_write(const char *path, const struct locus_line_chart *chart,
                                         locus_error *error)
{
    struct locus_buffer png = {0};
    return locus_png_save(path, &png, locus_line_chart_draw(&png, chart, error), error);
}
