/* Levels under a scale and a min, and the scale and min of least squared error: what all searches
 * for a quantised block are made of. Inside encode_*.c only.
 *
 * A value is scale * level - min. Each sum is a loop of its own that keeps four partial ones, so
 * that it becomes vector code, with the same bits on every machine.
 */
#ifndef LOCUS_KERNELS_ENCODE_H
#define LOCUS_KERNELS_ENCODE_H

#include <math.h>

#include "kernels/weight_type.h"

enum { LOCUS_NO_HALF = 0x7E00 }; /* a NaN: a block for which no scale is found shows it */

/* Of levels q and values x. */
struct locus_level_sums {
    float error, q, qq, xq; /* error: squared */
};

static inline float locus_to_whole(float value)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it leaves no room for a fraction */
    return (value + shift) - shift;
}

static inline float locus_clamp(float value, float low, float high)
{
    value = value > high ? high : value;
    return value < low ? low : value;
}

/* The half next to a scale, on the side away from 0 where halves lie so far apart that the
 * outermost levels would miss what they are for; the outermost for a scale past all of them, as a
 * fit of values near a type's limit may be. */
static inline uint16_t locus_scale_half(float scale)
{
    scale = locus_clamp(scale, -LOCUS_HALF_MAX, LOCUS_HALF_MAX);
    const uint16_t half = locus_float_to_f16(scale);
    const bool short_of = fabsf(locus_f16_to_float(half)) < 0.99f * fabsf(scale);
    return (uint16_t)(half + short_of);
}

/* n (a multiple of 4, up to 32) values to the nearest levels, `first` to `last`; all those next to
 * 0 for a scale of 0. */
struct locus_level_sums locus_to_levels(float *levels, const float *x, int n, float scale,
                                        float min, float first, float last);

/* The scale that fits these levels best, where there is no min. */
static inline void locus_fit_scale(const struct locus_level_sums *sums, float *scale)
{
    if (sums->qq > 0) *scale = sums->xq / sums->qq;
}

/* The scale and the min that do, of n values. */
static inline void locus_fit_both(const struct locus_level_sums *sums, int n, float sum_x,
                                  float *scale, float *min)
{
    const float count = (float)n, determinant = count * sums->qq - sums->q * sums->q;
    if (!(determinant > 0)) return;
    *scale = (count * sums->xq - sum_x * sums->q) / determinant;
    *min = (*scale * sums->q - sum_x) / count;
}

#endif
