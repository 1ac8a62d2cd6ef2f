/* A convolution over time before a scan, whose last inputs a session keeps: by panels (kernels.h).
 */
#ifndef LOCUS_FORWARD_CONVOLUTION_H
#define LOCUS_FORWARD_CONVOLUTION_H

#include "forward/pass.h"
#include "forward/running.h"

/* One layer's, over a chunk of n tokens. */
struct locus_convolved {
    float *out;               /* [n, n_channels] */
    float *x;                 /* [n_taps - 1 + n, n_channels]: room for those before the chunk */
    const float *taps, *bias; /* panels of n_taps, and of 1 */
    int n_channels, n_taps;
    bool bare; /* without SiLU */
};

/* The chunk's outputs of panel `index`, whose last inputs are kept[n_taps - 1][LOCUS_CHANNELS], a
 * part of the layer's state: before it, and then after it. */
void locus_convolve_panel(const struct pass *pass, const struct locus_running *running,
                          const struct locus_convolved *convolved, int index, float *kept);

#endif
