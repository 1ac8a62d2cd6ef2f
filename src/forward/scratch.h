/* What a session holds beside its mixers' states: the scratch of one chunk, and what it keeps of
 * each token. Both are given out of one block each, by one list each (scratch.c). */
#ifndef LOCUS_FORWARD_SCRATCH_H
#define LOCUS_FORWARD_SCRATCH_H

#include "base/error.h"
#include "forward/arena.h"
#include "forward/mlp.h"
#include "kernels/kernels.h"

/* Of one chunk of at most n = n_batch tokens. */
struct locus_scratch {
    void *block;
    float *x;          /* [n, n_embd]: the residual stream */
    float *normed;     /* [n, n_embd] */
    float *mlp_normed; /* [n, n_embd]: parallel residual only */
    float *branch;     /* [n, n_embd]: what a half adds, where it is normed or scaled first */
    struct locus_activation_block *blocks; /* [n, widest / 32]: a product's input, quantised */
    uint16_t *bf16;                        /* [n, locus_bf16_cols(widest)]: the same, rounded */
    int *row_positions;                    /* [n] */
    int *scored;                           /* [n]: rows that locus_session_score scores */
    float *logits;                         /* [n_vocab] of the last token; kept between chunks */
    struct locus_mlp_scratch mlp;
};

/* What depends on the schemes: numbers of each token, [capacity] rows, and a thread's scratch. */
struct locus_token_states {
    void *block;
    int32_t *tokens;  /* NULL: no mixer runs tokens again after a rewind */
    int *coordinates; /* [n_axes] each: the caller's; NULL: none */
    int embed_floats; /* what the first scheme keeps a position */
    float *embed;     /* [1 + capacity, embed_floats]: a row of zeros, then a row a slot */
    int layer_floats; /* the most that any scheme keeps of a position and layer */
    float *layers;    /* [n_layer][1 + capacity][layer_floats], each layer's rows as wide as its
                       * own scheme's */
    float *threads;   /* [n_threads, thread_floats]: scratch of a thread */
    size_t thread_floats;
};

struct locus_session;

/* The scratch of a chunk, and of the mixers' chunks. */
enum locus_status locus_scratch_make(struct locus_session *session, locus_error *error);
/* When the schemes are ready: what they, and the session, keep. */
enum locus_status locus_token_states_make(struct locus_session *session, locus_error *error);

#endif
