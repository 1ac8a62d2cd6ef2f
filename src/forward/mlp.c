/* MLPs with one set of weights for all tokens, and the list of kinds: see mlp.h.
 *
 *     dense     x += down(act(up(in)))
 *     gated     x += down(act(gate(in)) * up(in))
 *     experts   experts.c
 */
#include "forward/mlp.h"

#include "forward/pass.h"

/* A layer may be a mixer alone. */
static void add_nothing(const struct pass *pass, const void *weights,
                        const struct locus_norm_weights *post_norm, const float *in)
{
    (void)pass, (void)weights, (void)post_norm, (void)in;
}

static const struct locus_mlp_kind no_mlp = {&locus_no_mlp_part, add_nothing};

static const struct locus_mlp_kind *const kinds[] = {&locus_mlp_dense, &locus_mlp_gated,
                                                     &locus_mlp_experts, &no_mlp};

const struct locus_mlp_kind *locus_mlp_find(const struct locus_layer_part *tensors)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i]->tensors == tensors) return kinds[i];
    return NULL;
}

/* ---- scratch ------------------------------------------------------------------------------ */

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

int locus_mlp_width(const struct locus_config *config)
{
    return max_int(config->n_ff, max_int(config->n_ff_expert, config->n_ff_shared));
}

void locus_mlp_lay_out(struct locus_mlp_scratch *scratch, const struct locus_config *config,
                       size_t n, struct locus_arena *arena)
{
    const size_t n_ff = (size_t)locus_mlp_width(config), n_embd = (size_t)config->n_embd;
    const size_t n_expert = (size_t)config->n_expert, n_mixed = n_expert ? n : 0;
    scratch->gate = locus_arena_floats(arena, config->gated ? n : 0, n_ff);
    scratch->up = locus_arena_floats(arena, n, n_ff);
    scratch->shares = locus_arena_floats(arena, n_mixed, n_expert);
    scratch->taken = locus_arena_take(arena, n_mixed, n_expert, sizeof(bool));
    scratch->expert_rows = locus_arena_ints(arena, n_mixed, (size_t)config->n_expert_used);
    scratch->expert_first = locus_arena_ints(arena, n_expert ? n_expert + 1 : 0, 1);
    scratch->gathered = locus_arena_floats(arena, n_mixed, n_embd);
    scratch->expert_out = locus_arena_floats(arena, n_mixed, n_embd);
}

/* ---- the hidden layer --------------------------------------------------------------------- */

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

struct locus_activations locus_mlp_hidden(const struct pass *pass, const struct locus_mlp *mlp,
                                          const float *in, int n)
{
    const struct locus_mlp_scratch *scratch = &pass->session->scratch.mlp;
    const bool gated = mlp->gate.weight.panels != NULL;
    const int n_embd = pass->session->model->config.n_embd;
    const int forms = form(pass, &mlp->up) | (gated ? form(pass, &mlp->gate) : 0);
    const struct locus_activations input = prepare(pass, in, n, n_embd, forms);
    project(pass, &mlp->up, input, scratch->up, n, false);
    if (gated) project(pass, &mlp->gate, input, scratch->gate, n, false);
    await_all(pass);
    return activate(pass, gated ? scratch->gate : scratch->up, gated ? scratch->up : NULL, n,
                    mlp->up.weight.rows, form(pass, &mlp->down));
}

/* ---- dense and gated ---------------------------------------------------------------------- */

static void run(const struct pass *pass, const void *weights,
                const struct locus_norm_weights *post_norm, const float *in)
{
    const struct locus_mlp *mlp = weights;
    add_output(pass, &mlp->down, locus_mlp_hidden(pass, mlp, in, pass->n), post_norm);
}

const struct locus_mlp_kind locus_mlp_dense = {&locus_dense_part, run};
const struct locus_mlp_kind locus_mlp_gated = {&locus_gated_part, run};
