/* Recurrent positions: a GRU reads the token embeddings, and its state is added to them:
 * h0_t = e_t + p_t, p_{-1} = 0.
 *
 * Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder" (arXiv 1406.1078),
 * equations 5 to 8, in PyTorch's form and order of gates (r, z, n):
 * r = sigmoid(W_ir e + b_ir + W_hr p + b_hr), z likewise, n = tanh(W_in e + b_in + r (W_hn p +
 * b_hn)), p' = (1 - z) n + z p. The state p is kept a position, so that a rewind finds it again.
 */
#include <stdlib.h>

#include "base/buffer.h"
#include "position/lanes.h"
#include "position/registry.h"
#include "position/sigmoid.h"
#include "position/tensors.h"

enum gate { RESET, UPDATE, NEW, N_GATES };

struct gru {
    int n_embd, n_panels;           /* panels: of LOCUS_LANES outputs a gate */
    const float *bias_ih, *bias_hh; /* [N_GATES, n_embd]; the model's */
    float *panels_ih, *panels_hh;   /* [n_panels, N_GATES, n_embd, LOCUS_LANES] */
};

/* ---- set-up ------------------------------------------------------------------------------- */

/* weight[N_GATES * n_embd, n_embd] as panels; outputs past n_embd are zeros. */
static float *make_panels(const struct gru *gru, const float *weight)
{
    size_t n = (size_t)gru->n_embd, n_panels = (size_t)gru->n_panels;
    float *panels = locus_aligned_zalloc(n_panels * N_GATES, n * LOCUS_LANES * sizeof(float));
    for (size_t output = 0; panels && output < n; output++)
        for (size_t gate = 0; gate < N_GATES; gate++) {
            const float *row = weight + (gate * n + output) * n;
            float *out = panels + (output / LOCUS_LANES * N_GATES + gate) * n * LOCUS_LANES +
                         output % LOCUS_LANES;
            for (size_t c = 0; c < n; c++)
                out[c * LOCUS_LANES] = row[c];
        }
    return panels;
}

static enum locus_status init_gru(void **state, const struct locus_position_env *env,
                                  const struct locus_position_spec *spec, locus_error *error)
{
    const struct locus_tensor_query query = {env, "recurrent", LOCUS_WHOLE_MODEL};
    int n = env->n_embd;
    const float *weight_ih, *weight_hh;
    enum locus_status status;
    (void)spec;
    struct gru *gru = calloc(1, sizeof *gru);
    if (!gru) return locus_fail_memory(error, sizeof *gru);
    *state = gru;
    gru->n_embd = n;
    gru->n_panels = (n - 1) / LOCUS_LANES + 1;
    if ((status = locus_tensor_find(&query, "position_gru.weight_ih", N_GATES * n, n, &weight_ih,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_gru.weight_hh", N_GATES * n, n, &weight_hh,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_gru.bias_ih", 1, N_GATES * n, &gru->bias_ih,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_gru.bias_hh", 1, N_GATES * n, &gru->bias_hh,
                                    NULL, error)))
        return status;
    gru->panels_ih = make_panels(gru, weight_ih);
    gru->panels_hh = make_panels(gru, weight_hh);
    if (!gru->panels_ih || !gru->panels_hh)
        return locus_fail_memory(error, 2 * N_GATES * (size_t)n * (size_t)n * sizeof(float));
    return LOCUS_OK;
}

static void free_gru(void *state)
{
    struct gru *gru = state;
    if (gru) {
        locus_aligned_free(gru->panels_ih);
        locus_aligned_free(gru->panels_hh);
    }
    free(gru);
}

static int row_floats(const void *state)
{
    const struct gru *gru = state;
    return gru->n_embd;
}

/* ---- use ---------------------------------------------------------------------------------- */

/* out[LOCUS_LANES] = W row + b of one gate and panel. */
static void gate_input(const struct gru *gru, const float *panels, const float *biases, int panel,
                       enum gate gate, const float *row, float *out)
{
    size_t n = (size_t)gru->n_embd, first = (size_t)panel * LOCUS_LANES;
    locus_dot_lanes(out, row, panels + ((size_t)panel * N_GATES + gate) * n * LOCUS_LANES,
                    LOCUS_LANES, gru->n_embd);
    for (size_t l = 0; l < LOCUS_LANES && first + l < n; l++)
        out[l] += biases[(size_t)gate * n + first + l];
}

/* state[n_embd] from the token's vector and the state before it. */
static void step(const struct gru *gru, const float *token, const float *before, float *after)
{
    float in[N_GATES][LOCUS_LANES], hidden[N_GATES][LOCUS_LANES];
    for (int panel = 0; panel < gru->n_panels; panel++) {
        for (enum gate gate = RESET; gate < N_GATES; gate++) {
            gate_input(gru, gru->panels_ih, gru->bias_ih, panel, gate, token, in[gate]);
            gate_input(gru, gru->panels_hh, gru->bias_hh, panel, gate, before, hidden[gate]);
        }
        for (int l = 0, c = panel * LOCUS_LANES; l < LOCUS_LANES && c < gru->n_embd; l++, c++) {
            float r = locus_sigmoid(in[RESET][l] + hidden[RESET][l]);
            float z = locus_sigmoid(in[UPDATE][l] + hidden[UPDATE][l]);
            float n = locus_gate_tanh(in[NEW][l] + r * hidden[NEW][l]);
            after[c] = (1 - z) * n + z * before[c];
        }
    }
}

static void embed(const void *state, const int32_t *tokens, float *x, int first_position, int n,
                  float *kept)
{
    const struct gru *gru = state;
    size_t n_embd = (size_t)gru->n_embd;
    (void)tokens, (void)first_position;
    for (int i = 0; i < n; i++, x += n_embd, kept += n_embd) {
        step(gru, x, kept - n_embd, kept);
        for (size_t c = 0; c < n_embd; c++)
            x[c] += kept[c];
    }
}

const struct locus_position_scheme locus_scheme_recurrent = {
    .name = "recurrent",
    .summary = "a GRU over the token embeddings, its state added to them",
    .init = init_gru,
    .free = free_gru,
    .row_floats = row_floats,
    .embed = embed,
};
