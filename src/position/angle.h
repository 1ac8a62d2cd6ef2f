/* Powers, logarithms, sines and cosines in double for position tables.
 *
 * The C library's differ in their last bits from one system to the next, and even from one CPU to
 * the next; these take the same IEEE operations everywhere, so a table has the same bits.
 */
#ifndef LOCUS_POSITION_ANGLE_H
#define LOCUS_POSITION_ANGLE_H

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
