/* Integer dots of four columns in AVX-512; the bytes that they multiply. */
#ifndef LOCUS_KERNELS_QUANTS_AVX512_H
#define LOCUS_KERNELS_QUANTS_AVX512_H

#include "kernels/simd_avx512.h"

/* Bytes of four columns of 16 rows from `lane` on: Q8_0 signed, Q4_0 0 to 15 (8 too many). */
INLINE ivec panel_bytes(enum locus_tensor_type type, const void *block, int group, int lane)
{
    const struct locus_q8_panel *q8 = block;
    const struct locus_q4_panel *q4 = block;
    if (type == LOCUS_Q8_0) return _mm512_loadu_si512(q8->q[group][lane]);
    __m512i both = _mm512_loadu_si512(q4->q[group % 4][lane]);
    if (group >= 4) both = _mm512_srli_epi16(both, 4);
    return _mm512_and_si512(both, _mm512_set1_epi8(15));
}

/* Four activations in every lane. */
INLINE ivec four_activations(const int8_t *q)
{
    int four;
    memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
}

#endif
