/* UTF-8, strictly: no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef LOCUS_BASE_UTF8_H
#define LOCUS_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* What bytes[0, n_bytes) starts with, n_bytes >= 1: the length of a whole character (1 to 4);
 * -n_bytes when all of them are the beginning of one, cut off; 0 when the first byte begins none.
 */
int locus_utf8_scan(const char *bytes, size_t n_bytes);

/* Bytes of the whole character that starts here; 0 where none does. */
static inline size_t locus_utf8_character(const char *bytes, size_t n_bytes)
{
    int length = n_bytes > 0 ? locus_utf8_scan(bytes, n_bytes) : 0;
    return length > 0 ? (size_t)length : 0;
}

/* The code point of a whole character of that length. */
uint32_t locus_utf8_code(const char *bytes, int length);

#endif
