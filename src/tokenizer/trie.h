/* Strings as a tree of their bytes: Unigram's pieces, to be walked forwards from a place in a text;
 * or added tokens, spelled backwards, to find what begins at every place of a text in one pass.
 */
#ifndef LOCUS_TOKENIZER_TRIE_H
#define LOCUS_TOKENIZER_TRIE_H

#include "tokenizer/vocabulary.h"

struct locus_trie_node {
    int32_t first; /* its children are nodes[first, first + n_children), by their bytes */
    int32_t id;    /* of the string that ends here; -1: none */
    uint16_t n_children;
    uint8_t byte;
};

/* Of a node of a backward tree (Aho and Corasick 1975, on reversed strings). */
struct locus_trie_link {
    int32_t fail;    /* the node of the longest other beginning that its path ends with */
    int32_t longest; /* the longest string that its path ends with, as a node; -1: none */
    int32_t space;   /* where a space leads */
    int32_t depth;   /* bytes of its path */
};

struct locus_trie {
    struct locus_trie_node *nodes; /* [n_nodes], the root first */
    struct locus_trie_link *links; /* [n_nodes]; NULL: a forward tree */
    size_t n_nodes;
};

/* The tree of some strings, none of them empty, which it sorts and doesn't keep; of equal ones the
 * lowest id counts. */
enum locus_status locus_trie_create(struct locus_trie *trie, struct locus_piece *pieces,
                                    size_t count, bool backwards, locus_error *error);
void locus_trie_free(struct locus_trie *trie);

/* A node's child by that byte, or -1. */
int32_t locus_trie_child(const struct locus_trie *trie, int32_t node, unsigned char byte);

/* From the end of a text to its beginning: states[n_bytes + 1] become the nodes of a backward tree
 * whose `longest` begins at that byte. O(n_bytes), whatever the strings. */
void locus_trie_scan(const struct locus_trie *trie, const char *text, size_t n_bytes,
                     int32_t *states);

#endif
