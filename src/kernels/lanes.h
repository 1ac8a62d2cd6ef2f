/* Norms, activations and attention, a lane an output, in plain C.
 *
 * A kernel set's file includes this and is compiled for its CPU level; loops over lanes become that
 * level's vector code, with the same bits.
 */
#ifndef LOCUS_KERNELS_LANES_H
#define LOCUS_KERNELS_LANES_H

#include "base/math.h"
#include "kernels/scan.h"
#include "kernels/share.h"

/* ---- quantised activations ---------------------------------------------------------------- */

/* Eight bytes a word, made unsigned, are added in pairs; a product adds up the four pairs. */
INLINE int32_t sum_of_16(const int8_t *q)
{
    const uint64_t every_second = 0x00FF00FF00FF00FFu, ones = 0x0001000100010001u;
    uint64_t words[2];
    memcpy(words, q, sizeof words);
    for (int i = 0; i < 2; i++) {
        words[i] ^= 0x8080808080808080u;
        words[i] = (words[i] & every_second) + (words[i] >> 8 & every_second);
    }
    return (int32_t)((words[0] + words[1]) * ones >> 48) - 16 * 128;
}

INLINE void quantize(struct locus_activation_block *blocks, const float *x, int n_cols)
{
    for (int b = 0; b < n_cols / LOCUS_QUANT_BLOCK; b++) {
        struct locus_activation_block *block = &blocks[b];
        block->scale = locus_quantize_block(block->q, x + (size_t)b * LOCUS_QUANT_BLOCK);
        const int32_t first = sum_of_16(block->q);
        const int32_t sum = first + sum_of_16(block->q + LOCUS_QUANT_BLOCK / 2);
        block->minus_8_sum = -8 * sum;
        block->minus_128_sum = -128 * sum;
        block->minus_128_first = -128 * first;
    }
}

/* ---- f16 ---------------------------------------------------------------------------------- */

INLINE void to_f16(uint16_t *out, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = locus_float_to_f16(x[i]);
}

/* ---- norms and activations ---------------------------------------------------------------- */

enum { SUMS = LOCUS_KEY_PANEL }; /* a true reduction goes through 16 partial sums */

/* Their sum by a fixed tree. */
INLINE float tree_sum(const float *sums)
{
    float level[SUMS];
    for (int s = 0; s < SUMS; s++)
        level[s] = sums[s];
    for (int width = SUMS / 2; width > 0; width /= 2)
        for (int s = 0; s < width; s++)
            level[s] = level[s] + level[s + width];
    return level[0];
}

static float sum_values(const float *x, int n)
{
    float sums[SUMS] = {0};
    int i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        float block[SUMS]; /* copied whole: else compilers load values one by one */
        memcpy(block, x + i, sizeof block);
        for (int s = 0; s < SUMS; s++)
            sums[s] += block[s];
    }
    for (int s = 0; i + s < n; s++)
        sums[s] += x[i + s];
    return tree_sum(sums);
}

static float sum_squares(const float *x, int n, float mean)
{
    float sums[SUMS] = {0};
    int i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        float block[SUMS];
        memcpy(block, x + i, sizeof block);
        for (int s = 0; s < SUMS; s++) {
            float centred = block[s] - mean;
            sums[s] = fmaf(centred, centred, sums[s]);
        }
    }
    for (int s = 0; i + s < n; s++) {
        float centred = x[i + s] - mean;
        sums[s] = fmaf(centred, centred, sums[s]);
    }
    return tree_sum(sums);
}

/* LayerNorm: (x - mean) / sqrt(variance + epsilon) weight + bias (Ba et al., 2016).
 * RMSNorm: x / sqrt(mean square + epsilon) weight (Zhang and Sennrich, 2019). */
static void norm(const struct locus_norm *norm, float *out, const float *x, int n)
{
    float mean = norm->kind == LOCUS_LAYERNORM ? sum_values(x, n) / (float)n : 0;
    float variance = sum_squares(x, n, mean) / (float)n;
    float factor = 1.0f / sqrtf(variance + norm->epsilon);
    if (norm->bias)
        for (int i = 0; i < n; i++)
            out[i] = fmaf((x[i] - mean) * factor, norm->weight[i], norm->bias[i]);
    else
        for (int i = 0; i < n; i++)
            out[i] = (x[i] - mean) * factor * norm->weight[i];
}

static void activate(enum locus_activation kind, float *out, const float *gate, const float *up,
                     int n)
{
    switch (kind) {
    case LOCUS_GELU_TANH:
        for (int i = 0; i < n; i++)
            out[i] = locus_gelu_tanh(gate[i]);
        break;
    case LOCUS_GELU_ERF:
        for (int i = 0; i < n; i++)
            out[i] = locus_gelu_erf(gate[i]);
        break;
    case LOCUS_RELU:
        for (int i = 0; i < n; i++)
            out[i] = gate[i] < 0 ? 0 : gate[i];
        break;
    case LOCUS_RELU_SQUARED:
        for (int i = 0; i < n; i++)
            out[i] = gate[i] < 0 ? 0 : gate[i] * gate[i];
        break;
    case LOCUS_SILU:
        for (int i = 0; i < n; i++)
            out[i] = locus_silu(gate[i]);
        break;
    case LOCUS_CLIPPED_SWISH:
        for (int i = 0; i < n; i++)
            out[i] = locus_clipped_swish(gate[i]);
        for (int i = 0; up && i < n; i++)
            out[i] *= locus_clip(up[i], LOCUS_SWISH_LIMIT) + 1;
        return;
    }
    if (up)
        for (int i = 0; i < n; i++)
            out[i] *= up[i];
}

static void scale_and_cap(float *x, int n, float scale, float cap)
{
    if (scale != 1)
        for (int i = 0; i < n; i++)
            x[i] *= scale;
    if (cap > 0)
        for (int i = 0; i < n; i++)
            x[i] = cap * locus_tanh(x[i] / cap);
}

/* ---- attention ---------------------------------------------------------------------------- */

/* Values of the keys [first, end) into dimensions d on of a query's mix, one at a time. */
INLINE void mix_values(enum locus_cache_format format, const struct locus_mixing *op, int row,
                       int d, int first, int end)
{
    const float *weights = op->scores + (size_t)row * op->stride;
    float *mix = op->mix + (size_t)row * (size_t)op->head_dim;
    for (int j = first; j < end; j++) {
        const char *values =
            (const char *)op->values + (size_t)j * locus_value_row_bytes(format, op->head_dim);
        const float *floats = (const float *)(const void *)values;
        const uint16_t *halves = (const uint16_t *)(const void *)values;
        const int8_t *q = (const int8_t *)(floats + locus_cache_blocks(op->head_dim));
        for (int i = d; i < op->head_dim; i++) {
            float v = 0;
            if (format == LOCUS_FORMAT_F32) v = floats[i];
            if (format == LOCUS_FORMAT_F16) v = locus_f16_to_float(halves[i]);
            if (format == LOCUS_FORMAT_Q8_0) v = (float)q[i] * floats[i / LOCUS_QUANT_BLOCK];
            mix[i] = fmaf(weights[j], v, mix[i]);
        }
    }
}

static void finish(const struct locus_softmax *softmax, float *out, const float *mix, int head_dim)
{
    float sum = tree_sum(softmax->sums);
    for (int d = 0; d < head_dim; d++)
        out[d] = mix[d] / sum;
}

static float sum_exp(const float *x, int n, float *max)
{
    float largest[SUMS], sums[SUMS] = {0};
    for (int s = 0; s < SUMS; s++)
        largest[s] = x[0];
    int i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        float block[SUMS];
        memcpy(block, x + i, sizeof block);
        for (int s = 0; s < SUMS; s++)
            largest[s] = block[s] > largest[s] ? block[s] : largest[s];
    }
    for (int s = 0; i + s < n; s++)
        largest[s] = x[i + s] > largest[s] ? x[i + s] : largest[s];
    for (int s = 1; s < SUMS; s++)
        largest[0] = largest[s] > largest[0] ? largest[s] : largest[0];
    for (i = 0; i + SUMS <= n; i += SUMS) {
        float block[SUMS];
        memcpy(block, x + i, sizeof block);
        for (int s = 0; s < SUMS; s++)
            sums[s] += locus_exp(block[s] - largest[0]);
    }
    for (int s = 0; i + s < n; s++)
        sums[s] += locus_exp(x[i + s] - largest[0]);
    *max = largest[0];
    return tree_sum(sums);
}

/* ---- the table ---------------------------------------------------------------------------- */

/* Defined by attention.h and, in plain C, by reference.c. */
static void from_f16(float *out, const uint16_t *halves, int n);
static void scores(const struct locus_scores *op);
static void mix(const struct locus_mixing *op);

INLINE void set_lanes(struct locus_kernels *kernels)
{
    kernels->from_f16 = from_f16;
    kernels->norm = norm;
    kernels->activate = activate;
    kernels->scale_and_cap = scale_and_cap;
    kernels->scores = scores;
    kernels->mix = mix;
    kernels->sum_exp = sum_exp;
    kernels->finish = finish;
    kernels->convolve = convolve;
    kernels->convolve_long = convolve_long;
    kernels->scan = scan;
    kernels->recur = recur;
    kernels->steps = steps;
}

#endif
