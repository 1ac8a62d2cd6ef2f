/* Attention with linear biases: score(i, j) += -m_h (i - j) / factor.
 *
 * Press et al., "Train Short, Test Long" (arXiv 2108.12409), section 3. For H heads, H a power of
 * two, m_h = 2^(-max_bias (h+1) / H); for another H, the slopes of n = 2^floor(log2 H) heads and
 * then every other slope of 2n heads, as the authors' code has it. scaled=1 divides the bias, too,
 * by sqrt(head_dim), as Falcon-RW does; factor > 1 interpolates for longer texts (Al-Khateeb et
 * al., arXiv 2310.13017). heads=N: the first N heads have the slopes of N heads, the others none.
 * slopes=tensor: m_h are the checkpoint's, learned or chosen, for all layers or a layer's own.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "position/registry.h"
#include "position/tables.h"
#include "position/tensors.h"

static const char *const slopes_name = "position_alibi.slopes";

enum { SLOPES_FORMULA, SLOPES_TENSOR };

/* m_h of n_head heads. */
static double head_slope(int h, int n_head, double max_bias)
{
    int n = 1;
    while (n <= n_head / 2)
        n *= 2;
    double exponent = h < n ? max_bias * (h + 1) / n : max_bias / 2 / n * (2.0 * (h - n) + 1);
    return locus_power(2, -exponent);
}

struct slopes {
    int n_head;
    float negative[]; /* [n_layers, n_head]: -m_h / factor */
};

static void find(const void *values, int layer, int distance, float *biases)
{
    const struct slopes *slopes = values;
    const float *negative = slopes->negative + (size_t)layer * (size_t)slopes->n_head;
    for (int h = 0; h < slopes->n_head; h++)
        biases[h] = negative[h] * (float)distance;
}

/* slopes[n_head] of the first n heads. */
static void compute(int n, int n_head, double max_bias, double *slopes)
{
    for (int h = 0; h < n_head; h++)
        slopes[h] = h < n ? head_slope(h, n, max_bias) : 0;
}

/* slopes[n_head] of a layer. */
static enum locus_status read_layer(int layer, const struct locus_position_env *env, double *slopes,
                                    locus_error *error)
{
    const struct locus_tensor_query query = {env, "alibi", layer};
    const float *values;
    enum locus_status status =
        locus_tensor_find(&query, slopes_name, 1, env->n_head, &values, NULL, error);
    for (int h = 0; h < env->n_head && !status; h++) {
        slopes[h] = (double)values[h];
        if (!isfinite(slopes[h]))
            status = locus_fail(error, LOCUS_ERROR_FORMAT,
                                "position alibi: the slope of head %d in %s is %g; expected a "
                                "number",
                                h, slopes_name, slopes[h]);
    }
    return status;
}

static enum locus_status init_alibi(void **state, const struct locus_position_env *env,
                                    const struct locus_position_spec *spec, locus_error *error)
{
    const bool read = locus_position_int(spec, "slopes") == SLOPES_TENSOR;
    const int n_layers = read && locus_tensors_by_layer(env, &slopes_name, 1) ? env->n_layer : 1;
    const int n_head = env->n_head, stated = locus_position_int(spec, "heads");
    const size_t n = (size_t)n_layers * (size_t)n_head;
    if (stated > n_head)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position alibi: heads is %d; expected at most the model's %d", stated,
                          n_head);
    double *of_layer = calloc((size_t)n_head, sizeof *of_layer);
    if (!of_layer) return locus_fail_memory(error, (size_t)n_head * sizeof *of_layer);
    enum locus_status status = locus_distance_create(
        state, "alibi", n_layers, env, find, sizeof(struct slopes) + n * sizeof(float), error);
    double divisor = locus_position_number(spec, "factor");
    if (locus_position_int(spec, "scaled") == 1) divisor *= sqrt(env->head_dim);
    compute(stated < 0 ? n_head : stated, n_head, locus_position_number(spec, "max_bias"),
            of_layer);
    for (int layer = 0; layer < n_layers && !status; layer++) {
        struct slopes *slopes = ((struct locus_distance_table *)*state)->values;
        slopes->n_head = n_head;
        if (read) status = read_layer(layer, env, of_layer, error);
        for (int h = 0; h < n_head; h++)
            slopes->negative[(size_t)layer * (size_t)n_head + (size_t)h] =
                (float)(-of_layer[h] / divisor);
    }
    free(of_layer);
    return status;
}

static const char *lacks(const struct locus_position_spec *spec, const char *key)
{
    const bool formula = locus_position_int(spec, "slopes") == SLOPES_FORMULA;
    const bool of_formula = !strcmp(key, "max_bias") || !strcmp(key, "heads");
    return of_formula && !formula ? "slopes=formula" : NULL;
}

static const struct locus_param params[] = {
    {"max_bias", LOCUS_PARAM_FLOAT, "8", 0, 1024, NULL, false,
     "the last head's slope is 2^-max_bias (8 for most models, 16 for some of MPT)"},
    {"scaled", LOCUS_PARAM_INT, "0", 0, 1, NULL, false,
     "1: the bias, like the scores, is divided by sqrt(head_dim) (Falcon-RW)"},
    {"factor", LOCUS_PARAM_FLOAT, "1", 1e-6, 1e6, "auto", false, "divides the bias"},
    {"heads", LOCUS_PARAM_INT, "all", 1, 1 << 20, "all", false,
     "the first ones, with the slopes of as many; the others have no bias"},
    {"slopes", LOCUS_PARAM_CHOICE, "formula", 0, 0, "formula|tensor", false,
     "those of max_bias, or the checkpoint's position_alibi.slopes, learned or chosen"},
    {0},
};

static const char *const tensors[] = {
    "position_alibi.slopes",
    "blk.N.position_alibi.slopes",
    NULL,
};

const struct locus_position_scheme locus_scheme_alibi = {
    .abi = LOCUS_POSITION_ABI,
    .name = "alibi",
    .summary = "a penalty on each score that grows with the distance, a slope a head (ALiBi)",
    .params = params,
    .tensors = tensors,
    .lacks = lacks,
    .init = init_alibi,
    .free = locus_distance_free,
    .fill = locus_distance_fill,
    .bias = locus_distance_bias,
};
