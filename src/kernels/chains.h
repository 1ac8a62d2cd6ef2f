/* What the chains of a tile take in, in the vectors of a CPU level:
 *
 *   F32, F16, BF16   one step a column: activation x weight
 *   Q8_0, Q4_0       one a block of 32 columns: integer dot (exact in any order) x scales
 *
 * Included by a kernel set's file after its simd_*.h and the integer dots.
 */
#ifndef LOCUS_KERNELS_CHAINS_H
#define LOCUS_KERNELS_CHAINS_H

#include "kernels/tiles.h"

/* ---- floats and halves -------------------------------------------------------------------- */

/* Vector v of the weights of one column; `odd` is column % 2. */
INLINE vec column_weights(enum locus_tensor_type type, const char *panel, size_t panel_bytes,
                          size_t column, int odd, int v)
{
    const void *weights = panel_of(panel, panel_bytes, v);
    const float *floats = weights;
    const uint16_t *halves = weights;
    v %= PANEL_VECS;
    if (type == LOCUS_F32) return vec_load(floats + column * LOCUS_PANEL + v * VEC_LANES);
    if (type == LOCUS_F16) return vec_of_halves(halves + column * LOCUS_PANEL + v * VEC_LANES);
    return vec_of_bfloats(halves + (column - (size_t)odd) * LOCUS_PANEL + 2 * v * VEC_LANES, odd);
}

INLINE void take_column(enum locus_tensor_type type, vec *chains, const char *panel,
                        size_t panel_bytes, const float *x, size_t cols, size_t column, int odd,
                        int n_rows, int first, int n_vecs)
{
    vec w[ROW_VECS];
    for (int v = 0; v < n_vecs; v++)
        w[v] = column_weights(type, panel, panel_bytes, column, odd, first + v);
    for (int t = 0; t < n_rows; t++) {
        vec value = vec_set(x[(size_t)t * cols + column]);
        for (int v = 0; v < n_vecs; v++)
            chains[t * n_vecs + v] = vec_fma(value, w[v], chains[t * n_vecs + v]);
    }
}

INLINE void take_columns(enum locus_tensor_type type, vec *chains, const struct locus_matmul *op,
                         const char *panel, int row, int n_rows, int first, int n_vecs)
{
    const size_t cols = (size_t)op->weight->cols;
    const size_t panel_bytes = locus_panel_bytes(type, op->weight->cols);
    const size_t pair_bytes = 2 * LOCUS_PANEL * (type == LOCUS_F32 ? 4 : 2);
    const float *x = op->in.x + (size_t)row * cols;
    size_t column = 0;
    for (; column + 2 <= cols; column += 2) {
        if (n_rows == 1)
            for (int v = 0; v < n_vecs; v += PANEL_VECS)
                ask_for(panel_of(panel, panel_bytes, v) + column / 2 * pair_bytes, pair_bytes);
        take_column(type, chains, panel, panel_bytes, x, cols, column, 0, n_rows, first, n_vecs);
        take_column(type, chains, panel, panel_bytes, x, cols, column + 1, 1, n_rows, first,
                    n_vecs);
    }
    if (column < cols)
        take_column(type, chains, panel, panel_bytes, x, cols, column, 0, n_rows, first, n_vecs);
}

/* ---- quantised blocks --------------------------------------------------------------------- */

INLINE void take_block(enum locus_tensor_type type, vec *chains, const void *block,
                       const struct locus_activation_block *in, size_t blocks, int n_rows,
                       int first, int n_vecs)
{
    ivec dots[MAX_CHAINS];
    for (int t = 0; t < n_rows; t++)
        for (int v = 0; v < n_vecs; v++)
            dots[t * n_vecs + v] = quants_start(type, &in[(size_t)t * blocks]);
    for (int g = 0; g < LOCUS_BLOCK / 4; g++)
        for (int v = 0; v < n_vecs; v++) {
            ivec w = quants_load(type, block, g, (first + v) * VEC_LANES);
            for (int t = 0; t < n_rows; t++)
                dots[t * n_vecs + v] =
                    quants_dot(type, dots[t * n_vecs + v], w, in[(size_t)t * blocks].q + 4 * g);
        }
    for (int v = 0; v < n_vecs; v++) {
        /* Both kinds of block begin with their scales. */
        vec scales = vec_of_halves((const uint16_t *)block + (first + v) * VEC_LANES);
        for (int t = 0; t < n_rows; t++)
            chains[t * n_vecs + v] = vec_fma(vec_of_ints(dots[t * n_vecs + v]),
                                             vec_mul(scales, vec_set(in[(size_t)t * blocks].scale)),
                                             chains[t * n_vecs + v]);
    }
}

INLINE void take_blocks(enum locus_tensor_type type, vec *chains, const struct locus_matmul *op,
                        const char *panel, int row, int n_rows, int first, int n_vecs)
{
    const size_t blocks = (size_t)op->weight->cols / LOCUS_BLOCK;
    const size_t block_bytes = locus_panel_bytes(type, LOCUS_BLOCK);
    const struct locus_activation_block *in = op->in.blocks + (size_t)row * blocks;
    for (size_t b = 0; b < blocks; b++) {
        if (n_rows == 1) ask_for(panel + b * block_bytes, block_bytes);
        take_block(type, chains, panel + b * block_bytes, in + b, blocks, n_rows, first, n_vecs);
    }
}

INLINE void take_all(enum locus_tensor_type type, vec *chains, const struct locus_matmul *op,
                     const char *panel, int row, int n_rows, int first, int n_vecs)
{
    if (locus_is_quantised(type))
        take_blocks(type, chains, op, panel, row, n_rows, first, n_vecs);
    else
        take_columns(type, chains, op, panel, row, n_rows, first, n_vecs);
}

#endif
