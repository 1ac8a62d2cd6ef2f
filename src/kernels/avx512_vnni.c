/* AVX-512 with VNNI: products of quantised weights by vpdpbusd, which adds four products of
 * unsigned and signed bytes to a 32-bit sum, exactly. See chains.h. */
#if defined(__x86_64__)
#include "kernels/avx512.h"
#include "kernels/quants_avx512.h"

/* Q8_0's weights are made unsigned by adding 128. */
INLINE ivec quants_load(enum locus_tensor_type type, const void *block, int group, int lane)
{
    __m512i bytes = panel_bytes(type, block, group, lane);
    return type == LOCUS_Q8_0 ? _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) : bytes;
}

/* What a block's dots start from takes back the 128, or Q4_0's 8, too many. */
INLINE ivec quants_start(enum locus_tensor_type type, const struct locus_activation_block *in)
{
    return _mm512_set1_epi32(type == LOCUS_Q8_0 ? in->minus_128_sums : in->minus_8_sums);
}

INLINE ivec quants_dot(enum locus_tensor_type type, ivec dots, ivec w, const int8_t *q)
{
    (void)type;
    return _mm512_dpbusd_epi32(dots, w, four_activations(q));
}

#include "kernels/chains.h"

void locus_avx512_vnni_matmul(const struct locus_matmul *op, struct locus_share share)
{
    if (op->weight->type == LOCUS_Q8_0)
        matmul_panels(LOCUS_Q8_0, op, share);
    else
        matmul_panels(LOCUS_Q4_0, op, share);
}
#endif
