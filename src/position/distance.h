/* Biases that depend on the distance i - j alone: a table a head, built once, of which a row of
 * scores adds a slice.
 */
#ifndef LOCUS_POSITION_DISTANCE_H
#define LOCUS_POSITION_DISTANCE_H

#include <stddef.h>

#include "base/error.h"
#include "locus_position.h"

struct locus_distance_table {
    int n_layers; /* 1: all layers share the tables */
    int n_head;
    int n;         /* distances 0 .. n-1 */
    float *values; /* [n_layers, n_head, n], a head's from the longest distance to 0: as a row's
                    * keys lie */
};

/* Distances that may occur: as many as the session has tokens, and two more where a policy rounds
 * positions. */
int locus_distance_count(const struct locus_position_env *env);

/* A table of zeros into *state, which may serve as a scheme's state as it is. */
enum locus_status locus_distance_create(void **state, int n_layers, int n_head, int n,
                                        locus_error *error);
/* A scheme's `free` hook. */
void locus_distance_free(void *state);

/* The bias of one head at one distance, for filling. */
static inline float *locus_distance_at(const struct locus_distance_table *table, int layer,
                                       int head, int distance)
{
    size_t row = (size_t)(table->n_layers > 1 ? layer : 0) * (size_t)table->n_head + (size_t)head;
    return table->values + (row + 1) * (size_t)table->n - 1 - distance;
}

/* A scheme's `bias` hook, where its state is a table. */
void locus_distance_bias(const void *state, const struct locus_bias_op *op);

#endif
