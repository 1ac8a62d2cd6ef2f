/* The nearest of some names to one that is mistyped. */
#ifndef LOCUS_POSITION_SUGGEST_H
#define LOCUS_POSITION_SUGGEST_H

#include <stddef.h>

/* Zero-initialise but for `text`; then offer every right name, in order. */
struct locus_suggestion {
    const char *text; /* what was typed: n_bytes of anything */
    size_t n_bytes;
    const char *nearest; /* the first of the names at the least distance; NULL before any */
    int distance;
};

void locus_suggestion_offer(struct locus_suggestion *suggestion, const char *name);

#endif
