/* What charts are drawn with: pixels, antialiased shapes, text. In-house of src/chart.
 *
 * Pixel (i, j) covers [i, i+1) x [j, j+1), y grows downwards. Shapes go into a mask of coverage
 * first, joined by the larger coverage, so that a line's joints and crossings are no darker than
 * the line; paint then blends a colour through the mask and clears it.
 */
#ifndef LOCUS_CHART_CANVAS_H
#define LOCUS_CHART_CANVAS_H

#include "base/buffer.h"
#include "base/error.h"

struct locus_colour {
    unsigned char red, green, blue;
};

struct locus_box {
    int left, top, right, bottom; /* right and bottom are past the end */
};

struct locus_point {
    double x, y;
};

struct locus_canvas {
    int width, height;
    unsigned char *pixels; /* [height, width, 3] */
    unsigned char *mask;   /* [height, width]: coverage of the shape being drawn */
    struct locus_box clip; /* shapes are cut at it */
    struct locus_box used; /* where the mask may not be 0 */
};

/* Refuses sides that chart.h doesn't allow. */
enum locus_status locus_canvas_check(int width, int height, locus_error *error);

/* A white canvas, its clip the whole of it. The sides are checked. */
enum locus_status locus_canvas_create(struct locus_canvas *canvas, int width, int height,
                                      locus_error *error);
void locus_canvas_free(struct locus_canvas *canvas);

/* Sets the clip; no box (NULL): the whole canvas. */
void locus_canvas_clip(struct locus_canvas *canvas, const struct locus_box *box);

/* Fills whole pixels at once, not through the mask. */
void locus_canvas_fill(struct locus_canvas *canvas, struct locus_box box,
                       struct locus_colour colour);

/* Into the mask: a segment with round ends, `width` pixels wide (a == b: a disc); a convex polygon,
 * its points clockwise on the screen; the part of pixel column i between y = top and bottom,
 * `share` (0 to 1) of its width, added to what is there. */
void locus_canvas_segment(struct locus_canvas *canvas, struct locus_point a, struct locus_point b,
                          double width);
void locus_canvas_polygon(struct locus_canvas *canvas, const struct locus_point *points, int n);
void locus_canvas_column(struct locus_canvas *canvas, int i, double top, double bottom,
                         double share);

void locus_canvas_paint(struct locus_canvas *canvas, struct locus_colour colour, double opacity);

/* ---- text (font.c) ------------------------------------------------------------------------ */

/* A text style: size 1 has capitals 10 pixels high, which is where letters meet whole pixels. */
struct locus_text_style {
    double size, weight; /* weight: width of a stroke in pixels */
    struct locus_colour colour;
};

extern const struct locus_text_style locus_text_plain, locus_text_title, locus_text_small;

enum locus_align { LOCUS_ALIGN_LEFT, LOCUS_ALIGN_CENTRE, LOCUS_ALIGN_RIGHT };

/* The font has ASCII's characters alone; of others, and of controls, the bytes are drawn as \xNN.
 * Whether the text (NULL: there is none) is ASCII's. */
bool locus_text_is_ascii(const char *text);

/* Width in pixels of the first n_bytes of a text. */
double locus_text_width(const struct locus_text_style *style, const char *text, size_t n_bytes);

/* How many leading bytes of a text fit into `width` pixels, never part of a character. */
size_t locus_text_fit(const struct locus_text_style *style, const char *text, double width);

/* Draws n_bytes of a text along a baseline from (x, y); `upright` turns it a quarter to the left,
 * to be read from below, x then being its baseline. */
void locus_text_draw(struct locus_canvas *canvas, const struct locus_text_style *style,
                     const char *text, size_t n_bytes, double x, double y, enum locus_align align,
                     bool upright);

/* The same for the whole text, cut with "..." where it is wider than `width`. */
void locus_text_draw_cut(struct locus_canvas *canvas, const struct locus_text_style *style,
                         const char *text, double width, double x, double y, enum locus_align align,
                         bool upright);

/* ---- PNG (png.c) -------------------------------------------------------------------------- */

/* Appends the picture; the canvas is freed. */
enum locus_status locus_png_encode(struct locus_canvas *canvas, struct locus_buffer *png,
                                   locus_error *error);

/* Writes what was drawn, unless `status` says that nothing was, to a temporary file that is then
 * renamed to `path`. The bytes are freed; returns the status of all of it. */
enum locus_status locus_png_save(const char *path, struct locus_buffer *png,
                                 enum locus_status status, locus_error *error);

#endif
