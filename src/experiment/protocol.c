/* Protocols of perplexity: see protocol.h. */
#include "experiment/protocol.h"

/* Tokens from one window's start to the next one's. */
static int step_of(const struct locus_plan *plan)
{
    return plan->protocol == LOCUS_SLIDING ? plan->stride : plan->length;
}

struct locus_plan locus_plan_at(struct locus_plan plan, int length)
{
    enum { STRIDE = 256 };
    plan.length = length;
    if (plan.protocol == LOCUS_SLIDING && plan.stride == 0) {
        plan.stride = length / 2 < STRIDE ? length / 2 : STRIDE;
        if (plan.stride == 0) plan.stride = 1;
    }
    return plan;
}

enum locus_status locus_plan_check(const struct locus_plan *plan, locus_error *error)
{
    static const int shortest[] = {[LOCUS_WINDOWS] = 1, [LOCUS_SLIDING] = 2, [LOCUS_HALF] = 3};
    if (plan->length < shortest[plan->protocol])
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "windows of %d tokens under %s, expected %d or more", plan->length,
                          locus_protocol_name(plan->protocol), shortest[plan->protocol]);
    if (plan->protocol != LOCUS_SLIDING) return LOCUS_OK;
    if (plan->first)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "a document's first window alone can't slide, expected protocol windows "
                          "or half");
    if (plan->stride < 1 || plan->stride > plan->length)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "windows of %d tokens that step by %d, expected a step of 1 to %d",
                          plan->length, plan->stride, plan->length);
    return LOCUS_OK;
}

/* Rows that a window at token `first` feeds: but for `windows` its last token is only predicted. */
static int rows_at(const struct locus_plan *plan, int n_tokens, int first)
{
    const int left = n_tokens - 1 - first;
    const int most = plan->protocol == LOCUS_WINDOWS ? plan->length : plan->length - 1;
    return left < most ? left : most;
}

int locus_plan_count(const struct locus_plan *plan, int n_tokens)
{
    const int step = step_of(plan), length = plan->length;
    int n = 0;
    if (plan->protocol == LOCUS_HALF)
        n = n_tokens / length;
    else if (n_tokens > 1) {
        const int reached = plan->protocol == LOCUS_WINDOWS ? n_tokens - 1 : n_tokens;
        n = reached <= length ? 1 : 2 + (reached - length - 1) / step;
        if (rows_at(plan, n_tokens, (n - 1) * step) < 1) n--; /* one token, that nothing predicts */
    }
    return plan->first && n > 1 ? 1 : n;
}

struct locus_window locus_plan_window(const struct locus_plan *plan, int n_tokens, int index)
{
    struct locus_window window = {.first = index * step_of(plan)};
    window.n = rows_at(plan, n_tokens, window.first);
    if (plan->protocol == LOCUS_HALF) window.from = plan->length / 2;
    if (plan->protocol == LOCUS_SLIDING && index > 0 && plan->stride < plan->length)
        window.from = plan->length - plan->stride - 1;
    return window;
}

bool locus_plan_find(const struct locus_plan *plan, int n_tokens, int first,
                     struct locus_window *window)
{
    const int step = step_of(plan);
    if (first % step || first / step >= locus_plan_count(plan, n_tokens)) return false;
    *window = locus_plan_window(plan, n_tokens, first / step);
    return true;
}

int64_t locus_plan_tokens(const struct locus_plan *plan, int n_tokens)
{
    const int n_windows = locus_plan_count(plan, n_tokens);
    int64_t n = 0;
    for (int i = 0; i < n_windows; i++) {
        const struct locus_window window = locus_plan_window(plan, n_tokens, i);
        n += window.n - window.from;
    }
    return n;
}

int locus_plan_longest(const struct locus_plan *plan, int n_tokens)
{
    const int n = plan->protocol == LOCUS_WINDOWS ? n_tokens - 1 : n_tokens;
    return n < plan->length ? n : plan->length;
}

const char *locus_protocol_name(enum locus_protocol protocol)
{
    static const char *const names[] = {
        [LOCUS_WINDOWS] = "windows", [LOCUS_SLIDING] = "sliding", [LOCUS_HALF] = "half"};
    return names[protocol];
}
