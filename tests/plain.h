/* A text's matrices, one sum at a time in double. All are [n, width], a row a token, and live until
 * plain_free. `layer` -1 stands for a tensor that is no layer's.
 */
#ifndef LOCUS_TESTS_PLAIN_H
#define LOCUS_TESTS_PLAIN_H

#include "model/model.h"

struct plain {
    const locus_model *model;
    int n; /* tokens */
    struct plain_block *blocks;
};

/* n_values zeros; never NULL. */
void *plain_make(struct plain *plain, int n_values, size_t size);
void plain_free(struct plain *plain);

/* Whether there is a tensor blk.LAYER.NAME.weight. */
bool plain_has(const struct plain *plain, int layer, const char *name);

/* Row `index` of a matrix. */
double *plain_row(struct plain *plain, const char *name, int index);

/* in[n, cols] . the rows [first, first + rows) of a matrix, and of its bias: [n, rows] */
double *plain_linear(struct plain *plain, int layer, const char *name, int first, int rows,
                     const double *in);

/* The norm of in[n, width], or `otherwise` where the model has none of that name. A norm of fewer
 * values is one of each stretch of so many, such as a head. */
double *plain_norm(struct plain *plain, int layer, const char *name, double *in, int width,
                   double *otherwise);

/* a + scale b, all [n, n_embd] */
double *plain_sum(struct plain *plain, const double *a, double scale, const double *b);

/* cap tanh(x / cap); x where cap is 0. */
double plain_cap(double x, double cap);

double plain_activation(enum locus_activation kind, double x);

/* What a selective scan makes of in[n, n_embd], a token after another (plain_mamba.c). */
double *plain_mamba(struct plain *plain, int layer, const double *in);
/* What Mamba 2 does, as a sum over the tokens before (plain_mamba2.c). */
double *plain_mamba2(struct plain *plain, int layer, const double *in);
/* The convolution of each of n_channels with its taps in the layer's `name`: [n, n_channels]; or
 * that's SiLU (plain_mamba.c). */
double *plain_convolve(struct plain *plain, int layer, const char *name, bool activates,
                       const double *x, int n_channels);
/* What Hyena does (plain_hyena.c). */
double *plain_hyena(struct plain *plain, int layer, const double *in);
/* What retention does (plain_retention.c). */
double *plain_retention(struct plain *plain, int layer, const double *in);

/* All values [rows, cols] of a layer's tensor of that whole name, or NULL where there is none. */
double *plain_values(struct plain *plain, int layer, const char *name, int *rows, int *cols);

/* What the MLP of a layer makes of in[n, n_embd]: one, or a mixture of experts. */
double *plain_mlp(struct plain *plain, int layer, const double *in);

/* max |a - b| / max |b| of a row [n]; a NaN makes it infinite. */
double plain_difference(const float *a, const double *b, int n);

#endif
