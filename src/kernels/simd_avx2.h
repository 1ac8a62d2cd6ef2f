/* AVX2 behind the names that tiles.h is written in: 8 lanes, 16 registers. */
#ifndef LOCUS_KERNELS_SIMD_AVX2_H
#define LOCUS_KERNELS_SIMD_AVX2_H

#include <immintrin.h>
#include <math.h>

#include "kernels/share.h"

typedef __m256 vec;
typedef __m256i ivec;

enum {
    VEC_LANES = 8,
    TILE_ROWS = 6, /* 6 rows x 2 vectors: 12 accumulators */
    TILE_VECS = 2,
    ROW_PANELS = 2, /* 2 x 4 vectors of a single row */
    QUANT_ROWS = 6, /* 6 dots; the chains wait in the first-level cache */
    QUANT_VECS = 1
};

INLINE vec vec_load(const float *at)
{
    return _mm256_loadu_ps(at);
}

INLINE void vec_store(float *at, vec value)
{
    _mm256_storeu_ps(at, value);
}

INLINE vec vec_set(float value)
{
    return _mm256_set1_ps(value);
}

INLINE vec vec_set_int(int32_t value)
{
    return _mm256_cvtepi32_ps(_mm256_set1_epi32(value));
}

INLINE vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

INLINE vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* a where it is greater, else b: of a NaN and a number the second. */
INLINE vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

/* The largest lane; there is no NaN. */
INLINE float vec_largest(vec a)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* Lanes [first, end) of a, and -INFINITY in the others. */
INLINE vec vec_within(vec a, int first, int end)
{
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i without = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), lanes),
                                      _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32(end - 1)));
    return _mm256_blendv_ps(a, _mm256_set1_ps(-INFINITY), _mm256_castsi256_ps(without));
}

INLINE vec vec_of_ints(ivec ints)
{
    return _mm256_cvtepi32_ps(ints);
}

INLINE vec vec_of_f16(const uint16_t *at)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)at));
}

INLINE vec vec_of_bytes(const int8_t *at)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at)));
}

/* One of each pair of bf16 (pairs[lane][2]). */
INLINE vec vec_of_bf16(const uint16_t *pairs, int which)
{
    __m256i both = _mm256_loadu_si256((const __m256i *)(const void *)pairs);
    return _mm256_castsi256_ps(which ? _mm256_and_si256(both, _mm256_set1_epi32(-65536))
                                     : _mm256_slli_epi32(both, 16));
}

/* ---- integer dots of four columns --------------------------------------------------------- */

/* Words of the levels of 8 rows from `lane` on. */
INLINE ivec level_words(const char *levels, int word, int lane)
{
    const char *at = levels + (word * LOCUS_PANEL + lane) * 4;
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* Bytes of four columns, a row a lane, from `lane` on: levels with the form's offset. */
INLINE ivec levels_load(struct locus_traits form, const char *levels, int group, int lane)
{
    if (form.bits == 8) return level_words(levels, group, lane);
    ivec bytes = level_words(levels, group % 4, lane);
    if (group >= 4) bytes = _mm256_srli_epi16(bytes, 4);
    bytes = _mm256_and_si256(bytes, _mm256_set1_epi8(15));
    if (form.table)
        bytes = _mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)form.table)),
            bytes);
    if (form.bits == 4) return bytes;
    const struct locus_high_bits high = locus_high_bits(form, group);
    ivec word = level_words(levels, high.word, lane);
    word =
        high.at > 4 ? _mm256_srli_epi16(word, high.at - 4) : _mm256_slli_epi16(word, 4 - high.at);
    return _mm256_or_si256(bytes, _mm256_and_si256(word, _mm256_set1_epi8((char)high.mask)));
}

/* What a block's dots start from: what takes the form's offset back. */
INLINE ivec dots_start(struct locus_traits form, const struct locus_activation_block *in, int s)
{
    return _mm256_set1_epi32(locus_minus_offset_part(in, form.offset, form.n_scales, s));
}

/* vpmaddubsw multiplies unsigned by signed bytes and adds pairs in 16 bits, saturating. It doesn't
 * here: |w| <= 128 with the sign moved to the activation makes 2 * 128 * 127 = 32,512 at most. */
INLINE ivec dots_add(struct locus_traits form, ivec dots, ivec w, const int8_t *q)
{
    int four;
    memcpy(&four, q, sizeof four);
    __m256i x = _mm256_set1_epi32(four);
    __m256i pairs = form.negative ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                                  : _mm256_maddubs_epi16(w, x);
    return _mm256_add_epi32(dots, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#endif
