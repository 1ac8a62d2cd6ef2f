/* Mamba's selective scan as a mixer: see mamba.h.
 *
 *     in -> x, z      x -> convolution over time, SiLU -> u -> low, b, c      low -> dt
 *     dt, u, b, c -> scan -> times SiLU(z) -> output -> x of the residual stream
 *
 * A session keeps, of each channel of each layer, the last n_conv - 1 values of x and the state
 * h[n_state]. Threads own channels, by panels (kernels.h); a channel's tokens go one after another,
 * so that no cut of a text changes a bit. Copies of all that, once in an interval of tokens, are
 * what a rewind begins from.
 */
#include "forward/mamba.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "forward/pass.h"

/* What a layer keeps: panels [n_conv - 1 + n_state][LOCUS_CHANNELS], values of x first. */
struct mamba {
    int interval; /* tokens from one copy to the next */
    int at;       /* tokens taken in */
    int *index;   /* [n_layer]: which of the layers that have it; -1: none */
    size_t n_layer, n_panels;
    size_t panel_floats;
    void *block;
    float *now; /* [n_layer][n_panels][panel_floats] */
    float
        *copies; /* [capacity / interval] of the same: after interval tokens, twice as many, ... */

    /* Scratch of one chunk of n tokens. */
    float *x;     /* [n_conv - 1 + n, n_inner]: those before the chunk first */
    float *z, *u; /* [n, n_inner] */
    float *low;   /* [n, rank] */
    float *b, *c; /* [n, n_state] */
    float *dt;    /* [n, n_inner]; then what the scan makes of it */
};

int locus_mamba_interval(int capacity)
{
    int interval = LOCUS_MAMBA_INTERVAL;
    while (capacity / interval > LOCUS_MAMBA_COPIES)
        interval *= 2;
    return interval;
}

static int replay(const struct locus_session *session)
{
    return locus_mamba_interval(session->setup.capacity) - 1;
}

/* ---- state ---------------------------------------------------------------------------------- */

static size_t layer_floats(const struct mamba *mamba)
{
    return mamba->n_panels * mamba->panel_floats;
}

static void lay_out_state(struct mamba *mamba, int capacity, struct locus_arena *arena)
{
    const size_t n_copies = (size_t)(capacity / mamba->interval);
    mamba->now = locus_arena_floats(arena, mamba->n_layer, layer_floats(mamba));
    mamba->copies = locus_arena_floats(arena, n_copies * mamba->n_layer, layer_floats(mamba));
}

static enum locus_status open_state(void **state, const struct locus_session *session,
                                    locus_error *error)
{
    const struct locus_config *config = &session->model->config;
    const struct locus_ssm_config *ssm = &config->ssm;
    const size_t n_layer = (size_t)config->n_layer;
    struct mamba *mamba = *state = calloc(1, sizeof *mamba);
    struct locus_arena arena = {0};
    if (!mamba) return locus_fail_memory(error, sizeof *mamba);
    if (!(mamba->index = calloc(n_layer, sizeof *mamba->index)))
        return locus_fail_memory(error, n_layer * sizeof *mamba->index);
    for (size_t layer = 0; layer < n_layer; layer++)
        mamba->index[layer] =
            session->layers[layer].mixer == &locus_mixer_mamba ? (int)mamba->n_layer++ : -1;
    mamba->interval = locus_mamba_interval(session->setup.capacity);
    mamba->n_panels = (size_t)(ssm->n_inner - 1) / LOCUS_CHANNELS + 1;
    mamba->panel_floats = (size_t)(ssm->n_conv - 1 + ssm->n_state) * LOCUS_CHANNELS;
    lay_out_state(mamba, session->setup.capacity, &arena);
    const size_t n_bytes = arena.used;
    mamba->block = n_bytes < SIZE_MAX ? locus_aligned_zalloc(n_bytes, 1) : NULL;
    if (!mamba->block)
        return locus_fail(error, LOCUS_ERROR_MEMORY,
                          "out of memory: states of %zu layers, and %d copies of them, could not "
                          "be had",
                          mamba->n_layer, session->setup.capacity / mamba->interval);
    arena = (struct locus_arena){.base = mamba->block};
    lay_out_state(mamba, session->setup.capacity, &arena);
    return LOCUS_OK;
}

static void close_state(void *state)
{
    struct mamba *mamba = state;
    if (!mamba) return;
    locus_aligned_free(mamba->block);
    free(mamba->index);
    free(mamba);
}

static void lay_out(void *state, const struct locus_session *session, struct locus_arena *arena)
{
    struct mamba *mamba = state;
    const struct locus_ssm_config *ssm = &session->model->config.ssm;
    const size_t n = (size_t)session->setup.n_batch, n_inner = (size_t)ssm->n_inner;
    mamba->x = locus_arena_floats(arena, n + (size_t)ssm->n_conv - 1, n_inner);
    mamba->z = locus_arena_floats(arena, n, n_inner);
    mamba->u = locus_arena_floats(arena, n, n_inner);
    mamba->low = locus_arena_floats(arena, n, (size_t)ssm->rank);
    mamba->b = locus_arena_floats(arena, n, (size_t)ssm->n_state);
    mamba->c = locus_arena_floats(arena, n, (size_t)ssm->n_state);
    mamba->dt = locus_arena_floats(arena, n, n_inner);
}

/* ---- a chunk, by panels ------------------------------------------------------------------- */

/* One panel of a layer in a chunk. */
struct panel {
    const struct locus_ssm_config *ssm;
    const struct locus_mamba_weights *weights;
    size_t index, first; /* the panel, and its first channel */
    int width;           /* channels that there are */
    float *now;          /* [n_conv - 1 + n_state][LOCUS_CHANNELS] */
};

static struct panel panel_at(const struct pass *pass, const struct mamba *mamba, int layer,
                             int index)
{
    const struct locus_model *model = pass->session->model;
    const struct locus_ssm_config *ssm = &model->config.ssm;
    const int first = index * LOCUS_CHANNELS, left = ssm->n_inner - first;
    return (struct panel){
        .ssm = ssm,
        .weights = model->layers[layer].mixer,
        .index = (size_t)index,
        .first = (size_t)first,
        .width = left < LOCUS_CHANNELS ? left : LOCUS_CHANNELS,
        .now = mamba->now + ((size_t)mamba->index[layer] * mamba->n_panels + (size_t)index) *
                                mamba->panel_floats,
    };
}

/* The n_conv - 1 values of x before row `row`, from what is kept into x, or back. */
static void put_before(const struct panel *panel, const struct mamba *mamba, int row)
{
    for (size_t k = 0; k < (size_t)panel->ssm->n_conv - 1; k++)
        memcpy(mamba->x + ((size_t)row + k) * (size_t)panel->ssm->n_inner + panel->first,
               panel->now + k * LOCUS_CHANNELS, (size_t)panel->width * sizeof(float));
}

static void keep_before(const struct panel *panel, const struct mamba *mamba, int row)
{
    for (size_t k = 0; k < (size_t)panel->ssm->n_conv - 1; k++)
        memcpy(panel->now + k * LOCUS_CHANNELS,
               mamba->x + ((size_t)row + k) * (size_t)panel->ssm->n_inner + panel->first,
               (size_t)panel->width * sizeof(float));
}

static void convolve(const struct pass *pass, const struct panel *panel, const struct mamba *mamba)
{
    const size_t n_conv = (size_t)panel->ssm->n_conv;
    const struct locus_convolution op = {
        .out = mamba->u + panel->first,
        .x = mamba->x + panel->first,
        .taps = panel->weights->taps + panel->index * n_conv * LOCUS_CHANNELS,
        .bias = panel->weights->bias + panel->index * LOCUS_CHANNELS,
        .stride = (size_t)panel->ssm->n_inner,
        .n = pass->n,
        .n_taps = panel->ssm->n_conv,
        .width = panel->width,
    };
    put_before(panel, mamba, 0);
    pass->session->kernels->convolve(&op);
}

/* Rows [first, end) of the chunk. */
static void scan_rows(const struct pass *pass, const struct panel *panel, const struct mamba *mamba,
                      int first, int end)
{
    const size_t n_inner = (size_t)panel->ssm->n_inner, n_state = (size_t)panel->ssm->n_state;
    const size_t at = (size_t)first * n_inner + panel->first, of_row = (size_t)first * n_state;
    const size_t n_before = (size_t)panel->ssm->n_conv - 1;
    const struct locus_scan op = {
        .out = mamba->dt + at,
        .dt = mamba->dt + at,
        .u = mamba->u + at,
        .z = mamba->z + at,
        .b = mamba->b + of_row,
        .c = mamba->c + of_row,
        .a = panel->weights->a + panel->index * n_state * LOCUS_CHANNELS,
        .skip = panel->weights->skip + panel->index * LOCUS_CHANNELS,
        .h = panel->now + n_before * LOCUS_CHANNELS,
        .stride = n_inner,
        .n = end - first,
        .n_state = panel->ssm->n_state,
        .width = panel->width,
    };
    pass->session->kernels->scan(&op);
}

/* The chunk's rows; where an interval ends, the panel is copied. */
static void scan(const struct pass *pass, const struct panel *panel, const struct mamba *mamba)
{
    for (int first = 0, end; first < pass->n; first = end) {
        const int taken = pass->first_slot + first;
        const int left = mamba->interval - taken % mamba->interval;
        end = pass->n - first < left ? pass->n : first + left;
        scan_rows(pass, panel, mamba, first, end);
        keep_before(panel, mamba, end);
        if (end - first < left) continue;
        const size_t copy = (size_t)(taken / mamba->interval);
        const size_t offset = (size_t)(panel->now - mamba->now);
        memcpy(mamba->copies + copy * mamba->n_layer * layer_floats(mamba) + offset, panel->now,
               mamba->panel_floats * sizeof(float));
    }
}

/* ---- a chunk ------------------------------------------------------------------------------ */

static void norm_all(const struct pass *pass, const struct locus_norm_weights *weights, float *rows,
                     int width)
{
    const struct locus_ssm_config *ssm = &pass->session->model->config.ssm;
    const struct locus_norm norm = {LOCUS_RMSNORM, ssm->norm_epsilon, weights->weight,
                                    weights->bias};
    if (!weights->weight) return;
    for (int i = share_first(pass, pass->n); i < share_end(pass, pass->n); i++) {
        float *row = rows + (size_t)i * (size_t)width;
        pass->session->kernels->norm(&norm, row, row, width);
    }
}

/* low, b and c of u; and dt of low. */
static void make_steps(const struct pass *pass, const struct mamba *mamba,
                       const struct locus_mamba_weights *weights)
{
    const struct locus_ssm_config *ssm = &pass->session->model->config.ssm;
    const int n = pass->n;
    struct locus_activations input =
        prepare(pass, mamba->u, n, ssm->n_inner,
                form(pass, &weights->low) | form(pass, &weights->b) | form(pass, &weights->c));
    project(pass, &weights->low, input, mamba->low, n, false);
    project(pass, &weights->b, input, mamba->b, n, false);
    project(pass, &weights->c, input, mamba->c, n, false);
    await_all(pass);
    if (weights->low_norm.weight || weights->b_norm.weight || weights->c_norm.weight) {
        norm_all(pass, &weights->low_norm, mamba->low, ssm->rank);
        norm_all(pass, &weights->b_norm, mamba->b, ssm->n_state);
        norm_all(pass, &weights->c_norm, mamba->c, ssm->n_state);
        await_all(pass);
    }
    input = prepare(pass, mamba->low, n, ssm->rank, form(pass, &weights->dt));
    project(pass, &weights->dt, input, mamba->dt, n, false);
    await_all(pass);
}

static void run(const struct pass *pass, void *state, int layer, const float *in)
{
    struct mamba *mamba = state;
    const struct locus_model *model = pass->session->model;
    const struct locus_ssm_config *ssm = &model->config.ssm;
    const struct locus_mamba_weights *weights = model->layers[layer].mixer;
    const int n = pass->n, n_panels = (int)mamba->n_panels;
    float *own_x = mamba->x + (size_t)(ssm->n_conv - 1) * (size_t)ssm->n_inner;
    struct locus_activations input = prepare(pass, in, n, model->config.n_embd,
                                             form(pass, &weights->x) | form(pass, &weights->z));
    project(pass, &weights->x, input, own_x, n, false);
    project(pass, &weights->z, input, mamba->z, n, false);
    await_all(pass);
    for (int p = share_first(pass, n_panels); p < share_end(pass, n_panels); p++) {
        const struct panel panel = panel_at(pass, mamba, layer, p);
        convolve(pass, &panel, mamba);
    }
    await_all(pass);
    make_steps(pass, mamba, weights);
    for (int p = share_first(pass, n_panels); p < share_end(pass, n_panels); p++) {
        const struct panel panel = panel_at(pass, mamba, layer, p);
        scan(pass, &panel, mamba);
    }
    if (pass->thread == 0) mamba->at = pass->first_slot + n;
    await_all(pass);
    input = prepare(pass, mamba->dt, n, ssm->n_inner, form(pass, &weights->output));
    add_output(pass, &weights->output, input, &model->layers[layer].attn_post_norm);
}

/* ---- going back ----------------------------------------------------------------------------- */

static enum locus_status resume(const void *state, const struct locus_session *session, int n_keep,
                                int *n, locus_error *error)
{
    const struct mamba *mamba = state;
    (void)session, (void)error;
    *n = mamba->at == n_keep ? n_keep : n_keep / mamba->interval * mamba->interval;
    return LOCUS_OK;
}

static void rewind_to(void *state, int n)
{
    struct mamba *mamba = state;
    const size_t n_floats = mamba->n_layer * layer_floats(mamba);
    if (mamba->at == n) return;
    if (n == 0)
        memset(mamba->now, 0, n_floats * sizeof *mamba->now);
    else
        memcpy(mamba->now, mamba->copies + (size_t)(n / mamba->interval - 1) * n_floats,
               n_floats * sizeof *mamba->now);
    mamba->at = n;
}

const struct locus_mixer locus_mixer_mamba = {
    .tensors = &locus_mamba_part,
    .open = open_state,
    .close = close_state,
    .lay_out = lay_out,
    .run = run,
    .resume = resume,
    .rewind = rewind_to,
    .replay = replay,
};
