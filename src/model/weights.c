/* Weights: each tensor the configuration calls for, checked against it, packed. See model.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/threads.h"
#include "model/loading.h"

const char *locus_loading_path(const struct locus_loading *loading)
{
    return locus_checkpoint_path(loading->model->checkpoint);
}

const struct locus_tensor *locus_loading_find(const struct locus_loading *loading, const char *name)
{
    const struct locus_checkpoint *checkpoint = loading->model->checkpoint;
    const struct locus_tensor *tensor = locus_checkpoint_tensor(checkpoint, name);
    if (tensor && loading->claimed[locus_checkpoint_tensor_index(checkpoint, tensor)]) return NULL;
    return tensor;
}

enum locus_status locus_load_claim(struct locus_loading *loading, const char *name, int rows,
                                   int cols, bool needed, const struct locus_tensor **found)
{
    const struct locus_checkpoint *checkpoint = loading->model->checkpoint;
    const struct locus_tensor *tensor = locus_checkpoint_tensor(checkpoint, name);
    *found = tensor;
    if (!tensor)
        return needed ? locus_fail(loading->error, LOCUS_ERROR_FORMAT, "%s: tensor %s is missing",
                                   locus_loading_path(loading), name)
                      : LOCUS_OK;
    int64_t n_rows = tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
    if (tensor->dims[0] != cols || n_rows != (rows ? rows : 1))
        return locus_fail(loading->error, LOCUS_ERROR_FORMAT,
                          "%s: tensor %s is [%lld, %lld], expected [%d, %d]",
                          locus_loading_path(loading), name, (long long)n_rows,
                          (long long)tensor->dims[0], rows ? rows : 1, cols);
    loading->claimed[locus_checkpoint_tensor_index(checkpoint, tensor)] = true;
    return LOCUS_OK;
}

static void drop_rows(const void *context, const unsigned char *rows, size_t n_bytes)
{
    const struct locus_mapped_file *file = context;
    locus_file_drop(file, (size_t)(rows - file->bytes), n_bytes);
}

/* Room for the panels of all matrices side by side, so that large pages and the CPU's prefetching
 * go on from one to the next. Where it can't be had, each is allocated by itself. */
static void reserve_room(struct locus_loading *loading)
{
    enum { LEAST_ROWS = 256, SPLITS = 2, ALIGNMENT = 64 };
    const struct locus_checkpoint *checkpoint = loading->model->checkpoint;
    size_t total = 0;
    for (size_t i = 0; i < locus_checkpoint_n_tensors(checkpoint); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(checkpoint, i);
        const int64_t rows = tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
        if (rows < LEAST_ROWS || rows > INT_MAX || tensor->dims[0] > INT_MAX) continue;
        /* Fused rows that are taken apart end in a panel each. */
        size_t n_panels = (size_t)(rows - 1) / LOCUS_PANEL + 1 + SPLITS, n_bytes;
        if (!locus_mul_size(n_panels,
                            locus_panel_bytes(locus_traits_of(tensor->type), (int)tensor->dims[0]),
                            &n_bytes) ||
            n_bytes > SIZE_MAX / 4 - total)
            return;
        total += n_bytes + (SPLITS + 1) * ALIGNMENT;
    }
    if (!total || !(loading->model->panels = locus_aligned_zalloc(total, 1))) return;
    locus_aligned_huge(loading->model->panels, total);
    loading->room_bytes = total;
}

/* Memory for the panels of a matrix; NULL: none is left. */
static void *take_room(struct locus_loading *loading, enum locus_tensor_type type, int rows,
                       int cols)
{
    enum { ALIGNMENT = 64 };
    const struct locus_weight weight = {.type = type, .rows = rows, .cols = cols};
    const size_t n_bytes = (locus_weight_bytes(&weight) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (n_bytes > loading->room_bytes - loading->room_used) return NULL;
    char *room = (char *)loading->model->panels + loading->room_used;
    loading->room_used += n_bytes;
    return room;
}

/* n_rows of a stored matrix from row `first` on, whose pages are dropped as they are read. */
static struct locus_row_source stored_rows(struct locus_loading *loading,
                                           const struct locus_tensor *tensor, int first, int n_rows)
{
    return (struct locus_row_source){
        .data = tensor->data,
        .first = first,
        .drop = drop_rows,
        .context = locus_checkpoint_file(loading->model->checkpoint),
        .room = take_room(loading, tensor->type, n_rows, (int)tensor->dims[0]),
    };
}

/* All pages of a tensor: those between two runs of rows, too, which packing had to leave. */
void locus_loading_drop(const struct locus_loading *loading, const struct locus_tensor *tensor)
{
    const struct locus_mapped_file *file = locus_checkpoint_file(loading->model->checkpoint);
    locus_file_drop(file, (size_t)(tensor->data - file->bytes), tensor->n_bytes);
}

/* A tensor of [rows, cols] as floats. */
enum locus_status locus_load_floats(struct locus_loading *loading,
                                    const struct locus_tensor *tensor, float **values)
{
    size_t cols = (size_t)tensor->dims[0], n_values;
    size_t rows = (size_t)(tensor->dims[1] * tensor->dims[2] * tensor->dims[3]);
    *values = NULL;
    if (!locus_mul_size(rows, cols, &n_values) ||
        !(*values = locus_aligned_zalloc(n_values, sizeof **values)))
        return locus_fail_memory(loading->error, rows * cols * sizeof **values);
    size_t row_bytes = tensor->n_bytes / rows;
    for (size_t r = 0; r < rows; r++)
        locus_dequantize_row(*values + r * cols, tensor->data + r * row_bytes, tensor->type, cols);
    return LOCUS_OK;
}

enum locus_status locus_load_vector(struct locus_loading *loading, const char *name, int n,
                                    bool needed, float **values)
{
    const struct locus_tensor *tensor;
    enum locus_status status = locus_load_claim(loading, name, 0, n, needed, &tensor);
    return status || !tensor ? status : locus_load_floats(loading, tensor, values);
}

enum locus_status locus_load_ones(const struct locus_loading *loading, int n, float **values)
{
    *values = locus_aligned_zalloc((size_t)n, sizeof **values);
    if (!*values) return locus_fail_memory(loading->error, (size_t)n * sizeof **values);
    for (int i = 0; i < n; i++)
        (*values)[i] = 1;
    return LOCUS_OK;
}

enum locus_status locus_load_norm(struct locus_loading *loading, const char *prefix, int n,
                                  bool needed, struct locus_norm_weights *norm)
{
    char name[80];
    snprintf(name, sizeof name, "%s.weight", prefix);
    const bool bare = needed && loading->model->architecture->bare_norms;
    enum locus_status status = locus_load_vector(loading, name, n, needed && !bare, &norm->weight);
    if (!status && bare && !norm->weight) return locus_load_ones(loading, n, &norm->weight);
    if (status || !norm->weight) return status;
    snprintf(name, sizeof name, "%s.bias", prefix);
    return locus_load_vector(loading, name, n, false, &norm->bias);
}

/* Threads to pack a matrix with: waking them costs more than a small one does. */
static int pack_threads(const struct locus_loading *loading, int rows, int cols)
{
    enum { SMALL = 1 << 18 };
    return (int64_t)rows * cols < SMALL ? 1 : loading->n_threads;
}

/* n rows of a stored matrix from row `first` on, packed. */
static enum locus_status pack(struct locus_loading *loading, const struct locus_tensor *tensor,
                              int first, int n, struct locus_weight *weight)
{
    const int cols = (int)tensor->dims[0];
    return locus_weight_pack(weight, tensor->type, n, cols, stored_rows(loading, tensor, first, n),
                             pack_threads(loading, n, cols), loading->error);
}

/* The bias of a matrix of n_rows rows, where there is one, cut as the matrix is. */
static enum locus_status load_biases(struct locus_loading *loading, const char *name, int n_rows,
                                     const struct locus_rows *parts, int n_parts)
{
    float *bias = NULL;
    const struct locus_tensor *tensor = locus_loading_find(loading, name);
    if (!tensor) return LOCUS_OK;
    const bool by_part = tensor->n_dims > 1; /* experts': one's after another's */
    enum locus_status status = locus_load_claim(loading, name, by_part ? n_parts : 0,
                                                by_part ? parts[0].n : n_rows, true, &tensor);
    if (status || (status = locus_load_floats(loading, tensor, &bias))) return status;
    for (int part = 0, first = 0; part < n_parts && !status; first += parts[part++].n) {
        const size_t n = (size_t)parts[part].n;
        float *own = locus_aligned_zalloc(n, sizeof *own);
        if (own)
            memcpy(own, bias + first, n * sizeof *own);
        else
            status = locus_fail_memory(loading->error, n * sizeof *own);
        parts[part].linear->bias = own;
    }
    locus_aligned_free(bias);
    return status;
}

enum locus_status locus_load_linear(struct locus_loading *loading, const char *prefix,
                                    const struct locus_rows *parts, int n_parts, int cols,
                                    bool needed)
{
    char name[80];
    const struct locus_tensor *tensor;
    int n_rows = 0;
    for (int part = 0; part < n_parts; part++)
        n_rows += parts[part].n;
    snprintf(name, sizeof name, "%s.weight", prefix);
    enum locus_status status = locus_load_claim(loading, name, n_rows, cols, needed, &tensor);
    if (status || !tensor) return status;
    for (int part = 0, first = 0; part < n_parts && !status; first += parts[part++].n)
        status = pack(loading, tensor, first, parts[part].n, &parts[part].linear->weight);
    if (status) return status;
    locus_loading_drop(loading, tensor);
    snprintf(name, sizeof name, "%s.bias", prefix);
    return load_biases(loading, name, n_rows, parts, n_parts);
}

static enum locus_status load_embedding(struct locus_loading *loading)
{
    struct locus_model *model = loading->model;
    const int n_vocab = model->config.n_vocab;
    const struct locus_tensor *tensor;
    enum locus_status status = locus_load_claim(loading, "token_embd.weight", n_vocab,
                                                model->config.n_embd, true, &tensor);
    if (status || (status = pack(loading, tensor, 0, n_vocab, &model->embedding))) return status;
    locus_loading_drop(loading, tensor);
    return LOCUS_OK;
}

static enum locus_status load_all(struct locus_loading *loading)
{
    struct locus_model *model = loading->model;
    struct locus_config *config = &model->config;
    const struct locus_tensor *embedding =
        locus_checkpoint_tensor(model->checkpoint, "token_embd.weight");
    /* The embedding's rows are the truth about the vocabulary. */
    config->n_vocab = embedding && embedding->dims[1] <= INT_MAX ? (int)embedding->dims[1] : 1;
    enum locus_status status = load_embedding(loading);
    if (status) return status;
    if (config->embedding_norm &&
        (status = locus_load_norm(loading, "token_embd_norm", config->n_embd, true,
                                  &model->embedding_norm)))
        return status;
    model->layers = calloc((size_t)config->n_layer, sizeof *model->layers);
    if (!model->layers)
        return locus_fail_memory(loading->error, (size_t)config->n_layer * sizeof *model->layers);
    for (int i = 0; i < config->n_layer; i++)
        if ((status = locus_load_layer(loading, i))) return status;
    if ((status = locus_check_layers_agree(loading))) return status;
    /* Where each sum is normed, the last one is. */
    const bool needed = config->norm_position != LOCUS_NORM_SUM;
    const struct locus_rows head = {&model->head, config->n_vocab};
    if ((status = locus_load_norm(loading, "output_norm", config->n_embd, needed,
                                  &model->output_norm)) ||
        (status = locus_load_linear(loading, "output", &head, 1, config->n_embd, false)))
        return status;
    return locus_load_extras(loading);
}

enum locus_status locus_model_load_weights(struct locus_model *model, locus_error *error)
{
    size_t n = locus_checkpoint_n_tensors(model->checkpoint);
    struct locus_loading loading = {.model = model,
                                    .claimed = calloc(n ? n : 1, sizeof(bool)),
                                    .n_threads = locus_threads_default(),
                                    .error = error};
    if (!loading.claimed) return locus_fail_memory(error, n);
    reserve_room(&loading);
    enum locus_status status = load_all(&loading);
    free(loading.claimed);
    return status;
}

void locus_linear_free(struct locus_linear *linear)
{
    locus_weight_free(&linear->weight);
    locus_aligned_free(linear->bias);
    *linear = (struct locus_linear){0}; /* a part of two rows is freed twice */
}

void locus_norm_free(struct locus_norm_weights *norm)
{
    locus_aligned_free(norm->weight);
    locus_aligned_free(norm->bias);
}

void locus_model_free_weights(struct locus_model *model)
{
    locus_weight_free(&model->embedding);
    locus_norm_free(&model->embedding_norm);
    locus_norm_free(&model->output_norm);
    locus_linear_free(&model->head);
    for (int i = 0; model->layers && i < model->config.n_layer; i++)
        locus_layer_free(&model->layers[i], &model->config.layers[i]);
    free(model->layers);
    for (size_t i = 0; i < model->n_extras; i++)
        locus_aligned_free(model->extras[i].values);
    free(model->extras);
    locus_aligned_free(model->panels);
}
