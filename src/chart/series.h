/* How the lines of a chart look, so that each is told from the others without colour, too: a
 * colour, a dash pattern and a marker by the series' index. In-house of src/chart.
 */
#ifndef LOCUS_CHART_SERIES_H
#define LOCUS_CHART_SERIES_H

#include "chart/canvas.h"

/* Where a dash pattern stands, so that it runs on over the corners of a line. Start from zero. */
struct locus_dash {
    int part;
    double done; /* pixels of that part */
};

/* Into the canvas's mask: the part of a segment that lies within the clip, dashed. */
void locus_series_segment(struct locus_canvas *canvas, int index, struct locus_dash *dash,
                          struct locus_point a, struct locus_point b);

/* Paints what is in the mask, or a marker, in the series' colour. */
void locus_series_paint(struct locus_canvas *canvas, int index, double opacity);
void locus_series_marker(struct locus_canvas *canvas, int index, struct locus_point at);

/* Space that a legend takes with `width` pixels for each entry's text, and how it is drawn. Entries
 * without a name are passed over. */
struct locus_legend {
    int n_names;
    const char *(*name)(const void *context, int index);
    const void *context;
    double text_width; /* at most; the widest line's after measuring */
    int height;
};

void locus_legend_measure(struct locus_legend *legend);
void locus_legend_draw(struct locus_canvas *canvas, const struct locus_legend *legend, int x,
                       int y);

enum { LOCUS_LEGEND_SAMPLE = 42 /* pixels of line and gap before an entry's text */ };

#endif
