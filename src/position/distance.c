/* Tables of biases by distance: see distance.h. */
#include "position/distance.h"

#include <stdlib.h>

#include "base/buffer.h"

int locus_distance_count(const struct locus_position_env *env)
{
    enum { ROUNDING = 2 };
    const int more = env->first_position < ROUNDING ? env->first_position : ROUNDING;
    return env->session_length - env->first_position + more;
}

enum locus_status locus_distance_create(void **state, int n_layers, int n_head, int n,
                                        locus_error *error)
{
    size_t n_rows = (size_t)n_layers * (size_t)n_head, row_bytes = (size_t)n * sizeof(float);
    struct locus_distance_table *table = calloc(1, sizeof *table);
    if (!table) return locus_fail_memory(error, sizeof *table);
    *state = table;
    *table = (struct locus_distance_table){n_layers, n_head, n, NULL};
    table->values = locus_aligned_zalloc(n_rows, row_bytes);
    return table->values ? LOCUS_OK : locus_fail_memory(error, n_rows * row_bytes);
}

void locus_distance_free(void *state)
{
    struct locus_distance_table *table = state;
    if (table) locus_aligned_free(table->values);
    free(table);
}

static void add(float *restrict scores, const float *restrict slice, int n)
{
    for (int j = 0; j < n; j++)
        scores[j] += slice[j];
}

void locus_distance_bias(const void *state, const struct locus_bias_op *op)
{
    const struct locus_distance_table *table = state;
    const float *at_zero = locus_distance_at(table, op->layer, op->head, 0);
    if (!op->k_positions) {
        add(op->scores, at_zero + (op->k_first - op->q_position), op->n_k);
        return;
    }
    for (int j = 0; j < op->n_k; j++)
        op->scores[j] += at_zero[op->k_positions[j] - op->q_position];
}
