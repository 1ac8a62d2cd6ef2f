/* What mixes tokens in a layer: attention, or something in its place. One const struct each; the
 * forward pass calls it and never learns which it is.
 *
 *     a new one: its tensors (struct locus_layer_part, model/model.h), a file with a struct
 *     locus_mixer, and a row in mixers.c
 */
#ifndef LOCUS_FORWARD_MIXER_H
#define LOCUS_FORWARD_MIXER_H

#include "forward/arena.h"
#include "model/model.h"

struct pass;
struct locus_session;

struct locus_mixer {
    const struct locus_layer_part *tensors; /* by which a layer names it; they have its name, too */

    /* Makes *state: what it keeps for a session, for all layers that have it (those of
     * session->layers whose mixer it is). The session's setup is there, its schemes are not yet. */
    enum locus_status (*open)(void **state, const struct locus_session *session,
                              locus_error *error);
    void (*close)(void *state); /* NULL ok */
    /* OPTIONAL: takes its scratch of one chunk. Called twice: to count, and to take. */
    void (*lay_out)(void *state, const struct locus_session *session, struct locus_arena *arena);
    /* OPTIONAL: floats of scratch a thread, at pass_thread_scratch. The schemes are ready. */
    size_t (*thread_floats)(const struct locus_session *session);

    /* x += what it makes of in[n, n_embd], the rows of slots pass->first_slot on, which is complete
     * on every thread; x is complete when it returns. Each row's bits may depend on those before
     * it, not on how they were cut into chunks, nor on the number of threads. Every thread calls
     * it. */
    void (*run)(const struct pass *pass, void *state, int layer, const float *in);
    /* OPTIONAL: refuses what a chunk has left in the state, until the next rewind. Without an
     * error, any thread may ask. */
    enum locus_status (*check)(const void *state, const struct locus_session *session,
                               locus_error *error);

    /* The most slots, at most n_keep, that it can go on from: those up to n_keep are then run
     * again. LOCUS_OK with *n, or a refusal. */
    enum locus_status (*resume)(const void *state, const struct locus_session *session, int n_keep,
                                int *n, locus_error *error);
    /* Forgets all but n slots, to which resume has said yes. */
    void (*rewind)(void *state, int n);
    /* OPTIONAL: the most by which resume may answer less than n_keep: a mixer with a running state
     * has copies of it now and then, and runs the tokens after one again. NULL, as attention has
     * it: it goes back anywhere. The session's setup is there. */
    int (*replay)(const struct locus_session *session);
};

/* The mixers of a session, each with its state. */
enum { LOCUS_MAX_MIXERS = 8 };

struct locus_mixers {
    struct {
        const struct locus_mixer *mixer;
        void *state;
    } used[LOCUS_MAX_MIXERS];
    int n;
};

/* The mixer with those tensors, `own` (NULL: none) first; NULL: there is none. */
const struct locus_mixer *locus_mixer_find(const struct locus_layer_part *tensors,
                                           const struct locus_mixer *own);

/* Opens those that the session's layers name, each once, and tells the layers their states. Close
 * them in any case. */
enum locus_status locus_mixers_open(struct locus_mixers *mixers, struct locus_session *session,
                                    locus_error *error);
void locus_mixers_close(struct locus_mixers *mixers);

/* The hooks, over all of them. */
void locus_mixers_lay_out(struct locus_mixers *mixers, const struct locus_session *session,
                          struct locus_arena *arena);
size_t locus_mixers_thread_floats(const struct locus_mixers *mixers,
                                  const struct locus_session *session);
enum locus_status locus_mixers_check(const struct locus_mixers *mixers,
                                     const struct locus_session *session, locus_error *error);
int locus_mixers_replay(const struct locus_session *session); /* the most of its layers */

/* The most slots, at most n_keep, that all of them can go on from. */
enum locus_status locus_mixers_resume(const struct locus_mixers *mixers,
                                      const struct locus_session *session, int n_keep, int *n,
                                      locus_error *error);
void locus_mixers_rewind(struct locus_mixers *mixers, int n);

#endif
