/* Activations into blocks, and floats into f16, in AVX-512.
 *
 * Four blocks share their reductions. The rule is that of locus_quantize_block, which takes blocks
 * that have an infinity, a NaN or next to nothing in them.
 */
#ifndef LOCUS_KERNELS_ACTIVATIONS_AVX512_H
#define LOCUS_KERNELS_ACTIVATIONS_AVX512_H

#include <immintrin.h>

#include "kernels/lanes.h"

enum { BLOCKS = 4 };

/* Lane i of 4: the largest of the 16 lanes of a[i]. */
INLINE __m128i largest_of_each(const __m512i a[BLOCKS])
{
    __m512i b[2];
    for (int i = 0; i < 2; i++)
        b[i] = _mm512_max_epi32(_mm512_unpacklo_epi32(a[i], a[i + 2]),
                                _mm512_unpackhi_epi32(a[i], a[i + 2]));
    __m512i c =
        _mm512_max_epi32(_mm512_unpacklo_epi32(b[0], b[1]), _mm512_unpackhi_epi32(b[0], b[1]));
    __m256i d = _mm256_max_epi32(_mm512_castsi512_si256(c), _mm512_extracti64x4_epi64(c, 1));
    return _mm_max_epi32(_mm256_castsi256_si128(d), _mm256_extracti128_si256(d, 1));
}

/* Lane i of 4: the sum of the first 4 lanes of a[i], and of the other 4. */
INLINE __m256i sums_of_each(const __m256i a[BLOCKS])
{
    __m256i b[2];
    for (int i = 0; i < 2; i++)
        b[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(a[i], a[i + 2]),
                                _mm256_unpackhi_epi32(a[i], a[i + 2]));
    return _mm256_add_epi32(_mm256_unpacklo_epi32(b[0], b[1]), _mm256_unpackhi_epi32(b[0], b[1]));
}

/* The scales of four blocks, and what takes offsets back: sums of 16 values each. */
INLINE void store_heads(struct locus_activation_block *blocks, __m128 scales, __m256i sums)
{
    __m128i zero = _mm_setzero_si128(), first = _mm256_castsi256_si128(sums);
    __m128i all = _mm_add_epi32(first, _mm256_extracti128_si256(sums, 1));
    __m128 heads[] = {scales, _mm_castsi128_ps(_mm_sub_epi32(zero, _mm_slli_epi32(all, 3))),
                      _mm_castsi128_ps(_mm_sub_epi32(zero, _mm_slli_epi32(all, 7))),
                      _mm_castsi128_ps(_mm_sub_epi32(zero, _mm_slli_epi32(first, 7)))};
    _MM_TRANSPOSE4_PS(heads[0], heads[1], heads[2], heads[3]);
    for (int i = 0; i < BLOCKS; i++)
        _mm_storeu_ps(&blocks[i].scale, heads[i]);
}

/* The low bytes of x times `inverse`, rounded to integers. */
INLINE __m128i rounded(__m512 x, float inverse)
{
    __m512 shifted = _mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(inverse)),
                                   _mm512_set1_ps(12582912.0f)); /* 1.5 * 2^23 */
    return _mm512_cvtepi32_epi8(_mm512_castps_si512(shifted));
}

/* Four blocks; false, and nothing done, if one of them has values of its own rule. */
INLINE bool quantize_four(struct locus_activation_block *blocks, const float *x)
{
    const __m128i infinity = _mm_set1_epi32(0x7F800000);
    const __m128 full = _mm_set1_ps(127.0f);
    __m512i largest[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        largest[i] =
            _mm512_max_epi32(_mm512_and_si512(_mm512_loadu_si512(x + i * LOCUS_QUANT_BLOCK),
                                              _mm512_set1_epi32(0x7FFFFFFF)),
                             _mm512_and_si512(_mm512_loadu_si512(x + i * LOCUS_QUANT_BLOCK + 16),
                                              _mm512_set1_epi32(0x7FFFFFFF)));
    __m128i bits = largest_of_each(largest);
    __m128 inverses = _mm_div_ps(full, _mm_castsi128_ps(bits));
    if (_mm_cmplt_epi32_mask(bits, infinity) != 15 ||
        _mm_cmplt_epi32_mask(_mm_castps_si128(inverses), infinity) != 15)
        return false;
    float inverse[BLOCKS];
    __m256i fours[BLOCKS];
    _mm_storeu_ps(inverse, inverses);
    for (int i = 0; i < BLOCKS; i++) {
        __m128i low = rounded(_mm512_loadu_ps(x + i * LOCUS_QUANT_BLOCK), inverse[i]);
        __m128i high = rounded(_mm512_loadu_ps(x + i * LOCUS_QUANT_BLOCK + 16), inverse[i]);
        __m256i q = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
        _mm256_storeu_si256((__m256i *)(void *)blocks[i].q, q);
        fours[i] =
            _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
    }
    store_heads(blocks, _mm_div_ps(_mm_castsi128_ps(bits), full), sums_of_each(fours));
    return true;
}

/* The CPU's f16 are those of locus_float_to_f16 but for a NaN, which keeps its payload there.
 */
static void to_f16_avx512(uint16_t *out, const float *x, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 values = _mm512_loadu_ps(x + i);
        if (_mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q))
            to_f16(out + i, x + i, 16);
        else
            _mm256_storeu_si256((__m256i *)(void *)(out + i),
                                _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
    }
    to_f16(out + i, x + i, n - i);
}

static void quantize_avx512(struct locus_activation_block *blocks, const float *x, int n_cols)
{
    const int n_blocks = n_cols / LOCUS_QUANT_BLOCK;
    for (int b = 0; b < n_blocks; b += BLOCKS) {
        const float *at = x + (size_t)b * LOCUS_QUANT_BLOCK;
        const int left = n_blocks - b < BLOCKS ? n_blocks - b : BLOCKS;
        if (left < BLOCKS || !quantize_four(blocks + b, at))
            quantize(blocks + b, at, left * LOCUS_QUANT_BLOCK);
    }
}

#endif
