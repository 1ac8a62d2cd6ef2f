/* Integer dots of four columns in AVX-512; the bytes that they multiply. */
#ifndef LOCUS_KERNELS_LEVELS_AVX512_H
#define LOCUS_KERNELS_LEVELS_AVX512_H

#include "kernels/simd_avx512.h"

/* Bytes of four columns of 16 rows from `lane` on, as they are stored. */
INLINE ivec level_bytes(struct locus_traits form, const char *levels, int group, int lane)
{
    const int at = form.bits == 4 ? group % 4 : group;
    ivec bytes = _mm512_loadu_si512(levels + (at * LOCUS_PANEL + lane) * 4);
    if (form.bits == 8) return bytes;
    if (group >= 4) bytes = _mm512_srli_epi16(bytes, 4);
    return _mm512_and_si512(bytes, _mm512_set1_epi8(15));
}

/* Four activations in every lane. */
INLINE ivec four_activations(const int8_t *q)
{
    int four;
    memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
}

#endif
