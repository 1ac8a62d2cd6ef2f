/* KERPLE: a learned kernel of the distance as a bias.
 *
 * Chi et al., "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation" (arXiv
 * 2205.09921), equations 4 and 5: score(i, j) -= p ln(1 + a (i - j)) for kind=log, and
 * a (i - j)^p for kind=power, with p and a learned a head. (The paper's r1, r2 are p, a in the
 * first and a, p in the second.) As in training, p and a are at least eps, and a power at most 2.
 */
#include "base/math.h"
#include "position/distance.h"
#include "position/registry.h"
#include "position/tensors.h"

enum kind { KIND_LOG, KIND_POWER };

static const char *const names[] = {"position_kerple.p", "position_kerple.a"};

static double at_least(double value, double least)
{
    return value >= least ? value : least;
}

static double bias_at(enum kind kind, double p, double a, int distance)
{
    if (kind == KIND_LOG) return -p * locus_log(1 + a * distance);
    return distance > 0 ? -a * locus_power(distance, p) : 0;
}

static enum locus_status fill_layer(const struct locus_distance_table *table, int layer,
                                    const struct locus_position_env *env,
                                    const struct locus_position_spec *spec, locus_error *error)
{
    const struct locus_tensor_query query = {env, "kerple", layer};
    enum kind kind = (enum kind)locus_position_int(spec, "kind");
    double eps = locus_position_number(spec, "eps");
    const float *ps, *as;
    enum locus_status status =
        locus_tensor_find(&query, names[0], 1, env->n_head, &ps, NULL, error);
    if (!status) status = locus_tensor_find(&query, names[1], 1, env->n_head, &as, NULL, error);
    if (status) return status;
    for (int h = 0; h < env->n_head; h++) {
        double p = at_least((double)ps[h], eps), a = at_least((double)as[h], eps);
        if (kind == KIND_POWER && p > 2) p = 2;
        for (int distance = 0; distance < table->n; distance++)
            *locus_distance_at(table, layer, h, distance) = (float)bias_at(kind, p, a, distance);
    }
    return LOCUS_OK;
}

static enum locus_status init_kerple(void **state, const struct locus_position_env *env,
                                     const struct locus_position_spec *spec, locus_error *error)
{
    int n_layers = locus_tensors_by_layer(env, names, 2) ? env->n_layer : 1;
    enum locus_status status =
        locus_distance_create(state, n_layers, env->n_head, locus_distance_count(env), error);
    for (int layer = 0; !status && layer < n_layers; layer++)
        status = fill_layer(*state, layer, env, spec, error);
    return status;
}

static const struct locus_param params[] = {
    {"kind", LOCUS_PARAM_CHOICE, "log", 0, 0, "log|power", false,
     "-p ln(1 + a distance), or -a distance^p"},
    {"eps", LOCUS_PARAM_FLOAT, "0.01", 0, 1, NULL, false, "the least that p and a may be"},
    {0},
};

static const char *const tensors[] = {
    "position_kerple.p",
    "position_kerple.a",
    "blk.N.position_kerple.p",
    "blk.N.position_kerple.a",
    NULL,
};

const struct locus_position_scheme locus_scheme_kerple = {
    .abi = LOCUS_POSITION_ABI,
    .name = "kerple",
    .summary = "a learned kernel of the distance, added to each score (KERPLE)",
    .params = params,
    .tensors = tensors,
    .init = init_kerple,
    .free = locus_distance_free,
    .bias = locus_distance_bias,
};
