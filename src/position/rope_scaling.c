/* Scalings of rotary positions: see rope_scaling.h. r is the rotary width, L the trained length, s
 * the factor, n the text's length.
 *
 * linear    Chen et al., "Extending Context Window of Large Language Models via Positional
 *           Interpolation", arXiv 2306.15595, equation 4: theta / s
 * ntk       bloc97, "NTK-Aware Scaled RoPE" (2023), and YaRN's definition 1: base s^(r/(r-2))
 * dynamic   the same with s n/L - (s - 1) in place of s for n > L: Hugging Face's dynamic NTK, and
 *           YaRN, section 3.3
 * yarn      Peng et al., "YaRN: Efficient Context Window Extension", arXiv 2309.00071, equations
 *           19-23, with the rounded range of pairs of the authors' code
 * llama3    Dubey et al., "The Llama 3 Herd of Models", arXiv 2407.21783, as in Meta's code
 * longrope  Ding et al., "LongRoPE", arXiv 2402.13753, as Phi-3 has it (arXiv 2404.14219)
 */
#include "position/rope_scaling.h"

#include <math.h>

#include "base/math.h"

#define TWO_PI 6.283185307179586

/* base' for ntk, where the frequency of the last pair is divided by s exactly. */
static double stretched_base(const struct locus_rope_scaling *scaling, double s)
{
    double r = scaling->dim;
    return scaling->base * locus_power(s, r / (r - 2));
}

/* Dynamic's alpha for a text of n positions, more than L. */
static double dynamic_alpha(const struct locus_rope_scaling *scaling, double n)
{
    const double s = scaling->factor;
    return s * n / scaling->trained - (s - 1);
}

double locus_rope_base(const struct locus_rope_scaling *scaling, double n)
{
    double s = scaling->factor;
    if (scaling->kind == LOCUS_ROPE_NTK) return stretched_base(scaling, s);
    if (scaling->kind == LOCUS_ROPE_DYNAMIC && n > scaling->trained)
        return stretched_base(scaling, dynamic_alpha(scaling, n));
    return scaling->base;
}

/* The pair, as a real number, that turns `turns` times within L: L theta_k = 2 pi turns. */
static double pair_of_turns(const struct locus_rope_scaling *scaling, double turns)
{
    return scaling->dim * locus_log(scaling->trained / (turns * TWO_PI)) /
           (2 * locus_log(scaling->base));
}

void locus_rope_yarn_range(const struct locus_rope_scaling *scaling, double *low, double *high)
{
    double last = scaling->dim - 1;
    *low = pair_of_turns(scaling, scaling->beta_fast);
    *high = pair_of_turns(scaling, scaling->beta_slow);
    if (scaling->truncate) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    if (*low < 0) *low = 0;
    if (*high > last) *high = last;
    if (*low == *high) *high += 0.001;
}

static double yarn_frequency(const struct locus_rope_scaling *scaling, int k, double theta)
{
    double low, high;
    locus_rope_yarn_range(scaling, &low, &high);
    double ramp = (k - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return theta / scaling->factor * ramp + theta * (1 - ramp);
}

static double llama3_frequency(const struct locus_rope_scaling *scaling, double theta)
{
    double wavelength = TWO_PI / theta, trained = scaling->trained;
    double low = scaling->low, high = scaling->high, s = scaling->factor;
    if (wavelength < trained / high) return theta;
    if (wavelength > trained / low) return theta / s;
    double u = (trained / wavelength - low) / (high - low);
    return ((1 - u) / s + u) * theta;
}

static const float *longrope_factors(const struct locus_rope_scaling *scaling, double n)
{
    bool is_long = scaling->factors == LOCUS_ROPE_LONG ||
                   (scaling->factors == LOCUS_ROPE_BY_LENGTH && n > scaling->trained);
    return is_long ? scaling->long_factors : scaling->short_factors;
}

/* theta of pair k; base' is that of n. */
static double frequency(const struct locus_rope_scaling *scaling, double base, double n, int k)
{
    double theta = locus_power(base, -2.0 * k / scaling->dim);
    if (scaling->divisors) theta /= (double)scaling->divisors[k];
    if (scaling->kind == LOCUS_ROPE_LINEAR) theta /= scaling->factor;
    if (scaling->kind == LOCUS_ROPE_YARN) theta = yarn_frequency(scaling, k, theta);
    if (scaling->kind == LOCUS_ROPE_LLAMA3) theta = llama3_frequency(scaling, theta);
    if (scaling->kind == LOCUS_ROPE_LONGROPE) theta /= (double)longrope_factors(scaling, n)[k];
    return theta;
}

double locus_rope_frequency(const struct locus_rope_scaling *scaling, double n, int k)
{
    return frequency(scaling, locus_rope_base(scaling, n), n, k);
}

void locus_rope_frequencies(const struct locus_rope_scaling *scaling, double n, double *theta)
{
    const double base = locus_rope_base(scaling, n);
    for (int k = 0; k < scaling->dim / 2; k++)
        theta[k] = frequency(scaling, base, n, k);
}

bool locus_rope_varies(const struct locus_rope_scaling *scaling)
{
    return scaling->kind == LOCUS_ROPE_DYNAMIC ||
           (scaling->kind == LOCUS_ROPE_LONGROPE && scaling->factors == LOCUS_ROPE_BY_LENGTH);
}

double locus_rope_magnitude(const struct locus_rope_scaling *scaling)
{
    bool yarn = scaling->kind == LOCUS_ROPE_YARN;
    if (!yarn && scaling->kind != LOCUS_ROPE_LONGROPE) return 1;
    if (scaling->attn_factor >= 0) return scaling->attn_factor;
    if (scaling->factor <= 1) return 1;
    double log_factor = locus_log(scaling->factor);
    return yarn ? 0.1 * log_factor + 1 : sqrt(1 + log_factor / locus_log(scaling->trained));
}

/* ---- reach -------------------------------------------------------------------------------- */

/* Pair k = pair_of_turns(1), and those after it, don't turn full circle within L. Under ntk and
 * dynamic their frequencies are divided by alpha^(2k/(r-2)). */
static double ntk_exponent(const struct locus_rope_scaling *scaling)
{
    const double k = pair_of_turns(scaling, 1);
    return 2 * (k < 0 ? 0 : k) / (scaling->dim - 2);
}

double locus_rope_ntk_reach(const struct locus_rope_scaling *scaling)
{
    return locus_power(scaling->factor, 2 * pair_of_turns(scaling, 1) / (scaling->dim - 2));
}

static double plain_frequency(const struct locus_rope_scaling *scaling, int k)
{
    const double theta = locus_power(scaling->base, -2.0 * k / scaling->dim);
    return scaling->divisors ? theta / (double)scaling->divisors[k] : theta;
}

double locus_rope_reach_ratio(const struct locus_rope_scaling *scaling, int n_pairs, double n)
{
    const bool by_base = scaling->kind == LOCUS_ROPE_NTK || scaling->kind == LOCUS_ROPE_DYNAMIC;
    struct locus_rope_scaling one = *scaling;
    double least = INFINITY;
    for (int k = 0; k < n_pairs; k++) {
        const double theta = plain_frequency(scaling, k);
        if (scaling->trained * theta >= TWO_PI) continue;
        if (by_base) {
            if (scaling->kind == LOCUS_ROPE_DYNAMIC)
                one.factor = n > scaling->trained ? dynamic_alpha(scaling, n) : 1;
            return locus_rope_ntk_reach(&one);
        }
        const double ratio = theta / locus_rope_frequency(scaling, n, k);
        if (ratio < least) least = ratio;
    }
    return least;
}

double locus_rope_factor_for(const struct locus_rope_scaling *scaling, double n)
{
    const double ratio = n / scaling->trained, exponent = ntk_exponent(scaling);
    if (exponent <= 0) return INFINITY;
    const double alpha = locus_power(ratio, 1 / exponent);
    return scaling->kind == LOCUS_ROPE_DYNAMIC ? (alpha - 1) / (ratio - 1) : alpha;
}
