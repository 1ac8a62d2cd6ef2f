/* SentencePiece's table of characters that are replaced in a text (tokenizer.ggml.
 * precompiled_charsmap): the bytes of a double-array trie, its size in four bytes before them, and
 * the replacements, each ended by a NUL. Whatever the bytes, no read leaves them.
 */
#ifndef LOCUS_TOKENIZER_CHARSMAP_H
#define LOCUS_TOKENIZER_CHARSMAP_H

#include "base/buffer.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"

struct locus_charsmap {
    uint8_t *bytes;   /* the whole table; NULL: none, or SentencePiece's identity */
    size_t n_units;   /* of the trie, four bytes each, behind its size */
    const char *text; /* the replacements, in `bytes` */
    size_t n_text;
};

/* Reads the key; no table where it is absent or empty. */
enum locus_status locus_charsmap_read(struct locus_charsmap *charsmap,
                                      const struct locus_checkpoint *checkpoint,
                                      locus_error *error);
void locus_charsmap_free(struct locus_charsmap *charsmap);

/* Appends the text as SentencePiece changes it: at each place the longest entry. */
void locus_charsmap_append(const struct locus_charsmap *charsmap, struct locus_buffer *out,
                           const char *text, size_t n_bytes);

/* The same as the tokenizers library changes it: a grapheme of less than six bytes becomes what its
 * shortest beginning with an entry does; without one, each of its characters likewise. */
void locus_charsmap_append_graphemes(const struct locus_charsmap *charsmap,
                                     struct locus_buffer *out, const char *text, size_t n_bytes);

#endif
