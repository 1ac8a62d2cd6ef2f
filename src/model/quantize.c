/* Quantising a checkpoint: see quantize.h.
 *
 *     keys, copied -> tensors, as they are or row by row to floats and to the new type -> file
 */
#include "model/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "kernels/weight_type.h"

/* ---- one tensor --------------------------------------------------------------------------- */

static size_t n_rows(const struct locus_tensor *tensor)
{
    return (size_t)(tensor->dims[1] * tensor->dims[2] * tensor->dims[3]);
}

struct conversion {
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
    struct conversion *conversion = context;
    const struct locus_tensor *tensor = conversion->tensor;
    const size_t cols = (size_t)tensor->dims[0];
    float *row = conversion->rows + (size_t)thread * cols;
    int first, end;
    locus_threads_share(conversion->n_rows, thread, n_threads, &first, &end);
    for (size_t r = (size_t)first; r < (size_t)end; r++) {
        locus_dequantize_row(row, tensor->data + r * locus_tensor_row_bytes(tensor->type, cols),
                             tensor->type, cols);
        conversion->bad[thread] |= !fits(row, cols, conversion->type);
        locus_encode_row(conversion->out + r * locus_tensor_row_bytes(conversion->type, cols),
                         conversion->type, row, cols);
    }
}

/* The tensor's bytes in that type, for the caller to locus_aligned_free. */
static enum locus_status convert(const struct locus_tensor *tensor, enum locus_tensor_type type,
                                 int n_threads, unsigned char **out, locus_error *error)
{
    struct conversion conversion = {.tensor = tensor, .type = type, .n_rows = (int)n_rows(tensor)};
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

/* Less than 8 bits a value. */
static bool is_small(const struct locus_tensor_type_info *info)
{
    return info->block_bytes < info->block_values;
}

/* A matrix that products read, or one of each expert; not a norm's weights a head, a router, the
 * taps of a convolution, or a position scheme's table, which are few and matter. */
static bool is_matrix(const struct locus_tensor *tensor)
{
    static const char *const kept[] = {"position_", "rope_", "_norm.", "ffn_gate_inp",
                                       "ssm_conv1d"};
    static const char ending[] = ".weight";
    const size_t length = strlen(tensor->name), end = sizeof ending - 1;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strstr(tensor->name, kept[i])) return false;
    return length > end && !strcmp(tensor->name + length - end, ending) && tensor->n_dims >= 2 &&
           tensor->dims[1] >= 2;
}

/* The type the tensor is to have. */
static enum locus_tensor_type choose_type(struct locus_quantize *job,
                                          const struct locus_tensor *tensor)
{
    const char *name = tensor->name;
    if (!is_matrix(tensor)) return tensor->type;
    enum locus_tensor_type type = job->type;
    bool ends = strcmp(name, "token_embd.weight") == 0 || strcmp(name, "output.weight") == 0;
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)type);
    if (is_small(info) && ends && !job->pure) type = LOCUS_Q8_0;
    if (tensor->dims[0] % locus_tensor_type_find((uint32_t)type)->block_values == 0) return type;
    job->n_fallbacks++;
    return LOCUS_F16;
}

static void copy_metadata(struct locus_checkpoint_writer *writer,
                          const struct locus_checkpoint *from, enum locus_tensor_type type)
{
    enum { QUANTIZATION_VERSION = 2 };
    for (size_t i = 0; i < locus_checkpoint_n_keys(from); i++) {
        const char *key = locus_checkpoint_key_at(from, i);
        if (strcmp(key, "general.file_type") && strcmp(key, "general.quantization_version"))
            locus_writer_copy(writer, from, key);
    }
    locus_writer_u32(writer, "general.file_type",
                     (uint32_t)locus_tensor_type_find((uint32_t)type)->file_type);
    if (locus_tensor_is_quantised(type))
        locus_writer_u32(writer, "general.quantization_version", QUANTIZATION_VERSION);
}

/* Adds every tensor; converted[i] is what was made for tensor i, or NULL. */
static enum locus_status add_tensors(struct locus_quantize *job,
                                     struct locus_checkpoint_writer *writer,
                                     const struct locus_checkpoint *from, unsigned char **converted,
                                     locus_error *error)
{
    int n_threads = job->n_threads > 0 ? job->n_threads : locus_threads_default();
    for (size_t i = 0; i < locus_checkpoint_n_tensors(from); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(from, i);
        enum locus_tensor_type type = choose_type(job, tensor);
        enum locus_status status = LOCUS_OK;
        if (job->stopped && job->stopped())
            return locus_fail(error, LOCUS_ERROR_IO, "stopped before anything was written");
        if (type != tensor->type) status = convert(tensor, type, n_threads, &converted[i], error);
        if (status) return status;
        job->bytes_before += tensor->n_bytes;
        job->bytes_after += n_rows(tensor) * locus_tensor_row_bytes(type, (size_t)tensor->dims[0]);
        locus_writer_tensor(writer, tensor->name, type, tensor->n_dims, tensor->dims,
                            converted[i] ? converted[i] : tensor->data);
    }
    return LOCUS_OK;
}

const struct locus_tensor_type_info *locus_quantize_type(size_t index)
{
    const struct locus_tensor_type_info *info;
    for (size_t t = 0; (info = locus_tensor_type_at(t)); t++)
        if (locus_weight_type(info->type)->encode && index-- == 0) return info;
    return NULL;
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
        copy_metadata(writer, from, job->type);
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
