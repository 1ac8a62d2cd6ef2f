/* Pixels and antialiased shapes: see canvas.h.
 *
 * Coverage comes from the distance to the shape's edge, half a pixel either side of it: exact for
 * straight edges along the axes, and as good as supersampling for the rest.
 */
#include "chart/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chart/chart.h"

enum { CHANNELS = 3 };

static bool is_side(int pixels)
{
    return pixels >= LOCUS_CHART_MIN_SIDE && pixels <= LOCUS_CHART_MAX_SIDE;
}

enum locus_status locus_canvas_check(int width, int height, locus_error *error)
{
    if (is_side(width) && is_side(height)) return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                      "a chart of %d x %d pixels, expected %d to %d a side", width, height,
                      (int)LOCUS_CHART_MIN_SIDE, (int)LOCUS_CHART_MAX_SIDE);
}

enum locus_status locus_canvas_create(struct locus_canvas *canvas, int width, int height,
                                      locus_error *error)
{
    *canvas = (struct locus_canvas){0};
    enum locus_status status = locus_canvas_check(width, height, error);
    if (status) return status;
    size_t n = (size_t)width * (size_t)height;
    canvas->width = width;
    canvas->height = height;
    canvas->pixels = malloc(n * CHANNELS);
    canvas->mask = calloc(n, 1);
    if (!canvas->pixels || !canvas->mask) {
        locus_canvas_free(canvas);
        return locus_fail_memory(error, n * CHANNELS);
    }
    memset(canvas->pixels, 0xFF, n * CHANNELS);
    locus_canvas_clip(canvas, NULL);
    canvas->used = (struct locus_box){width, height, 0, 0};
    return LOCUS_OK;
}

void locus_canvas_free(struct locus_canvas *canvas)
{
    free(canvas->pixels);
    free(canvas->mask);
    *canvas = (struct locus_canvas){0};
}

static int clamp_int(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

static struct locus_box intersect(struct locus_box a, struct locus_box b)
{
    return (struct locus_box){
        a.left > b.left ? a.left : b.left,
        a.top > b.top ? a.top : b.top,
        a.right < b.right ? a.right : b.right,
        a.bottom < b.bottom ? a.bottom : b.bottom,
    };
}

void locus_canvas_clip(struct locus_canvas *canvas, const struct locus_box *box)
{
    struct locus_box all = {0, 0, canvas->width, canvas->height};
    canvas->clip = box ? intersect(all, *box) : all;
}

void locus_canvas_fill(struct locus_canvas *canvas, struct locus_box box,
                       struct locus_colour colour)
{
    box = intersect(box, canvas->clip);
    for (int j = box.top; j < box.bottom; j++) {
        unsigned char *pixel =
            canvas->pixels + ((size_t)j * (size_t)canvas->width + (size_t)box.left) * CHANNELS;
        for (int i = box.left; i < box.right; i++, pixel += CHANNELS) {
            pixel[0] = colour.red;
            pixel[1] = colour.green;
            pixel[2] = colour.blue;
        }
    }
}

/* ---- the mask ----------------------------------------------------------------------------- */

/* The pixels that a shape within [left, right] x [top, bottom] can touch; marks them as used. */
static struct locus_box touch(struct locus_canvas *canvas, double left, double top, double right,
                              double bottom)
{
    double edge = 2.0 * LOCUS_CHART_MAX_SIDE; /* so that the numbers below are ints */
    struct locus_box box = {
        (int)floor(fmax(fmin(left, edge), -edge)) - 1,
        (int)floor(fmax(fmin(top, edge), -edge)) - 1,
        (int)ceil(fmax(fmin(right, edge), -edge)) + 1,
        (int)ceil(fmax(fmin(bottom, edge), -edge)) + 1,
    };
    box = intersect(box, canvas->clip);
    if (box.left >= box.right || box.top >= box.bottom) return (struct locus_box){0};
    struct locus_box *used = &canvas->used;
    if (box.left < used->left) used->left = box.left;
    if (box.top < used->top) used->top = box.top;
    if (box.right > used->right) used->right = box.right;
    if (box.bottom > used->bottom) used->bottom = box.bottom;
    return box;
}

static unsigned char *mask_at(struct locus_canvas *canvas, int i, int j)
{
    return canvas->mask + (size_t)j * (size_t)canvas->width + (size_t)i;
}

/* Coverage of a pixel whose middle lies `inside` pixels within the shape's edge. */
static unsigned char cover(double inside)
{
    double share = inside + 0.5;
    return share <= 0 ? 0 : share >= 1 ? 255 : (unsigned char)lround(share * 255);
}

void locus_canvas_segment(struct locus_canvas *canvas, struct locus_point a, struct locus_point b,
                          double width)
{
    if (!isfinite(a.x + a.y + b.x + b.y)) return;
    double half = width / 2, dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
    struct locus_box box = touch(canvas, fmin(a.x, b.x) - half, fmin(a.y, b.y) - half,
                                 fmax(a.x, b.x) + half, fmax(a.y, b.y) + half);
    for (int j = box.top; j < box.bottom; j++) {
        unsigned char *mask = mask_at(canvas, box.left, j);
        for (int i = box.left; i < box.right; i++, mask++) {
            double x = i + 0.5 - a.x, y = j + 0.5 - a.y;
            double along = square > 0 ? fmax(0, fmin(1, (x * dx + y * dy) / square)) : 0;
            x -= along * dx;
            y -= along * dy;
            unsigned char coverage = cover(half - sqrt(x * x + y * y));
            if (coverage > *mask) *mask = coverage;
        }
    }
}

void locus_canvas_polygon(struct locus_canvas *canvas, const struct locus_point *points, int n)
{
    double left = INFINITY, top = INFINITY, right = -INFINITY, bottom = -INFINITY;
    for (int p = 0; p < n; p++) {
        left = fmin(left, points[p].x);
        right = fmax(right, points[p].x);
        top = fmin(top, points[p].y);
        bottom = fmax(bottom, points[p].y);
    }
    struct locus_box box = touch(canvas, left, top, right, bottom);
    for (int j = box.top; j < box.bottom; j++) {
        unsigned char *mask = mask_at(canvas, box.left, j);
        for (int i = box.left; i < box.right; i++, mask++) {
            double inside = INFINITY;
            for (int p = 0; p < n; p++) {
                struct locus_point a = points[p], b = points[(p + 1) % n];
                double dx = b.x - a.x, dy = b.y - a.y;
                double side = dx * (j + 0.5 - a.y) - dy * (i + 0.5 - a.x);
                inside = fmin(inside, side / fmax(hypot(dx, dy), 1e-9));
            }
            unsigned char coverage = cover(inside);
            if (coverage > *mask) *mask = coverage;
        }
    }
}

void locus_canvas_column(struct locus_canvas *canvas, int i, double top, double bottom,
                         double share)
{
    if (!(top < bottom)) return;
    struct locus_box box = touch(canvas, i + 0.5, top, i + 0.5, bottom);
    if (i < box.left || i >= box.right) return;
    for (int j = box.top; j < box.bottom; j++) {
        double covered = fmin(bottom, j + 1) - fmax(top, j);
        if (covered <= 0) continue;
        unsigned char *mask = mask_at(canvas, i, j);
        *mask = (unsigned char)clamp_int(*mask + (int)(covered * share * 255 + 0.5), 0, 255);
    }
}

static unsigned char blend(unsigned char below, unsigned char above, double share)
{
    return (unsigned char)(below + (above - below) * share + 0.5);
}

void locus_canvas_paint(struct locus_canvas *canvas, struct locus_colour colour, double opacity)
{
    struct locus_box box = canvas->used;
    for (int j = box.top; j < box.bottom; j++) {
        unsigned char *mask = mask_at(canvas, box.left, j);
        unsigned char *pixel = canvas->pixels + (size_t)(mask - canvas->mask) * CHANNELS;
        for (int i = box.left; i < box.right; i++, mask++, pixel += CHANNELS) {
            if (!*mask) continue;
            double share = *mask / 255.0 * opacity;
            pixel[0] = blend(pixel[0], colour.red, share);
            pixel[1] = blend(pixel[1], colour.green, share);
            pixel[2] = blend(pixel[2], colour.blue, share);
            *mask = 0;
        }
    }
    canvas->used = (struct locus_box){canvas->width, canvas->height, 0, 0};
}
