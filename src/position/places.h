/* Where positions are for a scheme of absolute positions: at themselves, or drawn from a longer
 * range (the keys `random` and `seed`).
 *
 * Randomised positional encodings (Ruoss et al., "Randomized Positional Encodings Boost Length
 * Generalization of Transformers", arXiv 2305.16843, section 3): n tokens take a sorted sample,
 * without replacement, of 0 .. random - 1. A session draws one for all the positions that it may
 * have, and a text has the first of them, so that it makes no difference how it is cut.
 */
#ifndef LOCUS_POSITION_PLACES_H
#define LOCUS_POSITION_PLACES_H

#include "base/error.h"
#include "locus_position.h"

struct locus_places {
    int offset; /* added to all */
    int random; /* 0: positions are at themselves */
    int *drawn; /* [env->session_length], rising; NULL: none */
};

/* Rows of a scheme's table of parameters. */
#define LOCUS_PLACE_PARAMS                                                                         \
    {"random", LOCUS_PARAM_INT,                                                                    \
     "0",      0,                                                                                  \
     1 << 24,  NULL,                                                                               \
     false,    "above 0: positions are drawn, in order, from as many (Ruoss et al.)"},             \
    {                                                                                              \
        "seed", LOCUS_PARAM_INT, "0", 0, 0x7FFFFFFF, NULL, false, "random: of the draw"            \
    }

/* What a scheme asks for. */
struct locus_places_query {
    const char *scheme; /* for messages */
    const struct locus_position_env *env;
    const struct locus_position_spec *spec;
    int offset; /* 0 where the scheme adds its own */
    int most;   /* places that there are; 0: as many as you like */
};

/* Draws them. Refused are fewer places than the session has positions, more than there are, and an
 * offset past what an int holds. Free it in any case. */
enum locus_status locus_places_init(struct locus_places *places,
                                    const struct locus_places_query *query, locus_error *error);
void locus_places_free(struct locus_places *places);

/* The place of a position below env->session_length. */
static inline int locus_place(const struct locus_places *places, int position)
{
    return places->offset + (places->drawn ? places->drawn[position] : position);
}

/* The hook `lacks`, of these keys. */
const char *locus_places_lacks(const struct locus_position_spec *spec, const char *key);

#endif
