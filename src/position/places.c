/* Positions drawn at random: see places.h. */
#include "position/places.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

/* drawn[n] of 0 .. range - 1, in order, each such sample as likely as any other: a place is taken
 * with the chance that there are as many left to take as places (Knuth, "The Art of Computer
 * Programming", volume 2, algorithm 3.4.2 S). */
static void draw(int *drawn, int n, int range, int seed)
{
    struct locus_rng rng;
    locus_rng_seed(&rng, (uint64_t)seed);
    for (int place = 0, taken = 0; taken < n; place++) {
        const uint64_t left = (uint64_t)(range - place);
        if ((int)((locus_rng_next(&rng) >> 32) * left >> 32) < n - taken) drawn[taken++] = place;
    }
}

enum locus_status locus_places_init(struct locus_places *places,
                                    const struct locus_places_query *query, locus_error *error)
{
    const char *scheme = query->scheme;
    const int n = query->env->session_length, offset = query->offset, most = query->most;
    const int random = locus_position_int(query->spec, "random");
    *places = (struct locus_places){.offset = offset, .random = random};
    if (offset > INT_MAX - (random > 0 ? random : n))
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position %s: offset is %d, past which positions to %d would be above %d",
                          scheme, offset, random > 0 ? random : n, INT_MAX);
    if (random == 0) return LOCUS_OK;
    if (random < n)
        return locus_fail(error, LOCUS_ERROR_POSITION,
                          "position %s: random is %d; expected at least the session's %d positions",
                          scheme, random, n);
    if (most > 0 && random > most)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position %s: random is %d; expected at most the %d positions that there "
                          "are",
                          scheme, random, most);
    places->drawn = calloc((size_t)n, sizeof *places->drawn);
    if (!places->drawn) return locus_fail_memory(error, (size_t)n * sizeof *places->drawn);
    draw(places->drawn, n, random, locus_position_int(query->spec, "seed"));
    return LOCUS_OK;
}

void locus_places_free(struct locus_places *places)
{
    free(places->drawn);
    *places = (struct locus_places){0};
}

const char *locus_places_lacks(const struct locus_position_spec *spec, const char *key)
{
    return !strcmp(key, "seed") && locus_position_int(spec, "random") == 0 ? "random" : NULL;
}
