/* The KV cache: see cache.h. */
#include "forward/cache.h"

#include <math.h>
#include <stdatomic.h>

#include "base/buffer.h"
#include "kernels/transpose.h"

enum { BLOCK_PANELS = LOCUS_KV_BLOCK / LOCUS_KEY_PANEL };

const char *locus_cache_type_name(enum locus_cache_type type)
{
    static const char *const names[] = {[LOCUS_CACHE_AUTO] = "auto",
                                        [LOCUS_CACHE_F32] = "f32",
                                        [LOCUS_CACHE_F16] = "f16",
                                        [LOCUS_CACHE_Q8_0] = "q8_0"};
    return names[type];
}

/* Large pages behind all stores, unless the first token, which touches every store, would have much
 * memory for them that may never be used. */
static void ask_for_large_pages(void *block, size_t n_bytes, size_t n_stores)
{
    enum { LARGE_PAGE = 2 << 20, MOST = 192 << 20 }; /* bytes */
    if (n_bytes <= MOST || n_stores <= MOST / LARGE_PAGE) locus_aligned_huge(block, n_bytes);
}

enum locus_status locus_cache_init(struct locus_cache *cache, bool group, locus_error *error)
{
    size_t n_stores = (size_t)cache->n_layer * (size_t)cache->n_head_kv, n_blocks, n_slots = 0;
    cache->key_panel_bytes = locus_key_panel_bytes(cache->format, cache->head_dim);
    cache->value_row_bytes = locus_value_row_bytes(cache->format, cache->head_dim);
    const size_t panels = BLOCK_PANELS * cache->key_panel_bytes;
    const size_t rows = LOCUS_KV_BLOCK * cache->value_row_bytes;
    cache->key_block_bytes = panels > rows ? panels : rows;
    bool failed = !locus_mul_size(n_stores, (size_t)cache->n_blocks, &n_blocks) ||
                  !locus_mul_size(n_blocks, LOCUS_KV_BLOCK, &n_slots);
    for (int store = 0; !failed && store < (group ? 2 : 1); store++) {
        cache->keys[store] = locus_aligned_zalloc(n_blocks, cache->key_block_bytes);
        failed = !cache->keys[store];
        if (!failed)
            ask_for_large_pages(cache->keys[store], n_blocks * cache->key_block_bytes, n_stores);
    }
    if (!failed) cache->values = locus_aligned_zalloc(n_slots, cache->value_row_bytes);
    if (cache->values) {
        ask_for_large_pages(cache->values, n_slots * cache->value_row_bytes, n_stores);
        return LOCUS_OK;
    }
    locus_cache_free(cache);
    return locus_fail(
        error, LOCUS_ERROR_MEMORY,
        "out of memory: a cache of %lld positions in %d layers could not be had; expected "
        "fewer (-c), or a smaller type (--cache-type)",
        (long long)cache->n_blocks * LOCUS_KV_BLOCK, cache->n_layer);
}

void locus_cache_free(struct locus_cache *cache)
{
    locus_aligned_free(cache->keys[LOCUS_KEYS]);
    locus_aligned_free(cache->keys[LOCUS_GROUP_KEYS]);
    locus_aligned_free(cache->values);
    cache->keys[LOCUS_KEYS] = cache->keys[LOCUS_GROUP_KEYS] = cache->values = NULL;
}

/* Where a slot's block is: a block of a layer's key head, counted over all stores. */
static size_t block_of(const struct locus_cache *cache, int layer, int head, int slot)
{
    int block = slot / LOCUS_KV_BLOCK;
    if (block >= cache->n_blocks)
        block = cache->n_pinned + (block - cache->n_pinned) % (cache->n_blocks - cache->n_pinned);
    size_t store = (size_t)layer * (size_t)cache->n_head_kv + (size_t)head;
    return store * (size_t)cache->n_blocks + (size_t)block;
}

static size_t key_offset(const struct locus_cache *cache, int layer, int head, int slot)
{
    return block_of(cache, layer, head, slot) * cache->key_block_bytes;
}

static size_t value_offset(const struct locus_cache *cache, int layer, int head, int slot)
{
    return block_of(cache, layer, head, slot) * LOCUS_KV_BLOCK * cache->value_row_bytes;
}

const unsigned char *locus_cache_keys(const struct locus_cache *cache, enum locus_key_store store,
                                      int layer, int head, int slot)
{
    return cache->keys[store] + key_offset(cache, layer, head, slot);
}

const unsigned char *locus_cache_values(const struct locus_cache *cache, int layer, int head,
                                        int slot)
{
    return cache->values + value_offset(cache, layer, head, slot);
}

int locus_cache_first_held(const struct locus_cache *cache, int slot)
{
    int first = slot / LOCUS_KV_BLOCK + 1 - (cache->n_blocks - cache->n_pinned);
    return (first > cache->n_pinned ? first : cache->n_pinned) * LOCUS_KV_BLOCK;
}

/* Quantises up to 32 values by the rule of locus_quantize_row, filled up with zeros. */
static float quantize_short(int8_t q[LOCUS_QUANT_BLOCK], const float *x, int n)
{
    float padded[LOCUS_QUANT_BLOCK] = {0}, scale;
    memcpy(padded, x, (size_t)n * sizeof *x);
    locus_quantize_row(q, &scale, padded, LOCUS_QUANT_BLOCK);
    return scale;
}

/* Whether a finite value became infinite as a half. */
static bool overflows(const uint16_t *halves, const float *x, int n)
{
    const uint16_t infinity = 0x7C00, magnitude = 0x7FFF;
    uint16_t largest = 0;
    for (int i = 0; i < n; i++) {
        const uint16_t one = halves[i] & magnitude;
        largest = one > largest ? one : largest;
    }
    if (largest < infinity) return false;
    for (int i = 0; i < n; i++)
        if ((halves[i] & magnitude) == infinity && isfinite(x[i])) return true;
    return false;
}

/* The lowest slot, and the lowest layer there: those below it hold true keys, whatever the threads
 * and the chunks were. */
static void note_overflow(struct locus_cache *cache, int layer, int slot)
{
    const int64_t place = (int64_t)slot * cache->n_layer + layer + 1; /* 0: none */
    int64_t lowest = atomic_load(&cache->overflow);
    while ((lowest == 0 || place < lowest) &&
           !atomic_compare_exchange_weak(&cache->overflow, &lowest, place))
        continue;
}

bool locus_cache_overflow(const struct locus_cache *cache, int *layer, int *slot)
{
    const int64_t place = atomic_load(&cache->overflow);
    if (place == 0) return false;
    *slot = (int)((place - 1) / cache->n_layer);
    *layer = (int)((place - 1) % cache->n_layer);
    return true;
}

void locus_cache_forget_overflow(struct locus_cache *cache)
{
    atomic_store(&cache->overflow, 0);
}

enum { PART = 64 }; /* dimensions of a key that are converted at a time */

/* Both return false for what the format can't hold. */
static bool put_key(const struct locus_cache *cache, unsigned char *panel, int lane, const float *k)
{
    bool fits = true;
    const int head_dim = cache->head_dim;
    float *floats = (float *)(void *)panel;
    uint16_t *halves = (uint16_t *)(void *)panel;
    if (cache->format == LOCUS_FORMAT_F32)
        for (int d = 0; d < head_dim; d++)
            floats[d * LOCUS_KEY_PANEL + lane] = k[d];
    else if (cache->format == LOCUS_FORMAT_F16)
        for (int first = 0; first < head_dim; first += PART) {
            uint16_t part[PART];
            const int n = head_dim - first < PART ? head_dim - first : PART;
            cache->kernels->to_f16(part, k + first, n);
            fits &= !overflows(part, k + first, n);
            for (int d = 0; d < n; d++)
                halves[(first + d) * LOCUS_KEY_PANEL + lane] = part[d];
        }
    else {
        int n_blocks = locus_cache_blocks(head_dim);
        int8_t *out = (int8_t *)(floats + n_blocks * LOCUS_KEY_PANEL);
        for (int b = 0; b < n_blocks; b++) {
            int8_t q[LOCUS_QUANT_BLOCK];
            int first = b * LOCUS_QUANT_BLOCK, n = head_dim - first;
            if (n > LOCUS_QUANT_BLOCK) n = LOCUS_QUANT_BLOCK;
            floats[b * LOCUS_KEY_PANEL + lane] = quantize_short(q, k + first, n);
            for (int d = 0; d < n; d++)
                out[(first + d) * LOCUS_KEY_PANEL + lane] = q[d];
        }
    }
    return fits;
}

static bool put_row(const struct locus_cache *cache, unsigned char *row, const float *v)
{
    const int head_dim = cache->head_dim;
    float *floats = (float *)(void *)row;
    uint16_t *halves = (uint16_t *)(void *)row;
    if (cache->format == LOCUS_FORMAT_F32)
        memcpy(row, v, (size_t)head_dim * sizeof *v);
    else if (cache->format == LOCUS_FORMAT_F16) {
        cache->kernels->to_f16(halves, v, head_dim);
        return !overflows(halves, v, head_dim);
    } else {
        int n_blocks = locus_cache_blocks(head_dim);
        int8_t *out = (int8_t *)(floats + n_blocks);
        for (int b = 0; b < n_blocks; b++) {
            int8_t q[LOCUS_QUANT_BLOCK];
            int first = b * LOCUS_QUANT_BLOCK, n = head_dim - first;
            if (n > LOCUS_QUANT_BLOCK) n = LOCUS_QUANT_BLOCK;
            floats[b] = quantize_short(q, v + first, n);
            memcpy(out + first, q, (size_t)n);
        }
    }
    return true;
}

void locus_cache_put_keys(struct locus_cache *cache, enum locus_key_store store, int layer,
                          int slot, const float *keys)
{
    const size_t panel = (size_t)(slot % LOCUS_KV_BLOCK) / LOCUS_KEY_PANEL;
    for (int head = 0; head < cache->n_head_kv; head++) {
        unsigned char *block = cache->keys[store] + key_offset(cache, layer, head, slot);
        const float *key = keys + (size_t)head * (size_t)cache->head_dim;
        if (!put_key(cache, block + panel * cache->key_panel_bytes, slot % LOCUS_KEY_PANEL, key))
            note_overflow(cache, layer, slot);
    }
}

/* One token's row of each head, in its place after the start of the head's block. */
static void put_rows(struct locus_cache *cache, unsigned char *store,
                     size_t (*offset)(const struct locus_cache *, int, int, int), int layer,
                     int slot, const float *rows)
{
    const size_t at = (size_t)(slot % LOCUS_KV_BLOCK) * cache->value_row_bytes;
    for (int head = 0; head < cache->n_head_kv; head++)
        if (!put_row(cache, store + offset(cache, layer, head, slot) + at,
                     rows + (size_t)head * (size_t)cache->head_dim))
            note_overflow(cache, layer, slot);
}

void locus_cache_put_key_rows(struct locus_cache *cache, int layer, int slot, const float *keys)
{
    put_rows(cache, cache->keys[LOCUS_KEYS], key_offset, layer, slot, keys);
}

void locus_cache_put_values(struct locus_cache *cache, int layer, int slot, const float *values)
{
    put_rows(cache, cache->values, value_offset, layer, slot, values);
}

static void get_row(const struct locus_cache *cache, const unsigned char *row, float *out)
{
    const int head_dim = cache->head_dim;
    const float *floats = (const float *)(const void *)row;
    const int8_t *q = (const int8_t *)(floats + locus_cache_blocks(head_dim));
    switch (cache->format) {
    case LOCUS_FORMAT_F32:
        memcpy(out, row, (size_t)head_dim * sizeof *out);
        break;
    case LOCUS_FORMAT_F16:
        cache->kernels->from_f16(out, (const uint16_t *)(const void *)row, head_dim);
        break;
    case LOCUS_FORMAT_Q8_0:
        for (int d = 0; d < head_dim; d++)
            out[d] = (float)q[d] * floats[d / LOCUS_QUANT_BLOCK];
        break;
    }
}

void locus_cache_get_key_rows(const struct locus_cache *cache, int layer, int first, int end,
                              float *out)
{
    const size_t head_dim = (size_t)cache->head_dim;
    for (int head = 0; head < cache->n_head_kv; head++) {
        const unsigned char *block = locus_cache_keys(cache, LOCUS_KEYS, layer, head, first);
        float *at = out + (size_t)head * head_dim;
        for (int j = first; j < end; j++, at += (size_t)cache->n_head_kv * head_dim)
            get_row(cache, block + (size_t)(j % LOCUS_KV_BLOCK) * cache->value_row_bytes, at);
    }
}

void locus_cache_pack_keys(const struct locus_cache *cache, const float *rows, int n, float *panels)
{
    const size_t head_dim = (size_t)cache->head_dim, whole = head_dim / 4 * 4;
    const size_t stride = (size_t)cache->n_head_kv * head_dim;
    for (int head = 0; head < cache->n_head_kv; head++)
        for (int first = 0; first < n; first += LOCUS_KEY_PANEL) {
            const unsigned char *lanes[LOCUS_KEY_PANEL];
            const float *keys = rows + (size_t)first * stride + (size_t)head * head_dim;
            float *panel = panels + (size_t)(head * LOCUS_KV_BLOCK + first) * head_dim;
            for (size_t lane = 0; lane < LOCUS_KEY_PANEL; lane++)
                lanes[lane] = (const unsigned char *)(keys + lane * stride);
            locus_transpose_dwords((uint32_t *)(void *)panel, lanes, LOCUS_KEY_PANEL, whole);
            for (size_t d = whole; d < head_dim; d++)
                for (size_t lane = 0; lane < LOCUS_KEY_PANEL; lane++)
                    panel[d * LOCUS_KEY_PANEL + lane] = keys[lane * stride + d];
        }
}
