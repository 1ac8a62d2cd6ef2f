/* Sessions for texts of a known length: see setting.h. */
#include "experiment/setting.h"

#include <limits.h>

#include "forward/session.h"
#include "position/layers.h"

/* Appends what params' SPEC is for texts of that length. */
static enum locus_status resolve(const locus_model *model, const locus_session_params *params,
                                 int length, struct locus_buffer *resolved, locus_error *error)
{
    const int first = params->first_position;
    struct locus_position_env env =
        locus_model_env(model, length < INT_MAX - first ? first + length : INT_MAX);
    struct locus_layer_specs specs;
    env.text_length = length;
    enum locus_status status = locus_layer_specs_resolve(
        &specs, params->position, model->config.position, params->scheme, &env, error);
    if (status) return status;
    locus_layer_specs_print(&specs, resolved);
    return resolved->failed ? locus_fail_memory(error, resolved->length) : LOCUS_OK;
}

locus_session *locus_session_for_text(const locus_model *model, const locus_session_params *params,
                                      int length, int n_positions, locus_error *error)
{
    locus_session_params fitted = *params;
    struct locus_buffer resolved = {0};
    locus_session *session = NULL;
    fitted.n_context = n_positions < length ? n_positions : length;
    if (!resolve(model, params, length, &resolved, error)) {
        fitted.position = resolved.bytes;
        session = locus_session_create(model, &fitted, error);
    }
    locus_buffer_free(&resolved);
    return session;
}

locus_session *locus_session_for_length(const locus_model *model,
                                        const locus_session_params *params, int length,
                                        locus_error *error)
{
    return locus_session_for_text(model, params, length, length, error);
}
