/* locus perplexity: a run in the making, and the files that it may leave. */
#ifndef LOCUS_CLI_PERPLEXITY_H
#define LOCUS_CLI_PERPLEXITY_H

#include "base/file.h"
#include "cli/progress.h"
#include "cli/subject.h"

struct locus_perplexity_options {
    struct locus_common common; /* first, as in every command */
    struct locus_texts files;
    const char *protocol, *per_token, *logits;
    int length, stride; /* 0: not given */
    bool documents, json;
};

struct locus_perplexity {
    const struct locus_perplexity_options *options;
    int status;
    struct locus_text_list texts;
    struct locus_subject subject;
    struct locus_corpus *corpora; /* [texts.n_items] */
    struct locus_plan plan;
    locus_session *session;
    struct locus_row *rows; /* [n_rows]: a text each, then the pooled one if there are several */
    int n_rows;
    struct locus_progress progress;
    struct locus_output_file logits; /* --logits; its stream is NULL without */
};

/* --logits: a NumPy array float32 [predictions that count, n_vocab], written a window at a time as
 * `window` of a struct locus_watch whose context is the run. */
enum locus_status locus_logits_begin(struct locus_perplexity *run, locus_error *error);
enum locus_status locus_logits_window(void *run, locus_session *session, const int32_t *tokens,
                                      struct locus_window window, locus_error *error);

/* --per-token: a line a prediction that counts. */
enum locus_status locus_per_token_write(const struct locus_perplexity *run,
                                        const struct locus_corpus *corpus,
                                        const struct locus_losses *losses, locus_error *error);

#endif
