/* Forms of packed weights: how they lie in panels, each described by its traits.
 *
 * A panel has 32 rows of a matrix. Its columns lie in blocks of 32, one after another, of
 *
 *     scales   [n_scales][32]            floats, f16, or bytes (below)
 *     mins     [n_scales][32]            the same, of forms that have them
 *     levels   8 bits: [8][32][4]        [c / 4][row][c % 4] holds column c
 *              4 bits: [4][32][4]        its low nibble column c, the high one column c + 16
 *              5, 6:   [bits][32][4]     the low 4 bits first, as above; then the high h = 1 or 2:
 *                                        word w's byte j has those of columns c = 4 (8 / h w + i) +
 * j in its bits from h i on, i < 8 / h
 *
 * A value is scale * level + min. Scales that are bytes count in steps: every `super` blocks come
 * behind a head of f16, [32] the step of scales and, where there are mins, [32] that of mins.
 * Levels may be numbers of values in a table.
 *
 * Of floats there are [columns][32] or, of BF16, pairs of columns [32][2].
 *
 * Kernels are made from the traits, so that a type of weights (weight_type.h) that fits one of
 * these forms needs none of its own.
 */
#ifndef LOCUS_KERNELS_FORM_H
#define LOCUS_KERNELS_FORM_H

#include "kernels/formats.h"

enum { LOCUS_PANEL = 32 }; /* output rows a panel of weights */

/* Forms of blocks are named after what is in them: bits, then _MIN: mins, _K: steps in bytes. */
enum locus_form {
    LOCUS_FORM_F32,
    LOCUS_FORM_F16,
    LOCUS_FORM_BF16,
    LOCUS_FORM_Q8,
    LOCUS_FORM_Q4,
    LOCUS_FORM_Q4_MIN,
    LOCUS_FORM_Q5,
    LOCUS_FORM_Q5_MIN,
    LOCUS_FORM_IQ4, /* IQ4_NL's values */
    LOCUS_FORM_FP4, /* E2M1 */
    LOCUS_FORM_Q4_K,
    LOCUS_FORM_Q5_K,
    LOCUS_FORM_Q6_K,
    LOCUS_FORM_Q4_TWO_K,     /* two scales */
    LOCUS_FORM_Q4_TWO_MIN_K, /* two scales, two mins */
    LOCUS_N_FORMS
};

struct locus_traits {
    int columns;         /* that lie together: 1, 2 or 32 (a block) */
    int bits;            /* a value or level has */
    int offset;          /* added to levels, so that they are stored as 0 and more */
    bool negative;       /* levels, as they are multiplied, have a sign */
    int n_scales;        /* of 32 columns: 0 (floats), 1, or 2 of 16 columns each */
    int scale_bytes;     /* of scales and mins; 4: floats, 2: f16, 1: steps */
    bool mins;           /* as many as scales */
    int super;           /* blocks under one head, of forms with steps */
    const int8_t *table; /* [16]: what the stored levels stand for; NULL: themselves */
};

static const int8_t locus_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

/* Twice the values that E2M1 has, so that they are whole. */
static const int8_t locus_fp4_values[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

static const struct locus_traits locus_forms[] = {
    [LOCUS_FORM_F32] = {.columns = 1, .bits = 32},
    [LOCUS_FORM_F16] = {.columns = 1, .bits = 16},
    [LOCUS_FORM_BF16] = {.columns = 2, .bits = 16},
    [LOCUS_FORM_Q8] = {.columns = 32, .bits = 8, .negative = true, .n_scales = 1, .scale_bytes = 2},
    [LOCUS_FORM_Q4] = {.columns = 32, .bits = 4, .offset = 8, .n_scales = 1, .scale_bytes = 2},
    [LOCUS_FORM_Q4_MIN] = {.columns = 32, .bits = 4, .n_scales = 1, .scale_bytes = 2, .mins = true},
    [LOCUS_FORM_Q5] = {.columns = 32, .bits = 5, .offset = 16, .n_scales = 1, .scale_bytes = 2},
    [LOCUS_FORM_Q5_MIN] = {.columns = 32, .bits = 5, .n_scales = 1, .scale_bytes = 2, .mins = true},
    [LOCUS_FORM_IQ4] = {.columns = 32,
                        .bits = 4,
                        .negative = true,
                        .n_scales = 1,
                        .scale_bytes = 2,
                        .table = locus_iq4_values},
    [LOCUS_FORM_FP4] = {.columns = 32,
                        .bits = 4,
                        .negative = true,
                        .n_scales = 1,
                        .scale_bytes = 4,
                        .table = locus_fp4_values},
    [LOCUS_FORM_Q4_K] =
        {.columns = 32, .bits = 4, .n_scales = 1, .scale_bytes = 1, .mins = true, .super = 8},
    [LOCUS_FORM_Q5_K] =
        {.columns = 32, .bits = 5, .n_scales = 1, .scale_bytes = 1, .mins = true, .super = 8},
    [LOCUS_FORM_Q6_K] =
        {.columns = 32, .bits = 6, .offset = 32, .n_scales = 2, .scale_bytes = 1, .super = 8},
    [LOCUS_FORM_Q4_TWO_K] =
        {.columns = 32, .bits = 4, .offset = 4, .n_scales = 2, .scale_bytes = 1, .super = 8},
    [LOCUS_FORM_Q4_TWO_MIN_K] =
        {.columns = 32, .bits = 4, .n_scales = 2, .scale_bytes = 1, .mins = true, .super = 8},
};

/* Where the bits past the fourth of the levels of columns 4 group to 4 group + 3 are, of forms of 5
 * and 6: in that word, from bit `at` of each byte on. The mask has them from bit 4 on. */
struct locus_high_bits {
    int word, at, mask;
};

static inline struct locus_high_bits locus_high_bits(struct locus_traits form, int group)
{
    const int n = form.bits - 4, bit = group * n;
    return (struct locus_high_bits){4 + bit / 8, bit % 8, ((1 << n) - 1) << 4};
}

/* Column c of a lane, as it is stored. */
static inline int locus_stored_level(struct locus_traits form, const uint8_t *levels, int lane,
                                     int c)
{
    const int group = c / 4, j = c % 4;
    const int low = levels[((form.bits == 8 ? group : group % 4) * LOCUS_PANEL + lane) * 4 + j];
    if (form.bits == 8) return low;
    const int nibble = group < 4 ? low & 15 : low >> 4;
    if (form.bits == 4) return nibble;
    const struct locus_high_bits high = locus_high_bits(form, group);
    const int word = levels[(high.word * LOCUS_PANEL + lane) * 4 + j];
    return nibble | (word << 4 >> high.at & high.mask);
}

/* What is multiplied by the scale. */
static inline int locus_level_value(struct locus_traits form, int stored)
{
    if (form.table) return form.table[stored];
    return form.negative ? (int8_t)stored : stored - form.offset;
}

/* Where a block's mins begin, and its levels; how many bytes it has. */
static inline size_t locus_block_mins(struct locus_traits form)
{
    return (size_t)(form.n_scales * form.scale_bytes) * LOCUS_PANEL;
}

static inline size_t locus_block_levels(struct locus_traits form)
{
    return locus_block_mins(form) * (form.mins ? 2 : 1);
}

static inline size_t locus_block_bytes(struct locus_traits form)
{
    return locus_block_levels(form) + (size_t)(form.columns * form.bits / 8) * LOCUS_PANEL;
}

/* Of the steps before `super` blocks. */
static inline size_t locus_head_bytes(struct locus_traits form)
{
    return form.super ? (form.mins ? 2 : 1) * sizeof(uint16_t) * LOCUS_PANEL : 0;
}

/* Where block b of a panel begins. */
static inline size_t locus_block_at(struct locus_traits form, size_t b)
{
    const size_t heads = form.super ? b / (size_t)form.super + 1 : 0;
    return heads * locus_head_bytes(form) + b * locus_block_bytes(form);
}

/* Where the head of block b begins. */
static inline size_t locus_head_at(struct locus_traits form, size_t b)
{
    const size_t super = form.super ? (size_t)form.super : 1;
    return locus_block_at(form, b / super * super) - locus_head_bytes(form);
}

/* Of a panel of that many columns. */
static inline size_t locus_panel_bytes(struct locus_traits form, int cols)
{
    const int last = (cols - 1) / form.columns;
    return locus_block_at(form, (size_t)last) + locus_block_bytes(form);
}

#endif
