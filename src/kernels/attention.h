/* Attention's two products, in the vectors of a CPU level.
 *
 * scores: a lane is a key. A tile is some queries by some vectors of key panels; its accumulators
 * run along the dimensions of a head.
 * mix: a lane is a dimension of a head. A tile is some queries by some vectors of dimensions; its
 * accumulators run along the keys, from where the last block left them.
 *
 * Included by a kernel set's file as accumulate.h is.
 */
#ifndef LOCUS_KERNELS_ATTENTION_H
#define LOCUS_KERNELS_ATTENTION_H

#include "kernels/accumulate.h"
#include "kernels/lanes.h"

enum {
    KEY_VECS = LOCUS_KEY_PANEL / VEC_LANES, /* vectors a panel of keys */
    TILE_PANELS = TILE_VECS > KEY_VECS ? TILE_VECS / KEY_VECS : 1,
    MANY_PANELS = 4 / KEY_VECS > 1 ? 4 / KEY_VECS : 1, /* for a query alone */
    MANY_VECS = 4                                      /* of dimensions, for a query alone */
};

static void from_f16(float *out, const uint16_t *halves, int n)
{
    int i = 0;
    for (; i + VEC_LANES <= n; i += VEC_LANES)
        vec_store(out + i, vec_of_f16(halves + i));
    for (; i < n; i++)
        out[i] = locus_f16_to_float(halves[i]);
}

/* ---- scores ------------------------------------------------------------------------------- */

/* Vector v of dimension d of a panel of keys. */
INLINE vec key_lanes(enum locus_cache_format format, const char *panel, int head_dim, int d, int v)
{
    const float *floats = (const float *)(const void *)panel;
    const int at = d * LOCUS_KEY_PANEL + v * VEC_LANES;
    if (format == LOCUS_FORMAT_F32) return vec_load(floats + at);
    if (format == LOCUS_FORMAT_F16) return vec_of_f16((const uint16_t *)(const void *)panel + at);
    const float *scales = floats + d / LOCUS_QUANT_BLOCK * LOCUS_KEY_PANEL + v * VEC_LANES;
    const int8_t *q = (const int8_t *)(floats + locus_cache_blocks(head_dim) * LOCUS_KEY_PANEL);
    return vec_mul(vec_of_bytes(q + at), vec_load(scales));
}

INLINE void score_tile(enum locus_cache_format format, const struct locus_scores *op, int row,
                       int n_rows, int panel, int n_panels)
{
    const size_t panel_bytes = locus_key_panel_bytes(format, op->head_dim);
    const char *keys = (const char *)op->keys + (size_t)panel * panel_bytes;
    const float *q = op->q + (size_t)row * (size_t)op->head_dim;
    const int n_vecs = n_panels * KEY_VECS;
    vec acc[MAX_ACC];
    for (int c = 0; c < n_rows * n_vecs; c++)
        acc[c] = vec_set(0);
    for (int d = 0; d < op->head_dim; d++) {
        vec k[MAX_ACC];
        if (n_rows == 1) /* the same place of the panels that come next */
            for (int p = 0; p < n_panels; p++)
                __builtin_prefetch(keys + (size_t)(n_panels + p) * panel_bytes +
                                   (size_t)d * (panel_bytes / (size_t)op->head_dim));
        for (int v = 0; v < n_vecs; v++)
            k[v] = key_lanes(format, keys + (size_t)(v / KEY_VECS) * panel_bytes, op->head_dim, d,
                             v % KEY_VECS);
        for (int t = 0; t < n_rows; t++) {
            vec value = vec_set(q[t * op->head_dim + d]);
            for (int v = 0; v < n_vecs; v++)
                acc[t * n_vecs + v] = vec_fma(value, k[v], acc[t * n_vecs + v]);
        }
    }
    for (int t = 0; t < n_rows; t++)
        for (int v = 0; v < n_vecs; v++)
            vec_store(op->out + (size_t)(row + t) * op->stride + panel * LOCUS_KEY_PANEL +
                          v * VEC_LANES,
                      vec_mul(acc[t * n_vecs + v], vec_set(op->scale)));
}

INLINE void score_rows(enum locus_cache_format format, const struct locus_scores *op, int row,
                       int n_rows)
{
    const int wide = n_rows == 1 ? MANY_PANELS : TILE_PANELS;
    int panel = 0;
    for (; panel + wide <= op->n_panels; panel += wide)
        score_tile(format, op, row, n_rows, panel, wide);
    for (; panel < op->n_panels; panel++)
        score_tile(format, op, row, n_rows, panel, 1);
}

INLINE void score_all(enum locus_cache_format format, const struct locus_scores *op)
{
    int row = 0;
    for (; row + TILE_ROWS <= op->n_rows; row += TILE_ROWS)
        score_rows(format, op, row, TILE_ROWS);
    for (; row + 4 <= op->n_rows; row += 4)
        score_rows(format, op, row, 4);
    for (; row < op->n_rows; row++)
        score_rows(format, op, row, 1);
}

static void scores(const struct locus_scores *op)
{
    switch (op->format) {
    case LOCUS_FORMAT_F32:
        score_all(LOCUS_FORMAT_F32, op);
        break;
    case LOCUS_FORMAT_F16:
        score_all(LOCUS_FORMAT_F16, op);
        break;
    case LOCUS_FORMAT_Q8_0:
        score_all(LOCUS_FORMAT_Q8_0, op);
        break;
    }
}

/* ---- softmax ------------------------------------------------------------------------------ */

enum { MIX_VECS = LOCUS_KV_BLOCK / VEC_LANES, SUM_VECS = SUMS / VEC_LANES };

/* What the row has gathered so far, relative to a new maximum. */
static void shrink_row(const struct locus_mixing *op, int row, float factor)
{
    float *sums = op->softmax[row].sums, *mix = op->mix + (size_t)row * (size_t)op->head_dim;
    for (int s = 0; s < SUMS; s++)
        sums[s] *= factor;
    for (int d = 0; d < op->head_dim; d++)
        mix[d] *= factor;
}

/* The running softmax of one row (Milakov and Gimelshein, 2018): scores become weights. A block
 * that raises the maximum scales what was gathered before it by e^(old - new). Keys that the row
 * doesn't see are at -INFINITY and get a weight of 0, whatever their score is. */
INLINE void softmax_row(const struct locus_mixing *op, int row)
{
    struct locus_softmax *softmax = &op->softmax[row];
    float *scores = op->scores + (size_t)row * op->stride;
    const int first = op->first[row], end = op->end[row];
    if (first >= end) return;
    if (first > 0 || end < LOCUS_KV_BLOCK)
        for (int j = 0; j < LOCUS_KV_BLOCK; j += VEC_LANES)
            vec_store(scores + j, vec_within(vec_load(scores + j), first - j, end - j));
    vec largest = vec_set(softmax->max);
    for (int v = 0; v < MIX_VECS; v++)
        largest = vec_max(vec_load(scores + v * VEC_LANES), largest);
    float max = vec_largest(largest);
    float base = max == -INFINITY ? 0 : max; /* nothing but -INFINITY yet: every weight is 0 */
    if (max > softmax->max) {
        shrink_row(op, row, locus_exp(softmax->max - base));
        softmax->max = max;
    }
    for (int j = 0; j < LOCUS_KV_BLOCK; j++)
        scores[j] = locus_exp_weight(scores[j] - base);
    for (int v = 0; v < SUM_VECS; v++) {
        vec sum = vec_load(softmax->sums + v * VEC_LANES);
        for (int j = v; j < MIX_VECS; j += SUM_VECS)
            sum = vec_add(sum, vec_load(scores + j * VEC_LANES));
        vec_store(softmax->sums + v * VEC_LANES, sum);
    }
}

/* ---- mix ---------------------------------------------------------------------------------- */

INLINE const char *value_row(enum locus_cache_format format, const struct locus_mixing *op, int key)
{
    return (const char *)op->values + (size_t)key * locus_value_row_bytes(format, op->head_dim);
}

/* Dimensions from d on of a row of values; a vector lies within one quantised block. */
INLINE vec value_lanes(enum locus_cache_format format, const char *row, int head_dim, int d)
{
    const float *floats = (const float *)(const void *)row;
    if (format == LOCUS_FORMAT_F32) return vec_load(floats + d);
    if (format == LOCUS_FORMAT_F16) return vec_of_f16((const uint16_t *)(const void *)row + d);
    const int8_t *q = (const int8_t *)(floats + locus_cache_blocks(head_dim));
    return vec_mul(vec_of_bytes(q + d), vec_set(floats[d / LOCUS_QUANT_BLOCK]));
}

/* The keys [first, end), seen by all n_rows queries from `row` on, into n_vecs vectors of
 * dimensions from d on. */
INLINE void mix_tile(enum locus_cache_format format, const struct locus_mixing *op, int row,
                     int n_rows, int d, int n_vecs, int first, int end)
{
    const size_t head_dim = (size_t)op->head_dim;
    const float *weights = op->scores + (size_t)row * op->stride;
    float *mix = op->mix + (size_t)row * head_dim + d;
    vec acc[MAX_ACC];
    for (int t = 0; t < n_rows; t++)
        for (int v = 0; v < n_vecs; v++)
            acc[t * n_vecs + v] = vec_load(mix + (size_t)t * head_dim + v * VEC_LANES);
    for (int j = first; j < end; j++) {
        const char *values = value_row(format, op, j);
        vec lanes[MAX_ACC];
        if (n_rows == 1 && d == 0) /* the row that has this place in the next block */
            for (size_t at = 0; at < locus_value_row_bytes(format, op->head_dim); at += 64)
                __builtin_prefetch(value_row(format, op, j + LOCUS_KV_BLOCK) + at);
        for (int v = 0; v < n_vecs; v++)
            lanes[v] = value_lanes(format, values, op->head_dim, d + v * VEC_LANES);
        for (int t = 0; t < n_rows; t++) {
            vec weight = vec_set(weights[(size_t)t * op->stride + (size_t)j]);
            for (int v = 0; v < n_vecs; v++)
                acc[t * n_vecs + v] = vec_fma(weight, lanes[v], acc[t * n_vecs + v]);
        }
    }
    for (int t = 0; t < n_rows; t++)
        for (int v = 0; v < n_vecs; v++)
            vec_store(mix + (size_t)t * head_dim + v * VEC_LANES, acc[t * n_vecs + v]);
}

/* All dimensions; those that fill no vector one at a time. */
INLINE void mix_keys(enum locus_cache_format format, const struct locus_mixing *op, int row,
                     int n_rows, int first, int end)
{
    const int wide = n_rows == 1 ? MANY_VECS : TILE_VECS;
    int d = 0;
    for (; d + wide * VEC_LANES <= op->head_dim; d += wide * VEC_LANES)
        mix_tile(format, op, row, n_rows, d, wide, first, end);
    for (; d + VEC_LANES <= op->head_dim; d += VEC_LANES)
        mix_tile(format, op, row, n_rows, d, 1, first, end);
    for (int t = 0; t < n_rows && d < op->head_dim; t++)
        mix_values(format, op, row + t, d, first, end);
}

/* Queries side by side see nearly the same keys: what they share goes through a tile, the rest
 * before and after it through rows of their own. */
INLINE void mix_rows(enum locus_cache_format format, const struct locus_mixing *op, int row,
                     int n_rows)
{
    int first = op->first[row], end = op->end[row];
    for (int t = 1; t < n_rows; t++) {
        first = op->first[row + t] > first ? op->first[row + t] : first;
        end = op->end[row + t] < end ? op->end[row + t] : end;
    }
    if (first > end) first = end = op->end[row + n_rows - 1]; /* nothing shared */
    for (int t = row; t < row + n_rows; t++)
        if (op->first[t] < first)
            mix_keys(format, op, t, 1, op->first[t], op->end[t] < first ? op->end[t] : first);
    if (first < end) mix_keys(format, op, row, n_rows, first, end);
    for (int t = row; t < row + n_rows; t++)
        if (op->end[t] > end)
            mix_keys(format, op, t, 1, op->first[t] > end ? op->first[t] : end, op->end[t]);
}

INLINE void mix_all(enum locus_cache_format format, const struct locus_mixing *op)
{
    int row = 0;
    for (; row + TILE_ROWS <= op->n_rows; row += TILE_ROWS)
        mix_rows(format, op, row, TILE_ROWS);
    for (; row + 4 <= op->n_rows; row += 4)
        mix_rows(format, op, row, 4);
    for (; row < op->n_rows; row++)
        mix_rows(format, op, row, 1);
}

static void mix(const struct locus_mixing *op)
{
    for (int row = 0; row < op->n_rows; row++)
        softmax_row(op, row);
    switch (op->format) {
    case LOCUS_FORMAT_F32:
        mix_all(LOCUS_FORMAT_F32, op);
        break;
    case LOCUS_FORMAT_F16:
        mix_all(LOCUS_FORMAT_F16, op);
        break;
    case LOCUS_FORMAT_Q8_0:
        mix_all(LOCUS_FORMAT_Q8_0, op);
        break;
    }
}

#endif
