/* Numbers as text, with a decimal point whatever locale the calling program has set. Whatever reads
 * or prints a number with a fraction in this library comes here. */
#ifndef LOCUS_BASE_NUMBER_H
#define LOCUS_BASE_NUMBER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* snprintf and vsnprintf. */
int locus_print(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int locus_print_args(char *text, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* strtod. `end` may be NULL. */
double locus_number_read(const char *text, char **end);

enum { LOCUS_NUMBER_TEXT = 32 }; /* bytes that locus_number_format needs, its NUL included */

/* The whole of text[n_bytes] as a finite number: digits, with an optional minus sign, and unless
 * `integer` an optional fraction and exponent. No spaces, hexadecimal, infinity or NaN, and at most
 * 64 bytes. */
bool locus_number_parse(const char *text, size_t n_bytes, bool integer, double *value);

/* The shortest of at least 6 digits that parses to the same double: "10000", "0.1", "1e+20".
 * Whole numbers below 1e15 are written out. `value` must be finite. */
void locus_number_format(double value, char text[LOCUS_NUMBER_TEXT]);

/* Numbers people type. Each returns false, leaving *value, unless all of `text` is one number in
 * the inclusive range. No space around it; decimal, a plus sign at most before it; no NaN, and an
 * infinity ("inf", "-inf") where the range has one. */
bool locus_number_int(const char *text, int min, int max, int *value);
bool locus_number_float(const char *text, double min, double max, float *value);
/* Any 64-bit value: -2^63 (taken modulo 2^64) to 2^64-1; "0x" starts a hexadecimal one. */
bool locus_number_seed(const char *text, uint64_t *value);

#endif
