/* Variants of a checkpoint: see variant.h. */
#include "variant.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "kernels/formats.h"
#include "testing.h"

enum { MAX_BLOCKS = 256, MAX_DROPPED = 256 };

struct variant {
    struct locus_checkpoint *from;
    struct locus_checkpoint_writer *writer;
    void *blocks[MAX_BLOCKS];
    size_t n_blocks;
    const char *dropped[MAX_DROPPED];
    size_t n_dropped;
};

struct variant *variant_begin(const char *path)
{
    locus_error error = {0};
    struct variant *variant = calloc(1, sizeof *variant);
    ck_assert_ptr_nonnull(variant);
    if (!path) {
        path = testing_temporary("original.gguf");
        hostile_write_checkpoint(path);
    }
    variant->from = locus_checkpoint_open(path, &error);
    ck_assert_msg(variant->from != NULL, "%s", error.message);
    variant->writer = locus_writer_create(&error);
    ck_assert_ptr_nonnull(variant->writer);
    return variant;
}

void variant_drop(struct variant *variant, const char *name)
{
    ck_assert_msg(locus_checkpoint_has(variant->from, name) ||
                      locus_checkpoint_tensor(variant->from, name),
                  "there is no %s to drop", name);
    ck_assert_uint_lt(variant->n_dropped, MAX_DROPPED);
    variant->dropped[variant->n_dropped++] = name;
}

void variant_drop_keys(struct variant *variant, const char *prefix)
{
    const size_t before = variant->n_dropped;
    for (size_t i = 0; i < locus_checkpoint_n_keys(variant->from); i++) {
        const char *key = locus_checkpoint_key_at(variant->from, i);
        if (!strncmp(key, prefix, strlen(prefix))) variant_drop(variant, key);
    }
    ck_assert_msg(variant->n_dropped > before, "there is no key %s... to drop", prefix);
}

struct locus_checkpoint_writer *variant_writer(struct variant *variant)
{
    return variant->writer;
}

float *variant_floats(const struct variant *variant, const char *name, int *rows, int *cols)
{
    const struct locus_tensor *tensor = locus_checkpoint_tensor(variant->from, name);
    ck_assert_msg(tensor != NULL, "there is no tensor %s", name);
    *rows = (int)tensor->dims[1];
    *cols = (int)tensor->dims[0];
    size_t n = (size_t)*rows * (size_t)*cols;
    float *values = malloc(n * sizeof *values);
    ck_assert_ptr_nonnull(values);
    locus_dequantize_row(values, tensor->data, tensor->type, n);
    return values;
}

/* ---- adding -------------------------------------------------------------------------------- */

void variant_add(struct variant *variant, const char *name, enum locus_tensor_type type, int rows,
                 int cols, const float *values)
{
    ck_assert_uint_lt(variant->n_blocks, MAX_BLOCKS);
    size_t n = (size_t)(rows ? rows : 1) * (size_t)cols;
    void *block = malloc(n * sizeof *values);
    ck_assert_ptr_nonnull(block);
    variant->blocks[variant->n_blocks++] = block;
    locus_encode_row(block, type, values, n); /* the rows lie one after another */
    const int64_t dims[] = {cols, rows};
    locus_writer_tensor(variant->writer, name, type, rows ? 2 : 1, dims, block);
}

void variant_convert(struct variant *variant, enum locus_tensor_type type)
{
    for (size_t i = 0; i < locus_checkpoint_n_tensors(variant->from); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(variant->from, i);
        if (tensor->n_dims < 2) continue;
        int rows, cols;
        float *values = variant_floats(variant, tensor->name, &rows, &cols);
        variant_drop(variant, tensor->name);
        variant_add(variant, tensor->name, type, rows, cols, values);
        free(values);
    }
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool is_dropped(const struct variant *variant, const char *name)
{
    for (size_t i = 0; i < variant->n_dropped; i++)
        if (!strcmp(variant->dropped[i], name)) return true;
    return false;
}

const char *variant_finish(struct variant *variant)
{
    locus_error error = {0};
    const char *path = testing_temporary("variant.gguf");
    for (size_t i = 0; i < locus_checkpoint_n_keys(variant->from); i++) {
        const char *key = locus_checkpoint_key_at(variant->from, i);
        if (!is_dropped(variant, key)) locus_writer_copy(variant->writer, variant->from, key);
    }
    for (size_t i = 0; i < locus_checkpoint_n_tensors(variant->from); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(variant->from, i);
        if (!is_dropped(variant, tensor->name))
            locus_writer_tensor(variant->writer, tensor->name, tensor->type, tensor->n_dims,
                                tensor->dims, tensor->data);
    }
    ck_assert_msg(locus_writer_finish(variant->writer, path, &error) == LOCUS_OK, "%s",
                  error.message);
    for (size_t i = 0; i < variant->n_blocks; i++)
        free(variant->blocks[i]);
    locus_writer_free(variant->writer);
    locus_checkpoint_free(variant->from);
    free(variant);
    return path;
}
