/* The patterns that cut a text into words for byte-level BPE, by their names in
 * tokenizer.ggml.pre.
 */
#ifndef LOCUS_TOKENIZER_PATTERNS_H
#define LOCUS_TOKENIZER_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

enum { LOCUS_MAX_PASSES = 6 };

struct locus_pattern {
    const char *name;
    /* Regular expressions for PCRE2, NULL after the last: matches of the first, and what lies
     * between them, are each cut by the second as if they were texts, and so on. */
    const char *const *passes;
    bool whole; /* a word that is a token is never merged up from bytes */
    bool begin; /* a text begins with begin-of-text */
};

/* The pattern of that name; NULL, with the nearest name there is. */
const struct locus_pattern *locus_pattern_find(struct locus_word name, const char **nearest);

/* Pattern i, from 0; NULL past the last. */
const struct locus_pattern *locus_pattern_at(size_t i);

#endif
