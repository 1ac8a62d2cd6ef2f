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

#include "forward/pass.h"
#include "forward/running.h"

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
    mamba->n_panels = (size_t)(ssm->n_inner - 1) / LOCUS_CHANNELS + 1;
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
    const int first = index * LOCUS_CHANNELS, left = ssm->n_inner - first;
    return (struct panel){
        .ssm = ssm,
        .weights = model->layers[layer].mixer,
        .index = (size_t)index,
        .first = (size_t)first,
        .width = left < LOCUS_CHANNELS ? left : LOCUS_CHANNELS,
        .now = locus_running_now(&mamba->running, layer) + (size_t)index * mamba->panel_floats,
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
        end = first + locus_running_stretch(&mamba->running, taken, pass->n - first);
        scan_rows(pass, panel, mamba, first, end);
        keep_before(panel, mamba, end);
        locus_running_keep(&mamba->running, panel->now, mamba->panel_floats,
                           pass->first_slot + end);
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
