/* Parts of the NEON set that need more than ARMv8's baseline, or replace what does. */
#ifndef LOCUS_KERNELS_NEON_H
#define LOCUS_KERNELS_NEON_H

#include "kernels/share.h"

/* Q8_0 and Q4_0 by sdot (ARMv8.2's dotprod), and without it. */
void locus_neon_dot_matmul(const struct locus_matmul *op, struct locus_share share);
void locus_neon_plain_matmul(const struct locus_matmul *op, struct locus_share share);

#endif
