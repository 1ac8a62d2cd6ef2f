/* Forget gates: a key fades by the gates of the tokens after it, up to the query.
 *
 * Lin et al., "Forgetting Transformer: Softmax Attention with a Forget Gate" (arXiv 2503.02130):
 * f_t = sigmoid(w_h . x_t + b_h) a head, x_t what queries and keys are projected
 * from; score(i, j) += ln f_{j+1} + ... + ln f_i. (Its "Pro" block's output gate, norms and key
 * shift are a model's, not a scheme's.)
 *
 * The sum is c_i - c_j of the running sums c_t, kept a token as two floats a head, c = high + low:
 * 48 bits. One float's 24 would lose the gates of near tokens after some 10^5 others. The
 * difference of the high parts is exact where it is small. Positions aren't asked for, so a cache
 * policy may hide and move keys as it likes: gates of hidden tokens still count.
 */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "position/registry.h"
#include "position/tensors.h"

enum {
    ROWS = 48, /* tokens whose products share a reading of the weights */
    PARTS = 2  /* of a running sum: high, low */
};

struct fox_layer {
    struct locus_weight weight; /* [n_head, n_embd] */
    const float *bias;          /* [n_head]; the model's */
};

struct fox {
    int n_embd, n_head, n_layer;
    struct locus_kernels kernels; /* the session's; they change no bit */
    float *products;              /* [ROWS, n_head]: scratch of observe, which one thread calls */
    struct fox_layer layers[];
};

/* ---- set-up ------------------------------------------------------------------------------- */

static enum locus_status make_layer(struct fox *fox, int index,
                                    const struct locus_position_env *env, locus_error *error)
{
    const struct locus_tensor_query query = {env, "fox", index};
    struct fox_layer *layer = &fox->layers[index];
    const float *weight;
    enum locus_status status = locus_tensor_find(&query, "position_fox.weight", env->n_head,
                                                 env->n_embd, &weight, NULL, error);
    if (!status)
        status = locus_tensor_find(&query, "position_fox.bias", 1, env->n_head, &layer->bias, NULL,
                                   error);
    if (status) return status;
    const struct locus_row_source source = {.data = (const unsigned char *)weight};
    return locus_weight_pack(&layer->weight, LOCUS_F32, env->n_head, env->n_embd, source, 1, error);
}

static void free_fox(void *state)
{
    struct fox *fox = state;
    for (int layer = 0; fox && layer < fox->n_layer; layer++)
        locus_weight_free(&fox->layers[layer].weight);
    if (fox) locus_aligned_free(fox->products);
    free(fox);
}

static enum locus_status init_fox(void **state, const struct locus_position_env *env,
                                  const struct locus_position_spec *spec, locus_error *error)
{
    const size_t n_bytes = sizeof(struct fox) + (size_t)env->n_layer * sizeof(struct fox_layer);
    const size_t row_bytes = (size_t)env->n_head * sizeof(float);
    (void)spec;
    struct fox *fox = calloc(1, n_bytes);
    if (!fox) return locus_fail_memory(error, n_bytes);
    *state = fox;
    fox->n_embd = env->n_embd;
    fox->n_head = env->n_head;
    fox->n_layer = env->n_layer;
    fox->products = locus_aligned_zalloc(ROWS, row_bytes);
    if (!fox->products) return locus_fail_memory(error, ROWS * row_bytes);
    enum locus_status status = locus_kernels_init(&fox->kernels, env->kernels, error);
    for (int layer = 0; !status && layer < env->n_layer; layer++)
        status = make_layer(fox, layer, env, error);
    return status;
}

static int layer_floats(const void *state)
{
    const struct fox *fox = state;
    return PARTS * fox->n_head;
}

/* ---- use ---------------------------------------------------------------------------------- */

/* ln sigmoid(z) = min(z, 0) - ln(1 + e^-|z|) */
static double log_sigmoid(double z)
{
    if (isnan(z)) return z;
    return (z < 0 ? z : 0) - locus_log(1 + locus_exp_double(-fabs(z)));
}

/* sums[n_head, PARTS], those after a token, from those before it and its gates' logits. */
static void step(int n_head, const float *logits, const float *before, float *sums)
{
    for (int head = 0; head < n_head; head++, before += PARTS, sums += PARTS) {
        const double sum =
            (double)before[0] + (double)before[1] + log_sigmoid((double)logits[head]);
        sums[0] = (float)sum;
        sums[1] = (float)(sum - (double)sums[0]);
    }
}

static void observe(const void *state, const struct locus_observe_op *op)
{
    const struct fox *fox = state;
    const struct fox_layer *layer = &fox->layers[op->layer];
    const int width = PARTS * fox->n_head;
    float *sums = op->token_states;
    for (int first = 0; first < op->n; first += ROWS) {
        const int n = op->n - first < ROWS ? op->n - first : ROWS;
        const struct locus_matmul product = {.out = fox->products,
                                             .in = {.x = op->x + (ptrdiff_t)first * fox->n_embd},
                                             .weight = &layer->weight,
                                             .bias = layer->bias,
                                             .n = n};
        locus_multiply(&fox->kernels, &product, 0, 1);
        for (int i = 0; i < n; i++, sums += width)
            step(fox->n_head, fox->products + (ptrdiff_t)i * fox->n_head, sums - width, sums);
    }
}

static void bias(const void *state, const struct locus_bias_op *op)
{
    const struct fox *fox = state;
    const int width = PARTS * fox->n_head, at = PARTS * op->head;
    const float high = op->q_token_state[at], low = op->q_token_state[at + 1];
    const float *sums = op->k_token_states + at;
    for (int j = 0; j < op->n_k; j++, sums += width)
        op->scores[j] += (high - sums[0]) + (low - sums[1]);
}

/* No position is looked at. */
static bool takes_fractions(const void *state)
{
    (void)state;
    return true;
}

static const char *const tensors[] = {
    "position_fox.weight",
    "position_fox.bias",
    "blk.N.position_fox.weight",
    "blk.N.position_fox.bias",
    NULL,
};

const struct locus_position_scheme locus_scheme_fox = {
    .abi = LOCUS_POSITION_ABI,
    .name = "fox",
    .summary = "the logarithms of forget gates of the tokens between, added to each score (FoX)",
    .tensors = tensors,
    .init = init_fox,
    .free = free_fox,
    .layer_floats = layer_floats,
    .observe = observe,
    .bias = bias,
    .takes_fractions = takes_fractions,
};
