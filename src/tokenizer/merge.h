/* The merging of byte-pair encoding, whatever decides which pairs merge.
 *
 * Symbols stand in a linked list; every adjacent pair that may merge is in a heap. The pair of the
 * lowest rank merges first, of equal ones the leftmost: O(n log n), no recursion.
 */
#ifndef LOCUS_TOKENIZER_MERGE_H
#define LOCUS_TOKENIZER_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct locus_symbol {
    uint32_t start, length; /* its bytes in the text; length 0: merged into another */
    int32_t id;             /* its token, or -1 */
    int32_t previous, next; /* symbol indices, or -1 */
};

struct locus_merge_candidate {
    uint64_t order;  /* rank << 32 | left symbol: the smallest merges first */
    uint32_t length; /* bytes of both symbols when it was found; another length now: it is stale */
    int32_t id;      /* what they merge into */
};

/* Memory of a run, kept for the next one. Zero-initialise. */
struct locus_merge {
    struct locus_symbol *symbols;
    size_t n_symbols, symbol_capacity;
    struct locus_merge_candidate *heap;
    size_t n_heap, heap_capacity;
    bool failed; /* an allocation failed */
};

/* True if two neighbours merge: then *rank and *id say how early, and into what. */
typedef bool locus_merge_rule(const void *context, const struct locus_symbol *left,
                              const struct locus_symbol *right, uint32_t *rank, int32_t *id);

/* Starts anew. Symbols are then added from left to right, and run. */
static inline void locus_merge_begin(struct locus_merge *merge)
{
    merge->n_symbols = merge->n_heap = 0;
}
void locus_merge_add(struct locus_merge *merge, size_t start, size_t length, int32_t id);

/* Merges until nothing merges. What is left is symbols[0], its next, and so on. */
void locus_merge_run(struct locus_merge *merge, locus_merge_rule *rule, const void *context);
void locus_merge_free(struct locus_merge *merge);

#endif
