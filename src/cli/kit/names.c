/* Names people type: see names.h. */
#include "cli/kit/names.h"

#include <string.h>

#include "base/text.h"

struct locus_nearest locus_nearest_begin(const char *name)
{
    /* A third of the letters may be wrong, at least one. */
    size_t length = strlen(name);
    return (struct locus_nearest){.name = name, .distance = (length < 3 ? 1 : length / 3) + 1};
}

void locus_nearest_offer(struct locus_nearest *nearest, const char *candidate)
{
    size_t n_name = strlen(nearest->name), n_candidate = strlen(candidate);
    if (n_name > LOCUS_DISTANCE_BYTES || n_candidate > LOCUS_DISTANCE_BYTES) return;
    size_t distance = (size_t)locus_edit_distance(nearest->name, n_name, candidate, n_candidate);
    if (distance >= nearest->distance || distance >= n_candidate) return;
    nearest->distance = distance;
    nearest->best = candidate;
}
