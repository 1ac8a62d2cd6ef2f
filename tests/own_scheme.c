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

static void bias(const void *state, int layer, int head, const float *q, int q_position,
                 int k_first, const int *k_positions, int n_k, float *scores, float *scratch)
{
    const struct own *own = state;
    (void)layer, (void)head, (void)q, (void)scratch;
    for (int j = 0; j < n_k; j++)
        scores[j] += own->bias[q_position - (k_positions ? k_positions[j] : k_first + j)];
}

static const struct locus_position_param params[] = {
    {"slope", LOCUS_PARAM_FLOAT, "1", 0, 100, NULL, true, "how fast the penalty grows"},
    {0},
};

const struct locus_position_scheme own_scheme = {
    .name = "own",
    .summary = "a penalty that grows with the logarithm of the distance",
    .params = params,
    .init = init,
    .free = free,
    .bias = bias,
};
