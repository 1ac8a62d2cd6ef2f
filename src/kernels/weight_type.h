/* Types of weights: what the blocks of a GGUF file hold, and the form of panels that holds the
 * same.
 *
 * A type is a row of the table in weight_type.c: its form, and how 32 of its values are read. All
 * else (rows as floats, packing, products) is made from these.
 */
#ifndef LOCUS_KERNELS_WEIGHT_TYPE_H
#define LOCUS_KERNELS_WEIGHT_TYPE_H

#include "kernels/form.h"
#include "kernels/formats.h"

enum { LOCUS_HALF_MAX = 65504 }; /* the largest half */

/* ---- blocks of a file, along a row -------------------------------------------------------- */

struct locus_q8_0 {
    uint16_t scale; /* f16, as all scales and mins here */
    int8_t q[LOCUS_QUANT_BLOCK];
};

struct locus_q4_0 {
    uint16_t scale;
    uint8_t q[LOCUS_QUANT_BLOCK / 2]; /* low nibble: value j, high: value j + 16; both plus 8 */
};

struct locus_q4_1 {
    uint16_t scale, min;
    uint8_t q[LOCUS_QUANT_BLOCK / 2];
};

struct locus_q5_0 {
    uint16_t scale;
    uint8_t high[4]; /* bit j: the fifth of value j */
    uint8_t q[LOCUS_QUANT_BLOCK / 2];
};

struct locus_q5_1 {
    uint16_t scale, min;
    uint8_t high[4];
    uint8_t q[LOCUS_QUANT_BLOCK / 2];
};

/* OCP MX v1.0: values of 4 bits (E2M1) under a power of two. */
struct locus_mxfp4 {
    uint8_t exponent; /* less 127 */
    uint8_t q[LOCUS_QUANT_BLOCK / 2];
};

struct locus_q2_k {
    uint8_t scales[16]; /* low nibble: scale, high: min, of 16 values each */
    uint8_t low[64];
    uint16_t scale, min;
};

struct locus_q3_k {
    uint8_t high[32], low[64], scales[12];
    uint16_t scale;
};

struct locus_q4_k {
    uint16_t scale, min;
    uint8_t scales[12], q[128];
};

struct locus_q5_k {
    uint16_t scale, min;
    uint8_t scales[12], high[32], q[128];
};

struct locus_q6_k {
    uint8_t low[128], high[64];
    int8_t scales[16];
    uint16_t scale;
};

/* ---- the table ---------------------------------------------------------------------------- */

/* 32 values of a row, as they are stored. */
struct locus_levels {
    float scale;                   /* of forms that keep floats */
    uint16_t half, min_half;       /* scale and min, of forms that keep f16; or their steps */
    int8_t steps[2], min_steps[2]; /* scales and mins in steps, of forms that keep these */
    int8_t q[LOCUS_QUANT_BLOCK];   /* levels, or their numbers in the form's table */
};

/* Floats to a stored row: see locus_encode_row. */
typedef void locus_encoder(void *row, const float *x, size_t n_values);

struct locus_weight_type {
    enum locus_form form;
    bool doubles;   /* values are doubles, rounded to the floats of the form */
    bool as_packed; /* a block is its scale, then its levels as the form has them */
    float limit;    /* encode holds finite values up to this magnitude */
    /* n_values of a stored row as floats. NULL: by `read`. */
    void (*dequantise)(float *out, const void *row, size_t n_values);
    /* Values 32 * block and on of a stored row. NULL: values are not in blocks. */
    void (*read)(struct locus_levels *levels, const void *row, size_t block);
    /* The reverse, as locus_encode_row says. NULL: the type is read only. */
    locus_encoder *encode;
};

/* The type's row; NULL for a number that locus_tensor_type_find doesn't know either. */
const struct locus_weight_type *locus_weight_type(enum locus_tensor_type type);

/* Its form's traits. */
static inline struct locus_traits locus_traits_of(enum locus_tensor_type type)
{
    return locus_forms[locus_weight_type(type)->form];
}

/* Scale and min of their columns [16 part, 16 part + 16). */
static inline float locus_levels_scale(const struct locus_levels *levels, struct locus_traits form,
                                       int part)
{
    if (form.scale_bytes == 4) return levels->scale;
    const float half = locus_f16_to_float(levels->half);
    return form.scale_bytes == 2 ? half : half * (float)levels->steps[part];
}

static inline float locus_levels_min(const struct locus_levels *levels, struct locus_traits form,
                                     int part)
{
    if (!form.mins) return 0;
    const float half = locus_f16_to_float(levels->min_half);
    return form.scale_bytes == 2 ? half : half * (float)levels->min_steps[part];
}

/* out[i] = scale * level (+ min). */
void locus_levels_to_floats(float out[LOCUS_QUANT_BLOCK], const struct locus_levels *levels,
                            struct locus_traits form);

/* encode_rows.c and encode_k.c */
locus_encoder locus_encode_f32, locus_encode_f16, locus_encode_bf16;
locus_encoder locus_encode_q8_0, locus_encode_q4_0, locus_encode_q4_1;
locus_encoder locus_encode_q5_0, locus_encode_q5_1;
locus_encoder locus_encode_q2_k, locus_encode_q3_k, locus_encode_q4_k;
locus_encoder locus_encode_q5_k, locus_encode_q6_k;

#endif
