/* The forward pass as the papers have it: see reference.h.
 *
 *     embed -> position.embed -> per layer: norm -> q k v -> position.rotate -> scores
 *           -> position.bias -> softmax -> mix -> project -> norm -> MLP -> ... -> norm -> logits
 *
 * A step is done for the whole text before the next begins (plain.h). All is double but what goes
 * through a scheme's hooks.
 */
#include "reference.h"

#include <math.h>

#include "plain.h"

/* One layer's attention: q[n, n_head, head_dim], k and v[n, n_head_kv, head_dim] as projected. */
struct heads {
    const struct reference *reference;
    const struct locus_config *config;
    struct plain *plain;
    const struct locus_position *position; /* the layer's scheme */
    float *states;                         /* [n, layer_floats]: what it observed */
    int layer;
    double *q, *k, *v;
};

/* A token, a key that it sees, and where the two stand. */
struct pair {
    int query, key, q_position, k_position;
    int divisor; /* of both positions */
};

/* ---- the scheme's hooks ------------------------------------------------------------------- */

/* Zeros [n, floats], and a row of them before; NULL where there are none. */
static float *make_states(struct plain *plain, int floats)
{
    float *states = plain_make(plain, (1 + plain->n) * floats, sizeof *states);
    return floats ? states + floats : NULL;
}

/* x[n, n_embd] += the positions of tokens[n] */
static void add_positions(const struct reference *reference, struct plain *plain,
                          const int32_t *tokens, float *x)
{
    const struct locus_position *position = &reference->positions->schemes[0];
    const struct locus_embed_op op = {.tokens = tokens,
                                      .x = x,
                                      .n = plain->n,
                                      .token_states = make_states(plain, position->embed_floats),
                                      .n_axes = reference->n_axes,
                                      .coordinates = reference->coordinates};
    locus_position_embed(position, &op);
}

/* What the scheme keeps of in[n, n_embd]. */
static float *observe(struct plain *plain, const struct locus_position *position, int layer,
                      const double *in)
{
    const int width = plain->n * plain->model->config.n_embd;
    float *x = plain_make(plain, width, sizeof *x),
          *states = make_states(plain, position->layer_floats);
    for (int c = 0; c < width; c++)
        x[c] = (float)in[c];
    const struct locus_observe_op op = {
        .layer = layer, .x = x, .n = plain->n, .token_states = states};
    locus_position_observe(position, &op);
    return states;
}

static float *states_of(const struct heads *heads, int token)
{
    return heads->states ? heads->states + token * heads->position->layer_floats : NULL;
}

static const int *coordinates_of(const struct heads *heads, int token)
{
    const struct reference *reference = heads->reference;
    return reference->n_axes ? reference->coordinates + token * reference->n_axes : NULL;
}

/* Where a row's rotation starts from: each key is a block of its own. */
static int origin(enum locus_frame frame, enum locus_position_rows which, const struct pair *pair)
{
    if (frame == LOCUS_FRAME_BLOCK) return pair->k_position;
    return which == LOCUS_KEY && frame == LOCUS_FRAME_QUERY ? pair->q_position : 0;
}

/* A parameter of the layer's SPEC. */
static double parameter(const struct heads *heads, const char *key)
{
    return locus_position_number(&heads->position->spec, key);
}

/* logn=position: what a token's query is multiplied by. */
static double query_scale(const struct heads *heads, int token)
{
    const double stated = parameter(heads, "trained");
    const double trained = stated > 0 ? stated : heads->config->trained_length;
    return parameter(heads, "logn") == 1 ? fmax(1, log(token + 1) / log(trained)) : 1;
}

/* rotated[width] = row[width], a query or a key, where the pair has it. */
static void rotate(const struct heads *heads, enum locus_position_rows which, const double *row,
                   int width, const struct pair *pair, float *rotated)
{
    const int token = which == LOCUS_KEY ? pair->key : pair->query;
    const double scale = which == LOCUS_KEY ? 1 : query_scale(heads, pair->query);
    for (int c = 0; c < width; c++)
        rotated[c] = (float)(row[c] * scale);
    const struct locus_rotate_op op = {.layer = heads->layer,
                                       .which = which,
                                       .rows = rotated,
                                       .n = 1,
                                       .n_heads = width / heads->config->head_dim,
                                       .positions = which == LOCUS_KEY ? &pair->k_position
                                                                       : &pair->q_position,
                                       .divisor = pair->divisor,
                                       .origin = origin(heads->position->frame, which, pair),
                                       .token_states = states_of(heads, token),
                                       .n_axes = heads->reference->n_axes,
                                       .coordinates = coordinates_of(heads, token)};
    locus_position_rotate(heads->position, &op);
}

/* Adds to scores[n] of a head's query q[head_dim], which stands at one position in all pairs; of
 * all heads, `stride` scores apart, where the scheme wants them. */
static void add_bias(const struct heads *heads, int head, const float *q, const struct pair *pairs,
                     int n, float *scores, int stride)
{
    const struct locus_position *position = heads->position;
    const int n_scratch = (int)locus_position_scratch_floats(position, n);
    const int n_state = position->layer_floats, n_axes = heads->reference->n_axes;
    float *scratch = plain_make(heads->plain, n_scratch, sizeof *scratch);
    float *k_token_states = plain_make(heads->plain, n * n_state, sizeof *k_token_states);
    int *k_positions = plain_make(heads->plain, n, sizeof *k_positions);
    int *k_coordinates = plain_make(heads->plain, n * n_axes, sizeof *k_coordinates);
    for (int j = 0; j < n; j++) {
        k_positions[j] = pairs[j].k_position;
        for (int c = 0; c < n_state; c++)
            k_token_states[j * n_state + c] = states_of(heads, pairs[j].key)[c];
        for (int axis = 0; axis < n_axes; axis++)
            k_coordinates[j * n_axes + axis] = coordinates_of(heads, pairs[j].key)[axis];
    }
    const struct locus_bias_op op = {.layer = heads->layer,
                                     .head = head,
                                     .q = q,
                                     .q_stride = (size_t)heads->config->head_dim,
                                     .q_position = pairs->q_position,
                                     .n_k = n,
                                     .k_positions = k_positions,
                                     .scores = scores,
                                     .scores_stride = (size_t)stride,
                                     .scratch = scratch,
                                     .q_token_state = states_of(heads, pairs->query),
                                     .k_token_states = n_state ? k_token_states : NULL,
                                     .n_axes = n_axes,
                                     .q_coordinates = coordinates_of(heads, pairs->query),
                                     .k_coordinates = n_axes ? k_coordinates : NULL};
    locus_position_bias(position, &op);
}

/* ---- attention ---------------------------------------------------------------------------- */

/* The keys that token i sees: pairs[n], returns n. */
static int pairs_of(const struct heads *heads, int i, struct pair *pairs)
{
    const struct reference *reference = heads->reference;
    const int window = heads->config->layers[heads->layer].window; /* 0: all */
    int n = 0;
    for (int j = window && i >= window ? i - window + 1 : 0; j <= i; j++) {
        struct pair *pair = &pairs[n];
        *pair = (struct pair){i, j, i, j, 1};
        n += !reference->sees ||
             reference->sees(reference->policy, i, j, &pair->q_position, &pair->k_position);
        if (pair->q_position != i || pair->k_position != j) pair->divisor = reference->divisor;
    }
    return n;
}

/* scores[n_head, n] of token i: q . k, scaled, capped, biased. */
static float *score(const struct heads *heads, int i, const struct pair *pairs, int n)
{
    const struct locus_config *config = heads->config;
    const int dim = config->head_dim, group = config->n_head / config->n_head_kv;
    const int q_width = config->n_head * dim, kv_width = config->n_head_kv * dim;
    float *q = plain_make(heads->plain, q_width, sizeof *q);
    float *k = plain_make(heads->plain, kv_width, sizeof *k);
    float *scores = plain_make(heads->plain, config->n_head * n, sizeof *scores);
    for (int j = 0; j < n; j++) {
        rotate(heads, LOCUS_QUERY, heads->q + i * q_width, q_width, &pairs[j], q);
        rotate(heads, LOCUS_KEY, heads->k + pairs[j].key * kv_width, kv_width, &pairs[j], k);
        for (int head = 0; head < config->n_head; head++) {
            double dot = 0;
            for (int d = 0; d < dim; d++)
                dot += (double)q[head * dim + d] * (double)k[head / group * dim + d];
            scores[head * n + j] =
                (float)plain_cap(dot * (double)config->attention_scale, (double)config->score_cap);
        }
    }
    for (int first = 0, end; first < n; first = end) {
        for (end = first; end < n && pairs[end].q_position == pairs[first].q_position;)
            end++;
        rotate(heads, LOCUS_QUERY, heads->q + i * q_width, q_width, &pairs[first], q);
        const bool all = locus_position_all_heads(heads->position);
        for (int head = 0; head < (all ? 1 : config->n_head); head++)
            add_bias(heads, head, q + head * dim, pairs + first, end - first,
                     scores + head * n + first, n);
    }
    for (int c = 0; c < config->n_head * n; c++)
        scores[c] /= (float)parameter(heads, "temperature");
    return scores;
}

/* out[head_dim] = softmax(scores[n]) . the values of one head */
static void mix(const struct heads *heads, int head, int i, const struct pair *pairs, int n,
                const float *scores, double *out)
{
    const struct reference *reference = heads->reference;
    const struct locus_config *config = heads->config;
    const int dim = config->head_dim, kv = head / (config->n_head / config->n_head_kv);
    const bool wanted = reference->layer == heads->layer && reference->head == head;
    const struct locus_attention_weights *weights = reference->model->layers[heads->layer].mixer;
    const float *sinks = weights->sinks;
    const double sink = sinks ? (double)sinks[head] / parameter(heads, "temperature") : -INFINITY;
    double max = sink;
    for (int j = 0; j < n; j++)
        max = fmax(max, (double)scores[j]);
    double sum = exp(sink - max);
    for (int j = 0; j < n; j++)
        sum += exp((double)scores[j] - max);
    for (int j = 0; j < n; j++) {
        const double weight = exp((double)scores[j] - max) / sum;
        for (int d = 0; d < dim; d++)
            out[d] += weight * heads->v[(pairs[j].key * config->n_head_kv + kv) * dim + d];
        if (reference->weights && wanted)
            reference->weights[i * heads->plain->n + pairs[j].key] = weight;
    }
}

/* Queries, keys or values: a matrix of their own, or `rows` of a fused one from `first` on. */
static double *project(struct plain *plain, int layer, const char *name, double *in, int first,
                       int rows)
{
    const double limit = (double)plain->model->config.clip_qkv;
    const bool fused = plain_has(plain, layer, "attn_qkv");
    double *out =
        plain_linear(plain, layer, fused ? "attn_qkv" : name, fused ? first : 0, rows, in);
    for (int i = 0; i < plain->n * rows && limit > 0; i++)
        out[i] = fmax(-limit, fmin(limit, out[i]));
    return out;
}

static double *attention(const struct reference *reference, struct plain *plain, int layer,
                         double *in)
{
    const struct locus_config *config = &plain->model->config;
    const int q = config->n_head * config->head_dim, kv = config->n_head_kv * config->head_dim;
    const struct locus_position *position = locus_positions_at(reference->positions, layer);
    struct heads heads = {.reference = reference,
                          .config = config,
                          .plain = plain,
                          .position = position,
                          .states = observe(plain, position, layer, in),
                          .layer = layer};
    heads.q = project(plain, layer, "attn_q", in, 0, q);
    heads.k = project(plain, layer, "attn_k", in, q, kv);
    heads.v = project(plain, layer, "attn_v", in, q + kv, kv);
    heads.q = plain_norm(plain, layer, "attn_q_norm", heads.q, q, heads.q);
    heads.k = plain_norm(plain, layer, "attn_k_norm", heads.k, kv, heads.k);
    double *mixed = plain_make(plain, plain->n * q, sizeof *mixed);
    struct pair *pairs = plain_make(plain, plain->n, sizeof *pairs);
    for (int i = 0; i < plain->n; i++) {
        const int n = pairs_of(&heads, i, pairs);
        const float *scores = score(&heads, i, pairs, n);
        for (int head = 0; head < config->n_head; head++)
            mix(&heads, head, i, pairs, n, scores + head * n,
                mixed + i * q + head * config->head_dim);
    }
    return plain_linear(plain, layer, "attn_output", 0, config->n_embd, mixed);
}

static double *mix_tokens(const struct reference *reference, struct plain *plain, int layer,
                          double *in)
{
    const struct locus_layer_part *mixer = plain->model->config.layers[layer].mixer;
    if (mixer == &locus_mamba_part) return plain_mamba(plain, layer, in);
    if (mixer == &locus_mamba2_part) return plain_mamba2(plain, layer, in);
    if (mixer == &locus_hyena_part) return plain_hyena(plain, layer, in);
    if (mixer == &locus_retention_part) return plain_retention(plain, layer, in);
    return attention(reference, plain, layer, in);
}

/* ---- layers ------------------------------------------------------------------------------- */

/* x + what a half of a layer makes, itself normed where there is a norm for it. */
static double *add_half(struct plain *plain, int layer, const char *post_norm, const double *x,
                        double *half)
{
    const struct locus_config *config = &plain->model->config;
    half = plain_norm(plain, layer, post_norm, half, config->n_embd, half);
    return plain_sum(plain, x, (double)config->residual_scale, half);
}

static double *run_layer(const struct reference *reference, struct plain *plain, int layer,
                         double *x)
{
    const struct locus_config *config = &plain->model->config;
    const bool sums = config->norm_position == LOCUS_NORM_SUM; /* what norms are of, in GPT-1 */
    const int width = config->n_embd;
    double *in = sums ? x : plain_norm(plain, layer, "attn_norm", x, width, x), *mlp_in = in;
    if (config->parallel_residual) mlp_in = plain_norm(plain, layer, "ffn_norm", x, width, in);
    double *mixed = mix_tokens(reference, plain, layer, in);
    x = add_half(plain, layer, "post_attention_norm", x, mixed);
    if (config->layers[layer].mlp == &locus_no_mlp_part)
        return sums ? plain_norm(plain, layer, "attn_norm", x, width, x) : x;
    if (sums) x = plain_norm(plain, layer, "attn_norm", x, width, x);
    if (!config->parallel_residual)
        mlp_in = sums ? x : plain_norm(plain, layer, "ffn_norm", x, width, x);
    x = add_half(plain, layer, "post_ffw_norm", x, plain_mlp(plain, layer, mlp_in));
    return sums ? plain_norm(plain, layer, "ffn_norm", x, width, x) : x;
}

static double *embed(const struct reference *reference, struct plain *plain, const int32_t *tokens)
{
    const struct locus_config *config = &plain->model->config;
    const int n_embd = config->n_embd;
    float *x = plain_make(plain, plain->n * n_embd, sizeof *x);
    double *out = plain_make(plain, plain->n * n_embd, sizeof *out);
    for (int i = 0; i < plain->n; i++) {
        const double *row = plain_row(plain, "token_embd", tokens[i]);
        for (int c = 0; c < n_embd; c++)
            x[i * n_embd + c] = (float)(row[c] * (double)config->embedding_scale);
    }
    locus_positions_fill(reference->positions, plain->n);
    add_positions(reference, plain, tokens, x);
    for (int c = 0; c < plain->n * n_embd; c++)
        out[c] = (double)x[c];
    return plain_norm(plain, -1, "token_embd_norm", out, n_embd, out);
}

void reference_logits(const struct reference *reference, const int32_t *tokens, int n,
                      double *logits)
{
    const struct locus_config *config = &reference->model->config;
    struct plain plain = {.model = reference->model, .n = n};
    double *x = embed(reference, &plain, tokens);
    for (int layer = 0; layer < config->n_layer; layer++)
        x = run_layer(reference, &plain, layer, x);
    x = plain_norm(&plain, -1, "output_norm", x, config->n_embd, x);
    const char *head = plain_has(&plain, -1, "output") ? "output" : "token_embd";
    x = plain_linear(&plain, -1, head, 0, config->n_vocab, x);
    for (int i = 0; i < n * config->n_vocab; i++)
        logits[i] = plain_cap(x[i] * (double)config->logit_scale, (double)config->logit_cap);
    plain_free(&plain);
}
