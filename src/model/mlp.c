/* The tensors of MLPs. See model.h. */
#include <stddef.h>
#include <stdlib.h>

#include "model/loading.h"

/* ---- one MLP for all tokens ----------------------------------------------------------------- */

#define AT(member) offsetof(struct locus_mlp, member)

static const struct locus_linear_row dense[] = {
    {"ffn_up", LOCUS_EMBD, {{AT(up), LOCUS_FF}}, NULL, false},
    {"ffn_down", LOCUS_FF, {{AT(down), LOCUS_EMBD}}, NULL, false},
    {0},
};

/* Gate and up in one matrix, gate first (Phi-3). */
static bool is_gate_and_up(const struct locus_loading *loading, int layer)
{
    char gate[LOCUS_TENSOR_NAME], up[LOCUS_TENSOR_NAME];
    locus_layer_name(gate, layer, "ffn_gate", ".weight");
    locus_layer_name(up, layer, "ffn_up", ".weight");
    const struct locus_tensor *tensor = locus_loading_find(loading, up);
    return tensor && !locus_loading_find(loading, gate) &&
           tensor->dims[1] == 2 * (int64_t)loading->model->config.n_ff;
}

static const struct locus_linear_row gated[] = {
    {"ffn_up", LOCUS_EMBD, {{AT(gate), LOCUS_FF}, {AT(up), LOCUS_FF}}, is_gate_and_up, false},
    {"ffn_gate", LOCUS_EMBD, {{AT(gate), LOCUS_FF}}, NULL, false},
    {"ffn_up", LOCUS_EMBD, {{AT(up), LOCUS_FF}}, NULL, false},
    {"ffn_down", LOCUS_FF, {{AT(down), LOCUS_EMBD}}, NULL, false},
    {0},
};

/* ---- experts -------------------------------------------------------------------------------- */

/* A projection of each expert, one expert's rows after another's in one tensor. */
static const struct expert_row {
    const char *name;
    enum locus_extent rows, cols;
    size_t offset; /* in struct locus_mlp */
    bool gated;
} each[] = {
    {"ffn_gate_exps", LOCUS_EXPERT_FF, LOCUS_EMBD, AT(gate), true},
    {"ffn_up_exps", LOCUS_EXPERT_FF, LOCUS_EMBD, AT(up), false},
    {"ffn_down_exps", LOCUS_EMBD, LOCUS_EXPERT_FF, AT(down), false},
};

enum { N_EACH = sizeof each / sizeof *each };

#undef AT
#define AT(member) offsetof(struct locus_experts, member)

static bool has_shared(const struct locus_loading *loading, int layer)
{
    (void)layer;
    return loading->model->config.n_ff_shared > 0;
}

static bool has_gated_shared(const struct locus_loading *loading, int layer)
{
    return loading->model->config.gated && has_shared(loading, layer);
}

static const struct locus_linear_row experts[] = {
    {"ffn_gate_inp", LOCUS_EMBD, {{AT(router), LOCUS_EXPERTS}}, NULL, false},
    {"ffn_gate_inp_shexp", LOCUS_EMBD, {{AT(shared_gate), LOCUS_ONE}}, has_shared, true},
    {"ffn_gate_shexp", LOCUS_EMBD, {{AT(shared.gate), LOCUS_SHARED_FF}}, has_gated_shared, false},
    {"ffn_up_shexp", LOCUS_EMBD, {{AT(shared.up), LOCUS_SHARED_FF}}, has_shared, false},
    {"ffn_down_shexp", LOCUS_SHARED_FF, {{AT(shared.down), LOCUS_EMBD}}, has_shared, false},
    {0},
};

static enum locus_status load_row(struct locus_loading *loading, int layer,
                                  const struct expert_row *row, struct locus_experts *weights,
                                  struct locus_rows *parts)
{
    const struct locus_config *config = &loading->model->config;
    char name[LOCUS_TENSOR_NAME], prefix[LOCUS_TENSOR_NAME];
    if (row->gated && !config->gated) return LOCUS_OK;
    for (int e = 0; e < weights->n; e++) {
        void *linear = (char *)&weights->each[e] + row->offset;
        parts[e] = (struct locus_rows){linear, locus_extent_of(row->rows, config)};
    }
    locus_layer_name(name, layer, row->name, ".weight");
    locus_layer_name(prefix, layer, row->name, "");
    if (!locus_loading_find(loading, name))
        return locus_fail(loading->error, LOCUS_ERROR_FORMAT,
                          "%s: a mixture of %d experts, but tensor %s is missing",
                          locus_loading_path(loading), weights->n, name);
    return locus_load_linear(loading, prefix, parts, weights->n, locus_extent_of(row->cols, config),
                             true);
}

static enum locus_status load_each(struct locus_loading *loading, int layer, void *weights)
{
    struct locus_experts *own = weights;
    const size_t n = (size_t)loading->model->config.n_expert;
    enum locus_status status = LOCUS_OK;
    struct locus_rows *parts = calloc(n, sizeof *parts);
    own->each = calloc(n, sizeof *own->each);
    if (!own->each || !parts) {
        free(parts);
        return locus_fail_memory(loading->error, n * sizeof *own->each);
    }
    own->n = (int)n;
    for (int i = 0; i < N_EACH && !status; i++)
        status = load_row(loading, layer, &each[i], own, parts);
    free(parts);
    return status;
}

static void free_each(void *weights)
{
    struct locus_experts *own = weights;
    for (int e = 0; e < own->n; e++)
        for (int i = 0; i < N_EACH; i++)
            locus_linear_free((void *)((char *)&own->each[e] + each[i].offset));
    free(own->each);
}

/* ---- the parts ------------------------------------------------------------------------------ */

const struct locus_layer_part locus_dense_part = {
    .name = "dense", .size = sizeof(struct locus_mlp), .linears = dense};
const struct locus_layer_part locus_gated_part = {
    .name = "gated", .size = sizeof(struct locus_mlp), .linears = gated};
const struct locus_layer_part locus_experts_part = {.name = "experts",
                                                    .size = sizeof(struct locus_experts),
                                                    .linears = experts,
                                                    .load = load_each,
                                                    .free = free_each};

const struct locus_layer_part locus_no_mlp_part = {.name = "no MLP"};

const struct locus_layer_part *locus_mlp_part(const struct locus_config *config, int layer)
{
    if (config->n_expert > 0 && layer >= config->n_dense) return &locus_experts_part;
    if (config->n_ff == 0) return &locus_no_mlp_part;
    return config->gated ? &locus_gated_part : &locus_dense_part;
}
