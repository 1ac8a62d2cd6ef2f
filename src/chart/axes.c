/* Axes: ranges, ticks and their texts. See axes.h. */
#include "chart/axes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

/* Past these a range would overflow. */
static const double largest = 1e300, smallest = 1e-300;

static const struct locus_colour ink = {0x26, 0x26, 0x26};

void locus_extent_add(struct locus_extent *extent, double value)
{
    if (!isfinite(value)) return;
    value = fmax(-largest, fmin(largest, value));
    extent->min = fmin(extent->min, value);
    extent->max = fmax(extent->max, value);
    if (value > 0) extent->least_positive = fmin(extent->least_positive, fmax(value, smallest));
}

static bool is_log(enum locus_scale scale)
{
    return scale == LOCUS_SCALE_LOG2 || scale == LOCUS_SCALE_LOG10;
}

/* ---- range -------------------------------------------------------------------------------- */

static void widen_point(struct locus_axis *axis)
{
    if (is_log(axis->scale)) {
        axis->min /= 2;
        axis->max *= 2;
    } else {
        double room = fmax(fabs(axis->max) * 0.1, smallest);
        if (axis->max == 0) room = 1;
        axis->min -= room;
        axis->max += room;
    }
}

/* Some room between the data and the frame. */
static void pad(struct locus_axis *axis)
{
    const double share = 0.04;
    if (is_log(axis->scale)) {
        double room = pow(axis->max / axis->min, share);
        if (!isfinite(room)) room = 1e10;
        axis->min = fmax(axis->min / room, smallest / 1e5);
        axis->max *= room;
    } else {
        double room = (axis->max - axis->min) * share;
        axis->min -= room;
        axis->max += room;
    }
}

void locus_axis_fit(struct locus_axis *axis, const struct locus_chart_axis *wanted,
                    const struct locus_extent *extent, enum locus_scale automatic)
{
    bool given = isfinite(wanted->min) && isfinite(wanted->max) && wanted->min < wanted->max;
    double min = given ? wanted->min : extent->min, max = given ? wanted->max : extent->max;
    axis->scale = wanted->scale;
    if (axis->scale == LOCUS_SCALE_AUTO)
        axis->scale = min > 0 && max / min >= 16 && isfinite(min) ? automatic : LOCUS_SCALE_LINEAR;
    if (is_log(axis->scale) && min <= 0) min = extent->least_positive;
    if (!isfinite(min) || !isfinite(max) || min > max) { /* nothing to show */
        min = is_log(axis->scale) ? 1 : 0;
        max = is_log(axis->scale) ? 10 : 1;
    }
    axis->min = is_log(axis->scale) ? fmax(min, smallest) : min;
    axis->max = is_log(axis->scale) ? fmax(max, smallest) : max;
    bool point = !(axis->max - axis->min > fabs(axis->max) * 1e-12);
    if (point) widen_point(axis);
    if (!given && !point) pad(axis);
}

double locus_axis_place(const struct locus_axis *axis, double value)
{
    double share;
    if (is_log(axis->scale)) {
        if (!(value > 0)) return NAN;
        share = (log(value) - log(axis->min)) / (log(axis->max) - log(axis->min));
    } else
        share = (value - axis->min) / (axis->max - axis->min);
    return axis->from + (axis->to - axis->from) * share;
}

/* ---- ticks -------------------------------------------------------------------------------- */

/* "1e+06" becomes "1e6". */
static void shorten_exponent(char *text)
{
    char *exponent = strchr(text, 'e');
    if (!exponent) return;
    char *digits = exponent + 1, *to = digits;
    if (*digits == '-') to++;
    digits += *digits == '-' || *digits == '+';
    while (*digits == '0' && digits[1])
        digits++;
    memmove(to, digits, strlen(digits) + 1);
}

void locus_number_print(char text[32], double value, double step)
{
    double size = fmax(fabs(value), fabs(step));
    if (fabs(value) < fabs(step) * 1e-6) value = 0;
    if (value == 0)
        snprintf(text, 32, "0");
    else if (size >= 1e6 || size < 1e-4) {
        locus_print(text, 32, "%.4g", value);
        shorten_exponent(text);
    } else {
        int decimals = 0;
        for (double s = fabs(step); decimals < 8 && fabs(s - round(s)) > s * 1e-6; s *= 10)
            decimals++;
        locus_print(text, 32, "%.*f", decimals, value);
    }
}

static void add_tick(struct locus_axis *axis, double value, double step, bool labelled)
{
    const double slack = 1e-9;
    double share = (locus_axis_place(axis, value) - axis->from) / (axis->to - axis->from);
    if (!(share >= -slack && share <= 1 + slack) || axis->n_ticks == LOCUS_MAX_TICKS) return;
    struct locus_tick *tick = &axis->ticks[axis->n_ticks++];
    tick->value = value;
    tick->text[0] = '\0';
    if (labelled) locus_number_print(tick->text, value, step);
}

/* The smallest of 1, 2, 5 times a power of ten that is not below `least`. */
static double round_step(double least)
{
    double power = pow(10, floor(log10(least)));
    const double steps[] = {1, 2, 5, 10};
    for (int i = 0; i < 4; i++)
        if (steps[i] * power >= least * (1 - 1e-9)) return steps[i] * power;
    return 10 * power;
}

static void tick_linear(struct locus_axis *axis, int n_wanted)
{
    axis->n_ticks = 0;
    double step = round_step((axis->max - axis->min) / n_wanted);
    if (!(step > 0) || !isfinite(step)) return;
    double first = ceil(axis->min / step - 1e-9);
    for (int i = 0; i < LOCUS_MAX_TICKS; i++)
        add_tick(axis, (first + i) * step, step, true);
}

/* Powers of the base, every `stride`th; in between, at stride 1, those multiples of powers of ten
 * whose bit is set in `multiples`, and all others as small ticks. */
static void tick_log(struct locus_axis *axis, double base, int stride, unsigned multiples)
{
    axis->n_ticks = 0;
    int first = (int)floor(log(axis->min) / log(base)),
        last = (int)ceil(log(axis->max) / log(base));
    for (int power = first; power <= last; power++) {
        double value = pow(base, power);
        int remainder = (power % stride + stride) % stride;
        if (remainder == 0)
            add_tick(axis, value, value, true);
        else if ((last - first) < LOCUS_MAX_TICKS)
            add_tick(axis, value, value, false);
        for (int m = 2; m < 10 && base == 10 && last - first <= 4; m++)
            add_tick(axis, value * m, value, multiples >> m & 1);
    }
}

static int count_labels(const struct locus_axis *axis)
{
    int n = 0;
    for (int i = 0; i < axis->n_ticks; i++)
        n += axis->ticks[i].text[0] != '\0';
    return n;
}

/* Whether neighbouring texts keep their distance. */
static bool is_roomy(const struct locus_axis *axis, const struct locus_text_style *style,
                     bool vertical)
{
    double last = -INFINITY;
    for (int i = 0; i < axis->n_ticks; i++) {
        const char *text = axis->ticks[i].text;
        if (!*text) continue;
        double at = fabs(locus_axis_place(axis, axis->ticks[i].value) - axis->from);
        double half = vertical ? 9 * style->size : locus_text_width(style, text, strlen(text)) / 2;
        double gap = vertical ? 6 * style->size : 12 * style->size;
        if (at - half < last + gap) return false;
        last = at + half;
    }
    return true;
}

/* From the densest choice to the sparsest. */
void locus_axis_tick(struct locus_axis *axis, const struct locus_text_style *style, bool vertical)
{
    const int max_labels = 10;
    if (is_log(axis->scale)) {
        static const unsigned densities[] = {1u << 2 | 1u << 5, 1u << 3, 0};
        double base = axis->scale == LOCUS_SCALE_LOG2 ? 2 : 10;
        for (int i = base == 10 ? 0 : 2; i < 3; i++) {
            tick_log(axis, base, 1, densities[i]);
            int n = count_labels(axis);
            if (n >= 3 && n <= max_labels + 2 && is_roomy(axis, style, vertical)) return;
        }
        for (int stride = 2; stride < 1024; stride++) {
            tick_log(axis, base, stride, 0);
            int n = count_labels(axis);
            if (n < 2) break;
            if (n <= max_labels && is_roomy(axis, style, vertical)) return;
        }
    }
    for (int n = max_labels; n > 0; n--) {
        tick_linear(axis, n);
        if (count_labels(axis) <= max_labels + 1 && is_roomy(axis, style, vertical)) return;
    }
    axis->n_ticks = 0;
}

double locus_axis_text_width(const struct locus_axis *axis, const struct locus_text_style *style)
{
    double widest = 0;
    for (int i = 0; i < axis->n_ticks; i++) {
        const char *text = axis->ticks[i].text;
        widest = fmax(widest, locus_text_width(style, text, strlen(text)));
    }
    return widest;
}

/* ---- drawing ------------------------------------------------------------------------------ */

enum { TICK = 5, SMALL_TICK = 3, GAP = 5 };

void locus_axis_draw_below(struct locus_canvas *canvas, const struct locus_axis *axis, int y)
{
    for (int i = 0; i < axis->n_ticks; i++) {
        const struct locus_tick *tick = &axis->ticks[i];
        double at = locus_axis_place(axis, tick->value);
        int x = (int)floor(at), length = tick->text[0] ? TICK : SMALL_TICK;
        locus_canvas_fill(canvas, (struct locus_box){x, y, x + 1, y + length}, ink);
        locus_text_draw(canvas, &locus_text_plain, tick->text, strlen(tick->text), at,
                        y + TICK + GAP + 10, LOCUS_ALIGN_CENTRE, false);
    }
}

void locus_axis_draw_beside(struct locus_canvas *canvas, const struct locus_axis *axis, int x,
                            bool right)
{
    for (int i = 0; i < axis->n_ticks; i++) {
        const struct locus_tick *tick = &axis->ticks[i];
        double at = locus_axis_place(axis, tick->value);
        int y = (int)floor(at), length = tick->text[0] ? TICK : SMALL_TICK;
        struct locus_box mark = {right ? x : x - length, y, right ? x + length : x, y + 1};
        locus_canvas_fill(canvas, mark, ink);
        locus_text_draw(canvas, &locus_text_plain, tick->text, strlen(tick->text),
                        right ? x + TICK + GAP : x - TICK - GAP, at + 5,
                        right ? LOCUS_ALIGN_LEFT : LOCUS_ALIGN_RIGHT, false);
    }
}

/* ---- title -------------------------------------------------------------------------------- */

enum { MARGIN = 16, TITLE = 34, SUBTITLE = 20 };

int locus_title_height(const char *title)
{
    return !title ? 0 : strchr(title, '\n') ? TITLE + SUBTITLE : TITLE;
}

void locus_title_draw(struct locus_canvas *canvas, const char *title)
{
    if (!title) return;
    const char *newline = strchr(title, '\n');
    size_t length = newline ? (size_t)(newline - title) : strlen(title);
    double middle = canvas->width / 2.0, width = canvas->width - 2.0 * MARGIN;
    size_t fit = locus_text_fit(&locus_text_title, title, width);
    locus_text_draw(canvas, &locus_text_title, title, fit < length ? fit : length, middle,
                    MARGIN + 14, LOCUS_ALIGN_CENTRE, false);
    if (newline)
        locus_text_draw_cut(canvas, &locus_text_plain, newline + 1, width, middle,
                            MARGIN + 14 + SUBTITLE, LOCUS_ALIGN_CENTRE, false);
}
