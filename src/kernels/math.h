/* Functions of the hot path, the same operations in every kernel set, so the same bits.
 *
 * Written without branches: a loop over them becomes vector code. Coefficients are least-maximum
 * fits made for this file; errors are against the exact function.
 */
#ifndef LOCUS_KERNELS_MATH_H
#define LOCUS_KERNELS_MATH_H

#include <math.h>

#include "kernels/quant.h"

/* e^x = e^r 2^n for -104 <= x <= 89: e^r, by a polynomial, with x = n ln 2 + r, |r| <= ln 2 / 2. */
static inline float locus_exp_split(float x, int32_t *exponent)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float shifted = fmaf(x, 1.44269504f, shift), n = shifted - shift;
    float r = fmaf(n, -0.693359375f, x);
    r = fmaf(n, 2.12194440e-4f, r);
    float p = 0.0013950488f;
    p = fmaf(p, r, 0.00836888980f);
    p = fmaf(p, r, 0.0416662060f);
    p = fmaf(p, r, 0.166665182f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p * r, r, r);
    *exponent = (int32_t)(locus_bits_of(shifted) - locus_bits_of(shift));
    return p + 1.0f;
}

/* e^x within 1.01 ulp (2 where the result is subnormal); 0 below -104, infinite above 89; NaN for
 * NaN. 2^n comes in two factors that never leave the range of the exponent. */
static inline float locus_exp(float x)
{
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    int32_t exponent;
    float power = locus_exp_split(x, &exponent);
    int32_t half = exponent >> 1;
    float first = locus_float_of((uint32_t)(half + 127) << 23);
    float second = locus_float_of((uint32_t)(exponent - half + 127) << 23);
    return power * first * second;
}

/* locus_exp for -87 <= x <= 88, where 2^n is one factor and nothing needs to be limited. */
static inline float locus_exp_normal(float x)
{
    int32_t exponent;
    float power = locus_exp_split(x, &exponent);
    return power * locus_float_of((uint32_t)(exponent + 127) << 23);
}

/* e^x for x <= 0, the weight of a softmax whose largest has x = 0: as locus_exp, but 0 below -87.
 * What is subnormal next to a 1 counts for nothing, and CPUs take a hundred times as long over it.
 */
static inline float locus_exp_weight(float x)
{
    const float least = -87.0f;
    bool counts = !(x < least);
    float weight = locus_exp_normal(counts ? x : least);
    return counts ? weight : 0.0f;
}

/* tanh within 2 ulp: an odd polynomial near 0, 1 - 2 / (e^2x + 1) beyond. */
static inline float locus_tanh(float x)
{
    float magnitude = fabsf(x), square = x * x;
    float p = -0.00571703212f;
    p = fmaf(p, square, 0.0206505749f);
    p = fmaf(p, square, -0.0537434928f);
    p = fmaf(p, square, 0.133314908f);
    p = fmaf(p, square, -0.333332837f);
    float near = fmaf(p * square, magnitude, magnitude);
    float twice = 2.0f * magnitude > 40.0f ? 40.0f : 2.0f * magnitude; /* 1 from 18 on */
    float far = 1.0f - 2.0f / (locus_exp_normal(twice) + 1.0f);
    return copysignf(magnitude < 0.625f ? near : far, x);
}

/* erfc(z) for z >= 0, relative error below 5e-6 (z^2's rounding) while it is normal:
 * e^(-z^2) times a polynomial in 1 / (1 + z/2). */
static inline float locus_erfc_positive(float z)
{
    float t = 1.0f / fmaf(z, 0.5f, 1.0f);
    float p = -0.0558348857f;
    p = fmaf(p, t, 0.267979383f);
    p = fmaf(p, t, -0.450607836f);
    p = fmaf(p, t, 0.232714057f);
    p = fmaf(p, t, 0.00807446986f);
    p = fmaf(p, t, 0.185751751f);
    p = fmaf(p, t, 0.248357251f);
    p = fmaf(p, t, 0.281379551f);
    p = fmaf(p, t, 0.282190800f);
    p = fmaf(p, t, -4.60617912e-6f);
    return p * locus_exp(-z * z);
}

/* x Phi(x) (Hendrycks and Gimpel, 2016); the tail keeps its relative precision. */
static inline float locus_gelu_erf(float x)
{
    float tail = 0.5f * fabsf(x) * locus_erfc_positive(fabsf(x) * 0.707106781f);
    return x < 0 ? -tail : x - tail;
}

/* Its tanh approximation: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). */
static inline float locus_gelu_tanh(float x)
{
    float inner = 0.797884561f * fmaf(0.044715f * x * x, x, x);
    return 0.5f * x * (1.0f + locus_tanh(inner));
}

/* x sigmoid(x) (Elfwing et al., 2018). */
static inline float locus_silu(float x)
{
    return x / (1.0f + locus_exp(-x));
}

#endif
