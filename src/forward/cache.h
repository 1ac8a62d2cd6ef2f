/* The KV cache: keys in panels of 16 positions (a lane is a key), values a row a position (a lane
 * is a dimension), one store a layer and key head. Slots count the session's tokens from 0.
 */
#ifndef LOCUS_FORWARD_CACHE_H
#define LOCUS_FORWARD_CACHE_H

#include "kernels/kernels.h"

struct locus_cache {
    enum locus_cache_format format;
    int n_head_kv, head_dim;
    int capacity; /* slots, a multiple of LOCUS_KEY_PANEL */
    size_t key_panel_bytes, value_row_bytes;
    unsigned char *keys;   /* [n_layer][n_head_kv][capacity / 16] panels */
    unsigned char *values; /* [n_layer][n_head_kv][capacity] rows */
};

enum locus_status locus_cache_init(struct locus_cache *cache, enum locus_cache_format format,
                                   int n_layer, int n_head_kv, int head_dim, int capacity,
                                   locus_error *error);
void locus_cache_free(struct locus_cache *cache);

/* Stores one token's keys and values, rows [n_head_kv, head_dim], in a slot of a layer. */
void locus_cache_put(struct locus_cache *cache, int layer, int slot, const float *keys,
                     const float *values);

/* The keys of slots [first, end) of a layer, as the cache's type has them: out[end - first,
 * n_head_kv, head_dim]. */
void locus_cache_get_keys(const struct locus_cache *cache, int layer, int first, int end,
                          float *out);

/* The first key panel, and the first value row, of a layer's key head. */
const unsigned char *locus_cache_keys(const struct locus_cache *cache, int layer, int head);
const unsigned char *locus_cache_values(const struct locus_cache *cache, int layer, int head);

#endif
