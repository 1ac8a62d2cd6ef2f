/* Finding ids by bytes, and the list they are collected in: see vocabulary.h. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "tokenizer/rules.h"
#include "tokenizer/vocabulary.h"

static bool takes(const struct locus_vocabulary *vocabulary, int id, unsigned types)
{
    return types >> vocabulary->types[id] & 1 &&
           vocabulary->offsets[id + 1] > vocabulary->offsets[id];
}

static int compare_bytes(const struct locus_piece *piece, const char *bytes, size_t n_bytes)
{
    size_t least = piece->n_bytes < n_bytes ? piece->n_bytes : n_bytes;
    int order = memcmp(piece->bytes, bytes, least);
    return order ? order : piece->n_bytes < n_bytes ? -1 : piece->n_bytes > n_bytes;
}

static int compare_pieces(const void *left, const void *right)
{
    const struct locus_piece *a = left, *b = right;
    int order = compare_bytes(a, b->bytes, b->n_bytes);
    return order ? order : a->id < b->id ? -1 : a->id > b->id;
}

struct locus_piece *locus_pieces_collect(const struct locus_vocabulary *vocabulary, unsigned types,
                                         size_t *count)
{
    *count = 0;
    for (int id = 0; id < vocabulary->n_tokens; id++)
        *count += takes(vocabulary, id, types);
    struct locus_piece *pieces = calloc(*count + 1, sizeof *pieces), *next = pieces;
    for (int id = 0; pieces && id < vocabulary->n_tokens; id++) {
        if (!takes(vocabulary, id, types)) continue;
        next->id = id;
        next->bytes = locus_vocabulary_piece(vocabulary, id, &next->n_bytes);
        next++;
    }
    return pieces;
}

static size_t hash(const char *bytes, size_t n_bytes)
{
    uint64_t value = 0xCBF29CE484222325u; /* FNV-1a, its high bits folded in */
    for (size_t i = 0; i < n_bytes; i++)
        value = (value ^ (unsigned char)bytes[i]) * 0x100000001B3u;
    return (size_t)(value ^ value >> 32);
}

/* The slot that holds these bytes, or the empty one where they belong; NULL: neither is near. */
static int32_t *slot_of(const struct locus_piece_map *map, const char *bytes, size_t n_bytes,
                        size_t *n_compared)
{
    size_t first = hash(bytes, n_bytes);
    for (size_t i = 0; i < LOCUS_PROBES; i++) {
        int32_t *slot = &map->slots[(first + i) & map->mask];
        if (!*slot) return slot;
        size_t length;
        const char *piece = locus_vocabulary_piece(map->vocabulary, *slot - 1, &length);
        if (n_compared) ++*n_compared;
        if (length == n_bytes && !memcmp(piece, bytes, n_bytes)) return slot;
    }
    return NULL;
}

enum locus_status locus_piece_map_create(struct locus_piece_map *map,
                                         const struct locus_vocabulary *vocabulary, unsigned types,
                                         locus_error *error)
{
    size_t n_slots = 16, count;
    *map = (struct locus_piece_map){.vocabulary = vocabulary};
    map->others = locus_pieces_collect(vocabulary, types, &count);
    if (!map->others) return locus_fail_memory(error, count * sizeof *map->others);
    while (n_slots < 2 * count)
        n_slots *= 2;
    map->mask = n_slots - 1;
    map->slots = calloc(n_slots, sizeof *map->slots);
    if (!map->slots) return locus_fail_memory(error, n_slots * sizeof *map->slots);
    for (size_t i = 0; i < count; i++) {
        struct locus_piece piece = map->others[i];
        int32_t *slot = slot_of(map, piece.bytes, piece.n_bytes, NULL);
        if (!slot)
            map->others[map->n_others++] = piece;
        else if (!*slot)
            *slot = piece.id + 1;
        if (piece.n_bytes > map->longest) map->longest = piece.n_bytes;
    }
    qsort(map->others, map->n_others, sizeof *map->others, compare_pieces);
    /* Smaller now, so it can't fail; if it does, the larger block will do. */
    void *shrunk = realloc(map->others, (map->n_others + 1) * sizeof *map->others);
    if (shrunk) map->others = shrunk;
    return LOCUS_OK;
}

void locus_piece_map_free(struct locus_piece_map *map)
{
    free(map->slots);
    free(map->others);
    *map = (struct locus_piece_map){0};
}

int32_t locus_piece_map_find(const struct locus_piece_map *map, const char *bytes, size_t n_bytes,
                             size_t *n_compared)
{
    int32_t id = -1;
    if (n_bytes > map->longest) return -1;
    const int32_t *slot = slot_of(map, bytes, n_bytes, n_compared);
    if (slot) return *slot - 1;
    for (size_t low = 0, high = map->n_others; low < high;) {
        size_t middle = low + (high - low) / 2;
        const struct locus_piece *piece = &map->others[middle];
        int order = compare_bytes(piece, bytes, n_bytes);
        if (n_compared) ++*n_compared;
        if (order == 0) id = piece->id; /* one of a lower id may stand before it */
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return id;
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
