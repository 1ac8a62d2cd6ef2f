/* Random numbers: xoshiro256++ (Blackman and Vigna, "Scrambled Linear Pseudorandom Number
 * Generators", arXiv 1805.01407), period 2^256 - 1, seeded through SplitMix64 (Steele, Lea and
 * Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), so that any 64-bit seed
 * will do, 0 too. Integer arithmetic alone: a seed gives the same numbers everywhere.
 */
#ifndef LOCUS_BASE_RNG_H
#define LOCUS_BASE_RNG_H

#include <stdint.h>

struct locus_rng {
    uint64_t state[4]; /* never all zero once seeded */
};

void locus_rng_seed(struct locus_rng *rng, uint64_t seed);

uint64_t locus_rng_next(struct locus_rng *rng); /* 64 random bits */

double locus_rng_double(struct locus_rng *rng); /* uniform in [0, 1), a multiple of 2^-53 */

#endif
