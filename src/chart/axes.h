/* Axes: from values to pixels, and the ticks between. In-house of src/chart. */
#ifndef LOCUS_CHART_AXES_H
#define LOCUS_CHART_AXES_H

#include "chart/canvas.h"
#include "chart/chart.h"

/* What the finite values of one axis reach over; start from LOCUS_EXTENT_EMPTY. */
struct locus_extent {
    double min, max, least_positive;
};

#define LOCUS_EXTENT_EMPTY ((struct locus_extent){INFINITY, -INFINITY, INFINITY})

void locus_extent_add(struct locus_extent *extent, double value);

enum { LOCUS_MAX_TICKS = 40 };

struct locus_tick {
    double value;
    char text[32]; /* "": a small tick */
};

struct locus_axis {
    enum locus_scale scale; /* never AUTO */
    double min, max;        /* min < max; positive where the scale is a logarithm */
    double from, to;        /* their pixels; from > to on a vertical axis */
    int n_ticks;
    struct locus_tick ticks[LOCUS_MAX_TICKS];
};

/* Chooses scale and range; `automatic` is what AUTO becomes where the values ask for a logarithm.
 */
void locus_axis_fit(struct locus_axis *axis, const struct locus_chart_axis *wanted,
                    const struct locus_extent *extent, enum locus_scale automatic);

/* The pixel of a value; NaN where it has none. */
double locus_axis_place(const struct locus_axis *axis, double value);

/* Chooses ticks once from and to are known, so that their texts, set along the axis (or, on a
 * vertical one, below each other), don't touch. */
void locus_axis_tick(struct locus_axis *axis, const struct locus_text_style *style, bool vertical);

/* A number with as many decimals as its neighbours, `step` apart, need. */
void locus_number_print(char text[32], double value, double step);

/* Widest text of the ticks, pixels. */
double locus_axis_text_width(const struct locus_axis *axis, const struct locus_text_style *style);

/* Draws ticks and their texts below the line y (above = bottom of the plot), or left of the line x;
 * `right`: right of it, for a scale bar. */
void locus_axis_draw_below(struct locus_canvas *canvas, const struct locus_axis *axis, int y);
void locus_axis_draw_beside(struct locus_canvas *canvas, const struct locus_axis *axis, int x,
                            bool right);

/* A chart's title above everything else, what follows its newline below it; and the pixels that
 * takes. NULL: none. */
void locus_title_draw(struct locus_canvas *canvas, const char *title);
int locus_title_height(const char *title);

#endif
