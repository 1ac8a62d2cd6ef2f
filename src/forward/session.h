/* The session inside the engine: what the forward pass works on. */
#ifndef LOCUS_FORWARD_SESSION_H
#define LOCUS_FORWARD_SESSION_H

#include "base/threads.h"
#include "forward/cache.h"
#include "forward/describe.h"
#include "model/model.h"
#include "position/position.h"

/* Where attention leaves the scores of one head for locus_session_probe. */
struct locus_probe {
    int layer, head, n;
    float *weights; /* [n, n]; NULL: nowhere */
};

enum { LOCUS_SESSION_BLOCKS = 32 };

struct locus_session {
    const struct locus_model *model;
    struct locus_description setup;
    const struct locus_kernels *kernels; /* those of setup */
    struct locus_positions positions;    /* the schemes of setup.specs */
    struct locus_cache cache;
    struct locus_barrier barrier; /* of the threads of a forward pass */
    int length;                   /* tokens held: slots 0 .. length-1 */
    int first_held;      /* slots from here on, and the cache's pinned ones, are still in it */
    int embed_floats;    /* what the first scheme keeps a position */
    float *embed_states; /* [1 + capacity, embed_floats]: a row of zeros, then a row a slot */
    int *coordinates;    /* [capacity, n_axes]: the caller's */
    int layer_floats;    /* the most that any scheme keeps of a position and layer */
    float *layer_states; /* [n_layer][1 + capacity][layer_floats], each layer's rows as wide as its
                          * own scheme's */

    void **owned[LOCUS_SESSION_BLOCKS]; /* [n_owned]: those of the pointers here that are set */
    int n_owned;

    /* Scratch of one chunk of at most n_batch tokens. */
    float *x;             /* [n, n_embd]: the residual stream */
    float *normed;        /* [n, n_embd] */
    float *mlp_normed;    /* [n, n_embd]: parallel residual only */
    float *branch;        /* [n, n_embd]: what a half adds, where it is normed or scaled first */
    float *q, *k, *v;     /* [n, n_head * head_dim], twice [n, n_head_kv * head_dim] */
    float *q_moved;       /* as q, at the positions of moved spans; NULL: the policy has none */
    float *k_group;       /* as k, for the group store; NULL: none */
    int *moved_positions; /* [n]: those of q_moved */
    int *group_positions; /* [capacity]: those of the group store's keys */
    float *attended;      /* [n, n_head * head_dim] */
    float *gate, *up;     /* [n, n_ff]; gate: gated only */
    float *shares;        /* [n, n_expert]: of each expert in a row */
    bool *taken;          /* [n, n_expert] */
    int *expert_rows;     /* [n * n_expert_used]: rows by the experts that they take */
    int *expert_first;    /* [n_expert + 1]: where each expert's rows begin */
    float *gathered;      /* [n, n_embd]: what those rows read */
    float *expert_out;    /* [n, n_embd]: what they get */
    struct locus_activation_block *blocks; /* [n, widest / 32]: a product's input, quantised */
    uint16_t *bf16;                        /* [n, locus_bf16_cols(widest)]: the same, rounded */
    int *row_positions;                    /* [n] */
    float *threads;                        /* [n_threads, thread_floats]: attention's scratch */
    size_t thread_floats;
    float *logits; /* [n_vocab] of the last token */

    struct locus_probe probe;
    int *scored;         /* [n]: rows of the chunk that locus_session_score scores */
    float *score_logits; /* [LOCUS_SCORE_ROWS, n_vocab]; NULL before the first call */
};

enum { LOCUS_SCORE_ROWS = 64 };

/* Makes the cache and a chunk's scratch, of the size that the setup says. Then, schemes being
 * ready, what they ask for. */
enum locus_status locus_room_make(struct locus_session *session, locus_error *error);
enum locus_status locus_room_make_states(struct locus_session *session, locus_error *error);
void locus_room_free(struct locus_session *session);

/* Appends n >= 1 tokens like locus_session_eval. nll[i] becomes -log softmax(logits)[targets[i]] of
 * the logits after tokens[i], in nats; where targets[i] < 0, nll[i] is 0 and the head is not run.
 * The head runs on 64 rows at a time: memory does not grow with n. The same bits at any number of
 * threads and any batch. locus_session_logits() is left as it was. */
enum locus_status locus_session_score(struct locus_session *session, const int32_t *tokens, int n,
                                      const int32_t *targets, float *nll, locus_error *error);

/* -log softmax(logits[n_vocab])[target], in nats: the same bits as locus_session_score's. */
float locus_session_loss(const struct locus_session *session, const float *logits, int32_t target);

/* Rewinds to 0, evaluates n tokens, and gives the attention weights of one head: weights[n, n], row
 * i over the keys j that token i sees, 0 elsewhere. */
enum locus_status locus_session_probe(struct locus_session *session, const int32_t *tokens, int n,
                                      int layer, int head, float *weights, locus_error *error);

/* Coordinates that the caller gives tokens in place of positions. Refuses a scheme or a policy that
 * can't serve as many; coordinates[n, n_axes] (NULL: none) out of range; and puts those of the n
 * tokens to come into the session. */
enum locus_status locus_coordinates_admit(const struct locus_description *setup,
                                          const struct locus_positions *positions,
                                          locus_error *error);
enum locus_status locus_coordinates_check(const struct locus_session *session,
                                          const int *coordinates, int n, locus_error *error);
void locus_coordinates_put(struct locus_session *session, const int *coordinates, int n);

/* Those of a slot, and after it of those that follow; NULL: none. */
static inline const int *locus_coordinates_at(const struct locus_session *session, int slot)
{
    return session->coordinates
               ? session->coordinates + (size_t)slot * (size_t)session->setup.n_axes
               : NULL;
}

/* What a layer's scheme has kept of a slot, and after it of those that follow; NULL: nothing. */
static inline float *locus_layer_states(const struct locus_session *session, int layer, int slot)
{
    const int floats = locus_positions_at(&session->positions, layer)->layer_floats;
    const size_t layer_rows = 1 + (size_t)session->setup.capacity;
    if (floats == 0) return NULL;
    return session->layer_states + (size_t)layer * layer_rows * (size_t)session->layer_floats +
           ((size_t)slot + 1) * (size_t)floats;
}

/* The origin of LOCUS_FRAME_BLOCK: the position of the block's first slot; `group`: as the group
 * store has it. */
static inline int locus_block_origin(const struct locus_session *session, int slot, bool group)
{
    int start = slot / LOCUS_KV_BLOCK * LOCUS_KV_BLOCK;
    return group ? session->group_positions[start] : session->setup.first_position + start;
}

/* What a forward pass is to give. */
struct locus_outputs {
    float *logits; /* [n_rows, n_vocab]: those of the last n_rows tokens */
    int n_rows;
    bool last;              /* the very last token's also go to session->logits */
    const int32_t *targets; /* [n], and nll[n], for the rows session->scored[n_scored] */
    float *nll;
    int n_scored;
};

/* One forward pass over n <= n_batch tokens, appended to the cache. */
void locus_forward(struct locus_session *session, const int32_t *tokens, int n,
                   const struct locus_outputs *outputs);

/* Floats of scratch a thread that locus_attend needs; SIZE_MAX: more than there can be. */
size_t locus_attend_floats(const struct locus_session *session);

/* Attention of the chunk's n rows in one layer: q and the cache to `attended`; this thread's share.
 * The chunk's own keys and values are in the cache already. */
void locus_attend(struct locus_session *session, int layer, int n, int thread, int n_threads);

#endif
