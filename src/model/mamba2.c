/* The tensors of Mamba 2. See model.h.
 *
 * Names and contents as llama.cpp's converter writes them: ssm_in is the gate above what is
 * convolved above the steps, ssm_a what a head decays by, -e^(A_log).
 */
#include <stddef.h>

#include "base/buffer.h"
#include "model/loading.h"

#define AT(member) offsetof(struct locus_mamba2_weights, member)

static const struct locus_linear_row linears[] = {
    {"ssm_in",
     LOCUS_EMBD,
     {{AT(z), LOCUS_INNER}, {AT(x), LOCUS_CONVOLVED}, {AT(dt), LOCUS_SCAN_HEADS}},
     NULL,
     false},
    {"ssm_out", LOCUS_INNER, {{AT(output), LOCUS_EMBD}}, NULL, false},
    {0},
};

int locus_convolved_channels(const struct locus_ssm_config *ssm)
{
    return ssm->n_inner + 2 * ssm->n_group * ssm->n_state;
}

/* blk.N.NAME [n_head, 1], or [n_head] of a bias */
static enum locus_status load_heads(struct locus_loading *loading, int layer, const char *name,
                                    bool vector, float **values)
{
    const int n_head = loading->model->config.ssm.n_head;
    const struct locus_tensor *tensor;
    char full[LOCUS_TENSOR_NAME];
    locus_layer_name(full, layer, name, "");
    enum locus_status status =
        locus_load_claim(loading, full, vector ? 0 : n_head, vector ? n_head : 1, true, &tensor);
    return status ? status : locus_load_floats(loading, tensor, values);
}

/* A state that grows from token to token is no -e^(A_log): the logarithm itself, perhaps. */
static enum locus_status check_decay(const struct locus_loading *loading, int layer, const float *a)
{
    for (int head = 0; head < loading->model->config.ssm.n_head; head++)
        if (a[head] > 0)
            return locus_fail(
                loading->error, LOCUS_ERROR_FORMAT,
                "%s: tensor blk.%d.ssm_a is %g for head %d, expected -e^(A_log), 0 or "
                "less",
                locus_loading_path(loading), layer, (double)a[head], head);
    return LOCUS_OK;
}

/* ssm_norm.weight [n_group, n_inner / n_group] */
static enum locus_status load_norm(struct locus_loading *loading, int layer,
                                   struct locus_norm_weights *norm)
{
    const struct locus_ssm_config *ssm = &loading->model->config.ssm;
    const struct locus_tensor *tensor;
    char name[LOCUS_TENSOR_NAME];
    locus_layer_name(name, layer, "ssm_norm", ".weight");
    enum locus_status status =
        locus_load_claim(loading, name, ssm->n_group, ssm->n_inner / ssm->n_group, true, &tensor);
    return status ? status : locus_load_floats(loading, tensor, &norm->weight);
}

static enum locus_status load_rest(struct locus_loading *loading, int layer, void *weights)
{
    struct locus_mamba2_weights *mamba2 = weights;
    const struct locus_ssm_config *ssm = &loading->model->config.ssm;
    const int convolved = locus_convolved_channels(ssm);
    char taps[LOCUS_TENSOR_NAME], bias[LOCUS_TENSOR_NAME];
    enum locus_status status;
    locus_layer_name(taps, layer, "ssm_conv1d", ".weight");
    locus_layer_name(bias, layer, "ssm_conv1d", ".bias");
    if ((status = locus_load_panels(loading, taps, convolved, ssm->n_conv, true, &mamba2->taps)) ||
        (status = locus_load_panels(loading, bias, convolved, 0, false, &mamba2->bias)) ||
        (status = load_heads(loading, layer, "ssm_dt.bias", true, &mamba2->step_bias)) ||
        (status = load_heads(loading, layer, "ssm_a", false, &mamba2->a)) ||
        (status = load_heads(loading, layer, "ssm_d", false, &mamba2->skip)) ||
        (status = load_norm(loading, layer, &mamba2->norm)))
        return status;
    return check_decay(loading, layer, mamba2->a);
}

static void free_rest(void *weights)
{
    struct locus_mamba2_weights *mamba2 = weights;
    float *const vectors[] = {mamba2->taps, mamba2->bias, mamba2->step_bias, mamba2->a,
                              mamba2->skip};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        locus_aligned_free(vectors[i]);
    locus_norm_free(&mamba2->norm);
}

const struct locus_layer_part locus_mamba2_part = {
    .name = "mamba2",
    .size = sizeof(struct locus_mamba2_weights),
    .linears = linears,
    .load = load_rest,
    .free = free_rest,
};
