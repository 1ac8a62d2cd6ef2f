/* Divergence: how far a model's predictions are from those of a reference, its F32 original for
 * one, over the same tokens.
 *
 *     two sessions, fed alike -> logits, a block of rows at a time -> a struct locus_prediction a
 *     token -> their summary
 */
#ifndef LOCUS_EXPERIMENT_DIVERGENCE_H
#define LOCUS_EXPERIMENT_DIVERGENCE_H

#include "base/error.h"

/* What the two make of one token, p and q being the shares that the softmax gives every token of
 * the vocabulary under the reference and under the model. */
struct locus_prediction {
    double kl;                /* sum of p ln(p / q) (Kullback and Leibler, 1951), nats; NAN: none */
    float nll, reference_nll; /* -ln of the token's own share, nats */
    bool same_top;            /* both think the same token the likeliest, the first among equals */
};

struct locus_divergence {
    int n_tokens;
    struct locus_prediction *predictions; /* [n_tokens], by the token predicted */
};

enum locus_status locus_divergence_init(struct locus_divergence *divergence, int n_tokens,
                                        locus_error *error);
void locus_divergence_free(struct locus_divergence *divergence);

/* Of the reference's and the model's logits[n_vocab] for one token; NAN for none. The same logits
 * give exactly 0. */
double locus_kl_divergence(const float *reference, const float *model, int n_vocab);

/* Appends n tokens to both sessions, whose models have the same vocabulary, and fills
 * predictions[i] for the logits after tokens[i] and the target targets[i], where that is not
 * negative; nll[i] is the model's loss, or 0, as locus_session_score has it. Logits are held 64
 * rows at a time. The same bits at any number of threads and any batch. */
enum locus_status locus_predictions_score(locus_session *session, locus_session *reference,
                                          const int32_t *tokens, int n, const int32_t *targets,
                                          float *nll, struct locus_prediction *predictions,
                                          locus_error *error);

/* Over all predictions that there are. Errors are standard errors of the mean, as if tokens were
 * independent; NAN below 2 tokens. Quantiles lie between the two nearest values, as far as their
 * share says. */
struct locus_divergence_summary {
    int64_t tokens;
    double mean, error, median, quantile_99, max; /* of the divergence */
    double same_top, same_top_error;              /* share */
    double reference_nll;
    double difference, difference_error; /* nll less reference_nll: ln of the perplexities' ratio */
};

enum locus_status locus_divergence_sum(const struct locus_divergence *divergences,
                                       int n_divergences, struct locus_divergence_summary *summary,
                                       locus_error *error);

#endif
