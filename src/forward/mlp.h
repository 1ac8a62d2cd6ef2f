/* The MLP of a layer: x += what it makes of a chunk's rows. */
#ifndef LOCUS_FORWARD_MLP_H
#define LOCUS_FORWARD_MLP_H

#include "forward/pass.h"

/* Runs the layer's MLP, dense or a mixture of experts, on in[n, n_embd], complete on every thread;
 * x is complete when it returns. */
void locus_mlp_run(const struct pass *pass, int index, const float *in);

#endif
