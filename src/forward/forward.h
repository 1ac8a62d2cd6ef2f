/* The forward pass: a chunk of tokens to hidden states, logits or losses. */
#ifndef LOCUS_FORWARD_FORWARD_H
#define LOCUS_FORWARD_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

struct locus_session;
struct locus_attention_map;

/* A chunk: n <= n_batch tokens for the slots from first_slot on. */
struct locus_chunk {
    const int32_t *tokens;
    int n, first_slot;
};

/* What a pass is to give. */
struct locus_outputs {
    float *logits; /* [n_rows, n_vocab]: those of the last n_rows tokens */
    int n_rows;
    bool last;              /* the very last token's also go to the session's logits */
    const int32_t *targets; /* [n], and nll[n], for the rows scratch.scored[n_scored] */
    float *nll;
    int n_scored;
    struct locus_attention_map *map; /* one head's scores; NULL: none */
};

/* Rows of logits that are scored together. */
enum { LOCUS_SCORE_ROWS = 64 };

/* One forward pass: the slots before the chunk's are in the mixers' states, its own come to be. */
void locus_forward(struct locus_session *session, const struct locus_chunk *chunk,
                   const struct locus_outputs *outputs);

/* -log softmax(logits[n_vocab])[target], in nats: the same bits as locus_session_score's. */
float locus_session_loss(const struct locus_session *session, const float *logits, int32_t target);

#endif
