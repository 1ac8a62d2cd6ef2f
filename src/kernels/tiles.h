/* Matrix products over panels, in the vectors of a CPU level.
 *
 * A tile is some rows of activations times some vectors of a panel's lanes. Its accumulators, one
 * an output, live in registers while the columns go by, so an output is one sequence of
 * multiply-adds whatever tile it falls in. What is added to it is in accumulate.h.
 *
 * Included after a CPU level's simd_*.h, which has the vectors and the sizes of a tile, by a file
 * that defines accumulate.
 */
#ifndef LOCUS_KERNELS_TILES_H
#define LOCUS_KERNELS_TILES_H

#include "kernels/share.h"

enum {
    PANEL_VECS = LOCUS_PANEL / VEC_LANES,
    ROW_VECS =
        ROW_PANELS * PANEL_VECS, /* a single row's accumulators, where weights are no blocks */
    MAX_ACC = TILE_ROWS * TILE_VECS + ROW_VECS,
    PREFETCH_BYTES = 2048 /* how far ahead of a single row its weights are asked for */
};

/* Vectors are counted on through the panels that follow: the one that has vector v. */
INLINE const char *panel_of(const char *panel, size_t panel_bytes, int v)
{
    return panel + (size_t)(v / PANEL_VECS) * panel_bytes;
}

/* Asks for n_bytes of a single row's weights, well before they are needed. */
INLINE void ask_for(const char *weights, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes; at += 64)
        __builtin_prefetch(weights + PREFETCH_BYTES + at);
}

/* Into acc[n_rows][n_vecs] goes everything that n_rows rows of activations from `row` on have to
 * give to the vectors of a panel from `first` on, or to all of some panels (ROW_VECS). */
INLINE void accumulate(struct locus_traits form, vec *acc, const struct locus_matmul *op,
                       const char *panel, int row, int n_rows, int first, int n_vecs);

/* ---- tiles -------------------------------------------------------------------------------- */

/* A row's outputs from `lane` on: n_vecs accumulators plus bias, stored or added. */
INLINE void store_acc(const struct locus_matmul *op, int row, int lane, const vec *acc, int n_vecs)
{
    float *out = op->out + (size_t)row * (size_t)op->weight->rows + lane;
    const float *bias = op->bias ? op->bias + lane : NULL;
    int n = op->weight->rows - lane;
    if (n >= n_vecs * VEC_LANES) {
        for (int v = 0; v < n_vecs; v++) {
            vec result = acc[v];
            if (bias) result = vec_add(result, vec_load(bias + v * VEC_LANES));
            if (op->add) result = vec_add(vec_load(out + v * VEC_LANES), result);
            vec_store(out + v * VEC_LANES, result);
        }
        return;
    }
    float last[ROW_PANELS * LOCUS_PANEL];
    for (int v = 0; v < n_vecs; v++)
        vec_store(last + v * VEC_LANES, acc[v]);
    for (int r = 0; r < n; r++) {
        float result = bias ? last[r] + bias[r] : last[r];
        out[r] = op->add ? out[r] + result : result;
    }
}

/* n_rows rows of activations from `row` on, times n_vecs vectors of panel p from `first` on, or
 * times all of the panels from p on (ROW_VECS). */
INLINE void tile(struct locus_traits form, const struct locus_matmul *op, int p, int row,
                 int n_rows, int first, int n_vecs)
{
    const char *panel =
        (const char *)op->weight->panels + (size_t)p * locus_panel_bytes(form, op->weight->cols);
    vec acc[MAX_ACC];
    for (int c = 0; c < n_rows * n_vecs; c++)
        acc[c] = vec_set(0);
    accumulate(form, acc, op, panel, row, n_rows, first, n_vecs);
    for (int t = 0; t < n_rows; t++)
        store_acc(op, row + t, p * LOCUS_PANEL + first * VEC_LANES, acc + t * n_vecs, n_vecs);
}

/* n_rows (one tile's, a constant) from `row` on, times the whole panel. */
INLINE void tile_row(struct locus_traits form, const struct locus_matmul *op, int p, int row,
                     int n_rows)
{
    const int n_vecs = n_rows == 1 ? PANEL_VECS : form.n_scales ? QUANT_VECS : TILE_VECS;
    for (int v = 0; v < PANEL_VECS; v += n_vecs)
        tile(form, op, p, row, n_rows, v, n_vecs);
}

/* A tile's rows, or less, times one panel. */
INLINE void panel_rows(struct locus_traits form, const struct locus_matmul *op, int p, int row,
                       int n_rows)
{
    const int tile_rows = form.n_scales ? QUANT_ROWS : TILE_ROWS;
    if (n_rows == tile_rows) {
        tile_row(form, op, p, row, tile_rows);
        return;
    }
    if (tile_rows > 8 && n_rows & 8) tile_row(form, op, p, row, 8), row += 8;
    if (n_rows & 4) tile_row(form, op, p, row, 4), row += 4;
    if (n_rows & 2) tile_row(form, op, p, row, 2), row += 2;
    if (n_rows & 1) tile_row(form, op, p, row, 1);
}

/* Groups of panels that the cache holds; tiles of rows pass over each. */
INLINE void matmul_panels(struct locus_traits form, const struct locus_matmul *op,
                          struct locus_share share)
{
    const int group = locus_panel_group(locus_panel_bytes(form, op->weight->cols));
    const int tile_rows = form.n_scales ? QUANT_ROWS : TILE_ROWS;
    for (int start = share.first; start < share.end; start += group) {
        const int end = start + group < share.end ? start + group : share.end;
        for (int row = share.row; row < share.row_end; row += tile_rows) {
            const int left = share.row_end - row, n_rows = left < tile_rows ? left : tile_rows;
            int p = start;
            if (n_rows == 1 && !form.n_scales)
                for (; p + ROW_PANELS <= end; p += ROW_PANELS)
                    tile(form, op, p, row, 1, 0, ROW_VECS);
            for (; p < end; p++)
                panel_rows(form, op, p, row, n_rows);
        }
    }
}

#endif
