/* Number formats: halves one by one, blocks by their definition, packed weights there and back, and
 * plain C's matrix product against the chain that it is by definition.
 */
#include "kernels/formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "products.h"
#include "testing.h"

/* ---- halves -------------------------------------------------------------------------------- */

/* A half by its definition. */
static double half_value(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double magnitude = exponent == 31 ? mantissa ? (double)NAN : (double)INFINITY
                       : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                      : ldexp(mantissa, -24);
    return half & 0x8000 ? -magnitude : magnitude;
}

START_TEST(every_half_is_the_float_it_says)
{
    for (uint32_t half = 0; half < 0x10000; half++) {
        float got = locus_f16_to_float((uint16_t)half);
        double wanted = half_value((uint16_t)half);
        if (isnan(wanted))
            ck_assert_msg(isnan(got), "%04x", half);
        else
            ck_assert_msg((double)got == wanted && !signbit(got) == !(half & 0x8000), "%04x", half);
        uint16_t back = locus_float_to_f16(got);
        ck_assert_msg(isnan(got) ? isnan(locus_f16_to_float(back)) : back == half, "%04x", half);
    }
}
END_TEST

/* Between two neighbours: the nearer, and half-way the even one. */
START_TEST(floats_become_the_nearest_half)
{
    for (uint16_t half = 0; half < 0x7C00; half++) {
        uint16_t next = (uint16_t)(half + 1), even = half & 1 ? next : half;
        double above = next == 0x7C00 ? 65536 : half_value(next);
        float middle = (float)((half_value(half) + above) / 2);
        const struct {
            float value;
            uint16_t wanted;
        } cases[] = {
            {middle, even}, {nextafterf(middle, 0), half}, {nextafterf(middle, INFINITY), next}};
        for (int i = 0; i < 3; i++) {
            ck_assert_msg(locus_float_to_f16(cases[i].value) == cases[i].wanted, "%.9g",
                          (double)cases[i].value);
            ck_assert(locus_float_to_f16(-cases[i].value) == (cases[i].wanted | 0x8000));
        }
    }
    ck_assert_uint_eq(locus_float_to_f16(1e30F), 0x7C00);
    ck_assert_uint_eq(locus_float_to_f16(-INFINITY), 0xFC00);
    ck_assert_uint_eq(locus_float_to_f16(1e-30F), 0);
    ck_assert_uint_eq(locus_float_to_f16(-1e-45F), 0x8000);
    ck_assert(isnan(locus_f16_to_float(locus_float_to_f16(locus_float_of(0x7F800001)))));
}
END_TEST

START_TEST(every_bfloat_is_the_upper_half_of_a_float)
{
    for (uint32_t bf16 = 0; bf16 < 0x10000; bf16++)
        ck_assert_uint_eq(locus_bits_of(locus_bf16_to_float((uint16_t)bf16)), bf16 << 16);
}
END_TEST

START_TEST(floats_become_the_nearest_bfloat)
{
    for (uint32_t bf16 = 0; bf16 < 0x7F80; bf16++) {
        float middle = locus_float_of(bf16 << 16 | 0x8000); /* exactly: ulps are as wide */
        const uint32_t cases[][2] = {{locus_bits_of(middle), bf16 + (bf16 & 1)},
                                     {locus_bits_of(middle) - 1, bf16},
                                     {locus_bits_of(middle) + 1, bf16 + 1},
                                     {bf16 << 16, bf16}};
        for (int i = 0; i < 4; i++) {
            float value = locus_float_of(cases[i][0]);
            ck_assert_msg(locus_float_to_bf16(value) == cases[i][1], "%.9g", (double)value);
            ck_assert(locus_float_to_bf16(-value) == (cases[i][1] | 0x8000));
        }
    }
    ck_assert_uint_eq(locus_float_to_bf16(-INFINITY), 0xFF80);
    ck_assert(isnan(locus_bf16_to_float(locus_float_to_bf16(locus_float_of(0x7F800001)))));
    ck_assert(isnan(locus_bf16_to_float(locus_float_to_bf16(locus_float_of(0xFFFFFFFF)))));
}
END_TEST

/* ---- blocks -------------------------------------------------------------------------------- */

static uint64_t random_state = 1;

static uint32_t draw(void)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(random_state >> 32);
}

static float draw_float(void)
{
    return (float)(int32_t)draw() * 0x1p-30F;
}

START_TEST(blocks_are_scaled_integers)
{
    struct locus_q8_0 q8 = {.scale = locus_float_to_f16(0.25F)};
    struct locus_q4_0 q4 = {.scale = locus_float_to_f16(-0.5F)};
    float out[LOCUS_QUANT_BLOCK];
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        q8.q[i] = (int8_t)(i * 8 - 128);
    for (int i = 0; i < LOCUS_QUANT_BLOCK / 2; i++)
        q4.q[i] = (uint8_t)(i | (15 - i) << 4);
    locus_dequantize_row(out, &q8, LOCUS_Q8_0, LOCUS_QUANT_BLOCK);
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        ck_assert(out[i] == (float)(i * 8 - 128) / 4);
    locus_dequantize_row(out, &q4, LOCUS_Q4_0, LOCUS_QUANT_BLOCK);
    for (int i = 0; i < LOCUS_QUANT_BLOCK / 2; i++) {
        ck_assert(out[i] == (float)(i - 8) / -2);
        ck_assert(out[i + LOCUS_QUANT_BLOCK / 2] == (float)(7 - i) / -2);
    }
}
END_TEST

/* The rule of formats.h, in the plainest way. */
static void check_block(const float *x)
{
    int8_t q[LOCUS_QUANT_BLOCK];
    float scale = locus_quantize_block(q, x), largest = 0;
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
    float inverse = 127 / largest;
    bool none = !isfinite(inverse);
    ck_assert(scale == (none ? 0 : largest / 127));
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++) {
        float wanted = none ? 0 : rintf(x[i] * inverse);
        ck_assert_msg((float)q[i] == wanted, "%.9g of %.9g is %d, expected %g", (double)x[i],
                      (double)largest, q[i], (double)wanted);
    }
}

START_TEST(activations_are_quantised_by_one_exact_rule)
{
    float x[LOCUS_QUANT_BLOCK];
    for (int round = 0; round < 20000; round++) {
        for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
            x[i] = ldexpf(draw_float(), round % 270 - 148);
        check_block(x);
        x[0] = 127; /* whole numbers and a half: ties */
        for (int i = 1; i < LOCUS_QUANT_BLOCK; i++)
            x[i] = (float)(int)(draw() % 253) / 2 - 63;
        check_block(x);
    }
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        x[i] = 0;
    check_block(x);
    x[3] = 1e-45F;
    check_block(x);
    x[3] = 3.4e38F;
    check_block(x);
}
END_TEST

START_TEST(activations_that_are_no_numbers_are_carried_by_the_scale)
{
    int8_t q[LOCUS_QUANT_BLOCK];
    float x[LOCUS_QUANT_BLOCK] = {1, -INFINITY, 3};
    ck_assert(isinf(locus_quantize_block(q, x)));
    x[30] = NAN;
    ck_assert(isnan(locus_quantize_block(q, x)));
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        ck_assert_int_eq(q[i], 0);
}
END_TEST

/* ---- packed weights ------------------------------------------------------------------------ */

enum { ROWS = 96, COLS = 512 };

struct matrix {
    enum locus_tensor_type type;
    size_t row_bytes;
    unsigned char *stored;
    float values[ROWS * COLS];
};

/* Rows of number `index` of the types. */
static struct matrix *new_matrix(int index)
{
    struct matrix *matrix = calloc(1, sizeof *matrix);
    ck_assert_ptr_nonnull(matrix);
    matrix->type = locus_tensor_type_at((size_t)index)->type;
    matrix->row_bytes = locus_tensor_row_bytes(matrix->type, COLS);
    matrix->stored = calloc(ROWS, matrix->row_bytes);
    ck_assert_ptr_nonnull(matrix->stored);
    random_seed((uint64_t)index + 1);
    for (size_t r = 0; r < ROWS; r++) {
        random_row(matrix->stored + r * matrix->row_bytes, matrix->type, COLS, 0);
        locus_dequantize_row(matrix->values + r * COLS, matrix->stored + r * matrix->row_bytes,
                             matrix->type, COLS);
    }
    return matrix;
}

static void free_matrix(struct matrix *matrix)
{
    free(matrix->stored);
    free(matrix);
}

static struct locus_weight pack(const struct matrix *matrix, int rows, int first)
{
    struct locus_weight weight;
    locus_error error = {0};
    struct locus_row_source source = {.data = matrix->stored, .first = first};
    ck_assert_msg(!locus_weight_pack(&weight, matrix->type, rows, COLS, source, 2, &error), "%s",
                  error.message);
    return weight;
}

START_TEST(packed_rows_come_back)
{
    static const struct {
        int rows, first;
    } sources[] = {{ROWS, 0}, {1, 5}, {33, 60}, {31, 0}, {64, 32}};
    struct matrix *matrix = new_matrix(_i);
    for (size_t s = 0; s < sizeof sources / sizeof *sources; s++) {
        struct locus_weight weight = pack(matrix, sources[s].rows, sources[s].first);
        for (int r = 0; r < sources[s].rows; r++) {
            float row[COLS];
            locus_weight_row(&weight, r, row);
            ck_assert_msg(
                !memcmp(row, matrix->values + (size_t)(sources[s].first + r) * COLS, sizeof row),
                "source %zu, row %d", s, r);
        }
        locus_weight_free(&weight);
    }
    free_matrix(matrix);
}
END_TEST

/* The sum of products of 32 levels (NULL: ones) and activations, of part s of the form's. */
static float part_dot(struct locus_traits form, const struct locus_levels *levels,
                      const int8_t q[LOCUS_QUANT_BLOCK], int s)
{
    int dot = 0;
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++) {
        const int level = !levels ? 1 : form.table ? form.table[levels->q[i]] : levels->q[i];
        if (form.n_scales == 1 || i / 16 == s) dot += q[i] * level;
    }
    return (float)dot;
}

/* One output by its definition: multiply-adds along the columns. Of quantised weights one a block:
 * of an exact integer dot and the product of both scales; or, where it has two scales, or mins, of
 * the sum of dots times scales and sums of activations times mins, and the activations' scale. */
static float sum_of(const struct matrix *matrix, int row, const float *x)
{
    const struct locus_weight_type *type = locus_weight_type(matrix->type);
    const struct locus_traits form = locus_traits_of(matrix->type);
    const unsigned char *stored = matrix->stored + (size_t)row * matrix->row_bytes;
    float acc = 0;
    for (int c = 0; c < COLS && !type->read; c++)
        acc = fmaf(x[c], matrix->values[(size_t)row * COLS + (size_t)c], acc);
    for (size_t b = 0; b < COLS / LOCUS_QUANT_BLOCK && type->read; b++) {
        int8_t q[LOCUS_QUANT_BLOCK];
        struct locus_levels levels;
        const float in_scale = locus_quantize_block(q, x + b * LOCUS_QUANT_BLOCK);
        float terms = 0;
        type->read(&levels, stored, b);
        if (form.n_scales == 1 && !form.mins) {
            acc = fmaf(part_dot(form, &levels, q, 0),
                       locus_levels_scale(&levels, form, 0) * in_scale, acc);
            continue;
        }
        for (int s = 0; s < form.n_scales; s++) {
            terms =
                fmaf(part_dot(form, &levels, q, s), locus_levels_scale(&levels, form, s), terms);
            if (form.mins)
                terms = fmaf(part_dot(form, NULL, q, s), locus_levels_min(&levels, form, s), terms);
        }
        acc = fmaf(terms, in_scale, acc);
    }
    return acc;
}

/* n = 5 rows: a tile of four and one more. */
START_TEST(plain_products_are_what_they_are_by_definition)
{
    enum { N = 5 };
    struct matrix *matrix = new_matrix(_i);
    struct locus_weight weight = pack(matrix, ROWS, 0);
    const struct locus_kernels *kernels = plain_kernels();
    struct locus_activation_block *blocks = calloc(N * COLS / LOCUS_QUANT_BLOCK, sizeof *blocks);
    float x[N * COLS], bias[ROWS], out[N * ROWS], before[N * ROWS];
    ck_assert_ptr_nonnull(blocks);
    for (int i = 0; i < N * COLS; i++)
        x[i] = draw_float();
    for (int i = 0; i < N * ROWS; i++)
        out[i] = before[i] = draw_float();
    for (int r = 0; r < ROWS; r++)
        bias[r] = draw_float();
    for (int i = 0; i < N; i++)
        kernels->quantize(blocks + i * (COLS / LOCUS_QUANT_BLOCK), x + i * COLS, COLS);
    struct locus_matmul op = {
        .out = out, .in = {x, blocks, NULL}, .weight = &weight, .bias = bias, .n = N, .add = true};
    for (int thread = 0; thread < 3; thread++)
        locus_multiply(kernels, &op, thread, 3);
    for (int i = 0; i < N; i++)
        for (int r = 0; r < ROWS; r++) {
            float wanted = before[i * ROWS + r] + (sum_of(matrix, r, x + i * COLS) + bias[r]);
            ck_assert_msg(out[i * ROWS + r] == wanted, "row %d of %d: %.9g, expected %.9g", r, i,
                          (double)out[i * ROWS + r], (double)wanted);
        }
    free(blocks);
    locus_weight_free(&weight);
    free_matrix(matrix);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quant");
    TCase *tests = tcase_create("quant");
    tcase_add_test(tests, every_half_is_the_float_it_says);
    tcase_add_test(tests, floats_become_the_nearest_half);
    tcase_add_test(tests, every_bfloat_is_the_upper_half_of_a_float);
    tcase_add_test(tests, floats_become_the_nearest_bfloat);
    tcase_add_test(tests, blocks_are_scaled_integers);
    tcase_add_test(tests, activations_are_quantised_by_one_exact_rule);
    tcase_add_test(tests, activations_that_are_no_numbers_are_carried_by_the_scale);
    int n_types = 0;
    while (locus_tensor_type_at((size_t)n_types))
        n_types++;
    tcase_add_loop_test(tests, packed_rows_come_back, 0, n_types);
    tcase_add_loop_test(tests, plain_products_are_what_they_are_by_definition, 0, n_types);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
