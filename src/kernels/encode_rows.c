/* Rows on their way into a file: floats encoded as a stored type. See formats.h. */
#include "kernels/encode.h"

/* The value of the largest magnitude, with its sign. */
static float extreme(const float *x)
{
    float found = 0;
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        if (fabsf(x[i]) > fabsf(found)) found = x[i];
    return found;
}

/* The search for a block's levels, first to last, their scale and, where there is one, min. */
struct search {
    const float *x;
    float first, last, least; /* squared error of the best so far */
    bool mins;
    float sum_x;
    uint16_t scale, min;
    float levels[LOCUS_QUANT_BLOCK];
};

static struct search begin(const float *x, float first, float last, bool mins)
{
    struct search search = {.x = x,
                            .first = first,
                            .last = last,
                            .least = INFINITY,
                            .mins = mins,
                            .scale = LOCUS_NO_HALF,
                            .min = LOCUS_NO_HALF};
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        search.sum_x += x[i];
    return search;
}

/* Tries a scale and a min, and those that fit the levels they give. */
static void try_scale(struct search *search, float scale, float min)
{
    float levels[LOCUS_QUANT_BLOCK];
    for (int pass = 0; pass < 2; pass++) {
        const uint16_t half = search->mins ? locus_scale_half(scale) : locus_float_to_f16(scale);
        const uint16_t half_min = locus_float_to_f16(0 - min);
        scale = locus_f16_to_float(half), min = -locus_f16_to_float(half_min);
        const struct locus_level_sums sums = locus_to_levels(
            levels, search->x, LOCUS_QUANT_BLOCK, scale, min, search->first, search->last);
        if (sums.error < search->least) {
            search->least = sums.error;
            search->scale = half, search->min = half_min;
            memcpy(search->levels, levels, sizeof levels);
        }
        if (search->mins)
            locus_fit_both(&sums, LOCUS_QUANT_BLOCK, search->sum_x, &scale, &min);
        else
            locus_fit_scale(&sums, &scale);
    }
}

/* Of scales that bring the extreme value to a level of 120 to 128, each refitted once by least
 * squares, the one with the least squared error is taken: a fifth less of it than at 127. */
static void encode_q8_0(struct locus_q8_0 *block, const float *x)
{
    struct search search = begin(x, -127, 127, false);
    const float m = fabsf(extreme(x));
    for (int level = 120; level <= 128; level++)
        try_scale(&search, m / (float)level, 0);
    block->scale = search.scale;
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        block->q[i] = (int8_t)search.levels[i];
}

/* The same with levels from -n to n - 1, for scales that bring the extreme value to -n or, with
 * the other sign, to n, or up to a level more or `fewer`. */
static struct search search_signed(const float *x, int n, int fewer)
{
    struct search search = begin(x, (float)-n, (float)(n - 1), false);
    const float m = extreme(x);
    for (int half_levels = 2 * (n - fewer); half_levels <= 2 * n + 2; half_levels++) {
        const float level = 0.5f * (float)half_levels;
        try_scale(&search, -m / level, 0);
        try_scale(&search, m / level, 0);
    }
    return search;
}

/* The same with a min: levels from 0 to n - 1, for scales that bring the range of the values to up
 * to a level more or three fewer, and either end of it to a level. */
static struct search search_min(const float *x, int n)
{
    struct search search = begin(x, 0, (float)(n - 1), true);
    float least = x[0], most = x[0];
    for (int i = 1; i < LOCUS_QUANT_BLOCK; i++)
        least = fminf(least, x[i]), most = fmaxf(most, x[i]);
    for (int half_levels = 2 * (n - 4); half_levels <= 2 * n; half_levels++) {
        const float scale = 2 * (most - least) / (float)half_levels;
        try_scale(&search, scale, -least);
        try_scale(&search, scale, scale * (float)(n - 1) - most);
    }
    return search;
}

static void put_nibbles(uint8_t q[LOCUS_QUANT_BLOCK / 2], const float *levels, int offset)
{
    for (int i = 0; i < LOCUS_QUANT_BLOCK / 2; i++)
        q[i] = (uint8_t)((((int)levels[i] + offset) & 15) |
                         (((int)levels[i + LOCUS_QUANT_BLOCK / 2] + offset) & 15) << 4);
}

static void put_fifths(uint8_t high[4], const float *levels, int offset)
{
    memset(high, 0, 4);
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        high[i / 8] |= (uint8_t)((((int)levels[i] + offset) >> 4) << i % 8);
}

static void encode_q4_0(struct locus_q4_0 *block, const float *x)
{
    const struct search search = search_signed(x, 8, 1);
    block->scale = search.scale;
    put_nibbles(block->q, search.levels, 8);
}

static void encode_q5_0(struct locus_q5_0 *block, const float *x)
{
    const struct search search = search_signed(x, 16, 3);
    block->scale = search.scale;
    put_nibbles(block->q, search.levels, 16);
    put_fifths(block->high, search.levels, 16);
}

static void encode_q4_1(struct locus_q4_1 *block, const float *x)
{
    const struct search search = search_min(x, 16);
    block->scale = search.scale, block->min = search.min;
    put_nibbles(block->q, search.levels, 0);
}

static void encode_q5_1(struct locus_q5_1 *block, const float *x)
{
    const struct search search = search_min(x, 32);
    block->scale = search.scale, block->min = search.min;
    put_nibbles(block->q, search.levels, 0);
    put_fifths(block->high, search.levels, 0);
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

void locus_encode_q4_1(void *row, const float *x, size_t n_values)
{
    struct locus_q4_1 *blocks = row;
    for (size_t b = 0; b < n_values / LOCUS_QUANT_BLOCK; b++)
        encode_q4_1(&blocks[b], x + b * LOCUS_QUANT_BLOCK);
}

void locus_encode_q5_0(void *row, const float *x, size_t n_values)
{
    struct locus_q5_0 *blocks = row;
    for (size_t b = 0; b < n_values / LOCUS_QUANT_BLOCK; b++)
        encode_q5_0(&blocks[b], x + b * LOCUS_QUANT_BLOCK);
}

void locus_encode_q5_1(void *row, const float *x, size_t n_values)
{
    struct locus_q5_1 *blocks = row;
    for (size_t b = 0; b < n_values / LOCUS_QUANT_BLOCK; b++)
        encode_q5_1(&blocks[b], x + b * LOCUS_QUANT_BLOCK);
}
