/* Values of channels side by side, as kernels read them (struct locus_convolution and others). See
 * loading.h. */
#include "base/buffer.h"
#include "model/loading.h"

/* Panels [n][LOCUS_CHANNELS] of values[n_channels, n]; NULL: zeros. */
static enum locus_status make(const struct locus_loading *loading, const float *values,
                              size_t n_channels, size_t n, float **made)
{
    const size_t n_panels = (n_channels - 1) / LOCUS_CHANNELS + 1, size = n * LOCUS_CHANNELS;
    *made = locus_aligned_zalloc(n_panels, size * sizeof **made);
    if (!*made) return locus_fail_memory(loading->error, n_panels * size * sizeof **made);
    for (size_t channel = 0; values && channel < n_channels; channel++)
        for (size_t i = 0; i < n; i++)
            (*made)[channel / LOCUS_CHANNELS * size + i * LOCUS_CHANNELS +
                    channel % LOCUS_CHANNELS] = values[channel * n + i];
    return LOCUS_OK;
}

enum locus_status locus_load_panels(struct locus_loading *loading, const char *name, int n_channels,
                                    int n, bool needed, float **panels)
{
    const bool vector = n == 0;
    const struct locus_tensor *tensor;
    float *values = NULL;
    enum locus_status status = locus_load_claim(loading, name, vector ? 0 : n_channels,
                                                vector ? n_channels : n, needed, &tensor);
    if (!status && tensor) status = locus_load_floats(loading, tensor, &values);
    if (!status) status = make(loading, values, (size_t)n_channels, vector ? 1 : (size_t)n, panels);
    locus_aligned_free(values);
    return status;
}
