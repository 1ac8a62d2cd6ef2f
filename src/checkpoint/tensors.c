/* The tensor table: every tensor's shape, type and place checked before its pointer is made. */
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/internal.h"

enum { MIN_ALIGNMENT = 8, MAX_ALIGNMENT = 1 << 20 };

/* general.alignment, or GGUF's default. */
static bool find_alignment(const struct locus_checkpoint *checkpoint, struct locus_cursor *cursor,
                           uint64_t *alignment)
{
    static const char key[] = "general.alignment";
    int64_t value = LOCUS_DEFAULT_ALIGNMENT;
    bool is_int = locus_checkpoint_int(checkpoint, key, &value);
    *alignment = (uint64_t)value;
    if (!is_int && !locus_checkpoint_has(checkpoint, key)) return true;
    cursor->section = "key";
    cursor->name = key;
    if (!is_int)
        return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                                   "is not an integer, expected a power of two from %d to %d",
                                   MIN_ALIGNMENT, MAX_ALIGNMENT);
    if (value < MIN_ALIGNMENT || value > MAX_ALIGNMENT || (value & (value - 1)))
        return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                                   "is %lld, expected a power of two from %d to %d",
                                   (long long)value, MIN_ALIGNMENT, MAX_ALIGNMENT);
    return true;
}

static bool read_type(struct locus_cursor *cursor, enum locus_tensor_type *type)
{
    uint32_t number;
    if (!locus_cursor_u32(cursor, "the type", &number)) return false;
    const struct locus_tensor_type_info *info = locus_tensor_type_find(number);
    if (!info) {
        const char *name = locus_foreign_type_name(number);
        char known[128] = "";
        size_t n = 0;
        for (size_t t = 0; (info = locus_tensor_type_at(t)); t++)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", t ? ", " : "", info->name);
        return locus_cursor_refuse(cursor, LOCUS_ERROR_UNSUPPORTED,
                                   "type %u (%s) is not supported: locus reads %s", number,
                                   name ? name : "unknown", known);
    }
    *type = info->type;
    return true;
}

/* One row of the table, all but its data pointer. */
static bool read_record(struct locus_checkpoint *checkpoint, struct locus_cursor *cursor)
{
    void *table = checkpoint->tensors;
    if (!locus_cursor_grow(cursor, &table, checkpoint->n_tensors, &checkpoint->tensor_capacity,
                           sizeof *checkpoint->tensors))
        return false;
    checkpoint->tensors = table;
    struct locus_tensor_record *record = &checkpoint->tensors[checkpoint->n_tensors];
    struct locus_tensor *tensor = &record->tensor;
    char *name;
    uint32_t n_dims;
    if (!locus_cursor_name(cursor, LOCUS_MAX_TENSOR_NAME_BYTES, &name)) return false;
    tensor->name = name;
    checkpoint->n_tensors++; /* from here on freed with the others */
    if (!locus_cursor_u32(cursor, "the count of dimensions", &n_dims)) return false;
    if (n_dims < 1 || n_dims > LOCUS_MAX_DIMS)
        return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT, "%u dimensions, expected 1 to %d",
                                   n_dims, LOCUS_MAX_DIMS);
    tensor->n_dims = (int)n_dims;
    for (int i = 0; i < tensor->n_dims; i++) {
        uint64_t dim;
        if (!locus_cursor_u64(cursor, "a dimension", &dim)) return false;
        tensor->dims[i] = (int64_t)dim;
    }
    struct locus_problem problem;
    if (!read_type(cursor, &tensor->type)) return false;
    if (!locus_tensor_measure(tensor, &problem))
        return locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT, "%s", problem.text);
    return locus_cursor_u64(cursor, "the offset", &record->offset);
}

/* Sets the data pointers, once it is known where the data start. */
static bool place(struct locus_checkpoint *checkpoint, struct locus_cursor *cursor,
                  uint64_t alignment)
{
    uint64_t data_start = (cursor->at + alignment - 1) / alignment * alignment;
    uint64_t room = data_start < cursor->size ? cursor->size - data_start : 0;
    for (size_t i = 0; i < checkpoint->n_tensors; i++) {
        struct locus_tensor_record *record = &checkpoint->tensors[i];
        struct locus_tensor *tensor = &record->tensor;
        cursor->name = tensor->name;
        if (record->offset % alignment)
            return locus_cursor_refuse(
                cursor, LOCUS_ERROR_FORMAT, "offset is %llu, expected a multiple of %llu",
                (unsigned long long)record->offset, (unsigned long long)alignment);
        if (record->offset > room || tensor->n_bytes > room - record->offset)
            return locus_cursor_refuse(
                cursor, LOCUS_ERROR_FORMAT,
                "truncated: %zu bytes at offset %llu of the tensor data, the file has %llu there",
                tensor->n_bytes, (unsigned long long)record->offset, (unsigned long long)room);
        tensor->data = cursor->bytes + data_start + record->offset;
    }
    return true;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct locus_tensor_record *left = *(const struct locus_tensor_record *const *)a;
    const struct locus_tensor_record *right = *(const struct locus_tensor_record *const *)b;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

static bool check_overlap(const struct locus_checkpoint *checkpoint, struct locus_cursor *cursor)
{
    size_t n = checkpoint->n_tensors;
    const struct locus_tensor_record **sorted = malloc(n * sizeof *sorted);
    if (!sorted) {
        locus_fail_memory(cursor->error, n * sizeof *sorted);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        sorted[i] = &checkpoint->tensors[i];
    qsort(sorted, n, sizeof *sorted, compare_offsets);
    bool apart = true;
    for (size_t i = 1; i < n && apart; i++) {
        const struct locus_tensor_record *left = sorted[i - 1], *right = sorted[i];
        if (right->offset - left->offset >= left->tensor.n_bytes) continue;
        cursor->name = right->tensor.name;
        apart = locus_cursor_refuse(
            cursor, LOCUS_ERROR_FORMAT, "offset %llu overlaps tensor %s, expected %llu or more",
            (unsigned long long)right->offset, locus_name_quote(left->tensor.name).text,
            (unsigned long long)left->offset + left->tensor.n_bytes);
    }
    free(sorted);
    return apart;
}

static bool check_names(struct locus_checkpoint *checkpoint, struct locus_cursor *cursor)
{
    size_t n = checkpoint->n_tensors;
    checkpoint->tensor_names = malloc(n * sizeof *checkpoint->tensor_names);
    if (!checkpoint->tensor_names) {
        locus_fail_memory(cursor->error, n * sizeof *checkpoint->tensor_names);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        checkpoint->tensor_names[i] = (struct locus_name){checkpoint->tensors[i].tensor.name, i};
    cursor->name = locus_names_sort(checkpoint->tensor_names, n);
    return !cursor->name ||
           locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT, "occurs twice, expected once");
}

bool locus_tensors_read(struct locus_checkpoint *checkpoint, struct locus_cursor *cursor,
                        uint64_t n_tensors)
{
    uint64_t alignment;
    if (!find_alignment(checkpoint, cursor, &alignment)) return false;
    cursor->section = "tensor";
    cursor->count = (size_t)n_tensors;
    for (uint64_t i = 0; i < n_tensors; i++) {
        cursor->index = (size_t)i + 1;
        cursor->name = NULL;
        if (!read_record(checkpoint, cursor)) return false;
    }
    return !n_tensors || (check_names(checkpoint, cursor) && place(checkpoint, cursor, alignment) &&
                          check_overlap(checkpoint, cursor));
}

void locus_tensors_free(struct locus_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->n_tensors; i++)
        free((void *)(uintptr_t)checkpoint->tensors[i].tensor.name);
    free(checkpoint->tensors);
    free(checkpoint->tensor_names);
}

size_t locus_checkpoint_n_tensors(const struct locus_checkpoint *checkpoint)
{
    return checkpoint->n_tensors;
}

const struct locus_tensor *locus_checkpoint_tensor_at(const struct locus_checkpoint *checkpoint,
                                                      size_t index)
{
    return &checkpoint->tensors[index].tensor;
}

const struct locus_tensor *locus_checkpoint_tensor(const struct locus_checkpoint *checkpoint,
                                                   const char *name)
{
    const struct locus_name *found =
        locus_names_find(checkpoint->tensor_names, checkpoint->n_tensors, name);
    return found ? &checkpoint->tensors[found->index].tensor : NULL;
}

size_t locus_checkpoint_tensor_index(const struct locus_checkpoint *checkpoint,
                                     const struct locus_tensor *tensor)
{
    /* The tensor is the first member of its record. */
    return (size_t)((const struct locus_tensor_record *)(const void *)tensor - checkpoint->tensors);
}
