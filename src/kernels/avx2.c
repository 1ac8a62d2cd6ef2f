/* AVX2 with FMA and F16C: 8 lanes. See tiles.h, attention.h and lanes.h. */
#if defined(__x86_64__)
#include "kernels/simd_avx2.h"

#include "kernels/attention.h"

static void matmul(const struct locus_matmul *op, struct locus_share share)
{
    matmul_any(op, share);
}

void locus_kernels_avx2(struct locus_kernels *kernels)
{
    for (int form = 0; form < LOCUS_N_FORMS; form++)
        kernels->matmul[form] = matmul;
    kernels->quantize = quantize;
    kernels->to_halves = to_halves;
    set_lanes(kernels);
}
#endif
