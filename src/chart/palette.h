/* Colours of heat maps. In-house of src/chart. */
#ifndef LOCUS_CHART_PALETTE_H
#define LOCUS_CHART_PALETTE_H

#include "chart/canvas.h"
#include "chart/chart.h"

/* The colour of share 0 (darkest) to 1 (lightest); past the ends the ends' own. */
struct locus_colour locus_palette_at(enum locus_palette palette, double share);

/* Whether black is better read on it than white. */
bool locus_colour_is_light(struct locus_colour colour);

#endif
