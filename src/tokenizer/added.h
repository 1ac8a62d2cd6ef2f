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
    int32_t id;
};

/* The first one that begins at `from` or after it, whose blanks do too; false: there is none. Of
 * several that begin at one place the longest. Without `special` only user-defined ones count. */
bool locus_added_next(const struct locus_added *added, bool special, const char *text,
                      size_t n_bytes, size_t from, struct locus_added_match *match);

#endif
