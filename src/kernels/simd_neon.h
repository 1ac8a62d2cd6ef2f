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

/* Bytes of four columns, a row a lane, from `lane` on; none is above 127. */
INLINE ivec levels_load(struct locus_traits form, const char *levels, int group, int lane)
{
    const int at = form.bits == 4 ? group % 4 : group;
    uint8x16_t bytes =
        vld1q_u8((const uint8_t *)(const void *)(levels + (at * LOCUS_PANEL + lane) * 4));
    if (form.bits == 8) return vreinterpretq_s32_u8(bytes);
    return vreinterpretq_s32_u8(group >= 4 ? vshrq_n_u8(bytes, 4)
                                           : vandq_u8(bytes, vdupq_n_u8(15)));
}

/* What a block's dots start from: what takes the form's offset back. */
INLINE ivec dots_start(struct locus_traits form, const struct locus_activation_block *in, int s)
{
    (void)s; /* forms of two scales have no offset */
    return vdupq_n_s32(form.offset ? in->minus_8_sum : 0);
}

/* Four activations in every lane. */
INLINE int8x16_t four_activations(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

#endif
