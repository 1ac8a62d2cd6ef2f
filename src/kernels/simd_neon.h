/* NEON (ARMv8) behind the names that tiles.h and attention.h are written in: 4 lanes, 32 registers.
 */
#ifndef LOCUS_KERNELS_SIMD_NEON_H
#define LOCUS_KERNELS_SIMD_NEON_H

#include <arm_neon.h>
#include <math.h>

#include "kernels/share.h"

typedef float32x4_t vec;
typedef int32x4_t ivec;

enum {
    VEC_LANES = 4,
    TILE_ROWS = 6, /* 6 rows x 4 vectors: 24 accumulators */
    TILE_VECS = 4,
    ROW_PANELS = 1, /* 8 vectors of a single row */
    QUANT_ROWS = 6, /* 6 x 2: 12 dots and 12 chains */
    QUANT_VECS = 2
};

INLINE vec vec_load(const float *at)
{
    return vld1q_f32(at);
}

INLINE void vec_store(float *at, vec value)
{
    vst1q_f32(at, value);
}

INLINE vec vec_set(float value)
{
    return vdupq_n_f32(value);
}

INLINE vec vec_set_int(int32_t value)
{
    return vcvtq_f32_s32(vdupq_n_s32(value));
}

INLINE vec vec_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}

INLINE vec vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

INLINE vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

/* a where it is greater, else b: of a NaN and a number the second. */
INLINE vec vec_max(vec a, vec b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

/* The largest lane; there is no NaN. */
INLINE float vec_largest(vec a)
{
    return vmaxvq_f32(a);
}

/* Lanes [first, end) of a, and -INFINITY in the others. */
INLINE vec vec_within(vec a, int first, int end)
{
    const int32x4_t lanes = {0, 1, 2, 3};
    uint32x4_t within =
        vandq_u32(vcgeq_s32(lanes, vdupq_n_s32(first)), vcltq_s32(lanes, vdupq_n_s32(end)));
    return vbslq_f32(within, a, vdupq_n_f32(-INFINITY));
}

INLINE vec vec_of_ints(ivec ints)
{
    return vcvtq_f32_s32(ints);
}

INLINE vec vec_of_f16(const uint16_t *at)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(at)));
}

INLINE vec vec_of_bytes(const int8_t *at)
{
    uint32_t four;
    memcpy(&four, at, sizeof four);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(four)))));
}

/* One of each pair of bf16 (pairs[lane][2]). */
INLINE vec vec_of_bf16(const uint16_t *pairs, int which)
{
    uint32x4_t both = vreinterpretq_u32_u16(vld1q_u16(pairs));
    return vreinterpretq_f32_u32(which ? vandq_u32(both, vdupq_n_u32(0xFFFF0000u))
                                       : vshlq_n_u32(both, 16));
}

/* ---- integer dots of four columns --------------------------------------------------------- */

/* Words of the levels of 4 rows from `lane` on. */
INLINE uint8x16_t level_words(const char *levels, int word, int lane)
{
    return vld1q_u8((const uint8_t *)(const void *)(levels + (word * LOCUS_PANEL + lane) * 4));
}

/* Bytes of four columns, a row a lane, from `lane` on: levels with the form's offset. None is above
 * 127. */
INLINE ivec levels_load(struct locus_traits form, const char *levels, int group, int lane)
{
    if (form.bits == 8) return vreinterpretq_s32_u8(level_words(levels, group, lane));
    uint8x16_t bytes = level_words(levels, group % 4, lane);
    bytes = group >= 4 ? vshrq_n_u8(bytes, 4) : vandq_u8(bytes, vdupq_n_u8(15));
    if (form.table) return vreinterpretq_s32_s8(vqtbl1q_s8(vld1q_s8(form.table), bytes));
    if (form.bits == 4) return vreinterpretq_s32_u8(bytes);
    const struct locus_high_bits high = locus_high_bits(form, group);
    uint8x16_t word =
        vshlq_u8(level_words(levels, high.word, lane), vdupq_n_s8((int8_t)(4 - high.at)));
    return vreinterpretq_s32_u8(vorrq_u8(bytes, vandq_u8(word, vdupq_n_u8((uint8_t)high.mask))));
}

/* What a block's dots start from: what takes the form's offset back. */
INLINE ivec dots_start(struct locus_traits form, const struct locus_activation_block *in, int s)
{
    return vdupq_n_s32(locus_minus_offset_part(in, form.offset, form.n_scales, s));
}

/* Four activations in every lane. */
INLINE int8x16_t four_activations(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

#endif
