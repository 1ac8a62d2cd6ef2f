/* Errors are values: see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

enum locus_status locus_fail(locus_error *error, enum locus_status status, const char *format, ...)
{
    if (!error) return status;
    va_list args;
    va_start(args, format);
    int length = locus_print_args(error->message, sizeof error->message, format, args);
    va_end(args);
    error->status = status;
    if (length < 0) error->message[0] = '\0';
    if (length >= (int)sizeof error->message) /* cut, maybe within a character */
        error->message[locus_utf8_whole(error->message, strlen(error->message))] = '\0';
    locus_text_tame(error->message);
    return status;
}

enum locus_status locus_fail_memory(locus_error *error, size_t n_bytes)
{
    return locus_fail(error, LOCUS_ERROR_MEMORY, "out of memory: %zu bytes could not be had",
                      n_bytes);
}
