/* What tests of kernels work on: random values, in memory that ends before a page that faults. */
#ifndef LOCUS_TESTS_GUARDED_H
#define LOCUS_TESTS_GUARDED_H

#include <stddef.h>
#include <stdint.h>

/* ---- random values ------------------------------------------------------------------------ */

/* The same values follow the same seed. */
void random_seed(uint64_t seed);
uint32_t random_bits(void);
int random_int(int from, int to);

/* -2 to 2; of `odd` values in 64 some are zeros, denormals, huge, infinite or NaN. */
float random_float(int odd);

/* ---- guarded memory ----------------------------------------------------------------------- */

/* A block whose last byte is the last one before a page that faults. */
struct guarded {
    char *pages, *block;
    size_t n_pages_bytes, size;
};

struct guarded guard(size_t size);
struct guarded random_floats(size_t n, int odd);
void release(struct guarded *memory);
float *floats_of(const struct guarded *memory);

/* Fails the test unless both hold the same bits, or NaN in both. */
void assert_same(const struct guarded *expected, const struct guarded *found, const char *what);

#endif
