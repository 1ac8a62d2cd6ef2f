/* Numbers in a SPEC: see number.h. */
#include "position/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* strtod and printf follow the thread's locale, whose decimal point may be a comma: both run here
 * between enter and leave. (If the "C" locale can't be had the current one stays: a number with a
 * point is then refused at worst.) */
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
    struct c_locale scope = enter_c_locale();
    char *end;
    double number = strtod(copy, &end);
    leave_c_locale(scope);
    if (end != copy + n_bytes || !isfinite(number)) return false;
    *value = number;
    return true;
}

void locus_number_format(double value, char text[LOCUS_NUMBER_TEXT])
{
    struct c_locale scope = enter_c_locale();
    if (value == floor(value) && fabs(value) < 1e15) {
        snprintf(text, LOCUS_NUMBER_TEXT, "%.0f", value);
    } else {
        for (int digits = 6; digits <= 17; digits++) {
            snprintf(text, LOCUS_NUMBER_TEXT, "%.*g", digits, value);
            if (strtod(text, NULL) == value) break;
        }
    }
    leave_c_locale(scope);
}
