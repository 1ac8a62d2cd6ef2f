/* The tensors of Mamba's selective scan. See model.h.
 *
 * Names and contents as llama.cpp's converter writes them: ssm_in is x above z, ssm_x the step's
 * low-rank part above b above c, ssm_a what the state decays by, -e^(A_log).
 */
#include <stddef.h>

#include "base/buffer.h"
#include "model/loading.h"

#define AT(member) offsetof(struct locus_mamba_weights, member)

static const struct locus_linear_row linears[] = {
    {"ssm_in", LOCUS_EMBD, {{AT(x), LOCUS_INNER}, {AT(z), LOCUS_INNER}}, NULL, false},
    {"ssm_x",
     LOCUS_INNER,
     {{AT(low), LOCUS_RANK}, {AT(b), LOCUS_STATE}, {AT(c), LOCUS_STATE}},
     NULL,
     false},
    {"ssm_dt", LOCUS_RANK, {{AT(dt), LOCUS_INNER}}, NULL, false},
    {"ssm_out", LOCUS_INNER, {{AT(output), LOCUS_EMBD}}, NULL, false},
    {0},
};

/* Tensors whose values lie in panels: [n_inner, n] in the file. */
static const struct panel_row {
    const char *name, *suffix;
    size_t offset;
    enum { OF_TAP, OF_STATE, OF_CHANNEL } n; /* the last: a vector */
    bool optional;
} panels[] = {
    {"ssm_conv1d", ".weight", AT(taps), OF_TAP, false},
    {"ssm_conv1d", ".bias", AT(bias), OF_CHANNEL, true},
    {"ssm_a", "", AT(a), OF_STATE, false},
    {"ssm_d", "", AT(skip), OF_CHANNEL, false},
};

/* Norms of what a token's step, b and c come from: of a size of the scan. */
static const struct norm_row {
    const char *name;
    size_t offset;
    enum locus_extent extent;
} norms[] = {
    {"ssm_dt_norm", AT(low_norm), LOCUS_RANK},
    {"ssm_b_norm", AT(b_norm), LOCUS_STATE},
    {"ssm_c_norm", AT(c_norm), LOCUS_STATE},
};

enum { N_PANELS = sizeof panels / sizeof *panels, N_NORMS = sizeof norms / sizeof *norms };

static void *member(void *weights, size_t offset)
{
    return (char *)weights + offset;
}

static enum locus_status load_panels(struct locus_loading *loading, int layer,
                                     const struct panel_row *row, float **made)
{
    const struct locus_ssm_config *ssm = &loading->model->config.ssm;
    char name[LOCUS_TENSOR_NAME];
    locus_layer_name(name, layer, row->name, row->suffix);
    return locus_load_panels(loading, name, ssm->n_inner,
                             row->n == OF_TAP     ? ssm->n_conv
                             : row->n == OF_STATE ? ssm->n_state
                                                  : 0,
                             !row->optional, made);
}

/* A state that grows from token to token is no -e^(A_log): the logarithm itself, perhaps. */
static enum locus_status check_decay(const struct locus_loading *loading, int layer,
                                     const struct locus_mamba_weights *weights)
{
    const struct locus_ssm_config *ssm = &loading->model->config.ssm;
    const size_t n_state = (size_t)ssm->n_state;
    for (size_t channel = 0; channel < (size_t)ssm->n_inner; channel++)
        for (size_t s = 0; s < n_state; s++) {
            const float a = weights->a[(channel / LOCUS_CHANNELS * n_state + s) * LOCUS_CHANNELS +
                                       channel % LOCUS_CHANNELS];
            if (a <= 0) continue;
            return locus_fail(loading->error, LOCUS_ERROR_FORMAT,
                              "%s: tensor blk.%d.ssm_a is %g for channel %zu, state %zu, expected "
                              "-e^(A_log), 0 or less",
                              locus_loading_path(loading), layer, (double)a, channel, s);
        }
    return LOCUS_OK;
}

/* ---- norms ---------------------------------------------------------------------------------- */

/* Where the model norms them, but has no weights to do it by, those are 1. */
static enum locus_status load_norm(struct locus_loading *loading, int layer,
                                   const struct norm_row *row, struct locus_norm_weights *norm)
{
    const struct locus_config *config = &loading->model->config;
    const int n = locus_extent_of(row->extent, config);
    char prefix[LOCUS_TENSOR_NAME];
    locus_layer_name(prefix, layer, row->name, "");
    enum locus_status status = locus_load_norm(loading, prefix, n, false, norm);
    if (status || norm->weight || !config->ssm.normed) return status;
    return locus_load_ones(loading, n, &norm->weight);
}

/* ---- the part ------------------------------------------------------------------------------- */

static enum locus_status load_rest(struct locus_loading *loading, int layer, void *weights)
{
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < N_PANELS && !status; i++)
        status = load_panels(loading, layer, &panels[i], member(weights, panels[i].offset));
    for (int i = 0; i < N_NORMS && !status; i++)
        status = load_norm(loading, layer, &norms[i], member(weights, norms[i].offset));
    return status ? status : check_decay(loading, layer, weights);
}

static void free_rest(void *weights)
{
    for (int i = 0; i < N_PANELS; i++)
        locus_aligned_free(*(float **)member(weights, panels[i].offset));
    for (int i = 0; i < N_NORMS; i++)
        locus_norm_free(member(weights, norms[i].offset));
}

const struct locus_layer_part locus_mamba_part = {
    .name = "mamba",
    .size = sizeof(struct locus_mamba_weights),
    .linears = linears,
    .load = load_rest,
    .free = free_rest,
};
