/* Retention as a mixer, as a recurrence (Sun et al. 2023, equations 6 and 8): see
 * retention.h.
 *
 *     in -> q, k, v, gate      q, k -> turned by their place      k / sqrt(key_dim)
 *     S = gamma S + k^T v, y = q S      y -> normed a head -> times SiLU(gate) -> output
 *
 * The parallel form, which a prompt could take, rounds otherwise: a prompt runs token by token,
 * too. A session keeps S[key_dim, value_dim] of each head of each layer. Threads own values of
 * heads, by panels (kernels.h).
 */
#include "forward/retention.h"

#include <math.h>
#include <stdlib.h>

#include "base/math.h"
#include "forward/pass.h"
#include "forward/running.h"

struct retention {
    struct locus_running running; /* of a layer: [n_head][n_panels][panel_floats] */
    size_t n_panels;              /* of a head */
    size_t panel_floats;          /* [key_dim][LOCUS_CHANNELS] */
    double *theta;                /* [key_dim / 2]: radians a token */

    /* Scratch of one chunk of n tokens. */
    float *q, *k;    /* [n, n_head * key_dim] */
    float *v, *gate; /* [n, n_head * value_dim]; v becomes y, gate the input of the output */
};

/* ---- state ---------------------------------------------------------------------------------- */

static enum locus_status open_state(void **state, const struct locus_session *session,
                                    locus_error *error)
{
    const struct locus_retention_config *config = &session->model->config.retention;
    const size_t half = (size_t)config->key_dim / 2;
    struct retention *retention = *state = calloc(1, sizeof *retention);
    if (!retention) return locus_fail_memory(error, sizeof *retention);
    if (!(retention->theta = calloc(half, sizeof *retention->theta)))
        return locus_fail_memory(error, half * sizeof *retention->theta);
    for (size_t k = 0; k < half; k++)
        retention->theta[k] = locus_power(10000, -2 * (double)k / config->key_dim);
    retention->n_panels = (size_t)locus_panel_count(config->value_dim);
    retention->panel_floats = (size_t)config->key_dim * LOCUS_CHANNELS;
    return locus_running_open(
        &retention->running, session, &locus_mixer_retention,
        (size_t)config->n_head * retention->n_panels * retention->panel_floats, error);
}

static void close_state(void *state)
{
    struct retention *retention = state;
    if (!retention) return;
    locus_running_close(&retention->running);
    free(retention->theta);
    free(retention);
}

static size_t keys_width(const struct locus_retention_config *config)
{
    return (size_t)config->n_head * (size_t)config->key_dim;
}

static size_t values_width(const struct locus_retention_config *config)
{
    return (size_t)config->n_head * (size_t)config->value_dim;
}

static void lay_out(void *state, const struct locus_session *session, struct locus_arena *arena)
{
    struct retention *retention = state;
    const struct locus_retention_config *config = &session->model->config.retention;
    const size_t n = (size_t)session->setup.n_batch;
    retention->q = locus_arena_floats(arena, n, keys_width(config));
    retention->k = locus_arena_floats(arena, n, keys_width(config));
    retention->v = locus_arena_floats(arena, n, values_width(config));
    retention->gate = locus_arena_floats(arena, n, values_width(config));
}

/* ---- a chunk, by rows ----------------------------------------------------------------------- */

/* Adjacent pairs of a row's heads, by the same angles as those of every head; then times scale. */
static void turn(float *row, const float *cosines, const float *sines, size_t first, size_t n,
                 float scale, const struct locus_retention_config *config)
{
    for (int head = 0; head < config->n_head; head++)
        for (size_t i = 0; i < n; i++) {
            float *pair = row + (size_t)head * (size_t)config->key_dim + 2 * (first + i);
            const float x = pair[0], y = pair[1];
            pair[0] = (x * cosines[i] - y * sines[i]) * scale;
            pair[1] = (x * sines[i] + y * cosines[i]) * scale;
        }
}

/* Queries and keys of this thread's rows. */
static void turn_rows(const struct pass *pass, const struct retention *retention)
{
    const struct locus_retention_config *config = &pass->session->model->config.retention;
    const size_t half = (size_t)config->key_dim / 2;
    const float scale = 1 / sqrtf((float)config->key_dim);
    float cosines[LOCUS_ANGLES], sines[LOCUS_ANGLES];
    for (int i = share_first(pass, pass->n); i < share_end(pass, pass->n); i++)
        for (size_t first = 0; first < half; first += LOCUS_ANGLES) {
            const size_t at = (size_t)i * keys_width(config), left = half - first;
            const size_t n = left < LOCUS_ANGLES ? left : LOCUS_ANGLES;
            locus_sine_cosine_row(pass->first_slot + i, retention->theta + first, (int)n, sines,
                                  cosines);
            turn(retention->q + at, cosines, sines, first, n, 1, config);
            turn(retention->k + at, cosines, sines, first, n, scale, config);
        }
}

/* What comes of y: each head normed, then gated. */
static void gate_rows(const struct pass *pass, const struct retention *retention,
                      const struct locus_retention_weights *weights)
{
    const struct locus_config *config = &pass->session->model->config;
    const struct locus_kernels *kernels = pass->session->kernels;
    const struct locus_norm norm = {LOCUS_LAYERNORM, config->norm_epsilon, weights->norm.weight,
                                    NULL};
    const size_t width = values_width(&config->retention);
    for (int i = share_first(pass, pass->n); i < share_end(pass, pass->n); i++) {
        float *y = retention->v + (size_t)i * width, *gate = retention->gate + (size_t)i * width;
        for (int head = 0; head < config->retention.n_head; head++) {
            float *values = y + (size_t)head * (size_t)config->retention.value_dim;
            kernels->norm(&norm, values, values, config->retention.value_dim);
        }
        kernels->activate(LOCUS_SILU, gate, gate, y, (int)width);
    }
}

/* ---- a chunk, by panels of a head's values -------------------------------------------------- */

/* y of all rows in place of v; where an interval ends, the state is copied. */
static void recur(const struct pass *pass, const struct retention *retention, int layer, int index)
{
    const struct locus_retention_config *config = &pass->session->model->config.retention;
    const int head = index / (int)retention->n_panels;
    const int panel = index % (int)retention->n_panels;
    const float gamma = 1 - ldexpf(1, -5 - head), step = 1;
    float *now =
        locus_running_now(&retention->running, layer) + (size_t)index * retention->panel_floats;
    float *v =
        retention->v + (size_t)head * (size_t)config->value_dim + (size_t)panel * LOCUS_CHANNELS;
    struct locus_recurrence op = {
        .decay = &gamma,
        .step = &step,
        .h = now,
        .stride = values_width(config),
        .state_stride = keys_width(config),
        .n_state = config->key_dim,
        .width = locus_panel_width(config->value_dim, panel),
    };
    for (int first = 0; first < pass->n; first += op.n) {
        const int taken = pass->first_slot + first;
        const size_t keys = (size_t)first * op.state_stride + (size_t)(head * config->key_dim);
        op.n = locus_running_stretch(&retention->running, taken, pass->n - first);
        op.out = v + (size_t)first * op.stride;
        op.u = op.out;
        op.b = retention->k + keys;
        op.c = retention->q + keys;
        pass->session->kernels->recur(&op);
        locus_running_keep(&retention->running, now, retention->panel_floats, taken + op.n);
    }
}

/* ---- a chunk -------------------------------------------------------------------------------- */

static void run(const struct pass *pass, void *state, int layer, const float *in)
{
    struct retention *retention = state;
    const struct locus_model *model = pass->session->model;
    const struct locus_retention_weights *weights = model->layers[layer].mixer;
    const int n = pass->n;
    const int n_panels = model->config.retention.n_head * (int)retention->n_panels;
    struct locus_activations input =
        prepare(pass, in, n, model->config.n_embd,
                form(pass, &weights->q) | form(pass, &weights->k) | form(pass, &weights->v) |
                    form(pass, &weights->gate));
    project(pass, &weights->q, input, retention->q, n, false);
    project(pass, &weights->k, input, retention->k, n, false);
    project(pass, &weights->v, input, retention->v, n, false);
    project(pass, &weights->gate, input, retention->gate, n, false);
    await_all(pass);
    turn_rows(pass, retention);
    await_all(pass);
    for (int p = share_first(pass, n_panels); p < share_end(pass, n_panels); p++)
        recur(pass, retention, layer, p);
    if (pass->thread == 0) retention->running.at = pass->first_slot + n;
    await_all(pass);
    gate_rows(pass, retention, weights);
    await_all(pass);
    input = prepare(pass, retention->gate, n, (int)values_width(&model->config.retention),
                    form(pass, &weights->output));
    add_output(pass, &weights->output, input, &model->layers[layer].attn_post_norm);
}

const struct locus_mixer locus_mixer_retention = {
    .tensors = &locus_retention_part,
    .open = open_state,
    .close = close_state,
    .lay_out = lay_out,
    .run = run,
    .resume = locus_running_resume,
    .rewind = locus_running_rewind,
    .replay = locus_running_replay,
};
