/* The KV cache: keys in panels of 16 positions (a lane is a key), values a row a position (a lane
 * is a dimension), one store a layer and key head. Slots count the session's tokens from 0.
 *
 * Slots come in blocks of 64, contiguous in memory. A store has room for n_blocks of them: the
 * first n_pinned stay, the others form a ring, in which a new block takes the place of the oldest.
 *
 * Keys that are rotated for each query anew are rows too, laid out as values are.
 */
#ifndef LOCUS_FORWARD_CACHE_H
#define LOCUS_FORWARD_CACHE_H

#include "base/error.h"
#include "kernels/kernels.h"

enum locus_key_store {
    LOCUS_KEYS,      /* rotated for their own positions, or as projected */
    LOCUS_GROUP_KEYS /* the same keys at other positions */
};

struct locus_cache {
    const struct locus_kernels *kernels;
    enum locus_cache_format format;
    int n_layer, n_head_kv, head_dim;
    int n_pinned, n_blocks;
    size_t key_panel_bytes, value_row_bytes; /* of 16 keys; of a value, or of a key as a row */
    size_t key_block_bytes;                  /* of 64 keys, as panels or as rows */
    unsigned char *keys[2];   /* [n_layer][n_head_kv][n_blocks] blocks; the group store be NULL */
    unsigned char *values;    /* [n_layer][n_head_kv][n_blocks * 64] rows */
    _Atomic int64_t overflow; /* see locus_cache_overflow */
};

/* "auto", "f32", "f16", "q8_0". */
const char *locus_cache_type_name(enum locus_cache_type type);

/* Blocks that hold n slots, from a block's first on. */
static inline int locus_cache_n_blocks(int n)
{
    return n > 0 ? (n - 1) / LOCUS_KV_BLOCK + 1 : 0;
}

/* Allocates the stores; the shape (all that is not a pointer or a size in bytes) is the caller's
 * to fill in. `group`: keys are stored twice. */
enum locus_status locus_cache_init(struct locus_cache *cache, bool group, locus_error *error);
void locus_cache_free(struct locus_cache *cache);

/* Stores one token's keys, rows [n_head_kv, head_dim], in a slot of a layer: in panels, or
 * as rows; or its values. What the format can't hold is noted. */
void locus_cache_put_keys(struct locus_cache *cache, enum locus_key_store store, int layer,
                          int slot, const float *keys);
void locus_cache_put_key_rows(struct locus_cache *cache, int layer, int slot, const float *keys);
void locus_cache_put_values(struct locus_cache *cache, int layer, int slot, const float *values);

/* Where a finite key or value first became an infinite half: true, with the lowest slot that has
 * one and the lowest layer there, of what was stored since it was last forgotten. */
bool locus_cache_overflow(const struct locus_cache *cache, int *layer, int *slot);
void locus_cache_forget_overflow(struct locus_cache *cache);

/* Keys stored as rows, those of slots [first, end) of one block of a layer, as the cache's type has
 * them: out[end - first, n_head_kv, head_dim]. */
void locus_cache_get_key_rows(const struct locus_cache *cache, int layer, int first, int end,
                              float *out);

/* Rows of floats [n <= 64, n_head_kv, head_dim] as panels [n_head_kv][64 / 16][head_dim][16], such
 * as the scores of F32 read. Lanes past n are whatever. */
void locus_cache_pack_keys(const struct locus_cache *cache, const float *rows, int n,
                           float *panels);

/* The first key panel, and the first value row, of the block that holds a slot. */
const unsigned char *locus_cache_keys(const struct locus_cache *cache, enum locus_key_store store,
                                      int layer, int head, int slot);
const unsigned char *locus_cache_values(const struct locus_cache *cache, int layer, int head,
                                        int slot);

/* The first slot past the pinned blocks that is still there when the last one written is `slot`. */
int locus_cache_first_held(const struct locus_cache *cache, int slot);

#endif
