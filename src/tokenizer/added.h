/* Added tokens: what is cut out of a text, as it stands there, before the rest is encoded. */
#ifndef LOCUS_TOKENIZER_ADDED_H
#define LOCUS_TOKENIZER_ADDED_H

#include "tokenizer/normalizer.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"

struct locus_added;

/* Control, unknown and user-defined tokens, and what locus.tokenizer.lstrip, .rstrip, .single_word
 * and .normalized say of them. The vocabulary must outlive it. */
struct locus_added *locus_added_create(const struct locus_vocabulary *vocabulary,
                                       const struct locus_checkpoint *checkpoint,
                                       const struct locus_normalizer *normalizer,
                                       locus_error *error);
void locus_added_free(struct locus_added *added);

/* Whether a token is looked for after the normalizer. */
bool locus_added_any_normalized(const struct locus_added *added);

/* A token in a text, with the blanks that it takes along. */
struct locus_added_match {
    size_t start, end; /* bytes of the text */
    int32_t id;
};

/* A text that is looked through. `states` says of every byte what begins there. */
struct locus_added_search {
    const struct locus_added *added;
    const struct locus_trie *trie;
    const char *text;
    size_t n_bytes;
    int32_t *states; /* [n_bytes + 1]; NULL: no token is looked for */
};

/* Pass 0 is over a text as it is, pass 1 over what the normalizer makes of what lies between, for
 * the tokens that are .normalized. Without `special` only user-defined tokens count. The text must
 * outlive the search, whose memory locus_added_end frees, after a failure too. */
enum locus_status locus_added_begin(struct locus_added_search *search,
                                    const struct locus_added *added, int pass, bool special,
                                    const char *text, size_t n_bytes, locus_error *error);
void locus_added_end(struct locus_added_search *search);

/* The first one that begins at `from` or after it, whose blanks do too; false: there is none. Of
 * several that begin at one place the longest. */
bool locus_added_next(const struct locus_added_search *search, size_t from,
                      struct locus_added_match *match);

/* The caller has put a space into the text, over byte `at`; what is before it isn't asked for any
 * more. */
void locus_added_put_space(struct locus_added_search *search, size_t at);

#endif
