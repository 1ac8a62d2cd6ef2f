/* Numbers as text: see number.h. */
#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the locale --------------------------------------------------------------------------- */

/* strtod and printf follow the thread's locale, whose decimal point may be a comma: both run here
 * between enter and leave. The "C" locale is the system library's own: asking for it allocates
 * nothing. */
struct c_locale {
    locale_t c, previous;
};

static struct c_locale enter_c_locale(void)
{
    struct c_locale scope = {newlocale(LC_ALL_MASK, "C", (locale_t)0), (locale_t)0};
    if (scope.c) scope.previous = uselocale(scope.c);
    return scope;
}

static void leave_c_locale(struct c_locale scope)
{
    if (!scope.c) return;
    uselocale(scope.previous);
    freelocale(scope.c);
}

int locus_print_args(char *text, size_t size, const char *format, va_list args)
{
    struct c_locale scope = enter_c_locale();
    int length = vsnprintf(text, size, format, args);
    leave_c_locale(scope);
    return length;
}

int locus_print(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = locus_print_args(text, size, format, args);
    va_end(args);
    return length;
}

double locus_number_read(const char *text, char **end)
{
    struct c_locale scope = enter_c_locale();
    double value = strtod(text, end);
    leave_c_locale(scope);
    return value;
}

/* ---- text of a known form ----------------------------------------------------------------- */

static size_t skip_digits(const char *text, size_t n_bytes, size_t at)
{
    while (at < n_bytes && text[at] >= '0' && text[at] <= '9')
        at++;
    return at;
}

static bool well_formed(const char *text, size_t n_bytes, bool integer)
{
    size_t at = n_bytes > 0 && text[0] == '-';
    size_t start = at;
    at = skip_digits(text, n_bytes, at);
    bool any = at > start;
    if (!integer && at < n_bytes && text[at] == '.') {
        start = ++at;
        at = skip_digits(text, n_bytes, at);
        any = any || at > start;
    }
    if (!integer && any && at < n_bytes && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        if (at < n_bytes && (text[at] == '+' || text[at] == '-')) at++;
        start = at;
        at = skip_digits(text, n_bytes, at);
        any = at > start;
    }
    return any && at == n_bytes;
}

bool locus_number_parse(const char *text, size_t n_bytes, bool integer, double *value)
{
    char copy[65];
    if (n_bytes >= sizeof copy || !well_formed(text, n_bytes, integer)) return false;
    memcpy(copy, text, n_bytes);
    copy[n_bytes] = '\0';
    double number = locus_number_read(copy, NULL);
    if (!isfinite(number)) return false;
    *value = number;
    return true;
}

void locus_number_format(double value, char text[LOCUS_NUMBER_TEXT])
{
    if (value == floor(value) && fabs(value) < 1e15) {
        locus_print(text, LOCUS_NUMBER_TEXT, "%.0f", value);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        locus_print(text, LOCUS_NUMBER_TEXT, "%.*g", digits, value);
        if (locus_number_read(text, NULL) == value) break;
    }
}

/* ---- what people type --------------------------------------------------------------------- */

/* Past a plus sign before a number. */
static const char *past_plus(const char *text)
{
    return text + (text[0] == '+' && text[1] != '-');
}

bool locus_number_int(const char *text, int min, int max, int *value)
{
    const char *digits = past_plus(text);
    if (!well_formed(digits, strlen(digits), true)) return false;
    errno = 0;
    long long number = strtoll(digits, NULL, 10);
    if (errno || number < min || number > max) return false;
    *value = (int)number;
    return true;
}

bool locus_number_float(const char *text, double min, double max, float *value)
{
    const bool infinite = strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0;
    const char *digits = past_plus(text);
    if (!infinite && !well_formed(digits, strlen(digits), false)) return false;
    double number = locus_number_read(digits, NULL);
    if (!infinite && isinf(number)) return false;
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
