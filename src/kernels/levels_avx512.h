/* Integer dots of four columns in AVX-512; the bytes that they multiply. */
#ifndef LOCUS_KERNELS_LEVELS_AVX512_H
#define LOCUS_KERNELS_LEVELS_AVX512_H

#include "kernels/simd_avx512.h"

/* Words of the levels of 16 rows from `lane` on. */
INLINE ivec level_words(const char *levels, int word, int lane)
{
    return _mm512_loadu_si512(levels + (word * LOCUS_PANEL + lane) * 4);
}

/* Bytes of four columns of 16 rows from `lane` on: levels with the form's offset. */
INLINE ivec level_bytes(struct locus_traits form, const char *levels, int group, int lane)
{
    if (form.bits == 8) return level_words(levels, group, lane);
    ivec bytes = level_words(levels, group % 4, lane);
    if (group >= 4) bytes = _mm512_srli_epi16(bytes, 4);
    bytes = _mm512_and_si512(bytes, _mm512_set1_epi8(15));
    if (form.table)
        bytes = _mm512_shuffle_epi8(
            _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)form.table)),
            bytes);
    if (form.bits == 4) return bytes;
    const struct locus_high_bits high = locus_high_bits(form, group);
    ivec word = level_words(levels, high.word, lane);
    word = high.at > 4 ? _mm512_srli_epi16(word, (uint8_t)(high.at - 4))
                       : _mm512_slli_epi16(word, (uint8_t)(4 - high.at));
    return _mm512_or_si512(bytes, _mm512_and_si512(word, _mm512_set1_epi8((char)high.mask)));
}

/* Four activations in every lane. */
INLINE ivec four_activations(const int8_t *q)
{
    int four;
    memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
}

#endif
