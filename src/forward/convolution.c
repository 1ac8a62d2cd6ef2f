/* A convolution over time before a scan: see convolution.h. */
#include "forward/convolution.h"

#include <string.h>

/* A panel's inputs before row `row` of x, from what is kept, or back. */
static void put_before(const struct locus_convolved *convolved, int index, const float *kept)
{
    const size_t width = (size_t)locus_panel_width(convolved->n_channels, index);
    float *x = convolved->x + (size_t)index * LOCUS_CHANNELS;
    for (size_t k = 0; k < (size_t)convolved->n_taps - 1; k++)
        memcpy(x + k * (size_t)convolved->n_channels, kept + k * LOCUS_CHANNELS, width * sizeof *x);
}

static void keep_before(const struct locus_convolved *convolved, int index, int row, float *kept)
{
    const size_t width = (size_t)locus_panel_width(convolved->n_channels, index);
    const float *x = convolved->x + (size_t)index * LOCUS_CHANNELS;
    for (size_t k = 0; k < (size_t)convolved->n_taps - 1; k++)
        memcpy(kept + k * LOCUS_CHANNELS, x + ((size_t)row + k) * (size_t)convolved->n_channels,
               width * sizeof *x);
}

void locus_convolve_panel(const struct pass *pass, const struct locus_running *running,
                          const struct locus_convolved *convolved, int index, float *kept)
{
    const size_t n_kept = ((size_t)convolved->n_taps - 1) * LOCUS_CHANNELS;
    const size_t panel = (size_t)index * LOCUS_CHANNELS;
    const struct locus_convolution op = {
        .out = convolved->out + panel,
        .x = convolved->x + panel,
        .taps = convolved->taps + panel * (size_t)convolved->n_taps,
        .bias = convolved->bias + panel,
        .stride = (size_t)convolved->n_channels,
        .n = pass->n,
        .n_taps = convolved->n_taps,
        .width = locus_panel_width(convolved->n_channels, index),
        .bare = convolved->bare,
    };
    put_before(convolved, index, kept);
    pass->session->kernels->convolve(&op);
    for (int row = 0; row < pass->n;) {
        const int taken = pass->first_slot + row;
        const int n = locus_running_stretch(running, taken, pass->n - row);
        row += n;
        keep_before(convolved, index, row, kept);
        locus_running_keep(running, kept, n_kept, taken + n);
    }
}
