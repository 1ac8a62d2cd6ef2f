/* Random numbers: see rng.h. */
#include "base/rng.h"

static uint64_t rotate_left(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

/* SplitMix64: an odd step and a mixing that is a bijection, so of four outputs at most one is 0. */
static uint64_t split_mix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

void locus_rng_seed(struct locus_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->state[i] = split_mix(&seed);
}

uint64_t locus_rng_next(struct locus_rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double locus_rng_double(struct locus_rng *rng)
{
    return (double)(locus_rng_next(rng) >> 11) * 0x1p-53;
}
