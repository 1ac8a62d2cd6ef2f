/* Functions of the hot path against the C library's in double, over every 4999th float. */
#include "base/math.h"

#include <float.h>

#include "testing.h"

enum { STRIDE = 4999 }; /* prime: every exponent and ending of a mantissa comes up */

/* The distance of neighbouring floats at |x|. */
static double ulp(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, exponent < -125 ? -149 : exponent - 24);
}

/* The largest error of `function` in units of ulp over finite floats of [from, to], as bits. */
static double worst(float (*function)(float), double (*exact)(double), uint32_t from, uint32_t to)
{
    double most = 0;
    for (uint64_t bits = from; bits <= to; bits += STRIDE) {
        float x = locus_float_of((uint32_t)bits);
        double wanted = exact((double)x), error = fabs((double)function(x) - wanted) / ulp(wanted);
        if (!(error <= most)) most = error;
    }
    return most;
}

static float exp_of(float x)
{
    return locus_exp(x);
}

static float tanh_of(float x)
{
    return locus_tanh(x);
}

#define POSITIVE(x) locus_bits_of(x)
#define NEGATIVE(x) (locus_bits_of(x) | 0x80000000U)

START_TEST(exponential_is_within_its_bounds)
{
    double positive = worst(exp_of, exp, 0, POSITIVE(88.7228F));
    double negative = worst(exp_of, exp, NEGATIVE(0.0F), NEGATIVE(87.3365F));
    double subnormal = worst(exp_of, exp, NEGATIVE(87.3366F), NEGATIVE(103.97F));
    ck_assert_msg(positive <= 1.01, "%g ulp", positive);
    ck_assert_msg(negative <= 1.01, "%g ulp", negative);
    ck_assert_msg(subnormal <= 2, "%g ulp", subnormal);
}
END_TEST

/* The bits of exp wherever a weight counts next to 1. */
START_TEST(weights_are_exponentials_down_to_where_they_count)
{
    for (float x = 0; x >= -87; x -= 0.00917F)
        ck_assert(locus_exp_weight(x) == locus_exp(x));
    ck_assert(locus_exp_weight(-0.0F) == 1 && locus_exp_weight(-87) > 1.17549435e-38F);
    ck_assert(locus_exp_weight(-87.01F) == 0 && locus_exp_weight(-HUGE_VALF) == 0);
    ck_assert(isnan(locus_exp_weight(NAN)));
}
END_TEST

START_TEST(exponential_at_the_ends)
{
    ck_assert(locus_exp(0) == 1 && locus_exp(-0.0F) == 1);
    const float zero[] = {-104.01F, -1000, -FLT_MAX, -INFINITY};
    const float infinite[] = {89.01F, 1000, FLT_MAX, INFINITY};
    for (int i = 0; i < 4; i++) {
        ck_assert(locus_exp(zero[i]) == 0);
        ck_assert(isinf(locus_exp(infinite[i])));
    }
    ck_assert(isnan(locus_exp(NAN)) && isnan(locus_exp(-NAN)));
}
END_TEST

START_TEST(hyperbolic_tangent_is_within_its_bounds)
{
    double positive = worst(tanh_of, tanh, 0, POSITIVE(FLT_MAX));
    double negative = worst(tanh_of, tanh, NEGATIVE(0.0F), NEGATIVE(FLT_MAX));
    ck_assert_msg(positive <= 2, "%g ulp", positive);
    ck_assert_msg(negative <= 2, "%g ulp", negative);
    ck_assert(locus_tanh(INFINITY) == 1 && locus_tanh(-INFINITY) == -1);
    ck_assert(signbit(locus_tanh(-0.0F)) && isnan(locus_tanh(NAN)));
}
END_TEST

START_TEST(complementary_error_function_is_within_its_bounds)
{
    for (uint64_t bits = 0; bits <= POSITIVE(9.1F); bits += STRIDE) {
        float z = locus_float_of((uint32_t)bits);
        double wanted = erfc((double)z), got = (double)locus_erfc_positive(z);
        if (wanted < (double)FLT_MIN) break;
        if (!(fabs(got - wanted) <= 5e-6 * wanted))
            ck_abort_msg("erfc(%.9g) is %.9g, expected %.9g", (double)z, got, wanted);
    }
}
END_TEST

/* ---- activations --------------------------------------------------------------------------- */

static double gelu_erf(double x)
{
    return x / 2 * erfc(-x / sqrt(2));
}

static double gelu_tanh(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static float gelu_erf_of(float x)
{
    return locus_gelu_erf(x);
}

static float gelu_tanh_of(float x)
{
    return locus_gelu_tanh(x);
}

static float silu_of(float x)
{
    return locus_silu(x);
}

static const struct {
    const char *name;
    float (*function)(float);
    double (*exact)(double);
} activations[] = {{"gelu_erf", gelu_erf_of, gelu_erf},
                   {"gelu_tanh", gelu_tanh_of, gelu_tanh},
                   {"silu", silu_of, silu}};

/* Of x, which they are at most: to 2^-22 of its size. */
START_TEST(activations_are_near_the_exact_ones)
{
    const uint32_t from[] = {0, NEGATIVE(0.0F)}, to[] = {POSITIVE(1e6F), NEGATIVE(1e6F)};
    for (int side = 0; side < 2; side++)
        for (uint64_t bits = from[side]; bits <= to[side]; bits += STRIDE) {
            float x = locus_float_of((uint32_t)bits);
            double wanted = activations[_i].exact((double)x);
            double got = (double)activations[_i].function(x);
            double room = 0x1p-22 * fabs((double)x) + 0x1p-149;
            if (!(fabs(got - wanted) <= room))
                ck_abort_msg("%s(%.9g) is %.9g, expected %.9g", activations[_i].name, (double)x,
                             got, wanted);
        }
}
END_TEST

static float softplus_of(float x)
{
    return locus_softplus(x);
}

static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

START_TEST(softplus_is_within_its_bounds)
{
    double positive = worst(softplus_of, softplus, 0, POSITIVE(1e30F));
    double negative = worst(softplus_of, softplus, NEGATIVE(0.0F), NEGATIVE(87.0F));
    ck_assert_msg(positive <= 3, "%g ulp", positive);
    ck_assert_msg(negative <= 3, "%g ulp", negative);
    ck_assert(locus_softplus(HUGE_VALF) == HUGE_VALF && locus_softplus(-HUGE_VALF) == 0);
    ck_assert(isnan(locus_softplus(NAN)) && isnan(locus_softplus(-NAN)));
}
END_TEST

START_TEST(activations_at_the_ends)
{
    float (*function)(float) = activations[_i].function;
    ck_assert(function(0) == 0 && function(1e30F) == 1e30F && function(-1e30F) == 0);
    ck_assert(isnan(function(NAN)) && isnan(function(-NAN)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("math");
    TCase *tests = tcase_create("math");
    tcase_add_test(tests, exponential_is_within_its_bounds);
    tcase_add_test(tests, exponential_at_the_ends);
    tcase_add_test(tests, weights_are_exponentials_down_to_where_they_count);
    tcase_add_test(tests, hyperbolic_tangent_is_within_its_bounds);
    tcase_add_test(tests, complementary_error_function_is_within_its_bounds);
    tcase_add_test(tests, softplus_is_within_its_bounds);
    tcase_add_loop_test(tests, activations_are_near_the_exact_ones, 0, 3);
    tcase_add_loop_test(tests, activations_at_the_ends, 0, 3);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
