/* Metadata: the keys' values, walked once to check every length, then copied: a tokenizer reads
 * them long after the file was opened, when it may be cut short or written over.
 */
#include <stdlib.h>

#include "checkpoint/internal.h"

/* GGUF allows arrays of arrays; nobody nests deeper than two. */
enum { MAX_DEPTH = 4, ARRAY_HEADER_BYTES = 12, STRING_HEADER_BYTES = 8 };

/* ---- reading ------------------------------------------------------------------------------- */

static bool walk(struct locus_cursor *cursor, uint32_t type, uint64_t count, int depth);

static bool walk_array(struct locus_cursor *cursor, int depth)
{
    uint32_t type;
    uint64_t count;
    if (depth == MAX_DEPTH)
        return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                                   "arrays nested more than %d deep, expected fewer", MAX_DEPTH);
    return locus_cursor_u32(cursor, "an array's type", &type) &&
           locus_cursor_u64(cursor, "an array's count", &count) &&
           walk(cursor, type, count, depth + 1);
}

static bool walk_string(struct locus_cursor *cursor)
{
    uint64_t n_bytes;
    const unsigned char *bytes;
    return locus_cursor_u64(cursor, "a string's length", &n_bytes) &&
           locus_cursor_take(cursor, "a string", n_bytes, &bytes);
}

/* Steps over `count` values of a type, checking that all of each is there. */
static bool walk(struct locus_cursor *cursor, uint32_t type, uint64_t count, int depth)
{
    if (type >= LOCUS_N_VALUE_TYPES)
        return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT, "value type is %u, expected 0 to %d",
                                   type, LOCUS_N_VALUE_TYPES - 1);
    size_t fixed = locus_value_bytes((enum locus_value_type)type);
    size_t min_bytes = fixed                        ? fixed
                       : type == LOCUS_VALUE_STRING ? (size_t)STRING_HEADER_BYTES
                                                    : (size_t)ARRAY_HEADER_BYTES;
    size_t left = locus_cursor_left(cursor);
    if (count > left / min_bytes)
        return locus_cursor_refuse(
            cursor, LOCUS_ERROR_FORMAT,
            "truncated: %llu values of at least %zu bytes at offset %zu, the "
            "file has %zu",
            (unsigned long long)count, min_bytes, cursor->at, cursor->size);
    if (fixed) {
        const unsigned char *bytes;
        if (!locus_cursor_take(cursor, "the value", count * fixed, &bytes)) return false;
        if (type != LOCUS_VALUE_BOOL) return true;
        for (uint64_t i = 0; i < count; i++)
            if (bytes[i] > 1)
                return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                                           "boolean is %u, expected 0 or 1", bytes[i]);
        return true;
    }
    for (uint64_t i = 0; i < count; i++)
        if (type == LOCUS_VALUE_STRING ? !walk_string(cursor) : !walk_array(cursor, depth))
            return false;
    return true;
}

static bool read_entry(struct locus_checkpoint *checkpoint, struct locus_cursor *cursor)
{
    void *table = checkpoint->entries;
    if (!locus_cursor_grow(cursor, &table, checkpoint->n_entries, &checkpoint->entry_capacity,
                           sizeof *checkpoint->entries))
        return false;
    checkpoint->entries = table;
    struct locus_entry *entry = &checkpoint->entries[checkpoint->n_entries];
    uint32_t type;
    if (!locus_cursor_name(cursor, LOCUS_MAX_KEY_BYTES, &entry->key)) return false;
    checkpoint->n_entries++; /* from here on freed with the others */
    if (!locus_cursor_u32(cursor, "the value's type", &type)) return false;
    entry->value = cursor->bytes + cursor->at;
    size_t start = cursor->at;
    if (!walk(cursor, type, 1, 0)) return false;
    entry->type = (enum locus_value_type)type;
    entry->n_bytes = cursor->at - start;
    return true;
}

/* Takes the entries' values, which lie from `start` to the cursor, out of the file. */
static bool keep_values(struct locus_checkpoint *checkpoint, const struct locus_cursor *cursor,
                        size_t start)
{
    const size_t n_bytes = cursor->at - start;
    checkpoint->values = malloc(n_bytes);
    if (!checkpoint->values) {
        locus_fail_memory(cursor->error, n_bytes);
        return false;
    }
    memcpy(checkpoint->values, cursor->bytes + start, n_bytes);
    for (size_t i = 0; i < checkpoint->n_entries; i++) {
        const size_t offset = (size_t)(checkpoint->entries[i].value - cursor->bytes) - start;
        checkpoint->entries[i].value = checkpoint->values + offset;
    }
    return true;
}

bool locus_metadata_read(struct locus_checkpoint *checkpoint, struct locus_cursor *cursor,
                         uint64_t n_entries)
{
    const size_t start = cursor->at;
    cursor->section = "key";
    cursor->count = (size_t)n_entries;
    for (uint64_t i = 0; i < n_entries; i++) {
        cursor->index = (size_t)i + 1;
        cursor->name = NULL;
        if (!read_entry(checkpoint, cursor)) return false;
    }
    cursor->name = NULL;
    if (!n_entries) return true;
    if (!keep_values(checkpoint, cursor, start)) return false;
    checkpoint->entry_names = malloc((size_t)n_entries * sizeof *checkpoint->entry_names);
    if (!checkpoint->entry_names) {
        locus_fail_memory(cursor->error, (size_t)n_entries * sizeof *checkpoint->entry_names);
        return false;
    }
    for (size_t i = 0; i < n_entries; i++)
        checkpoint->entry_names[i] = (struct locus_name){checkpoint->entries[i].key, i};
    cursor->name = locus_names_sort(checkpoint->entry_names, (size_t)n_entries);
    return !cursor->name ||
           locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT, "occurs twice, expected once");
}

void locus_metadata_free(struct locus_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->n_entries; i++)
        free(checkpoint->entries[i].key);
    free(checkpoint->entries);
    free(checkpoint->values);
    free(checkpoint->entry_names);
}

/* ---- getters ------------------------------------------------------------------------------- */

const struct locus_entry *locus_metadata_find(const struct locus_checkpoint *checkpoint,
                                              const char *key)
{
    const struct locus_name *found =
        locus_names_find(checkpoint->entry_names, checkpoint->n_entries, key);
    return found ? &checkpoint->entries[found->index] : NULL;
}

size_t locus_checkpoint_n_keys(const struct locus_checkpoint *checkpoint)
{
    return checkpoint->n_entries;
}

const char *locus_checkpoint_key_at(const struct locus_checkpoint *checkpoint, size_t index)
{
    return checkpoint->entries[index].key;
}

bool locus_checkpoint_has(const struct locus_checkpoint *checkpoint, const char *key)
{
    return locus_metadata_find(checkpoint, key) != NULL;
}

size_t locus_checkpoint_key_index(const struct locus_checkpoint *checkpoint, const char *key)
{
    const struct locus_entry *found = locus_metadata_find(checkpoint, key);
    return found ? (size_t)(found - checkpoint->entries) : SIZE_MAX;
}

/* An integer of any width that int64_t holds. */
static bool load_int(enum locus_value_type type, const unsigned char *bytes, int64_t *value)
{
    uint64_t wide;
    uint16_t half;
    switch (type) {
    case LOCUS_VALUE_U8:
        *value = bytes[0];
        return true;
    case LOCUS_VALUE_I8:
        *value = (int8_t)bytes[0];
        return true;
    case LOCUS_VALUE_U16:
        memcpy(&half, bytes, sizeof half);
        *value = half;
        return true;
    case LOCUS_VALUE_I16:
        memcpy(&half, bytes, sizeof half);
        *value = (int16_t)half;
        return true;
    case LOCUS_VALUE_U32:
        *value = locus_load_u32(bytes);
        return true;
    case LOCUS_VALUE_I32:
        *value = (int32_t)locus_load_u32(bytes);
        return true;
    case LOCUS_VALUE_I64:
        *value = (int64_t)locus_load_u64(bytes);
        return true;
    case LOCUS_VALUE_U64:
        wide = locus_load_u64(bytes);
        if (wide > INT64_MAX) return false;
        *value = (int64_t)wide;
        return true;
    default:
        return false;
    }
}

static bool load_number(enum locus_value_type type, const unsigned char *bytes, double *value)
{
    int64_t integer;
    float single;
    switch (type) {
    case LOCUS_VALUE_F32:
        memcpy(&single, bytes, sizeof single);
        *value = single;
        return true;
    case LOCUS_VALUE_F64:
        memcpy(value, bytes, sizeof *value);
        return true;
    case LOCUS_VALUE_U64:
        *value = (double)locus_load_u64(bytes);
        return true;
    default:
        if (!load_int(type, bytes, &integer)) return false;
        *value = (double)integer;
        return true;
    }
}

bool locus_checkpoint_int(const struct locus_checkpoint *checkpoint, const char *key,
                          int64_t *value)
{
    const struct locus_entry *entry = locus_metadata_find(checkpoint, key);
    return entry && load_int(entry->type, entry->value, value);
}

bool locus_checkpoint_float(const struct locus_checkpoint *checkpoint, const char *key,
                            double *value)
{
    const struct locus_entry *entry = locus_metadata_find(checkpoint, key);
    return entry && load_number(entry->type, entry->value, value);
}

bool locus_checkpoint_bool(const struct locus_checkpoint *checkpoint, const char *key, bool *value)
{
    const struct locus_entry *entry = locus_metadata_find(checkpoint, key);
    if (!entry || entry->type != LOCUS_VALUE_BOOL) return false;
    *value = entry->value[0] != 0;
    return true;
}

/* The string at *at; steps past it. */
static const char *load_string(const unsigned char **at, size_t *n_bytes)
{
    *n_bytes = (size_t)locus_load_u64(*at);
    const unsigned char *bytes = *at + STRING_HEADER_BYTES;
    *at = bytes + *n_bytes;
    return (const char *)bytes;
}

bool locus_checkpoint_string(const struct locus_checkpoint *checkpoint, const char *key,
                             const char **bytes, size_t *n_bytes)
{
    const struct locus_entry *entry = locus_metadata_find(checkpoint, key);
    if (!entry || entry->type != LOCUS_VALUE_STRING) return false;
    const unsigned char *at = entry->value;
    *bytes = load_string(&at, n_bytes);
    return true;
}

/* ---- arrays -------------------------------------------------------------------------------- */

struct array {
    enum locus_value_type type;
    size_t count;
    const unsigned char *elements;
};

static bool find_array(const struct locus_checkpoint *checkpoint, const char *key,
                       struct array *array)
{
    const struct locus_entry *entry = locus_metadata_find(checkpoint, key);
    if (!entry || entry->type != LOCUS_VALUE_ARRAY) return false;
    *array = (struct array){
        .type = (enum locus_value_type)locus_load_u32(entry->value),
        .count = (size_t)locus_load_u64(entry->value + 4),
        .elements = entry->value + ARRAY_HEADER_BYTES,
    };
    return true;
}

bool locus_checkpoint_array(const struct locus_checkpoint *checkpoint, const char *key,
                            enum locus_value_type *type, size_t *count)
{
    struct array array;
    if (!find_array(checkpoint, key, &array)) return false;
    *type = array.type;
    *count = array.count;
    return true;
}

bool locus_checkpoint_array_strings(const struct locus_checkpoint *checkpoint, const char *key,
                                    const char **bytes, size_t *lengths)
{
    struct array array;
    if (!find_array(checkpoint, key, &array) || array.type != LOCUS_VALUE_STRING) return false;
    const unsigned char *at = array.elements;
    for (size_t i = 0; i < array.count; i++)
        bytes[i] = load_string(&at, &lengths[i]);
    return true;
}

bool locus_checkpoint_array_numbers(const struct locus_checkpoint *checkpoint, const char *key,
                                    double *values)
{
    struct array array;
    if (!find_array(checkpoint, key, &array)) return false;
    size_t n_bytes = locus_value_bytes(array.type);
    if (!n_bytes) return false;
    enum locus_value_type type = array.type == LOCUS_VALUE_BOOL ? LOCUS_VALUE_U8 : array.type;
    for (size_t i = 0; i < array.count; i++)
        load_number(type, array.elements + i * n_bytes, &values[i]);
    return true;
}
