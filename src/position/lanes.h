/* Products of a row with many columns at once: a lane is an output, and every output is one
 * sequential chain, so that bits don't depend on the width of a vector.
 */
#ifndef LOCUS_POSITION_LANES_H
#define LOCUS_POSITION_LANES_H

#include <stddef.h>

enum { LOCUS_LANES = 16 };

/* out[l] = sum over c of row[c] columns[c, l], for c < n; a row of `columns` is `stride` floats. */
static inline void locus_dot_lanes(float *restrict out, const float *restrict row,
                                   const float *restrict columns, size_t stride, int n)
{
    float sums[LOCUS_LANES] = {0};
    for (int c = 0; c < n; c++, columns += stride)
        for (int l = 0; l < LOCUS_LANES; l++)
            sums[l] += row[c] * columns[l];
    for (int l = 0; l < LOCUS_LANES; l++)
        out[l] = sums[l];
}

#endif
