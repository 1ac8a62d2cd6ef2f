/* What a tile takes in, in the vectors of a CPU level:
 *
 *   floats   one step a column: activation x weight
 *   blocks   one a scale of 32 columns: integer dot (exact in any order) x scales;
 *            and one for each of the block's mins, if it has them: sum of the activations x mins
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

/* Vector v of its min number s. */
INLINE vec block_mins(struct locus_traits form, const char *head, const char *block, int s, int v)
{
    const char *steps = head + LOCUS_PANEL * sizeof(uint16_t);
    return scales_load(form, block + locus_block_mins(form) + s * LOCUS_PANEL * form.scale_bytes,
                       steps, v);
}

/* One block, whose activations lie `stride` blocks apart from row to row. */
INLINE void accumulate_block(struct locus_traits form, vec *acc, const char *head,
                             const char *block, const struct locus_activation_block *in,
                             size_t stride, int n_rows, int first, int n_vecs)
{
    const char *levels = block + locus_block_levels(form);
    const int n_groups = LOCUS_QUANT_BLOCK / 4 / form.n_scales;
    for (int s = 0; s < form.n_scales; s++) {
        ivec dots[MAX_ACC];
        for (int t = 0; t < n_rows; t++)
            for (int v = 0; v < n_vecs; v++)
                dots[t * n_vecs + v] = dots_start(form, &in[(size_t)t * stride], s);
        for (int i = 0; i < n_groups; i++)
            for (int v = 0; v < n_vecs; v++) {
                const int g = s * n_groups + i;
                ivec w = levels_load(form, levels, g, (first + v) * VEC_LANES);
                for (int t = 0; t < n_rows; t++)
                    dots[t * n_vecs + v] =
                        dots_add(form, dots[t * n_vecs + v], w, in[(size_t)t * stride].q + 4 * g);
            }
        for (int v = 0; v < n_vecs; v++) {
            vec scales = block_scales(form, head, block, s, first + v);
            for (int t = 0; t < n_rows; t++)
                acc[t * n_vecs + v] = vec_fma(
                    vec_of_ints(dots[t * n_vecs + v]),
                    vec_mul(scales, vec_set(in[(size_t)t * stride].scale)), acc[t * n_vecs + v]);
        }
    }
    for (int s = 0; form.mins && s < form.n_scales; s++)
        for (int v = 0; v < n_vecs; v++) {
            vec min = block_mins(form, head, block, s, first + v);
            for (int t = 0; t < n_rows; t++) {
                const struct locus_activation_block *x = &in[(size_t)t * stride];
                const int32_t minus_128 = locus_minus_128_part(x, form.n_scales, s);
                vec sum = vec_set((float)minus_128 * (-1 / 128.0f)); /* exact */
                acc[t * n_vecs + v] =
                    vec_fma(sum, vec_mul(min, vec_set(x->scale)), acc[t * n_vecs + v]);
            }
        }
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
