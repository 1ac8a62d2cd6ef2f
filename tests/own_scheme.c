/* A position scheme of one's own, in one file that knows only the public headers: a penalty on each
 * score that grows with the logarithm of the distance, -slope ln(1 + i - j), the same for all
 * heads.
 */
#include "own_scheme.h"

#include <math.h>
#include <stdlib.h>

/* One table of the bias by distance, made when the session is. */
struct own {
    int n;
    float bias[]; /* [n]: distances 0 .. n-1 */
};

static enum locus_status init(void **state, const struct locus_position_env *env,
                              const struct locus_position_spec *spec, locus_error *error)
{
    const double slope = locus_position_number(spec, "slope");
    const size_t n = (size_t)env->session_length;
    struct own *own = malloc(sizeof *own + n * sizeof *own->bias);
    if (!own) {
        if (error) *error = (locus_error){LOCUS_ERROR_MEMORY, "own: out of memory"};
        return LOCUS_ERROR_MEMORY;
    }
    own->n = env->session_length;
    for (size_t distance = 0; distance < n; distance++)
        own->bias[distance] = (float)(-slope * log1p((double)distance));
    *state = own;
    return LOCUS_OK;
}

static void bias(const void *state, const struct locus_bias_op *op)
{
    const struct own *own = state;
    for (int j = 0; j < op->n_k; j++) {
        const int k_position = op->k_positions ? op->k_positions[j] : op->k_first + j;
        op->scores[j] += own->bias[op->q_position - k_position];
    }
}

static const struct locus_param params[] = {
    {"slope", LOCUS_PARAM_FLOAT, "1", 0, 100, NULL, true, "how fast the penalty grows"},
    {0},
};

const struct locus_position_scheme own_scheme = {
    .abi = LOCUS_POSITION_ABI,
    .name = "own",
    .summary = "a penalty that grows with the logarithm of the distance",
    .params = params,
    .init = init,
    .free = free,
    .bias = bias,
};
