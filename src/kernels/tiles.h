/* Matrix products over panels, in the vectors of a CPU level.
 *
 * A tile is some rows of activations times some vectors of a panel's lanes. Its chains, one an
 * output, live in registers while the columns go by, so an output is one sequence of multiply-adds
 * whatever tile it falls in:
 *
 *   F32, F16, BF16   one a column: activation x weight
 *   Q8_0, Q4_0       one a block of 32 columns: integer dot (exact in any order) x scales
 *
 * Included by a kernel set's file after its simd_*.h, which has the vectors, the sizes of a tile
 * and the integer dots.
 */
#ifndef LOCUS_KERNELS_TILES_H
#define LOCUS_KERNELS_TILES_H

#include "kernels/share.h"

enum {
    PANEL_VECS = LOCUS_PANEL / VEC_LANES,
    MAX_CHAINS = TILE_ROWS * TILE_VECS + PANEL_VECS,
    PREFETCH_BYTES = 2048 /* how far ahead of a single row its weights are asked for */
};

/* ---- floats and halves -------------------------------------------------------------------- */

/* Vector v of the weights of one column; `odd` is column % 2. */
INLINE vec column_weights(enum locus_tensor_type type, const void *panel, size_t column, int odd,
                          int v)
{
    const float *floats = panel;
    const uint16_t *halves = panel;
    if (type == LOCUS_F32) return vec_load(floats + column * LOCUS_PANEL + v * VEC_LANES);
    if (type == LOCUS_F16) return vec_of_halves(halves + column * LOCUS_PANEL + v * VEC_LANES);
    return vec_of_bfloats(halves + (column - (size_t)odd) * LOCUS_PANEL + 2 * v * VEC_LANES, odd);
}

INLINE void take_column(enum locus_tensor_type type, vec *chains, const void *panel, const float *x,
                        size_t cols, size_t column, int odd, int n_rows, int first, int n_vecs)
{
    vec w[PANEL_VECS];
    for (int v = 0; v < n_vecs; v++)
        w[v] = column_weights(type, panel, column, odd, first + v);
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
    const size_t pair_bytes = 2 * LOCUS_PANEL * (type == LOCUS_F32 ? 4 : 2);
    const float *x = op->in.x + (size_t)row * cols;
    size_t column = 0;
    for (; column + 2 <= cols; column += 2) {
        if (n_rows == 1)
            for (size_t at = 0; at < pair_bytes; at += 64)
                __builtin_prefetch(panel + column / 2 * pair_bytes + PREFETCH_BYTES + at);
        take_column(type, chains, panel, x, cols, column, 0, n_rows, first, n_vecs);
        take_column(type, chains, panel, x, cols, column + 1, 1, n_rows, first, n_vecs);
    }
    if (column < cols) take_column(type, chains, panel, x, cols, column, 0, n_rows, first, n_vecs);
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
        if (n_rows == 1)
            for (size_t at = 0; at < block_bytes; at += 64)
                __builtin_prefetch(panel + b * block_bytes + PREFETCH_BYTES + at);
        take_block(type, chains, panel + b * block_bytes, in + b, blocks, n_rows, first, n_vecs);
    }
}

/* ---- tiles -------------------------------------------------------------------------------- */

/* A row's outputs from `lane` on: n_vecs chains plus bias, stored or added. */
INLINE void store_chains(const struct locus_matmul *op, int row, int lane, const vec *chains,
                         int n_vecs)
{
    float *out = op->out + (size_t)row * (size_t)op->weight->rows + lane;
    const float *bias = op->bias ? op->bias + lane : NULL;
    int n = op->weight->rows - lane;
    if (n >= n_vecs * VEC_LANES) {
        for (int v = 0; v < n_vecs; v++) {
            vec result = chains[v];
            if (bias) result = vec_add(result, vec_load(bias + v * VEC_LANES));
            if (op->add) result = vec_add(vec_load(out + v * VEC_LANES), result);
            vec_store(out + v * VEC_LANES, result);
        }
        return;
    }
    float last[LOCUS_PANEL];
    for (int v = 0; v < n_vecs; v++)
        vec_store(last + v * VEC_LANES, chains[v]);
    for (int r = 0; r < n; r++) {
        float result = bias ? last[r] + bias[r] : last[r];
        out[r] = op->add ? out[r] + result : result;
    }
}

/* n_rows rows of activations from `row` on, times n_vecs vectors of panel p from `first` on. */
INLINE void tile(enum locus_tensor_type type, const struct locus_matmul *op, int p, int row,
                 int n_rows, int first, int n_vecs)
{
    const char *panel =
        (const char *)op->weight->panels + (size_t)p * locus_panel_bytes(type, op->weight->cols);
    vec chains[MAX_CHAINS];
    for (int c = 0; c < n_rows * n_vecs; c++)
        chains[c] = vec_set(0);
    if (locus_is_quantised(type))
        take_blocks(type, chains, op, panel, row, n_rows, first, n_vecs);
    else
        take_columns(type, chains, op, panel, row, n_rows, first, n_vecs);
    for (int t = 0; t < n_rows; t++)
        store_chains(op, row + t, p * LOCUS_PANEL + first * VEC_LANES, chains + t * n_vecs, n_vecs);
}

/* n_rows (one tile's, a constant) from `row` on, times the whole panel. */
INLINE void tile_row(enum locus_tensor_type type, const struct locus_matmul *op, int p, int row,
                     int n_rows)
{
    const int n_vecs = n_rows == 1 ? PANEL_VECS : locus_is_quantised(type) ? QUANT_VECS : TILE_VECS;
    for (int v = 0; v < PANEL_VECS; v += n_vecs)
        tile(type, op, p, row, n_rows, v, n_vecs);
}

/* A tile's rows, or less, times one panel. */
INLINE void panel_rows(enum locus_tensor_type type, const struct locus_matmul *op, int p, int row,
                       int n_rows)
{
    const int tile_rows = locus_is_quantised(type) ? QUANT_ROWS : TILE_ROWS;
    if (n_rows == tile_rows) {
        tile_row(type, op, p, row, tile_rows);
        return;
    }
    if (tile_rows > 8 && n_rows & 8) tile_row(type, op, p, row, 8), row += 8;
    if (n_rows & 4) tile_row(type, op, p, row, 4), row += 4;
    if (n_rows & 2) tile_row(type, op, p, row, 2), row += 2;
    if (n_rows & 1) tile_row(type, op, p, row, 1);
}

/* Groups of panels that the cache holds; tiles of rows pass over each. */
INLINE void matmul_panels(enum locus_tensor_type type, const struct locus_matmul *op,
                          struct locus_share share)
{
    const int group = locus_panel_group(locus_panel_bytes(type, op->weight->cols));
    const int tile_rows = locus_is_quantised(type) ? QUANT_ROWS : TILE_ROWS;
    for (int start = share.first; start < share.end; start += group) {
        const int end = start + group < share.end ? start + group : share.end;
        for (int row = share.row; row < share.row_end; row += tile_rows) {
            const int left = share.row_end - row, n_rows = left < tile_rows ? left : tile_rows;
            for (int p = start; p < end; p++)
                panel_rows(type, op, p, row, n_rows);
        }
    }
}

#endif
