/* Names people type: the nearest right one to a wrong one. */
#ifndef LOCUS_CLI_NAMES_H
#define LOCUS_CLI_NAMES_H

#include <stddef.h>

/* The search for the candidate nearest to `name`; offer every candidate in turn. `best` is NULL
 * where none is near enough to have been meant. */
struct locus_nearest {
    const char *name, *best;
    size_t distance;
};

struct locus_nearest locus_nearest_begin(const char *name);
void locus_nearest_offer(struct locus_nearest *nearest, const char *candidate);

#endif
