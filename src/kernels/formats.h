/* Number formats: f16, bf16, and quant blocks: 32 small integers with a scale.
 *
 * Conversions are written without branches, so that loops over them become vector code; they give
 * the bits that the CPU's own instructions give.
 */
#ifndef LOCUS_KERNELS_FORMATS_H
#define LOCUS_KERNELS_FORMATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/math.h"
#include "base/tensor_type.h"

enum { LOCUS_QUANT_BLOCK = 32 }; /* values a quant block */

/* IEEE half to float, exact. Rebias the exponent; infinities and NaN need as much again, and
 * subnormals are renormalised by subtracting the hidden bit that the rebias lent them. */
static inline float locus_f16_to_float(uint16_t half)
{
    const uint32_t rebias = (127u - 15u) << 23, smallest = 113u << 23;
    uint32_t magnitude = (uint32_t)(half & 0x7FFF) << 13;
    uint32_t exponent = magnitude & 0x0F800000u;
    uint32_t normal = magnitude + rebias + (exponent == 0x0F800000u ? rebias : 0);
    uint32_t subnormal =
        locus_bits_of(locus_float_of(magnitude + smallest) - locus_float_of(smallest));
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    return locus_float_of(sign | (exponent == 0 ? subnormal : normal));
}

/* Float to IEEE half, to nearest, ties to even; what is too large becomes infinite. */
static inline uint16_t locus_float_to_f16(float value)
{
    uint32_t bits = locus_bits_of(value), magnitude = bits & 0x7FFFFFFFu;
    uint32_t sign = (bits >> 16) & 0x8000u;
    /* Below 2^-14 the addition aligns the value so that the half's last bit is the float's. */
    uint32_t subnormal = locus_bits_of(locus_float_of(magnitude) + 0.5f) - 0x3F000000u;
    uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xFFFu + ((magnitude >> 13) & 1)) >> 13;
    uint32_t half = magnitude < (113u << 23) ? subnormal : normal;
    half = magnitude >= 0x477FF000u ? 0x7C00u : half;
    half = magnitude > 0x7F800000u ? 0x7E00u : half;
    return (uint16_t)(sign | half);
}

static inline float locus_bf16_to_float(uint16_t bf16)
{
    return locus_float_of((uint32_t)bf16 << 16);
}

/* Float to bf16, to nearest, ties to even; what is too large becomes infinite. A NaN stays one:
 * its lower half may have been all there was of it. */
static inline uint16_t locus_float_to_bf16(float value)
{
    uint32_t bits = locus_bits_of(value);
    uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16;
    bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    return (uint16_t)(is_nan ? bits >> 16 | 0x40u : rounded);
}

/* One stored row of n_values (a multiple of the type's block) as floats. */
void locus_dequantize_row(float *out, const void *row, enum locus_tensor_type type,
                          size_t n_values);

/* The reverse, for a type that can be written (weight_type.h): finite floats rounded to a stored
 * row, to nearest, ties to even. Scales of blocks are searched for the least squared error. A value
 * past the range of f16 becomes infinite there; a block that has no scale (an infinity or a NaN
 * is in it, or a value out of reach of every half) becomes NaN as a whole. Callers refuse both. */
void locus_encode_row(void *row, enum locus_tensor_type type, const float *x, size_t n_values);

/* Quantises 32 activations by one exact rule, and returns the scale. With m the largest magnitude,
 * the scale is m / 127, and q = x * (127 / m) to nearest, ties to even. Two exceptions:
 *  - m is so near 0 that 127 / m is infinite: scale and q are 0.
 *  - m is infinite or a NaN: q is 0 and the scale m, so that the product is no number either. */
static inline float locus_quantize_block(int8_t q[LOCUS_QUANT_BLOCK],
                                         const float x[LOCUS_QUANT_BLOCK])
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const uint32_t infinity = 0x7F800000u;
    /* As bits, magnitudes are ordered like integers, and a NaN is the largest of all. */
    int32_t largest = 0;
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++) {
        int32_t magnitude = (int32_t)(locus_bits_of(x[i]) & 0x7FFFFFFFu);
        largest = magnitude > largest ? magnitude : largest;
    }
    float m = locus_float_of((uint32_t)largest), inverse = 127.0f / m;
    bool none = (uint32_t)largest >= infinity || locus_bits_of(inverse) >= infinity;
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++) {
        uint32_t rounded = locus_bits_of(x[i] * inverse + shift);
        q[i] = none ? 0 : (int8_t)(uint8_t)rounded;
    }
    return (uint32_t)largest >= infinity ? m : none ? 0 : m / 127.0f;
}

/* Blocks of n_values, a multiple of 32: q[n_values], scales[n_values / 32]. */
void locus_quantize_row(int8_t *q, float *scales, const float *x, size_t n_values);

#endif
