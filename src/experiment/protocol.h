/* Protocols of perplexity: how a text is cut into windows, and which predictions count.
 *
 * A text of N tokens has N-1 that can be predicted. A window feeds tokens first .. first+n-1 from
 * position 0 on; its row i predicts token first+i+1, and counts from row `from` on.
 *
 *     windows  side by side (Press et al., 2022, "non-overlapping inference"): L tokens are fed,
 *              each predicts the next, and every row counts; N-1 in all
 *     sliding  Hugging Face's strided perplexity: windows [b, b+L), b = 0, S, 2S, ... to the first
 *              that reaches the text's end. The first one predicts its tokens but the first, L-1;
 *              each after it those that no window before held, S, or what is left at the end; N-1
 *              in all. With S = L windows don't overlap, and nothing predicts the first token of
 *              any. Every prediction counts once; their published code weighs the mean of a later
 *              window of n new tokens by n-1.
 *     half     llama.cpp's perplexity: whole windows only, the second half of each counts,
 *              L-1-floor(L/2) a window
 */
#ifndef LOCUS_EXPERIMENT_PROTOCOL_H
#define LOCUS_EXPERIMENT_PROTOCOL_H

#include "base/error.h"

enum locus_protocol { LOCUS_WINDOWS, LOCUS_SLIDING, LOCUS_HALF };

struct locus_plan {
    enum locus_protocol protocol;
    int length; /* L */
    int stride; /* S; sliding only */
    bool first; /* only the first window of a document */
};

struct locus_window {
    int first, n, from;
};

/* The same plan at another length; a stride of 0 becomes 256, or half of a length below 512. */
struct locus_plan locus_plan_at(struct locus_plan plan, int length);

/* Refuses a length or stride that the protocol can't use, and a first window that slides. */
enum locus_status locus_plan_check(const struct locus_plan *plan, locus_error *error);

/* Windows that a text of n_tokens gives; 0 where it is too short for any. */
int locus_plan_count(const struct locus_plan *plan, int n_tokens);
struct locus_window locus_plan_window(const struct locus_plan *plan, int n_tokens, int index);

/* The window that starts at token `first`; false if none does. */
bool locus_plan_find(const struct locus_plan *plan, int n_tokens, int first,
                     struct locus_window *window);

/* Predictions that count, over all windows. */
int64_t locus_plan_tokens(const struct locus_plan *plan, int n_tokens);

/* Tokens of the longest window that a text of n_tokens fills, at most plan->length: those fed, and
 * but for `windows` the last one predicted, too. */
int locus_plan_longest(const struct locus_plan *plan, int n_tokens);

/* "windows", "sliding", "half". */
const char *locus_protocol_name(enum locus_protocol protocol);

#endif
