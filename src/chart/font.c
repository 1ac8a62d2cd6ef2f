/* Text: a stroke font drawn for this library.
 *
 * A glyph is a path on a grid where capitals are 10 units high, small letters 7, descenders 3 below
 * the baseline; x grows to the right from the leftmost stroke, y upwards, both in the middle of a
 * stroke. At size 1 a unit is a pixel, and stems and bars fall on whole pixels.
 *
 *     M x y x y ...          a line through these points
 *     L x y ...              the line goes on
 *     A cx cy rx ry from to  an arc of an ellipse, degrees counter-clockwise from the right
 *     a cx cy rx ry from to  the same, joined to the line before it
 *     D x y                  a dot
 */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "chart/canvas.h"

const struct locus_text_style locus_text_plain = {1, 1.3, {0x26, 0x26, 0x26}};
const struct locus_text_style locus_text_title = {1.2, 1.9, {0x10, 0x10, 0x10}};
const struct locus_text_style locus_text_small = {0.8, 1.15, {0x40, 0x40, 0x40}};

struct glyph {
    int advance; /* to the next glyph, units */
    const char *path;
};

#define RING "A3 3.5 3 3.5 0 360"

static const struct glyph glyphs['~' - ' ' + 1] = {
    {5, ""},                                                                            /* space */
    {5, "M1 10 1 3.2D1 .1"},                                                            /* ! */
    {6, "M0 10 0 7.5M2.5 10 2.5 7.5"},                                                  /* " */
    {11, "M2 0 3.4 10M5.4 0 6.8 10M.6 3 8 3M1 7 8.4 7"},                                /* # */
    {10, "A3.25 7.25 2.9 2.25 30 270a3.25 2.75 3.25 2.25 90 -150M3.25 11.2 3.25 -1.2"}, /* $ */
    {14, "A2.25 7.75 2.25 2.25 0 360A8.75 2.25 2.25 2.25 0 360M9 10 2 0"},              /* % */
    {12, "M9 0 1.7 6.7a3.6 8 2.2 2 217 -40L1.2 4.3a3.4 2.5 3.4 2.5 135 320L8.6 4.8"},   /* & */
    {3, "M0 10 0 7.5"},                                                                 /* ' */
    {5, "A5 4 5 9 130 230"},                                                            /* ( */
    {5, "A-3 4 5 9 50 -50"},                                                            /* ) */
    {8, "M2.5 10 2.5 5M.3 8.8 4.7 6.2M.3 6.2 4.7 8.8"},                                 /* * */
    {10, "M0 4 7 4M3.5 .5 3.5 7.5"},                                                    /* + */
    {5, "M1.5 .4 .6 -2.2"},                                                             /* , */
    {8, "M0 4 5 4"},                                                                    /* - */
    {4, "D.5 .1"},                                                                      /* . */
    {7, "M0 -1 4.5 11"},                                                                /* / */
    {9, "A3 5 3 5 0 360"},                                                              /* 0 */
    {9, "M1 8 4 10 4 0"},                                                               /* 1 */
    {9, "A3 7.1 2.9 2.9 165 -38L0 0 6 0"},                                              /* 2 */
    {9, "A2.8 7.5 2.6 2.5 150 -90a2.8 2.5 3.1 2.5 90 -150"},                            /* 3 */
    {9, "M5 0 5 10 0 3 7 3"},                                                           /* 4 */
    {9, "M5.4 10 1 10 .6 5.4a2.9 3.2 3.1 3.2 135 -150"},                                /* 5 */
    {9, "A3 3.1 3 3.1 0 360A5.2 3.1 5.2 6.9 180 93"},                                   /* 6 */
    {9, "M0 10 6 10 2 0"},                                                              /* 7 */
    {9, "A3 7.6 2.6 2.4 0 360A3 2.6 3 2.6 0 360"},                                      /* 8 */
    {9, "A3 6.9 3 3.1 0 360A.8 6.9 5.2 6.9 0 -87"},                                     /* 9 */
    {4, "D.5 .1D.5 6.2"},                                                               /* : */
    {5, "M1.5 .4 .6 -2.2D1 6.2"},                                                       /* ; */
    {9, "M6 8 0 4.5 6 1"},                                                              /* < */
    {10, "M0 3 7 3M0 6 7 6"},                                                           /* = */
    {9, "M0 8 6 4.5 0 1"},                                                              /* > */
    {8, "A2.5 7.6 2.5 2.4 170 -45L2.5 4.4 2.5 3.2D2.5 .1"},                             /* ? */
    {13, "A5 3.8 2.2 2.6 0 360M7.2 6.4 7.2 3a8.5 3 1.3 1.6 180 360a5 4 4.8 6 -8 300"},  /* @ */
    {11, "M0 0 4 10 8 0M1.2 3 6.8 3"},
    {10, "M3.5 0 0 0 0 10 3.5 10a3.5 7.5 2.5 2.5 90 -90L0 5M3.5 5a3.8 2.5 3 2.5 90 -90L3.5 0"},
    {11, "A4.5 5 4.5 5 48 312"},
    {11, "M3 10 0 10 0 0 3 0a3 5 5 5 -90 90"},
    {9, "M6 10 0 10 0 0 6 0M0 5 5 5"},
    {9, "M6 10 0 10 0 0M0 5 5 5"},
    {12, "A4.5 5 4.5 5 48 360L5 5"},
    {11, "M0 0 0 10M8 0 8 10M0 5 8 5"},
    {3, "M0 0 0 10"},
    {8, "M5 10 5 2.5a2.5 2.5 2.5 2.5 0 -170"},
    {10, "M0 0 0 10M7 10 0 4M2.5 6.1 7.2 0"},
    {8, "M0 10 0 0 5.5 0"},
    {12, "M0 0 0 10 4.5 2 9 10 9 0"},
    {11, "M0 0 0 10 8 0 8 10"},
    {12, "A4.5 5 4.5 5 0 360"},
    {9, "M0 0 0 10 3.5 10a3.5 7 3 3 90 -90L0 4"},
    {12, "A4.5 5 4.5 5 0 360M5.5 2.5 9 -1"},
    {10, "M0 0 0 10 3.5 10a3.5 7 3 3 90 -90L0 4M3.5 4 7 0"},
    {10, "A3.25 7.5 2.9 2.5 30 270a3.25 2.5 3.25 2.5 90 -150"},
    {10, "M0 10 8 10M4 10 4 0"},
    {11, "M0 10 0 4a4 4 4 4 180 360L8 10"},
    {10, "M0 10 4 0 8 10"},
    {14, "M0 10 3 0 6 10 9 0 12 10"},
    {10, "M0 0 7 10M0 10 7 0"},
    {10, "M0 10 4 4.5 8 10M4 4.5 4 0"},
    {10, "M0 10 7 10 0 0 7 0"},
    {5, "M2.5 11 0 11 0 -2 2.5 -2"}, /* [ */
    {7, "M0 11 4.5 -1"},             /* \ */
    {5, "M0 11 2.5 11 2.5 -2 0 -2"}, /* ] */
    {8, "M0 6 2.5 10 5 6"},          /* ^ */
    {8, "M0 -2 6 -2"},               /* _ */
    {4, "M0 10 1.5 8"},              /* ` */
    {8, "A2.6 4.6 2.4 2.4 155 0L5 0M5 4 2.2 4a2.2 2 2.2 2 90 270L2.6 0a2.6 2.4 2.4 2.4 270 360"},
    {9, "M0 10 0 0" RING},
    {8, "A3 3.5 3 3.5 52 308"},
    {9, "M6 10 6 0" RING},
    {9, "M0 4 5.9 4a3 3.5 3 3.5 8 318"},
    {6, "M2 0 2 8a4 8 2 2 180 90L4.6 10M0 7 4.6 7"},
    {9, "M6 7 6 -.2a3 -.2 3 2.8 0 -155" RING},
    {8, "M0 10 0 0M0 4.4a2.5 4.4 2.5 2.6 180 0L5 0"},
    {3, "M0 7 0 0D0 9.8"},
    {5, "M2 7 2 -1a0 -1 2 2 0 -90D2 9.8"},
    {8, "M0 10 0 0M5 7 0 2.5M1.8 4.1 5.2 0"},
    {3, "M0 10 0 0"},
    {11, "M0 7 0 0M0 4.6a2 4.6 2 2.4 180 0L4 0M4 4.6a6 4.6 2 2.4 180 0L8 0"},
    {8, "M0 7 0 0M0 4.4a2.5 4.4 2.5 2.6 180 0L5 0"},
    {9, RING},
    {9, "M0 7 0 -3" RING},
    {9, "M6 7 6 -3" RING},
    {6, "M0 7 0 0M0 4.2a2.8 4.2 2.8 2.8 180 75"},
    {8, "A2.5 5.25 2.3 1.75 25 270a2.5 1.75 2.5 1.75 90 -155"},
    {6, "M2 9.5 2 2a4 2 2 2 180 270L4.4 0M0 7 4.4 7"},
    {8, "M0 7 0 2.6a2.5 2.6 2.5 2.6 180 360M5 7 5 0"},
    {8, "M0 7 3 0 6 7"},
    {11, "M0 7 2.3 0 4.5 7 6.7 0 9 7"},
    {8, "M0 0 5 7M0 7 5 0"},
    {8, "M0 7 3 0M6 7 2.2 -2.1 .4 -3"},
    {8, "M0 7 5 7 0 0 5.2 0"},
    {6, "M3 11 2 11 1.4 10.2 1.4 5.6 0 4.5 1.4 3.4 1.4 -1.2 2 -2 3 -2"}, /* { */
    {4, "M0 11 0 -2"},                                                   /* | */
    {6, "M0 11 1 11 1.6 10.2 1.6 5.6 3 4.5 1.6 3.4 1.6 -1.2 1 -2 0 -2"}, /* } */
    {10, "A1.75 4 1.75 1.2 180 0a5.25 4 1.75 1.2 180 360"},              /* ~ */
};

/* A byte in characters of the table: itself or, of what the table lacks, \xNN. Returns how many. */
static int spell(char byte, char spelled[4])
{
    static const char digits[] = "0123456789abcdef";
    const unsigned code = (unsigned char)byte;
    if (code >= ' ' && code <= '~') {
        spelled[0] = byte;
        return 1;
    }
    memcpy(spelled, "\\x", 2);
    spelled[2] = digits[code >> 4];
    spelled[3] = digits[code & 15];
    return 4;
}

static const struct glyph *glyph_of(char character)
{
    return &glyphs[character - ' '];
}

bool locus_text_is_ascii(const char *text)
{
    for (; text && *text; text++)
        if ((unsigned char)*text >= 0x80) return false;
    return true;
}

/* ---- measuring ---------------------------------------------------------------------------- */

/* The space after the last glyph is no part of the text. */
enum { SIDE = 2 };

/* Units to what comes after these bytes. */
static int advance_over(const char *bytes, size_t n_bytes)
{
    int units = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        char spelled[4];
        for (int n = spell(bytes[i], spelled); n > 0; n--)
            units += glyph_of(spelled[n - 1])->advance;
    }
    return units;
}

double locus_text_width(const struct locus_text_style *style, const char *text, size_t n_bytes)
{
    return n_bytes ? (advance_over(text, n_bytes) - SIDE) * style->size : 0;
}

size_t locus_text_fit(const struct locus_text_style *style, const char *text, double width)
{
    const size_t n_bytes = strlen(text);
    double units = -SIDE;
    for (size_t at = 0; at < n_bytes;) {
        size_t length = locus_utf8_character(text + at, n_bytes - at);
        if (length == 0) length = 1;
        units += advance_over(text + at, length);
        if (units * style->size > width) return at;
        at += length;
    }
    return n_bytes;
}

/* ---- drawing ------------------------------------------------------------------------------ */

struct pen {
    struct locus_canvas *canvas;
    double x, y; /* the glyph's origin on the canvas */
    double size, weight;
    bool upright;
    struct locus_point at; /* on the canvas */
};

static struct locus_point place(const struct pen *pen, double x, double y)
{
    x *= pen->size;
    y *= pen->size;
    return pen->upright ? (struct locus_point){pen->x - y, pen->y - x}
                        : (struct locus_point){pen->x + x, pen->y - y};
}

static void line_to(struct pen *pen, double x, double y)
{
    struct locus_point to = place(pen, x, y);
    locus_canvas_segment(pen->canvas, pen->at, to, pen->weight);
    pen->at = to;
}

static void arc(struct pen *pen, const double values[6], bool joined)
{
    double degree = acos(-1) / 180;
    int n_steps = 4 + (int)(fabs(values[5] - values[4]) / 15);
    for (int i = 0; i <= n_steps; i++) {
        double angle = (values[4] + (values[5] - values[4]) * i / n_steps) * degree;
        double x = values[0] + values[2] * cos(angle), y = values[1] + values[3] * sin(angle);
        if (i == 0 && !joined) pen->at = place(pen, x, y);
        line_to(pen, x, y);
    }
}

/* A number of a path. strtod would ask the locale what a decimal point is. */
static double read_number(const char **next)
{
    const char *c = *next;
    while (*c == ' ')
        c++;
    double sign = *c == '-' ? -1 : 1, value = 0, place_value = 1;
    c += *c == '-';
    for (; *c >= '0' && *c <= '9'; c++)
        value = 10 * value + (*c - '0');
    if (*c == '.')
        for (c++; *c >= '0' && *c <= '9'; c++)
            value += (*c - '0') * (place_value /= 10);
    *next = c;
    return sign * value;
}

static void draw_glyph(struct pen *pen, const struct glyph *glyph)
{
    const char *next = glyph->path;
    while (*next) {
        char command = *next++;
        int n_values = command == 'A' || command == 'a' ? 6 : 2;
        bool first = true;
        while (*next && strchr("MLAaD", *next) == NULL) {
            double values[6];
            for (int i = 0; i < n_values; i++)
                values[i] = read_number(&next);
            if (n_values == 6) {
                arc(pen, values, command == 'a');
                continue;
            }
            if (command == 'D' || (command == 'M' && first))
                pen->at = place(pen, values[0], values[1]);
            if (command == 'D')
                locus_canvas_segment(pen->canvas, pen->at, pen->at, 1.5 * pen->weight);
            else
                line_to(pen, values[0], values[1]);
            first = false;
        }
    }
}

void locus_text_draw(struct locus_canvas *canvas, const struct locus_text_style *style,
                     const char *text, size_t n_bytes, double x, double y, enum locus_align align,
                     bool upright)
{
    double back = locus_text_width(style, text, n_bytes) * (int)align / 2;
    if (upright)
        y += back;
    else
        x -= back;
    /* Strokes run through the middle of pixels. */
    struct pen pen = {canvas,        floor(x) + 0.5, floor(y) + 0.5, style->size,
                      style->weight, upright,        {0, 0}};
    for (size_t i = 0; i < n_bytes; i++) {
        char spelled[4];
        const int n = spell(text[i], spelled);
        for (int j = 0; j < n; j++) {
            const struct glyph *glyph = glyph_of(spelled[j]);
            draw_glyph(&pen, glyph);
            if (upright)
                pen.y -= glyph->advance * style->size;
            else
                pen.x += glyph->advance * style->size;
        }
    }
    locus_canvas_paint(canvas, style->colour, 1);
}

void locus_text_draw_cut(struct locus_canvas *canvas, const struct locus_text_style *style,
                         const char *text, double width, double x, double y, enum locus_align align,
                         bool upright)
{
    size_t length = strlen(text);
    if (locus_text_width(style, text, length) <= width) {
        locus_text_draw(canvas, style, text, length, x, y, align, upright);
        return;
    }
    double dots = locus_text_width(style, "...", 3) + 4 * style->size;
    struct locus_buffer cut = {0};
    locus_buffer_append(&cut, text, locus_text_fit(style, text, width - dots));
    locus_buffer_append(&cut, "...", 3);
    if (!cut.failed) locus_text_draw(canvas, style, cut.bytes, cut.length, x, y, align, upright);
    locus_buffer_free(&cut);
}
