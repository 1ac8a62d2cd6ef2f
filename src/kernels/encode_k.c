/* Rows on their way into a file, in blocks of 256: the types of GGUF whose names end in K.
 *
 * A block is of parts of 16 or 32 values, and a value is d * scale * level - m * min: d and m are
 * the block's halves, scale and min its part's small whole numbers, level its own. What is looked
 * for is the least squared error, in two steps: first the real scale and min of each part, then the
 * halves and whole numbers that come near them, where d and m are fitted to the levels of the
 * round before. All errors count alike: measured on whole models, those by |x| or x^2 led further
 * from the original's predictions.
 */
#include "kernels/encode.h"

enum {
    VALUES = 256,
    MOST_PARTS = 16,
    MOST_IN_PART = 32,
    ROUNDS = 3, /* of fitting d and m */
};

struct shape {
    int n_parts, n; /* values of a part */
    float first_level, last_level, first_scale, last_scale;
    bool mins; /* 0 to last_scale; else there is none */
    /* Scales that are tried bring a part's range to as many levels as there are, and this many
     * fewer. Where levels are fine, a coarser scale may by luck meet all values better. */
    int fewer;
};

/* A part's real scale and min. */
struct part {
    float scale, min, error;
};

/* A block's whole numbers, and their squared error. */
struct block {
    uint16_t d, m;
    float error;
    int8_t scales[MOST_PARTS], mins[MOST_PARTS], levels[VALUES];
};

/* A part's nearest levels. */
static struct locus_level_sums to_levels(const struct shape *shape, float *levels, const float *x,
                                         float scale, float min)
{
    return locus_to_levels(levels, x, shape->n, scale, min, shape->first_level, shape->last_level);
}

/* Tries a scale and a min, and those that fit the levels they give. */
static void try_part(const struct shape *shape, const float *x, float sum_x, float scale, float min,
                     struct part *best)
{
    float levels[MOST_IN_PART];
    for (int pass = 0; pass < 3; pass++) {
        const struct locus_level_sums sums = to_levels(shape, levels, x, scale, min);
        const bool better = sums.error < best->error;
        if (better) *best = (struct part){scale, min, sums.error};
        if (!better && pass > 0) return;
        if (shape->mins)
            locus_fit_both(&sums, shape->n, sum_x, &scale, &min);
        else
            locus_fit_scale(&sums, &scale);
    }
}

static struct part search_part(const struct shape *shape, const float *x)
{
    struct part best = {.error = INFINITY};
    float least = x[0], most = x[0], sum_x = 0;
    for (int i = 0; i < shape->n; i++) {
        least = fminf(least, x[i]), most = fmaxf(most, x[i]);
        sum_x += x[i];
    }
    const float extreme = most > -least ? most : least;
    const int steps = 2; /* a level */
    for (int k = -steps; k <= steps * shape->fewer; k++) {
        const float fewer = (float)k / (float)steps;
        if (shape->mins) {
            const float scale = (most - least) / (shape->last_level - fewer);
            try_part(shape, x, sum_x, scale, -least, &best);
            try_part(shape, x, sum_x, scale, scale * shape->last_level - most, &best);
        } else {
            const float scale = extreme / (-shape->first_level - fewer);
            try_part(shape, x, sum_x, scale, 0, &best);
            try_part(shape, x, sum_x, -scale, 0, &best);
        }
    }
    return best;
}

/* The sums that d and m are fitted by: of (x - d * a + m * b)^2, where a is scale * level and b is
 * the min. */
struct normal {
    float aa, ab, bb, xa, xb;
};

/* The part's scale and min in whole numbers, near the real ones, and its levels. */
static void choose_part(const struct shape *shape, const float *x, const struct part *part, int p,
                        struct block *block, struct normal *normal)
{
    const float d = locus_f16_to_float(block->d), m = locus_f16_to_float(block->m);
    float least = INFINITY, levels[MOST_IN_PART], best[MOST_IN_PART] = {0}, sum_x = 0;
    float best_scale = 0, best_min = 0;
    struct locus_level_sums best_sums = {0};
    const float scale = d != 0 ? part->scale / d : 0, min = m != 0 ? part->min / m : 0;
    const float scale_at =
        locus_to_whole(locus_clamp(scale, shape->first_scale, shape->last_scale));
    const float min_at = locus_to_whole(locus_clamp(min, 0, shape->last_scale));
    for (int i = -1; i <= 1; i++)
        for (int j = shape->mins ? -1 : 0; j <= (shape->mins ? 1 : 0); j++) {
            const float s = scale_at + (float)i, t = min_at + (float)j;
            if (s < shape->first_scale || s > shape->last_scale || t < 0 || t > shape->last_scale)
                continue;
            const struct locus_level_sums sums = to_levels(shape, levels, x, d * s, m * t);
            if (!(sums.error < least)) continue;
            least = sums.error, best_scale = s, best_min = t, best_sums = sums;
            memcpy(best, levels, sizeof best);
        }
    block->scales[p] = (int8_t)best_scale;
    block->mins[p] = (int8_t)best_min;
    block->error += least;
    for (int i = 0; i < shape->n; i++) {
        block->levels[p * shape->n + i] = (int8_t)best[i];
        sum_x += x[i];
    }
    normal->aa += best_scale * best_scale * best_sums.qq;
    normal->ab += best_scale * best_min * best_sums.q;
    normal->bb += best_min * best_min * (float)shape->n;
    normal->xa += best_scale * best_sums.xq;
    normal->xb += best_min * sum_x;
}

static void fit_halves(const struct normal *normal, float *d, float *m)
{
    const float determinant = normal->aa * normal->bb - normal->ab * normal->ab;
    if (determinant > 0) {
        *d = (normal->xa * normal->bb - normal->ab * normal->xb) / determinant;
        *m = (normal->ab * normal->xa - normal->aa * normal->xb) / determinant;
    } else if (normal->aa > 0) {
        *d = (normal->xa + *m * normal->ab) / normal->aa;
    }
}

/* Rounds of whole numbers for the parts' scales and mins: the best. */
static struct block choose_block(const struct shape *shape, const float *x, const struct part *from)
{
    struct part parts[MOST_PARTS];
    struct block best = {.d = LOCUS_NO_HALF, .m = LOCUS_NO_HALF, .error = INFINITY};
    float scale = 0, min = 0;
    for (int p = 0; p < shape->n_parts; p++) {
        parts[p] = from[p];
        if (parts[p].min < 0) { /* there are none: its levels begin at 0 */
            parts[p].scale -= parts[p].min / shape->last_level;
            parts[p].min = 0;
        }
        if (fabsf(parts[p].scale) > fabsf(scale)) scale = parts[p].scale;
        min = fmaxf(min, parts[p].min);
    }
    float d = scale / (shape->mins ? shape->last_scale : shape->first_scale);
    float m = min / shape->last_scale;
    for (int round = 0; round < ROUNDS; round++) {
        struct block block = {.d = locus_scale_half(d), .m = locus_scale_half(m)};
        struct normal normal = {0};
        for (int p = 0; p < shape->n_parts; p++)
            choose_part(shape, x + p * shape->n, &parts[p], p, &block, &normal);
        if (!(block.error < best.error)) break;
        best = block;
        fit_halves(&normal, &d, &m);
    }
    return best;
}

/* Fits parts to -x: levels are counted from the other end. */
static void mirror(const struct shape *shape, float *x, struct part *parts)
{
    for (int i = 0; i < VALUES; i++)
        x[i] = -x[i];
    for (int p = 0; p < shape->n_parts; p++)
        parts[p].min = shape->last_level * parts[p].scale - parts[p].min;
}

/* Where there are mins, they are taken from the least value of each part up or, by a d and an m
 * below 0, from the largest down, whichever loses less. */
static struct block encode_block(const struct shape *shape, const float *values)
{
    struct part parts[MOST_PARTS];
    float x[VALUES];
    memcpy(x, values, sizeof x);
    for (int p = 0; p < shape->n_parts; p++)
        parts[p] = search_part(shape, x + p * shape->n);
    const struct block up = choose_block(shape, x, parts);
    if (!shape->mins) return up;
    mirror(shape, x, parts);
    struct block down = choose_block(shape, x, parts);
    if (!(down.error < up.error)) return up;
    down.d ^= 0x8000, down.m ^= 0x8000;
    return down;
}

/* ---- blocks as they lie in a file: weight_type.c reads them ------------------------------- */

/* The low bits of levels: values 32 apart share a byte, 4 of them by 2 bits or 2 by 4. */
static void put_twos(uint8_t low[VALUES / 4], const int8_t *levels, int offset)
{
    for (int i = 0; i < VALUES; i++)
        low[i / 128 * 32 + i % 32] |= (uint8_t)(((levels[i] + offset) & 3) << i % 128 / 32 * 2);
}

static void put_fours(uint8_t low[VALUES / 2], const int8_t *levels)
{
    for (int i = 0; i < VALUES; i++)
        low[i / 64 * 32 + i % 32] |= (uint8_t)((levels[i] & 15) << i % 64 / 32 * 4);
}

/* The bit of each level that is worth `bit`. */
static void put_high(uint8_t high[VALUES / 8], const int8_t *levels, int offset, int bit)
{
    for (int i = 0; i < VALUES; i++)
        if ((levels[i] + offset) & bit) high[i % 32] |= (uint8_t)(1 << i / 32);
}

static void put_scales_and_mins(uint8_t packed[12], const struct block *block)
{
    for (int p = 0; p < 4; p++) {
        const int scale = block->scales[p + 4], min = block->mins[p + 4];
        packed[p] = (uint8_t)(block->scales[p] | scale >> 4 << 6);
        packed[p + 4] = (uint8_t)(block->mins[p] | min >> 4 << 6);
        packed[p + 8] = (uint8_t)((scale & 15) | (min & 15) << 4);
    }
}

void locus_encode_q4_k(void *row, const float *x, size_t n_values)
{
    static const struct shape shape = {
        .n_parts = 8, .n = 32, .last_level = 15, .last_scale = 63, .mins = true, .fewer = 3};
    struct locus_q4_k *out = row;
    for (size_t b = 0; b < n_values / VALUES; b++) {
        const struct block block = encode_block(&shape, x + b * VALUES);
        out[b] = (struct locus_q4_k){.scale = block.d, .min = block.m};
        put_scales_and_mins(out[b].scales, &block);
        put_fours(out[b].q, block.levels);
    }
}

void locus_encode_q5_k(void *row, const float *x, size_t n_values)
{
    static const struct shape shape = {
        .n_parts = 8, .n = 32, .last_level = 31, .last_scale = 63, .mins = true, .fewer = 3};
    struct locus_q5_k *out = row;
    for (size_t b = 0; b < n_values / VALUES; b++) {
        const struct block block = encode_block(&shape, x + b * VALUES);
        out[b] = (struct locus_q5_k){.scale = block.d, .min = block.m};
        put_scales_and_mins(out[b].scales, &block);
        put_fours(out[b].q, block.levels);
        put_high(out[b].high, block.levels, 0, 16);
    }
}

void locus_encode_q6_k(void *row, const float *x, size_t n_values)
{
    static const struct shape shape = {.n_parts = 16,
                                       .n = 16,
                                       .first_level = -32,
                                       .last_level = 31,
                                       .first_scale = -128,
                                       .last_scale = 127,
                                       .fewer = 6};
    struct locus_q6_k *out = row;
    for (size_t b = 0; b < n_values / VALUES; b++) {
        const struct block block = encode_block(&shape, x + b * VALUES);
        out[b] = (struct locus_q6_k){.scale = block.d};
        memcpy(out[b].scales, block.scales, sizeof out[b].scales);
        for (int i = 0; i < VALUES; i++) {
            const int level = block.levels[i] + 32, half = i / 128, part = i % 128 / 32;
            out[b].low[half * 64 + part % 2 * 32 + i % 32] |=
                (uint8_t)((level & 15) << part / 2 * 4);
            out[b].high[half * 32 + i % 32] |= (uint8_t)(level >> 4 << 2 * part);
        }
    }
}

void locus_encode_q3_k(void *row, const float *x, size_t n_values)
{
    static const struct shape shape = {.n_parts = 16,
                                       .n = 16,
                                       .first_level = -4,
                                       .last_level = 3,
                                       .first_scale = -32,
                                       .last_scale = 31,
                                       .fewer = 1};
    struct locus_q3_k *out = row;
    for (size_t b = 0; b < n_values / VALUES; b++) {
        const struct block block = encode_block(&shape, x + b * VALUES);
        out[b] = (struct locus_q3_k){.scale = block.d};
        put_twos(out[b].low, block.levels, 4);
        put_high(out[b].high, block.levels, 4, 4);
        for (int p = 0; p < 16; p++) {
            const int scale = block.scales[p] + 32;
            out[b].scales[p % 8] |= (uint8_t)((scale & 15) << p / 8 * 4);
            out[b].scales[8 + p % 4] |= (uint8_t)(scale >> 4 << p / 4 * 2);
        }
    }
}

void locus_encode_q2_k(void *row, const float *x, size_t n_values)
{
    static const struct shape shape = {
        .n_parts = 16, .n = 16, .last_level = 3, .last_scale = 15, .mins = true, .fewer = 1};
    struct locus_q2_k *out = row;
    for (size_t b = 0; b < n_values / VALUES; b++) {
        const struct block block = encode_block(&shape, x + b * VALUES);
        out[b] = (struct locus_q2_k){.scale = block.d, .min = block.m};
        put_twos(out[b].low, block.levels, 0);
        for (int p = 0; p < 16; p++)
            out[b].scales[p] = (uint8_t)(block.scales[p] | block.mins[p] << 4);
    }
}
