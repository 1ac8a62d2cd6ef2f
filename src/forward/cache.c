/* The KV cache: see cache.h. */
#include "forward/cache.h"

#include "base/buffer.h"

enum locus_status locus_cache_init(struct locus_cache *cache, enum locus_cache_format format,
                                   int n_layer, int n_head_kv, int head_dim, int capacity,
                                   locus_error *error)
{
    size_t n_panels = ((size_t)capacity - 1) / LOCUS_KEY_PANEL + 1;
    *cache = (struct locus_cache){
        .format = format,
        .n_head_kv = n_head_kv,
        .head_dim = head_dim,
        .capacity = (int)(n_panels * LOCUS_KEY_PANEL),
        .key_panel_bytes = locus_key_panel_bytes(format, head_dim),
        .value_row_bytes = locus_value_row_bytes(format, head_dim),
    };
    size_t n_stores = (size_t)n_layer * (size_t)n_head_kv, n_key_panels, n_value_rows;
    if (locus_mul_size(n_stores, n_panels, &n_key_panels) &&
        locus_mul_size(n_key_panels, LOCUS_KEY_PANEL, &n_value_rows)) {
        cache->keys = locus_aligned_zalloc(n_key_panels, cache->key_panel_bytes);
        cache->values = locus_aligned_zalloc(n_value_rows, cache->value_row_bytes);
    }
    if (cache->keys && cache->values) return LOCUS_OK;
    locus_cache_free(cache);
    return locus_fail(error, LOCUS_ERROR_MEMORY,
                      "out of memory: a cache of %d positions in %d layers could not be had",
                      capacity, n_layer);
}

void locus_cache_free(struct locus_cache *cache)
{
    locus_aligned_free(cache->keys);
    locus_aligned_free(cache->values);
    cache->keys = cache->values = NULL;
}

static size_t store_index(const struct locus_cache *cache, int layer, int head)
{
    return (size_t)layer * (size_t)cache->n_head_kv + (size_t)head;
}

const unsigned char *locus_cache_keys(const struct locus_cache *cache, int layer, int head)
{
    size_t n_panels = (size_t)cache->capacity / LOCUS_KEY_PANEL;
    return cache->keys + store_index(cache, layer, head) * n_panels * cache->key_panel_bytes;
}

const unsigned char *locus_cache_values(const struct locus_cache *cache, int layer, int head)
{
    return cache->values +
           store_index(cache, layer, head) * (size_t)cache->capacity * cache->value_row_bytes;
}

/* Quantises up to 32 values by the rule of locus_quantize_row, filled up with zeros. */
static float quantize_short(int8_t q[LOCUS_BLOCK], const float *x, int n)
{
    float padded[LOCUS_BLOCK] = {0}, scale;
    memcpy(padded, x, (size_t)n * sizeof *x);
    locus_quantize_row(q, &scale, padded, LOCUS_BLOCK);
    return scale;
}

static void put_key(const struct locus_cache *cache, unsigned char *panel, int lane, const float *k)
{
    const int head_dim = cache->head_dim;
    float *floats = (float *)(void *)panel;
    uint16_t *halves = (uint16_t *)(void *)panel;
    if (cache->format == LOCUS_FORMAT_F32)
        for (int d = 0; d < head_dim; d++)
            floats[d * LOCUS_KEY_PANEL + lane] = k[d];
    else if (cache->format == LOCUS_FORMAT_F16)
        for (int d = 0; d < head_dim; d++)
            halves[d * LOCUS_KEY_PANEL + lane] = locus_float_to_half(k[d]);
    else {
        int n_blocks = locus_cache_blocks(head_dim);
        int8_t *out = (int8_t *)(floats + n_blocks * LOCUS_KEY_PANEL);
        for (int b = 0; b < n_blocks; b++) {
            int8_t q[LOCUS_BLOCK];
            int first = b * LOCUS_BLOCK, n = head_dim - first;
            if (n > LOCUS_BLOCK) n = LOCUS_BLOCK;
            floats[b * LOCUS_KEY_PANEL + lane] = quantize_short(q, k + first, n);
            for (int d = 0; d < n; d++)
                out[(first + d) * LOCUS_KEY_PANEL + lane] = q[d];
        }
    }
}

static void put_value(const struct locus_cache *cache, unsigned char *row, const float *v)
{
    const int head_dim = cache->head_dim;
    float *floats = (float *)(void *)row;
    uint16_t *halves = (uint16_t *)(void *)row;
    if (cache->format == LOCUS_FORMAT_F32)
        memcpy(row, v, (size_t)head_dim * sizeof *v);
    else if (cache->format == LOCUS_FORMAT_F16)
        for (int d = 0; d < head_dim; d++)
            halves[d] = locus_float_to_half(v[d]);
    else {
        int n_blocks = locus_cache_blocks(head_dim);
        int8_t *out = (int8_t *)(floats + n_blocks);
        for (int b = 0; b < n_blocks; b++) {
            int8_t q[LOCUS_BLOCK];
            int first = b * LOCUS_BLOCK, n = head_dim - first;
            if (n > LOCUS_BLOCK) n = LOCUS_BLOCK;
            floats[b] = quantize_short(q, v + first, n);
            memcpy(out + first, q, (size_t)n);
        }
    }
}

void locus_cache_put(struct locus_cache *cache, int layer, int slot, const float *keys,
                     const float *values)
{
    size_t panel = (size_t)slot / LOCUS_KEY_PANEL;
    for (int head = 0; head < cache->n_head_kv; head++) {
        size_t n_panels = (size_t)cache->capacity / LOCUS_KEY_PANEL;
        size_t store = store_index(cache, layer, head);
        unsigned char *key = cache->keys + (store * n_panels + panel) * cache->key_panel_bytes;
        unsigned char *value = cache->values + (store * (size_t)cache->capacity + (size_t)slot) *
                                                   cache->value_row_bytes;
        put_key(cache, key, slot % LOCUS_KEY_PANEL, keys + (size_t)head * (size_t)cache->head_dim);
        put_value(cache, value, values + (size_t)head * (size_t)cache->head_dim);
    }
}

/* The key in one lane of a panel: what the scores of a query read. */
static void get_key(const struct locus_cache *cache, const unsigned char *panel, int lane, float *k)
{
    const int head_dim = cache->head_dim;
    const float *floats = (const float *)(const void *)panel;
    const uint16_t *halves = (const uint16_t *)(const void *)panel;
    const int8_t *q = (const int8_t *)(floats + locus_cache_blocks(head_dim) * LOCUS_KEY_PANEL);
    for (int d = 0; d < head_dim; d++) {
        int at = d * LOCUS_KEY_PANEL + lane;
        switch (cache->format) {
        case LOCUS_FORMAT_F32:
            k[d] = floats[at];
            break;
        case LOCUS_FORMAT_F16:
            k[d] = locus_half_to_float(halves[at]);
            break;
        case LOCUS_FORMAT_Q8_0:
            k[d] = (float)q[at] * floats[d / LOCUS_BLOCK * LOCUS_KEY_PANEL + lane];
            break;
        }
    }
}

void locus_cache_get_keys(const struct locus_cache *cache, int layer, int first, int end,
                          float *out)
{
    for (int head = 0; head < cache->n_head_kv; head++) {
        const unsigned char *keys = locus_cache_keys(cache, layer, head);
        for (int j = first; j < end; j++) {
            size_t row = (size_t)(j - first) * (size_t)cache->n_head_kv + (size_t)head;
            get_key(cache, keys + (size_t)(j / LOCUS_KEY_PANEL) * cache->key_panel_bytes,
                    j % LOCUS_KEY_PANEL, out + row * (size_t)cache->head_dim);
        }
    }
}
