/* SentencePiece's BPE: characters merged by the scores of what they merge into, with bytes for what
 * has no token. Spaces are written U+2581 in its vocabularies. */
#ifndef LOCUS_TOKENIZER_SENTENCEPIECE_H
#define LOCUS_TOKENIZER_SENTENCEPIECE_H

#include "tokenizer/vocabulary.h"

struct locus_sentencepiece;

/* A token's text as the bytes it stands for. */
size_t locus_sentencepiece_piece(const char *text, size_t n_bytes, bool typed, char *out,
                                 uint8_t *type);

/* The vocabulary must outlive it. */
struct locus_sentencepiece *locus_sentencepiece_create(const struct locus_vocabulary *vocabulary,
                                                       const struct locus_checkpoint *checkpoint,
                                                       locus_error *error);
void locus_sentencepiece_free(struct locus_sentencepiece *sentencepiece);

/* Whether words end with a space, which is one with the character before it (GPT-1's way), rather
 * than begin with one. */
bool locus_sentencepiece_suffixes(const struct locus_sentencepiece *sentencepiece);

/* Adds the tokens of a text without added ones, as it is: a space before it is the caller's. */
enum locus_status locus_sentencepiece_encode(const struct locus_sentencepiece *sentencepiece,
                                             const char *text, size_t n_bytes,
                                             struct locus_ids *ids, locus_error *error);

#endif
