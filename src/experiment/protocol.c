/* Protocols of perplexity: see protocol.h. */
#include "experiment/protocol.h"

/* Tokens from one window's start to the next one's. */
static int step_of(const struct locus_plan *plan)
{
    return plan->protocol == LOCUS_SLIDING ? plan->stride : plan->length;
}

enum locus_status locus_plan_check(const struct locus_plan *plan, locus_error *error)
{
    const int shortest = plan->protocol == LOCUS_HALF ? 3 : 1;
    if (plan->length < shortest)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "windows of %d tokens under %s, expected %d or more", plan->length,
                          locus_protocol_name(plan->protocol), shortest);
    if (plan->protocol == LOCUS_SLIDING && (plan->stride < 1 || plan->stride > plan->length))
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "windows of %d tokens that step by %d, expected a step of 1 to %d",
                          plan->length, plan->stride, plan->length);
    return LOCUS_OK;
}

int locus_plan_count(const struct locus_plan *plan, int n_tokens)
{
    if (plan->protocol == LOCUS_HALF) return n_tokens / plan->length;
    int n_rows = n_tokens - 1; /* predictions */
    if (n_rows < 1) return 0;
    if (n_rows <= plan->length) return 1;
    return 1 + (n_rows - plan->length - 1) / step_of(plan) + 1;
}

struct locus_window locus_plan_window(const struct locus_plan *plan, int n_tokens, int index)
{
    struct locus_window window = {.first = index * step_of(plan)};
    if (plan->protocol == LOCUS_HALF) {
        window.n = plan->length - 1; /* the last token is only predicted */
        window.from = plan->length / 2;
        return window;
    }
    int left = n_tokens - 1 - window.first;
    window.n = left < plan->length ? left : plan->length;
    window.from = index > 0 ? plan->length - step_of(plan) : 0;
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

int locus_plan_tokens(const struct locus_plan *plan, int n_tokens)
{
    if (plan->protocol != LOCUS_HALF) return n_tokens > 1 ? n_tokens - 1 : 0;
    return locus_plan_count(plan, n_tokens) * (plan->length - 1 - plan->length / 2);
}

const char *locus_protocol_name(enum locus_protocol protocol)
{
    static const char *const names[] = {
        [LOCUS_WINDOWS] = "windows", [LOCUS_SLIDING] = "sliding", [LOCUS_HALF] = "half"};
    return names[protocol];
}
