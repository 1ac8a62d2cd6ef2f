/* The checkpoint: a GGUF file's metadata and tensor table, checked, and a writer.
 *
 * It knows the file, not the maths: what a tensor is for is src/model's to say.
 */
#ifndef LOCUS_CHECKPOINT_H
#define LOCUS_CHECKPOINT_H

#include "base/error.h"
#include "base/file.h"
#include "base/tensor_type.h"

enum { LOCUS_MAX_DIMS = 4 };

struct locus_tensor {
    const char *name; /* NUL-terminated, 1 to 64 bytes, unique in the file */
    enum locus_tensor_type type;
    int n_dims;                   /* 1 to 4 */
    int64_t dims[LOCUS_MAX_DIMS]; /* GGUF order: dims[0] is a row's length; unused ones are 1 */
    const unsigned char *data;    /* n_bytes inside the mapped file, aligned */
    size_t n_bytes;
};

/* Metadata value types, numbered as GGUF does. */
enum locus_value_type {
    LOCUS_VALUE_U8,
    LOCUS_VALUE_I8,
    LOCUS_VALUE_U16,
    LOCUS_VALUE_I16,
    LOCUS_VALUE_U32,
    LOCUS_VALUE_I32,
    LOCUS_VALUE_F32,
    LOCUS_VALUE_BOOL,
    LOCUS_VALUE_STRING,
    LOCUS_VALUE_ARRAY,
    LOCUS_VALUE_U64,
    LOCUS_VALUE_I64,
    LOCUS_VALUE_F64
};

struct locus_checkpoint;

/* Maps and checks the whole of a GGUF v2 or v3 file. */
struct locus_checkpoint *locus_checkpoint_open(const char *path, locus_error *error);
void locus_checkpoint_free(struct locus_checkpoint *checkpoint);

const char *locus_checkpoint_path(const struct locus_checkpoint *checkpoint);
const struct locus_mapped_file *locus_checkpoint_file(const struct locus_checkpoint *checkpoint);
int locus_checkpoint_version(const struct locus_checkpoint *checkpoint);

size_t locus_checkpoint_n_tensors(const struct locus_checkpoint *checkpoint);
const struct locus_tensor *locus_checkpoint_tensor_at(const struct locus_checkpoint *checkpoint,
                                                      size_t index); /* in the file's order */
/* The tensor of that name, or NULL. Cheap: a sorted index, which no choice of names slows down. */
const struct locus_tensor *locus_checkpoint_tensor(const struct locus_checkpoint *checkpoint,
                                                   const char *name);
/* The index of a tensor of this checkpoint. */
size_t locus_checkpoint_tensor_index(const struct locus_checkpoint *checkpoint,
                                     const struct locus_tensor *tensor);

/* Metadata. A getter returns true and fills *value if the key is there with a fitting type (any
 * integer type that holds the value for integers; integers count as floats too), else it returns
 * false and leaves *value, so that defaults can be set before. */
size_t locus_checkpoint_n_keys(const struct locus_checkpoint *checkpoint);
const char *locus_checkpoint_key_at(const struct locus_checkpoint *checkpoint, size_t index);
bool locus_checkpoint_has(const struct locus_checkpoint *checkpoint, const char *key);
/* The index of a key, or SIZE_MAX. */
size_t locus_checkpoint_key_index(const struct locus_checkpoint *checkpoint, const char *key);
bool locus_checkpoint_int(const struct locus_checkpoint *checkpoint, const char *key,
                          int64_t *value);
bool locus_checkpoint_float(const struct locus_checkpoint *checkpoint, const char *key,
                            double *value);
bool locus_checkpoint_bool(const struct locus_checkpoint *checkpoint, const char *key, bool *value);
/* A string as bytes inside the file: NOT NUL-terminated. */
bool locus_checkpoint_string(const struct locus_checkpoint *checkpoint, const char *key,
                             const char **bytes, size_t *n_bytes);

/* A metadata array: element type and count; false if the key is absent or no array. */
bool locus_checkpoint_array(const struct locus_checkpoint *checkpoint, const char *key,
                            enum locus_value_type *type, size_t *count);
/* Fills bytes[count] and lengths[count] (both the array's count) with the array's strings. */
bool locus_checkpoint_array_strings(const struct locus_checkpoint *checkpoint, const char *key,
                                    const char **bytes, size_t *lengths);
/* Fills values[count] with numbers of any type; booleans are 0 and 1. */
bool locus_checkpoint_array_numbers(const struct locus_checkpoint *checkpoint, const char *key,
                                    double *values);

/* ---- writing: GGUF v3, deterministic bytes ------------------------------------------------ */

struct locus_checkpoint_writer;

/* Metadata and tensors are collected, then written in the order given. Strings and arrays are
 * copied; tensor data is not and must live until finish. */
struct locus_checkpoint_writer *locus_writer_create(locus_error *error);
void locus_writer_free(struct locus_checkpoint_writer *writer);
/* Allocation failures and refused arguments (a duplicate key, an empty name) are remembered and
 * reported by finish. */
void locus_writer_u32(struct locus_checkpoint_writer *writer, const char *key, uint32_t value);
void locus_writer_f32(struct locus_checkpoint_writer *writer, const char *key, float value);
void locus_writer_bool(struct locus_checkpoint_writer *writer, const char *key, bool value);
void locus_writer_string(struct locus_checkpoint_writer *writer, const char *key, const char *bytes,
                         size_t n_bytes);
void locus_writer_strings(struct locus_checkpoint_writer *writer, const char *key,
                          const char *const *bytes, const size_t *lengths, size_t count);
void locus_writer_i32s(struct locus_checkpoint_writer *writer, const char *key,
                       const int32_t *values, size_t count);
void locus_writer_f32s(struct locus_checkpoint_writer *writer, const char *key, const float *values,
                       size_t count);
/* Copies a key of any type, as it is, if it is there; not general.alignment, which is the
 * writer's own to choose (32, GGUF's default). */
void locus_writer_copy(struct locus_checkpoint_writer *writer, const struct locus_checkpoint *from,
                       const char *key);
/* dims in GGUF order; data holds the tensor's bytes in that type. */
void locus_writer_tensor(struct locus_checkpoint_writer *writer, const char *name,
                         enum locus_tensor_type type, int n_dims, const int64_t *dims,
                         const void *data);
/* Asked while the file is written, every few MB: true ends it, an error. NULL: never. */
void locus_writer_watch(struct locus_checkpoint_writer *writer, bool (*stopped)(void));
/* Writes the file whole or not at all. */
enum locus_status locus_writer_finish(struct locus_checkpoint_writer *writer, const char *path,
                                      locus_error *error);

#endif
