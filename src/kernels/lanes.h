/* Norms, activations and attention, a lane an output, in plain C.
 *
 * A kernel set's file includes this and is compiled for its CPU level; loops over lanes become that
 * level's vector code, with the same bits.
 */
#ifndef LOCUS_KERNELS_LANES_H
#define LOCUS_KERNELS_LANES_H

#include "kernels/math.h"
#include "kernels/share.h"

/* ---- quantised activations ---------------------------------------------------------------- */

static void quantize(struct locus_activation_block *blocks, const float *x, int n_cols)
{
    for (int b = 0; b < n_cols / LOCUS_BLOCK; b++) {
        struct locus_activation_block *block = &blocks[b];
        block->scale = locus_quantize_block(block->q, x + (size_t)b * LOCUS_BLOCK);
        int32_t sum = 0;
        for (int i = 0; i < LOCUS_BLOCK; i++)
            sum += block->q[i];
        block->minus_8_sums = -8 * sum;
        block->minus_128_sums = -128 * sum;
    }
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
    for (; i + SUMS <= n; i += SUMS)
        for (int s = 0; s < SUMS; s++)
            sums[s] += x[i + s];
    for (int s = 0; i + s < n; s++)
        sums[s] += x[i + s];
    return tree_sum(sums);
}

static float sum_squares(const float *x, int n, float mean)
{
    float sums[SUMS] = {0};
    int i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int s = 0; s < SUMS; s++) {
            float centred = x[i + s] - mean;
            sums[s] = fmaf(centred, centred, sums[s]);
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
    case LOCUS_SILU:
        for (int i = 0; i < n; i++)
            out[i] = locus_silu(gate[i]);
        break;
    }
    if (up)
        for (int i = 0; i < n; i++)
            out[i] *= up[i];
}

/* ---- attention ---------------------------------------------------------------------------- */

/* Dimension d of the 16 keys of a panel. */
INLINE void load_keys(float *k, const void *panel, int head_dim, int d,
                      enum locus_cache_format format)
{
    const float *floats = panel;
    const uint16_t *halves = panel;
    const int8_t *q = (const int8_t *)(floats + locus_cache_blocks(head_dim) * LOCUS_KEY_PANEL);
    const float *scales = floats + d / LOCUS_BLOCK * LOCUS_KEY_PANEL;
    for (int j = 0; j < LOCUS_KEY_PANEL; j++) {
        int at = d * LOCUS_KEY_PANEL + j;
        if (format == LOCUS_FORMAT_F32) k[j] = floats[at];
        if (format == LOCUS_FORMAT_F16) k[j] = locus_half_to_float(halves[at]);
        if (format == LOCUS_FORMAT_Q8_0) k[j] = (float)q[at] * scales[j];
    }
}

INLINE void scores_of(enum locus_cache_format format, float *restrict scores,
                      const float *restrict q, const void *keys, int head_dim, int n_panels,
                      float scale)
{
    for (int p = 0; p < n_panels; p++) {
        const char *panel =
            (const char *)keys + (size_t)p * locus_key_panel_bytes(format, head_dim);
        float chain[LOCUS_KEY_PANEL] = {0};
        for (int d = 0; d < head_dim; d++) {
            float k[LOCUS_KEY_PANEL];
            load_keys(k, panel, head_dim, d, format);
            for (int j = 0; j < LOCUS_KEY_PANEL; j++)
                chain[j] = fmaf(q[d], k[j], chain[j]);
        }
        for (int j = 0; j < LOCUS_KEY_PANEL; j++)
            scores[p * LOCUS_KEY_PANEL + j] = chain[j] * scale;
    }
}

static void scores(enum locus_cache_format format, float *out, const float *q, const void *keys,
                   int head_dim, int n_panels, float scale)
{
    switch (format) {
    case LOCUS_FORMAT_F32:
        scores_of(LOCUS_FORMAT_F32, out, q, keys, head_dim, n_panels, scale);
        break;
    case LOCUS_FORMAT_F16:
        scores_of(LOCUS_FORMAT_F16, out, q, keys, head_dim, n_panels, scale);
        break;
    case LOCUS_FORMAT_Q8_0:
        scores_of(LOCUS_FORMAT_Q8_0, out, q, keys, head_dim, n_panels, scale);
        break;
    }
}

INLINE void mix_values(enum locus_cache_format format, float *restrict mix,
                       const float *restrict weights, const void *values, int head_dim, int first,
                       int end)
{
    for (int j = first; j < end; j++) {
        const char *row =
            (const char *)values + (size_t)j * locus_value_row_bytes(format, head_dim);
        const float *floats = (const float *)(const void *)row;
        const uint16_t *halves = (const uint16_t *)(const void *)row;
        const int8_t *q = (const int8_t *)(floats + locus_cache_blocks(head_dim));
        for (int d = 0; d < head_dim; d++) {
            float v = 0;
            if (format == LOCUS_FORMAT_F32) v = floats[d];
            if (format == LOCUS_FORMAT_F16) v = locus_half_to_float(halves[d]);
            if (format == LOCUS_FORMAT_Q8_0) v = (float)q[d] * floats[d / LOCUS_BLOCK];
            mix[d] = fmaf(weights[j], v, mix[d]);
        }
    }
}

/* The running softmax (Milakov and Gimelshein, 2018). A block that raises the maximum scales what
 * was gathered before it by e^(old - new). */
static void mix(enum locus_cache_format format, struct locus_softmax *softmax, float *mix,
                float *scores, const void *values, int head_dim, int first, int end)
{
    float max = softmax->max;
    for (int j = first; j < end; j++)
        max = scores[j] > max ? scores[j] : max;
    float base = max == -INFINITY ? 0 : max; /* nothing but -INFINITY yet: every weight is 0 */
    if (max > softmax->max) {
        float shrink = locus_exp(softmax->max - base);
        for (int s = 0; s < SUMS; s++)
            softmax->sums[s] *= shrink;
        for (int d = 0; d < head_dim; d++)
            mix[d] *= shrink;
        softmax->max = max;
    }
    for (int j = first; j < end; j++)
        scores[j] = locus_exp(scores[j] - base);
    for (int j = first; j < end; j++)
        softmax->sums[j % SUMS] += scores[j];
    switch (format) {
    case LOCUS_FORMAT_F32:
        mix_values(LOCUS_FORMAT_F32, mix, scores, values, head_dim, first, end);
        break;
    case LOCUS_FORMAT_F16:
        mix_values(LOCUS_FORMAT_F16, mix, scores, values, head_dim, first, end);
        break;
    case LOCUS_FORMAT_Q8_0:
        mix_values(LOCUS_FORMAT_Q8_0, mix, scores, values, head_dim, first, end);
        break;
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
    for (; i + SUMS <= n; i += SUMS)
        for (int s = 0; s < SUMS; s++)
            largest[s] = x[i + s] > largest[s] ? x[i + s] : largest[s];
    for (int s = 0; i + s < n; s++)
        largest[s] = x[i + s] > largest[s] ? x[i + s] : largest[s];
    for (int s = 1; s < SUMS; s++)
        largest[0] = largest[s] > largest[0] ? largest[s] : largest[0];
    for (i = 0; i + SUMS <= n; i += SUMS)
        for (int s = 0; s < SUMS; s++)
            sums[s] += locus_exp(x[i + s] - largest[0]);
    for (int s = 0; i + s < n; s++)
        sums[s] += locus_exp(x[i + s] - largest[0]);
    *max = largest[0];
    return tree_sum(sums);
}

#endif
