/* Numbers people type: see numbers.h. */
#include "cli/numbers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What strtol and its kin skip or take, and no number here starts with. */
static bool starts_well(const char *text)
{
    return *text && strchr("+-.0123456789", *text);
}

bool locus_number_int(const char *text, int min, int max, int *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (!starts_well(text) || *end || errno || number < min || number > max) return false;
    *value = (int)number;
    return true;
}

bool locus_number_float(const char *text, double min, double max, float *value)
{
    bool hexadecimal = strpbrk(text, "xX") != NULL;
    bool infinite = strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0;
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if ((!starts_well(text) && !infinite) || hexadecimal || end == text || *end) return false;
    /* Underflow sets errno as well, and is a number near 0; NaN fails both comparisons. */
    if (errno && fabs(number) > 1.0) return false;
    if (!(number >= min && number <= max)) return false;
    *value = (float)number;
    return true;
}

bool locus_number_seed(const char *text, uint64_t *value)
{
    bool negative = *text == '-';
    const char *digits = text + (negative || *text == '+');
    int base = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') ? 16 : 10;
    if (*digits < '0' || *digits > '9') return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(digits, &end, base);
    if (*end || errno || (negative && number > (unsigned long long)INT64_MAX + 1)) return false;
    if (base == 16 && end == digits + 1) return false;
    *value = negative ? 0 - (uint64_t)number : (uint64_t)number;
    return true;
}
