/* Attention as a mixer: see attention.h. */
#include "forward/attention.h"

#include <stdlib.h>
#include <string.h>

#include "forward/pass.h"

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* ---- state ---------------------------------------------------------------------------------- */

/* A policy that hides keys holds those that the rows of a chunk may see, and as many slots again as
 * a chunk has, and as are run again, so that a rewind finds them. */
static void shape_cache(struct locus_cache *cache, const struct locus_session *session)
{
    static const enum locus_cache_format formats[] = {
        [LOCUS_CACHE_F32] = LOCUS_FORMAT_F32,
        [LOCUS_CACHE_F16] = LOCUS_FORMAT_F16,
        [LOCUS_CACHE_Q8_0] = LOCUS_FORMAT_Q8_0,
    };
    const struct locus_config *config = &session->model->config;
    const struct locus_policy *policy = &session->setup.policy;
    cache->kernels = session->kernels;
    cache->format = formats[session->setup.cache_type];
    cache->n_head_kv = config->n_head_kv;
    cache->head_dim = config->head_dim;
    cache->n_blocks = locus_cache_n_blocks(session->setup.capacity);
    if (!locus_policy_acts(policy, session->setup.capacity) || !policy->kind->hides) return;
    const int keep = policy->kind->pinned ? policy->kind->pinned(policy) : 0;
    const int n_pinned = locus_cache_n_blocks(keep);
    const long long n_slots = policy->kind->plain(policy) - keep + 2LL * session->setup.n_batch +
                              locus_mixers_replay(session);
    const long long n_ring = (n_slots - 1) / LOCUS_KV_BLOCK + 2; /* begun within a block */
    if (n_pinned + n_ring >= cache->n_blocks) return;
    cache->n_pinned = n_pinned;
    cache->n_blocks = n_pinned + (int)n_ring;
}

/* The layers that are attention's have a place in the cache each. */
static enum locus_status number_layers(struct locus_attention *attention,
                                       const struct locus_session *session, locus_error *error)
{
    const int n_layer = session->model->config.n_layer;
    attention->cache_layer = calloc((size_t)n_layer, sizeof *attention->cache_layer);
    if (!attention->cache_layer)
        return locus_fail_memory(error, (size_t)n_layer * sizeof *attention->cache_layer);
    for (int layer = 0; layer < n_layer; layer++)
        attention->cache_layer[layer] = session->layers[layer].mixer == &locus_mixer_attention
                                            ? attention->cache.n_layer++
                                            : -1;
    return LOCUS_OK;
}

/* How many positions the policy moves a query to. */
static int moves(const struct locus_session *session)
{
    const struct locus_policy *policy = &session->setup.policy;
    return locus_policy_acts(policy, session->setup.capacity) ? policy->kind->moves : 0;
}

/* Whether it keeps keys twice. */
static bool groups(const struct locus_session *session)
{
    const struct locus_policy *policy = &session->setup.policy;
    return policy->kind->group_position && locus_policy_acts(policy, session->setup.capacity);
}

static enum locus_status place_group(struct locus_attention *attention,
                                     const struct locus_session *session, locus_error *error)
{
    const int capacity = session->setup.capacity;
    const struct locus_policy *policy = &session->setup.policy;
    if (!groups(session)) return LOCUS_OK;
    attention->group_positions =
        locus_aligned_zalloc((size_t)capacity, sizeof *attention->group_positions);
    if (!attention->group_positions)
        return locus_fail_memory(error, (size_t)capacity * sizeof *attention->group_positions);
    for (int slot = 0; slot < capacity; slot++)
        attention->group_positions[slot] = policy->kind->group_position(policy, slot);
    return LOCUS_OK;
}

static enum locus_status open_state(void **state, const struct locus_session *session,
                                    locus_error *error)
{
    struct locus_attention *attention = *state = calloc(1, sizeof *attention);
    enum locus_status status;
    if (!attention) return locus_fail_memory(error, sizeof *attention);
    if ((status = number_layers(attention, session, error))) return status;
    shape_cache(&attention->cache, session);
    attention->first_held = attention->cache.n_pinned * LOCUS_KV_BLOCK;
    if ((status = locus_cache_init(&attention->cache, groups(session), error))) return status;
    return place_group(attention, session, error);
}

static void close_state(void *state)
{
    struct locus_attention *attention = state;
    if (!attention) return;
    locus_cache_free(&attention->cache);
    locus_aligned_free(attention->group_positions);
    free(attention->cache_layer);
    free(attention);
}

static void lay_out(void *state, const struct locus_session *session, struct locus_arena *arena)
{
    struct locus_attention *attention = state;
    const struct locus_config *config = &session->model->config;
    const size_t n = (size_t)session->setup.n_batch;
    const size_t q_width = (size_t)config->n_head * (size_t)config->head_dim;
    const size_t kv_width = (size_t)config->n_head_kv * (size_t)config->head_dim;
    attention->q = locus_arena_floats(arena, n, q_width);
    attention->k = locus_arena_floats(arena, n, kv_width);
    attention->v = locus_arena_floats(arena, n, kv_width);
    for (int i = 0; i < LOCUS_MAX_MOVED; i++)
        attention->q_moved[i] = locus_arena_floats(arena, i < moves(session) ? n : 0, q_width);
    attention->moved_positions = locus_arena_ints(arena, moves(session) ? n : 0, 1);
    attention->k_group = locus_arena_floats(arena, groups(session) ? n : 0, kv_width);
    attention->attended = locus_arena_floats(arena, n, q_width);
}

const struct locus_attention *locus_session_attention_state(const struct locus_session *session)
{
    for (int i = 0; i < session->mixers.n; i++)
        if (session->mixers.used[i].mixer == &locus_mixer_attention)
            return session->mixers.used[i].state;
    return NULL;
}

/* ---- a chunk -------------------------------------------------------------------------------- */

/* Shows the layer's scheme what its attention reads, in[n, n_embd]. */
static void observe(const struct pass *pass, int layer, const float *in)
{
    struct locus_session *session = pass->session;
    const struct locus_observe_op op = {
        .layer = layer,
        .x = in,
        .first_position = session->setup.first_position + pass->first_slot,
        .n = pass->n,
        .token_states = locus_layer_states(session, layer, pass->first_slot)};
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

/* Queries longer than the text that the model knows: the factor is the position's alone. */
static void scale_queries(const struct pass *pass, int layer, float *q, const int *positions, int n)
{
    const struct locus_session *session = pass->session;
    const struct locus_position *position = locus_positions_at(&session->positions, layer);
    const struct locus_config *config = &session->model->config;
    const size_t width = (size_t)config->n_head * (size_t)config->head_dim;
    for (int i = 0; i < n; i++, q += width) {
        const float scale = locus_position_query_scale(position, positions[i]);
        for (size_t c = 0; c < width && scale != 1; c++)
            q[c] *= scale;
    }
}

/* Norms of the parts that rows[n_values] are made of, where the layer has them. Parts with weights
 * of their own have no biases. */
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
        float *part = rows + (size_t)i * (size_t)norm->width;
        pass->session->kernels->norm(&op, part, part, norm->width);
    }
}

/* Queries to their positions, unless attention does it block by block; `moved`: to those of moved
 * spans. */
static void rotate_queries(const struct locus_session *session, int layer, float *q, int slot,
                           const int *positions, int n, bool moved)
{
    const struct locus_position *position = locus_positions_at(&session->positions, layer);
    const struct locus_rotate_op op = {.layer = layer,
                                       .which = LOCUS_QUERY,
                                       .rows = q,
                                       .n = n,
                                       .n_heads = session->model->config.n_head,
                                       .positions = positions,
                                       .divisor =
                                           moved ? locus_policy_divisor(&session->setup.policy) : 1,
                                       .token_states = locus_layer_states(session, layer, slot),
                                       .n_axes = session->setup.n_axes,
                                       .coordinates = locus_coordinates_at(session, slot)};
    if (position->frame != LOCUS_FRAME_BLOCK) locus_position_rotate(position, &op);
}

/* Keys of the slots from `slot` on to their positions, unless attention does it query by query. */
static void rotate_keys(const struct locus_session *session,
                        const struct locus_attention *attention, int layer, float *k, int slot,
                        const int *positions, int n, bool group)
{
    const struct locus_position *position = locus_positions_at(&session->positions, layer);
    const int n_heads = attention->cache.n_head_kv;
    const size_t width = (size_t)n_heads * (size_t)attention->cache.head_dim;
    struct locus_rotate_op op = {.layer = layer,
                                 .which = LOCUS_KEY,
                                 .n = n,
                                 .n_heads = n_heads,
                                 .divisor =
                                     group ? locus_policy_divisor(&session->setup.policy) : 1,
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
            op.origin = locus_block_origin(session, attention, slot + i, group);
        }
        locus_position_rotate(position, &op);
    }
}

/* The query position of the row's spans of that kind; its own where it has none. */
static int moved_position(const struct locus_session *session, int slot, int moved)
{
    struct locus_span spans[LOCUS_MAX_SPANS];
    const int n = session->setup.policy.kind->split(&session->setup.policy, slot, spans);
    for (int s = 0; s < n; s++)
        if (spans[s].moved == moved) return spans[s].q_position;
    return session->setup.first_position + slot;
}

/* The other rotations, from q and k as projected: queries to where their moved spans have them, and
 * keys into the group store. */
static void move_rows(const struct pass *pass, struct locus_attention *attention, int layer,
                      int first, int n)
{
    const struct locus_session *session = pass->session;
    const struct locus_config *config = &session->model->config;
    const int slot = pass->first_slot + first;
    const size_t q_width = (size_t)config->n_head * (size_t)config->head_dim;
    const size_t kv_width = (size_t)config->n_head_kv * (size_t)config->head_dim;
    int *positions = attention->moved_positions + first;
    for (int moved = 1; moved <= moves(session); moved++) {
        float *q = attention->q_moved[moved - 1] + (size_t)first * q_width;
        for (int i = 0; i < n; i++)
            positions[i] = moved_position(session, slot + i, moved);
        memcpy(q, attention->q + (size_t)first * q_width, (size_t)n * q_width * sizeof *q);
        rotate_queries(session, layer, q, slot, positions, n, true);
    }
    if (!attention->k_group) return;
    float *k = attention->k_group + (size_t)first * kv_width;
    memcpy(k, attention->k + (size_t)first * kv_width, (size_t)n * kv_width * sizeof *k);
    rotate_keys(session, attention, layer, k, slot, attention->group_positions + slot, n, true);
    for (int i = 0; i < n; i++)
        locus_cache_put_keys(&attention->cache, LOCUS_GROUP_KEYS, attention->cache_layer[layer],
                             slot + i, k + (size_t)i * kv_width);
}

/* Rows of q, k and v to their positions, and into the cache. */
static void rotate_and_cache(const struct pass *pass, struct locus_attention *attention, int layer)
{
    const struct locus_session *session = pass->session;
    const struct locus_attention_weights *weights = session->model->layers[layer].mixer;
    const struct locus_config *config = &session->model->config;
    const int q_width = config->n_head * config->head_dim;
    const int kv_width = config->n_head_kv * config->head_dim;
    const int first = share_first(pass, pass->n), n = share_end(pass, pass->n) - first;
    float *q = attention->q + (size_t)first * (size_t)q_width;
    float *k = attention->k + (size_t)first * (size_t)kv_width;
    float *v = attention->v + (size_t)first * (size_t)kv_width;
    if (n == 0) return;
    if (config->clip_qkv > 0) {
        clip(q, (size_t)n * (size_t)q_width, config->clip_qkv);
        clip(k, (size_t)n * (size_t)kv_width, config->clip_qkv);
        clip(v, (size_t)n * (size_t)kv_width, config->clip_qkv);
    }
    norm_heads(pass, &weights->q_norm, q, n * q_width);
    norm_heads(pass, &weights->k_norm, k, n * kv_width);
    scale_queries(pass, layer, q, session->scratch.row_positions + first, n);
    if (moves(session)) move_rows(pass, attention, layer, first, n);
    const int *positions = session->scratch.row_positions + first;
    const int slot = pass->first_slot + first, cache_layer = attention->cache_layer[layer];
    const bool by_query =
        locus_positions_at(&session->positions, layer)->frame == LOCUS_FRAME_QUERY;
    rotate_queries(session, layer, q, slot, positions, n, false);
    rotate_keys(session, attention, layer, k, slot, positions, n, false);
    for (int i = 0; i < n; i++) {
        const size_t at = (size_t)i * (size_t)kv_width;
        if (by_query)
            locus_cache_put_key_rows(&attention->cache, cache_layer, slot + i, k + at);
        else
            locus_cache_put_keys(&attention->cache, LOCUS_KEYS, cache_layer, slot + i, k + at);
        locus_cache_put_values(&attention->cache, cache_layer, slot + i, v + at);
    }
}

static void run(const struct pass *pass, void *state, int layer, const float *in)
{
    struct locus_attention *attention = state;
    const struct locus_model *model = pass->session->model;
    const struct locus_config *config = &model->config;
    const struct locus_attention_weights *weights = model->layers[layer].mixer;
    const int n = pass->n, last = pass->first_slot + n - 1;
    struct locus_activations input =
        prepare(pass, in, n, config->n_embd,
                form(pass, &weights->q) | form(pass, &weights->k) | form(pass, &weights->v));
    project(pass, &weights->q, input, attention->q, n, false);
    project(pass, &weights->k, input, attention->k, n, false);
    project(pass, &weights->v, input, attention->v, n, false);
    if (pass->thread == 0)
        attention->first_held =
            max_int(attention->first_held, locus_cache_first_held(&attention->cache, last));
    observe(pass, layer, in);
    await_all(pass);
    rotate_and_cache(pass, attention, layer);
    await_all(pass);
    locus_attend(pass, attention, layer);
    await_all(pass);
    input = prepare(pass, attention->attended, n, config->n_head * config->head_dim,
                    form(pass, &weights->output));
    add_output(pass, &weights->output, input, &model->layers[layer].attn_post_norm);
}

/* ---- after a chunk -------------------------------------------------------------------------- */

static enum locus_status check(const void *state, const struct locus_session *session,
                               locus_error *error)
{
    const struct locus_attention *attention = state;
    int cache_layer, slot, layer = 0;
    if (!locus_cache_overflow(&attention->cache, &cache_layer, &slot)) return LOCUS_OK;
    while (attention->cache_layer[layer] != cache_layer)
        layer++;
    return locus_fail(error, LOCUS_ERROR_NUMERIC,
                      "position %d, layer %d: a key or value is past 65504, the most that "
                      "cache type f16 holds; expected cache type f32 or q8_0 (--cache-type)",
                      session->setup.first_position + slot, layer);
}

/* The next row needs keys that are still held. */
static enum locus_status resume(const void *state, const struct locus_session *session, int n_keep,
                                int *n, locus_error *error)
{
    const struct locus_attention *attention = state;
    const struct locus_policy *policy = &session->setup.policy;
    const int pinned = attention->cache.n_pinned * LOCUS_KV_BLOCK;
    const int first_position = session->setup.first_position;
    struct locus_span spans[LOCUS_MAX_SPANS];
    const int n_spans = policy->kind->split(policy, n_keep, spans);
    *n = n_keep;
    for (int s = 0; s < n_spans; s++) {
        const int end = spans[s].end < n_keep ? spans[s].end : n_keep;
        const int first = max_int(spans[s].first, pinned);
        if (first < end && first < attention->first_held)
            return locus_fail(error, LOCUS_ERROR_POSITION,
                              "rewind to %d tokens: the next one sees position %d, but attention "
                              "%s holds none between its sinks and position %d",
                              n_keep, first_position + first, session->setup.attention,
                              first_position + attention->first_held);
    }
    return LOCUS_OK;
}

static void rewind_to(void *state, int n)
{
    struct locus_attention *attention = state;
    const int pinned = attention->cache.n_pinned * LOCUS_KV_BLOCK;
    if (n <= pinned) attention->first_held = pinned;
    locus_cache_forget_overflow(&attention->cache);
}

const struct locus_mixer locus_mixer_attention = {
    .tensors = &locus_attention_part,
    .open = open_state,
    .close = close_state,
    .lay_out = lay_out,
    .thread_floats = locus_attend_floats,
    .run = run,
    .check = check,
    .resume = resume,
    .rewind = rewind_to,
};
