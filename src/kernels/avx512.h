/* Parts of the AVX-512 set that need more than its baseline, or replace what does. */
#ifndef LOCUS_KERNELS_AVX512_H
#define LOCUS_KERNELS_AVX512_H

#include "kernels/share.h"

/* Q8_0 and Q4_0 by vpdpbusd (AVX512_VNNI), and without it. */
void locus_avx512_vnni_matmul(const struct locus_matmul *op, struct locus_share share);
void locus_avx512_plain_matmul(const struct locus_matmul *op, struct locus_share share);

/* BF16 by vdpbf16ps (AVX512_BF16), and the activations that it takes. */
void locus_avx512_bf16_matmul(const struct locus_matmul *op, struct locus_share share);
void locus_avx512_to_bfloats(uint16_t *bfloats, const float *x, int n_cols);

#endif
