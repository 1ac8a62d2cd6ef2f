/* Words as people and files give them, n_bytes that need not end in NUL: compared with names, found
 * in lists, and the nearest right name to one that is mistyped.
 */
#ifndef LOCUS_BASE_TEXT_H
#define LOCUS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the word is that name. */
bool locus_text_is(const char *text, size_t n_bytes, const char *name);

/* In a list of choices, "half|adjacent": the index of the word, from 0, or -1. */
int locus_choice_find(const char *choices, const char *text, size_t n_bytes);

/* The choice of an index that the list has; its length in *n_bytes. */
const char *locus_choice_at(const char *choices, int index, size_t *n_bytes);

/* Insertions, deletions, changes and swaps of neighbours that turn one text into the other (optimal
 * string alignment). Of either the first LOCUS_DISTANCE_BYTES count. */
enum { LOCUS_DISTANCE_BYTES = 32 };
int locus_edit_distance(const char *a, size_t n_a, const char *b, size_t n_b);

/* The nearest of some names. Zero-initialise but for `text`; then offer every right name, in order.
 */
struct locus_suggestion {
    const char *text; /* what was typed: n_bytes of anything */
    size_t n_bytes;
    const char *nearest; /* the first of the names at the least distance; NULL before any */
    int distance;
};

void locus_suggestion_offer(struct locus_suggestion *suggestion, const char *name);

#endif
