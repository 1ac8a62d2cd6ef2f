/* The logistic function, for gates. The same operations everywhere, and no branches: a loop over it
 * becomes vector code. (Multiply-adds in one rounding would be a call where the CPU's baseline
 * lacks them.)
 */
#ifndef LOCUS_POSITION_SIGMOID_H
#define LOCUS_POSITION_SIGMOID_H

#include <stdint.h>
#include <string.h>

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

#endif
