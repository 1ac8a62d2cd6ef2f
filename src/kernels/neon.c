/* NEON (ARMv8): 4 lanes. See tiles.h, attention.h and lanes.h. */
#if defined(__aarch64__)
#include "kernels/neon.h"
#include "kernels/simd_neon.h"

#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

/* Products in 16 bits, pairs and then pairs of pairs added in 32. */
INLINE ivec quants_dot(enum locus_tensor_type type, ivec dots, ivec w, const int8_t *q)
{
    (void)type;
    int8x16_t bytes = vreinterpretq_s8_s32(w), x = four_activations(q);
    int16x8_t low = vmull_s8(vget_low_s8(bytes), vget_low_s8(x));
    int16x8_t high = vmull_high_s8(bytes, x);
    return vaddq_s32(dots, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

#include "kernels/attention.h"

void locus_neon_plain_matmul(const struct locus_matmul *op, struct locus_share share)
{
    if (op->weight->type == LOCUS_Q8_0)
        matmul_panels(LOCUS_Q8_0, op, share);
    else
        matmul_panels(LOCUS_Q4_0, op, share);
}

static bool has_dotprod(void)
{
#if defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
    return true; /* every 64-bit Mac has it */
#endif
}

static void matmul(const struct locus_matmul *op, int thread, int n_threads)
{
    struct locus_share share = locus_share_of(op, thread, n_threads);
    switch (op->weight->type) {
    case LOCUS_F32:
        matmul_panels(LOCUS_F32, op, share);
        break;
    case LOCUS_F16:
        matmul_panels(LOCUS_F16, op, share);
        break;
    case LOCUS_BF16:
        matmul_panels(LOCUS_BF16, op, share);
        break;
    case LOCUS_Q8_0:
    case LOCUS_Q4_0:
        if (has_dotprod())
            locus_neon_dot_matmul(op, share);
        else
            locus_neon_plain_matmul(op, share);
        break;
    }
}

const struct locus_kernels locus_kernels_neon = {
    .name = "neon",
    .matmul = matmul,
    .quantize = quantize,
    .to_halves = to_halves,
    LANE_KERNELS,
};
#endif
