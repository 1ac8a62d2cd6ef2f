/* AVX-512 behind the names that tiles.h is written in: 16 lanes, 32 registers. */
#ifndef LOCUS_KERNELS_SIMD_AVX512_H
#define LOCUS_KERNELS_SIMD_AVX512_H

#include <immintrin.h>
#include <math.h>

#include "kernels/share.h"

typedef __m512 vec;
typedef __m512i ivec;

enum {
    VEC_LANES = 16,
    TILE_ROWS = 12, /* 12 rows x 2 vectors: 24 accumulators */
    TILE_VECS = 2,
    ROW_PANELS = 2, /* of a single row: two chains alone can't keep pace with the memory */
    QUANT_ROWS = 6, /* 6 x 2: 12 dots and 12 chains */
    QUANT_VECS = 2
};

INLINE vec vec_load(const float *at)
{
    return _mm512_loadu_ps(at);
}

INLINE void vec_store(float *at, vec value)
{
    _mm512_storeu_ps(at, value);
}

INLINE vec vec_set(float value)
{
    return _mm512_set1_ps(value);
}

INLINE vec vec_set_int(int32_t value)
{
    return _mm512_cvtepi32_ps(_mm512_set1_epi32(value));
}

INLINE vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

INLINE vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* a where it is greater, else b: of a NaN and a number the second. */
INLINE vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

/* The largest lane; there is no NaN. */
INLINE float vec_largest(vec a)
{
    return _mm512_reduce_max_ps(a);
}

/* Lanes [first, end) of a, and -INFINITY in the others. */
INLINE vec vec_within(vec a, int first, int end)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __mmask16 within = _mm512_cmpge_epi32_mask(lanes, _mm512_set1_epi32(first)) &
                       _mm512_cmplt_epi32_mask(lanes, _mm512_set1_epi32(end));
    return _mm512_mask_blend_ps(within, _mm512_set1_ps(-INFINITY), a);
}

INLINE vec vec_of_ints(ivec ints)
{
    return _mm512_cvtepi32_ps(ints);
}

INLINE vec vec_of_f16(const uint16_t *at)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
}

INLINE vec vec_of_bytes(const int8_t *at)
{
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)at)));
}

/* One of each pair of bf16 (pairs[lane][2]). */
INLINE vec vec_of_bf16(const uint16_t *pairs, int which)
{
    __m512i both = _mm512_loadu_si512(pairs);
    return _mm512_castsi512_ps(which ? _mm512_and_si512(both, _mm512_set1_epi32(-65536))
                                     : _mm512_slli_epi32(both, 16));
}

#endif
