/* Retention in double, as a sum over all tokens before (Sun et al. 2023, equation 5): see plain.h.
 * q_i . k_j is that of pairs, each turned by i - j of its angle.
 */
#include <math.h>

#include "plain.h"

/* Of head `head`, at row i and j <= i: gamma^(i - j) times the turned product, over sqrt(key_dim)
 */
static double score(const struct locus_retention_config *config, const double *q, const double *k,
                    int head, int i, int j)
{
    const int width = config->n_head * config->key_dim, first = head * config->key_dim;
    double sum = 0;
    for (int d = 0; d < config->key_dim; d += 2) {
        const double *a = &q[i * width + first + d], *b = &k[j * width + first + d];
        const double angle = (i - j) * pow(10000, -(double)d / config->key_dim);
        sum += (a[0] * b[0] + a[1] * b[1]) * cos(angle) + (a[0] * b[1] - a[1] * b[0]) * sin(angle);
    }
    return sum * pow(1 - pow(2, -5 - head), i - j) / sqrt(config->key_dim);
}

/* y[n] over its deviation, its mean taken away */
static void norm(double *y, int n, double epsilon)
{
    double mean = 0, variance = 0;
    for (int d = 0; d < n; d++)
        mean += y[d] / n;
    for (int d = 0; d < n; d++)
        variance += (y[d] - mean) * (y[d] - mean) / n;
    for (int d = 0; d < n; d++)
        y[d] = (y[d] - mean) / sqrt(variance + epsilon);
}

double *plain_retention(struct plain *plain, int layer, const double *in)
{
    const struct locus_retention_config *config = &plain->model->config.retention;
    const int keys = config->n_head * config->key_dim, n_value = config->value_dim;
    const int values = config->n_head * n_value;
    const double *q = plain_linear(plain, layer, "retention_q", 0, keys, in);
    const double *k = plain_linear(plain, layer, "retention_k", 0, keys, in);
    const double *v = plain_linear(plain, layer, "retention_v", 0, values, in);
    const double *gate = plain_linear(plain, layer, "retention_gate", 0, values, in);
    double *out = plain_make(plain, plain->n * values, sizeof *out);
    for (int i = 0; i < plain->n; i++)
        for (int head = 0; head < config->n_head; head++) {
            double *y = &out[i * values + head * n_value];
            for (int j = 0; j <= i; j++) {
                const double weight = score(config, q, k, head, i, j);
                for (int d = 0; d < n_value; d++)
                    y[d] += weight * v[j * values + head * n_value + d];
            }
            norm(y, n_value, (double)plain->model->config.norm_epsilon);
            for (int d = 0; d < n_value; d++)
                y[d] *= plain_activation(LOCUS_SILU, gate[i * values + head * n_value + d]);
        }
    return plain_linear(plain, layer, "retention_output", 0, plain->model->config.n_embd, out);
}
