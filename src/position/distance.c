/* Tables of biases by distance: see distance.h. */
#include "position/distance.h"

#include <stdlib.h>

#include "base/buffer.h"

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

void locus_distance_bias(const void *state, int layer, int head, const float *q, int q_position,
                         int k_first, const int *k_positions, int n_k, float *scores,
                         float *scratch)
{
    const struct locus_distance_table *table = state;
    const float *at_zero = locus_distance_at(table, layer, head, 0);
    (void)q, (void)scratch;
    if (!k_positions) {
        add(scores, at_zero + (k_first - q_position), n_k);
        return;
    }
    for (int j = 0; j < n_k; j++)
        scores[j] += at_zero[k_positions[j] - q_position];
}
