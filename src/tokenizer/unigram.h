/* SentencePiece's Unigram: the pieces whose scores have the largest sum. Spaces are written U+2581
 * in its vocabularies, as for its BPE. */
#ifndef LOCUS_TOKENIZER_UNIGRAM_H
#define LOCUS_TOKENIZER_UNIGRAM_H

#include "tokenizer/vocabulary.h"

struct locus_unigram;

/* The vocabulary, whose pieces are as locus_sentencepiece_piece has them, must outlive it. */
struct locus_unigram *locus_unigram_create(const struct locus_vocabulary *vocabulary,
                                           const struct locus_checkpoint *checkpoint,
                                           locus_error *error);
void locus_unigram_free(struct locus_unigram *unigram);

/* Adds the tokens of a text without added ones: O(n_bytes times the longest piece). */
enum locus_status locus_unigram_encode(const struct locus_unigram *unigram, const char *text,
                                       size_t n_bytes, struct locus_ids *ids, locus_error *error);

#endif
