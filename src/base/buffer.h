/* Memory: checked sizes, aligned blocks, and a growing byte buffer. */
#ifndef LOCUS_BASE_BUFFER_H
#define LOCUS_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *product = a * b; false on overflow (then *product is untouched). */
static inline bool locus_mul_size(size_t a, size_t b, size_t *product)
{
    size_t result;
    if (__builtin_mul_overflow(a, b, &result)) return false;
    *product = result;
    return true;
}

/* A zeroed array of count elements of that size, 64-byte aligned; NULL when it can't be had or the
 * product overflows. count or size 0 gives a valid block. Release with locus_aligned_free. */
void *locus_aligned_zalloc(size_t count, size_t size);
void locus_aligned_free(void *block);

/* Asks for large pages behind a block that will be touched as a whole, where the system has them.
 */
void locus_aligned_huge(void *block, size_t n_bytes);

/* Bytes that grow. Zero-initialise; `failed` stays set once an allocation failed, and later calls
 * do nothing, so that a series of appends needs one check at its end. */
struct locus_buffer {
    char *bytes;
    size_t length, capacity;
    bool failed;
};

void locus_buffer_append(struct locus_buffer *buffer, const void *bytes, size_t n_bytes);
/* printf into the buffer, without a NUL byte in `length` (one always follows the bytes). */
void locus_buffer_printf(struct locus_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void locus_buffer_free(struct locus_buffer *buffer);

#endif
