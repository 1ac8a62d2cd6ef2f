/* Writing a checkpoint: GGUF v3, the bytes a function of the calls alone. */
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/output.h"
#include "checkpoint/internal.h"

enum { VERSION = 3 };

/* Names in the order given; they are sorted, to find duplicates, only at the end. */
struct name_list {
    char **names;
    size_t n, capacity;
};

struct locus_checkpoint_writer {
    struct locus_buffer metadata; /* keys and values, as they will be in the file */
    struct name_list keys, tensor_names;
    struct locus_tensor *tensors; /* [tensor_names.n], names in tensor_names */
    size_t tensor_capacity;
    bool (*stopped)(void); /* NULL: never */
    locus_error problem;   /* the first refusal; reported by finish */
};

struct locus_checkpoint_writer *locus_writer_create(locus_error *error)
{
    struct locus_checkpoint_writer *writer = calloc(1, sizeof *writer);
    if (!writer) locus_fail_memory(error, sizeof *writer);
    return writer;
}

static void free_names(struct name_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->names[i]);
    free(list->names);
}

void locus_writer_free(struct locus_checkpoint_writer *writer)
{
    if (!writer) return;
    locus_buffer_free(&writer->metadata);
    free_names(&writer->keys);
    free_names(&writer->tensor_names);
    free(writer->tensors);
    free(writer);
}

/* ---- collecting ---------------------------------------------------------------------------- */

static bool add_name(struct locus_checkpoint_writer *writer, struct name_list *list,
                     const char *what, const char *name, size_t max_bytes)
{
    if (writer->problem.status) return false;
    size_t length = strlen(name);
    if (length < 1 || length > max_bytes) {
        locus_fail(&writer->problem, LOCUS_ERROR_ARGUMENT,
                   "the name of %s %s has %zu bytes, expected 1 to %zu", what,
                   locus_name_quote(name).text, length, max_bytes);
        return false;
    }
    void *names = list->names;
    bool room = locus_array_grow(&names, list->n, &list->capacity, sizeof *list->names);
    list->names = names;
    char *copy = room ? strdup(name) : NULL;
    if (!copy) {
        locus_fail_memory(&writer->problem, length + 1);
        return false;
    }
    list->names[list->n++] = copy;
    return true;
}

static void put(struct locus_checkpoint_writer *writer, const void *bytes, size_t n_bytes)
{
    locus_buffer_append(&writer->metadata, bytes, n_bytes);
}

static void put_u32(struct locus_buffer *out, uint32_t value)
{
    locus_buffer_append(out, &value, sizeof value);
}

static void put_u64(struct locus_buffer *out, uint64_t value)
{
    locus_buffer_append(out, &value, sizeof value);
}

static void put_string(struct locus_buffer *out, const char *bytes, size_t n_bytes)
{
    put_u64(out, n_bytes);
    locus_buffer_append(out, bytes, n_bytes);
}

/* A key and its value's type; the value is put next, unless false. */
static bool put_key(struct locus_checkpoint_writer *writer, const char *key,
                    enum locus_value_type type)
{
    if (!add_name(writer, &writer->keys, "key", key, LOCUS_MAX_KEY_BYTES)) return false;
    put_string(&writer->metadata, key, strlen(key));
    put_u32(&writer->metadata, type);
    return true;
}

static bool put_array_key(struct locus_checkpoint_writer *writer, const char *key,
                          enum locus_value_type type, size_t count)
{
    if (!put_key(writer, key, LOCUS_VALUE_ARRAY)) return false;
    put_u32(&writer->metadata, type);
    put_u64(&writer->metadata, count);
    return true;
}

static bool is_alignment(const char *key)
{
    return !strcmp(key, "general.alignment");
}

void locus_writer_u32(struct locus_checkpoint_writer *writer, const char *key, uint32_t value)
{
    if (is_alignment(key) && value != LOCUS_DEFAULT_ALIGNMENT && !writer->problem.status)
        locus_fail(&writer->problem, LOCUS_ERROR_ARGUMENT, "key '%s' is %u, expected %d", key,
                   value, LOCUS_DEFAULT_ALIGNMENT);
    if (put_key(writer, key, LOCUS_VALUE_U32)) put_u32(&writer->metadata, value);
}

void locus_writer_f32(struct locus_checkpoint_writer *writer, const char *key, float value)
{
    if (put_key(writer, key, LOCUS_VALUE_F32)) put(writer, &value, sizeof value);
}

void locus_writer_bool(struct locus_checkpoint_writer *writer, const char *key, bool value)
{
    if (put_key(writer, key, LOCUS_VALUE_BOOL)) put(writer, value ? "\1" : "\0", 1);
}

void locus_writer_string(struct locus_checkpoint_writer *writer, const char *key, const char *bytes,
                         size_t n_bytes)
{
    if (put_key(writer, key, LOCUS_VALUE_STRING)) put_string(&writer->metadata, bytes, n_bytes);
}

void locus_writer_strings(struct locus_checkpoint_writer *writer, const char *key,
                          const char *const *bytes, const size_t *lengths, size_t count)
{
    if (!put_array_key(writer, key, LOCUS_VALUE_STRING, count)) return;
    for (size_t i = 0; i < count; i++)
        put_string(&writer->metadata, bytes[i], lengths[i]);
}

void locus_writer_i32s(struct locus_checkpoint_writer *writer, const char *key,
                       const int32_t *values, size_t count)
{
    if (put_array_key(writer, key, LOCUS_VALUE_I32, count))
        put(writer, values, count * sizeof *values);
}

void locus_writer_f32s(struct locus_checkpoint_writer *writer, const char *key, const float *values,
                       size_t count)
{
    if (put_array_key(writer, key, LOCUS_VALUE_F32, count))
        put(writer, values, count * sizeof *values);
}

void locus_writer_copy(struct locus_checkpoint_writer *writer, const struct locus_checkpoint *from,
                       const char *key)
{
    const struct locus_entry *entry = locus_metadata_find(from, key);
    if (!entry || is_alignment(key)) return;
    if (put_key(writer, key, entry->type)) put(writer, entry->value, entry->n_bytes);
}

void locus_writer_tensor(struct locus_checkpoint_writer *writer, const char *name,
                         enum locus_tensor_type type, int n_dims, const int64_t *dims,
                         const void *data)
{
    if (writer->problem.status) return;
    struct locus_tensor tensor = {.type = type, .n_dims = n_dims, .data = data};
    for (int i = 0; i < n_dims && i < LOCUS_MAX_DIMS; i++)
        tensor.dims[i] = dims[i];
    struct locus_problem problem = {"type is unknown"};
    if (!locus_tensor_type_find((uint32_t)type) || !locus_tensor_measure(&tensor, &problem)) {
        locus_fail(&writer->problem, LOCUS_ERROR_ARGUMENT, "tensor %s: %s",
                   locus_name_quote(name).text, problem.text);
        return;
    }
    size_t n = writer->tensor_names.n;
    void *tensors = writer->tensors;
    bool room = locus_array_grow(&tensors, n, &writer->tensor_capacity, sizeof *writer->tensors);
    writer->tensors = tensors;
    if (!room) {
        locus_fail_memory(&writer->problem, (n + 1) * sizeof *writer->tensors);
        return;
    }
    if (add_name(writer, &writer->tensor_names, "tensor", name, LOCUS_MAX_TENSOR_NAME_BYTES)) {
        tensor.name = writer->tensor_names.names[n];
        writer->tensors[n] = tensor;
    }
}

/* ---- writing ------------------------------------------------------------------------------- */

static size_t padding(size_t n_bytes)
{
    return (LOCUS_DEFAULT_ALIGNMENT - n_bytes % LOCUS_DEFAULT_ALIGNMENT) % LOCUS_DEFAULT_ALIGNMENT;
}

static enum locus_status check_unique(const struct name_list *list, const char *what,
                                      const char *path, locus_error *error)
{
    if (!list->n) return LOCUS_OK;
    struct locus_name *names = malloc(list->n * sizeof *names);
    if (!names) return locus_fail_memory(error, list->n * sizeof *names);
    for (size_t i = 0; i < list->n; i++)
        names[i] = (struct locus_name){list->names[i], i};
    const char *twice = locus_names_sort(names, list->n);
    free(names);
    return twice ? locus_fail(error, LOCUS_ERROR_ARGUMENT, "%s: %s %s given twice, expected once",
                              path, what, locus_name_quote(twice).text)
                 : LOCUS_OK;
}

/* Header, metadata and tensor table, padded to where the tensor data start. */
static void put_head(const struct locus_checkpoint_writer *writer, struct locus_buffer *head)
{
    static const char zeros[LOCUS_DEFAULT_ALIGNMENT];
    size_t n_tensors = writer->tensor_names.n;
    locus_buffer_append(head, "GGUF", 4);
    put_u32(head, VERSION);
    put_u64(head, n_tensors);
    put_u64(head, writer->keys.n);
    locus_buffer_append(head, writer->metadata.bytes, writer->metadata.length);
    uint64_t offset = 0;
    for (size_t i = 0; i < n_tensors; i++) {
        const struct locus_tensor *tensor = &writer->tensors[i];
        put_string(head, tensor->name, strlen(tensor->name));
        put_u32(head, (uint32_t)tensor->n_dims);
        for (int d = 0; d < tensor->n_dims; d++)
            put_u64(head, (uint64_t)tensor->dims[d]);
        put_u32(head, (uint32_t)tensor->type);
        put_u64(head, offset);
        offset += tensor->n_bytes + padding(tensor->n_bytes);
    }
    locus_buffer_append(head, zeros, padding(head->length));
}

void locus_writer_watch(struct locus_checkpoint_writer *writer, bool (*stopped)(void))
{
    writer->stopped = stopped;
}

/* A tensor's bytes, piece by piece. */
static enum locus_status write_tensor(const struct locus_checkpoint_writer *writer,
                                      const struct locus_tensor *tensor,
                                      struct locus_output_file *output, locus_error *error)
{
    enum { PIECE = 8 << 20 };
    enum locus_status status = LOCUS_OK;
    for (size_t done = 0, n; done < tensor->n_bytes && !status; done += n) {
        n = tensor->n_bytes - done < PIECE ? tensor->n_bytes - done : PIECE;
        if (writer->stopped && writer->stopped())
            return locus_fail(error, LOCUS_ERROR_IO, "%s: stopped before it was whole",
                              output->path);
        status = locus_output_write(output, (const char *)tensor->data + done, n, error);
    }
    return status;
}

static enum locus_status write_all(const struct locus_checkpoint_writer *writer,
                                   const struct locus_buffer *head,
                                   struct locus_output_file *output, locus_error *error)
{
    static const char zeros[LOCUS_DEFAULT_ALIGNMENT];
    enum locus_status status = locus_output_write(output, head->bytes, head->length, error);
    for (size_t i = 0; i < writer->tensor_names.n && status == LOCUS_OK; i++) {
        const struct locus_tensor *tensor = &writer->tensors[i];
        status = write_tensor(writer, tensor, output, error);
        if (status == LOCUS_OK)
            status = locus_output_write(output, zeros, padding(tensor->n_bytes), error);
    }
    return status;
}

enum locus_status locus_writer_finish(struct locus_checkpoint_writer *writer, const char *path,
                                      locus_error *error)
{
    enum locus_status status = writer->problem.status;
    if (status) return locus_fail(error, status, "%s: %s", path, writer->problem.message);
    if ((status = check_unique(&writer->keys, "key", path, error))) return status;
    if ((status = check_unique(&writer->tensor_names, "tensor", path, error))) return status;
    struct locus_buffer head = {0};
    if (!writer->metadata.failed) put_head(writer, &head);
    struct locus_output_file output;
    if (writer->metadata.failed || head.failed)
        status = locus_fail_memory(error, writer->metadata.length);
    else
        status = locus_output_begin(&output, path, error);
    if (status == LOCUS_OK) {
        status = write_all(writer, &head, &output, error);
        if (status == LOCUS_OK)
            status = locus_output_commit(&output, error);
        else
            locus_output_abort(&output);
    }
    locus_buffer_free(&head);
    return status;
}
