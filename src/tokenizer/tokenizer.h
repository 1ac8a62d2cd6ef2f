/* Tokenizers inside the engine: built from a checkpoint's metadata, model or no model. */
#ifndef LOCUS_TOKENIZER_H
#define LOCUS_TOKENIZER_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"

/* As locus_tokenizer_create, from the metadata alone (a vocabulary-only file will do). */
locus_tokenizer *locus_tokenizer_from_checkpoint(const struct locus_checkpoint *checkpoint,
                                                 locus_error *error);

/* "byte-level BPE", "SentencePiece BPE", "Unigram" or "bytes". */
const char *locus_tokenizer_kind(const locus_tokenizer *tokenizer);

/* Number of ids. */
int locus_tokenizer_n_tokens(const locus_tokenizer *tokenizer);

/* The tokens that LOCUS_TEXT_BEGIN and LOCUS_TEXT_END put; -1: none. */
int32_t locus_tokenizer_begin(const locus_tokenizer *tokenizer);
int32_t locus_tokenizer_end(const locus_tokenizer *tokenizer);

/* A line that says what was assumed where the file is silent, such as the pattern of words; NULL:
 * nothing. */
const char *locus_tokenizer_assumed(const locus_tokenizer *tokenizer);

#endif
