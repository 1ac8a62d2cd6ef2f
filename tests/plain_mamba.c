/* Mamba's selective scan in double, as algorithm 2 of the paper has it (Gu and Dao 2023): see
 * plain.h. Sizes are those of the file's tensors.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>

#include "plain.h"

static double silu(double x)
{
    return plain_activation(LOCUS_SILU, x);
}

double *plain_convolve(struct plain *plain, int layer, const char *name, bool activates,
                       const double *x, int n_inner)
{
    int rows, n_taps, one;
    char weight[32], vector[32];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(vector, sizeof vector, "%s.bias", name);
    const double *taps = plain_values(plain, layer, weight, &rows, &n_taps);
    const double *bias = plain_values(plain, layer, vector, &one, &rows);
    double *out = plain_make(plain, plain->n * n_inner, sizeof *out);
    for (int i = 0; i < plain->n; i++)
        for (int c = 0; c < n_inner; c++) {
            double sum = bias ? bias[c] : 0;
            for (int back = 0; back < n_taps && back <= i; back++)
                sum += taps[c * n_taps + n_taps - 1 - back] * x[(i - back) * n_inner + c];
            out[i * n_inner + c] = activates ? silu(sum) : sum;
        }
    return out;
}

/* Rows of width values over their root mean square, times weights where there are some, where the
 * model norms them. */
static void norm(struct plain *plain, int layer, const char *name, double *rows, int width)
{
    const struct locus_ssm_config *ssm = &plain->model->config.ssm;
    int one, n;
    const double *weights = plain_values(plain, layer, name, &one, &n);
    for (int i = 0; i < plain->n && (ssm->normed || weights); i++) {
        double square = 0;
        for (int c = 0; c < width; c++)
            square += rows[i * width + c] * rows[i * width + c] / width;
        for (int c = 0; c < width; c++)
            rows[i * width + c] *=
                (weights ? weights[c] : 1) / sqrt(square + (double)ssm->norm_epsilon);
    }
}

double *plain_mamba(struct plain *plain, int layer, const double *in)
{
    int n_inner, n_state, rank, rows;
    const double *a = plain_values(plain, layer, "ssm_a", &n_inner, &n_state);
    const double *skip = plain_values(plain, layer, "ssm_d", &rows, &n_inner);
    ck_assert(a && skip && plain_values(plain, layer, "ssm_dt.weight", &rows, &rank));
    const double *x = plain_linear(plain, layer, "ssm_in", 0, n_inner, in);
    const double *z = plain_linear(plain, layer, "ssm_in", n_inner, n_inner, in);
    const double *u = plain_convolve(plain, layer, "ssm_conv1d", true, x, n_inner);
    double *low = plain_linear(plain, layer, "ssm_x", 0, rank, u);
    double *b = plain_linear(plain, layer, "ssm_x", rank, n_state, u);
    double *c = plain_linear(plain, layer, "ssm_x", rank + n_state, n_state, u);
    norm(plain, layer, "ssm_dt_norm.weight", low, rank);
    norm(plain, layer, "ssm_b_norm.weight", b, n_state);
    norm(plain, layer, "ssm_c_norm.weight", c, n_state);
    const double *dt = plain_linear(plain, layer, "ssm_dt", 0, n_inner, low);
    double *h = plain_make(plain, n_inner * n_state, sizeof *h);
    double *out = plain_make(plain, plain->n * n_inner, sizeof *out);
    for (int i = 0; i < plain->n; i++)
        for (int channel = 0; channel < n_inner; channel++) {
            const int at = i * n_inner + channel;
            const double step = log1p(exp(dt[at]));
            double sum = skip[channel] * u[at];
            for (int s = 0; s < n_state; s++) {
                double *state = &h[channel * n_state + s];
                *state = exp(step * a[channel * n_state + s]) * *state +
                         step * b[i * n_state + s] * u[at];
                sum += c[i * n_state + s] * *state;
            }
            out[at] = sum * silu(z[at]);
        }
    return plain_linear(plain, layer, "ssm_out", 0, plain->model->config.n_embd, out);
}
