/* The stages of sampling, each on a set of candidate tokens. None leaves the set empty.
 *
 * All arithmetic is in double with an exponential of our own, and every tie is broken by the lower
 * id: the same logits leave the same set everywhere. A stage's probabilities are the softmax over
 * the candidates still there, so a cut renormalises.
 */
#ifndef LOCUS_SAMPLE_STAGES_H
#define LOCUS_SAMPLE_STAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct locus_candidate {
    double logit;  /* finite */
    double weight; /* exp(logit - the largest), once weighed */
    double rank;   /* what a selection orders by, highest first; then logit, then the lower id */
    int32_t id;
};

struct locus_candidates {
    struct locus_candidate *at; /* [n], n >= 1 */
    size_t n;
    bool sorted; /* likeliest first, then the lower id */
};

/* The index of the largest of logits[n], n >= 1; the first among equals. A NaN is never larger. */
int locus_likeliest(const float *logits, int n);

/* Fills in the weights and returns their sum, which is at least 1. */
double locus_candidates_weigh(struct locus_candidates *candidates);

/* The k likeliest (Fan et al., "Hierarchical Neural Story Generation", arXiv 1805.04833). k <= 0:
 * all. */
void locus_stage_top_k(struct locus_candidates *candidates, int k);

/* Nucleus sampling: the smallest set of likeliest tokens whose mass reaches p (Holtzman et al.,
 * "The Curious Case of Neural Text Degeneration", arXiv 1904.09751). p >= 1: all. */
void locus_stage_top_p(struct locus_candidates *candidates, double p);

/* Those at least p times as likely as the likeliest (Nguyen et al., "Turning Up the Heat: Min-p
 * Sampling", arXiv 2407.01082). 0 <= p <= 1. */
void locus_stage_min_p(struct locus_candidates *candidates, double p);

/* Locally typical sampling: the smallest set of tokens whose information content is nearest to the
 * expected one and whose mass reaches p (Meister et al., "Locally Typical Sampling", arXiv
 * 2202.00666). p >= 1: all. */
void locus_stage_typical_p(struct locus_candidates *candidates, double p);

/* Divides the logits; 0 keeps the likeliest alone. */
void locus_stage_temperature(struct locus_candidates *candidates, double temperature);

struct locus_penalties {
    double repeat;    /* divides positive logits and multiplies negative ones (CTRL, Keskar et al.,
                       * arXiv 1909.05858, with the sign in mind) */
    double presence;  /* subtracted once */
    double frequency; /* subtracted as often as the token occurs */
};

/* Penalises the tokens that occur: counts[id] times. */
void locus_stage_penalties(struct locus_candidates *candidates,
                           const struct locus_penalties *penalties, const int *counts);

#endif
