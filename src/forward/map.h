/* One head's attention weights, for pictures and tests. */
#ifndef LOCUS_FORWARD_MAP_H
#define LOCUS_FORWARD_MAP_H

#include "base/error.h"

/* Where attention leaves the scores of one head. */
struct locus_attention_map {
    int layer, head, n;
    float *weights; /* [n, n] */
};

/* Rewinds to 0, evaluates n tokens, and gives the attention weights of one head: weights[n, n], row
 * i over the keys j that token i sees, 0 elsewhere. */
enum locus_status locus_session_probe(locus_session *session, const int32_t *tokens, int n,
                                      int layer, int head, float *weights, locus_error *error);

#endif
