/* Sessions for texts of a known length: see setting.h. */
#include "experiment/setting.h"

/* A text shorter than the windows needs no more than its own positions. */
static locus_session_params fit(const locus_session_params *params, int length, int n_positions)
{
    locus_session_params fitted = *params;
    fitted.n_context = n_positions < length ? n_positions : length;
    return fitted;
}

enum locus_status locus_describe_for_text(struct locus_description *description,
                                          const locus_model *model,
                                          const locus_session_params *params, int length,
                                          int n_positions, locus_error *error)
{
    const locus_session_params fitted = fit(params, length, n_positions);
    return locus_session_describe(description, model, &fitted, length, error);
}

locus_session *locus_session_for_text(const locus_model *model, const locus_session_params *params,
                                      int length, int n_positions, locus_error *error)
{
    const locus_session_params fitted = fit(params, length, n_positions);
    return locus_session_create_for(model, &fitted, length, error);
}

locus_session *locus_session_for_length(const locus_model *model,
                                        const locus_session_params *params, int length,
                                        locus_error *error)
{
    return locus_session_for_text(model, params, length, length, error);
}
