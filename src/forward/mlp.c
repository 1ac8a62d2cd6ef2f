/* The MLP of a layer: see mlp.h.
 *
 *     dense     x += down(act(up(in))), or down(act(gate(in)) * up(in))
 *     experts   router(in) -> the few most likely experts a row, with their shares
 *               -> expert by expert: its rows gathered, its MLP, share * result added to `branch`
 *               -> the shared expert, if there is one -> x += branch
 *
 * A row's sum goes over its experts in the order of their numbers, whatever other rows are there.
 */
#include "forward/mlp.h"

#include <math.h>
#include <string.h>

#include "base/math.h"

/* hidden[n, n_ff] = activation(hidden), times up unless that is NULL, as the input of matrix
 * products. Rows go through all of it while they are near; where they are fewer than threads, each
 * thread has some columns. */
static struct locus_activations activate(const struct pass *pass, float *hidden, const float *up,
                                         int n, int n_ff, int forms)
{
    const enum locus_activation kind = pass->session->model->config.activation;
    const struct locus_kernels *kernels = pass->session->kernels;
    const size_t width = (size_t)n_ff;
    if (n >= pass->n_threads) {
        for (int i = share_first(pass, n); i < share_end(pass, n); i++) {
            float *row = hidden + (size_t)i * width;
            kernels->activate(kind, row, row, up ? up + (size_t)i * width : NULL, n_ff);
            convert(pass, row, i, n_ff, forms);
        }
        await_all(pass);
        return input_of(pass, hidden);
    }
    const int first = share_first(pass, n_ff), end = share_end(pass, n_ff);
    for (int i = 0; i < n; i++) {
        const size_t at = (size_t)i * width + (size_t)first;
        kernels->activate(kind, hidden + at, hidden + at, up ? up + at : NULL, end - first);
    }
    await_all(pass);
    return prepare(pass, hidden, n, n_ff, forms);
}

static int input_forms(const struct pass *pass, const struct locus_mlp *mlp)
{
    return form(pass, &mlp->up) | (mlp->gate.weight.panels ? form(pass, &mlp->gate) : 0);
}

/* The input of mlp's down of n rows. */
static struct locus_activations hidden_of(const struct pass *pass, const struct locus_mlp *mlp,
                                          struct locus_activations in, int n)
{
    struct locus_session *session = pass->session;
    const bool gated = mlp->gate.weight.panels != NULL;
    project(pass, &mlp->up, in, session->up, n, false);
    if (gated) project(pass, &mlp->gate, in, session->gate, n, false);
    await_all(pass);
    return activate(pass, gated ? session->gate : session->up, gated ? session->up : NULL, n,
                    mlp->n_ff, form(pass, &mlp->down));
}

/* ---- experts ------------------------------------------------------------------------------ */

/* Scores[n_expert] become probabilities. */
static void to_probabilities(const struct locus_config *config, float *scores)
{
    const int n = config->n_expert;
    float max = scores[0], sum = 0;
    for (int i = 1; i < n; i++)
        max = scores[i] > max ? scores[i] : max;
    for (int i = 0; i < n; i++)
        sum += scores[i] = locus_exp(scores[i] - max);
    for (int i = 0; i < n; i++)
        scores[i] /= sum;
}

/* A row's share of each expert, 0 for those that it doesn't take: probabilities[n_expert] in place.
 * Of equal ones the first are taken. */
static void choose_experts(const struct locus_config *config, float *probabilities, bool *taken)
{
    float sum = 0;
    memset(taken, 0, (size_t)config->n_expert * sizeof *taken);
    for (int i = 0; i < config->n_expert_used; i++) {
        int best = -1;
        for (int e = 0; e < config->n_expert; e++)
            if (!taken[e] && (best < 0 || probabilities[e] > probabilities[best])) best = e;
        taken[best] = true;
        sum += probabilities[best];
    }
    for (int e = 0; e < config->n_expert; e++) {
        if (config->normed_experts && taken[e]) probabilities[e] /= sum;
        if (!taken[e]) probabilities[e] = 0;
    }
}

/* The rows of each expert, in the order of the experts: expert e's are
 * expert_rows[expert_first[e] .. expert_first[e + 1] - 1]. On one thread. */
static void list_rows(struct locus_session *session, int n)
{
    const size_t n_expert = (size_t)session->model->config.n_expert;
    int n_listed = 0;
    for (size_t e = 0; e < n_expert; e++) {
        session->expert_first[e] = n_listed;
        for (int i = 0; i < n; i++)
            if (session->taken[(size_t)i * n_expert + e]) session->expert_rows[n_listed++] = i;
    }
    session->expert_first[n_expert] = n_listed;
}

/* session->shares[n, n_expert] of in[n, n_embd], and each expert's rows; branch is zero. */
static void route(const struct pass *pass, const struct locus_layer *layer, const float *in)
{
    struct locus_session *session = pass->session;
    const struct locus_config *config = &session->model->config;
    const size_t n_expert = (size_t)config->n_expert, n_embd = (size_t)config->n_embd;
    project(pass, &layer->router,
            prepare(pass, in, pass->n, config->n_embd, form(pass, &layer->router)), session->shares,
            pass->n, false);
    await_all(pass);
    for (int i = share_first(pass, pass->n); i < share_end(pass, pass->n); i++) {
        float *shares = session->shares + (size_t)i * n_expert;
        to_probabilities(config, shares);
        choose_experts(config, shares, session->taken + (size_t)i * n_expert);
        memset(session->branch + (size_t)i * n_embd, 0, n_embd * sizeof(float));
    }
    await_all(pass);
    if (pass->thread == 0) list_rows(session, pass->n);
    await_all(pass);
}

static void run_expert(const struct pass *pass, const struct locus_layer *layer, int e,
                       const float *in)
{
    struct locus_session *session = pass->session;
    const struct locus_config *config = &session->model->config;
    const struct locus_mlp *expert = &layer->experts[e];
    const size_t n_embd = (size_t)config->n_embd;
    const int *rows = session->expert_rows + session->expert_first[e];
    const int n = session->expert_first[e + 1] - session->expert_first[e];
    if (n == 0) return;
    for (int i = share_first(pass, n); i < share_end(pass, n); i++)
        memcpy(session->gathered + (size_t)i * n_embd, in + (size_t)rows[i] * n_embd,
               n_embd * sizeof *in);
    await_all(pass);
    struct locus_activations input =
        prepare(pass, session->gathered, n, config->n_embd, input_forms(pass, expert));
    input = hidden_of(pass, expert, input, n);
    project(pass, &expert->down, input, session->expert_out, n, false);
    await_all(pass);
    for (int i = share_first(pass, n); i < share_end(pass, n); i++) {
        float *sum = session->branch + (size_t)rows[i] * n_embd;
        const float *out = session->expert_out + (size_t)i * n_embd;
        const float share = session->shares[(size_t)rows[i] * (size_t)config->n_expert + (size_t)e];
        for (size_t c = 0; c < n_embd; c++)
            sum[c] += share * out[c];
    }
    await_all(pass);
}

/* The expert that every row takes, by a share that its gate gives or whole. */
static void run_shared(const struct pass *pass, const struct locus_layer *layer, const float *in)
{
    struct locus_session *session = pass->session;
    const struct locus_config *config = &session->model->config;
    const size_t n_embd = (size_t)config->n_embd;
    const struct locus_linear *gate = &layer->shared_gate;
    const bool gated = gate->weight.panels != NULL;
    const int n = pass->n;
    if (gated) {
        project(pass, gate, prepare(pass, in, n, config->n_embd, form(pass, gate)), session->shares,
                n, false);
        await_all(pass);
    }
    struct locus_activations input =
        prepare(pass, in, n, config->n_embd, input_forms(pass, &layer->shared));
    input = hidden_of(pass, &layer->shared, input, n);
    project(pass, &layer->shared.down, input, session->expert_out, n, false);
    await_all(pass);
    for (int i = share_first(pass, n); i < share_end(pass, n); i++) {
        const float share = gated ? 1 / (1 + locus_exp(-session->shares[i])) : 1;
        for (size_t c = (size_t)i * n_embd; c < (size_t)(i + 1) * n_embd; c++)
            session->branch[c] += share * session->expert_out[c];
    }
    await_all(pass);
}

static void run_experts(const struct pass *pass, const struct locus_layer *layer, const float *in)
{
    route(pass, layer, in);
    for (int e = 0; e < pass->session->model->config.n_expert; e++)
        run_expert(pass, layer, e, in);
    if (layer->shared.up.weight.panels) run_shared(pass, layer, in);
    add_branch(pass, &layer->ffn_post_norm);
}

/* ---- either ------------------------------------------------------------------------------- */

static void run_dense(const struct pass *pass, const struct locus_layer *layer, const float *in)
{
    const struct locus_mlp *mlp = &layer->mlp;
    const int n = pass->n;
    struct locus_activations input =
        prepare(pass, in, n, pass->session->model->config.n_embd, input_forms(pass, mlp));
    add_output(pass, &mlp->down, hidden_of(pass, mlp, input, n), &layer->ffn_post_norm);
}

void locus_mlp_run(const struct pass *pass, int index, const float *in)
{
    const struct locus_layer *layer = &pass->session->model->layers[index];
    if (layer->experts)
        run_experts(pass, layer, in);
    else
        run_dense(pass, layer, in);
}
