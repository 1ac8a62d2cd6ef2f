/* One model, one SPEC, one text, several lengths: see extrapolate.h. */
#include "experiment/extrapolate.h"

#include <stdlib.h>
#include <string.h>

#include "experiment/setting.h"

enum locus_status locus_extrapolation_init(struct locus_extrapolation *extrapolation,
                                           const struct locus_plan *plans, locus_error *error)
{
    const size_t n = (size_t)extrapolation->n_lengths;
    extrapolation->losses = calloc(n, sizeof *extrapolation->losses);
    if (!extrapolation->losses) return locus_fail_memory(error, n * sizeof *extrapolation->losses);
    for (size_t i = 0; i < n; i++) {
        enum locus_status status =
            locus_losses_init(&extrapolation->losses[i], &plans[i], extrapolation->corpus, error);
        if (status) return status;
    }
    return LOCUS_OK;
}

void locus_extrapolation_free(struct locus_extrapolation *extrapolation)
{
    for (int i = 0; i < extrapolation->n_lengths && extrapolation->losses; i++)
        locus_losses_free(&extrapolation->losses[i]);
    free(extrapolation->losses);
    locus_session_free(extrapolation->session);
    extrapolation->losses = NULL;
    extrapolation->session = NULL;
}

static bool same_spec(const struct locus_extrapolation *extrapolation, int a, int b)
{
    const char *x = extrapolation->specs[a], *y = extrapolation->specs[b];
    return x && y && strcmp(x, y) == 0;
}

enum locus_status locus_extrapolation_measure(struct locus_extrapolation *extrapolation, int index,
                                              bool *whole, locus_error *error)
{
    struct locus_extrapolation *e = extrapolation;
    if (e->session && (e->session_index > index || !same_spec(e, e->session_index, index))) {
        locus_session_free(e->session);
        e->session = NULL;
    }
    if (!e->session) {
        e->session = locus_session_for_text(e->model, &e->params, e->losses[index].plan.length,
                                            locus_corpora_longest(e->corpus, 1), error);
        if (!e->session) return LOCUS_ERROR_UNSUPPORTED;
        e->session_index = index;
    }
    int n = 1;
    while (index + n < e->n_lengths && same_spec(e, index, index + n))
        n++;
    return locus_measure(e->session, e->corpus, e->losses + index, n, e->watch, whole, error);
}
