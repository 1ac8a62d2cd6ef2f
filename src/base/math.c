/* Powers, logarithms, sines and cosines in double: see math.h. Each reduces its argument exactly
 * to a small interval, where the function's own power series has converged to double precision.
 */
#include "base/math.h"

#include <math.h>
#include <stdbool.h>

#define LN2 0x1.62e42fefa39efp-1
#define TWO_OVER_LN2 0x1.71547652b82fep+1
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
/* pi/2 as the sum of two doubles. */
#define HALF_PI_HIGH 0x1.921fb54442d18p+0
#define HALF_PI_LOW 0x1.1a62633145c07p-54

/* To the nearest whole number, ties to even: |x| < 2^51. */
static double round_to_int(double x)
{
    const double shift = 0x1.8p52;
    double shifted = x + shift;
    return shifted - shift;
}

/* log2(x) = *whole + result, with result in [-0.5, 0.5]: 2 atanh((m-1)/(m+1)) / ln 2 for a mantissa
 * m between sqrt(1/2) and sqrt(2). */
static double log2_split(double x, double *whole)
{
    int exponent;
    double m = frexp(x, &exponent);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        exponent--;
    }
    *whole = exponent;
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 23; k >= 1; k -= 2)
        sum = sum * s2 + 1.0 / k;
    return TWO_OVER_LN2 * s * sum;
}

double locus_power(double base, double exponent)
{
    double whole, part = log2_split(base, &whole);
    double n = round_to_int(exponent * whole + exponent * part);
    if (fabs(n) > 1100) return n > 0 ? HUGE_VAL : 0;
    double y = (fma(exponent, whole, -n) + exponent * part) * LN2;
    double sum = 1;
    for (int k = 14; k >= 1; k--)
        sum = 1 + sum * y / k;
    return ldexp(sum, (int)n);
}

double locus_log(double x)
{
    double whole, part = log2_split(x, &whole);
    return (whole + part) * LN2;
}

void locus_sine_cosine(double angle, double *sine, double *cosine)
{
    double n = round_to_int(angle * TWO_OVER_PI);
    double x = fma(-n, HALF_PI_LOW, fma(-n, HALF_PI_HIGH, angle)); /* the inner one is exact */
    double x2 = x * x;
    double s = 1.0 / 355687428096000.0; /* 1/17! */
    s = 1.0 / 1307674368000.0 - s * x2;
    s = 1.0 / 6227020800.0 - s * x2;
    s = 1.0 / 39916800.0 - s * x2;
    s = 1.0 / 362880.0 - s * x2;
    s = 1.0 / 5040.0 - s * x2;
    s = 1.0 / 120.0 - s * x2;
    s = 1.0 / 6.0 - s * x2;
    s = x - x * x2 * s;
    double c = 1.0 / 20922789888000.0; /* 1/16! */
    c = 1.0 / 87178291200.0 - c * x2;
    c = 1.0 / 479001600.0 - c * x2;
    c = 1.0 / 3628800.0 - c * x2;
    c = 1.0 / 40320.0 - c * x2;
    c = 1.0 / 720.0 - c * x2;
    c = 1.0 / 24.0 - c * x2;
    c = 0.5 - c * x2;
    c = 1 - x2 * c;
    switch ((long long)n & 3) {
    case 0:
        *sine = s;
        *cosine = c;
        break;
    case 1:
        *sine = c;
        *cosine = -s;
        break;
    case 2:
        *sine = -s;
        *cosine = -c;
        break;
    default:
        *sine = -c;
        *cosine = s;
        break;
    }
}

void locus_sine_cosine_row(double position, const double *theta, int n, float *restrict sines,
                           float *restrict cosines)
{
    /* pi/2 in two parts: quadrants below 2^20 times the first are exact. */
    const double high = 0x1.921fb544p+0, low = 0x1.0b4611a626331p-34, shift = 0x1.8p52;
    float rest[LOCUS_ANGLES], quadrants[LOCUS_ANGLES];
    for (int k = 0; k < n; k++) {
        double angle = position * theta[k];
        double quadrant = (angle * TWO_OVER_PI + shift) - shift;
        rest[k] = (float)((angle - quadrant * high) - quadrant * low);
        double fourth = (quadrant * 0.25 + shift) - shift;
        quadrants[k] = (float)(quadrant - 4 * fourth); /* -2, -1, 0, 1 or 2 */
    }
    for (int k = 0; k < n; k++) {
        float x = rest[k], x2 = x * x, quadrant = quadrants[k];
        float s = 1.0f / 362880 * x2 - 1.0f / 5040;
        s = s * x2 + 1.0f / 120;
        s = s * x2 - 1.0f / 6;
        s = x + x * x2 * s;
        float c = 1.0f / 40320 - 1.0f / 3628800 * x2;
        c = c * x2 - 1.0f / 720;
        c = c * x2 + 1.0f / 24;
        c = c * x2 - 0.5f;
        c = 1 + x2 * c;
        bool odd = quadrant * quadrant == 1;
        float sine = odd ? c : s, cosine = odd ? s : c;
        bool half_turn = quadrant * quadrant == 4;
        sines[k] = half_turn || quadrant == -1 ? -sine : sine;
        cosines[k] = half_turn || quadrant == 1 ? -cosine : cosine;
    }
}
