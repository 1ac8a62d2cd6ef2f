/* Charts: line charts and heat maps, drawn into PNG files.
 *
 * A chart is a struct that the caller fills and keeps; zeroed members mean "choose". Values that
 * are not finite are holes: a line breaks there, a cell stays grey. Nothing is too many, too few,
 * too large or too small to draw; a chart without a single value says so in its middle.
 *
 *     struct -> ranges, ticks (axes.c) -> layout and drawing (line.c, heatmap.c)
 *            -> antialiased pixels (canvas.c, font.c) -> PNG (png.c) -> temporary file, renamed
 *
 * The font has ASCII's characters alone: of any other, and of controls, the bytes are drawn, as
 * \xNN.
 */
#ifndef LOCUS_CHART_CHART_H
#define LOCUS_CHART_CHART_H

#include "base/buffer.h"
#include "base/error.h"

enum locus_scale {
    LOCUS_SCALE_AUTO,   /* LOG2 (x) or LOG10 (y) where all values are positive and span 16 times or
                         * more, else LINEAR */
    LOCUS_SCALE_LINEAR, /* ticks at round numbers */
    LOCUS_SCALE_LOG2,   /* ticks at powers of two: lengths */
    LOCUS_SCALE_LOG10   /* ticks at powers of ten, and 2 and 5 times them where there is room;
                         * values that are not positive are holes */
};

struct locus_chart_axis {
    const char *label;
    enum locus_scale scale;
    double min, max; /* min < max: the range; lines past it are cut. Else: from the data */
};

/* One line. Points are joined in the order given. */
struct locus_chart_series {
    const char *name; /* in the legend, wrapped at commas where it is long; NULL: not listed */
    int n;
    const double *x;       /* [n] */
    const double *y;       /* [n] */
    const double *error;   /* [n] one standard error of y, a shaded band y - error .. y + error; or
                            * NULL */
    double trained_length; /* the x of a dashed vertical line; 0: none. Equal ones are one line */
};

struct locus_line_chart {
    const char *title; /* a newline starts a second, smaller line; NULL: none */
    struct locus_chart_axis x, y;
    int n_series;
    const struct locus_chart_series *series; /* [n_series] */
    int width, height; /* pixels; 0: 960 x 560. A legend that needs more height gets it */
};

enum locus_palette { LOCUS_VIRIDIS, LOCUS_INFERNO };

/* What the rows or the columns of a heat map are. */
struct locus_heat_axis {
    const char *label;
    const char *const *names; /* one a row or column, where they have names; else NULL */
    double first, step;       /* else their numbers: first, first + step, ...; step 0: 1 */
};

struct locus_heat_map {
    const char *title;       /* a newline starts a second, smaller line; NULL: none */
    const char *value_label; /* beside the scale bar; NULL: none */
    int n_rows, n_columns;
    const float *values; /* [n_rows, n_columns]; row 0 is drawn at the top */
    struct locus_heat_axis rows, columns;
    int mark_after;         /* a dashed line to the right of so many columns; 0: none */
    const char *mark_label; /* above that line; NULL: none */
    enum locus_palette palette;
    double min, max;   /* min < max: the colours' range. Else: from the data */
    bool square;       /* cells as high as they are wide: matrices of a thing with itself */
    int width, height; /* pixels; 0: 960 x 560, square: 720 x 640, less what whole cells leave */
};

enum {
    LOCUS_CHART_MIN_SIDE = 160, /* pixels; less is refused (LOCUS_ERROR_ARGUMENT) */
    LOCUS_CHART_MAX_SIDE = 8192 /* so is more */
};

/* Whether all that is written in the chart is ASCII. */
bool locus_line_chart_is_ascii(const struct locus_line_chart *chart);
bool locus_heat_map_is_ascii(const struct locus_heat_map *map);

/* Draws the chart into the file at `path`, which appears only when it is whole. */
enum locus_status locus_line_chart_write(const char *path, const struct locus_line_chart *chart,
                                         locus_error *error);
enum locus_status locus_heat_map_write(const char *path, const struct locus_heat_map *map,
                                       locus_error *error);

/* The same as a PNG in memory, appended to *png. */
enum locus_status locus_line_chart_draw(struct locus_buffer *png,
                                        const struct locus_line_chart *chart, locus_error *error);
enum locus_status locus_heat_map_draw(struct locus_buffer *png, const struct locus_heat_map *map,
                                      locus_error *error);

#endif
