/* The forward pass: one path for a prompt and for one token.
 *
 *     embed -> position.embed -> per layer: norm -> q k v -> position.rotate -> cache -> attend
 *           -> project -> norm -> MLP -> ... -> norm -> logits
 *
 * It is one parallel region: every thread runs `worker` and does its share of each step; a barrier
 * ends a step that others read. Threads own outputs, never parts of a sum, so their number changes
 * no bit.
 */
#include <string.h>

#include "base/math.h"
#include "forward/mlp.h"
#include "forward/pass.h"

static void embed(const struct pass *pass)
{
    struct locus_session *session = pass->session;
    const struct locus_model *model = session->model;
    const struct locus_config *config = &model->config;
    const size_t n_embd = (size_t)config->n_embd;
    const int first_position = session->setup.first_position + session->length;
    for (int i = share_first(pass, pass->n); i < share_end(pass, pass->n); i++) {
        float *row = session->x + (size_t)i * n_embd;
        locus_weight_row(&model->embedding, pass->tokens[i], row);
        if (config->embedding_scale != 1)
            for (size_t c = 0; c < n_embd; c++)
                row[c] *= config->embedding_scale;
        session->row_positions[i] = first_position + i;
    }
    await_all(pass);
    if (pass->thread == 0) {
        const size_t states_before = (size_t)session->length + 1;
        const struct locus_embed_op op = {
            .tokens = pass->tokens,
            .x = session->x,
            .first_position = first_position,
            .n = pass->n,
            .n_axes = session->setup.n_axes,
            .coordinates = locus_coordinates_at(session, session->length),
            .token_states =
                session->embed_states
                    ? session->embed_states + states_before * (size_t)session->embed_floats
                    : NULL,
        };
        locus_position_embed(&session->positions.schemes[0], &op);
    }
    await_all(pass);
    if (config->embedding_norm) {
        norm_rows(pass, &model->embedding_norm, session->x, session->x, pass->n);
        await_all(pass);
    }
}

/* Shows the layer's scheme what its attention reads, in[n, n_embd]. */
static void observe(const struct pass *pass, int layer, const float *in)
{
    struct locus_session *session = pass->session;
    const struct locus_observe_op op = {
        .layer = layer,
        .x = in,
        .first_position = session->setup.first_position + session->length,
        .n = pass->n,
        .token_states = locus_layer_states(session, layer, session->length)};
    if (pass->thread == 0)
        locus_position_observe(locus_positions_at(&session->positions, layer), &op);
}

static void clip(float *row, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++) {
        row[i] = row[i] > limit ? limit : row[i];
        row[i] = row[i] < -limit ? -limit : row[i];
    }
}

/* Norms of the stretches that rows[n_values] are made of, where the layer has them. */
static void norm_heads(const struct pass *pass, const struct locus_head_norm *norm, float *rows,
                       int n_values)
{
    const struct locus_config *config = &pass->session->model->config;
    const struct locus_norm_weights *weights = &norm->weights;
    if (!weights->weight) return;
    for (int i = 0; i < n_values / norm->width; i++) {
        const struct locus_norm op = {config->norm, config->norm_epsilon,
                                      weights->weight + (size_t)(i % norm->n * norm->width),
                                      weights->bias};
        float *stretch = rows + (size_t)i * (size_t)norm->width;
        pass->session->kernels->norm(&op, stretch, stretch, norm->width);
    }
}

/* Queries to their positions, unless attention does it block by block. */
static void rotate_queries(const struct locus_session *session, int layer, float *q, int slot,
                           const int *positions, int n)
{
    const struct locus_position *position = locus_positions_at(&session->positions, layer);
    const struct locus_rotate_op op = {.layer = layer,
                                       .which = LOCUS_QUERY,
                                       .rows = q,
                                       .n = n,
                                       .n_heads = session->model->config.n_head,
                                       .positions = positions,
                                       .token_states = locus_layer_states(session, layer, slot),
                                       .n_axes = session->setup.n_axes,
                                       .coordinates = locus_coordinates_at(session, slot)};
    if (position->frame != LOCUS_FRAME_BLOCK) locus_position_rotate(position, &op);
}

/* Keys of the slots from `slot` on to their positions, unless attention does it query by query. */
static void rotate_keys(const struct locus_session *session, int layer, float *k, int slot,
                        const int *positions, int n, bool group)
{
    const struct locus_position *position = locus_positions_at(&session->positions, layer);
    const size_t width = (size_t)session->cache.n_head_kv * (size_t)session->cache.head_dim;
    struct locus_rotate_op op = {.layer = layer,
                                 .which = LOCUS_KEY,
                                 .n = n,
                                 .n_heads = session->cache.n_head_kv,
                                 .n_axes = session->setup.n_axes};
    if (position->frame == LOCUS_FRAME_QUERY) return;
    for (int i = 0; i < n; i += op.n) {
        op.rows = k + (size_t)i * width;
        op.positions = positions + i;
        op.token_states = locus_layer_states(session, layer, slot + i);
        op.coordinates = locus_coordinates_at(session, slot + i);
        if (position->frame == LOCUS_FRAME_BLOCK) {
            const int left = LOCUS_KV_BLOCK - (slot + i) % LOCUS_KV_BLOCK;
            op.n = left < n - i ? left : n - i;
            op.origin = locus_block_origin(session, slot + i, group);
        }
        locus_position_rotate(position, &op);
    }
}

/* The second rotation, from q and k as projected: queries to where their moved spans have them, and
 * keys into the group store. */
static void move_rows(const struct pass *pass, int layer, int first, int n)
{
    struct locus_session *session = pass->session;
    const struct locus_config *config = &session->model->config;
    const struct locus_policy *policy = &session->setup.policy;
    const int slot = session->length + first;
    const size_t q_width = (size_t)config->n_head * (size_t)config->head_dim;
    const size_t kv_width = (size_t)config->n_head_kv * (size_t)config->head_dim;
    float *q = session->q_moved + (size_t)first * q_width;
    int *positions = session->moved_positions + first;
    for (int i = 0; i < n; i++) {
        struct locus_span spans[LOCUS_MAX_SPANS];
        policy->kind->split(policy, slot + i, spans);
        positions[i] = spans[0].q_position; /* a moved span comes first */
    }
    memcpy(q, session->q + (size_t)first * q_width, (size_t)n * q_width * sizeof *q);
    rotate_queries(session, layer, q, slot, positions, n);
    if (!session->k_group) return;
    float *k = session->k_group + (size_t)first * kv_width;
    memcpy(k, session->k + (size_t)first * kv_width, (size_t)n * kv_width * sizeof *k);
    rotate_keys(session, layer, k, slot, session->group_positions + slot, n, true);
    for (int i = 0; i < n; i++)
        locus_cache_put_keys(&session->cache, LOCUS_GROUP_KEYS, layer, slot + i,
                             k + (size_t)i * kv_width);
}

/* Rows of q, k and v to their positions, and into the cache. */
static void rotate_and_cache(const struct pass *pass, int layer)
{
    struct locus_session *session = pass->session;
    const struct locus_config *config = &session->model->config;
    const int q_width = config->n_head * config->head_dim;
    const int kv_width = config->n_head_kv * config->head_dim;
    const int first = share_first(pass, pass->n), n = share_end(pass, pass->n) - first;
    float *q = session->q + (size_t)first * (size_t)q_width;
    float *k = session->k + (size_t)first * (size_t)kv_width;
    float *v = session->v + (size_t)first * (size_t)kv_width;
    if (n == 0) return;
    if (config->clip_qkv > 0) {
        clip(q, (size_t)n * (size_t)q_width, config->clip_qkv);
        clip(k, (size_t)n * (size_t)kv_width, config->clip_qkv);
        clip(v, (size_t)n * (size_t)kv_width, config->clip_qkv);
    }
    norm_heads(pass, &session->model->layers[layer].q_norm, q, n * q_width);
    norm_heads(pass, &session->model->layers[layer].k_norm, k, n * kv_width);
    if (session->q_moved) move_rows(pass, layer, first, n);
    const int *positions = session->row_positions + first;
    const int slot = session->length + first;
    const bool by_query =
        locus_positions_at(&session->positions, layer)->frame == LOCUS_FRAME_QUERY;
    rotate_queries(session, layer, q, slot, positions, n);
    rotate_keys(session, layer, k, slot, positions, n, false);
    for (int i = 0; i < n; i++) {
        const size_t at = (size_t)i * (size_t)kv_width;
        if (by_query)
            locus_cache_put_key_rows(&session->cache, layer, slot + i, k + at);
        else
            locus_cache_put_keys(&session->cache, LOCUS_KEYS, layer, slot + i, k + at);
        locus_cache_put_values(&session->cache, layer, slot + i, v + at);
    }
}

/* x += attention(in); in[n, n_embd] is complete on every thread. */
static void attention(const struct pass *pass, int index, const float *in)
{
    struct locus_session *session = pass->session;
    const struct locus_config *config = &session->model->config;
    const struct locus_layer *layer = &session->model->layers[index];
    const int n = pass->n;
    struct locus_activations input =
        prepare(pass, in, n, config->n_embd,
                form(pass, &layer->q) | form(pass, &layer->k) | form(pass, &layer->v));
    project(pass, &layer->q, input, session->q, n, false);
    project(pass, &layer->k, input, session->k, n, false);
    project(pass, &layer->v, input, session->v, n, false);
    observe(pass, index, in);
    await_all(pass);
    rotate_and_cache(pass, index);
    await_all(pass);
    locus_attend(session, index, n, pass->thread, pass->n_threads);
    await_all(pass);
    input = prepare(pass, session->attended, n, config->n_head * config->head_dim,
                    form(pass, &layer->output));
    add_output(pass, &layer->output, input, &layer->attn_post_norm);
}

/* The norm of x, into `room`; x itself where the layer has no such norm. */
static const float *normed(const struct pass *pass, const struct locus_norm_weights *norm,
                           float *room)
{
    if (!norm->weight) return pass->session->x;
    norm_rows(pass, norm, room, pass->session->x, pass->n);
    return room;
}

/* x becomes the norm of it, complete on every thread. */
static void norm_sum(const struct pass *pass, const struct locus_norm_weights *norm)
{
    norm_rows(pass, norm, pass->session->x, pass->session->x, pass->n);
    await_all(pass);
}

/* Both halves. In parallel they read the same x (GPT-NeoX), under one norm if there is no second
 * (GPT-J); else the MLP reads what attention has added to. */
static void run_layer(const struct pass *pass, int index)
{
    struct locus_session *session = pass->session;
    const struct locus_config *config = &session->model->config;
    const struct locus_layer *layer = &session->model->layers[index];
    const bool sums = config->norm_position == LOCUS_NORM_SUM;
    const float *in = sums ? session->x : normed(pass, &layer->attn_norm, session->normed);
    const float *mlp_in = in;
    if (config->parallel_residual && layer->ffn_norm.weight)
        mlp_in = normed(pass, &layer->ffn_norm, session->mlp_normed);
    if (in != session->x) await_all(pass);
    attention(pass, index, in);
    if (sums) {
        norm_sum(pass, &layer->attn_norm);
    } else if (!config->parallel_residual) {
        mlp_in = normed(pass, &layer->ffn_norm, session->normed);
        if (mlp_in != session->x) await_all(pass);
    }
    locus_mlp_run(pass, index, mlp_in);
    if (sums) norm_sum(pass, &layer->ffn_norm);
}

/* ---- the head ----------------------------------------------------------------------------- */

/* out[n, n_vocab] of rows[n, n_embd], normed already. */
static void head_rows(const struct pass *pass, const float *rows, int n, float *out)
{
    const struct locus_model *model = pass->session->model;
    const struct locus_linear tied = {.weight = model->embedding};
    const struct locus_linear *head = model->head.weight.panels ? &model->head : &tied;
    project(pass, head, prepare(pass, rows, n, model->config.n_embd, form(pass, head)), out, n,
            false);
    await_all(pass);
    const struct locus_config *config = &model->config;
    if (config->logit_scale == 1 && config->logit_cap == 0) return;
    const int first = share_first(pass, config->n_vocab), end = share_end(pass, config->n_vocab);
    for (int i = 0; i < n; i++)
        pass->session->kernels->scale_and_cap(out + (size_t)i * (size_t)config->n_vocab +
                                                  (size_t)first,
                                              end - first, config->logit_scale, config->logit_cap);
    await_all(pass);
}

/* The logits that are outputs. */
static void logits(const struct pass *pass)
{
    struct locus_session *session = pass->session;
    const struct locus_model *model = session->model;
    const struct locus_config *config = &model->config;
    const struct locus_outputs *outputs = pass->outputs;
    const int n = outputs->n_rows ? outputs->n_rows : outputs->last ? 1 : 0;
    const float *rows = session->x + (size_t)(pass->n - n) * (size_t)config->n_embd;
    float *out = outputs->n_rows ? outputs->logits : session->logits;
    if (n == 0) return;
    if (model->output_norm.weight) {
        norm_rows(pass, &model->output_norm, session->normed, rows, n);
        rows = session->normed;
        await_all(pass);
    }
    head_rows(pass, rows, n, out);
    if (pass->thread == 0 && outputs->n_rows && outputs->last)
        memcpy(session->logits, out + (size_t)(n - 1) * (size_t)config->n_vocab,
               (size_t)config->n_vocab * sizeof *out);
}

float locus_session_loss(const struct locus_session *session, const float *logits, int32_t target)
{
    float max;
    float sum = session->kernels->sum_exp(logits, session->model->config.n_vocab, &max);
    return (float)(locus_log((double)sum) - ((double)logits[target] - (double)max));
}

/* Scores the rows that have a target, a block at a time. */
static void score(const struct pass *pass)
{
    struct locus_session *session = pass->session;
    const struct locus_model *model = session->model;
    const struct locus_outputs *outputs = pass->outputs;
    const size_t n_embd = (size_t)model->config.n_embd, n_vocab = (size_t)model->config.n_vocab;
    for (int first = 0; first < outputs->n_scored; first += LOCUS_SCORE_ROWS) {
        const int *scored = session->scored + first;
        const int left = outputs->n_scored - first;
        const int n = left < LOCUS_SCORE_ROWS ? left : LOCUS_SCORE_ROWS;
        for (int i = share_first(pass, n); i < share_end(pass, n); i++)
            memcpy(session->normed + (size_t)i * n_embd, session->x + (size_t)scored[i] * n_embd,
                   n_embd * sizeof(float));
        if (model->output_norm.weight)
            norm_rows(pass, &model->output_norm, session->normed, session->normed, n);
        await_all(pass);
        head_rows(pass, session->normed, n, session->score_logits);
        for (int i = share_first(pass, n); i < share_end(pass, n); i++)
            outputs->nll[scored[i]] = locus_session_loss(
                session, session->score_logits + (size_t)i * n_vocab, outputs->targets[scored[i]]);
        await_all(pass);
    }
}

static void worker(void *context, int thread, int n_threads)
{
    struct pass pass = *(const struct pass *)context;
    const struct locus_config *config = &pass.session->model->config;
    pass.thread = thread;
    pass.n_threads = n_threads;
    embed(&pass);
    for (int layer = 0; layer < config->n_layer; layer++)
        run_layer(&pass, layer);
    if (!locus_cache_overflows(&pass.session->cache)) { /* else the caller refuses the chunk */
        logits(&pass);
        score(&pass);
    }
    await_all(&pass); /* or the region's own, slower end would */
}

void locus_forward(struct locus_session *session, const int32_t *tokens, int n,
                   const struct locus_outputs *outputs)
{
    struct pass pass = {.session = session, .tokens = tokens, .n = n, .outputs = outputs};
    locus_threads_run(session->setup.n_threads, worker, &pass);
}
