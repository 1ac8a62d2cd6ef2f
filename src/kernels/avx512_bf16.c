/* AVX-512 with BF16: products of BF16 weights by vdpbf16ps, which multiplies pairs of bf16 and
 * adds both products to a float: the second of the pair first, then the first, each by a fused
 * multiply-add that rounds to nearest and takes denormals for 0, before and after (Intel's manual,
 * VDPBF16PS). A chain goes along the pairs of columns in order, in every tile. */
#if defined(__x86_64__)
#include "kernels/simd_avx512.h"

#include "kernels/tiles.h"

INLINE void accumulate(struct locus_traits form, vec *acc, const struct locus_matmul *op,
                       const char *panel, int row, int n_rows, int first, int n_vecs)
{
    enum { PAIR_BYTES = 2 * LOCUS_PANEL * sizeof(uint16_t) };
    const size_t cols = locus_bf16_cols(op->weight->cols);
    const size_t panel_bytes = locus_panel_bytes(form, op->weight->cols);
    const uint16_t *x = op->in.bf16 + (size_t)row * cols;
    for (size_t column = 0; column < cols; column += 2) {
        __m512bh w[ROW_VECS];
        for (int v = 0; v < n_vecs; v++) {
            const char *pairs = panel_of(panel, panel_bytes, v) + column / 2 * PAIR_BYTES;
            if (n_rows == 1 && v % PANEL_VECS == 0) ask_for(pairs, PAIR_BYTES);
            w[v] = (__m512bh)_mm512_loadu_si512(pairs +
                                                (size_t)(first + v % PANEL_VECS) * sizeof(vec));
        }
        for (int t = 0; t < n_rows; t++) {
            int pair;
            memcpy(&pair, x + (size_t)t * cols + column, sizeof pair);
            __m512bh value = (__m512bh)_mm512_set1_epi32(pair);
            for (int v = 0; v < n_vecs; v++)
                acc[t * n_vecs + v] = _mm512_dpbf16_ps(acc[t * n_vecs + v], w[v], value);
        }
    }
}

static void matmul(const struct locus_matmul *op, struct locus_share share)
{
    matmul_panels(locus_forms[LOCUS_FORM_BF16], op, share);
}

static void to_bf16(uint16_t *bf16, const float *x, int n_cols)
{
    for (int c = 0; c < n_cols; c++)
        bf16[c] = locus_float_to_bf16(x[c]);
    if (n_cols % 2) bf16[n_cols] = 0;
}

void locus_kernels_avx512_bf16(struct locus_kernels *kernels)
{
    kernels->matmul[LOCUS_FORM_BF16] = matmul;
    kernels->to_bf16 = to_bf16;
}
#endif
