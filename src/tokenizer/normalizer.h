/* What is done to a text before it is cut into tokens: the steps that locus.tokenizer.normalizer
 * lists, or those that keys of llama.cpp's stand for.
 */
#ifndef LOCUS_TOKENIZER_NORMALIZER_H
#define LOCUS_TOKENIZER_NORMALIZER_H

#include "base/buffer.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"

struct locus_normalizer; /* immutable: threads may share it */

/* Steps of the key, each a name and the texts that it needs; NULL and LOCUS_OK where the key is
 * absent:
 *
 * nfc, nfd, nfkc, nfkd: Unicode's normal forms.
 *
 * lowercase, strip-accents: character by character; accents are all combining marks.
 *
 * strip-left, strip-right: drop white space at an end.
 *
 * prepend TEXT: before a text that isn't empty.
 *
 * replace OLD NEW, squeeze OLD NEW: every OLD; every run of two OLD or more.
 *
 * charsmap: tokenizer.ggml.precompiled_charsmap, as the tokenizers library has it.
 *
 * words: runs of white space become one U+2581, and one is put before a text.
 *
 * bert-clean, bert-chinese, bert-accents, bert-words: see forms.h.
 */
enum locus_status locus_normalizer_read(struct locus_normalizer **normalizer,
                                        const struct locus_checkpoint *checkpoint,
                                        locus_error *error);

/* The steps of a file of llama.cpp's for Unigram: tokenizer.ggml.precompiled_charsmap as
 * SentencePiece has it, .remove_extra_whitespaces, and a space before a text if `space`. */
enum locus_status locus_normalizer_sentencepiece(struct locus_normalizer **normalizer,
                                                 const struct locus_checkpoint *checkpoint,
                                                 bool space, locus_error *error);
void locus_normalizer_free(struct locus_normalizer *normalizer);

/* Whether a space is put before a text that isn't empty, whatever it begins with. */
bool locus_normalizer_puts_space(const struct locus_normalizer *normalizer);

/* Replaces what `out` holds by the text after the steps; NULL has none. */
enum locus_status locus_normalizer_apply(const struct locus_normalizer *normalizer,
                                         const char *text, size_t n_bytes, struct locus_buffer *out,
                                         locus_error *error);

#endif
