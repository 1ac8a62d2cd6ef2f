/* What a tile takes in, in the vectors of a CPU level:
 *
 *   floats   one step a column: activation x weight
 *   blocks   one a block: integer dot (exact in any order) x (scale of weights x of activations);
 *            where a block has several terms, dots x scales and sums of activations x mins, they
 *            are added up first: then that sum x scale of activations
 *
 * Included by a level's file after its simd_*.h and the integer dots.
 */
#ifndef LOCUS_KERNELS_ACCUMULATE_H
#define LOCUS_KERNELS_ACCUMULATE_H

#include "kernels/tiles.h"

/* ---- floats ------------------------------------------------------------------------------- */

/* Vector v of the weights of one column; `odd` is column % 2. */
INLINE vec column_weights(struct locus_traits form, const char *panel, size_t panel_bytes,
                          size_t column, int odd, int v)
{
    const void *weights = panel_of(panel, panel_bytes, v);
    const float *floats = weights;
    const uint16_t *halves = weights;
    v %= PANEL_VECS;
    if (form.bits == 32) return vec_load(floats + column * LOCUS_PANEL + v * VEC_LANES);
    if (form.columns == 1) return vec_of_f16(halves + column * LOCUS_PANEL + v * VEC_LANES);
    return vec_of_bf16(halves + (column - (size_t)odd) * LOCUS_PANEL + 2 * v * VEC_LANES, odd);
}

INLINE void accumulate_column(struct locus_traits form, vec *acc, const char *panel,
                              size_t panel_bytes, const float *x, size_t cols, size_t column,
                              int odd, int n_rows, int first, int n_vecs)
{
    vec w[ROW_VECS];
    for (int v = 0; v < n_vecs; v++)
        w[v] = column_weights(form, panel, panel_bytes, column, odd, first + v);
    for (int t = 0; t < n_rows; t++) {
        vec value = vec_set(x[(size_t)t * cols + column]);
        for (int v = 0; v < n_vecs; v++)
            acc[t * n_vecs + v] = vec_fma(value, w[v], acc[t * n_vecs + v]);
    }
}

INLINE void accumulate_columns(struct locus_traits form, vec *acc, const struct locus_matmul *op,
                               const char *panel, int row, int n_rows, int first, int n_vecs)
{
    const size_t cols = (size_t)op->weight->cols;
    const size_t panel_bytes = locus_panel_bytes(form, op->weight->cols);
    const size_t pair_bytes = (size_t)(2 * LOCUS_PANEL * form.bits / 8);
    const float *x = op->in.x + (size_t)row * cols;
    size_t column = 0;
    for (; column + 2 <= cols; column += 2) {
        if (n_rows == 1)
            for (int v = 0; v < n_vecs; v += PANEL_VECS)
                ask_for(panel_of(panel, panel_bytes, v) + column / 2 * pair_bytes, pair_bytes);
        accumulate_column(form, acc, panel, panel_bytes, x, cols, column, 0, n_rows, first, n_vecs);
        accumulate_column(form, acc, panel, panel_bytes, x, cols, column + 1, 1, n_rows, first,
                          n_vecs);
    }
    if (column < cols)
        accumulate_column(form, acc, panel, panel_bytes, x, cols, column, 0, n_rows, first, n_vecs);
}

/* ---- blocks ------------------------------------------------------------------------------- */

/* Vector v of scales (or, from where the block's mins are, of mins); `steps` is what they count in.
 */
INLINE vec scales_load(struct locus_traits form, const char *scales, const char *steps, int v)
{
    const char *at = scales + v * VEC_LANES * form.scale_bytes;
    if (form.scale_bytes == 4) return vec_load((const float *)(const void *)at);
    if (form.scale_bytes == 2) return vec_of_f16((const uint16_t *)(const void *)at);
    return vec_mul(vec_of_f16((const uint16_t *)(const void *)steps + v * VEC_LANES),
                   vec_of_bytes((const int8_t *)at));
}

/* Vector v of a block's scale number s. */
INLINE vec block_scales(struct locus_traits form, const char *head, const char *block, int s, int v)
{
    return scales_load(form, block + s * LOCUS_PANEL * form.scale_bytes, head, v);
}

/* Vector v of its min number s, divided by what sums of activations are kept times (a power of 2).
 * Mins that are floats are divided already. */
INLINE vec block_mins(struct locus_traits form, const char *head, const char *block, int s, int v)
{
    const char *steps = head + LOCUS_PANEL * sizeof(uint16_t);
    vec mins = scales_load(
        form, block + locus_block_mins(form) + s * LOCUS_PANEL * form.scale_bytes, steps, v);
    return form.scale_bytes == 4 ? mins : vec_mul(mins, vec_set(-1 / 128.0f));
}

/* Dots of a block's scale number s, for n_rows whose activations lie `stride` blocks apart. */
INLINE void block_dots(struct locus_traits form, ivec *dots, const char *levels,
                       const struct locus_activation_block *in, size_t stride, int s, int n_rows,
                       int first, int n_vecs)
{
    const int n_groups = LOCUS_QUANT_BLOCK / 4 / form.n_scales;
    for (int t = 0; t < n_rows; t++)
        for (int v = 0; v < n_vecs; v++)
            dots[t * n_vecs + v] = dots_start(form, &in[(size_t)t * stride], s);
    for (int g = s * n_groups; g < (s + 1) * n_groups; g++)
        for (int v = 0; v < n_vecs; v++) {
            ivec w = levels_load(form, levels, g, (first + v) * VEC_LANES);
            for (int t = 0; t < n_rows; t++)
                dots[t * n_vecs + v] =
                    dots_add(form, dots[t * n_vecs + v], w, in[(size_t)t * stride].q + 4 * g);
        }
}

/* A block of one term. */
INLINE void accumulate_term(struct locus_traits form, vec *acc, const char *head, const char *block,
                            const struct locus_activation_block *in, size_t stride, int n_rows,
                            int first, int n_vecs)
{
    ivec dots[MAX_ACC];
    block_dots(form, dots, block + locus_block_levels(form), in, stride, 0, n_rows, first, n_vecs);
    for (int v = 0; v < n_vecs; v++) {
        vec scales = block_scales(form, head, block, 0, first + v);
        for (int t = 0; t < n_rows; t++)
            acc[t * n_vecs + v] = vec_fma(vec_of_ints(dots[t * n_vecs + v]),
                                          vec_mul(scales, vec_set(in[(size_t)t * stride].scale)),
                                          acc[t * n_vecs + v]);
    }
}

/* A block of several: those of part number s of n_scales into their sum. */
INLINE void add_terms(struct locus_traits form, vec *terms, const char *head, const char *block,
                      const struct locus_activation_block *in, size_t stride, int s, int n_rows,
                      int first, int n_vecs)
{
    ivec dots[MAX_ACC];
    block_dots(form, dots, block + locus_block_levels(form), in, stride, s, n_rows, first, n_vecs);
    for (int v = 0; v < n_vecs; v++) {
        vec scales = block_scales(form, head, block, s, first + v);
        vec mins = form.mins ? block_mins(form, head, block, s, first + v) : vec_set(0);
        for (int t = 0; t < n_rows; t++) {
            const int32_t sum = locus_minus_128_part(&in[(size_t)t * stride], form.n_scales, s);
            vec *at = &terms[t * n_vecs + v];
            *at = vec_fma(vec_of_ints(dots[t * n_vecs + v]), scales, *at);
            if (form.mins) *at = vec_fma(vec_set_int(sum), mins, *at);
        }
    }
}

INLINE void accumulate_terms(struct locus_traits form, vec *acc, const char *head,
                             const char *block, const struct locus_activation_block *in,
                             size_t stride, int n_rows, int first, int n_vecs)
{
    vec terms[MAX_ACC];
    for (int i = 0; i < n_rows * n_vecs; i++)
        terms[i] = vec_set(0);
    add_terms(form, terms, head, block, in, stride, 0, n_rows, first, n_vecs);
    if (form.n_scales == 2)
        add_terms(form, terms, head, block, in, stride, 1, n_rows, first, n_vecs);
    for (int t = 0; t < n_rows; t++)
        for (int v = 0; v < n_vecs; v++)
            acc[t * n_vecs + v] = vec_fma(
                terms[t * n_vecs + v], vec_set(in[(size_t)t * stride].scale), acc[t * n_vecs + v]);
}

/* One block, whose activations lie `stride` blocks apart from row to row. */
INLINE void accumulate_block(struct locus_traits form, vec *acc, const char *head,
                             const char *block, const struct locus_activation_block *in,
                             size_t stride, int n_rows, int first, int n_vecs)
{
    if (form.n_scales == 1 && !form.mins)
        accumulate_term(form, acc, head, block, in, stride, n_rows, first, n_vecs);
    else
        accumulate_terms(form, acc, head, block, in, stride, n_rows, first, n_vecs);
}

INLINE void accumulate_blocks(struct locus_traits form, vec *acc, const struct locus_matmul *op,
                              const char *panel, int row, int n_rows, int first, int n_vecs)
{
    const size_t n_blocks = (size_t)op->weight->cols / LOCUS_QUANT_BLOCK;
    const struct locus_activation_block *in = op->in.blocks + (size_t)row * n_blocks;
    for (size_t b = 0; b < n_blocks; b++) {
        const char *block = panel + locus_block_at(form, b);
        if (n_rows == 1) ask_for(block, locus_block_bytes(form));
        accumulate_block(form, acc, panel + locus_head_at(form, b), block, in + b, n_blocks, n_rows,
                         first, n_vecs);
    }
}

INLINE void accumulate(struct locus_traits form, vec *acc, const struct locus_matmul *op,
                       const char *panel, int row, int n_rows, int first, int n_vecs)
{
    if (form.n_scales)
        accumulate_blocks(form, acc, op, panel, row, n_rows, first, n_vecs);
    else
        accumulate_columns(form, acc, op, panel, row, n_rows, first, n_vecs);
}

#endif
