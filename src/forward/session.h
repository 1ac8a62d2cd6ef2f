/* The session inside the engine: a text's tokens, and what the forward pass needs for them. */
#ifndef LOCUS_FORWARD_SESSION_H
#define LOCUS_FORWARD_SESSION_H

#include "base/threads.h"
#include "forward/cache.h"
#include "forward/describe.h"
#include "forward/forward.h"
#include "forward/mixer.h"
#include "forward/scratch.h"

/* What a layer is made of. */
struct locus_session_layer {
    const struct locus_mixer *mixer;
    void *state; /* the mixer's */
    const struct locus_mlp_kind *mlp;
};

struct locus_session {
    const struct locus_model *model;
    struct locus_description setup;
    const struct locus_kernels *kernels; /* those of setup */
    struct locus_positions positions;    /* the schemes of setup.specs */
    struct locus_session_layer *layers;  /* [n_layer] */
    struct locus_mixers mixers;
    struct locus_scratch scratch;
    struct locus_token_states states;
    struct locus_barrier barrier; /* of the threads of a forward pass */
    struct locus_crew crew;       /* how many they are, where nobody has said */
    int64_t layer_weights;        /* of the model, a layer: what a token multiplies */
    int length;                   /* tokens held: slots 0 .. length-1 */
    float *score_logits;          /* [LOCUS_SCORE_ROWS, n_vocab]; NULL before the first score */
    bool (*stop)(void *context);  /* see locus_session_params; NULL: never */
    void *stop_context;
};

/* ---- creation ------------------------------------------------------------------------------- */

/* What only the inside asks for, beside the parameters; all zero: nothing. */
struct locus_session_extras {
    int text_length; /* see locus_session_describe */
    const struct locus_description
        *description;                /* what that gave: the parameters are passed over */
    const struct locus_mixer *mixer; /* one that is not in the list of mixers.c */
};

locus_session *locus_session_create_with(const locus_model *model,
                                         const locus_session_params *params,
                                         const struct locus_session_extras *extras,
                                         locus_error *error);

/* The type of its cache's keys and values; "none": no layer has any. */
const char *locus_session_cache_name(const struct locus_session *session);

/* ---- tokens --------------------------------------------------------------------------------- */

/* Appends n >= 1 tokens like locus_session_eval. nll[i] becomes -log softmax(logits)[targets[i]] of
 * the logits after tokens[i], in nats; where targets[i] < 0, nll[i] is 0 and the head is not run.
 * The head runs on 64 rows at a time: memory does not grow with n. The same bits at any number of
 * threads and any batch. locus_session_logits() is left as it was. */
enum locus_status locus_session_score(struct locus_session *session, const int32_t *tokens, int n,
                                      const int32_t *targets, float *nll, locus_error *error);

/* Tokens to append, and what is to come of them. */
struct locus_request {
    const int32_t *tokens; /* [n] */
    int n;
    const int *coordinates; /* [n, n_axes]; NULL: none */
    float *logits;          /* [n_rows, n_vocab]: of the last n_rows tokens */
    int n_rows;
    const int32_t *targets; /* [n], and nll[n]: losses; NULL: logits */
    float *nll;
    struct locus_attention_map *map; /* NULL: none */
};

/* Whether to stop before the next chunk; an error that says after how many of n tokens. */
enum locus_status locus_session_ask_stop(const struct locus_session *session, int n_done, int n,
                                         locus_error *error);

/* Whether it makes sense; and all of it, cut into chunks, which are cut nowhere else. */
enum locus_status locus_request_check(const struct locus_session *session,
                                      const struct locus_request *request, locus_error *error);
enum locus_status locus_session_run(struct locus_session *session,
                                    const struct locus_request *request, locus_error *error);

/* ---- coordinates that the caller gives tokens in place of positions -------------------------- */

/* Refuses a scheme or a policy that can't serve as many; coordinates[n, n_axes] (NULL: none) out of
 * range; and puts those of the n tokens to come into the session. */
enum locus_status locus_coordinates_admit(const struct locus_description *setup,
                                          const struct locus_positions *positions,
                                          locus_error *error);
enum locus_status locus_coordinates_check(const struct locus_session *session,
                                          const int *coordinates, int n, locus_error *error);
void locus_coordinates_put(struct locus_session *session, const int *coordinates, int n);

/* ---- what is kept of a slot, and after it of those that follow; NULL: nothing ---------------- */

static inline const int *locus_coordinates_at(const struct locus_session *session, int slot)
{
    const int *coordinates = session->states.coordinates;
    return coordinates ? coordinates + (size_t)slot * (size_t)session->setup.n_axes : NULL;
}

/* By the first scheme, of the tokens. */
static inline float *locus_embed_states(const struct locus_session *session, int slot)
{
    const struct locus_token_states *states = &session->states;
    return states->embed ? states->embed + ((size_t)slot + 1) * (size_t)states->embed_floats : NULL;
}

/* By a layer's scheme. */
static inline float *locus_layer_states(const struct locus_session *session, int layer, int slot)
{
    const struct locus_token_states *states = &session->states;
    const int floats = locus_positions_at(&session->positions, layer)->layer_floats;
    const size_t layer_rows = 1 + (size_t)session->setup.capacity;
    if (floats == 0) return NULL;
    return states->layers + (size_t)layer * layer_rows * (size_t)states->layer_floats +
           ((size_t)slot + 1) * (size_t)floats;
}

#endif
