/* Byte-level BPE: words of bytes, merged in the order of tokenizer.ggml.merges (GPT-2's way), or,
 * if locus.tokenizer.merges is false, of the ids of what they make (tiktoken's). */
#ifndef LOCUS_TOKENIZER_BPE_H
#define LOCUS_TOKENIZER_BPE_H

#include "tokenizer/vocabulary.h"

struct locus_bpe;

/* A token's text, in GPT-2's printable spelling of bytes, as the bytes it stands for. */
size_t locus_bpe_piece(const char *text, size_t n_bytes, bool typed, char *out, uint8_t *type);

/* The vocabulary must outlive it. */
struct locus_bpe *locus_bpe_create(const struct locus_vocabulary *vocabulary,
                                   const struct locus_checkpoint *checkpoint, locus_error *error);
void locus_bpe_free(struct locus_bpe *bpe);

/* Whether texts begin with begin-of-text if the checkpoint doesn't say. */
bool locus_bpe_begin(const struct locus_bpe *bpe);

/* See locus_words_assumed. */
const char *locus_bpe_assumed(const struct locus_bpe *bpe);

/* Adds the tokens of a text without added ones. */
enum locus_status locus_bpe_encode(const struct locus_bpe *bpe, const char *text, size_t n_bytes,
                                   struct locus_ids *ids, locus_error *error);

#endif
