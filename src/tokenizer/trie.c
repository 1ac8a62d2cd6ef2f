/* Strings as a tree of their bytes: see trie.h.
 *
 * Nodes are made level by level from the sorted strings, each from the run of strings that share
 * its path, so that a node's children lie side by side, and a link leads to a node made before.
 */
#include "tokenizer/trie.h"

#include <stdlib.h>

#include "base/array.h"

/* The byte at a depth of a string's path. */
static unsigned char byte_at(const struct locus_piece *piece, size_t depth, bool backwards)
{
    return (unsigned char)piece->bytes[backwards ? piece->n_bytes - 1 - depth : depth];
}

static int compare(const struct locus_piece *a, const struct locus_piece *b, bool backwards)
{
    size_t least = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
    for (size_t i = 0; i < least; i++) {
        int order = byte_at(a, i, backwards) - byte_at(b, i, backwards);
        if (order) return order;
    }
    if (a->n_bytes != b->n_bytes) return a->n_bytes < b->n_bytes ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int compare_forwards(const void *left, const void *right)
{
    return compare(left, right, false);
}

static int compare_backwards(const void *left, const void *right)
{
    return compare(left, right, true);
}

struct builder {
    struct locus_trie *trie;
    const struct locus_piece *pieces;
    bool backwards;
    size_t *begins, *ends; /* [n_nodes]: the strings that share a node's path */
    size_t node_capacity, begin_capacity, end_capacity;
};

static bool add_node(struct builder *builder, unsigned char byte, size_t begin, size_t end)
{
    struct locus_trie *trie = builder->trie;
    size_t at = trie->n_nodes;
    void *nodes = trie->nodes, *begins = builder->begins, *ends = builder->ends;
    bool grown = at < INT32_MAX &&
                 locus_array_grow(&nodes, at, &builder->node_capacity, sizeof *trie->nodes) &&
                 locus_array_grow(&begins, at, &builder->begin_capacity, sizeof *builder->begins) &&
                 locus_array_grow(&ends, at, &builder->end_capacity, sizeof *builder->ends);
    trie->nodes = nodes;
    builder->begins = begins;
    builder->ends = ends;
    if (!grown) return false;
    trie->nodes[at] = (struct locus_trie_node){.first = -1, .id = -1, .byte = byte};
    builder->begins[at] = begin;
    builder->ends[at] = end;
    trie->n_nodes++;
    return true;
}

/* Takes the string that ends at a node, and makes its children. */
static bool grow(struct builder *builder, size_t node, size_t depth)
{
    struct locus_trie *trie = builder->trie;
    const struct locus_piece *pieces = builder->pieces;
    size_t at = builder->begins[node], end = builder->ends[node];
    if (at < end && pieces[at].n_bytes == depth) trie->nodes[node].id = pieces[at].id;
    while (at < end && pieces[at].n_bytes == depth)
        at++;
    trie->nodes[node].first = (int32_t)trie->n_nodes;
    while (at < end) {
        unsigned char byte = byte_at(&pieces[at], depth, builder->backwards);
        size_t next = at + 1;
        while (next < end && byte_at(&pieces[next], depth, builder->backwards) == byte)
            next++;
        if (!add_node(builder, byte, at, next)) return false;
        trie->nodes[node].n_children++;
        at = next;
    }
    return true;
}

static bool build(struct builder *builder, size_t count)
{
    struct locus_trie *trie = builder->trie;
    if (!add_node(builder, 0, 0, count)) return false;
    for (size_t node = 0, depth = 0; node < trie->n_nodes; depth++)
        for (size_t level_end = trie->n_nodes; node < level_end; node++)
            if (!grow(builder, node, depth)) return false;
    return true;
}

int32_t locus_trie_child(const struct locus_trie *trie, int32_t node, unsigned char byte)
{
    int32_t low = trie->nodes[node].first, high = low + trie->nodes[node].n_children;
    const int32_t end = high;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (trie->nodes[middle].byte < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && trie->nodes[low].byte == byte ? low : -1;
}

/* Where a byte leads from a node: to the longest path that what is read so far ends with. */
static int32_t step(const struct locus_trie *trie, int32_t node, unsigned char byte)
{
    for (;; node = trie->links[node].fail) {
        int32_t child = locus_trie_child(trie, node, byte);
        if (child >= 0) return child;
        if (node == 0) return 0;
    }
}

/* Links every node to ones of lesser depth, whose links are there already. */
static bool link_nodes(struct locus_trie *trie)
{
    trie->links = calloc(trie->n_nodes, sizeof *trie->links);
    if (!trie->links) return false;
    trie->links[0].longest = -1;
    for (size_t i = 0; i < trie->n_nodes; i++) {
        const struct locus_trie_node *node = &trie->nodes[i];
        struct locus_trie_link *link = &trie->links[i];
        if (i > 0) link->longest = node->id >= 0 ? (int32_t)i : trie->links[link->fail].longest;
        int32_t space = locus_trie_child(trie, (int32_t)i, ' ');
        link->space = space >= 0 ? space : i > 0 ? trie->links[link->fail].space : 0;
        for (int32_t child = node->first; child < node->first + node->n_children; child++) {
            trie->links[child].depth = link->depth + 1;
            trie->links[child].fail = i > 0 ? step(trie, link->fail, trie->nodes[child].byte) : 0;
        }
    }
    return true;
}

enum locus_status locus_trie_create(struct locus_trie *trie, struct locus_piece *pieces,
                                    size_t count, bool backwards, locus_error *error)
{
    *trie = (struct locus_trie){0};
    qsort(pieces, count, sizeof *pieces, backwards ? compare_backwards : compare_forwards);
    struct builder builder = {.trie = trie, .pieces = pieces, .backwards = backwards};
    bool whole = build(&builder, count) && (!backwards || link_nodes(trie));
    free(builder.begins);
    free(builder.ends);
    if (whole) return LOCUS_OK;
    size_t n_bytes = trie->n_nodes * sizeof *trie->nodes;
    locus_trie_free(trie);
    return locus_fail_memory(error, n_bytes);
}

void locus_trie_free(struct locus_trie *trie)
{
    free(trie->nodes);
    free(trie->links);
    *trie = (struct locus_trie){0};
}

void locus_trie_scan(const struct locus_trie *trie, const char *text, size_t n_bytes,
                     int32_t *states)
{
    states[n_bytes] = 0;
    for (size_t i = n_bytes; i-- > 0;)
        states[i] = step(trie, states[i + 1], (unsigned char)text[i]);
}
