/* One SPEC being read: what spec.c and layers.c share. */
#ifndef LOCUS_POSITION_SPEC_H
#define LOCUS_POSITION_SPEC_H

#include "base/spec.h"
#include "position/position.h"

/* The SPEC that is meant: `text`, or where it is NULL the name of `scheme`, or without one `own`,
 * the checkpoint's (any bytes). `scheme` (or NULL) is one that is not in the registry; it is
 * refused here if it has no name that a SPEC can say, or another abi. */
enum locus_status locus_spec_choose(struct locus_spec_source *source, const char *text,
                                    const char *own, const struct locus_position_scheme *scheme,
                                    locus_error *error);

/* Resolves one SPEC into *spec, every parameter with a value. If its NAME is that of `own` (NULL:
 * none), keys not named keep own's values (unless inherit=0); another NAME starts from the
 * registry's defaults, and then `own` may be wrong. `scheme` answers to its own name. An unknown
 * name or key, or a value out of range, is refused with what was expected and the nearest right
 * name. */
enum locus_status locus_spec_resolve(struct locus_position_spec *spec,
                                     const struct locus_spec_source *source, const char *own,
                                     const struct locus_position_scheme *scheme,
                                     const struct locus_position_env *env);

/* What any SPEC may set, beside the scheme's own parameters; ends with a NULL key. */
extern const struct locus_param locus_common_params[];

/* Parameter `index` of a SPEC, whose value is values[index]: the scheme's, then those of any. NULL
 * past the last. */
const struct locus_param *locus_spec_param_at(const struct locus_position_spec *spec, int index);

/* The scheme of that name, `users` (NULL: none) among them; NULL: there is none. */
const struct locus_position_scheme *locus_spec_scheme(struct locus_word name,
                                                      const struct locus_position_scheme *users);

#endif
