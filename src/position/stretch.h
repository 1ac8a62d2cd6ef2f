/* Which settings bring a scheme to a length, and what they come to there. */
#ifndef LOCUS_POSITION_STRETCH_H
#define LOCUS_POSITION_STRETCH_H

#include "position/layers.h"

/* What a SPEC's values come to in texts of a length. NAN: the scheme has no such thing. */
struct locus_stretch {
    double factor;
    double base;      /* of the frequencies, as that length has it */
    double reach;     /* positions, an estimate; INFINITY: as many as you like */
    double attention; /* multiplies cosines and sines: scores by its square */
    double turns;     /* full circles that the lowest frequency goes through within the length, */
    double trained;   /* and unscaled within the trained length */
};

/* The trained length that a SPEC's values start from. */
double locus_stretch_trained(const struct locus_position_spec *spec,
                             const struct locus_position_env *env);

/* The index-th way to bring the scheme to env->session_length, from 0, appended as a SPEC, its
 * values rounded up; keys that it doesn't name are as in `own` (NULL: nothing). False past the last
 * way. Where a way is refused, *status and *error say why, and the SPEC is its name. */
bool locus_stretch_way(const struct locus_position_scheme *scheme, int index, const char *own,
                       const struct locus_position_env *env, struct locus_buffer *out,
                       enum locus_status *status, locus_error *error);

/* Fills *stretch for texts of env->session_length, or refuses values without one lowest frequency
 * and tensors that aren't there. `trained` is the trained length of the scheme alone. */
enum locus_status locus_stretch_read(struct locus_stretch *stretch,
                                     const struct locus_position_spec *spec, double trained,
                                     const struct locus_position_env *env, locus_error *error);

/* Whether there are ways at all. */
bool locus_stretch_any(const struct locus_position_scheme *scheme);

#endif
