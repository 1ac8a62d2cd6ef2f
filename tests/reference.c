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
    int layer;
    double *q, *k, *v;
};

/* A key that a token sees, and where the two stand. */
struct pair {
    int key, q_position, k_position;
};

/* ---- the scheme's hooks ------------------------------------------------------------------- */

/* x[n, n_embd] += the positions of tokens[n] */
static void add_positions(struct plain *plain, const struct locus_position *position,
                          const int32_t *tokens, float *x)
{
    const int n_kept = locus_position_row_floats(position);
    float *kept = plain_make(plain, (1 + plain->n) * n_kept, sizeof *kept);
    locus_position_embed(position, tokens, x, 0, plain->n, n_kept ? kept + n_kept : NULL);
}

/* Where a row's rotation starts from, if the scheme asks: each key is a block of its own. */
static int origin(const struct locus_position *position, enum locus_position_rows which,
                  const struct pair *pair)
{
    if (position->spec.scheme->relative_blocks) return pair->k_position;
    return which == LOCUS_KEY && locus_position_per_row_keys(position) ? pair->q_position : -1;
}

/* rotated[width] = row[width], a query or a key, where the pair has it. */
static void rotate(const struct heads *heads, enum locus_position_rows which, const double *row,
                   int width, const struct pair *pair, float *rotated)
{
    const struct locus_position *position = heads->reference->position;
    for (int c = 0; c < width; c++)
        rotated[c] = (float)row[c];
    locus_position_rotate(position, heads->layer, which, rotated, width / heads->config->head_dim,
                          which == LOCUS_KEY ? &pair->k_position : &pair->q_position, 1,
                          origin(position, which, pair));
}

/* Adds to scores[n] of a head's query q[head_dim], which stands at one position in all pairs. */
static void add_bias(const struct heads *heads, int head, const float *q, const struct pair *pairs,
                     int n, float *scores)
{
    const struct locus_position *position = heads->reference->position;
    const int n_scratch = (int)locus_position_scratch_floats(position, n);
    float *scratch = plain_make(heads->plain, n_scratch, sizeof *scratch);
    int *k_positions = plain_make(heads->plain, n, sizeof *k_positions);
    for (int j = 0; j < n; j++)
        k_positions[j] = pairs[j].k_position;
    locus_position_bias(position, heads->layer, head, q, pairs->q_position, 0, k_positions, n,
                        scores, scratch);
}

/* ---- attention ---------------------------------------------------------------------------- */

/* The keys that token i sees: pairs[n], returns n. */
static int pairs_of(const struct heads *heads, int i, struct pair *pairs)
{
    const struct reference *reference = heads->reference;
    const int window = heads->config->window, every = heads->config->window_every;
    const bool local = window > 0 && (every <= 1 || (heads->layer + 1) % every == 0);
    int n = 0;
    for (int j = local && i >= window ? i - window + 1 : 0; j <= i; j++) {
        struct pair *pair = &pairs[n];
        *pair = (struct pair){j, i, j};
        n += !reference->sees ||
             reference->sees(reference->policy, i, j, &pair->q_position, &pair->k_position);
    }
    return n;
}

/* scores[n_head, n] of token i: q . k, scaled, biased. */
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
            scores[head * n + j] = (float)(dot * (double)config->attention_scale);
        }
    }
    for (int first = 0, end; first < n; first = end) {
        for (end = first; end < n && pairs[end].q_position == pairs[first].q_position;)
            end++;
        rotate(heads, LOCUS_QUERY, heads->q + i * q_width, q_width, &pairs[first], q);
        for (int head = 0; head < config->n_head; head++)
            add_bias(heads, head, q + head * dim, pairs + first, end - first,
                     scores + head * n + first);
    }
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
    double max = -INFINITY, sum = 0;
    for (int j = 0; j < n; j++)
        max = fmax(max, (double)scores[j]);
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

/* q, k or v: a matrix of its own, or `width` rows of a fused one from `first` on. */
static double *project(struct plain *plain, int layer, const char *name, const double *in,
                       int first, int width)
{
    const struct locus_config *config = &plain->model->config;
    const bool fused = plain_has(plain, layer, "attn_qkv");
    const double *all = plain_linear(plain, layer, fused ? "attn_qkv" : name, in);
    const int all_width =
        fused ? (config->n_head + 2 * config->n_head_kv) * config->head_dim : width;
    const double limit = config->clip_qkv > 0 ? (double)config->clip_qkv : INFINITY;
    double *out = plain_make(plain, plain->n * width, sizeof *out);
    for (int i = 0; i < plain->n; i++)
        for (int c = 0; c < width; c++)
            out[i * width + c] =
                fmax(-limit, fmin(limit, all[i * all_width + (fused ? first : 0) + c]));
    return out;
}

static double *attention(const struct reference *reference, struct plain *plain, int layer,
                         const double *in)
{
    const struct locus_config *config = &plain->model->config;
    const int q = config->n_head * config->head_dim, kv = config->n_head_kv * config->head_dim;
    const struct heads heads = {reference,
                                config,
                                plain,
                                layer,
                                project(plain, layer, "attn_q", in, 0, q),
                                project(plain, layer, "attn_k", in, q, kv),
                                project(plain, layer, "attn_v", in, q + kv, kv)};
    double *mixed = plain_make(plain, plain->n * q, sizeof *mixed);
    struct pair *pairs = plain_make(plain, plain->n, sizeof *pairs);
    for (int i = 0; i < plain->n; i++) {
        const int n = pairs_of(&heads, i, pairs);
        const float *scores = score(&heads, i, pairs, n);
        for (int head = 0; head < config->n_head; head++)
            mix(&heads, head, i, pairs, n, scores + head * n,
                mixed + i * q + head * config->head_dim);
    }
    return plain_linear(plain, layer, "attn_output", mixed);
}

/* ---- layers ------------------------------------------------------------------------------- */

/* down(act(up(in))), or down(act(gate(in)) * up(in)) */
static double *mlp(struct plain *plain, int layer, const double *in)
{
    const struct locus_config *config = &plain->model->config;
    double *up = plain_linear(plain, layer, "ffn_up", in);
    const double *gate = config->gated ? plain_linear(plain, layer, "ffn_gate", in) : up;
    for (int i = 0; i < plain->n * config->n_ff; i++)
        up[i] = plain_activation(config->activation, gate[i]) * (config->gated ? up[i] : 1);
    return plain_linear(plain, layer, "ffn_down", up);
}

static double *run_layer(const struct reference *reference, struct plain *plain, int index,
                         const double *x)
{
    const struct locus_config *config = &plain->model->config;
    if (config->norm_position == LOCUS_NORM_POST) { /* sums are normed (GPT-1) */
        x = plain_sum(plain, x, attention(reference, plain, index, x));
        x = plain_norm(plain, index, "attn_norm", x);
        x = plain_sum(plain, x, mlp(plain, index, x));
        return plain_norm(plain, index, "ffn_norm", x);
    }
    const double *normed = plain_norm(plain, index, "attn_norm", x);
    const double *mixed = attention(reference, plain, index, normed);
    if (config->parallel_residual) { /* both halves read x, under one norm if there is no second */
        const double *second = plain_norm(plain, index, "ffn_norm", x);
        x = plain_sum(plain, x, mixed);
        return plain_sum(plain, x, mlp(plain, index, second ? second : normed));
    }
    x = plain_sum(plain, x, mixed);
    return plain_sum(plain, x, mlp(plain, index, plain_norm(plain, index, "ffn_norm", x)));
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
    add_positions(plain, reference->position, tokens, x);
    for (int c = 0; c < plain->n * n_embd; c++)
        out[c] = (double)x[c];
    double *normed = plain_norm(plain, -1, "token_embd_norm", out);
    return normed ? normed : out;
}

void reference_logits(const struct reference *reference, const int32_t *tokens, int n,
                      double *logits)
{
    const struct locus_config *config = &reference->model->config;
    struct plain plain = {.model = reference->model, .n = n};
    const double *x = embed(reference, &plain, tokens);
    for (int i = 0; i < config->n_layer; i++)
        x = run_layer(reference, &plain, i, x);
    const double *normed = plain_norm(&plain, -1, "output_norm", x);
    const char *head = plain_has(&plain, -1, "output") ? "output" : "token_embd";
    const double *out = plain_linear(&plain, -1, head, normed ? normed : x);
    for (int i = 0; i < n * config->n_vocab; i++)
        logits[i] = out[i];
    plain_free(&plain);
}
