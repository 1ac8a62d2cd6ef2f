/* NEON with dotprod: products of quantised weights by sdot, which adds four products of bytes to a
 * 32-bit sum, exactly. See chains.h. */
#if defined(__aarch64__)
#include "kernels/neon.h"
#include "kernels/simd_neon.h"

INLINE ivec quants_dot(enum locus_tensor_type type, ivec dots, ivec w, const int8_t *q)
{
    (void)type;
    return vdotq_s32(dots, vreinterpretq_s8_s32(w), four_activations(q));
}

#include "kernels/chains.h"

void locus_neon_dot_matmul(const struct locus_matmul *op, struct locus_share share)
{
    if (op->weight->type == LOCUS_Q8_0)
        matmul_panels(LOCUS_Q8_0, op, share);
    else
        matmul_panels(LOCUS_Q4_0, op, share);
}
#endif
