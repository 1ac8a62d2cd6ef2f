/* The position schemes: a new one is a new file, its name here, and a line of registry.c. */
#ifndef LOCUS_POSITION_REGISTRY_H
#define LOCUS_POSITION_REGISTRY_H

#include "locus_position.h"

/* Each is the const struct at the end of its file. */
extern const struct locus_position_scheme locus_scheme_none, locus_scheme_learned,
    locus_scheme_sinusoidal, locus_scheme_rope, locus_scheme_xpos, locus_scheme_alibi,
    locus_scheme_relative, locus_scheme_t5, locus_scheme_kerple, locus_scheme_sandwich,
    locus_scheme_fire, locus_scheme_transformer_xl, locus_scheme_cope, locus_scheme_fox,
    locus_scheme_dape, locus_scheme_path, locus_scheme_recurrent;

/* Other names that a SPEC may use; they print as the scheme's own. */
struct locus_position_alias {
    const char *alias;
    const char *name;    /* the scheme; NULL: the alias is refused, `preset` saying what is meant */
    const char *preset;  /* a key=value that the alias stands for, or NULL */
    const char *example; /* a key=value to try it with, or NULL */
    const char *needs;   /* "key|key": without one of them it changes nothing; or NULL */
};

extern const struct locus_position_alias locus_position_aliases[]; /* ends with a NULL alias */

/* What a SPEC says of that other programs have options for. */
struct locus_foreign_option {
    const char *names; /* without dashes, '|' between them */
    const char *hint;
};

extern const struct locus_foreign_option locus_position_foreign[]; /* ends with NULL names */

/* The alias of that name, or NULL. */
const struct locus_position_alias *locus_position_find_alias(const char *name, size_t n_bytes);

#endif
