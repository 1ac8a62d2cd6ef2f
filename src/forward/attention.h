/* Attention as a mixer: what it keeps for a session, and its halves.
 *
 *     attention.c   in -> q k v -> norms -> rotate -> cache; then attended -> output -> x
 *     attend.c      q and the cache -> attended
 *     map.c         one head's weights, for pictures
 */
#ifndef LOCUS_FORWARD_ATTENTION_H
#define LOCUS_FORWARD_ATTENTION_H

#include "forward/cache.h"
#include "forward/session.h"

extern const struct locus_mixer locus_mixer_attention;

struct locus_attention {
    struct locus_cache cache;
    int *cache_layer;     /* [n_layer]: where a layer's keys are in the cache */
    int first_held;       /* slots from here on, and the cache's pinned ones, are still in it */
    int *group_positions; /* [capacity]: those of the group store's keys; NULL: none */

    /* Scratch of one chunk. */
    float *q, *k, *v; /* [n, n_head * head_dim], twice [n, n_head_kv * head_dim] */
    /* As q, at the positions of moved spans; NULL: the policy has none. */
    float *q_moved[LOCUS_MAX_MOVED];
    float *k_group;       /* as k, for the group store; NULL: none */
    int *moved_positions; /* [n]: those of one q_moved */
    float *attended;      /* [n, n_head * head_dim] */
};

/* That of a session; NULL: no layer has it. */
const struct locus_attention *locus_session_attention_state(const struct locus_session *session);

/* The origin of LOCUS_FRAME_BLOCK: the position of the block's first slot; `group`: as the group
 * store has it. */
static inline int locus_block_origin(const struct locus_session *session,
                                     const struct locus_attention *attention, int slot, bool group)
{
    const int start = slot / LOCUS_KV_BLOCK * LOCUS_KV_BLOCK;
    return group ? attention->group_positions[start] : session->setup.first_position + start;
}

/* Floats of scratch a thread that locus_attend needs; SIZE_MAX: more than there can be. */
size_t locus_attend_floats(const struct locus_session *session);

/* Attention of the chunk's rows in one layer: q and the cache to `attended`; this thread's share.
 * The chunk's own keys and values are in the cache already. */
void locus_attend(const struct pass *pass, const struct locus_attention *attention, int layer);

#endif
