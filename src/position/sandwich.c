/* Sandwich: the inner product of two sinusoidal encodings as a bias.
 *
 * Chi et al., "Dissecting Transformer Length Extrapolation via the Lens of Receptive Field
 * Analysis" (arXiv 2212.10356), section 5: for head h of H, from 0,
 * score(i, j) += (sum over k of cos((i - j) / base^(2k/dim)) - 1) / (compression (h+1) / H), the
 * sum over dim/2 values of k from `first`: the paper's index may be read either way.
 */
#include "base/math.h"
#include "position/registry.h"
#include "position/tables.h"

/* The sum at one distance; theta[n]. */
static double inner_product(const double *theta, int n, int distance)
{
    double sum = 0;
    for (int k = 0; k < n; k++) {
        double sine, cosine;
        locus_sine_cosine(distance * theta[k], &sine, &cosine);
        sum += cosine - 1;
    }
    return sum;
}

struct encoding {
    double compression;
    int n, n_head;
    double theta[]; /* [n] */
};

static void find(const void *values, int layer, int distance, float *biases)
{
    const struct encoding *encoding = values;
    const double sum = inner_product(encoding->theta, encoding->n, distance);
    (void)layer;
    for (int h = 0; h < encoding->n_head; h++)
        biases[h] = (float)(sum / (encoding->compression * (h + 1) / encoding->n_head));
}

static enum locus_status init_sandwich(void **state, const struct locus_position_env *env,
                                       const struct locus_position_spec *spec, locus_error *error)
{
    const int dim = locus_position_int(spec, "dim"), first = locus_position_int(spec, "first");
    const double base = locus_position_number(spec, "base");
    if (dim % 2 != 0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position sandwich: dim is %d; expected an even number", dim);
    const size_t n_bytes = sizeof(struct encoding) + (size_t)dim / 2 * sizeof(double);
    enum locus_status status =
        locus_distance_create(state, "sandwich", 1, env, find, n_bytes, error);
    if (status) return status;
    struct encoding *encoding = ((struct locus_distance_table *)*state)->values;
    encoding->compression = locus_position_number(spec, "compression");
    encoding->n = dim / 2;
    encoding->n_head = env->n_head;
    for (int k = 0; k < dim / 2; k++)
        encoding->theta[k] = locus_power(base, -2.0 * (first + k) / dim);
    return LOCUS_OK;
}

static const struct locus_param params[] = {
    {"dim", LOCUS_PARAM_INT, "128", 2, 1 << 16, NULL, false,
     "width of the sinusoidal encoding behind it"},
    {"base", LOCUS_PARAM_FLOAT, "10000", 1, 1e15, NULL, false,
     "wavelengths grow from 2 pi towards 2 pi base"},
    {"first", LOCUS_PARAM_INT, "0", 0, 1, NULL, false, "index of the first frequency"},
    {"compression", LOCUS_PARAM_FLOAT, "8", 1e-6, 1e6, NULL, false,
     "head h of H divides by compression (h+1) / H"},
    {0},
};

const struct locus_position_scheme locus_scheme_sandwich = {
    .abi = LOCUS_POSITION_ABI,
    .name = "sandwich",
    .summary = "sines and cosines of the distance, added to each score (Sandwich)",
    .params = params,
    .init = init_sandwich,
    .free = locus_distance_free,
    .fill = locus_distance_fill,
    .bias = locus_distance_bias,
};
