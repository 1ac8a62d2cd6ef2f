/* A kernel set's products: a function a form, since in a single one of so many loops GCC would
 * spill registers (its ira-max-loops-num). Included by a level's file, which defines matmul_blocks.
 */
#ifndef LOCUS_KERNELS_PRODUCTS_H
#define LOCUS_KERNELS_PRODUCTS_H

#include "kernels/accumulate.h"

/* That share of a product of blocks. */
INLINE void matmul_blocks(struct locus_traits form, const struct locus_matmul *op,
                          struct locus_share share);

static void matmul_f32(const struct locus_matmul *op, struct locus_share share)
{
    matmul_panels(locus_forms[LOCUS_FORM_F32], op, share);
}

static void matmul_f16(const struct locus_matmul *op, struct locus_share share)
{
    matmul_panels(locus_forms[LOCUS_FORM_F16], op, share);
}

static void matmul_bf16(const struct locus_matmul *op, struct locus_share share)
{
    matmul_panels(locus_forms[LOCUS_FORM_BF16], op, share);
}

static void matmul_q8(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q8], op, share);
}

static void matmul_q4(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q4], op, share);
}

static void matmul_q4_min(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q4_MIN], op, share);
}

static void matmul_q5(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q5], op, share);
}

static void matmul_q5_min(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q5_MIN], op, share);
}

static void matmul_iq4(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_IQ4], op, share);
}

static void matmul_fp4(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_FP4], op, share);
}

static void matmul_q4_k(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q4_K], op, share);
}

static void matmul_q5_k(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q5_K], op, share);
}

static void matmul_q6_k(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q6_K], op, share);
}

static void matmul_q4_two_k(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q4_TWO_K], op, share);
}

static void matmul_q4_two_min_k(const struct locus_matmul *op, struct locus_share share)
{
    matmul_blocks(locus_forms[LOCUS_FORM_Q4_TWO_MIN_K], op, share);
}

INLINE void set_float_products(struct locus_kernels *kernels)
{
    kernels->matmul[LOCUS_FORM_F32] = matmul_f32;
    kernels->matmul[LOCUS_FORM_F16] = matmul_f16;
    kernels->matmul[LOCUS_FORM_BF16] = matmul_bf16;
}

INLINE void set_block_products(struct locus_kernels *kernels)
{
    kernels->matmul[LOCUS_FORM_Q8] = matmul_q8;
    kernels->matmul[LOCUS_FORM_Q4] = matmul_q4;
    kernels->matmul[LOCUS_FORM_Q4_MIN] = matmul_q4_min;
    kernels->matmul[LOCUS_FORM_Q5] = matmul_q5;
    kernels->matmul[LOCUS_FORM_Q5_MIN] = matmul_q5_min;
    kernels->matmul[LOCUS_FORM_IQ4] = matmul_iq4;
    kernels->matmul[LOCUS_FORM_FP4] = matmul_fp4;
    kernels->matmul[LOCUS_FORM_Q4_K] = matmul_q4_k;
    kernels->matmul[LOCUS_FORM_Q5_K] = matmul_q5_k;
    kernels->matmul[LOCUS_FORM_Q6_K] = matmul_q6_k;
    kernels->matmul[LOCUS_FORM_Q4_TWO_K] = matmul_q4_two_k;
    kernels->matmul[LOCUS_FORM_Q4_TWO_MIN_K] = matmul_q4_two_min_k;
}

#endif
