/* NEON (ARMv8): 4 lanes. See tiles.h, attention.h and lanes.h. */
#if defined(__aarch64__)
#include "kernels/simd_neon.h"

/* Products in 16 bits, pairs and then pairs of pairs added in 32. */
INLINE ivec dots_add(struct locus_traits form, ivec dots, ivec w, const int8_t *q)
{
    (void)form;
    int8x16_t bytes = vreinterpretq_s8_s32(w), x = four_activations(q);
    int16x8_t low = vmull_s8(vget_low_s8(bytes), vget_low_s8(x));
    int16x8_t high = vmull_high_s8(bytes, x);
    return vaddq_s32(dots, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

#include "kernels/attention.h"
#include "kernels/products.h"

/* Blocks are unpacked as they are met. */
INLINE void matmul_blocks(struct locus_traits form, const struct locus_matmul *op,
                          struct locus_share share)
{
    matmul_panels(form, op, share);
}

void locus_kernels_neon(struct locus_kernels *kernels)
{
    set_float_products(kernels);
    set_block_products(kernels);
    kernels->quantize = quantize;
    kernels->to_f16 = to_f16;
    set_lanes(kernels);
}
#endif
