/* The tensors of attention. See model.h. */
#include <math.h>
#include <stddef.h>

#include "base/buffer.h"
#include "model/loading.h"

#define AT(member) offsetof(struct locus_attention_weights, member)

static const struct locus_linear_row linears[] = {
    {"attn_qkv",
     LOCUS_EMBD,
     {{AT(q), LOCUS_QUERIES}, {AT(k), LOCUS_KEYS_WIDTH}, {AT(v), LOCUS_KEYS_WIDTH}},
     .optional = true},
    {"attn_q", LOCUS_EMBD, {{AT(q), LOCUS_QUERIES}}, NULL, false},
    {"attn_k", LOCUS_EMBD, {{AT(k), LOCUS_KEYS_WIDTH}}, NULL, false},
    {"attn_v", LOCUS_EMBD, {{AT(v), LOCUS_KEYS_WIDTH}}, NULL, false},
    {"attn_output", LOCUS_QUERIES, {{AT(output), LOCUS_EMBD}}, NULL, false},
    {0},
};

/* A norm of queries or keys whose weights are for each value of a head, the same for all heads; for
 * each value of each head; or for the row of all heads, normed as one. */
static enum locus_status load_head_norm(struct locus_loading *loading, int layer, const char *row,
                                        enum locus_extent extent, struct locus_head_norm *norm)
{
    const struct locus_config *config = &loading->model->config;
    const int width = locus_extent_of(extent, config);
    char prefix[LOCUS_TENSOR_NAME], name[LOCUS_TENSOR_NAME];
    locus_layer_name(name, layer, row, ".weight");
    const struct locus_tensor *tensor = locus_loading_find(loading, name);
    if (!tensor)
        return locus_family_needs(loading, row)
                   ? locus_load_claim(loading, name, 0, config->head_dim, true, &tensor)
                   : LOCUS_OK;
    const bool by_head = tensor->dims[0] == config->head_dim;
    const bool own_weights = by_head && tensor->n_dims > 1;
    norm->width = by_head ? config->head_dim : width;
    norm->n = own_weights ? width / norm->width : 1;
    if (!own_weights) {
        locus_layer_name(prefix, layer, row, "");
        return locus_load_norm(loading, prefix, norm->width, true, &norm->weights);
    }
    enum locus_status status = locus_load_claim(loading, name, norm->n, norm->width, true, &tensor);
    return status ? status : locus_load_floats(loading, tensor, &norm->weights.weight);
}

/* gpt-oss: what a head's softmax has beside its keys. One that is no number would spoil every score
 * of the head, or end up as none. */
static enum locus_status load_sinks(struct locus_loading *loading, int layer,
                                    struct locus_attention_weights *weights)
{
    static const char row[] = "attn_sinks";
    char name[LOCUS_TENSOR_NAME];
    const int n_head = loading->model->config.n_head;
    locus_layer_name(name, layer, row, ".weight");
    enum locus_status status =
        locus_load_vector(loading, name, n_head, locus_family_needs(loading, row), &weights->sinks);
    if (status || !weights->sinks) return status;
    for (int head = 0; head < n_head; head++)
        if (!isfinite(weights->sinks[head]))
            return locus_fail(loading->error, LOCUS_ERROR_FORMAT,
                              "%s: tensor %s is %g for head %d, expected finite numbers",
                              locus_loading_path(loading), name, (double)weights->sinks[head],
                              head);
    return LOCUS_OK;
}

static enum locus_status load_rest(struct locus_loading *loading, int layer, void *weights)
{
    struct locus_attention_weights *attention = weights;
    enum locus_status status =
        load_head_norm(loading, layer, "attn_q_norm", LOCUS_QUERIES, &attention->q_norm);
    if (status || (status = load_head_norm(loading, layer, "attn_k_norm", LOCUS_KEYS_WIDTH,
                                           &attention->k_norm)))
        return status;
    return load_sinks(loading, layer, attention);
}

static void free_rest(void *weights)
{
    struct locus_attention_weights *attention = weights;
    locus_norm_free(&attention->q_norm.weights);
    locus_norm_free(&attention->k_norm.weights);
    locus_aligned_free(attention->sinks);
}

const struct locus_layer_part locus_attention_part = {
    .name = "attention",
    .size = sizeof(struct locus_attention_weights),
    .linears = linears,
    .load = load_rest,
    .free = free_rest,
};
