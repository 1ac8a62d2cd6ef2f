/* The tensors of retention. See model.h. */
#include <stddef.h>

#include "model/loading.h"

#define AT(member) offsetof(struct locus_retention_weights, member)

static const struct locus_linear_row linears[] = {
    {"retention_q", LOCUS_EMBD, {{AT(q), LOCUS_RETENTION_KEYS}}, NULL, false},
    {"retention_k", LOCUS_EMBD, {{AT(k), LOCUS_RETENTION_KEYS}}, NULL, false},
    {"retention_v", LOCUS_EMBD, {{AT(v), LOCUS_RETENTION_VALUES}}, NULL, false},
    {"retention_gate", LOCUS_EMBD, {{AT(gate), LOCUS_RETENTION_VALUES}}, NULL, false},
    {"retention_output", LOCUS_RETENTION_VALUES, {{AT(output), LOCUS_EMBD}}, NULL, false},
    {0},
};

/* The norm of a head's values has no weights in a file. */
static enum locus_status load_norm(struct locus_loading *loading, int layer, void *weights)
{
    struct locus_retention_weights *retention = weights;
    (void)layer;
    return locus_load_ones(loading, loading->model->config.retention.value_dim,
                           &retention->norm.weight);
}

static void free_norm(void *weights)
{
    struct locus_retention_weights *retention = weights;
    locus_norm_free(&retention->norm);
}

const struct locus_layer_part locus_retention_part = {
    .name = "retention",
    .size = sizeof(struct locus_retention_weights),
    .linears = linears,
    .load = load_norm,
    .free = free_norm,
};
