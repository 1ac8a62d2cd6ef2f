/* Sessions for texts of a known length. */
#ifndef LOCUS_EXPERIMENT_SETTING_H
#define LOCUS_EXPERIMENT_SETTING_H

#include "forward/describe.h"

/* A session that holds `length` positions, its SPEC resolved for texts of that length
 * (env->text_length), so that rows are as in one forward pass over the whole text.
 * params->n_context is passed over. */
locus_session *locus_session_for_length(const locus_model *model,
                                        const locus_session_params *params, int length,
                                        locus_error *error);

/* The same for windows of `length` over texts of which none fills more than n_positions: the
 * session holds no more than those. */
locus_session *locus_session_for_text(const locus_model *model, const locus_session_params *params,
                                      int length, int n_positions, locus_error *error);

/* What locus_session_for_text would give, without making it. Free it in any case. */
enum locus_status locus_describe_for_text(struct locus_description *description,
                                          const locus_model *model,
                                          const locus_session_params *params, int length,
                                          int n_positions, locus_error *error);

#endif
