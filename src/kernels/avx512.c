/* AVX-512 (F, BW, DQ, VL): 16 lanes. See tiles.h, attention.h and lanes.h. */
#if defined(__x86_64__)
#include "kernels/levels_avx512.h"

INLINE ivec levels_load(struct locus_traits form, const char *levels, int group, int lane)
{
    return level_bytes(form, levels, group, lane);
}

/* What a block's dots start from: what takes the form's offset back. */
INLINE ivec dots_start(struct locus_traits form, const struct locus_activation_block *in, int s)
{
    return _mm512_set1_epi32(locus_minus_offset_part(in, form.offset, form.n_scales, s));
}

/* vpmaddubsw multiplies unsigned by signed bytes and adds pairs in 16 bits, saturating. It doesn't
 * here: |w| <= 128 with the sign moved to the activation makes 2 * 128 * 127 = 32,512 at most. */
INLINE ivec dots_add(struct locus_traits form, ivec dots, ivec w, const int8_t *q)
{
    __m512i x = four_activations(q);
    if (form.negative) {
        x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
        w = _mm512_abs_epi8(w);
    }
    __m512i pairs = _mm512_maddubs_epi16(w, x);
    return _mm512_add_epi32(dots, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

#include "kernels/activations_avx512.h"
#include "kernels/attention.h"
#include "kernels/products.h"

/* Blocks are unpacked as they are met. */
INLINE void matmul_blocks(struct locus_traits form, const struct locus_matmul *op,
                          struct locus_share share)
{
    matmul_panels(form, op, share);
}

void locus_kernels_avx512(struct locus_kernels *kernels)
{
    set_float_products(kernels);
    set_block_products(kernels);
    kernels->quantize = quantize_avx512;
    kernels->to_f16 = to_f16_avx512;
    set_lanes(kernels);
}
#endif
