/* Added tokens: what is cut out of a text, as it stands there, before the rest is encoded. */
#ifndef LOCUS_TOKENIZER_ADDED_H
#define LOCUS_TOKENIZER_ADDED_H

#include "tokenizer/vocabulary.h"

struct locus_added;

/* Control, unknown and user-defined tokens, and what locus.tokenizer.lstrip, .rstrip and
 * .single_word say of them. The vocabulary must outlive it. */
struct locus_added *locus_added_create(const struct locus_vocabulary *vocabulary,
                                       const struct locus_checkpoint *checkpoint,
                                       locus_error *error);
void locus_added_free(struct locus_added *added);

/* A token in a text, with the blanks that it takes along. */
struct locus_added_match {
    size_t start, end; /* bytes of the text */
    size_t next;       /* where the search goes on: the token's own end */
    int32_t id;
};

/* The first one that begins at `at` or after it; false: there is none. Of several that begin at one
 * place the longest; blanks before `from` are another's. Without `special` only user-defined ones
 * count. */
bool locus_added_next(const struct locus_added *added, bool special, const char *text,
                      size_t n_bytes, size_t from, size_t at, struct locus_added_match *match);

#endif
