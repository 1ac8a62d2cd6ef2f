/* Matrices in double: see plain.h. */
#include "plain.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/formats.h"

struct plain_block {
    struct plain_block *next;
    double values[];
};

void *plain_make(struct plain *plain, int n_values, size_t size)
{
    struct plain_block *block = calloc(1, sizeof *block + (size_t)n_values * size);
    ck_assert_ptr_nonnull(block);
    block->next = plain->blocks;
    plain->blocks = block;
    return block->values;
}

void plain_free(struct plain *plain)
{
    while (plain->blocks) {
        struct plain_block *next = plain->blocks->next;
        free(plain->blocks);
        plain->blocks = next;
    }
}

static const struct locus_tensor *find(const struct plain *plain, int layer, const char *name,
                                       const char *part)
{
    char full[96];
    if (layer < 0)
        snprintf(full, sizeof full, "%s.%s", name, part);
    else
        snprintf(full, sizeof full, "blk.%d.%s.%s", layer, name, part);
    return locus_checkpoint_tensor(locus_model_checkpoint(plain->model), full);
}

bool plain_has(const struct plain *plain, int layer, const char *name)
{
    return find(plain, layer, name, "weight") != NULL;
}

/* Rows [first, end) of a tensor, or NULL where there is none. */
static double *values_of(struct plain *plain, const struct locus_tensor *tensor, int first, int end)
{
    if (!tensor) return NULL;
    const int cols = (int)tensor->dims[0];
    const size_t row_bytes = tensor->n_bytes / (size_t)(tensor->dims[1] * tensor->dims[2]);
    double *values = plain_make(plain, (end - first) * cols, sizeof *values);
    float *row = plain_make(plain, cols, sizeof *row);
    for (int r = first; r < end; r++) {
        locus_dequantize_row(row, tensor->data + (size_t)r * row_bytes, tensor->type, (size_t)cols);
        for (int c = 0; c < cols; c++)
            values[(r - first) * cols + c] = (double)row[c];
    }
    return values;
}

double *plain_values(struct plain *plain, int layer, const char *name, int *rows, int *cols)
{
    char full[96];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    const struct locus_tensor *tensor =
        locus_checkpoint_tensor(locus_model_checkpoint(plain->model), full);
    if (!tensor) return NULL;
    *rows = (int)tensor->dims[1];
    *cols = (int)tensor->dims[0];
    return values_of(plain, tensor, 0, *rows);
}

double *plain_row(struct plain *plain, const char *name, int index)
{
    return values_of(plain, find(plain, -1, name, "weight"), index, index + 1);
}

double *plain_linear(struct plain *plain, int layer, const char *name, int first, int rows,
                     const double *in)
{
    const struct locus_tensor *tensor = find(plain, layer, name, "weight");
    ck_assert_msg(tensor != NULL, "layer %d has no %s", layer, name);
    const int cols = (int)tensor->dims[0];
    const double *weight = values_of(plain, tensor, first, first + rows);
    const struct locus_tensor *biases = find(plain, layer, name, "bias");
    const double *bias = values_of(plain, biases, 0, biases ? (int)biases->dims[1] : 0);
    double *out = plain_make(plain, plain->n * rows, sizeof *out);
    for (int i = 0; i < plain->n; i++)
        for (int r = 0; r < rows; r++) {
            double sum = bias ? bias[first + r] : 0;
            for (int c = 0; c < cols; c++)
                sum += weight[r * cols + c] * in[i * cols + c];
            out[i * rows + r] = sum;
        }
    return out;
}

/* out[n] = the norm of x[n] */
static void norm(const struct locus_config *config, const double *x, int n, const double *weight,
                 const double *bias, double *out)
{
    double mean = 0, variance = 0;
    for (int c = 0; c < n && config->norm == LOCUS_LAYERNORM; c++)
        mean += x[c] / n;
    for (int c = 0; c < n; c++)
        variance += (x[c] - mean) * (x[c] - mean) / n;
    const double scale = 1 / sqrt(variance + (double)config->norm_epsilon);
    for (int c = 0; c < n; c++)
        out[c] = (x[c] - mean) * scale * weight[c] + (bias ? bias[c] : 0);
}

/* The norm's weights by the name that the family's files have for it; NULL: there are none, or they
 * are another norm's. */
static const struct locus_tensor *find_norm(const struct plain *plain, int layer, const char **name)
{
    const struct locus_renamed *rows = plain->model->architecture->renamed;
    bool own = true;
    for (int i = 0; i < LOCUS_MAX_RENAMED && rows[i].name; i++) {
        if (!strcmp(rows[i].name, *name) && find(plain, layer, rows[i].in_file, "weight")) {
            *name = rows[i].in_file;
            return find(plain, layer, *name, "weight");
        }
        own = own && strcmp(rows[i].in_file, *name) != 0;
    }
    return own ? find(plain, layer, *name, "weight") : NULL;
}

/* Norms of bare weights, which are 1. */
static double *bare_norm(struct plain *plain, const double *in, int width)
{
    double *ones = plain_make(plain, width, sizeof *ones);
    double *out = plain_make(plain, plain->n * width, sizeof *out);
    for (int c = 0; c < width; c++)
        ones[c] = 1;
    for (int i = 0; i < plain->n; i++)
        norm(&plain->model->config, in + i * width, width, ones, NULL, out + i * width);
    return out;
}

double *plain_norm(struct plain *plain, int layer, const char *name, double *in, int width,
                   double *otherwise)
{
    const bool bare =
        !strcmp(name, "attn_norm") || !strcmp(name, "ffn_norm") || !strcmp(name, "output_norm");
    const struct locus_tensor *tensor = find_norm(plain, layer, &name);
    if (!tensor && bare && plain->model->architecture->bare_norms)
        return bare_norm(plain, in, width);
    if (!tensor) return otherwise;
    const int n = (int)tensor->dims[0], n_weights = (int)tensor->dims[1];
    const double *weight = values_of(plain, tensor, 0, n_weights);
    const double *bias = values_of(plain, find(plain, layer, name, "bias"), 0, 1);
    double *out = plain_make(plain, plain->n * width, sizeof *out);
    for (int i = 0; i < plain->n * width / n; i++)
        norm(&plain->model->config, in + i * n, n, weight + i % n_weights * n, bias, out + i * n);
    return out;
}

double *plain_sum(struct plain *plain, const double *a, double scale, const double *b)
{
    const int n = plain->n * plain->model->config.n_embd;
    double *out = plain_make(plain, n, sizeof *out);
    for (int i = 0; i < n; i++)
        out[i] = a[i] + scale * b[i];
    return out;
}

double plain_cap(double x, double cap)
{
    return cap > 0 ? cap * tanh(x / cap) : x;
}

double plain_activation(enum locus_activation kind, double x)
{
    switch (kind) {
    case LOCUS_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case LOCUS_GELU_ERF:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case LOCUS_RELU:
        return fmax(x, 0);
    case LOCUS_SILU:
        return x / (1 + exp(-x));
    case LOCUS_RELU_SQUARED:
        return fmax(x, 0) * fmax(x, 0);
    case LOCUS_CLIPPED_SWISH:
        return fmin(x, 7) / (1 + exp(-1.702 * fmin(x, 7)));
    }
    ck_abort_msg("activation %d", (int)kind);
    return NAN;
}

double plain_difference(const float *a, const double *b, int n)
{
    double difference = 0, largest = 0;
    for (int i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - b[i]);
        if (!(d <= HUGE_VAL)) return HUGE_VAL;
        difference = fmax(difference, d);
        largest = fmax(largest, fabs(b[i]));
    }
    return difference / largest;
}
