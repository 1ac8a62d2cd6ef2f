/* The merge table of byte-level BPE: which two tokens merge, how early, and into what.
 *
 * A hash table whose searches end after LOCUS_PROBES slots: what finds no room in so many is in a
 * sorted list. So no choice of ids, which are the file's, makes it slow.
 */
#ifndef LOCUS_TOKENIZER_RULES_H
#define LOCUS_TOKENIZER_RULES_H

#include <stddef.h>
#include <stdint.h>

#include "tokenizer/merge.h"
#include "tokenizer/vocabulary.h"

enum { LOCUS_PROBES = 32 }; /* slots that a search in a hash table looks at, at most */

struct locus_rule {
    int32_t left, right; /* left < 0: an empty slot */
    uint32_t rank;
    int32_t id;
};

struct locus_rules {
    struct locus_rule *slots;
    size_t mask;
    struct locus_rule *others; /* [n_others], sorted by locus_rules_sort */
    size_t n_others, other_capacity;
};

/* Room for `count` rules; they are added in the order of their ranks (of two for one pair the first
 * counts), and then sorted. */
enum locus_status locus_rules_create(struct locus_rules *rules, size_t count, locus_error *error);
enum locus_status locus_rules_add(struct locus_rules *rules, struct locus_rule rule,
                                  locus_error *error);
void locus_rules_sort(struct locus_rules *rules);

/* The rules of tokenizer.ggml.merges, lines of two pieces and a space between, which `decode` turns
 * into the bytes of tokens in `pieces`; a line that names no tokens can never apply, and is left
 * out. */
enum locus_status locus_rules_read(struct locus_rules *rules,
                                   const struct locus_checkpoint *checkpoint,
                                   const struct locus_piece_map *pieces,
                                   locus_piece_decoder *decode, locus_error *error);
void locus_rules_free(struct locus_rules *rules);

/* The rule for two tokens, or NULL. *n_compared, nullable, grows by the rules looked at: at most
 * LOCUS_PROBES and 1 + log2 of how many there are. */
const struct locus_rule *locus_rules_find(const struct locus_rules *rules, int32_t left,
                                          int32_t right, size_t *n_compared);

/* The same of two symbols, as a locus_merge_rule answers. */
bool locus_rules_merge(const struct locus_rules *rules, const struct locus_symbol *left,
                       const struct locus_symbol *right, uint32_t *rank, int32_t *id);

#endif
