/* Cutting a text into the words that byte-level BPE merges within: the pattern that the
 * checkpoint's tokenizer.ggml.pre names, run by PCRE2.
 */
#ifndef LOCUS_TOKENIZER_WORDS_H
#define LOCUS_TOKENIZER_WORDS_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"

struct locus_words; /* immutable: threads may share it */

/* For the checkpoint's tokenizer.ggml.pre, GPT-2's where it is absent. */
struct locus_words *locus_words_create(const struct locus_checkpoint *checkpoint,
                                       locus_error *error);
void locus_words_free(struct locus_words *words);

/* Whether a word that is a token is never merged up from bytes, unless the file says otherwise. */
bool locus_words_whole(const struct locus_words *words);

/* Whether a text begins with begin-of-text unless tokenizer.ggml.add_bos_token says otherwise. */
bool locus_words_begin(const struct locus_words *words);

/* A line that says what was assumed where the file names no pattern of a model's; NULL: nothing. */
const char *locus_words_assumed(const struct locus_words *words);

/* Calls visit for every word, in order; together they are the text. Bytes that are not UTF-8 are
 * words of their own. A status other than LOCUS_OK from `visit` ends it, and is returned. */
typedef enum locus_status locus_word_visitor(void *context, const char *word, size_t n_bytes,
                                             locus_error *error);
enum locus_status locus_words_each(const struct locus_words *words, const char *text,
                                   size_t n_bytes, locus_word_visitor *visit, void *context,
                                   locus_error *error);

#endif
