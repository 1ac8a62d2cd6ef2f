/* A learned scalar a distance and head, clipped: score(i, j) += B[min(i - j, K), h].
 *
 * Shaw et al., "Self-Attention with Relative Position Representations" (arXiv 1803.02155), clip
 * distances at K (section 3.2); here, as in Huang et al. (arXiv 2009.13658, method 1), a distance
 * has one scalar a head instead of a vector. One table for all layers.
 */
#include <string.h>

#include "position/registry.h"
#include "position/tables.h"
#include "position/tensors.h"

static const char table_name[] = "position_bias.weight";

struct learned {
    const float *table; /* [n_rows, n_head]; the model's */
    int n_rows, n_head;
};

static void find(const void *values, int layer, int distance, float *biases)
{
    const struct learned *learned = values;
    const int row = distance < learned->n_rows ? distance : learned->n_rows - 1;
    (void)layer;
    memcpy(biases, learned->table + (size_t)row * (size_t)learned->n_head,
           (size_t)learned->n_head * sizeof *biases);
}

static enum locus_status init_relative(void **state, const struct locus_position_env *env,
                                       const struct locus_position_spec *spec, locus_error *error)
{
    const struct locus_tensor_query query = {env, "relative", LOCUS_WHOLE_MODEL};
    struct learned learned = {.n_head = env->n_head};
    int stated = locus_position_int(spec, "max_distance");
    enum locus_status status =
        locus_tensor_find(&query, table_name, stated >= 0 ? stated + 1 : LOCUS_ANY_ROWS,
                          env->n_head, &learned.table, &learned.n_rows, error);
    if (!status)
        status = locus_distance_create(state, "relative", 1, env, find, sizeof learned, error);
    if (!status) memcpy(((struct locus_distance_table *)*state)->values, &learned, sizeof learned);
    return status;
}

static const struct locus_param params[] = {
    {"max_distance", LOCUS_PARAM_INT, "auto", 0, (1 << 30) - 1, "auto", false,
     "K, from which on all distances are one: the table has K + 1 rows (auto: as it has)"},
    {0},
};

static const char *const tensors[] = {
    "position_bias.weight",
    NULL,
};

const struct locus_position_scheme locus_scheme_relative = {
    .abi = LOCUS_POSITION_ABI,
    .name = "relative",
    .summary = "a learned scalar a distance, clipped, added to each score",
    .params = params,
    .tensors = tensors,
    .init = init_relative,
    .free = locus_distance_free,
    .fill = locus_distance_fill,
    .bias = locus_distance_bias,
};
