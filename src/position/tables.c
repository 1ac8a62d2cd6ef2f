/* Tables that grow with the text: see tables.h. */
#include "position/tables.h"

#include <stdlib.h>

#include "base/buffer.h"

enum locus_status locus_table_fail(locus_error *error, const char *scheme, int n, size_t n_bytes)
{
    return locus_fail(error, LOCUS_ERROR_MEMORY,
                      "out of memory: %zu bytes for position %s's tables of %d positions could not "
                      "be had",
                      n_bytes, scheme, n);
}

int locus_distance_count(const struct locus_position_env *env, int n_positions)
{
    enum { ROUNDING = 2 };
    const int more = env->first_position < ROUNDING ? env->first_position : ROUNDING;
    return n_positions - env->first_position + more;
}

enum locus_status locus_distance_create(void **state, const char *scheme, int n_layers,
                                        const struct locus_position_env *env,
                                        locus_distance_biases *find, size_t n_bytes,
                                        locus_error *error)
{
    const int n = locus_distance_count(env, env->session_length);
    const size_t n_rows = (size_t)n_layers * (size_t)env->n_head;
    struct locus_distance_table *table = calloc(1, sizeof *table);
    if (!table) return locus_fail_memory(error, sizeof *table);
    *state = table;
    *table = (struct locus_distance_table){
        .n_layers = n_layers, .n_head = env->n_head, .n = n, .env = *env, .find = find};
    table->biases = locus_aligned_zalloc(n_rows, (size_t)n * sizeof(float));
    table->row = calloc((size_t)env->n_head, sizeof(float));
    table->values = calloc(1, n_bytes);
    if (table->biases && table->row && table->values) return LOCUS_OK;
    return locus_table_fail(error, scheme, n, n_rows * (size_t)n * sizeof(float));
}

void locus_distance_free(void *state)
{
    struct locus_distance_table *table = state;
    if (table) {
        locus_aligned_free(table->biases);
        free(table->row);
        free(table->values);
    }
    free(table);
}

/* A head's biases by distance: its table from the end on, backwards. */
static float *at_zero(const struct locus_distance_table *table, int layer, int head)
{
    const size_t row = (size_t)(table->n_layers > 1 ? layer : 0) * (size_t)table->n_head;
    return table->biases + (row + (size_t)head + 1) * (size_t)table->n - 1;
}

void locus_distance_fill(void *state, int n_positions)
{
    struct locus_distance_table *table = state;
    const int n = locus_distance_count(&table->env, n_positions);
    for (; table->n_filled < n; table->n_filled++)
        for (int layer = 0; layer < table->n_layers; layer++) {
            table->find(table->values, layer, table->n_filled, table->row);
            for (int head = 0; head < table->n_head; head++)
                at_zero(table, layer, head)[-table->n_filled] = table->row[head];
        }
}

static void add(float *restrict scores, const float *restrict slice, int n)
{
    for (int j = 0; j < n; j++)
        scores[j] += slice[j];
}

void locus_distance_bias(const void *state, const struct locus_bias_op *op)
{
    const struct locus_distance_table *table = state;
    const float *biases = at_zero(table, op->layer, op->head);
    if (!op->k_positions) {
        add(op->scores, biases + (op->k_first - op->q_position), op->n_k);
        return;
    }
    for (int j = 0; j < op->n_k; j++)
        op->scores[j] += biases[op->k_positions[j] - op->q_position];
}
