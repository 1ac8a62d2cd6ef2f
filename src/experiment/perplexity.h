/* Perplexity: the loss of every token of a text, window by window, and what it sums up to. */
#ifndef LOCUS_EXPERIMENT_PERPLEXITY_H
#define LOCUS_EXPERIMENT_PERPLEXITY_H

#include "experiment/corpus.h"
#include "experiment/divergence.h"
#include "experiment/protocol.h"
#include "forward/describe.h"

/* Losses of a corpus under a plan: nll[n_tokens] in nats, by the token predicted; NAN where none
 * is. */
struct locus_losses {
    struct locus_plan plan;
    float *nll;
};

enum locus_status locus_losses_init(struct locus_losses *losses, const struct locus_plan *plan,
                                    const struct locus_corpus *corpus, locus_error *error);
void locus_losses_free(struct locus_losses *losses);

/* What a long run asks and tells on its way; any member may be NULL. */
struct locus_watch {
    void *context;
    bool (*stopped)(void *context);              /* true: end now */
    void (*advance)(void *context, double work); /* so much of locus_plan_work is done */
    /* Rows [from, from+n) of a window that starts at token `first` are about to be scored; the
     * session holds nothing. */
    enum locus_status (*window)(void *context, locus_session *session, const int32_t *tokens,
                                struct locus_window window, locus_error *error);
};

/* A session for windows of `length` tokens over texts of which none fills more than n_positions: it
 * holds no more than those, and its SPEC is that of a text of `length`, so that rows are as in one
 * forward pass over the whole window. params->n_context is passed over. */
locus_session *locus_session_for_text(const locus_model *model, const locus_session_params *params,
                                      int length, int n_positions, locus_error *error);
/* What that would give, without making it. Free the description in any case. */
enum locus_status locus_describe_for_text(struct locus_description *description,
                                          const locus_model *model,
                                          const locus_session_params *params, int length,
                                          int n_positions, locus_error *error);

/* Fills losses[0] by running its plan, and whatever falls off for losses[1 .. n_losses-1]: those of
 * their windows that start where one of the first plan does, and are no longer. Windows that are
 * filled already are not run again. The session, which must hold losses[0].plan.length tokens, is
 * rewound for every window; its scheme must not depend on the windows' length where n_losses > 1.
 * Returns LOCUS_OK with *whole false if the watch stopped it. The order of sums is fixed, so the
 * bits are the session's. */
enum locus_status locus_measure(locus_session *session, const struct locus_corpus *corpus,
                                struct locus_losses *losses, int n_losses,
                                const struct locus_watch *watch, bool *whole, locus_error *error);

/* The same for one plan, and what a reference makes of it: `reference` is as the session, and the
 * tokens are its model's as well. divergence->n_tokens is the corpus's. */
enum locus_status locus_measure_against(locus_session *session, locus_session *reference,
                                        const struct locus_corpus *corpus,
                                        struct locus_losses *losses,
                                        struct locus_divergence *divergence,
                                        const struct locus_watch *watch, bool *whole,
                                        locus_error *error);

/* The work of a plan over a corpus, in tokens through the layers of a model that is n_embd wide,
 * attention counted as its share of the multiply-adds. */
double locus_plan_work(const struct locus_plan *plan, const struct locus_corpus *corpus,
                       int n_embd);

/* Predictions that count, over all documents. */
int64_t locus_corpus_predictions(const struct locus_corpus *corpus, const struct locus_plan *plan);

/* Tokens of the longest window that a plan's run over the corpus fills (locus_plan_longest). */
int locus_corpus_longest(const struct locus_corpus *corpus, const struct locus_plan *plan);

/* Averages are over tokens. */
struct locus_summary {
    int64_t tokens, bytes; /* predicted, and the bytes of the text they stand for */
    double sum, squares;   /* of their losses */
};

void locus_summary_add(struct locus_summary *summary, double nll, int n_bytes);
/* All losses that there are. */
struct locus_summary locus_summary_of(const struct locus_losses *losses,
                                      const struct locus_corpus *corpus);
/* Those whose row (tokens before the one predicted, less one) is in [first, end); the plan is of
 * LOCUS_WINDOWS. */
struct locus_summary locus_summary_of_rows(const struct locus_losses *losses,
                                           const struct locus_corpus *corpus, int first, int end);

/* How many those are. */
int64_t locus_corpus_rows(const struct locus_corpus *corpus, const struct locus_plan *plan,
                          int first, int end);

double locus_summary_nll(const struct locus_summary *summary); /* nats a token; NAN for none */
double locus_summary_perplexity(const struct locus_summary *summary);
/* Of the mean of n values, from their sum and that of their squares: sqrt(variance / (n - 1)), as
 * if they were independent; NAN below 2. */
double locus_standard_error(double sum, double squares, int64_t n);
/* Of the perplexity: e^nll times the standard error of nll. */
double locus_summary_error(const struct locus_summary *summary);
double locus_summary_bits_per_byte(const struct locus_summary *summary);

#endif
