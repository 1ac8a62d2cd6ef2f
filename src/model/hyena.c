/* The tensors of Hyena. See model.h. */
#include <stddef.h>
#include <stdio.h>

#include "base/buffer.h"
#include "model/loading.h"

#define AT(member) offsetof(struct locus_hyena_weights, member)

static const struct locus_linear_row linears[] = {
    {"hyena_in", LOCUS_EMBD, {{AT(in), LOCUS_THREE_EMBD}}, NULL, false},
    {"hyena_out", LOCUS_EMBD, {{AT(output), LOCUS_EMBD}}, NULL, false},
    {0},
};

/* blk.N.NAME [rows, cols] as floats; rows 0: a vector. */
static enum locus_status load_floats(struct locus_loading *loading, int layer, const char *name,
                                     int rows, int cols, float **values)
{
    const struct locus_tensor *tensor;
    char full[LOCUS_TENSOR_NAME];
    locus_layer_name(full, layer, name, "");
    enum locus_status status = locus_load_claim(loading, full, rows, cols, true, &tensor);
    return status ? status : locus_load_floats(loading, tensor, values);
}

/* The layers of what makes the filter. */
static enum locus_status load_filter(struct locus_loading *loading, int layer,
                                     struct locus_hyena_weights *weights)
{
    const struct locus_hyena_config *hyena = &loading->model->config.hyena;
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < hyena->n_layer && !status; i++) {
        const int n_in = i ? hyena->width : locus_hyena_features(hyena);
        char name[LOCUS_TENSOR_NAME];
        snprintf(name, sizeof name, "hyena_filter_%d.weight", i);
        status = load_floats(loading, layer, name, hyena->width, n_in, &weights->filters[i]);
        snprintf(name, sizeof name, "hyena_filter_%d.bias", i);
        if (!status)
            status = load_floats(loading, layer, name, 0, hyena->width, &weights->biases[i]);
    }
    return status;
}

/* A filter that grows with the distance has another sign than it should. */
static enum locus_status check_decay(const struct locus_loading *loading, int layer,
                                     const float *decay)
{
    for (int channel = 0; channel < loading->model->config.n_embd; channel++)
        if (decay[channel] < 0)
            return locus_fail(loading->error, LOCUS_ERROR_FORMAT,
                              "%s: tensor blk.%d.hyena_decay is %g for channel %d, expected 0 or "
                              "more",
                              locus_loading_path(loading), layer, (double)decay[channel], channel);
    return LOCUS_OK;
}

static enum locus_status load_rest(struct locus_loading *loading, int layer, void *weights)
{
    struct locus_hyena_weights *hyena = weights;
    const struct locus_config *config = &loading->model->config;
    const int n_embd = config->n_embd, width = config->hyena.width;
    char taps[LOCUS_TENSOR_NAME], bias[LOCUS_TENSOR_NAME], skip[LOCUS_TENSOR_NAME];
    enum locus_status status;
    locus_layer_name(taps, layer, "hyena_conv1d", ".weight");
    locus_layer_name(bias, layer, "hyena_conv1d", ".bias");
    locus_layer_name(skip, layer, "hyena_skip", "");
    if ((status = locus_load_panels(loading, taps, 3 * n_embd, config->hyena.n_conv, true,
                                    &hyena->taps)) ||
        (status = locus_load_panels(loading, bias, 3 * n_embd, 0, false, &hyena->bias)) ||
        (status = locus_load_panels(loading, skip, n_embd, 0, true, &hyena->skip)) ||
        (status = load_filter(loading, layer, hyena)) ||
        (status =
             load_floats(loading, layer, "hyena_filter_out.weight", n_embd, width, &hyena->last)) ||
        (status = load_floats(loading, layer, "hyena_frequency", 0, width, &hyena->frequency)) ||
        (status = load_floats(loading, layer, "hyena_decay", 0, n_embd, &hyena->decay)))
        return status;
    return check_decay(loading, layer, hyena->decay);
}

static void free_rest(void *weights)
{
    struct locus_hyena_weights *hyena = weights;
    float *const values[] = {hyena->taps, hyena->bias,      hyena->skip,
                             hyena->last, hyena->frequency, hyena->decay};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        locus_aligned_free(values[i]);
    for (int i = 0; i < LOCUS_HYENA_LAYERS; i++) {
        locus_aligned_free(hyena->filters[i]);
        locus_aligned_free(hyena->biases[i]);
    }
}

const struct locus_layer_part locus_hyena_part = {
    .name = "hyena",
    .size = sizeof(struct locus_hyena_weights),
    .linears = linears,
    .load = load_rest,
    .free = free_rest,
};
