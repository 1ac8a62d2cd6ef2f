/* Inside the checkpoint room: the open file, a bounds-checked cursor over its bytes, sorted names.
 *
 *     bytes -> cursor -> header (read.c) -> metadata (metadata.c) -> tensor table (tensors.c)
 */
#ifndef LOCUS_CHECKPOINT_INTERNAL_H
#define LOCUS_CHECKPOINT_INTERNAL_H

#include <string.h>

#include "base/buffer.h"
#include "checkpoint/checkpoint.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "GGUF numbers and tensor data are used as they lie in the file: little-endian only");

enum {
    LOCUS_MAX_KEY_BYTES = 65535,
    LOCUS_MAX_TENSOR_NAME_BYTES = 64,
    LOCUS_DEFAULT_ALIGNMENT = 32,
    LOCUS_N_VALUE_TYPES = LOCUS_VALUE_F64 + 1
};

/* ---- names: a sorted index. Unlike a hash table it has no worst case for a file to aim at ---- */

struct locus_name {
    const char *name;
    size_t index;
};

/* Sorts; returns a name that occurs twice, or NULL. */
const char *locus_names_sort(struct locus_name *names, size_t n_names);
const struct locus_name *locus_names_find(const struct locus_name *names, size_t n_names,
                                          const char *name);

/* A name fit for a message: quoted, and cut when long. */
struct locus_quoted {
    char text[56];
};
struct locus_quoted locus_name_quote(const char *name);

/* ---- the open file ------------------------------------------------------------------------- */

struct locus_entry {
    char *key;
    enum locus_value_type type;
    const unsigned char *value; /* as encoded in the file, after the type: in the copy, once read */
    size_t n_bytes;
};

struct locus_tensor_record {
    struct locus_tensor tensor;
    uint64_t offset; /* from the start of the tensor data */
};

struct locus_checkpoint {
    char *path;
    struct locus_mapped_file file;
    int version;
    struct locus_entry *entries;
    unsigned char *values; /* a copy of all entries */
    struct locus_name *entry_names;
    size_t n_entries, entry_capacity;
    struct locus_tensor_record *tensors;
    struct locus_name *tensor_names;
    size_t n_tensors, tensor_capacity;
};

/* ---- cursor: every read is checked, and a refusal says where ------------------------------- */

struct locus_cursor {
    const unsigned char *bytes;
    size_t size, at; /* at <= size */
    char label[96];  /* the file, for messages */
    const char *section;
    size_t index, count; /* "section index of count"; count 0: only "section" */
    const char *name;    /* instead of the index once it is known */
    locus_error *error;
};

void locus_cursor_init(struct locus_cursor *cursor, const struct locus_mapped_file *file,
                       const char *path, locus_error *error);

/* Each returns false after filling the cursor's error. `field` names what is read. */
bool locus_cursor_take(struct locus_cursor *cursor, const char *field, uint64_t n_bytes,
                       const unsigned char **bytes);
bool locus_cursor_u32(struct locus_cursor *cursor, const char *field, uint32_t *value);
bool locus_cursor_u64(struct locus_cursor *cursor, const char *field, uint64_t *value);
/* A string of 1 to max_bytes bytes without NUL, copied and terminated: free() it. It becomes the
 * cursor's `name`. */
bool locus_cursor_name(struct locus_cursor *cursor, size_t max_bytes, char **name);
/* Always false: fills the error with "file: where: message". */
bool locus_cursor_refuse(const struct locus_cursor *cursor, enum locus_status status,
                         const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Makes room for one more element in a table that grows with what was read, never ahead of it. */
bool locus_cursor_grow(const struct locus_cursor *cursor, void **table, size_t n, size_t *capacity,
                       size_t element_bytes);

static inline size_t locus_cursor_left(const struct locus_cursor *cursor)
{
    return cursor->size - cursor->at;
}

/* Unaligned loads. */
static inline uint32_t locus_load_u32(const unsigned char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

static inline uint64_t locus_load_u64(const unsigned char *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* ---- parts --------------------------------------------------------------------------------- */

/* Refuses, naming what the file looks like instead; true if it starts as GGUF does. */
bool locus_magic_check(struct locus_cursor *cursor);
bool locus_metadata_read(struct locus_checkpoint *checkpoint, struct locus_cursor *cursor,
                         uint64_t n_entries);
void locus_metadata_free(struct locus_checkpoint *checkpoint);
const struct locus_entry *locus_metadata_find(const struct locus_checkpoint *checkpoint,
                                              const char *key); /* NULL: not there */
bool locus_tensors_read(struct locus_checkpoint *checkpoint, struct locus_cursor *cursor,
                        uint64_t n_tensors);
void locus_tensors_free(struct locus_checkpoint *checkpoint);

/* Fills tensor->n_bytes from its type and dims, unused dims with 1. False: *problem says why. */
struct locus_problem {
    char text[160];
};
bool locus_tensor_measure(struct locus_tensor *tensor, struct locus_problem *problem);

/* The name of a GGUF type that this library doesn't read, or NULL if unknown. */
const char *locus_foreign_type_name(uint32_t type);

/* Bytes of a value of fixed size, 0 for strings and arrays. */
size_t locus_value_bytes(enum locus_value_type type);

#endif
