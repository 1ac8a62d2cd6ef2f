/* Rows on their way into a file: floats encoded as a stored type. See formats.h. */
#include <math.h>

#include "kernels/weight_type.h"

/* x / scale to the nearest whole number from min to max; all 0 for a scale of 0. Branchless, so
 * that it becomes vector code: adding 1.5 * 2^23 leaves no room for a fraction. */
static void round_block(float *q, const float *x, float scale, float min, float max)
{
    const float shift = 12582912.0f;
    float inverse = scale != 0 ? 1 / scale : 0;
    if (!isfinite(inverse)) inverse = 0; /* a scale next to 0: so are the values */
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++) {
        float level = x[i] * inverse;
        level = level > max ? max : level;
        level = level < min ? min : level;
        q[i] = (level + shift) - shift;
    }
}

/* The value of the largest magnitude, with its sign. */
static float extreme(const float *x)
{
    float found = 0;
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        if (fabsf(x[i]) > fabsf(found)) found = x[i];
    return found;
}

/* The squared error of x against scale * q, in four partial sums; *scale becomes the one that fits
 * these q best. */
static float fit(const float *x, const float *q, float *scale)
{
    float errors[4] = {0}, products[4] = {0}, squares[4] = {0};
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i += 4)
        for (int lane = 0; lane < 4; lane++) {
            float miss = x[i + lane] - *scale * q[i + lane];
            errors[lane] += miss * miss;
            products[lane] += x[i + lane] * q[i + lane];
            squares[lane] += q[i + lane] * q[i + lane];
        }
    float square = squares[0] + squares[1] + squares[2] + squares[3];
    if (square > 0) *scale = (products[0] + products[1] + products[2] + products[3]) / square;
    return errors[0] + errors[1] + errors[2] + errors[3];
}

/* The search for a block's levels, min to max, and their scale. */
struct search {
    const float *x;
    float min, max, least; /* squared error of the best so far; INFINITY: none yet */
    float best[LOCUS_QUANT_BLOCK];
    uint16_t scale; /* NO_SCALE: none yet */
};

enum { NO_SCALE = 0x7E00 }; /* a NaN: a block for which none is found shows it */

/* Tries a scale, and the one that fits the levels it gives. */
static void try_scale(struct search *search, float scale)
{
    float q[LOCUS_QUANT_BLOCK];
    for (int pass = 0; pass < 2; pass++) {
        uint16_t half = locus_float_to_f16(scale);
        scale = locus_f16_to_float(half);
        round_block(q, search->x, scale, search->min, search->max);
        float error = fit(search->x, q, &scale);
        if (!(error < search->least)) continue;
        search->least = error;
        search->scale = half;
        memcpy(search->best, q, sizeof q);
    }
}

/* Of scales that bring the extreme value to a level of 120 to 128, each refitted once by least
 * squares, the one with the least squared error is taken: a fifth less of it than at 127. */
static void encode_q8_0(struct locus_q8_0 *block, const float *x)
{
    struct search search = {.x = x, .min = -127, .max = 127, .least = INFINITY, .scale = NO_SCALE};
    const float m = fabsf(extreme(x));
    for (int level = 120; level <= 128; level++)
        try_scale(&search, m / (float)level);
    block->scale = search.scale;
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        block->q[i] = (int8_t)search.best[i];
}

/* The same with 16 levels, -8 to 7, for scales that bring the extreme value to -9 .. -7 or, with
 * the other sign, to 7 .. 9. */
static void encode_q4_0(struct locus_q4_0 *block, const float *x)
{
    struct search search = {.x = x, .min = -8, .max = 7, .least = INFINITY, .scale = NO_SCALE};
    const float m = extreme(x);
    for (int half_levels = 14; half_levels <= 18; half_levels++) {
        const float level = 0.5f * (float)half_levels;
        try_scale(&search, -m / level);
        try_scale(&search, m / level);
    }
    block->scale = search.scale;
    for (int i = 0; i < LOCUS_QUANT_BLOCK / 2; i++)
        block->q[i] = (uint8_t)(((int)search.best[i] + 8) |
                                ((int)search.best[i + LOCUS_QUANT_BLOCK / 2] + 8) << 4);
}

void locus_encode_f32(void *row, const float *x, size_t n_values)
{
    memcpy(row, x, n_values * sizeof *x);
}

void locus_encode_f16(void *row, const float *x, size_t n_values)
{
    uint16_t *halves = row;
    for (size_t i = 0; i < n_values; i++)
        halves[i] = locus_float_to_f16(x[i]);
}

void locus_encode_bf16(void *row, const float *x, size_t n_values)
{
    uint16_t *bf16 = row;
    for (size_t i = 0; i < n_values; i++)
        bf16[i] = locus_float_to_bf16(x[i]);
}

void locus_encode_q8_0(void *row, const float *x, size_t n_values)
{
    struct locus_q8_0 *blocks = row;
    for (size_t b = 0; b < n_values / LOCUS_QUANT_BLOCK; b++)
        encode_q8_0(&blocks[b], x + b * LOCUS_QUANT_BLOCK);
}

void locus_encode_q4_0(void *row, const float *x, size_t n_values)
{
    struct locus_q4_0 *blocks = row;
    for (size_t b = 0; b < n_values / LOCUS_QUANT_BLOCK; b++)
        encode_q4_0(&blocks[b], x + b * LOCUS_QUANT_BLOCK);
}
