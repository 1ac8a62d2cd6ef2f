/* Random matrix products for tests, and the kernel sets that they run on. */
#ifndef LOCUS_TESTS_PRODUCTS_H
#define LOCUS_TESTS_PRODUCTS_H

#include "guarded.h"
#include "kernels/kernels.h"

/* n_values of a type as a file stores them: bytes of any value, and scales and mins (halves) that
 * are random_float's. */
void random_row(unsigned char *row, enum locus_tensor_type type, int n_values, int odd);

/* A product whose every buffer ends before a page that faults. */
struct product {
    struct locus_weight weight;
    struct guarded panels, x, blocks, bf16, bias, before;
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

/* ---- kernel sets -------------------------------------------------------------------------- */

/* Plain C, which the others are held against. */
const struct locus_kernels *plain_kernels(void);

/* The sets that locus_kernels_name names, and then the one below where that doesn't name it; NULL
 * past the last. */
const struct locus_kernels *kernels_at(int index);

/* The set that multiplies BF16 weights by vdpbf16ps; NULL where the CPU doesn't execute that, which
 * is tried, as some virtual machines hide it. */
const struct locus_kernels *kernels_with_dots(void);

#endif
