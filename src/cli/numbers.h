/* Numbers people type: the whole string, or nothing. */
#ifndef LOCUS_CLI_NUMBERS_H
#define LOCUS_CLI_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

/* Each returns false, leaving *value, unless all of `text` is one number in the inclusive range. No
 * space around it; decimal, no NaN. */
bool locus_number_int(const char *text, int min, int max, int *value);
bool locus_number_float(const char *text, double min, double max, float *value);
/* Any 64-bit value: -2^63 (taken modulo 2^64) to 2^64-1; "0x" starts a hexadecimal one. */
bool locus_number_seed(const char *text, uint64_t *value);

#endif
