/* Quantising a checkpoint: see quantize.h.
 *
 *     keys, copied -> tensors, as they are or row by row to floats and to the new type -> file
 */
#include "model/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "kernels/weight_type.h"

/* ---- one tensor --------------------------------------------------------------------------- */

static size_t n_rows(const struct locus_tensor *tensor)
{
    return (size_t)(tensor->dims[1] * tensor->dims[2] * tensor->dims[3]);
}

struct conversion {
    const struct locus_mapped_file *file; /* whose pages are let go as they have been read */
    const struct locus_tensor *tensor;
    enum locus_tensor_type type;
    unsigned char *out;
    int n_rows;
    float *rows; /* [n_threads, dims[0]] */
    bool *bad;   /* [n_threads]: a value the type can't hold */
};

/* Whether all of x can be had in the type. */
static bool fits(const float *x, size_t n, enum locus_tensor_type type)
{
    const float limit = locus_weight_type(type)->limit;
    bool good = true;
    for (size_t i = 0; i < n; i++)
        good &= fabsf(x[i]) <= limit && isfinite(x[i]);
    return good;
}

static void convert_share(void *context, int thread, int n_threads)
{
    enum { DROP_BYTES = 1024 * 1024 };
    struct conversion *conversion = context;
    const struct locus_tensor *tensor = conversion->tensor;
    const size_t cols = (size_t)tensor->dims[0];
    const size_t row_bytes = locus_tensor_row_bytes(tensor->type, cols);
    const size_t rows_a_drop = row_bytes < DROP_BYTES ? DROP_BYTES / row_bytes : 1;
    float *row = conversion->rows + (size_t)thread * cols;
    int first, end;
    locus_threads_share(conversion->n_rows, thread, n_threads, &first, &end);
    for (size_t r = (size_t)first, kept = r; r < (size_t)end; r++) {
        locus_dequantize_row(row, tensor->data + r * row_bytes, tensor->type, cols);
        conversion->bad[thread] |= !fits(row, cols, conversion->type);
        locus_encode_row(conversion->out + r * locus_tensor_row_bytes(conversion->type, cols),
                         conversion->type, row, cols);
        if (r + 1 - kept < rows_a_drop && r + 1 < (size_t)end) continue;
        locus_file_drop(conversion->file,
                        (size_t)(tensor->data - conversion->file->bytes) + kept * row_bytes,
                        (r + 1 - kept) * row_bytes);
        kept = r + 1;
    }
}

/* The tensor's bytes in that type, for the caller to locus_aligned_free. */
static enum locus_status convert(const struct locus_mapped_file *file,
                                 const struct locus_tensor *tensor, enum locus_tensor_type type,
                                 int n_threads, unsigned char **out, locus_error *error)
{
    struct conversion conversion = {
        .file = file, .tensor = tensor, .type = type, .n_rows = (int)n_rows(tensor)};
    size_t cols = (size_t)tensor->dims[0];
    conversion.out = locus_aligned_zalloc(n_rows(tensor), locus_tensor_row_bytes(type, cols));
    conversion.rows = locus_aligned_zalloc((size_t)n_threads, cols * sizeof(float));
    conversion.bad = calloc((size_t)n_threads, sizeof *conversion.bad);
    enum locus_status status = LOCUS_OK;
    if (conversion.out && conversion.rows && conversion.bad) {
        locus_threads_run(n_threads, convert_share, &conversion);
        for (int thread = 0; thread < n_threads && !status; thread++)
            if (conversion.bad[thread])
                status = locus_fail(error, LOCUS_ERROR_NUMERIC,
                                    "%s holds a value that is not finite or past the range of %s",
                                    tensor->name, locus_tensor_type_find((uint32_t)type)->name);
    } else {
        status = locus_fail_memory(error, n_rows(tensor) * locus_tensor_row_bytes(type, cols));
    }
    locus_aligned_free(conversion.rows);
    free(conversion.bad);
    if (status)
        locus_aligned_free(conversion.out);
    else
        *out = conversion.out;
    return status;
}

/* ---- the file ----------------------------------------------------------------------------- */

static void copy_metadata(struct locus_checkpoint_writer *writer,
                          const struct locus_checkpoint *from, const struct locus_recipe *recipe)
{
    enum { QUANTIZATION_VERSION = 2 };
    for (size_t i = 0; i < locus_checkpoint_n_keys(from); i++) {
        const char *key = locus_checkpoint_key_at(from, i);
        if (strcmp(key, "general.file_type") && strcmp(key, "general.quantization_version"))
            locus_writer_copy(writer, from, key);
    }
    locus_writer_u32(writer, "general.file_type", (uint32_t)recipe->file_type);
    if (locus_tensor_is_quantised(recipe->type))
        locus_writer_u32(writer, "general.quantization_version", QUANTIZATION_VERSION);
}

/* Adds every tensor; converted[i] is what was made for tensor i, or NULL. */
static enum locus_status add_tensors(struct locus_quantize *job,
                                     struct locus_checkpoint_writer *writer,
                                     const struct locus_checkpoint *from, unsigned char **converted,
                                     locus_error *error)
{
    const int n_threads = job->n_threads > 0 ? job->n_threads : locus_threads_default();
    const struct locus_recipe_facts facts = locus_recipe_facts_of(from);
    for (size_t i = 0; i < locus_checkpoint_n_tensors(from); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(from, i);
        bool fallback;
        const enum locus_tensor_type type =
            locus_recipe_type(job->recipe, job->pure, &facts, tensor, &fallback);
        enum locus_status status = LOCUS_OK;
        if (job->stopped && job->stopped())
            return locus_fail(error, LOCUS_ERROR_IO, "stopped before anything was written");
        if (type != tensor->type)
            status =
                convert(locus_checkpoint_file(from), tensor, type, n_threads, &converted[i], error);
        if (status) return status;
        job->n_fallbacks[type] += fallback;
        job->bytes_before += tensor->n_bytes;
        job->bytes_after += n_rows(tensor) * locus_tensor_row_bytes(type, (size_t)tensor->dims[0]);
        locus_writer_tensor(writer, tensor->name, type, tensor->n_dims, tensor->dims,
                            converted[i] ? converted[i] : tensor->data);
    }
    return LOCUS_OK;
}

enum locus_status locus_quantize(struct locus_quantize *job, const char *in, const char *out,
                                 locus_error *error)
{
    locus_error found = {.status = LOCUS_OK};
    struct locus_checkpoint *from = locus_checkpoint_open(in, &found);
    struct locus_checkpoint_writer *writer = from ? locus_writer_create(&found) : NULL;
    size_t n_tensors = from ? locus_checkpoint_n_tensors(from) : 0;
    unsigned char **converted = calloc(n_tensors + 1, sizeof *converted);
    if (!converted) locus_fail_memory(&found, n_tensors * sizeof *converted);
    if (writer && converted) {
        copy_metadata(writer, from, job->recipe);
        locus_writer_watch(writer, job->stopped);
        if (!add_tensors(job, writer, from, converted, &found))
            locus_writer_finish(writer, out, &found);
    }
    for (size_t i = 0; converted && i < n_tensors; i++)
        locus_aligned_free(converted[i]);
    free(converted);
    locus_writer_free(writer);
    locus_checkpoint_free(from);
    if (!found.status) return LOCUS_OK;
    return locus_fail(error, found.status, "%s", found.message);
}
