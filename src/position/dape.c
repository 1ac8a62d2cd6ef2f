/* Data-adaptive positions: a small network of the scores and biases of all heads adds to each
 * score.
 *
 * Zheng et al., "DAPE: Data-Adaptive Positional Encoding for Length Extrapolation" (arXiv
 * 2405.14722): of a query and a key, a [n_head] the scaled scores and b [n_head] the
 * biases of another scheme, score += b + W2 leaky_relu(W1 [a; b] + b1) + b2. As in the authors'
 * code the slope below 0 is 0.01, and each layer has its network. The other scheme, over=, has its
 * defaults (ALiBi: max_bias=8, KERPLE: kind=log) and its tensors.
 *
 * A pair costs units * 3 n_head multiply-adds, beside the n_head * head_dim * 2 of attention; and
 * since all heads are needed at once, a unit of attention's work is one row.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "position/registry.h"
#include "position/spec.h"
#include "position/tensors.h"

static const float slope = 0.01f;

static const struct locus_position_scheme *const overs[] = {
    &locus_scheme_kerple,
    &locus_scheme_alibi,
    &locus_scheme_fire,
};

struct dape_layer {
    struct locus_weight w1, w2; /* [n_units, 2 n_head], scores' columns first; [n_head, n_units] */
    const float *b1, *b2;       /* [n_units], [n_head]; the model's */
};

struct dape {
    int n_head, n_layer, most_units;
    struct locus_kernels kernels; /* the session's; they change no bit */
    struct locus_position over;   /* the scheme whose biases they are */
    struct dape_layer layers[];
};

/* ---- set-up ------------------------------------------------------------------------------- */

static enum locus_status pack(struct locus_weight *weight, const float *values, int rows, int cols,
                              locus_error *error)
{
    const struct locus_row_source source = {.data = (const unsigned char *)values};
    return locus_weight_pack(weight, LOCUS_F32, rows, cols, source, 1, error);
}

static enum locus_status make_layer(struct dape *dape, int index,
                                    const struct locus_position_env *env, locus_error *error)
{
    const struct locus_tensor_query query = {env, "dape", index};
    struct dape_layer *layer = &dape->layers[index];
    const int n_head = dape->n_head;
    const float *w1, *w2;
    int n;
    enum locus_status status;
    if ((status = locus_tensor_find(&query, "position_dape.fc1.weight", LOCUS_ANY_ROWS, 2 * n_head,
                                    &w1, &n, error)) ||
        (status =
             locus_tensor_find(&query, "position_dape.fc1.bias", 1, n, &layer->b1, NULL, error)) ||
        (status =
             locus_tensor_find(&query, "position_dape.fc2.weight", n_head, n, &w2, NULL, error)) ||
        (status = locus_tensor_find(&query, "position_dape.fc2.bias", 1, n_head, &layer->b2, NULL,
                                    error)))
        return status;
    if (n > dape->most_units) dape->most_units = n;
    if ((status = pack(&layer->w1, w1, n, 2 * n_head, error))) return status;
    return pack(&layer->w2, w2, n_head, n, error);
}

static void free_dape(void *state)
{
    struct dape *dape = state;
    for (int layer = 0; dape && layer < dape->n_layer; layer++) {
        locus_weight_free(&dape->layers[layer].w1);
        locus_weight_free(&dape->layers[layer].w2);
    }
    if (dape) locus_position_free(&dape->over);
    free(dape);
}

static enum locus_status init_dape(void **state, const struct locus_position_env *env,
                                   const struct locus_position_spec *spec, locus_error *error)
{
    const size_t n_bytes = sizeof(struct dape) + (size_t)env->n_layer * sizeof(struct dape_layer);
    struct dape *dape = calloc(1, n_bytes);
    if (!dape) return locus_fail_memory(error, n_bytes);
    *state = dape;
    dape->n_head = env->n_head;
    dape->n_layer = env->n_layer;
    const struct locus_position_scheme *over = overs[locus_position_int(spec, "over")];
    const struct locus_spec_source source = {.text = over->name,
                                             .origin = "position dape: over",
                                             .status = LOCUS_ERROR_ARGUMENT,
                                             .error = error};
    enum locus_status status = locus_kernels_init(&dape->kernels, env->kernels, error);
    if (!status) status = locus_spec_resolve(&dape->over.spec, &source, NULL, NULL, env);
    if (!status) status = locus_position_init(&dape->over, env, error);
    for (int layer = 0; !status && layer < env->n_layer; layer++)
        status = make_layer(dape, layer, env, error);
    return status;
}

static void fill(void *state, int n_positions)
{
    const struct dape *dape = state;
    locus_position_fill(&dape->over, n_positions);
}

/* ---- use ---------------------------------------------------------------------------------- */

/* biases[n_head, n_k] of the pairs, by the scheme beneath. */
static void find_biases(const struct dape *dape, const struct locus_bias_op *op, float *biases,
                        float *scratch)
{
    struct locus_bias_op own = *op;
    const size_t head_dim = op->q_stride, n_k = (size_t)op->n_k;
    memset(biases, 0, (size_t)dape->n_head * n_k * sizeof *biases);
    own.scratch = scratch;
    for (own.head = 0; own.head < dape->n_head; own.head++) {
        own.q = op->q + (size_t)own.head * head_dim;
        own.scores = biases + (size_t)own.head * n_k;
        locus_position_bias(&dape->over, &own);
    }
}

/* out[n_k, n_head] of pairs[n_k, 2 n_head]; hidden[n_k, n_units] is scratch. */
static void run_network(const struct dape *dape, const struct dape_layer *layer, const float *pairs,
                        int n_k, float *hidden, float *out)
{
    const struct locus_matmul first = {
        .out = hidden, .in = {.x = pairs}, .weight = &layer->w1, .bias = layer->b1, .n = n_k};
    const struct locus_matmul second = {
        .out = out, .in = {.x = hidden}, .weight = &layer->w2, .bias = layer->b2, .n = n_k};
    locus_multiply(&dape->kernels, &first, 0, 1);
    for (int i = 0; i < n_k * layer->w1.rows; i++)
        hidden[i] = hidden[i] > 0 ? hidden[i] : slope * hidden[i];
    locus_multiply(&dape->kernels, &second, 0, 1);
}

static void bias(const void *state, const struct locus_bias_op *op)
{
    const struct dape *dape = state;
    const int n_k = op->n_k, n_head = dape->n_head;
    float *biases = op->scratch, *pairs = biases + (ptrdiff_t)n_head * n_k;
    float *out = pairs + (ptrdiff_t)2 * n_head * n_k, *hidden = out + (ptrdiff_t)n_head * n_k;
    find_biases(dape, op, biases, hidden);
    for (int head = 0; head < n_head; head++) {
        const float *scores = op->scores + (size_t)head * op->scores_stride;
        for (int j = 0; j < n_k; j++) {
            pairs[(ptrdiff_t)j * 2 * n_head + head] = scores[j];
            pairs[(ptrdiff_t)j * 2 * n_head + n_head + head] = biases[(ptrdiff_t)head * n_k + j];
        }
    }
    run_network(dape, &dape->layers[op->layer], pairs, n_k, hidden, out);
    for (int head = 0; head < n_head; head++) {
        float *scores = op->scores + (size_t)head * op->scores_stride;
        for (int j = 0; j < n_k; j++)
            scores[j] += biases[(ptrdiff_t)head * n_k + j] + out[(ptrdiff_t)j * n_head + head];
    }
}

/* Of each pair the biases, the network's input and output, and then its hidden layer, or what the
 * scheme beneath needs. */
static size_t scratch_floats(const void *state, int n_k)
{
    const struct dape *dape = state;
    const size_t over = locus_position_scratch_floats(&dape->over, n_k);
    const size_t hidden = (size_t)dape->most_units * (size_t)n_k;
    return 4 * (size_t)dape->n_head * (size_t)n_k + (over > hidden ? over : hidden);
}

static const struct locus_param params[] = {
    {"over", LOCUS_PARAM_CHOICE, "kerple", 0, 0, "kerple|alibi|fire", true,
     "the scheme, with its defaults, whose biases the network sees"},
    {0},
};

static const char *const tensors[] = {
    "position_dape.fc1.weight",
    "position_dape.fc1.bias",
    "position_dape.fc2.weight",
    "position_dape.fc2.bias",
    "blk.N.position_dape.fc1.weight",
    "blk.N.position_dape.fc1.bias",
    "blk.N.position_dape.fc2.weight",
    "blk.N.position_dape.fc2.bias",
    "position_kerple.p",
    "position_kerple.a",
    "blk.N.position_kerple.p",
    "blk.N.position_kerple.a",
    "position_fire.c",
    "position_fire.threshold",
    "position_fire.fc1.weight",
    "position_fire.fc1.bias",
    "position_fire.fc2.weight",
    "position_fire.fc2.bias",
    "blk.N.position_fire.c",
    "blk.N.position_fire.threshold",
    "blk.N.position_fire.fc1.weight",
    "blk.N.position_fire.fc1.bias",
    "blk.N.position_fire.fc2.weight",
    "blk.N.position_fire.fc2.bias",
    NULL,
};

const struct locus_position_scheme locus_scheme_dape = {
    .abi = LOCUS_POSITION_ABI,
    .name = "dape",
    .summary = "a network of all heads' scores and biases, added to each score (DAPE)",
    .params = params,
    .tensors = tensors,
    .init = init_dape,
    .free = free_dape,
    .fill = fill,
    .all_heads = true,
    .bias = bias,
    .scratch_floats = scratch_floats,
};
