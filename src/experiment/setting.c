/* Sessions for texts of a known length: see setting.h. */
#include "experiment/setting.h"

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
    return has_key(position->spec.scheme, "length") && locus_position_per_row_keys(position);
}

locus_session *locus_session_for_length(const locus_model *model,
                                        const locus_session_params *params, int length,
                                        locus_error *error)
{
    locus_session_params fitted = *params;
    fitted.n_context = length;
    locus_session *session = locus_session_create(model, &fitted, error);
    if (!session || params->scheme || !depends_on_row(&session->position)) return session;
    const char *spec = params->position ? params->position : model->config.position;
    if (sets_length(spec)) return session;
    locus_session_free(session);
    struct locus_buffer longer = {0};
    locus_buffer_printf(&longer, "%s%clength=%d", spec, strchr(spec, ':') ? ',' : ':', length);
    fitted.position = longer.bytes;
    if (longer.failed)
        locus_fail_memory(error, strlen(spec));
    else
        session = locus_session_create(model, &fitted, error);
    if (longer.failed) session = NULL;
    locus_buffer_free(&longer);
    return session;
}
