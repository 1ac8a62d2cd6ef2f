/* Tensors of position schemes: see tensors.h. */
#include "position/tensors.h"

#include <stdio.h>
#include <string.h>

#include "position/position.h"

enum { NAME_BYTES = 96 };

static const float *look_up(const struct locus_position_env *env, const char *name, int *rows,
                            int *cols)
{
    return env->tensor ? env->tensor(env->source, name, rows, cols) : NULL;
}

bool locus_tensor_exists(const struct locus_position_env *env, const char *name)
{
    int rows, cols;
    return look_up(env, name, &rows, &cols) != NULL;
}

bool locus_tensors_by_layer(const struct locus_position_env *env, const char *const *names,
                            size_t n_names)
{
    char of_layer[NAME_BYTES];
    for (int layer = 0; layer < env->n_layer; layer++)
        for (size_t i = 0; i < n_names; i++) {
            snprintf(of_layer, sizeof of_layer, "blk.%d.%s", layer, names[i]);
            if (locus_tensor_exists(env, of_layer)) return true;
        }
    return false;
}

/* What follows "blk.N." for a layer N of the model, written as numbers are; NULL: something else.
 */
static const char *after_layer(const char *tensor, int n_layer)
{
    const char *at = tensor + 4;
    int layer = 0;
    if (strncmp(tensor, "blk.", 4)) return NULL;
    const char *first = at;
    for (; *at >= '0' && *at <= '9' && layer < n_layer; at++)
        layer = 10 * layer + (*at - '0');
    if (at == first || *at != '.' || layer >= n_layer || (*first == '0' && at > first + 1))
        return NULL;
    return at + 1;
}

bool locus_scheme_owns(const struct locus_position_scheme *scheme, const char *tensor, int n_layer)
{
    static const char by_layer[] = "blk.N.";
    const char *rest = after_layer(tensor, n_layer);
    for (const char *const *name = scheme->tensors; name && *name; name++) {
        const bool layered = !strncmp(*name, by_layer, sizeof by_layer - 1);
        if (layered ? rest && !strcmp(rest, *name + sizeof by_layer - 1) : !strcmp(tensor, *name))
            return true;
    }
    return false;
}

bool locus_schemes_own(const char *tensor, int n_layer)
{
    for (size_t i = 0; i < locus_position_count(); i++)
        if (locus_scheme_owns(locus_position_at(i), tensor, n_layer)) return true;
    return false;
}

/* A word of the SPEC that is a scheme's name has a colon, a semicolon or nothing after it; what
 * else such words may be (an item of a list of layers) is no name. */
bool locus_spec_owns(const char *spec, const char *tensor, int n_layer)
{
    static const char ends[] = ":; ,=";
    for (const char *at = spec; *at;) {
        const size_t length = strcspn(at, ends);
        const struct locus_position_scheme *scheme = locus_position_find(at, length);
        if (scheme && locus_scheme_owns(scheme, tensor, n_layer)) return true;
        at += length;
        at += strspn(at, ends);
    }
    return false;
}

enum locus_status locus_tensor_find(const struct locus_tensor_query *query, const char *name,
                                    int rows, int cols, const float **values, int *n_rows,
                                    locus_error *error)
{
    char of_layer[NAME_BYTES] = "", expected[32];
    const char *found = name;
    int found_rows = 0, found_cols = 0;
    *values = NULL;
    if (query->layer >= 0) {
        snprintf(of_layer, sizeof of_layer, "blk.%d.%s", query->layer, name);
        *values = look_up(query->env, of_layer, &found_rows, &found_cols);
        if (*values) found = of_layer;
    }
    if (!*values) *values = look_up(query->env, name, &found_rows, &found_cols);
    if (rows == LOCUS_ANY_ROWS)
        snprintf(expected, sizeof expected, "[rows, %d]", cols);
    else
        snprintf(expected, sizeof expected, "[%d, %d]", rows, cols);
    if (!*values)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "position %s: the checkpoint has no tensor %s%s%s; expected %s",
                          query->scheme, name, of_layer[0] ? " or " : "", of_layer, expected);
    if (found_cols != cols || (rows != LOCUS_ANY_ROWS && found_rows != rows))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "position %s: %s is [%d, %d]; expected %s",
                          query->scheme, found, found_rows, found_cols, expected);
    if (n_rows) *n_rows = found_rows;
    return LOCUS_OK;
}
