/* What a session is to be: all that its parameters decide, before any memory is taken for it. */
#ifndef LOCUS_FORWARD_DESCRIBE_H
#define LOCUS_FORWARD_DESCRIBE_H

#include "forward/policy.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "position/layers.h"

struct locus_description {
    struct locus_kernels kernels;
    struct locus_layer_specs specs;
    char *position; /* full SPEC: that of specs */
    struct locus_policy policy;
    char *attention; /* the policy's canonical text */
    enum locus_cache_type cache_type;
    int n_threads, n_batch, capacity, first_position, n_axes;
    bool threads_given; /* so many, then; else at most so many */
};

/* What a scheme may know of a model in a session of that many positions, with the best kernels. */
struct locus_position_env locus_model_env(const struct locus_model *model, int session_length);

/* Describes a session of these parameters, or refuses them as locus_session_create does. Schemes
 * are made ready for a few positions only, and let go again: no table as long as the session is
 * made, and no cache. So it may still turn out that there is no memory for the session.
 *
 * text_length: tokens of the texts to come, where they are known, else 0. The SPEC is resolved for
 * it (env->text_length, and factor=auto), so that rows are as in one forward pass over the whole
 * text, however many positions the session holds. Free the description in any case. */
enum locus_status locus_session_describe(struct locus_description *description,
                                         const locus_model *model,
                                         const locus_session_params *params, int text_length,
                                         locus_error *error);
void locus_description_free(struct locus_description *description);

/* Refuses the text of a SPEC (NULL: the model's own) other than none where no layer attends. */
enum locus_status locus_model_check_position(const struct locus_model *model, const char *position,
                                             locus_error *error);

/* What schemes may know in a session of that description that holds n_positions. */
struct locus_position_env locus_description_env(const struct locus_description *description,
                                                const struct locus_model *model, int n_positions);

#endif
