/* The tensors a position scheme brings along, by name and shape. */
#ifndef LOCUS_POSITION_TENSORS_H
#define LOCUS_POSITION_TENSORS_H

#include "base/error.h"
#include "locus_position.h"

enum {
    LOCUS_ANY_ROWS = 0,     /* `rows`: as many as there are */
    LOCUS_WHOLE_MODEL = -1, /* `layer`: the tensor is one for all layers */
};

/* Looks for one tensor of a scheme. */
struct locus_tensor_query {
    const struct locus_position_env *env;
    const char *scheme; /* for messages */
    int layer;          /* `blk.<layer>.<name>` comes before `<name>`, unless LOCUS_WHOLE_MODEL */
};

/* *values = the tensor's floats [rows, cols], valid as long as the model. A vector is one row. A
 * tensor that is missing, or has another shape, is refused by its name and the shape expected.
 * *n_rows, if not NULL, is how many rows there are. */
enum locus_status locus_tensor_find(const struct locus_tensor_query *query, const char *name,
                                    int rows, int cols, const float **values, int *n_rows,
                                    locus_error *error);

/* Whether a tensor is one of the scheme's own, in a model of n_layer layers. */
bool locus_scheme_owns(const struct locus_position_scheme *scheme, const char *tensor, int n_layer);
/* The same of any scheme of the registry; of those alone that a SPEC names, for any of its layers.
 */
bool locus_schemes_own(const char *tensor, int n_layer);
bool locus_spec_owns(const char *spec, const char *tensor, int n_layer);

/* Whether there is a tensor of that name, whatever its shape. */
bool locus_tensor_exists(const struct locus_position_env *env, const char *name);

/* Whether any layer has one of names[n_names] of its own, `blk.<layer>.<name>`. */
bool locus_tensors_by_layer(const struct locus_position_env *env, const char *const *names,
                            size_t n_names);

#endif
