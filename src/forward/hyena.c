/* Hyena as a mixer: see hyena.h.
 *
 *     in -> a, b, c, each through a short convolution over time        p = b c
 *     y_i = a_i (the sum over k of h_k p_(i-k), in order, + skip p_i)  y -> output
 *
 * The long filter h comes of a small network, whose values at a distance t are
 *
 *     h_t = last(sines of the layers of (s, cos w, -sin w)) (e^(-decay s) + shift), s = t / (L -
 * 1), w = 2 pi t f / L, of as many f as there are bands, from 1e-4 to that number less 1
 *
 * for L the length it was trained to; past that by the same formula. A prompt is summed up as each
 * token after it is, for the same bits: O(n) a token. A session keeps, of each layer, all of p and
 * h that there are, by panels (kernels.h), and what the short convolution has to see again.
 */
#include "forward/hyena.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/math.h"
#include "forward/convolution.h"

struct hyena {
    struct locus_running running; /* of a layer: panels of [n_conv - 1][LOCUS_CHANNELS] */
    size_t kept_floats;           /* of a panel */
    int n_panels;                 /* of n_embd channels */
    size_t past_floats;           /* [capacity][LOCUS_CHANNELS] */
    void *block;
    float *filters, *past; /* [layers that have it][n_panels][past_floats] */
    int *n_filled;         /* [layers that have it]: rows of their filters that are there */

    /* Scratch of one chunk of n tokens. */
    float *x, *u; /* [n_conv - 1 + n, 3 n_embd]: those before the chunk first; [n, 3 n_embd] */
    float *y;     /* [n, n_embd] */
};

/* ---- state ---------------------------------------------------------------------------------- */

static void lay_out_past(struct hyena *hyena, struct locus_arena *arena)
{
    const size_t n_panels = hyena->running.n_layer * (size_t)hyena->n_panels;
    hyena->filters = locus_arena_floats(arena, n_panels, hyena->past_floats);
    hyena->past = locus_arena_floats(arena, n_panels, hyena->past_floats);
}

static enum locus_status open_past(struct hyena *hyena, const struct locus_session *session,
                                   locus_error *error)
{
    struct locus_arena arena = {0};
    hyena->past_floats = (size_t)session->setup.capacity * LOCUS_CHANNELS;
    hyena->n_filled = calloc(hyena->running.n_layer, sizeof *hyena->n_filled);
    if (!hyena->n_filled) return locus_fail_memory(error, sizeof *hyena->n_filled);
    lay_out_past(hyena, &arena);
    hyena->block = arena.used < SIZE_MAX ? locus_aligned_zalloc(arena.used, 1) : NULL;
    if (!hyena->block)
        return locus_fail(error, LOCUS_ERROR_MEMORY,
                          "out of memory: filters of %d tokens in %zu layers could not be had",
                          session->setup.capacity, hyena->running.n_layer);
    arena = (struct locus_arena){.base = hyena->block};
    lay_out_past(hyena, &arena);
    return LOCUS_OK;
}

static enum locus_status open_state(void **state, const struct locus_session *session,
                                    locus_error *error)
{
    const struct locus_config *config = &session->model->config;
    struct hyena *hyena = *state = calloc(1, sizeof *hyena);
    if (!hyena) return locus_fail_memory(error, sizeof *hyena);
    hyena->n_panels = locus_panel_count(config->n_embd);
    hyena->kept_floats = (size_t)(config->hyena.n_conv - 1) * LOCUS_CHANNELS;
    const size_t n_kept = (size_t)locus_panel_count(3 * config->n_embd) * hyena->kept_floats;
    enum locus_status status =
        locus_running_open(&hyena->running, session, &locus_mixer_hyena, n_kept, error);
    return status ? status : open_past(hyena, session, error);
}

static void close_state(void *state)
{
    struct hyena *hyena = state;
    if (!hyena) return;
    locus_running_close(&hyena->running);
    locus_aligned_free(hyena->block);
    free(hyena->n_filled);
    free(hyena);
}

static void lay_out(void *state, const struct locus_session *session, struct locus_arena *arena)
{
    struct hyena *hyena = state;
    const struct locus_config *config = &session->model->config;
    const size_t n = (size_t)session->setup.n_batch, n_embd = (size_t)config->n_embd;
    hyena->x = locus_arena_floats(arena, n + (size_t)config->hyena.n_conv - 1, 3 * n_embd);
    hyena->u = locus_arena_floats(arena, n, 3 * n_embd);
    hyena->y = locus_arena_floats(arena, n, n_embd);
}

/* A layer's filter or past, panel `index`. */
static float *panel_of(const struct hyena *hyena, float *panels, int layer, int index)
{
    const size_t own = (size_t)hyena->running.index[layer] * (size_t)hyena->n_panels;
    return panels + (own + (size_t)index) * hyena->past_floats;
}

/* ---- the filter ----------------------------------------------------------------------------- */

/* What the network reads of a distance: [features] */
static void find_features(const struct locus_hyena_config *config, int distance, double *features)
{
    const double turn = 6.283185307179586 * distance / config->length;
    const double span = config->n_band > 1 ? config->n_band - 1 : 1;
    features[0] = (double)distance / (config->length > 1 ? config->length - 1 : 1);
    for (int k = 0; k < config->n_band; k++) {
        double sine, cosine;
        const double frequency = 1e-4 + (config->n_band - 1 - 1e-4) * k / span;
        locus_sine_cosine(turn * frequency, &sine, &cosine);
        features[1 + k] = cosine;
        features[1 + config->n_band + k] = -sine;
    }
}

static double dot(const float *weights, const double *values, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)weights[i] * values[i];
    return sum;
}

/* The layers before the last, of the features at `distance`: sines[width] */
static void find_sines(const struct locus_hyena_config *config,
                       const struct locus_hyena_weights *weights, int distance, double *sines)
{
    double in[LOCUS_HYENA_WIDTH] = {0};
    int n_in = locus_hyena_features(config);
    find_features(config, distance, in);
    for (int i = 0; i < config->n_layer; i++) {
        for (int k = 0; k < config->width; k++) {
            double cosine;
            const double sum = dot(weights->filters[i] + (size_t)k * (size_t)n_in, in, n_in);
            locus_sine_cosine((double)weights->frequency[k] * (sum + (double)weights->biases[i][k]),
                              &sines[k], &cosine);
        }
        n_in = config->width;
        for (int k = 0; k < n_in; k++)
            in[k] = sines[k];
    }
}

/* Row `distance` of a layer's filter. */
static void fill_row(const struct pass *pass, const struct hyena *hyena, int layer, int distance)
{
    const struct locus_model *model = pass->session->model;
    const struct locus_hyena_config *config = &model->config.hyena;
    const struct locus_hyena_weights *weights = model->layers[layer].mixer;
    const double s = (double)distance / (config->length > 1 ? config->length - 1 : 1);
    double sines[LOCUS_HYENA_WIDTH] = {0};
    find_sines(config, weights, distance, sines);
    for (int c = 0; c < model->config.n_embd; c++) {
        const double window = locus_exp_double(-(double)weights->decay[c] * s);
        const double value =
            dot(weights->last + (size_t)c * (size_t)config->width, sines, config->width) *
            (window + (double)config->shift);
        panel_of(
            hyena, hyena->filters, layer,
            c / LOCUS_CHANNELS)[(size_t)distance * LOCUS_CHANNELS + (size_t)(c % LOCUS_CHANNELS)] =
            (float)value;
    }
}

/* This thread's share of the rows that the chunk is the first to need. */
static void fill(const struct pass *pass, const struct hyena *hyena, int layer)
{
    const int first = hyena->n_filled[hyena->running.index[layer]];
    const int n = pass->first_slot + pass->n - first;
    if (n <= 0) return;
    for (int i = share_first(pass, n); i < share_end(pass, n); i++)
        fill_row(pass, hyena, layer, first + i);
}

/* ---- a chunk -------------------------------------------------------------------------------- */

/* p of the chunk, of one panel, and y. */
static void sum_up(const struct pass *pass, const struct hyena *hyena, int layer, int index)
{
    const struct locus_model *model = pass->session->model;
    const struct locus_hyena_weights *weights = model->layers[layer].mixer;
    const size_t n_embd = (size_t)model->config.n_embd, first = (size_t)index * LOCUS_CHANNELS;
    const int width = locus_panel_width(model->config.n_embd, index);
    float *past = panel_of(hyena, hyena->past, layer, index);
    for (int i = 0; i < pass->n; i++) {
        const float *b = hyena->u + (size_t)i * 3 * n_embd + n_embd + first;
        float *p = past + ((size_t)pass->first_slot + (size_t)i) * LOCUS_CHANNELS;
        for (int l = 0; l < width; l++)
            p[l] = b[l] * b[n_embd + (size_t)l];
    }
    const struct locus_long_convolution op = {
        .out = hyena->y + first,
        .gate = hyena->u + first,
        .h = panel_of(hyena, hyena->filters, layer, index),
        .p = past,
        .skip = weights->skip + first,
        .out_stride = n_embd,
        .gate_stride = 3 * n_embd,
        .first = pass->first_slot,
        .n = pass->n,
        .width = width,
    };
    pass->session->kernels->convolve_long(&op);
}

static void run(const struct pass *pass, void *state, int layer, const float *in)
{
    struct hyena *hyena = state;
    const struct locus_model *model = pass->session->model;
    const struct locus_hyena_weights *weights = model->layers[layer].mixer;
    const int n = pass->n, n_embd = model->config.n_embd, n_conv = model->config.hyena.n_conv;
    const int n_short = locus_panel_count(3 * n_embd);
    const struct locus_convolved convolved = {.out = hyena->u,
                                              .x = hyena->x,
                                              .taps = weights->taps,
                                              .bias = weights->bias,
                                              .n_channels = 3 * n_embd,
                                              .n_taps = n_conv,
                                              .bare = true};
    float *kept = locus_running_now(&hyena->running, layer);
    float *own_x = hyena->x + (size_t)(n_conv - 1) * 3 * (size_t)n_embd;
    struct locus_activations input = prepare(pass, in, n, n_embd, form(pass, &weights->in));
    project(pass, &weights->in, input, own_x, n, false);
    fill(pass, hyena, layer);
    await_all(pass);
    for (int p = share_first(pass, n_short); p < share_end(pass, n_short); p++)
        locus_convolve_panel(pass, &hyena->running, &convolved, p,
                             kept + (size_t)p * hyena->kept_floats);
    await_all(pass);
    for (int p = share_first(pass, hyena->n_panels); p < share_end(pass, hyena->n_panels); p++)
        sum_up(pass, hyena, layer, p);
    if (pass->thread == 0) {
        int *n_filled = &hyena->n_filled[hyena->running.index[layer]];
        const int end = pass->first_slot + n;
        if (*n_filled < end) *n_filled = end;
        hyena->running.at = end;
    }
    await_all(pass);
    input = prepare(pass, hyena->y, n, n_embd, form(pass, &weights->output));
    add_output(pass, &weights->output, input, &model->layers[layer].attn_post_norm);
}

const struct locus_mixer locus_mixer_hyena = {
    .tensors = &locus_hyena_part,
    .open = open_state,
    .close = close_state,
    .lay_out = lay_out,
    .run = run,
    .resume = locus_running_resume,
    .rewind = locus_running_rewind,
    .replay = locus_running_replay,
};
