/* AVX-512 (F, BW, DQ, VL): 16 lanes. See tiles.h, attention.h and lanes.h. */
#if defined(__x86_64__)
#include "kernels/avx512.h"
#include "kernels/quants_avx512.h"

INLINE ivec quants_load(enum locus_tensor_type type, const void *block, int group, int lane)
{
    return panel_bytes(type, block, group, lane);
}

/* What a block's dots start from: Q4_0 takes back the 8 too many. */
INLINE ivec quants_start(enum locus_tensor_type type, const struct locus_activation_block *in)
{
    return _mm512_set1_epi32(type == LOCUS_Q8_0 ? 0 : in->minus_8_sums);
}

/* vpmaddubsw multiplies unsigned by signed bytes and adds pairs in 16 bits, saturating. It doesn't
 * here: |w| <= 128 with the sign moved to the activation makes 2 * 128 * 127 = 32,512 at most. */
INLINE ivec quants_dot(enum locus_tensor_type type, ivec dots, ivec w, const int8_t *q)
{
    __m512i x = four_activations(q);
    if (type == LOCUS_Q8_0) {
        x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
        w = _mm512_abs_epi8(w);
    }
    __m512i pairs = _mm512_maddubs_epi16(w, x);
    return _mm512_add_epi32(dots, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

#include "kernels/attention.h"
#include "kernels/quantize_avx512.h"

void locus_avx512_plain_matmul(const struct locus_matmul *op, struct locus_share share)
{
    if (op->weight->type == LOCUS_Q8_0)
        matmul_panels(LOCUS_Q8_0, op, share);
    else
        matmul_panels(LOCUS_Q4_0, op, share);
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
        if (__builtin_cpu_supports("avx512vnni"))
            locus_avx512_vnni_matmul(op, share);
        else
            locus_avx512_plain_matmul(op, share);
        break;
    }
}

static void matmul_with_dots(const struct locus_matmul *op, int thread, int n_threads)
{
    if (op->weight->type == LOCUS_BF16)
        locus_avx512_bf16_matmul(op, locus_share_of(op, thread, n_threads));
    else
        matmul(op, thread, n_threads);
}

const struct locus_kernels locus_kernels_avx512 = {
    .name = "avx512",
    .matmul = matmul,
    .quantize = quantize_avx512,
    .to_halves = to_halves_avx512,
    LANE_KERNELS,
};

const struct locus_kernels locus_kernels_avx512_bf16 = {
    .name = "avx512_bf16",
    .matmul = matmul_with_dots,
    .quantize = quantize_avx512,
    .to_bfloats = locus_avx512_to_bfloats,
    .to_halves = to_halves_avx512,
    LANE_KERNELS,
};
#endif
