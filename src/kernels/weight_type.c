/* Types of weights: see weight_type.h. The blocks are GGUF's; models/README.md describes them. */
#include "kernels/weight_type.h"

#include <math.h>

/* ---- floats ------------------------------------------------------------------------------- */

static void floats_of_f32(float *out, const void *row, size_t n_values)
{
    memcpy(out, row, n_values * sizeof *out);
}

static void floats_of_f16(float *out, const void *row, size_t n_values)
{
    const uint16_t *halves = row;
    for (size_t i = 0; i < n_values; i++)
        out[i] = locus_f16_to_float(halves[i]);
}

static void floats_of_bf16(float *out, const void *row, size_t n_values)
{
    const uint16_t *bf16 = row;
    for (size_t i = 0; i < n_values; i++)
        out[i] = locus_bf16_to_float(bf16[i]);
}

static void floats_of_f64(float *out, const void *row, size_t n_values)
{
    const double *doubles = row;
    for (size_t i = 0; i < n_values; i++)
        out[i] = (float)doubles[i];
}

/* ---- blocks of 32 ------------------------------------------------------------------------- */

/* 32 levels that are stored as 16 low nibbles and then 16 high ones, less an offset. */
static inline void read_nibbles(int8_t out[LOCUS_QUANT_BLOCK],
                                const uint8_t q[LOCUS_QUANT_BLOCK / 2], int offset)
{
    for (int i = 0; i < LOCUS_QUANT_BLOCK / 2; i++)
        out[i] = (int8_t)((q[i] & 15) - offset);
    for (int i = 0; i < LOCUS_QUANT_BLOCK / 2; i++)
        out[i + LOCUS_QUANT_BLOCK / 2] = (int8_t)((q[i] >> 4) - offset);
}

/* The same, whose fifth bits are those of 4 bytes. */
static inline void read_fives(int8_t out[LOCUS_QUANT_BLOCK], const uint8_t q[LOCUS_QUANT_BLOCK / 2],
                              const uint8_t high[4], int offset)
{
    read_nibbles(out, q, offset);
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        out[i] = (int8_t)(out[i] + ((high[i / 8] >> i % 8 & 1) << 4));
}

static void read_q8_0(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q8_0 *in = (const struct locus_q8_0 *)row + block;
    levels->half = in->scale;
    memcpy(levels->q, in->q, sizeof levels->q);
}

static void read_q4_0(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q4_0 *in = (const struct locus_q4_0 *)row + block;
    levels->half = in->scale;
    read_nibbles(levels->q, in->q, 8);
}

static void read_q4_1(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q4_1 *in = (const struct locus_q4_1 *)row + block;
    levels->half = in->scale;
    levels->min_half = in->min;
    read_nibbles(levels->q, in->q, 0);
}

static void read_q5_0(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q5_0 *in = (const struct locus_q5_0 *)row + block;
    levels->half = in->scale;
    read_fives(levels->q, in->q, in->high, 16);
}

static void read_q5_1(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q5_1 *in = (const struct locus_q5_1 *)row + block;
    levels->half = in->scale;
    levels->min_half = in->min;
    read_fives(levels->q, in->q, in->high, 0);
}

static void read_iq4_nl(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q4_0 *in = (const struct locus_q4_0 *)row + block;
    levels->half = in->scale;
    read_nibbles(levels->q, in->q, 0);
}

/* Under half of the scale, as the table has twice the values. */
static void read_mxfp4(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_mxfp4 *in = (const struct locus_mxfp4 *)row + block;
    const uint32_t subnormal = 0x00200000u << in->exponent % 2;
    const uint32_t normal = (uint32_t)(in->exponent - 1) << 23;
    levels->scale = locus_float_of(in->exponent < 2 ? subnormal : normal);
    read_nibbles(levels->q, in->q, 0);
}

/* ---- blocks of 256 ------------------------------------------------------------------------ */

/* Mins of these types are subtracted: their step is kept with the other sign. */
static inline void set_steps(struct locus_levels *levels, uint16_t step, uint16_t min_step)
{
    levels->half = step;
    levels->min_half = min_step ^ 0x8000u;
}

/* Block b of the 8 has a scale and a min of 6 bits each: those of the first four blocks lie in the
 * low bits of 4 and 4 bytes, those of the others in nibbles of 4 bytes and the bits left over. */
static void set_scale_and_min(struct locus_levels *levels, uint16_t scale, uint16_t min,
                              const uint8_t packed[12], int b)
{
    const uint8_t *at = packed + b % 4;
    int s = b < 4 ? at[0] & 63 : (at[8] & 15) | (at[0] >> 6) << 4;
    int m = b < 4 ? at[4] & 63 : at[8] >> 4 | (at[4] >> 6) << 4;
    set_steps(levels, scale, min);
    levels->steps[0] = levels->steps[1] = (int8_t)s;
    levels->min_steps[0] = levels->min_steps[1] = (int8_t)m;
}

static void read_q4_k(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q4_k *in = (const struct locus_q4_k *)row + block / 8;
    const int b = (int)(block % 8);
    const uint8_t *q = in->q + b / 2 * LOCUS_QUANT_BLOCK;
    set_scale_and_min(levels, in->scale, in->min, in->scales, b);
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        levels->q[i] = (int8_t)(q[i] >> b % 2 * 4 & 15);
}

static void read_q5_k(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q5_k *in = (const struct locus_q5_k *)row + block / 8;
    const int b = (int)(block % 8);
    const uint8_t *q = in->q + b / 2 * LOCUS_QUANT_BLOCK;
    set_scale_and_min(levels, in->scale, in->min, in->scales, b);
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        levels->q[i] = (int8_t)((q[i] >> b % 2 * 4 & 15) | (in->high[i] >> b & 1) << 4);
}

static void read_q6_k(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q6_k *in = (const struct locus_q6_k *)row + block / 8;
    const int b = (int)(block % 8), half = b / 4, part = b % 4;
    const uint8_t *low = in->low + half * 64 + part % 2 * LOCUS_QUANT_BLOCK;
    const uint8_t *high = in->high + half * LOCUS_QUANT_BLOCK;
    levels->half = in->scale;
    for (int s = 0; s < 2; s++)
        levels->steps[s] = in->scales[2 * b + s];
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        levels->q[i] =
            (int8_t)(((low[i] >> part / 2 * 4 & 15) | (high[i] >> 2 * part & 3) << 4) - 32);
}

static void read_q2_k(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q2_k *in = (const struct locus_q2_k *)row + block / 8;
    const int b = (int)(block % 8), half = b / 4, part = b % 4;
    const uint8_t *low = in->low + half * LOCUS_QUANT_BLOCK;
    set_steps(levels, in->scale, in->min);
    for (int s = 0; s < 2; s++) {
        const uint8_t bits = in->scales[2 * b + s];
        levels->steps[s] = (int8_t)(bits & 15);
        levels->min_steps[s] = (int8_t)(bits >> 4);
    }
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        levels->q[i] = (int8_t)(low[i] >> 2 * part & 3);
}

/* Scale n of 16 has 6 bits: a nibble of the first 8 bytes, and 2 bits of the last 4. */
static void read_q3_k(struct locus_levels *levels, const void *row, size_t block)
{
    const struct locus_q3_k *in = (const struct locus_q3_k *)row + block / 8;
    const int b = (int)(block % 8), half = b / 4, part = b % 4;
    const uint8_t *low = in->low + half * LOCUS_QUANT_BLOCK;
    levels->half = in->scale;
    for (int s = 0; s < 2; s++) {
        const int n = 2 * b + s;
        int bits = (in->scales[n % 8] >> n / 8 * 4 & 15) | (in->scales[8 + n % 4] >> n / 4 * 2 & 3)
                                                               << 4;
        levels->steps[s] = (int8_t)(bits - 32);
    }
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        levels->q[i] = (int8_t)((low[i] >> 2 * part & 3) - (in->high[i] >> b & 1 ? 0 : 4));
}

/* ---- the table ---------------------------------------------------------------------------- */

static const struct locus_weight_type types[] = {
    [LOCUS_F32] = {.form = LOCUS_FORM_F32,
                   .limit = INFINITY,
                   .dequantise = floats_of_f32,
                   .encode = locus_encode_f32},
    [LOCUS_F16] = {.form = LOCUS_FORM_F16,
                   .limit = LOCUS_HALF_MAX,
                   .dequantise = floats_of_f16,
                   .encode = locus_encode_f16},
    [LOCUS_BF16] = {.form = LOCUS_FORM_BF16,
                    .limit = 0x1.FEFFFEp127f, /* the next float is rounded up to infinity */
                    .dequantise = floats_of_bf16,
                    .encode = locus_encode_bf16},
    [LOCUS_F64] = {.form = LOCUS_FORM_F32, .doubles = true, .dequantise = floats_of_f64},
    [LOCUS_Q8_0] = {.form = LOCUS_FORM_Q8,
                    .as_packed = true,
                    .limit = LOCUS_HALF_MAX * 127,
                    .read = read_q8_0,
                    .encode = locus_encode_q8_0},
    [LOCUS_Q4_0] = {.form = LOCUS_FORM_Q4,
                    .as_packed = true,
                    .limit = LOCUS_HALF_MAX * 7,
                    .read = read_q4_0,
                    .encode = locus_encode_q4_0},
    [LOCUS_Q4_1] = {.form = LOCUS_FORM_Q4_MIN,
                    .limit = LOCUS_HALF_MAX,
                    .read = read_q4_1,
                    .encode = locus_encode_q4_1},
    [LOCUS_Q5_0] = {.form = LOCUS_FORM_Q5,
                    .limit = LOCUS_HALF_MAX * 15,
                    .read = read_q5_0,
                    .encode = locus_encode_q5_0},
    [LOCUS_Q5_1] = {.form = LOCUS_FORM_Q5_MIN,
                    .limit = LOCUS_HALF_MAX,
                    .read = read_q5_1,
                    .encode = locus_encode_q5_1},
    [LOCUS_IQ4_NL] = {.form = LOCUS_FORM_IQ4, .read = read_iq4_nl},
    [LOCUS_MXFP4] = {.form = LOCUS_FORM_FP4, .read = read_mxfp4},
    [LOCUS_Q2_K] = {.form = LOCUS_FORM_Q4_TWO_MIN_K,
                    .limit = LOCUS_HALF_MAX * 15,
                    .read = read_q2_k,
                    .encode = locus_encode_q2_k},
    [LOCUS_Q3_K] = {.form = LOCUS_FORM_Q4_TWO_K,
                    .limit = LOCUS_HALF_MAX * 31 * 3,
                    .read = read_q3_k,
                    .encode = locus_encode_q3_k},
    [LOCUS_Q4_K] = {.form = LOCUS_FORM_Q4_K,
                    .limit = LOCUS_HALF_MAX * 63,
                    .read = read_q4_k,
                    .encode = locus_encode_q4_k},
    [LOCUS_Q5_K] = {.form = LOCUS_FORM_Q5_K,
                    .limit = LOCUS_HALF_MAX * 63,
                    .read = read_q5_k,
                    .encode = locus_encode_q5_k},
    [LOCUS_Q6_K] = {.form = LOCUS_FORM_Q6_K,
                    .limit = LOCUS_HALF_MAX * 127 * 31,
                    .read = read_q6_k,
                    .encode = locus_encode_q6_k},
};

const struct locus_weight_type *locus_weight_type(enum locus_tensor_type type)
{
    if ((size_t)type >= sizeof types / sizeof *types) return NULL;
    return types[type].dequantise || types[type].read ? &types[type] : NULL;
}

void locus_dequantize_row(float *out, const void *row, enum locus_tensor_type type, size_t n_values)
{
    const struct locus_weight_type *from = locus_weight_type(type);
    if (from->dequantise) {
        from->dequantise(out, row, n_values);
        return;
    }
    struct locus_levels levels;
    for (size_t b = 0; b < n_values / LOCUS_QUANT_BLOCK; b++) {
        from->read(&levels, row, b);
        locus_levels_to_floats(out + b * LOCUS_QUANT_BLOCK, &levels, locus_forms[from->form]);
    }
}

void locus_encode_row(void *row, enum locus_tensor_type type, const float *x, size_t n_values)
{
    locus_weight_type(type)->encode(row, x, n_values);
}

void locus_levels_to_floats(float out[LOCUS_QUANT_BLOCK], const struct locus_levels *levels,
                            struct locus_traits form)
{
    for (int part = 0; part < 2; part++) {
        const float scale = locus_levels_scale(levels, form, part);
        const float min = locus_levels_min(levels, form, part);
        for (int i = part * 16; i < part * 16 + 16; i++) {
            const int level = form.table ? form.table[levels->q[i]] : levels->q[i];
            out[i] = scale * (float)level;
            if (form.mins) out[i] += min;
        }
    }
}

void locus_quantize_row(int8_t *q, float *scales, const float *x, size_t n_values)
{
    for (size_t b = 0; b < n_values / LOCUS_QUANT_BLOCK; b++)
        scales[b] = locus_quantize_block(q + b * LOCUS_QUANT_BLOCK, x + b * LOCUS_QUANT_BLOCK);
}
