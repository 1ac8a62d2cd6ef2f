/* AVX2 with FMA and F16C: 8 lanes. See tiles.h, attention.h and lanes.h. */
#if defined(__x86_64__)
#include "kernels/simd_avx2.h"

#include "kernels/attention.h"

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
        matmul_panels(LOCUS_Q8_0, op, share);
        break;
    case LOCUS_Q4_0:
        matmul_panels(LOCUS_Q4_0, op, share);
        break;
    }
}

const struct locus_kernels locus_kernels_avx2 = {
    .name = "avx2",
    .matmul = matmul,
    .quantize = quantize,
    .to_halves = to_halves,
    LANE_KERNELS,
};
#endif
