/* States that run along with a text, and copies of them: see running.h. */
#include "forward/running.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

int locus_running_interval(int capacity)
{
    int interval = LOCUS_RUNNING_INTERVAL;
    while (capacity / interval > LOCUS_RUNNING_COPIES)
        interval *= 2;
    return interval;
}

static void lay_out(struct locus_running *running, int capacity, struct locus_arena *arena)
{
    const size_t n_copies = (size_t)(capacity / running->interval);
    running->now = locus_arena_floats(arena, running->n_layer, running->layer_floats);
    running->copies = locus_arena_floats(arena, n_copies * running->n_layer, running->layer_floats);
}

enum locus_status locus_running_open(struct locus_running *running,
                                     const struct locus_session *session,
                                     const struct locus_mixer *mixer, size_t layer_floats,
                                     locus_error *error)
{
    const size_t n_layer = (size_t)session->model->config.n_layer;
    const int capacity = session->setup.capacity;
    struct locus_arena arena = {0};
    if (!(running->index = calloc(n_layer, sizeof *running->index)))
        return locus_fail_memory(error, n_layer * sizeof *running->index);
    for (size_t layer = 0; layer < n_layer; layer++)
        running->index[layer] =
            session->layers[layer].mixer == mixer ? (int)running->n_layer++ : -1;
    running->interval = locus_running_interval(capacity);
    running->layer_floats = layer_floats;
    lay_out(running, capacity, &arena);
    running->block = arena.used < SIZE_MAX ? locus_aligned_zalloc(arena.used, 1) : NULL;
    if (!running->block)
        return locus_fail(error, LOCUS_ERROR_MEMORY,
                          "out of memory: states of %zu layers, and %d copies of them, could not "
                          "be had",
                          running->n_layer, capacity / running->interval);
    arena = (struct locus_arena){.base = running->block};
    lay_out(running, capacity, &arena);
    return LOCUS_OK;
}

void locus_running_close(struct locus_running *running)
{
    locus_aligned_free(running->block);
    free(running->index);
}

void locus_running_keep(const struct locus_running *running, const float *part, size_t n_floats,
                        int taken)
{
    if (taken % running->interval) return;
    const size_t copy = (size_t)(taken / running->interval - 1),
                 offset = (size_t)(part - running->now);
    memcpy(running->copies + copy * running->n_layer * running->layer_floats + offset, part,
           n_floats * sizeof *part);
}

enum locus_status locus_running_resume(const void *state, const struct locus_session *session,
                                       int n_keep, int *n, locus_error *error)
{
    const struct locus_running *running = state;
    (void)session, (void)error;
    *n = running->at == n_keep ? n_keep : n_keep / running->interval * running->interval;
    return LOCUS_OK;
}

void locus_running_rewind(void *state, int n)
{
    struct locus_running *running = state;
    const size_t n_floats = running->n_layer * running->layer_floats;
    if (running->at == n) return;
    if (n == 0)
        memset(running->now, 0, n_floats * sizeof *running->now);
    else
        memcpy(running->now, running->copies + (size_t)(n / running->interval - 1) * n_floats,
               n_floats * sizeof *running->now);
    running->at = n;
}

int locus_running_replay(const struct locus_session *session)
{
    return locus_running_interval(session->setup.capacity) - 1;
}
