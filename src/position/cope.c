/* Contextual positions: a key's position is a count, from the query back, of the tokens that gates
 * let through.
 *
 * Golovneva et al., "Contextual Position Encoding: Learning to Count What's Important" (arXiv
 * 2405.18719), equations 4 to 7: gates g_ik = sigmoid(score(i, k)) before any bias, p_ij = sum of
 * g_ik for k = j .. i, at most n_positions - 1; score(i, j) += (1 - w) q.e_floor(p) + w q.e_ceil(p)
 * with w = p - floor(p) and q unscaled. As in the authors' code the gates see scaled scores;
 * gate=raw takes the unscaled ones.
 */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/math.h"
#include "position/registry.h"
#include "position/tensors.h"

struct cope_layer {
    float *embeddings; /* [head_dim, n_positions] */
    int n_positions;
};

struct cope {
    int n_layer, head_dim;
    int most_positions; /* of any layer */
    float gate_scale;   /* scores times this go into the gates */
    struct cope_layer layers[];
};

static enum locus_status make_layer(struct cope *cope, int index,
                                    const struct locus_position_env *env, locus_error *error)
{
    const struct locus_tensor_query query = {env, "cope", index};
    struct cope_layer *layer = &cope->layers[index];
    const float *table;
    int n;
    enum locus_status status = locus_tensor_find(&query, "position_cope.weight", LOCUS_ANY_ROWS,
                                                 env->head_dim, &table, &n, error);
    if (status) return status;
    layer->n_positions = n;
    if (n > cope->most_positions) cope->most_positions = n;
    layer->embeddings = locus_aligned_zalloc((size_t)n, (size_t)env->head_dim * sizeof(float));
    if (!layer->embeddings)
        return locus_fail_memory(error, (size_t)n * (size_t)env->head_dim * sizeof(float));
    for (int p = 0; p < n; p++)
        for (int d = 0; d < env->head_dim; d++)
            layer->embeddings[(size_t)d * (size_t)n + (size_t)p] =
                table[(size_t)p * (size_t)env->head_dim + (size_t)d];
    return LOCUS_OK;
}

static void free_cope(void *state)
{
    struct cope *cope = state;
    for (int l = 0; cope && l < cope->n_layer; l++)
        locus_aligned_free(cope->layers[l].embeddings);
    free(cope);
}

static enum locus_status init_cope(void **state, const struct locus_position_env *env,
                                   const struct locus_position_spec *spec, locus_error *error)
{
    size_t n_bytes = sizeof(struct cope) + (size_t)env->n_layer * sizeof(struct cope_layer);
    struct cope *cope = calloc(1, n_bytes);
    if (!cope) return locus_fail_memory(error, n_bytes);
    *state = cope;
    cope->n_layer = env->n_layer;
    cope->head_dim = env->head_dim;
    bool raw = locus_position_int(spec, "gate") == 1;
    if (raw && !(env->score_scale > 0))
        return locus_fail(
            error, LOCUS_ERROR_UNSUPPORTED,
            "position cope: scores are scaled by %g; expected more than 0 for gate=raw",
            (double)env->score_scale);
    cope->gate_scale = raw ? 1 / env->score_scale : 1;
    enum locus_status status = LOCUS_OK;
    for (int layer = 0; !status && layer < env->n_layer; layer++)
        status = make_layer(cope, layer, env, error);
    return status;
}

/* Keys' positions, at most `last`, from the query backwards. All keys before the one returned are
 * at `last`, and their gates aren't worked out. */
static int count(float *restrict positions, const float *restrict scores, int n, float scale,
                 float last)
{
    enum { PART = 64 };
    float sum = 0;
    int start = n;
    while (start > 0 && sum < last) {
        const int end = start;
        start = end > PART ? end - PART : 0;
        for (int j = start; j < end; j++)
            positions[j] = locus_sigmoid(scores[j] * scale);
        for (int j = end - 1; j >= start; j--) {
            sum += positions[j];
            positions[j] = sum < last ? sum : last;
        }
    }
    return start;
}

/* products[n] of q[head_dim] and the first n embeddings. */
static void multiply(float *restrict products, const float *restrict q,
                     const struct cope_layer *layer, int n, int head_dim)
{
    for (int p = 0; p < n; p++)
        products[p] = 0;
    for (int d = 0; d < head_dim; d++) {
        const float *row = layer->embeddings + (size_t)d * (size_t)layer->n_positions;
        for (int p = 0; p < n; p++)
            products[p] += q[d] * row[p];
    }
}

/* The product at a position between two whole ones. */
static float product_at(const float *products, float position)
{
    int below = (int)position;
    float w = position - (float)below;
    float above = products[w > 0 ? below + 1 : below];
    return (1 - w) * products[below] + w * above;
}

/* n_k is all the row sees, in order. */
static void bias(const void *state, const struct locus_bias_op *op)
{
    const struct cope *cope = state;
    const struct cope_layer *layer = &cope->layers[op->layer];
    const int n_k = op->n_k;
    float *scores = op->scores, *positions = op->scratch, *products = op->scratch + n_k;
    const float last = (float)(layer->n_positions - 1);
    const int first = count(positions, scores, n_k, cope->gate_scale, last);
    /* The first key's position is the largest. */
    const int most = (int)(first > 0 ? last : positions[0]) + 2;
    multiply(products, op->q, layer, most < layer->n_positions ? most : layer->n_positions,
             cope->head_dim);
    for (int j = first; j < n_k; j++)
        scores[j] += product_at(products, positions[j]);
    const float far = first > 0 ? product_at(products, last) : 0;
    for (int j = 0; j < first; j++)
        scores[j] += far;
}

static size_t scratch_floats(const void *state, int n_k)
{
    const struct cope *cope = state;
    return (size_t)n_k + (size_t)cope->most_positions;
}

static const struct locus_param params[] = {
    {"gate", LOCUS_PARAM_CHOICE, "scaled", 0, 0, "scaled|raw", false,
     "gates see scores as scaled for the softmax, or as they are"},
    {0},
};

static const char *const tensors[] = {
    "position_cope.weight",
    "blk.N.position_cope.weight",
    NULL,
};

const struct locus_position_scheme locus_scheme_cope = {
    .abi = LOCUS_POSITION_ABI,
    .name = "cope",
    .summary = "positions counted by gates from the query back, added to each score (CoPE)",
    .params = params,
    .tensors = tensors,
    .init = init_cope,
    .free = free_cope,
    .whole_row = true,
    .bias = bias,
    .scratch_floats = scratch_floats,
};
