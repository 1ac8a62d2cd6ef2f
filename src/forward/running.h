/* States that run along with a text, of mixers whose layers keep as much however long it is: what
 * they are now, and copies of them, once in an interval of tokens, from which a rewind goes on.
 *
 * A mixer's own state begins with a struct locus_running, so that the hooks below are its own.
 */
#ifndef LOCUS_FORWARD_RUNNING_H
#define LOCUS_FORWARD_RUNNING_H

#include "forward/session.h"

struct locus_running {
    int interval; /* tokens from one copy to the next */
    int at;       /* tokens taken in */
    int *index;   /* [n_layer]: which of the layers that have the mixer; -1: none */
    size_t n_layer, layer_floats;
    void *block;
    float *now; /* [n_layer][layer_floats] */
    float
        *copies; /* [capacity / interval] of the same: after interval tokens, twice as many, ... */
};

/* The interval is so long that a session has no more than LOCUS_RUNNING_COPIES. */
enum { LOCUS_RUNNING_INTERVAL = 256, LOCUS_RUNNING_COPIES = 64 };

int locus_running_interval(int capacity);

/* Panels of values side by side (kernels.h): how many, and how many values of one there are. */
static inline int locus_panel_count(int n_values)
{
    return (n_values - 1) / LOCUS_CHANNELS + 1;
}

static inline int locus_panel_width(int n_values, int index)
{
    const int left = n_values - index * LOCUS_CHANNELS;
    return left < LOCUS_CHANNELS ? left : LOCUS_CHANNELS;
}

/* Zeros, as before the first token, for the layers that have that mixer. Close it in any case. */
enum locus_status locus_running_open(struct locus_running *running,
                                     const struct locus_session *session,
                                     const struct locus_mixer *mixer, size_t layer_floats,
                                     locus_error *error);
void locus_running_close(struct locus_running *running);

/* A layer's state [layer_floats], as the last token has left it. */
static inline float *locus_running_now(const struct locus_running *running, int layer)
{
    return running->now + (size_t)running->index[layer] * running->layer_floats;
}

/* How many of the n tokens after the first `taken` go before the next copy, or end with it. */
static inline int locus_running_stretch(const struct locus_running *running, int taken, int n)
{
    const int left = running->interval - taken % running->interval;
    return n < left ? n : left;
}

/* After `taken` tokens: part[n_floats] of a layer's state is copied where an interval ends. */
void locus_running_keep(const struct locus_running *running, const float *part, size_t n_floats,
                        int taken);

/* Hooks of struct locus_mixer. */
enum locus_status locus_running_resume(const void *state, const struct locus_session *session,
                                       int n_keep, int *n, locus_error *error);
void locus_running_rewind(void *state, int n);
int locus_running_replay(const struct locus_session *session);

#endif
