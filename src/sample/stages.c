/* The stages of sampling: see stages.h. Selections go through one heap, so that the best 40 of
 * 50,000 tokens cost little more than a look at each.
 */
#include "sample/stages.h"

#include <math.h>

#include "base/math.h"

/* Shares are compared with this much room: logits are floats, and so is a threshold like 0.8, which
 * must not let in one token more where the mass is 0.8 but for rounding. */
static const double ROUNDING = 1e-6;

int locus_likeliest(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* ---- weights ------------------------------------------------------------------------------ */

static double largest_logit(const struct locus_candidates *candidates)
{
    double largest = candidates->at[0].logit;
    for (size_t i = 1; i < candidates->n && !candidates->sorted; i++)
        if (candidates->at[i].logit > largest) largest = candidates->at[i].logit;
    return largest;
}

double locus_candidates_weigh(struct locus_candidates *candidates)
{
    double largest = largest_logit(candidates), sum = 0;
    for (size_t i = 0; i < candidates->n; i++) {
        struct locus_candidate *candidate = &candidates->at[i];
        candidate->weight = locus_exp_double(candidate->logit - largest);
        sum += candidate->weight;
    }
    return sum;
}

/* ---- a heap with the best candidate on top ------------------------------------------------ */

static bool is_better(const struct locus_candidate *a, const struct locus_candidate *b)
{
    if (a->rank != b->rank) return a->rank > b->rank;
    if (a->logit != b->logit) return a->logit > b->logit;
    return a->id < b->id;
}

static void swap(struct locus_candidate *a, struct locus_candidate *b)
{
    struct locus_candidate other = *a;
    *a = *b;
    *b = other;
}

static void sift_down(struct locus_candidate *heap, size_t n, size_t at)
{
    struct locus_candidate moving = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_better(&heap[child + 1], &heap[child])) child++;
        if (!is_better(&heap[child], &moving)) break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static void build_heap(struct locus_candidates *candidates)
{
    for (size_t i = candidates->n / 2; i-- > 0;)
        sift_down(candidates->at, candidates->n, i);
}

/* Takes the best off the heap: it goes behind the n_left - 1 that stay. */
static const struct locus_candidate *take_best(struct locus_candidates *candidates, size_t n_left)
{
    swap(&candidates->at[0], &candidates->at[n_left - 1]);
    sift_down(candidates->at, n_left - 1, 0);
    return &candidates->at[n_left - 1];
}

/* Keeps the n_taken taken, in the order of their taking. */
static void keep_taken(struct locus_candidates *candidates, size_t n_taken)
{
    size_t n = candidates->n, n_swaps = n_taken < n / 2 ? n_taken : n / 2;
    for (size_t i = 0; i < n_swaps; i++)
        swap(&candidates->at[i], &candidates->at[n - 1 - i]);
    candidates->n = n_taken;
}

static void rank_by_logit(struct locus_candidates *candidates)
{
    for (size_t i = 0; i < candidates->n; i++)
        candidates->at[i].rank = candidates->at[i].logit;
}

/* Keeps the best by rank, as few as have that mass, and one at least. */
static void keep_mass(struct locus_candidates *candidates, double mass)
{
    size_t n_taken = 0;
    double sum = 0;
    build_heap(candidates);
    do {
        sum += take_best(candidates, candidates->n - n_taken)->weight;
        n_taken++;
    } while (sum < mass && n_taken < candidates->n);
    keep_taken(candidates, n_taken);
}

/* ---- stages ------------------------------------------------------------------------------- */

void locus_stage_top_k(struct locus_candidates *candidates, int k)
{
    if (k <= 0 || (size_t)k >= candidates->n) return;
    if (candidates->sorted) {
        candidates->n = (size_t)k;
        return;
    }
    rank_by_logit(candidates);
    build_heap(candidates);
    for (int i = 0; i < k; i++)
        take_best(candidates, candidates->n - (size_t)i);
    keep_taken(candidates, (size_t)k);
    candidates->sorted = true;
}

void locus_stage_top_p(struct locus_candidates *candidates, double p)
{
    if (p >= 1) return;
    double mass = p * (1 - ROUNDING) * locus_candidates_weigh(candidates);
    rank_by_logit(candidates);
    keep_mass(candidates, mass);
    candidates->sorted = true;
}

void locus_stage_min_p(struct locus_candidates *candidates, double p)
{
    size_t n = 0;
    if (p <= 0) return;
    locus_candidates_weigh(candidates);
    for (size_t i = 0; i < candidates->n; i++)
        if (candidates->at[i].weight >= p * (1 - ROUNDING)) candidates->at[n++] = candidates->at[i];
    candidates->n = n;
}

/* Information content less its expectation is -log p - H = mean(logit) - logit: the logarithm of
 * the total cancels. */
void locus_stage_typical_p(struct locus_candidates *candidates, double p)
{
    if (p >= 1) return;
    double total = locus_candidates_weigh(candidates), mean = 0;
    double largest = largest_logit(candidates);
    for (size_t i = 0; i < candidates->n; i++)
        mean += candidates->at[i].weight / total * (candidates->at[i].logit - largest);
    for (size_t i = 0; i < candidates->n; i++)
        candidates->at[i].rank = -fabs(mean - (candidates->at[i].logit - largest));
    keep_mass(candidates, p * (1 - ROUNDING) * total);
    candidates->sorted = false;
}

void locus_stage_temperature(struct locus_candidates *candidates, double temperature)
{
    if (temperature > 0) {
        for (size_t i = 0; i < candidates->n; i++)
            candidates->at[i].logit /= temperature;
        return;
    }
    rank_by_logit(candidates);
    for (size_t i = 1; i < candidates->n; i++)
        if (is_better(&candidates->at[i], &candidates->at[0]))
            swap(&candidates->at[i], &candidates->at[0]);
    candidates->n = 1;
}

void locus_stage_penalties(struct locus_candidates *candidates,
                           const struct locus_penalties *penalties, const int *counts)
{
    if (penalties->repeat == 1 && penalties->presence == 0 && penalties->frequency == 0) return;
    for (size_t i = 0; i < candidates->n; i++) {
        struct locus_candidate *candidate = &candidates->at[i];
        int count = counts[candidate->id];
        if (count == 0) continue;
        if (candidate->logit > 0)
            candidate->logit /= penalties->repeat;
        else
            candidate->logit *= penalties->repeat;
        candidate->logit -= penalties->presence + penalties->frequency * count;
    }
    candidates->sorted = false;
}
