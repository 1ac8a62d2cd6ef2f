/* Random matrix products for tests, and the kernel sets that they run on. */
#ifndef LOCUS_TESTS_PRODUCTS_H
#define LOCUS_TESTS_PRODUCTS_H

#include "guarded.h"
#include "kernels/kernels.h"

/* A product whose every buffer ends before a page that faults. */
struct product {
    struct locus_weight weight;
    struct guarded panels, x, blocks, bfloats, bias, before;
    int n;
    bool with_bias, add;
};

/* [rows, cols] by n rows of activations; `odd` as random_float has it. */
struct product random_product(enum locus_tensor_type type, int rows, int cols, int n, int odd);
void release_product(struct product *product);

/* The operation that makes `out` [n, rows]. */
struct locus_matmul product_op(const struct product *product, const struct guarded *out);

/* Prepares the activations, and runs it as that many threads, one after another. */
struct guarded multiply(const struct product *product, const struct locus_kernels *kernels,
                        int n_threads);

/* The set that multiplies BF16 weights by vdpbf16ps; NULL where the CPU doesn't execute that, which
 * is tried, as some virtual machines hide it. */
const struct locus_kernels *kernels_with_dots(void);

/* As locus_kernels_at, and then the set above where that doesn't name it. */
const struct locus_kernels *kernels_at(int index);

#endif
