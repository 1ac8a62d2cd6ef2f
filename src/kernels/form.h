/* Forms of packed weights: how they lie in panels, each described by its traits.
 *
 * A panel has 32 rows of a matrix. Its columns lie in blocks, one after another, of
 *
 *     scales   [n_scales][32]            f16 or floats
 *     mins     [n_scales][32]            floats, of forms that have them
 *     levels   8 bits: [8][32][4]        [c / 4][row][c % 4] holds column c
 *              4 bits: [4][32][4]        its low nibble column c, the high one column c + 16
 *
 * for 32 columns; of floats there are [columns][32] or, of BF16, pairs of columns [32][2]. A value
 * is scale * level + min. Kernels are made from the traits, so that a type of weights
 * (weight_type.h) that fits one of these forms needs none of its own.
 */
#ifndef LOCUS_KERNELS_FORM_H
#define LOCUS_KERNELS_FORM_H

#include "kernels/formats.h"

enum { LOCUS_PANEL = 32 }; /* output rows a panel of weights */

enum locus_form {
    LOCUS_FORM_F32,
    LOCUS_FORM_F16,
    LOCUS_FORM_BF16,
    LOCUS_FORM_Q8,
    LOCUS_FORM_Q4,
    LOCUS_FORM_Q8_MIN,
    LOCUS_FORM_Q4_MIN,
    LOCUS_FORM_Q8_TWO, /* two scales */
    LOCUS_FORM_Q8_TWO_MIN,
    LOCUS_N_FORMS
};

struct locus_traits {
    int columns;     /* that lie together: 1, 2 or 32 (a block) */
    int bits;        /* a value or level has */
    int offset;      /* added to levels, so that they are stored as 0 and more */
    bool negative;   /* levels are stored with a sign */
    int n_scales;    /* of 32 columns: 0 (floats), 1, or 2 of 16 columns each */
    int scale_bytes; /* 2: f16, 4: floats */
    bool mins;       /* as many as scales */
};

static const struct locus_traits locus_forms[] = {
    [LOCUS_FORM_F32] = {.columns = 1, .bits = 32},
    [LOCUS_FORM_F16] = {.columns = 1, .bits = 16},
    [LOCUS_FORM_BF16] = {.columns = 2, .bits = 16},
    [LOCUS_FORM_Q8] = {.columns = LOCUS_QUANT_BLOCK,
                       .bits = 8,
                       .negative = true,
                       .n_scales = 1,
                       .scale_bytes = 2},
    [LOCUS_FORM_Q4] =
        {.columns = LOCUS_QUANT_BLOCK, .bits = 4, .offset = 8, .n_scales = 1, .scale_bytes = 2},
    [LOCUS_FORM_Q8_MIN] =
        {.columns = LOCUS_QUANT_BLOCK, .bits = 8, .n_scales = 1, .scale_bytes = 4, .mins = true},
    [LOCUS_FORM_Q4_MIN] =
        {.columns = LOCUS_QUANT_BLOCK, .bits = 4, .n_scales = 1, .scale_bytes = 4, .mins = true},
    [LOCUS_FORM_Q8_TWO] = {.columns = LOCUS_QUANT_BLOCK,
                           .bits = 8,
                           .negative = true,
                           .n_scales = 2,
                           .scale_bytes = 4},
    [LOCUS_FORM_Q8_TWO_MIN] =
        {.columns = LOCUS_QUANT_BLOCK, .bits = 8, .n_scales = 2, .scale_bytes = 4, .mins = true},
};

/* Where a block's mins begin, and its levels; how many bytes it has. */
static inline size_t locus_block_mins(struct locus_traits form)
{
    return (size_t)(form.n_scales * form.scale_bytes) * LOCUS_PANEL;
}

static inline size_t locus_block_levels(struct locus_traits form)
{
    return locus_block_mins(form) +
           (form.mins ? (size_t)form.n_scales * sizeof(float) * LOCUS_PANEL : 0);
}

static inline size_t locus_block_bytes(struct locus_traits form)
{
    return locus_block_levels(form) + (size_t)(form.columns * form.bits / 8) * LOCUS_PANEL;
}

/* Of a panel of that many columns. */
static inline size_t locus_panel_bytes(struct locus_traits form, int cols)
{
    return (size_t)((cols - 1) / form.columns + 1) * locus_block_bytes(form);
}

#endif
