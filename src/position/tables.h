/* Tables that schemes fill as the text grows (the hook `fill`), and the commonest of them: biases
 * that depend on the distance i - j alone, a table a head, of which a row of scores adds a slice.
 *
 * A table has room for the whole session from the beginning, which costs no memory until it is
 * written to.
 */
#ifndef LOCUS_POSITION_TABLES_H
#define LOCUS_POSITION_TABLES_H

#include <stddef.h>

#include "base/error.h"
#include "locus_position.h"

/* Fails for a table of n positions (or distances) that could not be had. */
enum locus_status locus_table_fail(locus_error *error, const char *scheme, int n, size_t n_bytes);

/* Distances that may occur below a position: as many as there are positions from the session's
 * first on, and two more where a policy rounds positions. */
int locus_distance_count(const struct locus_position_env *env, int n_positions);

/* biases[n_head] of a layer's heads at one distance; `values` are the scheme's. */
typedef void locus_distance_biases(const void *values, int layer, int distance, float *biases);

struct locus_distance_table {
    int n_layers; /* 1: all layers share the tables */
    int n_head;
    int n, n_filled; /* distances 0 .. n-1; those that have been filled */
    float *biases;   /* [n_layers, n_head, n], a head's from the longest distance to 0: as a row's
                      * keys lie */
    float *row;      /* [n_head]: scratch */
    struct locus_position_env env;
    locus_distance_biases *find;
    void *values; /* what `find` is given */
};

/* A table that nothing is filled of into *state, which may serve as a scheme's state as it is;
 * `values` are n_bytes of zeros for the scheme to set. */
enum locus_status locus_distance_create(void **state, const char *scheme, int n_layers,
                                        const struct locus_position_env *env,
                                        locus_distance_biases *find, size_t n_bytes,
                                        locus_error *error);

/* Hooks of a scheme whose state is a table. */
void locus_distance_free(void *state);
void locus_distance_fill(void *state, int n_positions);
void locus_distance_bias(const void *state, const struct locus_bias_op *op);

#endif
