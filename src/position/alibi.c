/* Attention with linear biases: score(i, j) += -m_h (i - j) / factor.
 *
 * Press et al., "Train Short, Test Long" (arXiv 2108.12409), section 3. For H heads, H a power of
 * two, m_h = 2^(-max_bias (h+1) / H); for another H, the slopes of n = 2^floor(log2 H) heads and
 * then every other slope of 2n heads, as the authors' code has it. scaled=1 divides the bias, too,
 * by sqrt(head_dim), as Falcon-RW does; factor > 1 interpolates for longer texts (Al-Khateeb et
 * al., arXiv 2310.13017).
 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "position/angle.h"
#include "position/registry.h"

struct alibi {
    int n_head;
    float slopes[]; /* [n_head], negative */
};

/* m_h of n_head heads. */
static double head_slope(int h, int n_head, double max_bias)
{
    int n = 1;
    while (n <= n_head / 2)
        n *= 2;
    double exponent = h < n ? max_bias * (h + 1) / n : max_bias / 2 / n * (2.0 * (h - n) + 1);
    return locus_power(2, -exponent);
}

static enum locus_status init_alibi(void **state, const struct locus_position_env *env,
                                    const struct locus_position_spec *spec, locus_error *error)
{
    size_t n_bytes = sizeof(struct alibi) + (size_t)env->n_head * sizeof(float);
    struct alibi *alibi = calloc(1, n_bytes);
    if (!alibi) return locus_fail_memory(error, n_bytes);
    *state = alibi;
    alibi->n_head = env->n_head;
    double divisor = locus_position_number(spec, "factor");
    if (locus_position_int(spec, "scaled") == 1) divisor *= sqrt(env->head_dim);
    for (int h = 0; h < env->n_head; h++) {
        double slope = head_slope(h, env->n_head, locus_position_number(spec, "max_bias"));
        alibi->slopes[h] = (float)(-slope / divisor);
    }
    return LOCUS_OK;
}

/* From the absolute indices, as floats of whole numbers: a one-token step adds what a prompt does.
 */
static void bias(const void *state, int layer, int head, const float *q, int q_position,
                 int k_first, const int *k_positions, int n_k, float *scores, float *scratch)
{
    const struct alibi *alibi = state;
    float slope = alibi->slopes[head];
    (void)layer;
    (void)q;
    (void)scratch;
    if (k_positions) {
        for (int j = 0; j < n_k; j++)
            scores[j] += slope * (float)(q_position - k_positions[j]);
    } else {
        int distance = q_position - k_first;
        for (int j = 0; j < n_k; j++)
            scores[j] += slope * (float)(distance - j);
    }
}

static const struct locus_position_param params[] = {
    {"max_bias", LOCUS_PARAM_FLOAT, "8", 0, 1024, NULL, false,
     "the last head's slope is 2^-max_bias (8 for most models, 16 for some of MPT)"},
    {"scaled", LOCUS_PARAM_INT, "0", 0, 1, NULL, false,
     "1: the bias, like the scores, is divided by sqrt(head_dim) (Falcon-RW)"},
    {"factor", LOCUS_PARAM_FLOAT, "1", 1e-6, 1e6, NULL, false, "divides the bias"},
    {0},
};

const struct locus_position_scheme locus_scheme_alibi = {
    .name = "alibi",
    .summary = "a penalty on each score that grows with the distance, a slope a head (ALiBi)",
    .params = params,
    .init = init_alibi,
    .free = free,
    .bias = bias,
};
