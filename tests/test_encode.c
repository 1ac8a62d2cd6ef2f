/* Searches for quantised blocks: what a type can hold comes back, and what it can't is near the
 * best that any scales and mins do. Decoders are tested against the package gguf
 * (test_weight_types.c).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/weight_type.h"
#include "testing.h"

enum { N = 256 }; /* values of a row: one block of the largest kind */

/* The types, and by their definition: values that share a scale and a min, levels, and the whole
 * numbers by which halves are multiplied (0: none). */
static const struct held {
    enum locus_tensor_type type;
    int part, first, last, first_scale, last_scale;
    bool mins;
    /* Squared error at most, over that of the best real scales and mins: of values on both sides of
     * 0, and of values far above it, where a min of 6 or 4 bits is coarse. */
    double centred, above;
} held[] = {
    {LOCUS_Q8_0, 32, -127, 127, 0, 0, false, 1.06, 1.13},
    {LOCUS_Q5_0, 32, -16, 15, 0, 0, false, 1.05, 1.07},
    {LOCUS_Q4_0, 32, -8, 7, 0, 0, false, 1.03, 1.06},
    {LOCUS_Q5_1, 32, 0, 31, 0, 0, true, 1.05, 1.05},
    {LOCUS_Q4_1, 32, 0, 15, 0, 0, true, 1.05, 1.05},
    {LOCUS_Q6_K, 16, -32, 31, -128, 127, false, 1.06, 1.08},
    {LOCUS_Q5_K, 32, 0, 31, 0, 63, true, 1.08, 1.45},
    {LOCUS_Q4_K, 32, 0, 15, 0, 63, true, 1.05, 1.35},
    {LOCUS_Q3_K, 16, -4, 3, -32, 31, false, 1.05, 1.05},
    {LOCUS_Q2_K, 16, 0, 3, 0, 15, true, 1.09, 1.6},
};

enum { N_HELD = sizeof held / sizeof *held };

static uint32_t state;

static int whole(int low, int high)
{
    state = state * 1664525u + 1013904223u;
    return low + (int)((state >> 8) % (uint32_t)(high - low + 1));
}

static double uniform(void)
{
    return whole(0, 1 << 20) / (double)(1 << 20);
}

/* Sums of 12 uniform numbers: near enough to normal. */
static double normal(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return sum;
}

static double squared_error(const float *a, const float *b)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += pow((double)a[i] - (double)b[i], 2);
    return sum;
}

/* What the type makes of x. */
static void through(float *back, enum locus_tensor_type type, const float *x)
{
    unsigned char row[N * 2];
    locus_encode_row(row, type, x, N);
    locus_dequantize_row(back, row, type, N);
}

START_TEST(every_type_that_is_written_is_tested_here)
{
    for (size_t t = 0; locus_tensor_type_at(t); t++) {
        const struct locus_tensor_type_info *info = locus_tensor_type_at(t);
        if (info->block_values == 1 || !locus_weight_type(info->type)->encode) continue;
        int found = 0;
        for (int i = 0; i < N_HELD; i++)
            found += held[i].type == info->type;
        ck_assert_msg(found == 1, "%s", info->name);
    }
}
END_TEST

/* Values of whole numbers: each part has its outermost levels, and a block its outermost scales. */
static void representable(float *x, const struct held *type)
{
    const float d = 0.001953125f * (float)whole(1, 40), m = 0.00390625f * (float)whole(1, 40);
    for (int p = 0; p < N / type->part; p++) {
        float scale = d, min = type->mins ? m * (float)whole(-20, 20) : 0;
        if (type->last_scale) {
            const bool first = p == 0;
            const int least = type->mins ? 1 : type->first_scale;
            scale = d * (float)(!first       ? whole(least, type->last_scale)
                                : type->mins ? type->last_scale
                                             : type->first_scale);
            if (type->mins)
                min = m * (float)(p == 1 ? type->last_scale : whole(0, type->last_scale));
        }
        for (int i = 0; i < type->part; i++) {
            const int level = i == 0   ? type->first
                              : i == 1 ? type->last
                                       : whole(type->first, type->last);
            x[p * type->part + i] = scale * (float)level - min;
        }
    }
}

START_TEST(blocks_that_a_type_can_hold_come_back)
{
    const struct held *type = &held[_i];
    float x[N], back[N];
    state = 3;
    for (int k = 0; k < 200; k++) {
        representable(x, type);
        through(back, type->type, x);
        ck_assert_msg(squared_error(x, back) == 0, "block %d: %g", k, squared_error(x, back));
    }
}
END_TEST

/* The squared error of n values under a real scale and min. */
static double error_under(const struct held *type, const float *x, double scale, double min)
{
    double sum = 0;
    for (int i = 0; i < type->part; i++) {
        double level = scale != 0 ? rint(((double)x[i] + min) / scale) : 0;
        level = fmin(fmax(level, type->first), type->last);
        sum += pow((double)x[i] - (scale * level - min), 2);
    }
    return sum;
}

/* The least over a fine grid of real scales and mins, of one part. */
static double least_error(const struct held *type, const float *x)
{
    double low = (double)x[0], high = (double)x[0], best = INFINITY;
    const int fine = type->mins ? 60 : 4000;
    for (int i = 0; i < type->part; i++)
        low = fmin(low, (double)x[i]), high = fmax(high, (double)x[i]);
    const double range = type->mins ? high - low : fmax(high, -low);
    const int n_levels = type->mins ? type->last : -type->first;
    for (int s = 0; s <= fine; s++) {
        const double scale = range / (n_levels + 1.5) * (1 + 0.6 * s / fine);
        if (!type->mins) {
            best = fmin(best, error_under(type, x, scale, 0));
            best = fmin(best, error_under(type, x, -scale, 0));
        }
        for (int t = -fine / 2; type->mins && t <= fine; t++)
            best = fmin(best, error_under(type, x, scale, -low - 3 * scale * t / fine));
    }
    return best;
}

/* Values of several distributions: normal ones; uniform; all above 0; few large among small. */
static void draw(float *x, int kind)
{
    for (int i = 0; i < N; i++) {
        const double value = kind == 0   ? normal()
                             : kind == 1 ? uniform() - 0.5
                             : kind == 2 ? 5 + uniform()
                                         : normal() * (whole(0, 40) ? 0.1 : 1);
        x[i] = (float)(0.02 * value);
    }
}

START_TEST(blocks_lose_little_more_than_under_the_best_scales)
{
    const struct held *type = &held[_i / 4];
    float x[N], back[N];
    double sum = 0, least = 0;
    state = 17;
    for (int k = 0; k < 6; k++) {
        draw(x, _i % 4);
        through(back, type->type, x);
        sum += squared_error(x, back);
        for (int p = 0; p < N; p += type->part)
            least += least_error(type, x + p);
    }
    ck_assert_msg(sum < (_i % 4 == 2 ? type->above : type->centred) * least,
                  "%s, values %d: %g of the least",
                  locus_tensor_type_find((uint32_t)type->type)->name, _i % 4, sum / least);
}
END_TEST

START_TEST(blocks_and_their_mirror_images_lose_the_same)
{
    const struct held *type = &held[_i / 4];
    float x[N], mirrored[N], back[N], back_mirrored[N];
    double one = 0, other = 0;
    state = 23;
    for (int k = 0; k < 100; k++) {
        draw(x, _i % 4);
        for (int i = 0; i < N; i++)
            mirrored[i] = -x[i];
        through(back, type->type, x);
        through(back_mirrored, type->type, mirrored);
        one += squared_error(x, back), other += squared_error(mirrored, back_mirrored);
    }
    ck_assert_msg(fabs(one - other) <= 0.02 * one, "%g, mirrored %g", one, other);
}
END_TEST

START_TEST(the_largest_values_that_fit_are_held)
{
    const float limit = locus_weight_type(held[_i].type)->limit;
    float x[N], back[N];
    for (int kind = 0; kind < 4; kind++) {
        for (int i = 0; i < N; i++)
            x[i] = kind == 3 ? (i % 2 ? limit : -limit) : i % 32 == 5 || kind == 2 ? limit : 0;
        if (kind == 1) x[5] = -limit;
        through(back, held[_i].type, x);
        for (int i = 0; i < N; i++)
            ck_assert_msg(fabsf(back[i] - x[i]) <= 0.04f * limit, "kind %d: %g, expected %g", kind,
                          (double)back[i], (double)x[i]);
    }
}
END_TEST

/* Fits to such values ask for scales past the largest half. */
START_TEST(values_all_over_the_range_that_fits_are_held)
{
    const float limit = locus_weight_type(held[_i].type)->limit;
    float x[N], back[N];
    state = 31;
    for (int k = 0; k < 20; k++) {
        for (int i = 0; i < N; i++)
            x[i] = limit * (float)(2 * uniform() - 1);
        through(back, held[_i].type, x);
        for (int i = 0; i < N; i++)
            ck_assert_msg(fabsf(back[i] - x[i]) <= 0.5f * limit, "%g, expected %g", (double)back[i],
                          (double)x[i]);
    }
}
END_TEST

START_TEST(floats_up_to_the_limit_stay_finite)
{
    static const enum locus_tensor_type types[] = {LOCUS_F16, LOCUS_BF16};
    const float limit = locus_weight_type(types[_i])->limit;
    const float x[2] = {limit, -limit};
    float back[2];
    unsigned char row[4];
    locus_encode_row(row, types[_i], x, 2);
    locus_dequantize_row(back, row, types[_i], 2);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(fabsf(back[i] - x[i]) <= 0.004f * limit, "%g: %g", (double)x[i],
                      (double)back[i]);
}
END_TEST

START_TEST(blocks_next_to_zero_keep_what_halves_can_hold)
{
    float x[N], back[N];
    state = 29;
    for (int k = 0; k < 10; k++) {
        const float size = ldexpf(1e-3f, -2 * k);
        for (int i = 0; i < N; i++)
            x[i] = size * (float)normal();
        through(back, held[_i].type, x);
        for (int i = 0; i < N; i++) {
            const float most = fabsf(x[i]) + 6e-8f;
            ck_assert_msg(fabsf(back[i] - x[i]) <= fmaxf(0.8f * size, most), "%g of %g: %g",
                          (double)x[i], (double)size, (double)back[i]);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("encode");
    TCase *tests = tcase_create("blocks");
    tcase_add_test(tests, every_type_that_is_written_is_tested_here);
    tcase_add_loop_test(tests, blocks_that_a_type_can_hold_come_back, 0, N_HELD);
    tcase_add_loop_test(tests, blocks_lose_little_more_than_under_the_best_scales, 0, 4 * N_HELD);
    tcase_add_loop_test(tests, blocks_and_their_mirror_images_lose_the_same, 0, 4 * N_HELD);
    tcase_add_loop_test(tests, the_largest_values_that_fit_are_held, 0, N_HELD);
    tcase_add_loop_test(tests, values_all_over_the_range_that_fits_are_held, 0, N_HELD);
    tcase_add_loop_test(tests, floats_up_to_the_limit_stay_finite, 0, 2);
    tcase_add_loop_test(tests, blocks_next_to_zero_keep_what_halves_can_hold, 0, N_HELD);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
