/* Memory: see buffer.h. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/number.h"

enum { ALIGNMENT = 64, HUGE_BYTES = 1 << 20 };

/* calloc, so that a large block's pages come zeroed from the system and are only had when touched;
 * the block's own start is kept just before the aligned one. */
void *locus_aligned_zalloc(size_t count, size_t size)
{
    size_t n_bytes;
    if (!locus_mul_size(count, size, &n_bytes) || n_bytes > PTRDIFF_MAX - 2 * ALIGNMENT)
        return NULL;
    char *start = calloc(1, n_bytes + 2 * ALIGNMENT);
    if (!start) return NULL;
    char *block = start + sizeof(void *);
    block += (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
    memcpy(block - sizeof(void *), &start, sizeof start);
    return block;
}

void locus_aligned_free(void *block)
{
    if (!block) return;
    void *start;
    memcpy(&start, (char *)block - sizeof(void *), sizeof start);
    free(start);
}

void locus_aligned_huge(void *block, size_t n_bytes)
{
#if defined(MADV_HUGEPAGE)
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)block;
    uintptr_t first = (start + page - 1) / page * page, end = (start + n_bytes) / page * page;
    if (n_bytes >= HUGE_BYTES) madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)block, (void)n_bytes;
#endif
}

static bool reserve(struct locus_buffer *buffer, size_t extra)
{
    if (buffer->failed) return false;
    if (extra > SIZE_MAX / 4 || buffer->length > SIZE_MAX / 4) return !(buffer->failed = true);
    size_t needed = buffer->length + extra + 1;
    if (needed <= buffer->capacity) return true;
    size_t capacity = buffer->capacity ? buffer->capacity : 64;
    while (capacity < needed)
        capacity *= 2;
    char *bytes = realloc(buffer->bytes, capacity);
    if (!bytes) return !(buffer->failed = true);
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return true;
}

void locus_buffer_append(struct locus_buffer *buffer, const void *bytes, size_t n_bytes)
{
    if (!reserve(buffer, n_bytes)) return;
    if (n_bytes) memcpy(buffer->bytes + buffer->length, bytes, n_bytes);
    buffer->length += n_bytes;
    buffer->bytes[buffer->length] = '\0';
}

void locus_buffer_printf(struct locus_buffer *buffer, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = locus_print_args(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        buffer->failed = true;
    else if (reserve(buffer, (size_t)length)) {
        locus_print_args(buffer->bytes + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
}

void locus_buffer_free(struct locus_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct locus_buffer){0};
}
