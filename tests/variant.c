/* Variants of a checkpoint: see variant.h. */
#include "variant.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "kernels/quant.h"
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

/* ---- number formats, in the plainest way --------------------------------------------------- */

static uint16_t to_bfloat(float value)
{
    uint32_t bits = locus_bits_of(value);
    return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static void to_q8_0(struct locus_q8_0 *block, const float *values)
{
    float largest = 0;
    for (int i = 0; i < LOCUS_BLOCK; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    float scale = largest / 127;
    block->scale = locus_float_to_half(scale);
    for (int i = 0; i < LOCUS_BLOCK; i++)
        block->q[i] = (int8_t)(scale > 0 ? roundf(values[i] / scale) : 0);
}

static int to_nibble(float value, float scale)
{
    float q = scale != 0 ? roundf(value / scale) : 0;
    return (int)fminf(fmaxf(q, -8), 7) + 8;
}

static void to_q4_0(struct locus_q4_0 *block, const float *values)
{
    float largest = 0;
    for (int i = 0; i < LOCUS_BLOCK; i++)
        largest = fabsf(values[i]) > fabsf(largest) ? values[i] : largest;
    float scale = largest / -8;
    block->scale = locus_float_to_half(scale);
    for (int i = 0; i < LOCUS_BLOCK / 2; i++)
        block->q[i] = (uint8_t)(to_nibble(values[i], scale) |
                                to_nibble(values[i + LOCUS_BLOCK / 2], scale) << 4);
}

static void *convert(const float *values, size_t n, enum locus_tensor_type type)
{
    void *block = malloc(n * sizeof *values);
    ck_assert_ptr_nonnull(block);
    uint16_t *halves = block;
    struct locus_q8_0 *q8 = block;
    struct locus_q4_0 *q4 = block;
    if (type == LOCUS_F32) memcpy(block, values, n * sizeof *values);
    for (size_t i = 0; i < n && (type == LOCUS_F16 || type == LOCUS_BF16); i++)
        halves[i] = type == LOCUS_F16 ? locus_float_to_half(values[i]) : to_bfloat(values[i]);
    for (size_t i = 0; i < n / LOCUS_BLOCK && type == LOCUS_Q8_0; i++)
        to_q8_0(&q8[i], values + i * LOCUS_BLOCK);
    for (size_t i = 0; i < n / LOCUS_BLOCK && type == LOCUS_Q4_0; i++)
        to_q4_0(&q4[i], values + i * LOCUS_BLOCK);
    return block;
}

void variant_add(struct variant *variant, const char *name, enum locus_tensor_type type, int rows,
                 int cols, const float *values)
{
    ck_assert_uint_lt(variant->n_blocks, MAX_BLOCKS);
    void *block = convert(values, (size_t)(rows ? rows : 1) * (size_t)cols, type);
    variant->blocks[variant->n_blocks++] = block;
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
