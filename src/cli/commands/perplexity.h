/* locus perplexity: its options, a run of it, and the files that it may write. */
#ifndef LOCUS_CLI_PERPLEXITY_H
#define LOCUS_CLI_PERPLEXITY_H

#include "base/output.h"
#include "cli/kit/json.h"
#include "cli/kit/progress.h"
#include "cli/kit/text_options.h"

struct locus_perplexity_options {
    struct locus_common common; /* first, as in every command */
    struct locus_text_options text;
    const char *per_token, *logits, *reference;
    int length; /* 0: not given */
    bool json;
};

/* --reference: the model that the first one's predictions are compared with. */
struct locus_reference {
    struct locus_opened_model model;
    locus_session *session;
    struct locus_divergence *divergences; /* [texts.n_items]; NULL without --reference */
};

struct locus_perplexity {
    const struct locus_perplexity_options *options;
    struct locus_text_list texts;
    struct locus_opened_model model;
    struct locus_corpus_options corpus_options;
    struct locus_corpus *corpora; /* [texts.n_items] */
    struct locus_plan plan;
    locus_session *session;
    struct locus_reference reference;
    struct locus_row *rows; /* [n_rows]: a text each, then the pooled one if there are several */
    int n_rows;
    struct locus_progress progress;
    struct locus_output_file logits; /* --logits; none without */
    struct locus_buffer held;        /* FIFOs among the outputs */
    bool stdout_taken;               /* by --per-token or --logits: nothing else is printed */
};

/* --logits: a NumPy array float32 [predictions that count, n_vocab], written a window at a time as
 * `window` of a struct locus_watch whose context is the run. */
enum locus_status locus_logits_begin(struct locus_perplexity *run, locus_error *error);
enum locus_status locus_logits_window(void *run, locus_session *session, const int32_t *tokens,
                                      struct locus_window window, locus_error *error);

/* --reference, step by step; nothing without it. The model, refused if its vocabulary is not the
 * first one's; text `index`, refused if it has other tokens; the session. Return -1 to go on, or
 * the exit status. */
int locus_reference_open(struct locus_perplexity *run);
int locus_reference_encode(struct locus_perplexity *run, int index);
int locus_reference_session(struct locus_perplexity *run);
void locus_reference_release(struct locus_perplexity *run);

/* What the divergences behind each row come to, [n_rows], to be freed. */
enum locus_status locus_reference_sum(const struct locus_perplexity *run,
                                      struct locus_divergence_summary **summaries,
                                      locus_error *error);
/* One of them as the key "reference"; all as a table under the first. */
void locus_reference_json(const struct locus_perplexity *run,
                          const struct locus_divergence_summary *summary, struct locus_json *json);
void locus_reference_table(const struct locus_perplexity *run,
                           const struct locus_divergence_summary *summaries,
                           struct locus_buffer *out);

/* --per-token: a line a prediction that counts; divergence is NULL without --reference. */
enum locus_status locus_per_token_write(const struct locus_perplexity *run,
                                        const struct locus_corpus *corpus,
                                        const struct locus_losses *losses,
                                        const struct locus_divergence *divergence,
                                        locus_error *error);

#endif
