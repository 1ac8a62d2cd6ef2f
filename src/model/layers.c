/* A layer: its norms, and its parts by their tables. See loading.h. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/loading.h"

int locus_extent_of(enum locus_extent extent, const struct locus_config *config)
{
    switch (extent) {
    case LOCUS_NO_ROWS:
        return 0;
    case LOCUS_EMBD:
        return config->n_embd;
    case LOCUS_QUERIES:
        return config->n_head * config->head_dim;
    case LOCUS_KEYS_WIDTH:
        return config->n_head_kv * config->head_dim;
    case LOCUS_FF:
        return config->n_ff;
    case LOCUS_EXPERT_FF:
        return config->n_ff_expert;
    case LOCUS_SHARED_FF:
        return config->n_ff_shared;
    case LOCUS_EXPERTS:
        return config->n_expert;
    case LOCUS_INNER:
        return config->ssm.n_inner;
    case LOCUS_STATE:
        return config->ssm.n_state;
    case LOCUS_RANK:
        return config->ssm.rank;
    case LOCUS_SCAN_HEADS:
        return config->ssm.n_head;
    case LOCUS_CONVOLVED:
        return locus_convolved_channels(&config->ssm);
    case LOCUS_THREE_EMBD:
        return 3 * config->n_embd;
    case LOCUS_RETENTION_KEYS:
        return config->retention.n_head * config->retention.key_dim;
    case LOCUS_RETENTION_VALUES:
        return config->retention.n_head * config->retention.value_dim;
    case LOCUS_ONE:
        return 1;
    }
    return 0;
}

void locus_layer_name(char name[LOCUS_TENSOR_NAME], int layer, const char *row, const char *suffix)
{
    snprintf(name, LOCUS_TENSOR_NAME, "blk.%d.%s%s", layer, row, suffix);
}

bool locus_family_needs(const struct locus_loading *loading, const char *name)
{
    const char *needed = loading->model->architecture->needed;
    const size_t length = strlen(name);
    for (const char *at = needed; at && (at = strstr(at, name)); at += length)
        if ((at == needed || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

static void *member(void *weights, size_t offset)
{
    return (char *)weights + offset;
}

/* ---- norms ---------------------------------------------------------------------------------- */

static bool before_mixer(const struct locus_config *config)
{
    return config->norm_position != LOCUS_NORM_OUTPUT;
}

/* A parallel MLP may read the attention's norm (GPT-J). */
static bool before_mlp(const struct locus_config *config)
{
    return config->norm_position != LOCUS_NORM_OUTPUT && !config->parallel_residual;
}

static bool after_each(const struct locus_config *config)
{
    return config->norm_position == LOCUS_NORM_OUTPUT;
}

/* A norm of rows of n_embd. */
static const struct norm_row {
    const char *name;
    size_t offset; /* in struct locus_layer */
    bool (*needed)(const struct locus_config *config);
    bool of_mlp; /* which a layer may lack */
} norms[] = {
    {"attn_norm", offsetof(struct locus_layer, attn_norm), before_mixer, false},
    {"ffn_norm", offsetof(struct locus_layer, ffn_norm), before_mlp, true},
    {"post_attention_norm", offsetof(struct locus_layer, attn_post_norm), after_each, false},
    {"post_ffw_norm", offsetof(struct locus_layer, ffn_post_norm), after_each, true},
};

enum { N_NORMS = sizeof norms / sizeof *norms };

/* The name that the family's files have for a norm; NULL: theirs have none, or it has another place
 * already. */
static const char *name_in_file(const struct locus_loading *loading, int index, const char *norm)
{
    const struct locus_renamed *rows = loading->model->architecture->renamed;
    bool renamed = false;
    char name[LOCUS_TENSOR_NAME];
    for (int i = 0; i < LOCUS_MAX_RENAMED && rows[i].name; i++) {
        if (strcmp(rows[i].name, norm)) continue;
        renamed = true;
        locus_layer_name(name, index, rows[i].in_file, ".weight");
        if (locus_loading_find(loading, name)) return rows[i].in_file;
    }
    locus_layer_name(name, index, norm, ".weight");
    const struct locus_checkpoint *checkpoint = loading->model->checkpoint;
    const bool taken =
        locus_checkpoint_tensor(checkpoint, name) && !locus_loading_find(loading, name);
    return renamed || taken ? NULL : norm;
}

static enum locus_status load_norm(struct locus_loading *loading, int index,
                                   const struct norm_row *row)
{
    const struct locus_model *model = loading->model;
    if (row->of_mlp && model->config.layers[index].mlp == &locus_no_mlp_part) return LOCUS_OK;
    const char *name = name_in_file(loading, index, row->name);
    const bool needed = row->needed(&model->config) || locus_family_needs(loading, row->name);
    char prefix[LOCUS_TENSOR_NAME];
    if (!name && !needed) return LOCUS_OK;
    locus_layer_name(prefix, index, name ? name : row->name, "");
    return locus_load_norm(loading, prefix, model->config.n_embd, needed,
                           member(&model->layers[index], row->offset));
}

static enum locus_status load_norms(struct locus_loading *loading, int index)
{
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < N_NORMS && !status; i++)
        status = load_norm(loading, index, &norms[i]);
    return status;
}

/* ---- parts ---------------------------------------------------------------------------------- */

static enum locus_status load_linear(struct locus_loading *loading, int index,
                                     const struct locus_linear_row *row, void *weights)
{
    const struct locus_config *config = &loading->model->config;
    struct locus_rows parts[LOCUS_MAX_FUSED] = {{member(weights, row->parts[0].offset), 0}};
    char prefix[LOCUS_TENSOR_NAME];
    int n_parts = 0;
    if (row->applies && !row->applies(loading, index)) return LOCUS_OK;
    for (; n_parts < LOCUS_MAX_FUSED && row->parts[n_parts].rows != LOCUS_NO_ROWS; n_parts++)
        parts[n_parts] = (struct locus_rows){member(weights, row->parts[n_parts].offset),
                                             locus_extent_of(row->parts[n_parts].rows, config)};
    if (parts[0].linear->weight.panels) return LOCUS_OK;
    locus_layer_name(prefix, index, row->name, "");
    return locus_load_linear(loading, prefix, parts, n_parts, locus_extent_of(row->cols, config),
                             !row->optional || locus_family_needs(loading, row->name));
}

static enum locus_status load_part(struct locus_loading *loading, int index,
                                   const struct locus_layer_part *part, void **weights)
{
    if (!part->size) return LOCUS_OK;
    *weights = calloc(1, part->size);
    if (!*weights) return locus_fail_memory(loading->error, part->size);
    enum locus_status status = part->load ? part->load(loading, index, *weights) : LOCUS_OK;
    for (const struct locus_linear_row *row = part->linears; row && row->name && !status; row++)
        status = load_linear(loading, index, row, *weights);
    return status;
}

static void free_part(const struct locus_layer_part *part, void *weights)
{
    if (!weights) return;
    for (const struct locus_linear_row *row = part->linears; row && row->name; row++)
        for (int i = 0; i < LOCUS_MAX_FUSED && row->parts[i].rows != LOCUS_NO_ROWS; i++)
            locus_linear_free(member(weights, row->parts[i].offset));
    if (part->free) part->free(weights);
    free(weights);
}

/* ---- a layer -------------------------------------------------------------------------------- */

enum locus_status locus_load_layer(struct locus_loading *loading, int index)
{
    const struct locus_layer_config *config = &loading->model->config.layers[index];
    struct locus_layer *layer = &loading->model->layers[index];
    enum locus_status status;
    if ((status = load_part(loading, index, config->mixer, &layer->mixer)) ||
        (status = load_part(loading, index, config->mlp, &layer->mlp)))
        return status;
    return load_norms(loading, index);
}

/* The layer after this one, and after the last the first, whose part of that tensor is the same. */
static int next_of_same_part(const struct locus_config *config, int layer, const char *row)
{
    const bool of_mlp = !strncmp(row, "ffn_", 4) && !strstr(row, "norm");
    const bool of_mixer = !strncmp(row, "ssm_", 4) || !strncmp(row, "retention_", 10) ||
                          !strncmp(row, "hyena_", 6) ||
                          (!strncmp(row, "attn_", 5) && strncmp(row, "attn_norm", 9) != 0);
    const struct locus_layer_config *own = &config->layers[layer], *other;
    int next = layer;
    do {
        next = (next + 1) % config->n_layer;
        other = &config->layers[next];
    } while ((of_mlp && other->mlp != own->mlp) || (of_mixer && other->mixer != own->mixer));
    return next;
}

/* Whether a model may lack the tensor, but not one of its layers alone. `row`: its name
 * without the layer's. A fused matrix and its parts are the same, each with its own bias. */
static bool is_optional(const struct locus_loading *loading, const char *row, int layer)
{
    static const char suffix[] = ".bias";
    const char *dot = strrchr(row, '.');
    char matrix[LOCUS_TENSOR_NAME], stem[48]; /* longer than any of the tables' */
    if (!dot || strcmp(dot, suffix))
        return strstr(row, "norm") || strstr(row, "sinks") || strstr(row, "inp_shexp");
    snprintf(stem, sizeof stem, "%.*s", (int)(dot - row), row);
    locus_layer_name(matrix, layer, stem, ".weight");
    return locus_checkpoint_tensor(loading->model->checkpoint, matrix) != NULL;
}

/* Each is looked for in the next layer, so that the first gap is found wherever it is. */
enum locus_status locus_check_layers_agree(const struct locus_loading *loading)
{
    const struct locus_checkpoint *checkpoint = loading->model->checkpoint;
    char name[LOCUS_TENSOR_NAME];
    for (size_t i = 0; i < locus_checkpoint_n_tensors(checkpoint); i++) {
        const char *has = locus_checkpoint_tensor_at(checkpoint, i)->name;
        if (!loading->claimed[i] || strncmp(has, "blk.", 4)) continue;
        char *row;
        const int layer = (int)strtol(has + 4, &row, 10);
        const int next = next_of_same_part(&loading->model->config, layer, ++row);
        locus_layer_name(name, next, row, "");
        if (locus_checkpoint_tensor(checkpoint, name) || !is_optional(loading, row, next)) continue;
        return locus_fail(loading->error, LOCUS_ERROR_FORMAT,
                          "%s: tensor %s is missing, but other layers have it",
                          locus_loading_path(loading), name);
    }
    return LOCUS_OK;
}

void locus_layer_free(struct locus_layer *layer, const struct locus_layer_config *config)
{
    free_part(config->mixer, layer->mixer);
    free_part(config->mlp, layer->mlp);
    for (int i = 0; i < N_NORMS; i++)
        locus_norm_free(member(layer, norms[i].offset));
}
