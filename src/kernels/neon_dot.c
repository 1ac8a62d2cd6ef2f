/* NEON with dotprod: products of blocks by sdot, which adds four products of bytes to a 32-bit sum,
 * exactly. See accumulate.h. */
#if defined(__aarch64__)
#include "kernels/simd_neon.h"

INLINE ivec dots_add(struct locus_traits form, ivec dots, ivec w, const int8_t *q)
{
    (void)form;
    return vdotq_s32(dots, vreinterpretq_s8_s32(w), four_activations(q));
}

#include "kernels/products.h"

/* Blocks are unpacked as they are met. */
INLINE void matmul_blocks(struct locus_traits form, const struct locus_matmul *op,
                          struct locus_share share)
{
    matmul_panels(form, op, share);
}

void locus_kernels_neon_dot(struct locus_kernels *kernels)
{
    set_block_products(kernels);
}
#endif
