/* AVX2 with FMA and F16C: 8 lanes. See tiles.h, attention.h and lanes.h. */
#if defined(__x86_64__)
#include "kernels/simd_avx2.h"

#include "kernels/attention.h"
#include "kernels/products.h"

/* Blocks are unpacked as they are met. */
INLINE void matmul_blocks(struct locus_traits form, const struct locus_matmul *op,
                          struct locus_share share)
{
    matmul_panels(form, op, share);
}

void locus_kernels_avx2(struct locus_kernels *kernels)
{
    set_float_products(kernels);
    set_block_products(kernels);
    kernels->quantize = quantize;
    kernels->to_f16 = to_f16;
    set_lanes(kernels);
}
#endif
