/* Finding ids by bytes, and the list they are collected in: see vocabulary.h. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "tokenizer/vocabulary.h"

static bool takes(const struct locus_vocabulary *vocabulary, int id, unsigned types)
{
    return types >> vocabulary->types[id] & 1 &&
           vocabulary->offsets[id + 1] > vocabulary->offsets[id];
}

static size_t hash(const char *bytes, size_t n_bytes)
{
    uint64_t value = 0xCBF29CE484222325u; /* FNV-1a, its high bits folded in */
    for (size_t i = 0; i < n_bytes; i++)
        value = (value ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    return (size_t)(value ^ value >> 32);
}

/* The slot that holds these bytes, or the empty one where they belong. */
static int32_t *slot_of(const struct locus_piece_map *map, const char *bytes, size_t n_bytes)
{
    for (size_t i = hash(bytes, n_bytes);; i++) {
        int32_t *slot = &map->slots[i & map->mask];
        if (!*slot) return slot;
        size_t length;
        const char *piece = locus_vocabulary_piece(map->vocabulary, *slot - 1, &length);
        if (length == n_bytes && !memcmp(piece, bytes, n_bytes)) return slot;
    }
}

enum locus_status locus_piece_map_create(struct locus_piece_map *map,
                                         const struct locus_vocabulary *vocabulary, unsigned types,
                                         locus_error *error)
{
    size_t n_slots = 16;
    while (n_slots < 2 * (size_t)vocabulary->n_tokens)
        n_slots *= 2;
    *map = (struct locus_piece_map){.vocabulary = vocabulary, .mask = n_slots - 1};
    map->slots = calloc(n_slots, sizeof *map->slots);
    if (!map->slots) return locus_fail_memory(error, n_slots * sizeof *map->slots);
    for (int id = 0; id < vocabulary->n_tokens; id++) {
        if (!takes(vocabulary, id, types)) continue;
        size_t n_bytes;
        const char *bytes = locus_vocabulary_piece(vocabulary, id, &n_bytes);
        int32_t *slot = slot_of(map, bytes, n_bytes);
        if (!*slot) *slot = id + 1;
        if (n_bytes > map->longest) map->longest = n_bytes;
    }
    return LOCUS_OK;
}

void locus_piece_map_free(struct locus_piece_map *map)
{
    free(map->slots);
    *map = (struct locus_piece_map){0};
}

int32_t locus_piece_map_find(const struct locus_piece_map *map, const char *bytes, size_t n_bytes)
{
    return n_bytes > map->longest ? -1 : *slot_of(map, bytes, n_bytes) - 1;
}

static int compare_entries(const void *left, const void *right)
{
    const struct locus_matcher_entry *a = left, *b = right;
    int order = memcmp(a->bytes, b->bytes, a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes);
    if (order) return order;
    if (a->n_bytes != b->n_bytes) return a->n_bytes < b->n_bytes ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

enum locus_status locus_matcher_create(struct locus_matcher *matcher,
                                       const struct locus_vocabulary *vocabulary, unsigned types,
                                       locus_error *error)
{
    *matcher = (struct locus_matcher){0};
    size_t count = 0;
    for (int id = 0; id < vocabulary->n_tokens; id++)
        count += takes(vocabulary, id, types);
    matcher->entries = calloc(count + 1, sizeof *matcher->entries);
    if (!matcher->entries) return locus_fail_memory(error, count * sizeof *matcher->entries);
    for (int id = 0; id < vocabulary->n_tokens; id++) {
        if (!takes(vocabulary, id, types)) continue;
        struct locus_matcher_entry *entry = &matcher->entries[matcher->n_entries++];
        entry->id = id;
        entry->bytes = locus_vocabulary_piece(vocabulary, id, &entry->n_bytes);
    }
    qsort(matcher->entries, count, sizeof *matcher->entries, compare_entries);
    size_t at = 0;
    for (int byte = 0; byte < 256; byte++) {
        matcher->first[byte] = at;
        while (at < count && (unsigned char)matcher->entries[at].bytes[0] == byte)
            at++;
    }
    matcher->first[256] = count;
    return LOCUS_OK;
}

void locus_matcher_free(struct locus_matcher *matcher)
{
    free(matcher->entries);
    *matcher = (struct locus_matcher){0};
}

/* The first of entries[low, high), which share `depth` bytes, whose next byte is >= `byte`; an
 * entry that ends there counts as -1. */
static size_t lower_bound(const struct locus_matcher *matcher, size_t low, size_t high,
                          size_t depth, int byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct locus_matcher_entry *entry = &matcher->entries[middle];
        int next = entry->n_bytes > depth ? (unsigned char)entry->bytes[depth] : -1;
        if (next < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t locus_matcher_find(const struct locus_matcher *matcher, const char *bytes, size_t n_bytes,
                          int32_t *id)
{
    if (n_bytes == 0) return 0;
    size_t low = matcher->first[(unsigned char)bytes[0]];
    size_t high = matcher->first[(unsigned char)bytes[0] + 1];
    size_t longest = 0;
    for (size_t depth = 1; low < high; depth++) {
        if (matcher->entries[low].n_bytes == depth) {
            longest = depth;
            *id = matcher->entries[low].id;
        }
        if (depth == n_bytes) break;
        int byte = (unsigned char)bytes[depth];
        low = lower_bound(matcher, low, high, depth, byte);
        high = lower_bound(matcher, low, high, depth, byte + 1);
    }
    return longest;
}

void locus_ids_grow(struct locus_ids *ids)
{
    size_t capacity = ids->capacity ? ids->capacity + ids->capacity / 2 : 64, n_bytes;
    int32_t *values = NULL;
    if (!ids->failed && locus_mul_size(capacity, sizeof *values, &n_bytes))
        values = realloc(ids->values, n_bytes);
    ids->failed = !values;
    if (!values) return;
    ids->values = values;
    ids->capacity = capacity;
}
