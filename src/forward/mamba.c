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

#include "forward/convolution.h"

/* What a layer keeps: panels [n_conv - 1 + n_state][LOCUS_CHANNELS], values of x first. */
struct mamba {
    struct locus_running running; /* of a layer: [n_panels][panel_floats] */
    size_t n_panels, panel_floats;

    /* Scratch of one chunk of n tokens. */
    float *x;     /* [n_conv - 1 + n, n_inner]: those before the chunk first */
    float *z, *u; /* [n, n_inner] */
    float *low;   /* [n, rank] */
    float *b, *c; /* [n, n_state] */
    float *dt;    /* [n, n_inner]; then what the scan makes of it */
};

/* ---- state ---------------------------------------------------------------------------------- */

static enum locus_status open_state(void **state, const struct locus_session *session,
                                    locus_error *error)
{
    const struct locus_ssm_config *ssm = &session->model->config.ssm;
    struct mamba *mamba = *state = calloc(1, sizeof *mamba);
    if (!mamba) return locus_fail_memory(error, sizeof *mamba);
    mamba->n_panels = (size_t)locus_panel_count(ssm->n_inner);
    mamba->panel_floats = (size_t)(ssm->n_conv - 1 + ssm->n_state) * LOCUS_CHANNELS;
    return locus_running_open(&mamba->running, session, &locus_mixer_mamba,
                              mamba->n_panels * mamba->panel_floats, error);
}

static void close_state(void *state)
{
    struct mamba *mamba = state;
    if (!mamba) return;
    locus_running_close(&mamba->running);
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
    return (struct panel){
        .ssm = ssm,
        .weights = model->layers[layer].mixer,
        .index = (size_t)index,
        .first = (size_t)index * LOCUS_CHANNELS,
        .width = locus_panel_width(ssm->n_inner, index),
        .now = locus_running_now(&mamba->running, layer) + (size_t)index * mamba->panel_floats,
    };
}

/* Its h[n_state][LOCUS_CHANNELS], after what the convolution keeps. */
static float *state_of(const struct panel *panel)
{
    return panel->now + (size_t)(panel->ssm->n_conv - 1) * LOCUS_CHANNELS;
}

/* Rows [first, end) of the chunk. */
static void scan_rows(const struct pass *pass, const struct panel *panel, const struct mamba *mamba,
                      int first, int end)
{
    const size_t n_inner = (size_t)panel->ssm->n_inner, n_state = (size_t)panel->ssm->n_state;
    const size_t at = (size_t)first * n_inner + panel->first, of_row = (size_t)first * n_state;
    const struct locus_scan op = {
        .out = mamba->dt + at,
        .dt = mamba->dt + at,
        .u = mamba->u + at,
        .z = mamba->z + at,
        .b = mamba->b + of_row,
        .c = mamba->c + of_row,
        .a = panel->weights->a + panel->index * n_state * LOCUS_CHANNELS,
        .skip = panel->weights->skip + panel->index * LOCUS_CHANNELS,
        .h = state_of(panel),
        .stride = n_inner,
        .n = end - first,
        .n_state = panel->ssm->n_state,
        .width = panel->width,
    };
    pass->session->kernels->scan(&op);
}

/* The chunk's rows; where an interval ends, the states are copied. */
static void scan(const struct pass *pass, const struct panel *panel, const struct mamba *mamba)
{
    for (int first = 0, end; first < pass->n; first = end) {
        const int taken = pass->first_slot + first;
        end = first + locus_running_stretch(&mamba->running, taken, pass->n - first);
        scan_rows(pass, panel, mamba, first, end);
        locus_running_keep(&mamba->running, state_of(panel),
                           (size_t)panel->ssm->n_state * LOCUS_CHANNELS, pass->first_slot + end);
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
    const struct locus_convolved convolved = {.out = mamba->u,
                                              .x = mamba->x,
                                              .taps = weights->taps,
                                              .bias = weights->bias,
                                              .n_channels = ssm->n_inner,
                                              .n_taps = ssm->n_conv};
    float *own_x = mamba->x + (size_t)(ssm->n_conv - 1) * (size_t)ssm->n_inner;
    struct locus_activations input = prepare(pass, in, n, model->config.n_embd,
                                             form(pass, &weights->x) | form(pass, &weights->z));
    project(pass, &weights->x, input, own_x, n, false);
    project(pass, &weights->z, input, mamba->z, n, false);
    await_all(pass);
    for (int p = share_first(pass, n_panels); p < share_end(pass, n_panels); p++) {
        const struct panel panel = panel_at(pass, mamba, layer, p);
        locus_convolve_panel(pass, &mamba->running, &convolved, p, panel.now);
    }
    await_all(pass);
    make_steps(pass, mamba, weights);
    for (int p = share_first(pass, n_panels); p < share_end(pass, n_panels); p++) {
        const struct panel panel = panel_at(pass, mamba, layer, p);
        scan(pass, &panel, mamba);
    }
    if (pass->thread == 0) mamba->running.at = pass->first_slot + n;
    await_all(pass);
    input = prepare(pass, mamba->dt, n, ssm->n_inner, form(pass, &weights->output));
    add_output(pass, &weights->output, input, &model->layers[layer].attn_post_norm);
}

const struct locus_mixer locus_mixer_mamba = {
    .tensors = &locus_mamba_part,
    .open = open_state,
    .close = close_state,
    .lay_out = lay_out,
    .run = run,
    .resume = locus_running_resume,
    .rewind = locus_running_rewind,
    .replay = locus_running_replay,
};
