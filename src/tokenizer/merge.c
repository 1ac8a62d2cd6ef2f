/* The merging of byte-pair encoding: see merge.h. */
#include "tokenizer/merge.h"

#include <stdlib.h>

#include "base/array.h"

void locus_merge_add(struct locus_merge *merge, size_t start, size_t length, int32_t id)
{
    void *symbols = merge->symbols;
    size_t at = merge->n_symbols;
    if (merge->failed ||
        !locus_array_grow(&symbols, at, &merge->symbol_capacity, sizeof *merge->symbols))
        merge->failed = true;
    merge->symbols = symbols;
    if (merge->failed) return;
    merge->symbols[at] = (struct locus_symbol){.start = (uint32_t)start,
                                               .length = (uint32_t)length,
                                               .id = id,
                                               .previous = (int32_t)at - 1,
                                               .next = -1};
    if (at > 0) merge->symbols[at - 1].next = (int32_t)at;
    merge->n_symbols++;
}

static void heap_push(struct locus_merge *merge, struct locus_merge_candidate candidate)
{
    void *heap = merge->heap;
    if (!locus_array_grow(&heap, merge->n_heap, &merge->heap_capacity, sizeof *merge->heap))
        merge->failed = true;
    merge->heap = heap;
    if (merge->failed) return;
    size_t at = merge->n_heap++;
    while (at > 0 && candidate.order < merge->heap[(at - 1) / 2].order) {
        merge->heap[at] = merge->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    merge->heap[at] = candidate;
}

static struct locus_merge_candidate heap_pop(struct locus_merge *merge)
{
    struct locus_merge_candidate *heap = merge->heap;
    struct locus_merge_candidate top = heap[0], last = heap[--merge->n_heap];
    size_t at = 0, n_heap = merge->n_heap;
    for (size_t child; (child = 2 * at + 1) < n_heap; at = child) {
        if (child + 1 < n_heap && heap[child + 1].order < heap[child].order) child++;
        if (last.order <= heap[child].order) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

/* Puts the pair of symbol `left` and its neighbour into the heap, if it merges. */
static void consider(struct locus_merge *merge, int32_t left, locus_merge_rule *rule,
                     const void *context)
{
    const struct locus_symbol *a = &merge->symbols[left], *b = &merge->symbols[a->next];
    uint32_t rank;
    int32_t id;
    if (!rule(context, a, b, &rank, &id)) return;
    heap_push(merge, (struct locus_merge_candidate){.order = (uint64_t)rank << 32 | (uint32_t)left,
                                                    .length = a->length + b->length,
                                                    .id = id});
}

void locus_merge_run(struct locus_merge *merge, locus_merge_rule *rule, const void *context)
{
    struct locus_symbol *symbols = merge->symbols;
    for (size_t i = 0; i + 1 < merge->n_symbols; i++)
        consider(merge, (int32_t)i, rule, context);
    while (merge->n_heap > 0 && !merge->failed) {
        struct locus_merge_candidate best = heap_pop(merge);
        int32_t at = (int32_t)(uint32_t)best.order;
        struct locus_symbol *left = &symbols[at];
        if (left->length == 0 || left->next < 0) continue;
        struct locus_symbol *right = &symbols[left->next];
        /* Either of them grew since the pair was found: the pair is no longer there. */
        if (left->length + right->length != best.length) continue;
        left->length += right->length;
        left->id = best.id;
        left->next = right->next;
        right->length = 0;
        if (left->next >= 0) symbols[left->next].previous = at;
        if (left->previous >= 0) consider(merge, left->previous, rule, context);
        if (left->next >= 0) consider(merge, at, rule, context);
    }
}

void locus_merge_free(struct locus_merge *merge)
{
    free(merge->symbols);
    free(merge->heap);
    *merge = (struct locus_merge){0};
}
