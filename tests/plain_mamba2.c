/* Mamba 2 in double, each output as a sum over all tokens before it (Dao and Gu 2024, equations 3
 * and 16: y_i is that of c_i . b_j times what decays from j to i, times the step of j): see
 * plain.h.
 */
#include <math.h>

#include "plain.h"

/* step[n, n_head] of dt; and of all tokens so far, the sum of step times a: decay from j to i is e
 * to the difference of two. */
static void make_steps(struct plain *plain, int layer, double *step, double *sums)
{
    int rows, n_head, one;
    const double *bias = plain_values(plain, layer, "ssm_dt.bias", &one, &n_head);
    const double *a = plain_values(plain, layer, "ssm_a", &rows, &one);
    for (int i = 0; i < plain->n; i++)
        for (int head = 0; head < n_head; head++) {
            const int at = i * n_head + head;
            step[at] = log1p(exp(step[at] + bias[head]));
            sums[at] = (i > 0 ? sums[at - n_head] : 0) + step[at] * a[head];
        }
}

/* y times silu(z), over its root mean square in each group, times weights */
static void gate(struct plain *plain, int layer, double *y, const double *z)
{
    int n_group, width;
    const double *weights = plain_values(plain, layer, "ssm_norm.weight", &n_group, &width);
    const double epsilon = (double)plain->model->config.ssm.norm_epsilon;
    for (int group = 0; group < plain->n * n_group; group++) {
        double *out = y + group * width, square = 0;
        for (int c = 0; c < width; c++) {
            out[c] *= plain_activation(LOCUS_SILU, z[group * width + c]);
            square += out[c] * out[c] / width;
        }
        for (int c = 0; c < width; c++)
            out[c] *= weights[group % n_group * width + c] / sqrt(square + epsilon);
    }
}

double *plain_mamba2(struct plain *plain, int layer, const double *in)
{
    const struct locus_ssm_config *ssm = &plain->model->config.ssm;
    const int n_inner = ssm->n_inner, n_head = ssm->n_head, head_dim = n_inner / n_head;
    const int n_shared = ssm->n_group * ssm->n_state, n_convolved = n_inner + 2 * n_shared;
    int rows, one;
    const double *skip = plain_values(plain, layer, "ssm_d", &rows, &one);
    const double *z = plain_linear(plain, layer, "ssm_in", 0, n_inner, in);
    const double *x = plain_linear(plain, layer, "ssm_in", n_inner, n_convolved, in);
    double *step = plain_linear(plain, layer, "ssm_in", n_inner + n_convolved, n_head, in);
    double *sums = plain_make(plain, plain->n * n_head, sizeof *sums);
    const double *u = plain_convolve(plain, layer, "ssm_conv1d", true, x, n_convolved);
    double *y = plain_make(plain, plain->n * n_inner, sizeof *y);
    make_steps(plain, layer, step, sums);
    for (int i = 0; i < plain->n; i++)
        for (int head = 0; head < n_head; head++) {
            const int b = n_inner + head / (n_head / ssm->n_group) * ssm->n_state;
            double *out = &y[i * n_inner + head * head_dim];
            for (int j = 0; j <= i; j++) {
                double weight = 0;
                for (int s = 0; s < ssm->n_state; s++)
                    weight += u[i * n_convolved + b + n_shared + s] * u[j * n_convolved + b + s];
                weight *= step[j * n_head + head] *
                          exp(sums[i * n_head + head] - sums[j * n_head + head]);
                for (int c = 0; c < head_dim; c++)
                    out[c] += (weight + (j == i ? skip[head] : 0)) *
                              u[j * n_convolved + head * head_dim + c];
            }
        }
    gate(plain, layer, y, z);
    return plain_linear(plain, layer, "ssm_out", 0, plain->model->config.n_embd, y);
}
