/* A thread's share of a matrix product, and the order in which it is walked. */
#ifndef LOCUS_KERNELS_SHARE_H
#define LOCUS_KERNELS_SHARE_H

#include "base/threads.h"
#include "kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* Panels are dealt out whole. Where they are too few to go round evenly, the rows are dealt out
 * instead: each thread then reads all the weights, which many rows pay for. */
static inline struct locus_share locus_share_of(const struct locus_matmul *op, int thread,
                                                int n_threads)
{
    enum { FEW_PANELS = 16, SPLIT_ROWS = 24 };
    struct locus_share share = {0, locus_weight_n_panels(op->weight), 0, op->n};
    bool uneven = share.end % n_threads && share.end < FEW_PANELS * n_threads;
    if (uneven && op->n >= SPLIT_ROWS * n_threads)
        locus_threads_share(op->n, thread, n_threads, &share.row, &share.row_end);
    else
        locus_threads_share(share.end, thread, n_threads, &share.first, &share.end);
    return share;
}

/* How many panels of that size stay in the second-level cache while rows pass over them. */
static inline int locus_panel_group(size_t panel_bytes)
{
    const size_t budget = 512 * 1024;
    return panel_bytes < budget ? (int)(budget / panel_bytes) : 1;
}

#endif
