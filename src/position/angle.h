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

#endif
