/* Hyena in double, a filter's value by its formula each time it is needed (Poli et al. 2023,
 * sections 3.2 and 3.3; the features are those of its published code): see plain.h.
 */
#include <math.h>

#include "plain.h"

/* h[distance, n_embd] for all distances of the text */
static double *make_filter(struct plain *plain, int layer)
{
    const struct locus_hyena_config *config = &plain->model->config.hyena;
    const int n_embd = plain->model->config.n_embd, n = plain->n, n_band = config->n_band;
    int rows, cols;
    const double *frequency = plain_values(plain, layer, "hyena_frequency", &rows, &cols);
    const double *decay = plain_values(plain, layer, "hyena_decay", &rows, &cols);
    double *values = plain_make(plain, n * (1 + 2 * n_band), sizeof *values);
    for (int t = 0; t < n; t++) {
        double *of = &values[t * (1 + 2 * n_band)];
        of[0] = (double)t / (config->length - 1);
        for (int k = 0; k < n_band; k++) {
            const double f = 1e-4 + k * (n_band - 1 - 1e-4) / (n_band - 1);
            const double angle = 2 * acos(-1) * t * f / config->length;
            of[1 + k] = cos(angle);
            of[1 + n_band + k] = -sin(angle);
        }
    }
    for (int i = 0; i < config->n_layer; i++) {
        const char name[] = {
            'h', 'y', 'e', 'n', 'a', '_', 'f', 'i', 'l', 't', 'e', 'r', '_', (char)('0' + i), 0};
        values = plain_linear(plain, layer, name, 0, config->width, values);
        for (int k = 0; k < n * config->width; k++)
            values[k] = sin(frequency[k % config->width] * values[k]);
    }
    double *h = plain_linear(plain, layer, "hyena_filter_out", 0, n_embd, values);
    for (int t = 0; t < n; t++)
        for (int c = 0; c < n_embd; c++)
            h[t * n_embd + c] *= exp(-decay[c] * t / (config->length - 1)) + (double)config->shift;
    return h;
}

double *plain_hyena(struct plain *plain, int layer, const double *in)
{
    const int n_embd = plain->model->config.n_embd, n_all = 3 * n_embd;
    int rows, cols;
    const double *skip = plain_values(plain, layer, "hyena_skip", &rows, &cols);
    const double *h = make_filter(plain, layer);
    const double *x = plain_linear(plain, layer, "hyena_in", 0, n_all, in);
    const double *u = plain_convolve(plain, layer, "hyena_conv1d", false, x, n_all);
    double *y = plain_make(plain, plain->n * n_embd, sizeof *y);
    for (int i = 0; i < plain->n; i++)
        for (int c = 0; c < n_embd; c++) {
            double sum = 0;
            for (int j = 0; j <= i; j++) {
                const double p = u[j * n_all + n_embd + c] * u[j * n_all + 2 * n_embd + c];
                sum += (h[(i - j) * n_embd + c] + (j == i ? skip[c] : 0)) * p;
            }
            y[i * n_embd + c] = u[i * n_all + c] * sum;
        }
    return plain_linear(plain, layer, "hyena_out", 0, n_embd, y);
}
