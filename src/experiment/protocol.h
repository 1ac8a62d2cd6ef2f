/* Protocols of perplexity: how a text is cut into windows, and which predictions count.
 *
 * A text of N tokens has N-1 that can be predicted. A window feeds tokens first .. first+n-1 from
 * position 0 on; its row i predicts token first+i+1, and counts from row `from` on.
 *
 *     windows  side by side (Press et al., 2022, "non-overlapping inference"): every row counts,
 *              N-1 in all
 *     sliding  windows of L that step by S (Chen et al., 2023; Peng et al., 2023): what no window
 *              before has scored counts, N-1 in all
 *     half     llama.cpp's perplexity: whole windows only, the second half of each counts,
 *              L-1-floor(L/2) a window; its first token is overwritten by begin-of-text if the
 *              tokenizer adds one
 */
#ifndef LOCUS_EXPERIMENT_PROTOCOL_H
#define LOCUS_EXPERIMENT_PROTOCOL_H

#include "base/error.h"

enum locus_protocol { LOCUS_WINDOWS, LOCUS_SLIDING, LOCUS_HALF };

struct locus_plan {
    enum locus_protocol protocol;
    int length; /* L */
    int stride; /* S; sliding only */
};

struct locus_window {
    int first, n, from;
};

/* Refuses a length or stride that the protocol can't use. */
enum locus_status locus_plan_check(const struct locus_plan *plan, locus_error *error);

/* Windows that a text of n_tokens gives; 0 where it is too short for any. */
int locus_plan_count(const struct locus_plan *plan, int n_tokens);
struct locus_window locus_plan_window(const struct locus_plan *plan, int n_tokens, int index);

/* The window that starts at token `first`; false if none does. */
bool locus_plan_find(const struct locus_plan *plan, int n_tokens, int first,
                     struct locus_window *window);

/* Predictions that count, over all windows. */
int locus_plan_tokens(const struct locus_plan *plan, int n_tokens);

/* "windows", "sliding", "half". */
const char *locus_protocol_name(enum locus_protocol protocol);

#endif
