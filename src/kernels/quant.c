/* Number formats: see quant.h. */
#include "kernels/quant.h"

#include <math.h>

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
    for (size_t b = 0; b < n_values / LOCUS_BLOCK; b++, x += LOCUS_BLOCK, q += LOCUS_BLOCK) {
        /* As bits, magnitudes are ordered like integers, and a NaN is the largest of all. */
        uint32_t largest = 0;
        for (int i = 0; i < LOCUS_BLOCK; i++) {
            uint32_t magnitude = locus_bits_of(x[i]) & 0x7FFFFFFFu;
            largest = magnitude > largest ? magnitude : largest;
        }
        float m = locus_float_of(largest), inverse = 127.0f / m;
        if (!isfinite(m)) {
            scales[b] = m;
            memset(q, 0, LOCUS_BLOCK);
        } else if (!isfinite(inverse)) {
            scales[b] = 0;
            memset(q, 0, LOCUS_BLOCK);
        } else {
            scales[b] = m / 127.0f;
            for (int i = 0; i < LOCUS_BLOCK; i++)
                q[i] = (int8_t)rintf(x[i] * inverse);
        }
    }
}
