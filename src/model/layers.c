/* What a layer may hold: a row a tensor, "blk.N." before its name. See loading.h. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "model/loading.h"

/* Sizes that a tensor's shape is made of. */
enum size { NONE, EMBD, QUERIES, KEYS, FF, EXPERT_FF, SHARED_FF, EXPERTS, ONE };

static int size_of(enum size size, const struct locus_config *config)
{
    switch (size) {
    case NONE:
        return 0;
    case EMBD:
        return config->n_embd;
    case QUERIES:
        return config->n_head * config->head_dim;
    case KEYS:
        return config->n_head_kv * config->head_dim;
    case FF:
        return config->n_ff;
    case EXPERT_FF:
        return config->n_ff_expert;
    case SHARED_FF:
        return config->n_ff_shared;
    case EXPERTS:
        return config->n_expert;
    case ONE:
        return 1;
    }
    return 0;
}

/* ---- when a tensor is needed --------------------------------------------------------------- */

static bool always(const struct locus_config *config)
{
    (void)config;
    return true;
}

static bool if_there(const struct locus_config *config)
{
    (void)config;
    return false;
}

static bool before_attention(const struct locus_config *config)
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

/* ---- the table ------------------------------------------------------------------------------ */

enum { MAX_PARTS = 3 };

/* A norm of rows of n_embd. */
struct norm_row {
    const char *name;
    size_t offset; /* in struct locus_layer */
    bool (*needed)(const struct locus_config *config);
};

/* A norm of queries or keys, of each head by itself or of all of them at once. */
struct head_norm_row {
    const char *name;
    size_t offset;
    enum size width; /* of all heads */
};

/* A projection; a fused one has its parts' rows one after another. A part that is there already was
 * part of a fused one: then the row is passed over. */
struct linear_row {
    const char *name;
    enum size cols;
    struct {
        size_t offset;
        enum size rows;
    } parts[MAX_PARTS];
    bool (*needed)(const struct locus_config *config);
    bool gated; /* of a gated MLP alone */
    enum which {
        EVERY,
        DENSE, /* layers without experts */
        MIXED, /* layers with experts */
        SHARED /* those, where there is one that every token takes */
    } layers;
};

/* A projection of each expert, one expert's rows after another's in one tensor. */
struct expert_row {
    const char *name;
    enum size rows, cols;
    size_t offset; /* in struct locus_mlp */
    bool gated;
};

#define AT(member) offsetof(struct locus_layer, member)

static const struct linear_row linears[] = {
    {"attn_qkv", EMBD, {{AT(q), QUERIES}, {AT(k), KEYS}, {AT(v), KEYS}}, if_there, false, EVERY},
    {"attn_q", EMBD, {{AT(q), QUERIES}}, always, false, EVERY},
    {"attn_k", EMBD, {{AT(k), KEYS}}, always, false, EVERY},
    {"attn_v", EMBD, {{AT(v), KEYS}}, always, false, EVERY},
    {"attn_output", QUERIES, {{AT(output), EMBD}}, always, false, EVERY},
    {"ffn_gate", EMBD, {{AT(mlp.gate), FF}}, always, true, DENSE},
    {"ffn_up", EMBD, {{AT(mlp.up), FF}}, always, false, DENSE},
    {"ffn_down", FF, {{AT(mlp.down), EMBD}}, always, false, DENSE},
    {"ffn_gate_inp", EMBD, {{AT(router), EXPERTS}}, always, false, MIXED},
    {"ffn_gate_inp_shexp", EMBD, {{AT(shared_gate), ONE}}, if_there, false, SHARED},
    {"ffn_gate_shexp", EMBD, {{AT(shared.gate), SHARED_FF}}, always, true, SHARED},
    {"ffn_up_shexp", EMBD, {{AT(shared.up), SHARED_FF}}, always, false, SHARED},
    {"ffn_down_shexp", SHARED_FF, {{AT(shared.down), EMBD}}, always, false, SHARED},
};

static const struct expert_row experts[] = {
    {"ffn_gate_exps", EXPERT_FF, EMBD, offsetof(struct locus_mlp, gate), true},
    {"ffn_up_exps", EXPERT_FF, EMBD, offsetof(struct locus_mlp, up), false},
    {"ffn_down_exps", EMBD, EXPERT_FF, offsetof(struct locus_mlp, down), false},
};

static const struct norm_row norms[] = {
    {"attn_norm", AT(attn_norm), before_attention},
    {"ffn_norm", AT(ffn_norm), before_mlp},
    {"post_attention_norm", AT(attn_post_norm), after_each},
    {"post_ffw_norm", AT(ffn_post_norm), after_each},
};

static const struct head_norm_row head_norms[] = {
    {"attn_q_norm", AT(q_norm), QUERIES},
    {"attn_k_norm", AT(k_norm), KEYS},
};

enum {
    N_LINEARS = sizeof linears / sizeof *linears,
    N_EXPERT_ROWS = sizeof experts / sizeof *experts,
    N_NORMS = sizeof norms / sizeof *norms,
    N_HEAD_NORMS = sizeof head_norms / sizeof *head_norms
};

static void *member(struct locus_layer *layer, size_t offset)
{
    return (char *)layer + offset;
}

/* ---- loading ------------------------------------------------------------------------------- */

static void full_name(char name[80], int index, const char *row, const char *suffix)
{
    snprintf(name, 80, "blk.%d.%s%s", index, row, suffix);
}

/* Gate and up of a gated MLP in one matrix, gate first (Phi-3). */
static bool is_gate_and_up(const struct locus_loading *loading, int index)
{
    const struct locus_config *config = &loading->model->config;
    char gate[80], up[80];
    full_name(gate, index, "ffn_gate", ".weight");
    full_name(up, index, "ffn_up", ".weight");
    const struct locus_tensor *tensor = locus_loading_find(loading, up);
    return config->gated && tensor && !locus_loading_find(loading, gate) &&
           tensor->dims[1] == 2 * (int64_t)config->n_ff;
}

/* Whether the family can't do without a tensor that is optional elsewhere. */
static bool family_needs(const struct locus_loading *loading, const char *name)
{
    const char *needed = loading->model->architecture->needed;
    const size_t length = strlen(name);
    for (const char *at = needed; at && (at = strstr(at, name)); at += length)
        if ((at == needed || at[-1] == ' ') && (at[length] == ' ' || !at[length])) return true;
    return false;
}

static bool has_experts(const struct locus_config *config, int index)
{
    return config->n_expert > 0 && index >= config->n_dense;
}

static enum locus_status load_experts(struct locus_loading *loading, int index)
{
    const struct locus_config *config = &loading->model->config;
    struct locus_layer *layer = &loading->model->layers[index];
    const size_t n = (size_t)config->n_expert;
    enum locus_status status = LOCUS_OK;
    if (!has_experts(config, index)) return LOCUS_OK;
    layer->experts = calloc(n, sizeof *layer->experts);
    struct locus_rows *parts = calloc(n, sizeof *parts);
    if (!layer->experts || !parts) {
        free(parts);
        return locus_fail_memory(loading->error, n * sizeof *layer->experts);
    }
    for (int i = 0; i < N_EXPERT_ROWS && !status; i++) {
        const struct expert_row *row = &experts[i];
        char name[80], prefix[80];
        if (row->gated && !config->gated) continue;
        for (size_t e = 0; e < n; e++) {
            void *linear = (char *)&layer->experts[e] + row->offset;
            parts[e] = (struct locus_rows){linear, size_of(row->rows, config)};
            layer->experts[e].n_ff = config->n_ff_expert;
        }
        full_name(name, index, row->name, ".weight");
        full_name(prefix, index, row->name, "");
        status = locus_loading_find(loading, name)
                     ? locus_load_linear(loading, prefix, parts, config->n_expert,
                                         size_of(row->cols, config), true)
                     : locus_fail(loading->error, LOCUS_ERROR_FORMAT,
                                  "%s: a mixture of %d experts, but tensor %s is missing",
                                  locus_loading_path(loading), config->n_expert, name);
    }
    free(parts);
    return status;
}

static bool is_of(enum which layers, const struct locus_config *config, int index)
{
    const bool mixed = has_experts(config, index);
    switch (layers) {
    case EVERY:
        return true;
    case DENSE:
        return !mixed;
    case MIXED:
        return mixed;
    case SHARED:
        return mixed && config->n_ff_shared > 0;
    }
    return false;
}

static enum locus_status load_linear(struct locus_loading *loading, int index,
                                     const struct linear_row *row)
{
    const struct locus_config *config = &loading->model->config;
    struct locus_layer *layer = &loading->model->layers[index];
    struct locus_rows parts[MAX_PARTS] = {{member(layer, row->parts[0].offset), 0}};
    char prefix[80];
    int n_parts = 0;
    if ((row->gated && !config->gated) || !is_of(row->layers, config, index)) return LOCUS_OK;
    for (; n_parts < MAX_PARTS && row->parts[n_parts].rows != NONE; n_parts++)
        parts[n_parts] = (struct locus_rows){member(layer, row->parts[n_parts].offset),
                                             size_of(row->parts[n_parts].rows, config)};
    if (parts[0].linear->weight.panels) return LOCUS_OK;
    full_name(prefix, index, row->name, "");
    return locus_load_linear(loading, prefix, parts, n_parts, size_of(row->cols, config),
                             row->needed(config) || family_needs(loading, row->name));
}

/* The name that the family's files have for a norm; NULL: theirs have none, or it has another place
 * already. */
static const char *name_in_file(const struct locus_loading *loading, int index, const char *norm)
{
    const struct locus_renamed *rows = loading->model->architecture->renamed;
    bool renamed = false;
    char name[80];
    for (int i = 0; i < LOCUS_MAX_RENAMED && rows[i].name; i++) {
        if (strcmp(rows[i].name, norm)) continue;
        renamed = true;
        full_name(name, index, rows[i].in_file, ".weight");
        if (locus_loading_find(loading, name)) return rows[i].in_file;
    }
    full_name(name, index, norm, ".weight");
    const struct locus_checkpoint *checkpoint = loading->model->checkpoint;
    const bool taken =
        locus_checkpoint_tensor(checkpoint, name) && !locus_loading_find(loading, name);
    return renamed || taken ? NULL : norm;
}

static enum locus_status load_norm(struct locus_loading *loading, int index,
                                   const struct norm_row *row)
{
    const struct locus_model *model = loading->model;
    const char *name = name_in_file(loading, index, row->name);
    const bool needed = row->needed(&model->config) || family_needs(loading, row->name);
    char prefix[80];
    if (!name && !needed) return LOCUS_OK;
    full_name(prefix, index, name ? name : row->name, "");
    return locus_load_norm(loading, prefix, model->config.n_embd, needed,
                           member(&model->layers[index], row->offset));
}

/* Weights for each value of a head, the same for all heads; for each value of each head; or for the
 * row of all heads, normed as one. */
static enum locus_status load_head_norm(struct locus_loading *loading, int index,
                                        const struct head_norm_row *row)
{
    const struct locus_config *config = &loading->model->config;
    struct locus_head_norm *norm = member(&loading->model->layers[index], row->offset);
    const int width = size_of(row->width, config);
    char prefix[80], name[80];
    full_name(name, index, row->name, ".weight");
    const struct locus_tensor *tensor = locus_loading_find(loading, name);
    if (!tensor)
        return family_needs(loading, row->name)
                   ? locus_load_claim(loading, name, 0, config->head_dim, true, &tensor)
                   : LOCUS_OK;
    const bool by_head = tensor->dims[0] == config->head_dim;
    const bool own_weights = by_head && tensor->n_dims > 1;
    norm->width = by_head ? config->head_dim : width;
    norm->n = own_weights ? width / norm->width : 1;
    if (!own_weights) {
        full_name(prefix, index, row->name, "");
        return locus_load_norm(loading, prefix, norm->width, true, &norm->weights);
    }
    enum locus_status status = locus_load_claim(loading, name, norm->n, norm->width, true, &tensor);
    return status ? status : locus_load_floats(loading, tensor, &norm->weights.weight);
}

/* gpt-oss: what a head's softmax has beside its keys. */
static enum locus_status load_sinks(struct locus_loading *loading, int index)
{
    static const char row[] = "attn_sinks";
    char name[80];
    full_name(name, index, row, ".weight");
    return locus_load_vector(loading, name, loading->model->config.n_head,
                             family_needs(loading, row), &loading->model->layers[index].sinks);
}

enum locus_status locus_load_layer(struct locus_loading *loading, int index)
{
    static const struct linear_row gate_and_up = {
        "ffn_up", EMBD, {{AT(mlp.gate), FF}, {AT(mlp.up), FF}}, always, true, DENSE};
    const struct locus_config *config = &loading->model->config;
    struct locus_layer *layer = &loading->model->layers[index];
    enum locus_status status = LOCUS_OK;
    if (is_gate_and_up(loading, index)) status = load_linear(loading, index, &gate_and_up);
    layer->mlp.n_ff = config->n_ff;
    layer->shared.n_ff = config->n_ff_shared;
    if (!status) status = load_experts(loading, index);
    for (int i = 0; i < N_LINEARS && !status; i++)
        status = load_linear(loading, index, &linears[i]);
    for (int i = 0; i < N_NORMS && !status; i++)
        status = load_norm(loading, index, &norms[i]);
    for (int i = 0; i < N_HEAD_NORMS && !status; i++)
        status = load_head_norm(loading, index, &head_norms[i]);
    return status ? status : load_sinks(loading, index);
}

static void free_experts(struct locus_layer *layer, int n_expert)
{
    for (int e = 0; layer->experts && e < n_expert; e++)
        for (int i = 0; i < N_EXPERT_ROWS; i++)
            locus_linear_free((void *)((char *)&layer->experts[e] + experts[i].offset));
    free(layer->experts);
}

void locus_layer_free(struct locus_layer *layer, int n_expert)
{
    free_experts(layer, n_expert);
    locus_aligned_free(layer->sinks);
    for (int i = 0; i < N_LINEARS; i++)
        for (int part = 0; part < MAX_PARTS && linears[i].parts[part].rows != NONE; part++) {
            struct locus_linear *linear = member(layer, linears[i].parts[part].offset);
            locus_linear_free(linear);
            *linear = (struct locus_linear){0};
        }
    for (int i = 0; i < N_NORMS; i++)
        locus_norm_free(member(layer, norms[i].offset));
    for (int i = 0; i < N_HEAD_NORMS; i++)
        locus_norm_free(&((struct locus_head_norm *)member(layer, head_norms[i].offset))->weights);
}
