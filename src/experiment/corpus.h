/* A text to be measured on: its tokens, cut into documents. */
#ifndef LOCUS_EXPERIMENT_CORPUS_H
#define LOCUS_EXPERIMENT_CORPUS_H

#include "base/error.h"

/* Tokens that belong together: no window crosses the end of one. */
struct locus_document {
    int first, n;
};

struct locus_corpus {
    int n_tokens, n_documents;
    int32_t *tokens;                  /* [n_tokens] */
    int32_t *n_bytes;                 /* [n_tokens]: of the text, that a token stands for */
    struct locus_document *documents; /* [n_documents] */
    int32_t begin; /* the begin-of-text token that comes before each document; -1: none does */
    int n_marks;   /* end-of-text marks that were read as plain text */
};

/* Encodes n_bytes of text. `documents` cuts it at end-of-text marks ("<|endoftext|>", or the
 * model's own) or, where there are none, at two or more blank lines, and drops white space around
 * the cuts; else all of it is one document. begin-of-text comes before a document, never over its
 * first token. Refuses a text in which nothing can be predicted. Zero-initialise; release in any
 * case. */
enum locus_status locus_corpus_encode(struct locus_corpus *corpus, const locus_model *model,
                                      const locus_tokenizer *tokenizer, const char *text,
                                      size_t n_bytes, bool documents, locus_error *error);
/* Tokens of the longest document in these corpora. */
int locus_corpora_longest(const struct locus_corpus *corpora, int n_corpora);
void locus_corpus_free(struct locus_corpus *corpus);

#endif
