/* Numbers in a SPEC: strict decimal text, the same in every locale. */
#ifndef LOCUS_POSITION_NUMBER_H
#define LOCUS_POSITION_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

enum { LOCUS_NUMBER_TEXT = 32 }; /* bytes that locus_number_format needs, its NUL included */

/* The whole of text[n_bytes] as a finite number: digits, with an optional minus sign, and unless
 * `integer` an optional fraction and exponent. No spaces, hexadecimal, infinity or NaN, and at most
 * 64 bytes. */
bool locus_number_parse(const char *text, size_t n_bytes, bool integer, double *value);

/* The shortest of at least 6 digits that parses to the same double: "10000", "0.1", "1e+20".
 * Whole numbers below 1e15 are written out. `value` must be finite. */
void locus_number_format(double value, char text[LOCUS_NUMBER_TEXT]);

#endif
