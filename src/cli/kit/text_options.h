/* The options of commands that measure texts: which texts, and how they are cut into windows. */
#ifndef LOCUS_CLI_TEXT_OPTIONS_H
#define LOCUS_CLI_TEXT_OPTIONS_H

#include "cli/kit/options.h"
#include "experiment/corpus.h"
#include "experiment/inputs.h"

struct locus_text_options {
    struct locus_texts files;
    const char *protocol, *begin; /* NULL: not given */
    int stride;                   /* 0: not given */
    bool documents, first;
};

/* What the options of such a command begin with. */
struct locus_text_command {
    struct locus_common common;
    struct locus_text_options text;
};

extern const struct locus_option locus_text_option_table[];

/* Reads the files of -f and those named after the options. Returns -1 to go on, or the exit status,
 * as all of these. */
int locus_text_list_read(struct locus_text_list *list, const char *command,
                         const struct locus_texts *files, int n_operands, char **operands);

/* --protocol, --stride and --first as a plan of no length; refuses a plan that can't be, as wrong
 * usage. */
int locus_plan_option(struct locus_plan *plan, const char *command,
                      const struct locus_text_options *options);
int locus_plan_refuse(const struct locus_plan *plan, const char *command);

/* Which begin-of-text --begin comes to for the model. */
int locus_begin_option(struct locus_begin *begin, const char *command, const char *rule,
                       enum locus_protocol protocol, const struct locus_opened_model *model);

/* The text in the model's tokens (locus_corpus_encode); unless `quiet`, marks that were read as
 * plain text are noted. */
int locus_text_encode(struct locus_corpus *corpus, const struct locus_opened_model *model,
                      const struct locus_text *text, const struct locus_corpus_options *options,
                      bool quiet);

#endif
