/* Errors are values: a status for the code, one line for the reader. */
#ifndef LOCUS_BASE_ERROR_H
#define LOCUS_BASE_ERROR_H

#include "locus.h"

/* Fills *error (which may be NULL) with a printf-style line, cut at 255 bytes on a character
 * boundary, and returns `status`, so that a failing function can `return locus_fail(...)`. What a
 * terminal may not be shown (a hostile file's strings) becomes '?' (base/text.h). */
enum locus_status locus_fail(locus_error *error, enum locus_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* locus_fail for an allocation of n_bytes that failed. */
enum locus_status locus_fail_memory(locus_error *error, size_t n_bytes);

#endif
