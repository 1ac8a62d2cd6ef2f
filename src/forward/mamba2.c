/* Mamba 2 as a mixer: see mamba2.h.
 *
 *     in -> z, x, dt      x -> convolution over time, SiLU -> u, b, c      dt -> step, decay a head
 *     h = decay h + step b u, y = c h + skip u      y times SiLU(z) -> normed a group -> output
 *
 * As Mamba's (mamba.c), but a head's channels decay alike, and b and c are those of a group of
 * heads. A session keeps, of each layer, the last n_conv - 1 values of x, and h[n_state] of each
 * channel of u. Threads own channels, by panels of the convolution and by panels of a head.
 */
#include "forward/mamba2.h"

#include <stdlib.h>

#include "forward/convolution.h"

struct mamba2 {
    struct locus_running running;     /* of a layer: what its convolution keeps, panels of
                                       * [n_conv - 1][LOCUS_CHANNELS], then states, of [n_state][] */
    int n_convolved;                  /* channels, */
    int n_panels;                     /* and panels of them */
    int n_head_panels;                /* of one head */
    size_t kept_floats, state_floats; /* of a panel */

    /* Scratch of one chunk of n tokens. */
    float *z;            /* [n, n_inner]; then what goes to the output */
    float *x;            /* [n_conv - 1 + n, n_convolved]: those before the chunk first */
    float *u;            /* [n, n_convolved]: channels, b, c; y takes the channels' place */
    float *step, *decay; /* [n, n_head] */
};

/* ---- state ---------------------------------------------------------------------------------- */

static enum locus_status open_state(void **state, const struct locus_session *session,
                                    locus_error *error)
{
    const struct locus_ssm_config *ssm = &session->model->config.ssm;
    struct mamba2 *mamba2 = *state = calloc(1, sizeof *mamba2);
    if (!mamba2) return locus_fail_memory(error, sizeof *mamba2);
    mamba2->n_convolved = locus_convolved_channels(ssm);
    mamba2->n_panels = locus_panel_count(mamba2->n_convolved);
    mamba2->n_head_panels = locus_panel_count(ssm->n_inner / ssm->n_head);
    mamba2->kept_floats = (size_t)(ssm->n_conv - 1) * LOCUS_CHANNELS;
    mamba2->state_floats = (size_t)ssm->n_state * LOCUS_CHANNELS;
    const size_t n_states = (size_t)ssm->n_head * (size_t)mamba2->n_head_panels;
    return locus_running_open(
        &mamba2->running, session, &locus_mixer_mamba2,
        (size_t)mamba2->n_panels * mamba2->kept_floats + n_states * mamba2->state_floats, error);
}

static void close_state(void *state)
{
    struct mamba2 *mamba2 = state;
    if (!mamba2) return;
    locus_running_close(&mamba2->running);
    free(mamba2);
}

static void lay_out(void *state, const struct locus_session *session, struct locus_arena *arena)
{
    struct mamba2 *mamba2 = state;
    const struct locus_ssm_config *ssm = &session->model->config.ssm;
    const size_t n = (size_t)session->setup.n_batch, n_convolved = (size_t)mamba2->n_convolved;
    mamba2->z = locus_arena_floats(arena, n, (size_t)ssm->n_inner);
    mamba2->x = locus_arena_floats(arena, n + (size_t)ssm->n_conv - 1, n_convolved);
    mamba2->u = locus_arena_floats(arena, n, n_convolved);
    mamba2->step = locus_arena_floats(arena, n, (size_t)ssm->n_head);
    mamba2->decay = locus_arena_floats(arena, n, (size_t)ssm->n_head);
}

/* ---- a chunk -------------------------------------------------------------------------------- */

/* step, which holds dt, and decay: this thread's rows. */
static void make_steps(const struct pass *pass, const struct mamba2 *mamba2,
                       const struct locus_mamba2_weights *weights)
{
    const int n_head = pass->session->model->config.ssm.n_head;
    for (int i = share_first(pass, pass->n); i < share_end(pass, pass->n); i++) {
        float *step = mamba2->step + (size_t)i * (size_t)n_head;
        pass->session->kernels->steps(step, mamba2->decay + (size_t)i * (size_t)n_head, step,
                                      weights->step_bias, weights->a, n_head);
    }
}

/* y of one panel of a head, in place of u; where an interval ends, its state is copied. */
static void recur(const struct pass *pass, const struct mamba2 *mamba2, int layer, int index)
{
    const struct locus_model *model = pass->session->model;
    const struct locus_ssm_config *ssm = &model->config.ssm;
    const struct locus_mamba2_weights *weights = model->layers[layer].mixer;
    const int head = index / mamba2->n_head_panels, panel = index % mamba2->n_head_panels;
    const int head_dim = ssm->n_inner / ssm->n_head, group = head / (ssm->n_head / ssm->n_group);
    const size_t stride = (size_t)mamba2->n_convolved, n_head = (size_t)ssm->n_head;
    const size_t channel = (size_t)head * (size_t)head_dim + (size_t)panel * LOCUS_CHANNELS;
    const size_t of_group = (size_t)ssm->n_inner + (size_t)group * (size_t)ssm->n_state;
    const size_t to_c = (size_t)ssm->n_group * (size_t)ssm->n_state;
    float *now = locus_running_now(&mamba2->running, layer) +
                 (size_t)mamba2->n_panels * mamba2->kept_floats +
                 (size_t)index * mamba2->state_floats;
    for (int first = 0, n; first < pass->n; first += n) {
        const int taken = pass->first_slot + first;
        float *u = mamba2->u + (size_t)first * stride;
        n = locus_running_stretch(&mamba2->running, taken, pass->n - first);
        const struct locus_recurrence op = {
            .out = u + channel,
            .u = u + channel,
            .b = u + of_group,
            .c = u + of_group + to_c,
            .decay = mamba2->decay + (size_t)first * n_head + head,
            .step = mamba2->step + (size_t)first * n_head + head,
            .skip = weights->skip[head],
            .h = now,
            .stride = stride,
            .state_stride = stride,
            .step_stride = n_head,
            .n = n,
            .n_state = ssm->n_state,
            .width = locus_panel_width(head_dim, panel),
        };
        pass->session->kernels->recur(&op);
        locus_running_keep(&mamba2->running, now, mamba2->state_floats, taken + n);
    }
}

/* z becomes y times its SiLU, each group normed: this thread's rows. */
static void gate_rows(const struct pass *pass, const struct mamba2 *mamba2,
                      const struct locus_mamba2_weights *weights)
{
    const struct locus_config *config = &pass->session->model->config;
    const struct locus_kernels *kernels = pass->session->kernels;
    const int n_inner = config->ssm.n_inner, width = n_inner / config->ssm.n_group;
    for (int i = share_first(pass, pass->n); i < share_end(pass, pass->n); i++) {
        const float *y = mamba2->u + (size_t)i * (size_t)mamba2->n_convolved;
        float *z = mamba2->z + (size_t)i * (size_t)n_inner;
        kernels->activate(LOCUS_SILU, z, z, y, n_inner);
        for (int first = 0; first < n_inner; first += width) {
            const struct locus_norm norm = {LOCUS_RMSNORM, config->ssm.norm_epsilon,
                                            weights->norm.weight + first, NULL};
            kernels->norm(&norm, z + first, z + first, width);
        }
    }
}

static void run(const struct pass *pass, void *state, int layer, const float *in)
{
    struct mamba2 *mamba2 = state;
    const struct locus_model *model = pass->session->model;
    const struct locus_ssm_config *ssm = &model->config.ssm;
    const struct locus_mamba2_weights *weights = model->layers[layer].mixer;
    const struct locus_convolved convolved = {.out = mamba2->u,
                                              .x = mamba2->x,
                                              .taps = weights->taps,
                                              .bias = weights->bias,
                                              .n_channels = mamba2->n_convolved,
                                              .n_taps = ssm->n_conv};
    const int n = pass->n, n_states = ssm->n_head * mamba2->n_head_panels;
    float *kept = locus_running_now(&mamba2->running, layer);
    float *own_x = mamba2->x + (size_t)(ssm->n_conv - 1) * (size_t)mamba2->n_convolved;
    struct locus_activations input =
        prepare(pass, in, n, model->config.n_embd,
                form(pass, &weights->z) | form(pass, &weights->x) | form(pass, &weights->dt));
    project(pass, &weights->z, input, mamba2->z, n, false);
    project(pass, &weights->x, input, own_x, n, false);
    project(pass, &weights->dt, input, mamba2->step, n, false);
    await_all(pass);
    make_steps(pass, mamba2, weights);
    for (int p = share_first(pass, mamba2->n_panels); p < share_end(pass, mamba2->n_panels); p++)
        locus_convolve_panel(pass, &mamba2->running, &convolved, p,
                             kept + (size_t)p * mamba2->kept_floats);
    await_all(pass);
    for (int p = share_first(pass, n_states); p < share_end(pass, n_states); p++)
        recur(pass, mamba2, layer, p);
    if (pass->thread == 0) mamba2->running.at = pass->first_slot + n;
    await_all(pass);
    gate_rows(pass, mamba2, weights);
    await_all(pass);
    input = prepare(pass, mamba2->z, n, ssm->n_inner, form(pass, &weights->output));
    add_output(pass, &weights->output, input, &model->layers[layer].attn_post_norm);
}

const struct locus_mixer locus_mixer_mamba2 = {
    .tensors = &locus_mamba2_part,
    .open = open_state,
    .close = close_state,
    .lay_out = lay_out,
    .run = run,
    .resume = locus_running_resume,
    .rewind = locus_running_rewind,
    .replay = locus_running_replay,
};
