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
#include "base/math.h"
#include "kernels/kernels.h"
#include "position/registry.h"
#include "position/tensors.h"

enum gate { RESET, UPDATE, NEW, N_GATES };

enum { ROWS = 48 }; /* tokens whose products with W_i share a reading of it */

struct gru {
    int n_embd;
    struct locus_kernels kernels;   /* the session's; they change no bit */
    struct locus_weight ih, hh;     /* [N_GATES * n_embd, n_embd] */
    const float *bias_ih, *bias_hh; /* [N_GATES * n_embd]; the model's */
    float *in,
        *hidden; /* scratch of embed, which one thread calls: [ROWS, N_GATES * n_embd], one row */
};

/* ---- set-up ------------------------------------------------------------------------------- */

static enum locus_status pack(const struct gru *gru, struct locus_weight *weight,
                              const float *values, locus_error *error)
{
    const int rows = N_GATES * gru->n_embd;
    const struct locus_row_source source = {.data = (const unsigned char *)values};
    return locus_weight_pack(weight, LOCUS_F32, rows, gru->n_embd, source, 1, error);
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
    if ((status = locus_kernels_init(&gru->kernels, env->kernels, error)) ||
        (status = locus_tensor_find(&query, "position_gru.weight_ih", N_GATES * n, n, &weight_ih,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_gru.weight_hh", N_GATES * n, n, &weight_hh,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_gru.bias_ih", 1, N_GATES * n, &gru->bias_ih,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_gru.bias_hh", 1, N_GATES * n, &gru->bias_hh,
                                    NULL, error)))
        return status;
    if ((status = pack(gru, &gru->ih, weight_ih, error)) ||
        (status = pack(gru, &gru->hh, weight_hh, error)))
        return status;
    const size_t row_bytes = N_GATES * (size_t)n * sizeof(float);
    gru->in = locus_aligned_zalloc(ROWS, row_bytes);
    gru->hidden = locus_aligned_zalloc(1, row_bytes);
    return gru->in && gru->hidden ? LOCUS_OK : locus_fail_memory(error, (ROWS + 1) * row_bytes);
}

static void free_gru(void *state)
{
    struct gru *gru = state;
    if (gru) {
        locus_weight_free(&gru->ih);
        locus_weight_free(&gru->hh);
        locus_aligned_free(gru->in);
        locus_aligned_free(gru->hidden);
    }
    free(gru);
}

static int embed_floats(const void *state)
{
    const struct gru *gru = state;
    return gru->n_embd;
}

/* ---- use ---------------------------------------------------------------------------------- */

/* out[n, N_GATES * n_embd] = W rows + b. */
static void multiply(const struct gru *gru, const struct locus_weight *weight, const float *bias,
                     const float *rows, int n, float *out)
{
    const struct locus_matmul op = {
        .out = out, .in = {.x = rows}, .weight = weight, .bias = bias, .n = n};
    locus_multiply(&gru->kernels, &op, 0, 1);
}

/* after[n_embd], the state, from the one before it and the gates' products with both inputs. */
static void step(const struct gru *gru, const float *restrict in, const float *restrict before,
                 float *restrict after)
{
    const int n_embd = gru->n_embd;
    const float *restrict hidden = gru->hidden;
    multiply(gru, &gru->hh, gru->bias_hh, before, 1, gru->hidden);
    for (int c = 0; c < n_embd; c++) {
        float r = locus_sigmoid(in[c] + hidden[c]);
        float z = locus_sigmoid(in[n_embd + c] + hidden[n_embd + c]);
        float n = locus_gate_tanh(in[2 * n_embd + c] + r * hidden[2 * n_embd + c]);
        after[c] = (1 - z) * n + z * before[c];
    }
}

static void embed(const void *state, const struct locus_embed_op *op)
{
    const struct gru *gru = state;
    const size_t n_embd = (size_t)gru->n_embd;
    float *x = op->x, *states = op->token_states;
    for (int first = 0; first < op->n; first += ROWS) {
        const int rows = op->n - first < ROWS ? op->n - first : ROWS;
        multiply(gru, &gru->ih, gru->bias_ih, x, rows, gru->in);
        for (int i = 0; i < rows; i++, x += n_embd, states += n_embd) {
            step(gru, gru->in + (size_t)i * N_GATES * n_embd, states - n_embd, states);
            for (size_t c = 0; c < n_embd; c++)
                x[c] += states[c];
        }
    }
}

static const char *const tensors[] = {
    "position_gru.weight_ih",
    "position_gru.weight_hh",
    "position_gru.bias_ih",
    "position_gru.bias_hh",
    NULL,
};

const struct locus_position_scheme locus_scheme_recurrent = {
    .abi = LOCUS_POSITION_ABI,
    .name = "recurrent",
    .summary = "a GRU over the token embeddings, its state added to them",
    .tensors = tensors,
    .init = init_gru,
    .free = free_gru,
    .embed_floats = embed_floats,
    .embed = embed,
};
