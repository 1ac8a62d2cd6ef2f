/* Sessions for texts of a known length: see setting.h. */
#include "experiment/setting.h"

#include <limits.h>
#include <string.h>

#include "forward/session.h"

static bool has_key(const struct locus_position_scheme *scheme, const char *key)
{
    for (const struct locus_position_param *param = scheme->params; param && param->key; param++)
        if (strcmp(param->key, key) == 0) return true;
    return false;
}

/* Whether a SPEC sets `length`. */
static bool sets_length(const char *spec)
{
    return strstr(spec, ":length=") || strstr(spec, ",length=");
}

/* Rows that each see their keys in their own way do so because of the length they stand at. */
static bool depends_on_row(const struct locus_position *position)
{
    return has_key(position->spec.scheme, "length") && position->frame == LOCUS_FRAME_QUERY;
}

/* Appends what params' SPEC is for texts of that length, factor=auto resolved. */
static enum locus_status resolve(const locus_model *model, const locus_session_params *params,
                                 int length, struct locus_buffer *resolved, locus_error *error)
{
    const int first = params->first_position;
    const struct locus_position_env env =
        locus_model_env(model, length < INT_MAX - first ? first + length : INT_MAX);
    struct locus_position_spec spec;
    enum locus_status status =
        locus_position_resolve(&spec, params->position, model->config.position, NULL, &env, error);
    if (status) return status;
    locus_position_print(&spec, resolved);
    return resolved->failed ? locus_fail_memory(error, resolved->length) : LOCUS_OK;
}

/* The session of a SPEC that is resolved but for the length it may depend on. */
static locus_session *create(const locus_model *model, const locus_session_params *params,
                             int length, struct locus_buffer *resolved, locus_error *error)
{
    const char *spec = params->position ? params->position : model->config.position;
    locus_session_params fitted = *params;
    fitted.position = resolved->bytes;
    locus_session *session = locus_session_create(model, &fitted, error);
    if (!session || !depends_on_row(&session->position) || sets_length(spec) ||
        sets_length(resolved->bytes))
        return session;
    locus_session_free(session);
    const bool bare = !strchr(resolved->bytes, ':');
    locus_buffer_printf(resolved, "%clength=%d", bare ? ':' : ',', length);
    fitted.position = resolved->bytes;
    if (!resolved->failed) return locus_session_create(model, &fitted, error);
    locus_fail_memory(error, resolved->length);
    return NULL;
}

locus_session *locus_session_for_text(const locus_model *model, const locus_session_params *params,
                                      int length, int n_positions, locus_error *error)
{
    locus_session_params fitted = *params;
    fitted.n_context = n_positions < length ? n_positions : length;
    if (params->scheme) return locus_session_create(model, &fitted, error);
    struct locus_buffer resolved = {0};
    locus_session *session = resolve(model, params, length, &resolved, error)
                                 ? NULL
                                 : create(model, &fitted, length, &resolved, error);
    locus_buffer_free(&resolved);
    return session;
}

locus_session *locus_session_for_length(const locus_model *model,
                                        const locus_session_params *params, int length,
                                        locus_error *error)
{
    return locus_session_for_text(model, params, length, length, error);
}
