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

static void matmul(const struct locus_matmul *op, struct locus_share share)
{
    matmul_any(op, share);
}

void locus_kernels_neon(struct locus_kernels *kernels)
{
    for (int form = 0; form < LOCUS_N_FORMS; form++)
        kernels->matmul[form] = matmul;
    kernels->quantize = quantize;
    kernels->to_halves = to_halves;
    set_lanes(kernels);
}
#endif
