/* What a session holds: its cache, scratch, and what schemes keep. See session.h. */
#include <stdlib.h>

#include "base/buffer.h"
#include "forward/session.h"

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* ---- cache -------------------------------------------------------------------------------- */

/* A policy that hides keys holds those that the rows of a chunk may see, and as many slots again as
 * a chunk has, so that a rewind finds them. */
static enum locus_status make_cache(struct locus_session *session, locus_error *error)
{
    static const enum locus_cache_format formats[] = {
        [LOCUS_CACHE_F32] = LOCUS_FORMAT_F32,
        [LOCUS_CACHE_F16] = LOCUS_FORMAT_F16,
        [LOCUS_CACHE_Q8_0] = LOCUS_FORMAT_Q8_0,
    };
    const struct locus_config *config = &session->model->config;
    const struct locus_policy *policy = &session->setup.policy;
    const bool acts = locus_policy_acts(policy, session->setup.capacity);
    session->cache =
        (struct locus_cache){.kernels = session->kernels,
                             .format = formats[session->setup.cache_type],
                             .n_layer = config->n_layer,
                             .n_head_kv = config->n_head_kv,
                             .head_dim = config->head_dim,
                             .n_blocks = locus_cache_n_blocks(session->setup.capacity)};
    if (acts && policy->kind->hides) {
        const int keep = policy->kind->pinned ? policy->kind->pinned(policy) : 0;
        const int n_pinned = locus_cache_n_blocks(keep);
        const long long n_slots = policy->kind->plain(policy) - keep + 2LL * session->setup.n_batch;
        const long long n_ring = (n_slots - 1) / LOCUS_KV_BLOCK + 2; /* begun within a block */
        if (n_pinned + n_ring < session->cache.n_blocks) {
            session->cache.n_pinned = n_pinned;
            session->cache.n_blocks = n_pinned + (int)n_ring;
        }
    }
    session->first_held = session->cache.n_pinned * LOCUS_KV_BLOCK;
    return locus_cache_init(&session->cache, acts && policy->kind->group, error);
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* [rows, cols] of so many bytes each, to where the pointer is. */
struct block {
    void **at;
    size_t rows, cols, size;
};

static enum locus_status take(struct locus_session *session, const struct block *blocks, size_t n,
                              locus_error *error)
{
    for (size_t i = 0; i < n; i++) {
        const struct block *block = &blocks[i];
        size_t row_bytes = 0, n_bytes = SIZE_MAX;
        if (block->rows == 0 || block->cols == 0) continue;
        if (!locus_mul_size(block->cols, block->size, &row_bytes) ||
            !locus_mul_size(block->rows, row_bytes, &n_bytes) ||
            !(*block->at = locus_aligned_zalloc(block->rows, row_bytes)))
            return locus_fail_memory(error, n_bytes);
        session->owned[session->n_owned++] = block->at;
    }
    return LOCUS_OK;
}

/* ---- scratch ------------------------------------------------------------------------------ */

/* Whether any half of a layer is normed, scaled or summed up before it is added. */
static bool adds_beside(const struct locus_model *model)
{
    for (int i = 0; i < model->config.n_layer; i++)
        if (model->layers[i].attn_post_norm.weight || model->layers[i].ffn_post_norm.weight)
            return true;
    return model->config.residual_scale != 1 || model->config.n_expert > 0;
}

static enum locus_status make_scratch(struct locus_session *session, locus_error *error)
{
    const struct locus_config *config = &session->model->config;
    const size_t n = (size_t)session->setup.n_batch, n_embd = (size_t)config->n_embd;
    const size_t q_width = (size_t)config->n_head * (size_t)config->head_dim;
    const size_t kv_width = (size_t)config->n_head_kv * (size_t)config->head_dim;
    const int n_hidden = max_int(config->n_ff, max_int(config->n_ff_expert, config->n_ff_shared));
    const size_t n_ff = (size_t)n_hidden, n_expert = (size_t)config->n_expert;
    const size_t n_mixed = n_expert ? n : 0;
    const bool acts = locus_policy_acts(&session->setup.policy, session->setup.capacity);
    const size_t n_moved = acts && session->setup.policy.kind->moves ? n : 0;
    const size_t n_group = acts && session->setup.policy.kind->group ? n : 0;
    const size_t widest =
        (size_t)max_int(config->n_embd, max_int(n_hidden, config->n_head * config->head_dim));
    const struct block blocks[] = {
        {(void **)&session->x, n, n_embd, sizeof(float)},
        {(void **)&session->normed, n, n_embd, sizeof(float)},
        {(void **)&session->branch, adds_beside(session->model) ? n : 0, n_embd, sizeof(float)},
        {(void **)&session->mlp_normed, config->parallel_residual ? n : 0, n_embd, sizeof(float)},
        {(void **)&session->q, n, q_width, sizeof(float)},
        {(void **)&session->k, n, kv_width, sizeof(float)},
        {(void **)&session->v, n, kv_width, sizeof(float)},
        {(void **)&session->q_moved, n_moved, q_width, sizeof(float)},
        {(void **)&session->moved_positions, n_moved, 1, sizeof(int)},
        {(void **)&session->k_group, n_group, kv_width, sizeof(float)},
        {(void **)&session->group_positions, n_group ? (size_t)session->setup.capacity : 0, 1,
         sizeof(int)},
        {(void **)&session->attended, n, q_width, sizeof(float)},
        {(void **)&session->gate, config->gated ? n : 0, n_ff, sizeof(float)},
        {(void **)&session->up, n, n_ff, sizeof(float)},
        {(void **)&session->shares, n_mixed, n_expert, sizeof(float)},
        {(void **)&session->taken, n_mixed, n_expert, sizeof(bool)},
        {(void **)&session->expert_rows, n_mixed, (size_t)config->n_expert_used, sizeof(int)},
        {(void **)&session->expert_first, n_expert ? n_expert + 1 : 0, 1, sizeof(int)},
        {(void **)&session->gathered, n_mixed, n_embd, sizeof(float)},
        {(void **)&session->expert_out, n_mixed, n_embd, sizeof(float)},
        {(void **)&session->blocks, n, widest / LOCUS_QUANT_BLOCK, sizeof *session->blocks},
        {(void **)&session->bf16, n, locus_bf16_cols((int)widest), sizeof *session->bf16},
        {(void **)&session->row_positions, n, 1, sizeof(int)},
        {(void **)&session->scored, n, 1, sizeof(int)},
        {(void **)&session->coordinates, (size_t)session->setup.capacity,
         (size_t)session->setup.n_axes, sizeof(int)},
        {(void **)&session->logits, 1, (size_t)config->n_vocab, sizeof(float)},
    };
    const enum locus_status status = take(session, blocks, sizeof blocks / sizeof *blocks, error);
    for (int slot = 0; session->group_positions && slot < session->setup.capacity; slot++)
        session->group_positions[slot] = locus_policy_group_position(&session->setup.policy, slot);
    return status;
}

/* ---- all of it ---------------------------------------------------------------------------- */

enum locus_status locus_room_make(struct locus_session *session, locus_error *error)
{
    enum locus_status status = make_cache(session, error);
    return status ? status : make_scratch(session, error);
}

enum locus_status locus_room_make_states(struct locus_session *session, locus_error *error)
{
    const size_t n_rows = 1 + (size_t)session->setup.capacity;
    session->thread_floats = locus_attend_floats(session);
    const struct block blocks[] = {
        {(void **)&session->threads, (size_t)session->setup.n_threads, session->thread_floats,
         sizeof(float)},
        {(void **)&session->embed_states, n_rows, (size_t)session->embed_floats, sizeof(float)},
        {(void **)&session->layer_states, (size_t)session->model->config.n_layer * n_rows,
         (size_t)session->layer_floats, sizeof(float)},
    };
    return take(session, blocks, sizeof blocks / sizeof *blocks, error);
}

void locus_room_free(struct locus_session *session)
{
    locus_cache_free(&session->cache);
    for (; session->n_owned > 0; session->n_owned--) {
        void **at = session->owned[session->n_owned - 1];
        locus_aligned_free(*at);
        *at = NULL;
    }
}
