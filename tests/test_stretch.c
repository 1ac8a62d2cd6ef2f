/* Settings for a length: what each way to it comes to, against the formulas written out plainly,
 * and that it carries to that length, hardly farther.
 */
#include <math.h>
#include <string.h>

#include "position/registry.h"
#include "position/stretch.h"
#include "position_testing.h"
#include "testing.h"

#define TWO_PI 6.283185307179586

enum { HALF = 32, ROWS = 16 };

static const float ones[HALF] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static float long_factors[HALF], table[ROWS * 32];

static struct locus_position_env long_env(int trained, int length)
{
    static const struct fake_checkpoint checkpoint = {
        {{"rope_factors_short.weight", 1, HALF, ones},
         {"rope_factors_long.weight", 1, HALF, long_factors},
         {"position_embd.weight", ROWS, 32, table}}};
    struct locus_position_env env = position_env(&checkpoint);
    env.head_dim = 2 * HALF;
    env.trained_length = trained;
    env.session_length = length;
    return env;
}

/* The index-th way to the length, resolved; false: there is none. */
static bool find_way(const struct locus_position_scheme *scheme, int index, const char *own,
                     const struct locus_position_env *env, struct locus_position_spec *spec,
                     struct locus_stretch *stretch)
{
    struct locus_buffer way = {0};
    struct locus_position_spec plain;
    enum locus_status status;
    locus_error error = {0};
    const bool found = locus_stretch_way(scheme, index, own, env, &way, &status, &error);
    if (found) {
        ck_assert_msg(!status, "%s: %s", way.bytes, error.message);
        ck_assert_int_eq(position_resolve(&plain, scheme->name, own, NULL, env, &error), LOCUS_OK);
        ck_assert_msg(!position_resolve(spec, way.bytes, own, NULL, env, &error), "%s: %s",
                      way.bytes, error.message);
        const double trained = locus_stretch_trained(&plain, env);
        ck_assert_msg(!locus_stretch_read(stretch, spec, trained, env, &error), "%s: %s", way.bytes,
                      error.message);
    }
    locus_buffer_free(&way);
    return found;
}

static const struct {
    int trained, length;
    double base;
    const char *own;
} models[] = {
    {1024, 8192, 10000, "rope:base=10000"},
    {4096, 5000, 500000, "rope:base=500000"},
    {2048, 131072, 1e6, "rope:base=1000000,scaling=yarn,factor=4"},
    {64, 640, 100, "rope:base=100"},
};

/* Each lowers the frequencies that don't turn full circle within the trained length as much as the
 * length is longer, or the rounding of their factors more. */
START_TEST(each_scaling_of_rope_reaches_the_length)
{
    const double trained = models[_i].trained, n = models[_i].length, ratio = n / trained;
    const struct locus_position_env env = long_env(models[_i].trained, models[_i].length);
    struct locus_position_spec spec;
    struct locus_stretch stretch;
    int way = 0;
    for (int k = 0; k < HALF; k++)
        long_factors[k] = (float)ratio;
    for (; find_way(&locus_scheme_rope, way, models[_i].own, &env, &spec, &stretch); way++) {
        ck_assert_double_ge(stretch.reach, n * (1 - 1e-6));
        ck_assert_double_le(stretch.reach, n * 1.0015);
        ck_assert_double_ge(stretch.factor, 1);
    }
    ck_assert_int_eq(way, 6);
}
END_TEST

/* The same of the frequency of the first pair that doesn't, by the papers' formulas. */
START_TEST(values_are_those_of_the_formulas)
{
    const double trained = models[_i].trained, n = models[_i].length, base = models[_i].base;
    const struct locus_position_env env = long_env(models[_i].trained, models[_i].length);
    const double r = 2 * HALF, kc = r * log(trained / TWO_PI) / (2 * log(base));
    const double lowest = pow(base, -(r - 2) / r);
    struct locus_position_spec spec;
    struct locus_stretch stretch;
    const double plain = trained * lowest / TWO_PI;
    enum { YARN, LINEAR, NTK, DYNAMIC };
    ck_assert(find_way(&locus_scheme_rope, LINEAR, models[_i].own, &env, &spec, &stretch));
    position_near(stretch.turns, n * lowest / stretch.factor / TWO_PI, 1e-12, "linear", _i);
    position_near(stretch.base, base, 1e-12, "linear's base", _i);
    position_near(stretch.trained, plain, 1e-12, "unscaled", _i);
    ck_assert_double_eq(stretch.attention, 1);

    ck_assert(find_way(&locus_scheme_rope, NTK, models[_i].own, &env, &spec, &stretch));
    position_near(stretch.base / base, pow(stretch.factor, r / (r - 2)), 1e-10, "ntk's base", _i);
    position_near(stretch.turns, n * lowest / stretch.factor / TWO_PI, 1e-10, "ntk", _i);
    position_near(stretch.reach / trained, pow(stretch.factor, 2 * kc / (r - 2)), 1e-10,
                  "ntk's reach", _i);

    ck_assert(find_way(&locus_scheme_rope, DYNAMIC, models[_i].own, &env, &spec, &stretch));
    const double alpha = stretch.factor * n / trained - (stretch.factor - 1);
    position_near(stretch.base / base, pow(alpha, r / (r - 2)), 1e-10, "dynamic's base", _i);

    ck_assert(find_way(&locus_scheme_rope, YARN, models[_i].own, &env, &spec, &stretch));
    position_near(stretch.attention, 1 + 0.1 * log(stretch.factor), 1e-12, "yarn's m", _i);
    position_near(stretch.turns, n * lowest / stretch.factor / TWO_PI, 1e-12, "yarn", _i);
}
END_TEST

/* Where all pairs that are rotated turn full circle, none sets an end. */
START_TEST(a_share_without_long_waves_has_no_end)
{
    const struct locus_position_env env = long_env(1024, 8192);
    struct locus_position_spec spec;
    struct locus_stretch stretch;
    locus_error error;
    ck_assert_int_eq(position_resolve(&spec, "rope:p=0.5", NULL, NULL, &env, &error), LOCUS_OK);
    ck_assert_int_eq(locus_stretch_read(&stretch, &spec, 1024, &env, &error), LOCUS_OK);
    ck_assert(isinf(stretch.reach));
    position_near(stretch.turns, 8192 * pow(10000, -15.0 / 32) / TWO_PI, 1e-12, "the last pair", 0);
}
END_TEST

START_TEST(tables_and_sines_are_stretched_to_it)
{
    const struct locus_position_env env = long_env(ROWS, 100);
    struct locus_position_spec spec;
    struct locus_stretch stretch;
    int way = 0;
    for (; find_way(&locus_scheme_learned, way, NULL, &env, &spec, &stretch); way++)
        ck_assert_double_eq(stretch.reach, way >= 3 ? 100 : ROWS);
    ck_assert_int_eq(way, 5);
    ck_assert(find_way(&locus_scheme_sinusoidal, 0, NULL, &env, &spec, &stretch));
    ck_assert_double_eq(stretch.factor, 6.25);
    ck_assert_double_eq(stretch.reach, 100);
    position_near(stretch.turns, 100 * pow(10000, -30.0 / 32) / 6.25 / TWO_PI, 1e-12, "sines", 0);
    ck_assert(find_way(&locus_scheme_alibi, 0, NULL, &env, &spec, &stretch));
    ck_assert_double_eq(stretch.factor, 6.25);
    ck_assert(isinf(stretch.reach));
    ck_assert(!locus_stretch_any(&locus_scheme_t5));
}
END_TEST

START_TEST(what_cannot_be_told_is_refused)
{
    static const struct fake_checkpoint nothing;
    const struct locus_position_env env = long_env(1024, 8192);
    struct locus_position_env bare = position_env(&nothing), brief = long_env(4, 640);
    struct locus_position_spec spec;
    struct locus_stretch stretch;
    struct locus_buffer way = {0};
    enum locus_status status;
    locus_error error = {0};
    ck_assert_int_eq(position_resolve(&spec, "rope:axis1=4,ladder=own", NULL, NULL, &env, &error),
                     LOCUS_OK);
    ck_assert_int_ne(locus_stretch_read(&stretch, &spec, 1024, &env, &error), LOCUS_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "ladder=own"));
    ck_assert_int_eq(position_resolve(&spec, "sinusoidal:width=4", NULL, NULL, &env, &error),
                     LOCUS_OK);
    ck_assert_int_ne(locus_stretch_read(&stretch, &spec, 1024, &env, &error), LOCUS_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "width=0"));
    ck_assert_int_eq(position_resolve(&spec, "longrope:factor=4", NULL, NULL, &bare, &error),
                     LOCUS_OK);
    ck_assert_int_ne(locus_stretch_read(&stretch, &spec, 16, &bare, &error), LOCUS_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "rope_factors"));
    /* Trained on less than a radian of the first pair, no base helps. */
    ck_assert(locus_stretch_way(&locus_scheme_rope, 2, NULL, &brief, &way, &status, &error));
    ck_assert_int_ne(status, LOCUS_OK);
    ck_assert_str_eq(way.bytes, "ntk");
    ck_assert_ptr_nonnull(strstr(error.message, "no factor carries it so far"));
    locus_buffer_free(&way);
}
END_TEST

int main(void)
{
    enum { N_MODELS = sizeof models / sizeof *models };
    Suite *suite = suite_create("stretch");
    TCase *tests = tcase_create("settings for a length");
    tcase_add_loop_test(tests, each_scaling_of_rope_reaches_the_length, 0, N_MODELS);
    tcase_add_loop_test(tests, values_are_those_of_the_formulas, 0, N_MODELS);
    tcase_add_test(tests, a_share_without_long_waves_has_no_end);
    tcase_add_test(tests, tables_and_sines_are_stretched_to_it);
    tcase_add_test(tests, what_cannot_be_told_is_refused);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
