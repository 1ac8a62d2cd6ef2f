/* Errors are values: see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

enum locus_status locus_fail(locus_error *error, enum locus_status status, const char *format, ...)
{
    if (!error) return status;
    va_list args;
    va_start(args, format);
    int length = locus_print_args(error->message, sizeof error->message, format, args);
    va_end(args);
    error->status = status;
    if (length < 0) error->message[0] = '\0';
    size_t n = strlen(error->message);
    if (length >= (int)sizeof error->message) {
        /* The cut may have left the start of a character: drop it. */
        size_t lead = n;
        while (lead > 0 && ((unsigned char)error->message[lead - 1] & 0xC0) == 0x80)
            lead--;
        unsigned char first = lead > 0 ? (unsigned char)error->message[lead - 1] : 0;
        size_t whole = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
        if (whole > 1 && n - lead + 1 < whole) n = lead - 1;
        error->message[n] = '\0';
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)error->message[i];
        if (c < 0x20 || c == 0x7F) error->message[i] = '?';
    }
    return status;
}

enum locus_status locus_fail_memory(locus_error *error, size_t n_bytes)
{
    return locus_fail(error, LOCUS_ERROR_MEMORY, "out of memory: %zu bytes could not be had",
                      n_bytes);
}
