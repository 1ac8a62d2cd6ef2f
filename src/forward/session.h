/* The session inside the engine: what the forward pass works on. */
#ifndef LOCUS_FORWARD_SESSION_H
#define LOCUS_FORWARD_SESSION_H

#include "forward/cache.h"
#include "forward/policy.h"
#include "model/model.h"
#include "position/position.h"

enum {
    LOCUS_KEY_BLOCK = 64 /* slots a step of the running softmax, counted from slot 0 */
};

struct locus_session {
    const struct locus_model *model;
    const struct locus_kernels *kernels;
    struct locus_position position;
    char *position_text; /* full SPEC */
    struct locus_cache cache;
    enum locus_cache_type cache_type;
    int n_threads, n_batch, capacity, first_position;
    int length;        /* tokens held: slots 0 .. length-1 */
    bool per_row_keys; /* the cache holds keys as projected; attention rotates them */
    int row_floats;    /* what the scheme keeps a position */
    float *kept;       /* [1 + capacity, row_floats]: a row of zeros, then a row a slot */

    /* Scratch of one chunk of at most n_batch tokens. */
    float *x;            /* [n, n_embd]: the residual stream */
    float *normed;       /* [n, n_embd] */
    float *mlp_normed;   /* [n, n_embd]: parallel residual only */
    float *q, *k, *v;    /* [n, n_head * head_dim], twice [n, n_head_kv * head_dim] */
    float *attended;     /* [n, n_head * head_dim] */
    float *gate, *up;    /* [n, n_ff]; gate: gated only */
    int8_t *quants;      /* [n, widest]: a matrix product's input, quantised */
    float *quant_scales; /* [n, widest / 32] */
    int *positions;      /* [n] */
    float *threads;      /* [n_threads, thread_floats]: attention's scratch */
    size_t thread_floats;
    float *logits; /* [n_vocab] of the last token */
};

/* One forward pass over n <= n_batch tokens, appended to the cache. Logits of the last n_rows go to
 * logits[n_rows, n_vocab]; those of the very last also to session->logits if `last`. */
void locus_forward(struct locus_session *session, const int32_t *tokens, int n, float *logits,
                   int n_rows, bool last);

/* Floats of scratch a thread that locus_attend needs. */
size_t locus_attend_floats(const struct locus_session *session);

/* Attention of the chunk's n rows in one layer: q and the cache to `attended`; this thread's share.
 * The chunk's own keys and values are in the cache already. */
void locus_attend(struct locus_session *session, int layer, int n, int thread, int n_threads);

#endif
