/* A text to be measured on: its tokens, cut into documents. */
#ifndef LOCUS_EXPERIMENT_CORPUS_H
#define LOCUS_EXPERIMENT_CORPUS_H

#include "base/error.h"
#include "experiment/protocol.h"

/* Where begin-of-text goes. */
enum locus_begin_rule {
    LOCUS_BEGIN_AUTO,  /* as the tokenizer and the protocol have it */
    LOCUS_BEGIN_NONE,  /* nowhere */
    LOCUS_BEGIN_FIRST, /* before each document's first token */
    LOCUS_BEGIN_EVERY  /* there, and over the first token of every later window */
};

struct locus_begin {
    enum locus_begin_rule rule;
    int32_t token; /* -1 with LOCUS_BEGIN_NONE */
};

/* What a rule comes to for a model. LOCUS_BEGIN_AUTO is `none` where the tokenizer puts no
 * begin-of-text before a text, else `first`, or `every` under half, as llama.cpp has it. Refuses
 * `first` under half, and a model that has no such token. */
enum locus_status locus_begin_resolve(struct locus_begin *begin, enum locus_begin_rule rule,
                                      enum locus_protocol protocol, const locus_model *model,
                                      const locus_tokenizer *tokenizer, locus_error *error);
const char *locus_begin_name(enum locus_begin_rule rule); /* "auto", "none", "first", "every" */

/* Tokens that belong together: no window crosses the end of one. */
struct locus_document {
    int first, n;
};

struct locus_corpus {
    int n_tokens, n_documents;
    int32_t *tokens;                  /* [n_tokens] */
    int32_t *n_bytes;                 /* [n_tokens]: of the text, that a token stands for */
    struct locus_document *documents; /* [n_documents] */
    struct locus_begin begin;         /* resolved */
    bool cut;                         /* into documents: else all of the text is one */
    int n_marks;                      /* end-of-text marks that were read as plain text */
};

/* How a text becomes a corpus. */
struct locus_corpus_options {
    bool documents;
    struct locus_begin begin; /* resolved */
};

/* Encodes n_bytes of text. `documents` cuts it at end-of-text marks ("<|endoftext|>", or the
 * model's own) or, where there are none, at two or more blank lines, and drops white space around
 * the cuts; else all of it is one document. begin-of-text comes before a document, never over its
 * first token, and the end token that the tokenizer asks for after it. Refuses a text in which
 * nothing can be predicted. Zero-initialise; release in any case. */
enum locus_status locus_corpus_encode(struct locus_corpus *corpus, const locus_model *model,
                                      const locus_tokenizer *tokenizer, const char *text,
                                      size_t n_bytes, const struct locus_corpus_options *options,
                                      locus_error *error);
/* Tokens of the longest document in these corpora. */
int locus_corpora_longest(const struct locus_corpus *corpora, int n_corpora);
void locus_corpus_free(struct locus_corpus *corpus);

#endif
