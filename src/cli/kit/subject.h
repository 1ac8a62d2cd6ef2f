/* What perplexity and extrapolate measure: models, and texts to measure them on. */
#ifndef LOCUS_CLI_SUBJECT_H
#define LOCUS_CLI_SUBJECT_H

#include <limits.h>

#include "cli/kit/json.h"
#include "cli/kit/options.h"
#include "experiment/report.h"

struct locus_subject {
    char *path;
    const char *name; /* the path's last part */
    char sha[9];      /* first digits of the file's SHA-256; "" before it is asked for */
    locus_model *model;
    locus_model_info info;
    locus_tokenizer *tokenizer;
};

/* Opens the model that `common` names. Returns -1 to go on, or the exit status; release in any
 * case. */
int locus_subject_open(struct locus_subject *subject, const struct locus_common *common);
/* Fills subject->sha; the same returns. */
int locus_subject_hash(struct locus_subject *subject);
void locus_subject_close(struct locus_subject *subject);

/* A text as its file has it. */
struct locus_text {
    const char *name; /* the path's last part; "-" for standard input */
    const char *path;
    struct locus_buffer bytes;
    char sha[17]; /* first digits of its SHA-256; "" before it is asked for */
};

struct locus_text_list {
    struct locus_text *items;
    int n_items;
    char sha[17]; /* of all digests, one after another */
};

/* Reads the files of -f and those named after the options. The same returns. */
int locus_text_list_read(struct locus_text_list *list, const char *command,
                         const struct locus_texts *files, int n_operands, char **operands);
/* Fills the `sha` of the list and of every text. */
void locus_text_list_hash(struct locus_text_list *list);
void locus_text_list_free(struct locus_text_list *list);

/* Which begin-of-text --begin (NULL: not given) comes to for the subject; the same returns. */
int locus_begin_option(struct locus_begin *begin, const char *command, const char *rule,
                       enum locus_protocol protocol, const struct locus_subject *subject);

/* The text in the subject's tokens (locus_corpus_encode); unless `quiet`, marks that were read as
 * plain text are noted. The same returns. */
int locus_text_encode(struct locus_corpus *corpus, const struct locus_subject *subject,
                      const struct locus_text *text, const struct locus_reading *reading,
                      bool quiet);

/* The cells that say what ran: task, model, weights, position, attention, cache, kernels, version,
 * threads. */
bool locus_row_set_session(struct locus_row *row, const char *task,
                           const struct locus_subject *subject, const locus_session *session);
/* Those of a plan over a text of that name and hash, whose corpus says how it was read. */
bool locus_row_set_plan(struct locus_row *row, const char *text, const char *sha,
                        const struct locus_plan *plan, const struct locus_corpus *corpus);
/* Where begin-of-text went: `begin_of_text` and `begin`. */
bool locus_row_set_begin(struct locus_row *row, enum locus_begin_rule rule);

/* Rows of option tables: texts, and how they are cut into windows. TYPE has `files`, `protocol`,
 * `stride`, `documents`, `first` and `begin` for them. */
#define LOCUS_TEXT_OPTIONS(TYPE)                                                                   \
    {.name = "file",                                                                               \
     .letter = 'f',                                                                                \
     .type = LOCUS_OPTION_TEXTS,                                                                   \
     .offset = offsetof(TYPE, files),                                                              \
     .argument = "FILE",                                                                           \
     .help = "a text to predict; -: standard input (repeats)"},                                    \
        {.name = "protocol",                                                                       \
         .type = LOCUS_OPTION_CHOICE,                                                              \
         .offset = offsetof(TYPE, protocol),                                                       \
         .argument = "NAME",                                                                       \
         .choices = "windows|sliding|half",                                                        \
         .help = "windows (default), sliding or half; see 'locus help perplexity'"},               \
        {.name = "stride",                                                                         \
         .type = LOCUS_OPTION_INT,                                                                 \
         .offset = offsetof(TYPE, stride),                                                         \
         .argument = "S",                                                                          \
         .min = 1,                                                                                 \
         .max = INT_MAX,                                                                           \
         .help = "tokens that sliding windows step by (default 256, or half a window below 512)"}, \
        {.name = "documents",                                                                      \
         .type = LOCUS_OPTION_FLAG,                                                                \
         .offset = offsetof(TYPE, documents),                                                      \
         .help = "let no window cross an end-of-text mark or, without any, two blank lines"},      \
        {.name = "first",                                                                          \
         .type = LOCUS_OPTION_FLAG,                                                                \
         .offset = offsetof(TYPE, first),                                                          \
         .help = "only a document's first window, so that all lengths start with the same text"},  \
    {                                                                                              \
        .name = "begin", .type = LOCUS_OPTION_CHOICE, .offset = offsetof(TYPE, begin),             \
        .argument = "WHERE", .choices = "every|first|none",                                        \
        .help = "begin-of-text: over the first token of every window, before each document's\n"    \
                "                                  first, or none (default: as the tokenizer has " \
                "it)"                                                                              \
    }

/* --protocol's name ("windows" for NULL), --stride (0: not given) and --first as a plan, its length
 * 0; the same returns. */
int locus_plan_option(struct locus_plan *plan, const char *command, const char *protocol,
                      int stride, bool first);
/* Refuses a plan that can't be, as wrong usage; the same returns. */
int locus_plan_refuse(const struct locus_plan *plan, const char *command);

/* Refuses an output that is `other`, a file that is read or another output; NULL: none. The outputs
 * with one another and with the texts, likewise. The same returns. */
int locus_output_apart(const char *command, const char *output, const char *other);
int locus_outputs_apart(const char *command, const char *const *outputs, int n_outputs,
                        const struct locus_text_list *texts);

/* Whether files can be written at these paths (NULL: none), before a long run; nothing is left
 * there. The same returns. */
int locus_outputs_check(const char *const *paths, int n_paths);

/* An object's keys and values, one a column. */
void locus_row_json(struct locus_json *json, const struct locus_row *row);

#endif
