/* A session's memory, but for the mixers' states: see scratch.h. */
#include "forward/scratch.h"

#include "forward/session.h"

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

static enum locus_status take_block(struct locus_arena *arena, void **block, locus_error *error)
{
    const size_t n_bytes = arena->used;
    *block = n_bytes < SIZE_MAX ? locus_aligned_zalloc(n_bytes, 1) : NULL;
    *arena = (struct locus_arena){.base = *block};
    return *block ? LOCUS_OK : locus_fail_memory(error, n_bytes);
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

static void lay_out(struct locus_session *session, struct locus_arena *arena)
{
    const struct locus_config *config = &session->model->config;
    struct locus_scratch *scratch = &session->scratch;
    const size_t n = (size_t)session->setup.n_batch, n_embd = (size_t)config->n_embd;
    const int heads = config->n_head * config->head_dim;
    const int scanned = max_int(config->ssm.n_inner, config->ssm.rank);
    const int retained = config->retention.n_head * config->retention.value_dim;
    const int widest = max_int(max_int(config->n_embd, max_int(scanned, retained)),
                               max_int(locus_mlp_width(config), heads));
    scratch->x = locus_arena_floats(arena, n, n_embd);
    scratch->normed = locus_arena_floats(arena, n, n_embd);
    scratch->mlp_normed = locus_arena_floats(arena, config->parallel_residual ? n : 0, n_embd);
    scratch->branch = locus_arena_floats(arena, adds_beside(session->model) ? n : 0, n_embd);
    scratch->blocks =
        locus_arena_take(arena, n, (size_t)widest / LOCUS_QUANT_BLOCK, sizeof *scratch->blocks);
    scratch->bf16 = locus_arena_take(arena, n, locus_bf16_cols(widest), sizeof *scratch->bf16);
    scratch->row_positions = locus_arena_ints(arena, n, 1);
    scratch->scored = locus_arena_ints(arena, n, 1);
    scratch->logits = locus_arena_floats(arena, 1, (size_t)config->n_vocab);
    locus_mlp_lay_out(&scratch->mlp, config, n, arena);
    locus_mixers_lay_out(&session->mixers, session, arena);
}

enum locus_status locus_scratch_make(struct locus_session *session, locus_error *error)
{
    struct locus_arena arena = {0};
    lay_out(session, &arena);
    enum locus_status status = take_block(&arena, &session->scratch.block, error);
    if (!status) lay_out(session, &arena);
    return status;
}

/* ---- what is kept of each token ----------------------------------------------------------- */

static void lay_out_states(struct locus_session *session, struct locus_arena *arena)
{
    struct locus_token_states *states = &session->states;
    const size_t capacity = (size_t)session->setup.capacity, n_rows = 1 + capacity;
    const size_t n_layer = (size_t)session->model->config.n_layer;
    states->tokens = locus_arena_take(arena, locus_mixers_replay(session) ? capacity : 0, 1,
                                      sizeof *states->tokens);
    states->coordinates = locus_arena_ints(arena, capacity, (size_t)session->setup.n_axes);
    states->embed = locus_arena_floats(arena, n_rows, (size_t)states->embed_floats);
    states->layers = locus_arena_floats(arena, n_layer * n_rows, (size_t)states->layer_floats);
    states->threads =
        locus_arena_floats(arena, (size_t)session->setup.n_threads, states->thread_floats);
}

enum locus_status locus_token_states_make(struct locus_session *session, locus_error *error)
{
    struct locus_token_states *states = &session->states;
    const struct locus_positions *positions = &session->positions;
    struct locus_arena arena = {0};
    states->embed_floats = positions->schemes[0].embed_floats;
    for (int i = 0; i < positions->n; i++)
        states->layer_floats = max_int(states->layer_floats, positions->schemes[i].layer_floats);
    states->thread_floats = locus_mixers_thread_floats(&session->mixers, session);
    lay_out_states(session, &arena);
    enum locus_status status = take_block(&arena, &states->block, error);
    if (!status) lay_out_states(session, &arena);
    return status;
}
