/* T5's relative bias: score(i, j) += B[bucket(i - j), h], one table for all layers.
 *
 * Raffel et al., "Exploring the Limits of Transfer Learning" (arXiv 1910.10683), section 2.1, the
 * causal buckets of the authors' code: with exact = buckets/2, a distance below exact is its own
 * bucket; a longer one has min(buckets - 1, exact + trunc(ln(distance/exact) /
 * ln(max_distance/exact) * (buckets - exact))). T5 does not scale its scores: such a checkpoint has
 * attention.scale 1.
 */
#include <string.h>

#include "base/math.h"
#include "position/registry.h"
#include "position/tables.h"
#include "position/tensors.h"

static int bucket_of(int distance, int buckets, int max_distance)
{
    int exact = buckets / 2;
    if (distance < exact) return distance;
    double share = locus_log((double)distance / exact) / locus_log((double)max_distance / exact);
    /* A whole number of buckets must not fall short by a rounding. */
    double bucket = exact + share * (buckets - exact) + 1e-9;
    return bucket < buckets - 1 ? (int)bucket : buckets - 1;
}

struct learned {
    const float *table; /* [buckets, n_head]; the model's */
    int buckets, max_distance, n_head;
};

static void find(const void *values, int layer, int distance, float *biases)
{
    const struct learned *learned = values;
    const int bucket = bucket_of(distance, learned->buckets, learned->max_distance);
    (void)layer;
    memcpy(biases, learned->table + (size_t)bucket * (size_t)learned->n_head,
           (size_t)learned->n_head * sizeof *biases);
}

static enum locus_status init_t5(void **state, const struct locus_position_env *env,
                                 const struct locus_position_spec *spec, locus_error *error)
{
    const struct locus_tensor_query query = {env, "t5", LOCUS_WHOLE_MODEL};
    struct learned learned = {.buckets = locus_position_int(spec, "buckets"),
                              .max_distance = locus_position_int(spec, "max_distance"),
                              .n_head = env->n_head};
    if (learned.max_distance <= learned.buckets / 2)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position t5: max_distance is %d; expected more than buckets/2 = %d",
                          learned.max_distance, learned.buckets / 2);
    enum locus_status status = locus_tensor_find(&query, "position_bias.weight", learned.buckets,
                                                 env->n_head, &learned.table, NULL, error);
    if (!status) status = locus_distance_create(state, "t5", 1, env, find, sizeof learned, error);
    if (!status) memcpy(((struct locus_distance_table *)*state)->values, &learned, sizeof learned);
    return status;
}

static const struct locus_param params[] = {
    {"buckets", LOCUS_PARAM_INT, "32", 2, 1 << 20, NULL, false,
     "rows of the table; the first half are distances by themselves"},
    {"max_distance", LOCUS_PARAM_INT, "128", 1, 1 << 30, NULL, false,
     "from here on every distance is in the last bucket"},
    {0},
};

static const char *const tensors[] = {
    "position_bias.weight",
    NULL,
};

const struct locus_position_scheme locus_scheme_t5 = {
    .abi = LOCUS_POSITION_ABI,
    .name = "t5",
    .summary = "a learned scalar a bucket of distances, added to each score (T5)",
    .params = params,
    .tensors = tensors,
    .init = init_t5,
    .free = locus_distance_free,
    .fill = locus_distance_fill,
    .bias = locus_distance_bias,
};
