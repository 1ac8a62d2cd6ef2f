/* KERPLE: a learned kernel of the distance as a bias.
 *
 * Chi et al., "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation" (arXiv
 * 2205.09921), equations 4 and 5: score(i, j) -= p ln(1 + a (i - j)) for kind=log, and
 * a (i - j)^p for kind=power, with p and a learned a head. (The paper's r1, r2 are p, a in the
 * first and a, p in the second.) As in training, p and a are at least eps, and a power at most 2.
 */
#include "base/math.h"
#include "position/registry.h"
#include "position/tables.h"
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

struct kernel {
    enum kind kind;
    int n_head;
    double pa[]; /* [n_layers, n_head, 2]: p and a of each head */
};

static void find(const void *values, int layer, int distance, float *biases)
{
    const struct kernel *kernel = values;
    const double *pa = kernel->pa + 2 * (size_t)layer * (size_t)kernel->n_head;
    for (int h = 0; h < kernel->n_head; h++, pa += 2)
        biases[h] = (float)bias_at(kernel->kind, pa[0], pa[1], distance);
}

static enum locus_status read_layer(struct kernel *kernel, int layer,
                                    const struct locus_position_env *env, double eps,
                                    locus_error *error)
{
    const struct locus_tensor_query query = {env, "kerple", layer};
    const float *ps, *as;
    double *pa = kernel->pa + 2 * (size_t)layer * (size_t)kernel->n_head;
    enum locus_status status =
        locus_tensor_find(&query, names[0], 1, env->n_head, &ps, NULL, error);
    if (!status) status = locus_tensor_find(&query, names[1], 1, env->n_head, &as, NULL, error);
    for (int h = 0; !status && h < env->n_head; h++, pa += 2) {
        pa[0] = at_least((double)ps[h], eps);
        pa[1] = at_least((double)as[h], eps);
        if (kernel->kind == KIND_POWER && pa[0] > 2) pa[0] = 2;
    }
    return status;
}

static enum locus_status init_kerple(void **state, const struct locus_position_env *env,
                                     const struct locus_position_spec *spec, locus_error *error)
{
    const int n_layers = locus_tensors_by_layer(env, names, 2) ? env->n_layer : 1;
    const size_t n = 2 * (size_t)n_layers * (size_t)env->n_head;
    enum locus_status status = locus_distance_create(
        state, "kerple", n_layers, env, find, sizeof(struct kernel) + n * sizeof(double), error);
    if (status) return status;
    struct kernel *kernel = ((struct locus_distance_table *)*state)->values;
    kernel->kind = (enum kind)locus_position_int(spec, "kind");
    kernel->n_head = env->n_head;
    for (int layer = 0; !status && layer < n_layers; layer++)
        status = read_layer(kernel, layer, env, locus_position_number(spec, "eps"), error);
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
    .fill = locus_distance_fill,
    .bias = locus_distance_bias,
};
