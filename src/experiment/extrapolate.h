/* One model under one SPEC on one text, at several lengths, for no more forward passes than they
 * need: a long window serves shorter ones that start where it does, as long as the scheme resolves
 * to the same SPEC for both lengths.
 */
#ifndef LOCUS_EXPERIMENT_EXTRAPOLATE_H
#define LOCUS_EXPERIMENT_EXTRAPOLATE_H

#include "experiment/perplexity.h"

struct locus_extrapolation {
    const locus_model *model;
    locus_session_params params; /* n_context is passed over */
    const struct locus_corpus *corpus;
    int n_lengths;
    struct locus_losses *losses; /* [n_lengths], longest first; those measured hold numbers */
    const char *const *specs;    /* [n_lengths]: as sessions of those lengths resolve them; NULL:
                                  * refused */
    const struct locus_watch *watch;

    locus_session *session; /* NULL, or of losses[session_index]'s length */
    int session_index;
};

/* Takes plans[n_lengths], longest first; the other members have to be set. Release in any case. */
enum locus_status locus_extrapolation_init(struct locus_extrapolation *extrapolation,
                                           const struct locus_plan *plans, locus_error *error);
void locus_extrapolation_free(struct locus_extrapolation *extrapolation);

/* Measures at losses[index], which is not refused, and what falls off for the shorter ones. *whole
 * is false if the watch stopped it. */
enum locus_status locus_extrapolation_measure(struct locus_extrapolation *extrapolation, int index,
                                              bool *whole, locus_error *error);

#endif
