/* What a position scheme does, as numbers: the data behind plots.
 *
 * A scheme is asked through its hooks alone, so every scheme that has the hook can be probed, and
 * none is known by name. A scheme without it is refused (LOCUS_ERROR_UNSUPPORTED) with the reason
 * and the probes that fit.
 */
#ifndef LOCUS_EXPERIMENT_PROBE_H
#define LOCUS_EXPERIMENT_PROBE_H

#include "model/model.h"
#include "position/position.h"

/* A scheme in use outside a session. */
struct locus_scheme_probe {
    const struct locus_model *model;
    struct locus_positions positions;
    int length; /* positions 0 .. length-1 */
};

/* Resolves a SPEC (NULL: the checkpoint's own) for `length` positions; 0: as many as the model was
 * trained on, or fewer where the scheme has fewer. Close it in any case. */
enum locus_status locus_scheme_probe_open(struct locus_scheme_probe *probe,
                                          const struct locus_model *model, const char *spec,
                                          int length, locus_error *error);
void locus_scheme_probe_close(struct locus_scheme_probe *probe);

/* What the scheme adds to the embedding: table[length, n_embd], a row a position. tokens[length]
 * are the text it is added to; NULL: none, which a scheme that reads the text refuses. */
enum locus_status locus_probe_table(const struct locus_scheme_probe *probe, const int32_t *tokens,
                                    float *table, locus_error *error);

/* Cosine of every two rows of table[n, n_cols]: cosines[n, n]; NaN where a row is all zeros. */
void locus_probe_similarity(const float *table, int n, int n_cols, float *cosines);

/* What a layer adds to the scores of the query at position length-1: bias[n_head, length], a column
 * a distance, from 0 on. Where the bias depends on the query, it is that of a query of zeros. */
enum locus_status locus_probe_bias(const struct locus_scheme_probe *probe, int layer, float *bias,
                                   locus_error *error);

/* The mean over all unit vectors u of q.k, where q is u rotated to position length-1 and k is u
 * rotated to a position `distance` before it: products[length]. That mean is the trace of the
 * product of both rotations over head_dim (Su et al., arXiv 2104.09864, section 3.4.3, look at how
 * it decays). */
enum locus_status locus_probe_rotation(const struct locus_scheme_probe *probe, int layer, int head,
                                       double *products, locus_error *error);

#endif
