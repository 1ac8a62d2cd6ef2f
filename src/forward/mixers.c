/* The mixers there are, and those of a session: see mixer.h. */
#include "forward/attention.h"
#include "forward/hyena.h"
#include "forward/mamba.h"
#include "forward/mamba2.h"
#include "forward/retention.h"
#include "forward/session.h"

static const struct locus_mixer *const mixers_known[] = {
    &locus_mixer_attention, &locus_mixer_mamba, &locus_mixer_mamba2, &locus_mixer_retention,
    &locus_mixer_hyena};

const struct locus_mixer *locus_mixer_find(const struct locus_layer_part *tensors,
                                           const struct locus_mixer *own)
{
    if (own && own->tensors == tensors) return own;
    for (size_t i = 0; i < sizeof mixers_known / sizeof *mixers_known; i++)
        if (mixers_known[i]->tensors == tensors) return mixers_known[i];
    return NULL;
}

/* The index of a mixer among those used; where it isn't there yet, n. */
static int find_used(const struct locus_mixers *mixers, const struct locus_mixer *mixer)
{
    int i = 0;
    while (i < mixers->n && mixers->used[i].mixer != mixer)
        i++;
    return i;
}

enum locus_status locus_mixers_open(struct locus_mixers *mixers, struct locus_session *session,
                                    locus_error *error)
{
    for (int l = 0; l < session->model->config.n_layer; l++) {
        struct locus_session_layer *layer = &session->layers[l];
        const int i = find_used(mixers, layer->mixer);
        if (i == LOCUS_MAX_MIXERS)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "layer %d: more than %d kinds of mixers in one model", l,
                              LOCUS_MAX_MIXERS);
        if (i == mixers->n) {
            mixers->used[i].mixer = layer->mixer;
            mixers->n++;
            enum locus_status status = layer->mixer->open(&mixers->used[i].state, session, error);
            if (status) return status;
        }
        layer->state = mixers->used[i].state;
    }
    return LOCUS_OK;
}

void locus_mixers_close(struct locus_mixers *mixers)
{
    for (int i = 0; i < mixers->n; i++)
        mixers->used[i].mixer->close(mixers->used[i].state);
    mixers->n = 0;
}

void locus_mixers_lay_out(struct locus_mixers *mixers, const struct locus_session *session,
                          struct locus_arena *arena)
{
    for (int i = 0; i < mixers->n; i++)
        if (mixers->used[i].mixer->lay_out)
            mixers->used[i].mixer->lay_out(mixers->used[i].state, session, arena);
}

size_t locus_mixers_thread_floats(const struct locus_mixers *mixers,
                                  const struct locus_session *session)
{
    size_t most = 0;
    for (int i = 0; i < mixers->n; i++) {
        const struct locus_mixer *mixer = mixers->used[i].mixer;
        const size_t floats = mixer->thread_floats ? mixer->thread_floats(session) : 0;
        most = floats > most ? floats : most;
    }
    return most;
}

enum locus_status locus_mixers_check(const struct locus_mixers *mixers,
                                     const struct locus_session *session, locus_error *error)
{
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < mixers->n && !status; i++)
        if (mixers->used[i].mixer->check)
            status = mixers->used[i].mixer->check(mixers->used[i].state, session, error);
    return status;
}

int locus_mixers_replay(const struct locus_session *session)
{
    int most = 0;
    for (int l = 0; l < session->model->config.n_layer; l++) {
        const struct locus_mixer *mixer = session->layers[l].mixer;
        const int replay = mixer->replay ? mixer->replay(session) : 0;
        most = replay > most ? replay : most;
    }
    return most;
}

/* Where one can go on from less than another can, the others are asked again. */
enum locus_status locus_mixers_resume(const struct locus_mixers *mixers,
                                      const struct locus_session *session, int n_keep, int *n,
                                      locus_error *error)
{
    *n = n_keep;
    for (int before = -1; before != *n;) {
        before = *n;
        for (int i = 0; i < mixers->n; i++) {
            enum locus_status status =
                mixers->used[i].mixer->resume(mixers->used[i].state, session, *n, n, error);
            if (status) return status;
        }
    }
    return LOCUS_OK;
}

void locus_mixers_rewind(struct locus_mixers *mixers, int n)
{
    for (int i = 0; i < mixers->n; i++)
        mixers->used[i].mixer->rewind(mixers->used[i].state, n);
}
