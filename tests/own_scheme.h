/* A position scheme that is not the library's: see own_scheme.c. */
#ifndef OWN_SCHEME_H
#define OWN_SCHEME_H

#include "locus_position.h"

extern const struct locus_position_scheme own_scheme;

#endif
