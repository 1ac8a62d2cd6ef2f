/* Changes of a text's characters: Unicode's normal forms (Unicode Standard Annex 15), case,
 * accents. Bytes that are no UTF-8 stay as they are, and nothing is joined across them.
 */
#ifndef LOCUS_TOKENIZER_FORMS_H
#define LOCUS_TOKENIZER_FORMS_H

#include <stdbool.h>

#include "base/buffer.h"

/* Appends the text in a normal form: composed (NFC, NFKC) or not (NFD, NFKD); `compatible`: NFKC,
 * NFKD. O(n_bytes). out->failed when memory is short. */
void locus_form_append(struct locus_buffer *out, const char *text, size_t n_bytes, bool composed,
                       bool compatible);

/* Appends the text in lower case, character by character (a sigma at a word's end stays one). */
void locus_form_lowercase(struct locus_buffer *out, const char *text, size_t n_bytes);

/* Appends the text without combining marks (general categories Mn, Mc and Me). */
void locus_form_strip_marks(struct locus_buffer *out, const char *text, size_t n_bytes);

/* Bert's ways. The text without controls, which tabs and ends of lines are none of, with a space
 * for every white space; with spaces around Chinese characters; without accents (Mn) of its
 * decomposed characters; its words, parted by white space and each punctuation mark one, with a
 * space after each. */
void locus_form_clean(struct locus_buffer *out, const char *text, size_t n_bytes);
void locus_form_part_chinese(struct locus_buffer *out, const char *text, size_t n_bytes);
void locus_form_strip_accents(struct locus_buffer *out, const char *text, size_t n_bytes);
void locus_form_words(struct locus_buffer *out, const char *text, size_t n_bytes);

/* Unicode's White_Space. */
bool locus_form_is_blank(uint32_t code);

#endif
