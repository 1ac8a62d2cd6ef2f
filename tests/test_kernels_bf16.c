/* Products of BF16 weights by vdpbf16ps: against the instruction spelled out in plain C, against
 * the products of plain C that round nothing, and the same bits however the work is cut.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "products.h"
#include "testing.h"

/* ---- the oracle --------------------------------------------------------------------------- */

static bool is_denormal(float value)
{
    return value != 0 && fabsf(value) < FLT_MIN;
}

static float flush(float value)
{
    return is_denormal(value) ? copysignf(0, value) : value;
}

/* What vdpbf16ps adds to a chain for one column. */
static float add_product(float chain, float w, float x)
{
    return flush(fmaf(flush(w), flush(x), chain));
}

/* One output: what it should be, and how far off it may be.
 *
 * u = 2^-24 bounds the relative error of a float rounded to nearest, and a chain of n
 * multiply-adds, in any order, is within n u times the sum of |w x| of the exact sum (Higham,
 * Accuracy and Stability of Numerical Algorithms, 3.1). A step that flushes a denormal result loses
 * less than FLT_MIN. So the instruction and the oracle may differ by
 *
 *     near = 2 (n u sum + n FLT_MIN), n = columns + 2 for the bias and for what is added to.
 *
 * Against plain C the rounding of activations comes on top, each by at most 2^-8 of its magnitude
 * (8 bits of precision), and a factor that is denormal loses its whole product:
 *
 *     far = near + 2^-8 sum |w x| + the sum of |w x| over such pairs.
 */
struct bound {
    float expected;
    double near, far;
    bool overflows; /* finite products that may leave the range: which do, depends on the order */
    bool is_number; /* no infinity and no NaN goes in */
};

static struct bound bound_of(const struct product *product, const float *w, int i, int r)
{
    const int cols = product->weight.cols;
    const size_t at = (size_t)i * (size_t)product->weight.rows + (size_t)r;
    const float *x = floats_of(&product->x) + (size_t)i * (size_t)cols;
    struct bound bound = {.is_number = true};
    double sum = 0, lost = 0;
    for (int c = 0; c < (cols + 1) / 2 * 2; c++) {
        const int second_first = c ^ 1;
        if (second_first >= cols) continue; /* what fills up a pair adds 0 */
        float weight = w[second_first], value = x[second_first];
        float rounded = locus_bf16_to_float(locus_float_to_bf16(value));
        bound.expected = add_product(bound.expected, weight, rounded);
        if (!isfinite(weight) || !isfinite(rounded)) {
            bound.is_number = false;
            continue;
        }
        double size = fabs((double)weight) * fmax(fabs((double)value), fabs((double)rounded));
        sum += size;
        if (is_denormal(weight) || is_denormal(value) || is_denormal(rounded)) lost += size;
    }
    double far = 0x1p-8 * sum + lost;
    for (int end = 0; end < 2; end++) {
        float term = end ? floats_of(&product->before)[at] : floats_of(&product->bias)[r];
        if (end ? !product->add : !product->with_bias) continue;
        bound.expected = end ? term + bound.expected : bound.expected + term;
        if (isfinite(term))
            sum += fabs((double)term);
        else
            bound.is_number = false;
    }
    const double n = cols + 2;
    bound.near = 2 * n * (0x1p-24 * sum + (double)FLT_MIN);
    bound.far = bound.near + far;
    bound.overflows = sum > 0.99 * (double)FLT_MAX;
    return bound;
}

/* ---- products ----------------------------------------------------------------------------- */

static void check_output(const struct product *product, const struct bound *bound, float found,
                         float plain)
{
    const int rows = product->weight.rows, cols = product->weight.cols, n = product->n;
    if (bound->overflows) return;
    if (!bound->is_number) {
        ck_assert_msg(isnan(bound->expected) ? isnan(found) : found == bound->expected,
                      "[%d, %d] by %d rows: %g, expected %g", rows, cols, n, (double)found,
                      (double)bound->expected);
        return;
    }
    double error = fabs((double)found - (double)bound->expected);
    ck_assert_msg(error <= bound->near, "[%d, %d] by %d rows: %.9g, expected %.9g within %g", rows,
                  cols, n, (double)found, (double)bound->expected, bound->near);
    error = fabs((double)found - (double)plain);
    ck_assert_msg(error <= bound->far, "[%d, %d] by %d rows: %.9g, plain C has %.9g; within %g",
                  rows, cols, n, (double)found, (double)plain, bound->far);
}

/* The rows in calls of `step`, as that many threads, into `out`. */
static void check_cut(const struct product *product, const struct guarded *wanted, int step,
                      int n_threads)
{
    const struct locus_weight *weight = &product->weight;
    struct guarded found = guard(wanted->size);
    memcpy(found.block, product->before.block, found.size);
    for (int i = 0; i < product->n; i += step) {
        struct locus_matmul op = product_op(product, &found);
        op.n = product->n - i < step ? product->n - i : step;
        op.out += (size_t)i * (size_t)weight->rows;
        op.in.bf16 += (size_t)i * locus_bf16_cols(weight->cols);
        op.in.x = NULL;
        for (int thread = 0; thread < n_threads; thread++)
            locus_multiply(kernels_with_dots(), &op, thread, n_threads);
    }
    assert_same(wanted, &found, "cut otherwise");
    release(&found);
}

static void check_product(struct product product)
{
    const int rows = product.weight.rows;
    struct guarded plain = multiply(&product, plain_kernels(), 1);
    struct guarded found = multiply(&product, kernels_with_dots(), 1);
    float *w = calloc((size_t)product.weight.cols, sizeof *w);
    for (int r = 0; r < rows; r++) {
        locus_weight_row(&product.weight, r, w);
        for (int i = 0; i < product.n; i++) {
            const struct bound bound = bound_of(&product, w, i, r);
            const size_t at = (size_t)i * (size_t)rows + (size_t)r;
            check_output(&product, &bound, floats_of(&found)[at], floats_of(&plain)[at]);
        }
    }
    free(w);
    check_cut(&product, &found, 1, 1);
    check_cut(&product, &found, 5, 2);
    check_cut(&product, &found, product.n, 3);
    release(&plain);
    release(&found);
    release_product(&product);
}

static bool has_dots(const char *what)
{
    if (kernels_with_dots()) return true;
    testing_skip_cpu(what);
    return false;
}

START_TEST(products_are_the_instructions_and_near_plain_c)
{
    static const int few[] = {1, 2, 3, 7, 12, 13, 23, 29};
    static const int odd[] = {0, 1, 4};
    if (!has_dots("products of avx512+vnni+bf16")) return;
    random_seed(7);
    for (int trial = 0; trial < 90; trial++)
        check_product(random_product(LOCUS_BF16, random_int(1, 100), random_int(1, 97),
                                     few[trial % 8], odd[trial % 3]));
    check_product(random_product(LOCUS_BF16, 33, 32, 150, 0));
    check_product(random_product(LOCUS_BF16, 1, 1, 1, 0));
    check_product(random_product(LOCUS_BF16, 96, 1025, 2, 0));
}
END_TEST

/* Products and chains that are denormal, or come out of factors that are. */
START_TEST(tiny_products_are_near_plain_c)
{
    if (!has_dots("tiny products of avx512+vnni+bf16")) return;
    random_seed(8);
    for (int trial = 0; trial < 40; trial++) {
        struct product product =
            random_product(LOCUS_BF16, random_int(1, 40), random_int(1, 30), 9, 1);
        product.add = product.with_bias = false;
        for (size_t i = 0; i < product.x.size / sizeof(float); i++)
            floats_of(&product.x)[i] *= trial % 2 ? 1e-37f : 3e-39f;
        check_product(product);
    }
}
END_TEST

/* ---- activations -------------------------------------------------------------------------- */

START_TEST(rows_of_bf16_are_whole_pairs)
{
    const struct locus_kernels *kernels = kernels_with_dots();
    if (!has_dots("rows of avx512+vnni+bf16")) return;
    for (int n = 1; n <= 70; n++) {
        struct guarded x = random_floats((size_t)n, 6);
        struct guarded found = guard(locus_bf16_cols(n) * sizeof(uint16_t));
        const uint16_t *bf16 = (const uint16_t *)(const void *)found.block;
        memset(found.block, 0xFF, found.size);
        kernels->to_bf16((uint16_t *)(void *)found.block, floats_of(&x), n);
        for (int i = 0; i < n; i++)
            ck_assert_uint_eq(bf16[i], locus_float_to_bf16(floats_of(&x)[i]));
        if (n % 2) ck_assert_uint_eq(bf16[n], 0);
        release(&x);
        release(&found);
    }
}
END_TEST

START_TEST(sets_without_dots_take_floats)
{
    const struct locus_kernels *kernels;
    for (int i = 0; (kernels = kernels_at(i)); i++)
        ck_assert(!strcmp(kernels->name, "avx512+vnni+bf16") == (kernels->to_bf16 != NULL));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels_bf16");
    TCase *tests = tcase_create("bf16");
    tcase_add_test(tests, products_are_the_instructions_and_near_plain_c);
    tcase_add_test(tests, tiny_products_are_near_plain_c);
    tcase_add_test(tests, rows_of_bf16_are_whole_pairs);
    tcase_add_test(tests, sets_without_dots_take_floats);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
