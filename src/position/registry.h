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
    SCHEME(xpos)                                                                                   \
    SCHEME(alibi)                                                                                  \
    SCHEME(relative)                                                                               \
    SCHEME(t5)                                                                                     \
    SCHEME(kerple)                                                                                 \
    SCHEME(sandwich)                                                                               \
    SCHEME(fire)                                                                                   \
    SCHEME(transformer_xl)                                                                         \
    SCHEME(cope)                                                                                   \
    SCHEME(recurrent)

#define LOCUS_DECLARE_SCHEME(name) extern const struct locus_position_scheme locus_scheme_##name;
LOCUS_POSITION_SCHEMES(LOCUS_DECLARE_SCHEME)
#undef LOCUS_DECLARE_SCHEME

/* Other names that a SPEC may use; they print as the scheme's own. */
struct locus_position_alias {
    const char *alias;
    const char *name;    /* the scheme; NULL: the alias is refused, `preset` saying what is meant */
    const char *preset;  /* a key=value that the alias stands for, or NULL */
    const char *example; /* a key=value to try it with, or NULL */
};

extern const struct locus_position_alias locus_position_aliases[]; /* ends with a NULL alias */

/* The alias of that name, or NULL. */
const struct locus_position_alias *locus_position_find_alias(const char *name, size_t n_bytes);

#endif
