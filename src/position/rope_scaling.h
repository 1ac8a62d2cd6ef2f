/* Scalings of rotary positions, as arithmetic alone: from a scaling to the frequency of each pair
 * of dimensions and the factor of sines and cosines.
 */
#ifndef LOCUS_POSITION_ROPE_SCALING_H
#define LOCUS_POSITION_ROPE_SCALING_H

#include <stdbool.h>

#include "locus_position.h"

/* In the order of the parameter `scaling`. */
enum locus_rope_scaling_kind {
    LOCUS_ROPE_UNSCALED,
    LOCUS_ROPE_LINEAR,
    LOCUS_ROPE_NTK,
    LOCUS_ROPE_DYNAMIC,
    LOCUS_ROPE_YARN,
    LOCUS_ROPE_LLAMA3,
    LOCUS_ROPE_LONGROPE
};

/* In the order of the parameter `factors`. */
enum locus_rope_factors { LOCUS_ROPE_BY_LENGTH, LOCUS_ROPE_SHORT, LOCUS_ROPE_LONG };

struct locus_rope_scaling {
    enum locus_rope_scaling_kind kind;
    int dim;            /* r: dimensions that are rotated; even */
    double base;        /* theta_k = base^(-2k/r) */
    double factor;      /* above 0 */
    double trained;     /* L: the length before any scaling */
    double beta_fast;   /* yarn: turns within L, from which on a pair is kept, */
    double beta_slow;   /* and up to which it is divided */
    bool truncate;      /* yarn: the pairs between are whole numbers */
    double low, high;   /* llama3: the same as L over the wavelength */
    double attn_factor; /* yarn, longrope: replaces the formula's m; negative: doesn't */
    enum locus_rope_factors factors;           /* longrope */
    const float *short_factors, *long_factors; /* longrope: [dim/2] */
    const float *divisors; /* [dim/2]: divide theta_k whatever the scaling; NULL: ones */
};

/* theta of pair k, the angle a position, for a text of n positions. */
double locus_rope_frequency(const struct locus_rope_scaling *scaling, double n, int k);

/* theta[dim/2], the angle of each pair a position, for a text of n positions. */
void locus_rope_frequencies(const struct locus_rope_scaling *scaling, double n, double *theta);

/* Whether the frequencies differ from one n to another. */
bool locus_rope_varies(const struct locus_rope_scaling *scaling);

/* m, by which cosines and sines are multiplied. */
double locus_rope_magnitude(const struct locus_rope_scaling *scaling);

/* Yarn: pairs below *low are kept, those above *high divided by the factor. */
void locus_rope_yarn_range(const struct locus_rope_scaling *scaling, double *low, double *high);

/* base', of texts of n positions: that of ntk and dynamic differs from `base`. */
double locus_rope_base(const struct locus_rope_scaling *scaling, double n);

/* An estimate of how many times the trained length L texts of n positions may be. Of the first
 * n_pairs pairs, those that turn full circle within L have met every angle; the others may turn no
 * farther than they did within L. INFINITY: there are none of these. */
double locus_rope_reach_ratio(const struct locus_rope_scaling *scaling, int n_pairs, double n);

/* The factor with which ntk, or dynamic for a text of n positions, reaches n by that estimate, n
 * above L; INFINITY: none does. */
double locus_rope_factor_for(const struct locus_rope_scaling *scaling, double n);

/* An estimate of how many times its trained length a model reaches under ntk with that factor:
 * alpha^(2 kc / (r-2)), where the wavelength of pair kc = r ln(L / 2 pi) / (2 ln base) is L. */
double locus_rope_ntk_reach(const struct locus_rope_scaling *scaling);

#endif
