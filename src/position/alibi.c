/* Attention with linear biases: score(i, j) += -m_h (i - j) / factor.
 *
 * Press et al., "Train Short, Test Long" (arXiv 2108.12409), section 3. For H heads, H a power of
 * two, m_h = 2^(-max_bias (h+1) / H); for another H, the slopes of n = 2^floor(log2 H) heads and
 * then every other slope of 2n heads, as the authors' code has it. scaled=1 divides the bias, too,
 * by sqrt(head_dim), as Falcon-RW does; factor > 1 interpolates for longer texts (Al-Khateeb et
 * al., arXiv 2310.13017).
 */
#include <math.h>

#include "base/math.h"
#include "position/registry.h"
#include "position/tables.h"

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
    float negative[]; /* [n_head]: -m_h / factor */
};

static void find(const void *values, int layer, int distance, float *biases)
{
    const struct slopes *slopes = values;
    (void)layer;
    for (int h = 0; h < slopes->n_head; h++)
        biases[h] = slopes->negative[h] * (float)distance;
}

static enum locus_status init_alibi(void **state, const struct locus_position_env *env,
                                    const struct locus_position_spec *spec, locus_error *error)
{
    const size_t n_bytes = sizeof(struct slopes) + (size_t)env->n_head * sizeof(float);
    enum locus_status status = locus_distance_create(state, "alibi", 1, env, find, n_bytes, error);
    if (status) return status;
    struct slopes *slopes = ((struct locus_distance_table *)*state)->values;
    double divisor = locus_position_number(spec, "factor");
    if (locus_position_int(spec, "scaled") == 1) divisor *= sqrt(env->head_dim);
    slopes->n_head = env->n_head;
    for (int h = 0; h < env->n_head; h++) {
        double slope = head_slope(h, env->n_head, locus_position_number(spec, "max_bias"));
        slopes->negative[h] = (float)(-slope / divisor);
    }
    return LOCUS_OK;
}

static const struct locus_param params[] = {
    {"max_bias", LOCUS_PARAM_FLOAT, "8", 0, 1024, NULL, false,
     "the last head's slope is 2^-max_bias (8 for most models, 16 for some of MPT)"},
    {"scaled", LOCUS_PARAM_INT, "0", 0, 1, NULL, false,
     "1: the bias, like the scores, is divided by sqrt(head_dim) (Falcon-RW)"},
    {"factor", LOCUS_PARAM_FLOAT, "1", 1e-6, 1e6, "auto", false, "divides the bias"},
    {0},
};

const struct locus_position_scheme locus_scheme_alibi = {
    .abi = LOCUS_POSITION_ABI,
    .name = "alibi",
    .summary = "a penalty on each score that grows with the distance, a slope a head (ALiBi)",
    .params = params,
    .init = init_alibi,
    .free = locus_distance_free,
    .fill = locus_distance_fill,
    .bias = locus_distance_bias,
};
