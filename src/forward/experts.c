/* A mixture of experts: see mlp.h.
 *
 *     router(in) -> the few most likely experts a row, with their shares
 *         -> expert by expert: its rows gathered, its MLP, share * result added to `branch`
 *         -> the shared expert, if there is one -> x += branch
 *
 * A row's sum goes over its experts in the order of their numbers, whatever other rows are there.
 */
#include <string.h>

#include "base/math.h"
#include "forward/mlp.h"
#include "forward/pass.h"

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
static void list_rows(struct locus_mlp_scratch *scratch, size_t n_expert, int n)
{
    int n_listed = 0;
    for (size_t e = 0; e < n_expert; e++) {
        scratch->expert_first[e] = n_listed;
        for (int i = 0; i < n; i++)
            if (scratch->taken[(size_t)i * n_expert + e]) scratch->expert_rows[n_listed++] = i;
    }
    scratch->expert_first[n_expert] = n_listed;
}

/* shares[n, n_expert] of in[n, n_embd], and each expert's rows; branch is zero. */
static void route(const struct pass *pass, const struct locus_experts *experts, const float *in)
{
    struct locus_scratch *scratch = &pass->session->scratch;
    struct locus_mlp_scratch *own = &scratch->mlp;
    const struct locus_config *config = &pass->session->model->config;
    const struct locus_linear *router = &experts->router;
    const size_t n_expert = (size_t)config->n_expert, n_embd = (size_t)config->n_embd;
    const int n = pass->n;
    project(pass, router, prepare(pass, in, n, config->n_embd, form(pass, router)), own->shares, n,
            false);
    await_all(pass);
    for (int i = share_first(pass, n); i < share_end(pass, n); i++) {
        float *shares = own->shares + (size_t)i * n_expert;
        to_probabilities(config, shares);
        choose_experts(config, shares, own->taken + (size_t)i * n_expert);
        memset(scratch->branch + (size_t)i * n_embd, 0, n_embd * sizeof(float));
    }
    await_all(pass);
    if (pass->thread == 0) list_rows(own, n_expert, n);
    await_all(pass);
}

/* expert_out[n, n_embd] of in[n, n_embd], complete on every thread. */
static void run_mlp(const struct pass *pass, const struct locus_mlp *mlp, const float *in, int n)
{
    project(pass, &mlp->down, locus_mlp_hidden(pass, mlp, in, n),
            pass->session->scratch.mlp.expert_out, n, false);
    await_all(pass);
}

static void run_expert(const struct pass *pass, const struct locus_experts *experts, int e,
                       const float *in)
{
    const struct locus_scratch *scratch = &pass->session->scratch;
    const struct locus_mlp_scratch *own = &scratch->mlp;
    const struct locus_config *config = &pass->session->model->config;
    const size_t n_embd = (size_t)config->n_embd, n_expert = (size_t)config->n_expert;
    const int *rows = own->expert_rows + own->expert_first[e];
    const int n = own->expert_first[e + 1] - own->expert_first[e];
    if (n == 0) return;
    for (int i = share_first(pass, n); i < share_end(pass, n); i++)
        memcpy(own->gathered + (size_t)i * n_embd, in + (size_t)rows[i] * n_embd,
               n_embd * sizeof *in);
    await_all(pass);
    run_mlp(pass, &experts->each[e], own->gathered, n);
    for (int i = share_first(pass, n); i < share_end(pass, n); i++) {
        float *sum = scratch->branch + (size_t)rows[i] * n_embd;
        const float *out = own->expert_out + (size_t)i * n_embd;
        const float share = own->shares[(size_t)rows[i] * n_expert + (size_t)e];
        for (size_t c = 0; c < n_embd; c++)
            sum[c] += share * out[c];
    }
    await_all(pass);
}

/* The expert that every row takes, by a share that its gate gives or whole. */
static void run_shared(const struct pass *pass, const struct locus_experts *experts,
                       const float *in)
{
    const struct locus_scratch *scratch = &pass->session->scratch;
    const struct locus_mlp_scratch *own = &scratch->mlp;
    const size_t n_embd = (size_t)pass->session->model->config.n_embd;
    const struct locus_linear *gate = &experts->shared_gate;
    const bool gated = gate->weight.panels != NULL;
    const int n = pass->n;
    if (gated) {
        project(pass, gate, prepare(pass, in, n, (int)n_embd, form(pass, gate)), own->shares, n,
                false);
        await_all(pass);
    }
    run_mlp(pass, &experts->shared, in, n);
    for (int i = share_first(pass, n); i < share_end(pass, n); i++) {
        const float share = gated ? 1 / (1 + locus_exp(-own->shares[i])) : 1;
        for (size_t c = (size_t)i * n_embd; c < (size_t)(i + 1) * n_embd; c++)
            scratch->branch[c] += share * own->expert_out[c];
    }
    await_all(pass);
}

static void run(const struct pass *pass, const void *weights,
                const struct locus_norm_weights *post_norm, const float *in)
{
    const struct locus_experts *experts = weights;
    route(pass, experts, in);
    for (int e = 0; e < experts->n; e++)
        run_expert(pass, experts, e, in);
    if (experts->shared.up.weight.panels) run_shared(pass, experts, in);
    add_branch(pass, post_norm);
}

const struct locus_mlp_kind locus_mlp_experts = {&locus_experts_part, run};
