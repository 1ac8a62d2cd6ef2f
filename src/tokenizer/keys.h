/* Metadata keys that change what a tokenizer does: read, or refused by name. */
#ifndef LOCUS_TOKENIZER_KEYS_H
#define LOCUS_TOKENIZER_KEYS_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"

/* A boolean; *value stays where the key is absent. */
enum locus_status locus_key_flag(const struct locus_checkpoint *checkpoint, const char *key,
                                 bool *value, locus_error *error);

/* An array of token ids below n_tokens: sets `bit` in bits[id] of each. Absent: none. */
enum locus_status locus_key_ids(const struct locus_checkpoint *checkpoint, const char *key,
                                uint8_t *bits, int n_tokens, uint8_t bit, locus_error *error);

/* Refuses a boolean that is true; `why` says what is expected instead, or what isn't done. */
enum locus_status locus_key_refuse(const struct locus_checkpoint *checkpoint, const char *key,
                                   const char *why, locus_error *error);

/* Refuses what would change a text's tokens and isn't done here, whatever the tokenizer's kind, and
 * keys whose names are unknown. */
enum locus_status locus_keys_check(const struct locus_checkpoint *checkpoint, locus_error *error);

/* Refuses more tokens than the architecture's vocab_size, where that is there. */
enum locus_status locus_keys_check_size(const struct locus_checkpoint *checkpoint, int n_tokens,
                                        locus_error *error);

#endif
