/* The list of position schemes: a new one is a new file and one line here. */
#ifndef LOCUS_POSITION_REGISTRY_H
#define LOCUS_POSITION_REGISTRY_H

#include "locus_position.h"

/* In the order of help and error messages. SCHEME(x) stands for locus_scheme_x, the const struct at
 * the end of x.c. */
#define LOCUS_POSITION_SCHEMES(SCHEME)                                                             \
    SCHEME(none)                                                                                   \
    SCHEME(learned)                                                                                \
    SCHEME(sinusoidal)                                                                             \
    SCHEME(rope)                                                                                   \
    SCHEME(alibi)

#define LOCUS_DECLARE_SCHEME(name) extern const struct locus_position_scheme locus_scheme_##name;
LOCUS_POSITION_SCHEMES(LOCUS_DECLARE_SCHEME)
#undef LOCUS_DECLARE_SCHEME

/* Other names that a SPEC may use; they print as the scheme's own. */
struct locus_position_alias {
    const char *alias, *name;
};

extern const struct locus_position_alias locus_position_aliases[]; /* ends with a NULL alias */

#endif
