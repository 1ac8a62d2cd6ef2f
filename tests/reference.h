/* The forward pass in its plainest form, for every model, scheme and cache policy: no cache, no
 * threads, no batches. The engine is held against it; a reader may begin with it.
 */
#ifndef LOCUS_TESTS_REFERENCE_H
#define LOCUS_TESTS_REFERENCE_H

#include "model/model.h"
#include "position/position.h"

struct reference {
    const locus_model *model;
    struct locus_positions *positions; /* schemes; their tables are filled for the text */
    /* [n, n_axes]: where tokens are in place of their positions; NULL: nowhere else. */
    const int *coordinates;
    int n_axes;
    /* Whether token i sees j <= i, and the positions of both where they aren't i and j. NULL: it
     * sees all. */
    bool (*sees)(const void *policy, int i, int j, int *q_position, int *k_position);
    const void *policy;
    int divisor; /* above 1: positions that aren't i and j are as many times their value */
    /* [n, n]: what token i makes of j in this layer and head; zeros before. NULL: not wanted. */
    double *weights;
    int layer, head;
};

/* logits[n, n_vocab] of the text tokens[n] */
void reference_logits(const struct reference *reference, const int32_t *tokens, int n,
                      double *logits);

#endif
