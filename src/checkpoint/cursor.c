/* The cursor: reads that can't leave the file, and refusals that say where it was. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/number.h"
#include "checkpoint/internal.h"

void locus_cursor_init(struct locus_cursor *cursor, const struct locus_mapped_file *file,
                       const char *path, locus_error *error)
{
    enum { SHOWN = sizeof cursor->label - 4 };
    *cursor = (struct locus_cursor){
        .bytes = file->bytes, .size = file->size, .section = "header", .error = error};
    size_t length = strlen(path);
    if (length <= SHOWN) {
        memcpy(cursor->label, path, length + 1);
        return;
    }
    /* Of a long path the end says more, and the rest of the line must fit the message. */
    const char *tail = path + length - SHOWN;
    while (((unsigned char)*tail & 0xC0) == 0x80)
        tail++;
    snprintf(cursor->label, sizeof cursor->label, "...%s", tail);
}

bool locus_cursor_refuse(const struct locus_cursor *cursor, enum locus_status status,
                         const char *format, ...)
{
    char text[sizeof cursor->error->message];
    va_list args;
    va_start(args, format);
    locus_print_args(text, sizeof text, format, args);
    va_end(args);
    if (cursor->name)
        locus_fail(cursor->error, status, "%s: %s %s: %s", cursor->label, cursor->section,
                   locus_name_quote(cursor->name).text, text);
    else if (cursor->count)
        locus_fail(cursor->error, status, "%s: %s %zu of %zu: %s", cursor->label, cursor->section,
                   cursor->index, cursor->count, text);
    else
        locus_fail(cursor->error, status, "%s: %s: %s", cursor->label, cursor->section, text);
    return false;
}

bool locus_cursor_take(struct locus_cursor *cursor, const char *field, uint64_t n_bytes,
                       const unsigned char **bytes)
{
    if (n_bytes > locus_cursor_left(cursor)) {
        locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                            "truncated: %s needs %llu bytes at offset %zu, the file has %zu", field,
                            (unsigned long long)n_bytes, cursor->at, cursor->size);
        return false;
    }
    *bytes = cursor->bytes + cursor->at;
    cursor->at += (size_t)n_bytes;
    return true;
}

bool locus_cursor_u32(struct locus_cursor *cursor, const char *field, uint32_t *value)
{
    const unsigned char *bytes;
    if (!locus_cursor_take(cursor, field, sizeof *value, &bytes)) return false;
    *value = locus_load_u32(bytes);
    return true;
}

bool locus_cursor_u64(struct locus_cursor *cursor, const char *field, uint64_t *value)
{
    const unsigned char *bytes;
    if (!locus_cursor_take(cursor, field, sizeof *value, &bytes)) return false;
    *value = locus_load_u64(bytes);
    return true;
}

bool locus_cursor_name(struct locus_cursor *cursor, size_t max_bytes, char **name)
{
    uint64_t n_bytes;
    const unsigned char *bytes;
    if (!locus_cursor_u64(cursor, "the name's length", &n_bytes)) return false;
    if (n_bytes == 0 || n_bytes > max_bytes)
        return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                                   "the name has %llu bytes, expected 1 to %zu",
                                   (unsigned long long)n_bytes, max_bytes);
    if (!locus_cursor_take(cursor, "the name", n_bytes, &bytes)) return false;
    if (memchr(bytes, '\0', (size_t)n_bytes))
        return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                                   "the name has a NUL byte in it, expected none");
    char *copy = malloc((size_t)n_bytes + 1);
    if (!copy) {
        locus_fail_memory(cursor->error, (size_t)n_bytes + 1);
        return false;
    }
    memcpy(copy, bytes, (size_t)n_bytes);
    copy[n_bytes] = '\0';
    cursor->name = *name = copy;
    return true;
}

bool locus_cursor_grow(const struct locus_cursor *cursor, void **table, size_t n, size_t *capacity,
                       size_t element_bytes)
{
    if (locus_array_grow(table, n, capacity, element_bytes)) return true;
    locus_fail_memory(cursor->error, (n + 1) * element_bytes);
    return false;
}
