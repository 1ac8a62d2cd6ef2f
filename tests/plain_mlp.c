/* The MLP in double: see plain.h.
 *
 *     dense     down(act(up(in))), or down(act(gate(in)) * up(in))
 *     experts   router(in) -> probabilities -> the largest few -> the sum of share * expert(in)
 */
#include <check.h>
#include <math.h>

#include "plain.h"

/* MLP number `index` of those that the matrices hold one after another. Without a matrix `gate`
 * that of a gated MLP is the first half of `up` (Phi-3). */
static double *run(struct plain *plain, int layer, const char *gate, const char *up,
                   const char *down, int index, int n_ff, const double *in)
{
    const struct locus_config *config = &plain->model->config;
    const bool gated = config->gated, fused = gated && !plain_has(plain, layer, gate);
    const int first = index * n_ff;
    double *hidden = plain_linear(plain, layer, up, fused ? n_ff : first, n_ff, in);
    const double *through =
        gated ? plain_linear(plain, layer, fused ? up : gate, first, n_ff, in) : hidden;
    for (int i = 0; i < plain->n * n_ff; i++) {
        double factor = gated ? hidden[i] : 1;
        if (gated && config->activation == LOCUS_CLIPPED_SWISH)
            factor = fmax(-7, fmin(hidden[i], 7)) + 1;
        hidden[i] = plain_activation(config->activation, through[i]) * factor;
    }
    return plain_linear(plain, layer, down, index * config->n_embd, config->n_embd, hidden);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* scores[n_expert] of the router become the token's shares, 0 for experts that it doesn't take. */
static void share_out(const struct locus_config *config, double *scores)
{
    const int n = config->n_expert;
    double sum = 0, taken = 0, shares[256] = {0};
    ck_assert_int_le(n, 256);
    for (int e = 0; e < n; e++)
        sum += exp(scores[e]);
    for (int e = 0; e < n; e++)
        scores[e] = exp(scores[e]) / sum;
    for (int i = 0; i < config->n_expert_used; i++) {
        int best = 0;
        for (int e = 1; e < n; e++)
            if (scores[e] > scores[best]) best = e;
        taken += shares[best] = scores[best];
        scores[best] = -1;
    }
    for (int e = 0; e < n; e++)
        scores[e] = shares[e] / (config->normed_experts ? taken : 1);
}

/* out[n, n_embd] += share[i * stride] of a token times what an expert makes of it. */
static void add_expert(struct plain *plain, double *out, const double *share, int stride,
                       const double *made)
{
    const int n_embd = plain->model->config.n_embd;
    for (int i = 0; i < plain->n * n_embd; i++)
        out[i] += share[i / n_embd * stride] * made[i];
}

static double *run_experts(struct plain *plain, int layer, const double *in)
{
    const struct locus_config *config = &plain->model->config;
    const int n_expert = config->n_expert;
    double *out = plain_make(plain, plain->n * config->n_embd, sizeof *out);
    double *shares = plain_linear(plain, layer, "ffn_gate_inp", 0, n_expert, in);
    for (int i = 0; i < plain->n; i++)
        share_out(config, shares + i * n_expert);
    for (int e = 0; e < n_expert; e++)
        add_expert(plain, out, shares + e, n_expert,
                   run(plain, layer, "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", e,
                       config->n_ff_expert, in));
    if (!plain_has(plain, layer, "ffn_up_shexp")) return out;
    double *share = plain_make(plain, plain->n, sizeof *share);
    for (int i = 0; i < plain->n; i++)
        share[i] = 1;
    if (plain_has(plain, layer, "ffn_gate_inp_shexp")) {
        share = plain_linear(plain, layer, "ffn_gate_inp_shexp", 0, 1, in);
        for (int i = 0; i < plain->n; i++)
            share[i] = sigmoid(share[i]);
    }
    add_expert(plain, out, share, 1,
               run(plain, layer, "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", 0,
                   config->n_ff_shared, in));
    return out;
}

double *plain_mlp(struct plain *plain, int layer, const double *in)
{
    if (plain_has(plain, layer, "ffn_gate_inp")) return run_experts(plain, layer, in);
    return run(plain, layer, "ffn_gate", "ffn_up", "ffn_down", 0, plain->model->config.n_ff, in);
}
