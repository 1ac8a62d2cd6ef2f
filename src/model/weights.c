/* Weights: each tensor the configuration calls for, checked against it, packed. See model.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/threads.h"
#include "model/model.h"
#include "position/tensors.h"

/* The loading of one model: which tensors have found their place. */
struct loading {
    struct locus_model *model;
    bool *claimed; /* [n_tensors] */
    int n_threads;
    locus_error *error;
    size_t room_bytes, room_used; /* of model->panels */
};

static const char *path_of(const struct loading *loading)
{
    return locus_checkpoint_path(loading->model->checkpoint);
}

/* Finds and claims a tensor and checks that it is [rows, cols] (rows 0: a vector of cols values).
 * An absent one gives NULL: an error if it is needed. */
static enum locus_status claim(struct loading *loading, const char *name, int rows, int cols,
                               bool needed, const struct locus_tensor **found)
{
    const struct locus_checkpoint *checkpoint = loading->model->checkpoint;
    const struct locus_tensor *tensor = locus_checkpoint_tensor(checkpoint, name);
    *found = tensor;
    if (!tensor)
        return needed ? locus_fail(loading->error, LOCUS_ERROR_FORMAT, "%s: tensor %s is missing",
                                   path_of(loading), name)
                      : LOCUS_OK;
    int64_t n_rows = tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
    if (tensor->dims[0] != cols || n_rows != (rows ? rows : 1))
        return locus_fail(loading->error, LOCUS_ERROR_FORMAT,
                          "%s: tensor %s is [%lld, %lld], expected [%d, %d]", path_of(loading),
                          name, (long long)n_rows, (long long)tensor->dims[0], rows ? rows : 1,
                          cols);
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
static void reserve_room(struct loading *loading)
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
        if (!locus_mul_size(n_panels, locus_panel_bytes(tensor->type, (int)tensor->dims[0]),
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
static void *take_room(struct loading *loading, enum locus_tensor_type type, int rows, int cols)
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
static struct locus_row_source stored_rows(struct loading *loading,
                                           const struct locus_tensor *tensor, int first, int n_rows)
{
    return (struct locus_row_source){
        .data = tensor->data,
        .first = first,
        .group = n_rows,
        .stride = n_rows,
        .drop = drop_rows,
        .context = locus_checkpoint_file(loading->model->checkpoint),
        .room = take_room(loading, tensor->type, n_rows, (int)tensor->dims[0]),
    };
}

/* All pages of a tensor: those between two runs of rows, too, which packing had to leave. */
static void drop_pages(const struct loading *loading, const struct locus_tensor *tensor)
{
    const struct locus_mapped_file *file = locus_checkpoint_file(loading->model->checkpoint);
    locus_file_drop(file, (size_t)(tensor->data - file->bytes), tensor->n_bytes);
}

/* A tensor of [rows, cols] as floats. */
static enum locus_status to_floats(struct loading *loading, const struct locus_tensor *tensor,
                                   float **values)
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

static enum locus_status load_vector(struct loading *loading, const char *name, int n, bool needed,
                                     float **values)
{
    const struct locus_tensor *tensor;
    enum locus_status status = claim(loading, name, 0, n, needed, &tensor);
    return status || !tensor ? status : to_floats(loading, tensor, values);
}

/* prefix.weight and, where there is one, prefix.bias, [n_embd]. */
static enum locus_status load_norm(struct loading *loading, const char *prefix, bool needed,
                                   struct locus_norm_weights *norm)
{
    char name[80];
    const int n_embd = loading->model->config.n_embd;
    snprintf(name, sizeof name, "%s.weight", prefix);
    enum locus_status status = load_vector(loading, name, n_embd, needed, &norm->weight);
    if (status || !norm->weight) return status;
    snprintf(name, sizeof name, "%s.bias", prefix);
    return load_vector(loading, name, n_embd, false, &norm->bias);
}

/* Threads to pack a matrix with: waking them costs more than a small one does. */
static int pack_threads(const struct loading *loading, int rows, int cols)
{
    enum { SMALL = 1 << 18 };
    return (int64_t)rows * cols < SMALL ? 1 : loading->n_threads;
}

/* A matrix [rows, cols], packed; an absent one that isn't needed leaves *weight zero. */
static enum locus_status load_matrix(struct loading *loading, const char *name, int rows, int cols,
                                     bool needed, struct locus_weight *weight)
{
    const struct locus_tensor *tensor;
    enum locus_status status = claim(loading, name, rows, cols, needed, &tensor);
    if (status || !tensor) return status;
    status =
        locus_weight_pack(weight, tensor->type, rows, cols, stored_rows(loading, tensor, 0, rows),
                          pack_threads(loading, rows, cols), loading->error);
    if (!status) drop_pages(loading, tensor);
    return status;
}

/* prefix.weight [rows, cols] and, where there is one, prefix.bias [rows]. */
static enum locus_status load_linear(struct loading *loading, const char *prefix, int rows,
                                     int cols, bool needed, struct locus_linear *linear)
{
    char name[80];
    snprintf(name, sizeof name, "%s.weight", prefix);
    enum locus_status status = load_matrix(loading, name, rows, cols, needed, &linear->weight);
    if (status || !linear->weight.panels) return status;
    snprintf(name, sizeof name, "%s.bias", prefix);
    return load_vector(loading, name, rows, false, &linear->bias);
}

/* blk.N.attn_qkv, the rows of q, of k and of v one after another, taken apart. */
static enum locus_status load_fused(struct loading *loading, int index, struct locus_layer *layer)
{
    const struct locus_config *config = &loading->model->config;
    const int q_rows = config->n_head * config->head_dim;
    const int kv_rows = config->n_head_kv * config->head_dim, rows = q_rows + 2 * kv_rows;
    struct locus_linear *parts[3] = {&layer->q, &layer->k, &layer->v};
    const struct locus_tensor *tensor;
    char name[80];
    float *bias = NULL;
    snprintf(name, sizeof name, "blk.%d.attn_qkv.weight", index);
    enum locus_status status = claim(loading, name, rows, config->n_embd, true, &tensor);
    if (status) return status;
    snprintf(name, sizeof name, "blk.%d.attn_qkv.bias", index);
    if ((status = load_vector(loading, name, rows, false, &bias))) return status;
    for (int part = 0, first = 0, n; part < 3 && !status; part++, first += n) {
        n = part ? kv_rows : q_rows;
        status = locus_weight_pack(&parts[part]->weight, tensor->type, n, config->n_embd,
                                   stored_rows(loading, tensor, first, n),
                                   pack_threads(loading, n, config->n_embd), loading->error);
        if (status || !bias) continue;
        parts[part]->bias = locus_aligned_zalloc((size_t)n, sizeof *bias);
        if (parts[part]->bias)
            memcpy(parts[part]->bias, bias + first, (size_t)n * sizeof *bias);
        else
            status = locus_fail_memory(loading->error, (size_t)n * sizeof *bias);
    }
    locus_aligned_free(bias);
    if (!status) drop_pages(loading, tensor);
    return status;
}

static enum locus_status load_attention(struct loading *loading, int index,
                                        struct locus_layer *layer)
{
    const struct locus_config *config = &loading->model->config;
    const int q_rows = config->n_head * config->head_dim;
    const int kv_rows = config->n_head_kv * config->head_dim;
    char prefix[64];
    enum locus_status status;
    snprintf(prefix, sizeof prefix, "blk.%d.attn_qkv.weight", index);
    if (locus_checkpoint_tensor(loading->model->checkpoint, prefix)) {
        if ((status = load_fused(loading, index, layer))) return status;
    } else {
        struct locus_linear *parts[3] = {&layer->q, &layer->k, &layer->v};
        for (int part = 0; part < 3; part++) {
            snprintf(prefix, sizeof prefix, "blk.%d.attn_%c", index, "qkv"[part]);
            if ((status = load_linear(loading, prefix, part ? kv_rows : q_rows, config->n_embd,
                                      true, parts[part])))
                return status;
        }
    }
    snprintf(prefix, sizeof prefix, "blk.%d.attn_output", index);
    return load_linear(loading, prefix, config->n_embd, q_rows, true, &layer->output);
}

static enum locus_status load_layer(struct loading *loading, int index)
{
    const struct locus_config *config = &loading->model->config;
    struct locus_layer *layer = &loading->model->layers[index];
    const int n_embd = config->n_embd, n_ff = config->n_ff;
    char prefix[64];
    enum locus_status status = load_attention(loading, index, layer);
    if (status) return status;
    snprintf(prefix, sizeof prefix, "blk.%d.attn_norm", index);
    if ((status = load_norm(loading, prefix, true, &layer->attn_norm))) return status;
    /* A parallel MLP may read the attention's norm (GPT-J). */
    snprintf(prefix, sizeof prefix, "blk.%d.ffn_norm", index);
    if ((status = load_norm(loading, prefix, !config->parallel_residual, &layer->ffn_norm)))
        return status;
    if (config->gated) {
        snprintf(prefix, sizeof prefix, "blk.%d.ffn_gate", index);
        if ((status = load_linear(loading, prefix, n_ff, n_embd, true, &layer->gate)))
            return status;
    }
    snprintf(prefix, sizeof prefix, "blk.%d.ffn_up", index);
    if ((status = load_linear(loading, prefix, n_ff, n_embd, true, &layer->up))) return status;
    snprintf(prefix, sizeof prefix, "blk.%d.ffn_down", index);
    return load_linear(loading, prefix, n_embd, n_ff, true, &layer->down);
}

/* Whether a scheme, known or of the caller's own, may ask for the tensor. */
static bool may_be_a_schemes(const char *name, int n_layer)
{
    static const char own[] = "position_";
    const char *rest = name;
    if (!strncmp(rest, "blk.", 4) && (rest = strchr(rest + 4, '.'))) rest++;
    return locus_schemes_own(name, n_layer) || (rest && !strncmp(rest, own, sizeof own - 1));
}

static enum locus_status load_extra(struct loading *loading, const struct locus_tensor *tensor)
{
    struct locus_model *model = loading->model;
    const int64_t rows = tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
    if (!may_be_a_schemes(tensor->name, model->config.n_layer))
        return locus_fail(loading->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: tensor %s is used by no part of the model and by no position "
                          "scheme; without it the result would be another",
                          path_of(loading), tensor->name);
    if (rows > INT_MAX || tensor->dims[0] > INT_MAX)
        return locus_fail(loading->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: tensor %s is [%lld, %lld], expected at most %d either way",
                          path_of(loading), tensor->name, (long long)rows,
                          (long long)tensor->dims[0], INT_MAX);
    struct locus_extra_tensor *extra = &model->extras[model->n_extras++];
    *extra = (struct locus_extra_tensor){tensor->name, (int)rows, (int)tensor->dims[0], NULL};
    enum locus_status status = to_floats(loading, tensor, &extra->values);
    if (!status) drop_pages(loading, tensor);
    return status;
}

static int compare_extras(const void *left, const void *right)
{
    const struct locus_extra_tensor *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* Whatever no part of the decoder has claimed is offered to the position scheme, as floats. */
static enum locus_status load_extras(struct loading *loading)
{
    struct locus_model *model = loading->model;
    const size_t n = locus_checkpoint_n_tensors(model->checkpoint);
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++)
        n_left += !loading->claimed[i];
    model->extras = calloc(n_left + 1, sizeof *model->extras);
    if (!model->extras) return locus_fail_memory(loading->error, n_left * sizeof *model->extras);
    for (size_t i = 0; i < n; i++) {
        if (loading->claimed[i]) continue;
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(model->checkpoint, i);
        enum locus_status status = load_extra(loading, tensor);
        if (status) return status;
    }
    qsort(model->extras, model->n_extras, sizeof *model->extras, compare_extras);
    return LOCUS_OK;
}

const struct locus_extra_tensor *locus_model_find_extra(const struct locus_model *model,
                                                        const char *name)
{
    const struct locus_extra_tensor key = {.name = name};
    if (!model->n_extras) return NULL;
    return bsearch(&key, model->extras, model->n_extras, sizeof key, compare_extras);
}

enum locus_status locus_model_check_extras(const struct locus_model *model,
                                           const struct locus_position_scheme *own,
                                           locus_error *error)
{
    const int n_layer = model->config.n_layer;
    for (size_t i = 0; i < model->n_extras; i++) {
        const char *name = model->extras[i].name;
        if (locus_schemes_own(name, n_layer) || (own && locus_scheme_owns(own, name, n_layer)))
            continue;
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: tensor %s belongs to no position scheme that is known%s%s",
                          locus_checkpoint_path(model->checkpoint), name, own ? ", nor to " : "",
                          own ? own->name : "");
    }
    return LOCUS_OK;
}

static enum locus_status load_all(struct loading *loading)
{
    struct locus_model *model = loading->model;
    struct locus_config *config = &model->config;
    const struct locus_tensor *embedding =
        locus_checkpoint_tensor(model->checkpoint, "token_embd.weight");
    /* The embedding's rows are the truth about the vocabulary. */
    config->n_vocab = embedding && embedding->dims[1] <= INT_MAX ? (int)embedding->dims[1] : 1;
    enum locus_status status = load_matrix(loading, "token_embd.weight", config->n_vocab,
                                           config->n_embd, true, &model->embedding);
    if (status) return status;
    if (config->embedding_norm &&
        (status = load_norm(loading, "token_embd_norm", true, &model->embedding_norm)))
        return status;
    model->layers = calloc((size_t)config->n_layer, sizeof *model->layers);
    if (!model->layers)
        return locus_fail_memory(loading->error, (size_t)config->n_layer * sizeof *model->layers);
    for (int i = 0; i < config->n_layer; i++)
        if ((status = load_layer(loading, i))) return status;
    bool pre = config->norm_position == LOCUS_NORM_PRE;
    if ((status = load_norm(loading, "output_norm", pre, &model->output_norm)) ||
        (status =
             load_linear(loading, "output", config->n_vocab, config->n_embd, false, &model->head)))
        return status;
    return load_extras(loading);
}

enum locus_status locus_model_load_weights(struct locus_model *model, locus_error *error)
{
    size_t n = locus_checkpoint_n_tensors(model->checkpoint);
    struct loading loading = {.model = model,
                              .claimed = calloc(n ? n : 1, sizeof(bool)),
                              .n_threads = locus_threads_default(),
                              .error = error};
    if (!loading.claimed) return locus_fail_memory(error, n);
    reserve_room(&loading);
    enum locus_status status = load_all(&loading);
    free(loading.claimed);
    return status;
}

static void free_linear(struct locus_linear *linear)
{
    locus_weight_free(&linear->weight);
    locus_aligned_free(linear->bias);
}

static void free_norm(struct locus_norm_weights *norm)
{
    locus_aligned_free(norm->weight);
    locus_aligned_free(norm->bias);
}

void locus_model_free_weights(struct locus_model *model)
{
    locus_weight_free(&model->embedding);
    free_norm(&model->embedding_norm);
    free_norm(&model->output_norm);
    free_linear(&model->head);
    for (int i = 0; model->layers && i < model->config.n_layer; i++) {
        struct locus_layer *layer = &model->layers[i];
        struct locus_linear *linears[] = {&layer->q,    &layer->k,  &layer->v,   &layer->output,
                                          &layer->gate, &layer->up, &layer->down};
        for (size_t l = 0; l < sizeof linears / sizeof *linears; l++)
            free_linear(linears[l]);
        free_norm(&layer->attn_norm);
        free_norm(&layer->ffn_norm);
    }
    free(model->layers);
    for (size_t i = 0; i < model->n_extras; i++)
        locus_aligned_free(model->extras[i].values);
    free(model->extras);
    locus_aligned_free(model->panels);
}
