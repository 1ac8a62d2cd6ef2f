/* Levels and their sums: see encode.h. The number of values is left to run time: compilers unroll
 * loops of a known length before they think of vectors, which is three times slower. */
#include "kernels/encode.h"

static float sum_of(const float *a, int n)
{
    float sums[4] = {0};
    for (int i = 0; i < n; i += 4)
        for (int lane = 0; lane < 4; lane++)
            sums[lane] += a[i + lane];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

static float sum_of_products(const float *a, const float *b, int n)
{
    float sums[4] = {0};
    for (int i = 0; i < n; i += 4)
        for (int lane = 0; lane < 4; lane++)
            sums[lane] += a[i + lane] * b[i + lane];
    return sums[0] + sums[1] + sums[2] + sums[3];
}

static float squared_error(const float *x, const float *levels, int n, float scale, float min)
{
    float sums[4] = {0};
    for (int i = 0; i < n; i += 4)
        for (int lane = 0; lane < 4; lane++) {
            const float miss = x[i + lane] - (scale * levels[i + lane] - min);
            sums[lane] += miss * miss;
        }
    return sums[0] + sums[1] + sums[2] + sums[3];
}

struct locus_level_sums locus_to_levels(float *levels, const float *x, int n, float scale,
                                        float min, float first, float last)
{
    float inverse = scale != 0 ? 1 / scale : 0;
    if (!isfinite(inverse)) inverse = 0; /* a scale next to 0: so are the values */
    for (int i = 0; i < n; i++)
        levels[i] = locus_to_whole(locus_clamp((x[i] + min) * inverse, first, last));
    return (struct locus_level_sums){squared_error(x, levels, n, scale, min), sum_of(levels, n),
                                     sum_of_products(levels, levels, n),
                                     sum_of_products(x, levels, n)};
}
