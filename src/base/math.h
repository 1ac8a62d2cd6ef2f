/* Mathematics: every function that the C library has, too, but not with the same bits everywhere.
 *
 * The library's functions differ in their last bits from one system to the next, and even from one
 * CPU to the next. These take the same IEEE operations everywhere, so results have the same bits.
 *
 * Those in floats are for hot loops. They have no branches, so that a loop over them becomes vector
 * code. Their coefficients are least-maximum fits made for this file; errors are against the exact
 * function.
 */
#ifndef LOCUS_BASE_MATH_H
#define LOCUS_BASE_MATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- a float's bits ----------------------------------------------------------------------- */

static inline uint32_t locus_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float locus_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- floats, by fused multiply-adds ------------------------------------------------------- */

/* For files that are compiled for a CPU that has them: elsewhere each is a call. */

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

/* ln(1 + e^x) within 3 ulp, for a step of time: max(x, 0) + ln(1 + e^-|x|), whose logarithm is
 * 2 artanh(s) of s = e / (2 + e): 2 s and a polynomial in s^2. */
static inline float locus_softplus(float x)
{
    float e = locus_exp(-fabsf(x)), s = e / (2.0f + e), square = s * s;
    float p = 0.268836021f;
    p = fmaf(p, square, 0.282312810f);
    p = fmaf(p, square, 0.400077820f);
    p = fmaf(p, square, 0.666666389f);
    return (x > 0.0f ? x : 0.0f) + fmaf(p * square, s, 2.0f * s);
}

/* What gpt-oss clips gates and values to. */
#define LOCUS_SWISH_LIMIT 7.0f

static inline float locus_clip(float x, float limit)
{
    x = x > limit ? limit : x;
    return x < -limit ? -limit : x;
}

/* g sigmoid(1.702 g) of g = min(x, 7): an approximate GELU (Hendrycks and Gimpel, 2016), clipped
 * as gpt-oss does. */
static inline float locus_clipped_swish(float x)
{
    const float gate = x > LOCUS_SWISH_LIMIT ? LOCUS_SWISH_LIMIT : x;
    return gate / (1.0f + locus_exp(-1.702f * gate));
}

/* ---- floats, by plain operations ---------------------------------------------------------- */

/* The logistic function, for gates, in files that are compiled for any CPU. */

/* 1 / (1 + e^-x) within 3e-7 of it, relative for x < 0 too while that is a normal number; NaN for
 * NaN. e^-x = 2^n e^r by a polynomial for |r| <= ln 2 / 2. */
static inline float locus_sigmoid(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float y = -x;
    y = y < -87.0f ? -87.0f : y;
    y = y > 87.0f ? 87.0f : y;
    float n = (y * 1.44269504f + shift) - shift;
    float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = (p * r) * r + r + 1.0f;
    float whole = n == n ? n : 0.0f; /* p carries a NaN on; none has a whole number */
    int32_t bits = ((int32_t)whole + 127) * (1 << 23);
    float power;
    memcpy(&power, &bits, sizeof power);
    return 1.0f / (1.0f + p * power);
}

/* tanh(x) = 2 sigmoid(2x) - 1, within 5e-7. */
static inline float locus_gate_tanh(float x)
{
    return 2.0f * locus_sigmoid(2.0f * x) - 1.0f;
}

/* ---- double ------------------------------------------------------------------------------- */

/* e^x for x <= 0, within a few units in the last place; 0 below -700: 2^n times the power series on
 * [-ln 2 / 2, ln 2 / 2]. */
static inline double locus_exp_double(double x)
{
    if (x < -700) return 0;
    const double shift = 0x1.8p52; /* adding and subtracting it rounds to a whole number */
    double n = x * 0x1.71547652b82fep+0 + shift;
    n -= shift;
    double y = x - n * 0x1.62e42fee00000p-1 - n * 0x1.a39ef35793c76p-33; /* ln 2 in two parts */
    static const double inverse[] = {1.0,      1.0 / 2,  1.0 / 3, 1.0 / 4, 1.0 / 5,
                                     1.0 / 6,  1.0 / 7,  1.0 / 8, 1.0 / 9, 1.0 / 10,
                                     1.0 / 11, 1.0 / 12, 1.0 / 13};
    double sum = 1;
    for (int k = 12; k >= 0; k--)
        sum = 1 + sum * y * inverse[k];
    return ldexp(sum, (int)n);
}

/* base^exponent for a finite base > 0; within a few units in the last place while the result is a
 * normal number; exact for a whole power of two. */
double locus_power(double base, double exponent);

/* The natural logarithm of a finite x > 0, within a few units in the last place; exactly 0 of 1. */
double locus_log(double x);

/* Sine and cosine of an angle in radians, |angle| < 2^50, within about 2e-16. */
void locus_sine_cosine(double angle, double *sine, double *cosine);

/* cosines[n] and sines[n] of position * theta[k], as floats: within 1e-7 for angles to 2^20. Made
 * for hot loops: no branches, so that it becomes vector code. n <= LOCUS_ANGLES. */
enum { LOCUS_ANGLES = 64 };
void locus_sine_cosine_row(double position, const double *theta, int n, float *sines,
                           float *cosines);

#endif
