/* The looks of lines, and the legend that names them: see series.h. */
#include "chart/series.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Far apart for the colour-blind, too, and dark enough on white. */
static const struct locus_colour colours[] = {
    {0x1B, 0x5F, 0xA8}, {0xD1, 0x4F, 0x00}, {0x0B, 0x84, 0x5C}, {0xB8, 0x3D, 0x8A},
    {0x5B, 0x4B, 0xB5}, {0x8A, 0x64, 0x00}, {0x0F, 0x9B, 0xB5}, {0x4A, 0x4A, 0x4A},
};

static const double line_width = 2;

/* Pixels on, off, on, off; 0 ends. The ends of a dash are round and reach half a width further. */
static const double patterns[][5] = {
    {0}, {8, 5, 0}, {1, 5, 0}, {12, 5, 1, 5, 0}, {18, 6, 0}, {7, 5, 1, 5, 0},
};

static const struct locus_colour white = {0xFF, 0xFF, 0xFF};

enum shape { DISC, POLYGON, STROKES };

static const struct {
    enum shape shape;
    int n; /* corners, or strokes */
    double turn, radius;
    bool open;
} markers[] = {
    {DISC, 0, 0, 4.2, false},     {POLYGON, 4, 45, 5.4, false},  {POLYGON, 3, 0, 5.8, false},
    {POLYGON, 4, 0, 5.6, false},  {STROKES, 2, 45, 5.2, false},  {DISC, 0, 0, 4.6, true},
    {POLYGON, 4, 45, 6.0, true},  {POLYGON, 3, 180, 5.8, false}, {STROKES, 2, 0, 5.2, false},
    {POLYGON, 4, 0, 6.4, true},   {POLYGON, 3, 0, 7.0, true},    {STROKES, 3, 0, 5.2, false},
    {POLYGON, 3, 180, 7.0, true}, {POLYGON, 3, 90, 5.8, false},  {POLYGON, 3, 270, 5.8, false},
    {STROKES, 1, 0, 6.0, false},
};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Cuts a to b at the box, `room` pixels wider on each side; false if nothing is left. */
static bool cut(struct locus_box box, double room, struct locus_point *a, struct locus_point *b)
{
    double from = 0, to = 1, dx = b->x - a->x, dy = b->y - a->y;
    if (!isfinite(dx) || !isfinite(dy)) return false;
    const double p[4] = {-dx, dx, -dy, dy};
    const double q[4] = {a->x - (box.left - room), box.right + room - a->x, a->y - (box.top - room),
                         box.bottom + room - a->y};
    for (int i = 0; i < 4; i++) {
        if (p[i] == 0) {
            if (q[i] < 0) return false;
        } else if (p[i] < 0)
            from = fmax(from, q[i] / p[i]);
        else
            to = fmin(to, q[i] / p[i]);
    }
    if (from > to) return false;
    struct locus_point start = *a;
    *a = (struct locus_point){start.x + from * dx, start.y + from * dy};
    *b = (struct locus_point){start.x + to * dx, start.y + to * dy};
    return true;
}

void locus_series_segment(struct locus_canvas *canvas, int index, struct locus_dash *dash,
                          struct locus_point a, struct locus_point b)
{
    if (!cut(canvas->clip, 4, &a, &b)) return;
    const double *pattern = patterns[index % COUNT(patterns)];
    double length = hypot(b.x - a.x, b.y - a.y), at = 0;
    if (pattern[0] == 0) {
        locus_canvas_segment(canvas, a, b, line_width);
        return;
    }
    while (at < length) {
        double step = fmin(pattern[dash->part] - dash->done, length - at);
        struct locus_point from = {a.x + (b.x - a.x) * at / length,
                                   a.y + (b.y - a.y) * at / length};
        at += step;
        struct locus_point to = {a.x + (b.x - a.x) * at / length, a.y + (b.y - a.y) * at / length};
        if (dash->part % 2 == 0) locus_canvas_segment(canvas, from, to, line_width);
        dash->done += step;
        if (dash->done < pattern[dash->part] - 1e-9) break;
        dash->done = 0;
        if (pattern[++dash->part] == 0) dash->part = 0;
    }
}

void locus_series_paint(struct locus_canvas *canvas, int index, double opacity)
{
    locus_canvas_paint(canvas, colours[index % COUNT(colours)], opacity);
}

static void marker_shape(struct locus_canvas *canvas, int marker, struct locus_point at,
                         double radius, double weight)
{
    double degree = acos(-1) / 180;
    int n = markers[marker].n;
    if (markers[marker].shape == DISC) {
        locus_canvas_segment(canvas, at, at, 2 * radius);
    } else if (markers[marker].shape == STROKES) {
        for (int i = 0; i < n; i++) {
            double angle = (markers[marker].turn + i * 180.0 / n) * degree;
            double x = sin(angle) * radius, y = cos(angle) * radius;
            locus_canvas_segment(canvas, (struct locus_point){at.x - x, at.y - y},
                                 (struct locus_point){at.x + x, at.y + y}, weight);
        }
    } else {
        struct locus_point corners[4];
        for (int i = 0; i < n; i++) {
            double angle = (markers[marker].turn + i * 360.0 / n) * degree;
            corners[i] =
                (struct locus_point){at.x + sin(angle) * radius, at.y - cos(angle) * radius};
        }
        locus_canvas_polygon(canvas, corners, n);
    }
}

/* A white rim keeps it apart from the lines below it. */
void locus_series_marker(struct locus_canvas *canvas, int index, struct locus_point at)
{
    if (!isfinite(at.x) || !isfinite(at.y)) return;
    int marker = index % COUNT(markers);
    double radius = markers[marker].radius, corner = markers[marker].n == 3 ? 2 : 1.4;
    marker_shape(canvas, marker, at, radius + corner, 4.4);
    locus_canvas_paint(canvas, white, 1);
    marker_shape(canvas, marker, at, radius, 2);
    locus_series_paint(canvas, index, 1);
    if (!markers[marker].open) return;
    marker_shape(canvas, marker, at, radius - 1.7 * corner, 0);
    locus_canvas_paint(canvas, white, 1);
}

/* ---- legend ------------------------------------------------------------------------------- */

enum { LINE_HEIGHT = 17, ENTRY_GAP = 7, MAX_LINES = 8 };

/* How many bytes of the text go on its next line of that width: up to a comma or a space where
 * there is one in the line's second half. */
static size_t next_line(const char *text, double width)
{
    size_t fit = locus_text_fit(&locus_text_plain, text, width);
    if (!text[fit]) return fit;
    for (size_t n = fit; n > fit / 3; n--)
        if (strchr(", :", text[n - 1])) return n;
    return fit > 0 ? fit : 1;
}

void locus_legend_measure(struct locus_legend *legend)
{
    double widest = 0;
    legend->height = 0;
    for (int i = 0; i < legend->n_names; i++) {
        const char *text = legend->name(legend->context, i);
        if (!text || !*text) continue;
        if (legend->height > 0) legend->height += ENTRY_GAP;
        for (int line = 0; *text && line < MAX_LINES; line++) {
            size_t n = next_line(text, legend->text_width);
            widest = fmax(widest, locus_text_width(&locus_text_plain, text, n));
            text += n;
            legend->height += LINE_HEIGHT;
        }
    }
    legend->text_width = widest;
}

static void draw_sample(struct locus_canvas *canvas, int index, double x, double y)
{
    struct locus_dash dash = {0};
    struct locus_point a = {x, y}, b = {x + LOCUS_LEGEND_SAMPLE - 10, y};
    locus_series_segment(canvas, index, &dash, a, b);
    locus_series_paint(canvas, index, 1);
    locus_series_marker(canvas, index, (struct locus_point){(a.x + b.x) / 2, y});
}

/* `text_width` is taken with a little slack, so that lines break as they were measured. */
void locus_legend_draw(struct locus_canvas *canvas, const struct locus_legend *legend, int x, int y)
{
    int top = y;
    for (int i = 0; i < legend->n_names; i++) {
        const char *text = legend->name(legend->context, i);
        if (!text || !*text) continue;
        if (y > top) y += ENTRY_GAP;
        if (y + LINE_HEIGHT > canvas->height) return;
        draw_sample(canvas, i, x, y + LINE_HEIGHT / 2 + 0.5);
        for (int line = 0; *text && line < MAX_LINES; line++, y += LINE_HEIGHT) {
            size_t n = next_line(text, legend->text_width + 0.01);
            if (line == MAX_LINES - 1 && text[n])
                locus_text_draw_cut(canvas, &locus_text_plain, text, legend->text_width,
                                    x + LOCUS_LEGEND_SAMPLE, y + 13, LOCUS_ALIGN_LEFT, false);
            else
                locus_text_draw(canvas, &locus_text_plain, text, n, x + LOCUS_LEGEND_SAMPLE, y + 13,
                                LOCUS_ALIGN_LEFT, false);
            text += n;
        }
    }
}
