/* Position schemes called through their hooks, with tensors made up for the test. */
#ifndef LOCUS_TESTS_POSITION_TESTING_H
#define LOCUS_TESTS_POSITION_TESTING_H

#include "position/position.h"

/* A made-up checkpoint's tensor. */
struct fake_tensor {
    const char *name;
    int rows, cols;
    const float *values;
};

struct fake_checkpoint {
    struct fake_tensor tensors[16]; /* ends with a NULL name */
};

/* A small model: 2 layers, 4 heads of 8, trained length 16; sessions of 64 positions. */
struct locus_position_env position_env(const struct fake_checkpoint *checkpoint);

/* Resolves one SPEC: see position/spec.h. */
enum locus_status position_resolve(struct locus_position_spec *spec, const char *text,
                                   const char *own, const struct locus_position_scheme *scheme,
                                   const struct locus_position_env *env, locus_error *error);

/* A scheme ready for use; fails the test if it can't be. */
struct locus_position position_open(const struct locus_position_env *env, const char *spec);

/* The SPEC is refused, when it is read or by the scheme, with a line that holds `expected`. */
void position_refused(const struct locus_position_env *env, const char *spec, const char *expected);

/* The bias of one head and layer 0 for a query at i against keys 0 .. i, added to zeros: scores[i +
 * 1]. Also checks that slices and listed positions give the same bits. */
void position_bias_row(const struct locus_position *position, int layer, int head, const float *q,
                       int i, float *scores);

/* One row of n_heads heads of 8 at a position, by the hook. */
void position_rotate(const struct locus_position *position, int layer,
                     enum locus_position_rows which, float *row, int n_heads, int at, int origin);

/* Rows x[n, n_embd] from a position on, by the hook. */
void position_embed(const struct locus_position *position, float *x, int first_position, int n,
                    float *states);

/* Fills values[n] with numbers of [-scale, scale], always the same for a seed. */
void position_random(float *values, int n, float scale, unsigned seed);

/* Fails the test unless |got - expected| <= tolerance * max(1, |expected|). */
void position_near(double got, double expected, double tolerance, const char *what, int at);

#endif
