/* Number formats: see quant.h. */
#include "kernels/quant.h"

void locus_dequantize_row(float *out, const void *row, enum locus_tensor_type type, size_t n_values)
{
    const struct locus_q8_0 *q8 = row;
    const struct locus_q4_0 *q4 = row;
    const uint16_t *halves = row;
    switch (type) {
    case LOCUS_F32:
        memcpy(out, row, n_values * sizeof *out);
        break;
    case LOCUS_F16:
        for (size_t i = 0; i < n_values; i++)
            out[i] = locus_half_to_float(halves[i]);
        break;
    case LOCUS_BF16:
        for (size_t i = 0; i < n_values; i++)
            out[i] = locus_bfloat_to_float(halves[i]);
        break;
    case LOCUS_Q8_0:
        for (size_t i = 0; i < n_values; i++) {
            const struct locus_q8_0 *block = &q8[i / LOCUS_BLOCK];
            out[i] = locus_half_to_float(block->scale) * (float)block->q[i % LOCUS_BLOCK];
        }
        break;
    case LOCUS_Q4_0:
        for (size_t i = 0; i < n_values; i++) {
            const struct locus_q4_0 *block = &q4[i / LOCUS_BLOCK];
            size_t j = i % LOCUS_BLOCK;
            int nibble = j < 16 ? block->q[j] & 15 : block->q[j - 16] >> 4;
            out[i] = locus_half_to_float(block->scale) * (float)(nibble - 8);
        }
        break;
    }
}

void locus_quantize_row(int8_t *q, float *scales, const float *x, size_t n_values)
{
    for (size_t b = 0; b < n_values / LOCUS_BLOCK; b++)
        scales[b] = locus_quantize_block(q + b * LOCUS_BLOCK, x + b * LOCUS_BLOCK);
}
