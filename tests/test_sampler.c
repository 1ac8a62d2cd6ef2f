/* The sampler: each stage against values worked out by hand, then whole draws. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "sample/sampler.h"
#include "sample/stages.h"
#include "testing.h"

/* ---- stages -------------------------------------------------------------------------------- */

struct set {
    struct locus_candidate at[16];
    struct locus_candidates candidates;
};

static void fill(struct set *set, const double *logits, size_t n)
{
    *set = (struct set){.candidates = {.at = set->at, .n = n}};
    for (size_t i = 0; i < n; i++)
        set->at[i] = (struct locus_candidate){.logit = logits[i], .id = (int32_t)i};
}

static int compare_ids(const void *a, const void *b)
{
    const int32_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* The ids left are those of `wanted`, which ends with -1, in any order. */
static void check_left(const struct set *set, const int32_t *wanted)
{
    int32_t ids[16];
    size_t n = 0;
    while (wanted[n] >= 0)
        n++;
    ck_assert_uint_eq(set->candidates.n, n);
    for (size_t i = 0; i < n; i++)
        ids[i] = set->candidates.at[i].id;
    qsort(ids, n, sizeof *ids, compare_ids);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(ids[i], wanted[i]);
}

#define IDS(...) ((const int32_t[]){__VA_ARGS__, -1})

/* Probabilities .1 .4 .2 .3 */
static const double tenths[] = {0, 1.3862943611198906, 0.6931471805599453, 1.0986122886681098};

START_TEST(top_k_keeps_the_likeliest)
{
    static const struct {
        int k;
        int32_t ids[6];
    } cases[] = {{-1, {0, 1, 2, 3, -1}}, {0, {0, 1, 2, 3, -1}}, {1, {1, -1}},
                 {2, {1, 3, -1}},        {3, {1, 2, 3, -1}},    {4, {0, 1, 2, 3, -1}},
                 {99, {0, 1, 2, 3, -1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct set set;
        fill(&set, tenths, 4);
        locus_stage_top_k(&set.candidates, cases[i].k);
        check_left(&set, cases[i].ids);
    }
}
END_TEST

START_TEST(top_k_takes_the_lower_id_of_equal_tokens)
{
    struct set set;
    fill(&set, (const double[]){1, 2, 2, 2, 1}, 5);
    locus_stage_top_k(&set.candidates, 2);
    check_left(&set, IDS(1, 2));
    fill(&set, (const double[]){1, 2, 2, 2, 1}, 5);
    locus_stage_top_k(&set.candidates, 4);
    check_left(&set, IDS(0, 1, 2, 3));
}
END_TEST

/* At equality not one token too many; 0 is the likeliest alone; 1 is off. */
START_TEST(top_p_keeps_the_smallest_set_that_reaches_p)
{
    static const struct {
        double p;
        int32_t ids[6];
    } cases[] = {{0, {1, -1}},         {0.39, {1, -1}},          {0.4, {1, -1}},
                 {0.41, {1, 3, -1}},   {0.7, {1, 3, -1}},        {0.71, {1, 2, 3, -1}},
                 {0.9, {1, 2, 3, -1}}, {0.91, {0, 1, 2, 3, -1}}, {1, {0, 1, 2, 3, -1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct set set;
        fill(&set, tenths, 4);
        locus_stage_top_p(&set.candidates, cases[i].p);
        check_left(&set, cases[i].ids);
    }
}
END_TEST

/* Three of .4 .3 .2 are .44 .33 .22: after top-k 3 the share of two is .77. */
START_TEST(cut_renormalises)
{
    struct set set;
    fill(&set, tenths, 4);
    locus_stage_top_k(&set.candidates, 3);
    locus_stage_top_p(&set.candidates, 0.77);
    check_left(&set, IDS(1, 3));
    fill(&set, tenths, 4);
    locus_stage_top_p(&set.candidates, 0.77);
    check_left(&set, IDS(1, 2, 3));
}
END_TEST

START_TEST(min_p_keeps_a_share_of_the_likeliest)
{
    static const struct {
        double p;
        int32_t ids[6];
    } cases[] = {{0, {0, 1, 2, 3, -1}}, {0.24, {0, 1, 2, 3, -1}}, {0.25, {0, 1, 2, 3, -1}},
                 {0.26, {1, 2, 3, -1}}, {0.5, {1, 2, 3, -1}},     {0.51, {1, 3, -1}},
                 {0.75, {1, 3, -1}},    {0.76, {1, -1}},          {1, {1, -1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct set set;
        fill(&set, tenths, 4);
        locus_stage_min_p(&set.candidates, cases[i].p);
        check_left(&set, cases[i].ids);
    }
}
END_TEST

/* The entropy of .1 .4 .2 .3 is 1.2799 nats, -ln p are 2.3026 .9163 1.6094 1.2040: in the order of
 * their distance from it, 3 (.076), 2 (.330), 1 (.364), 0 (1.023), of mass .3 .5 .9 1. */
START_TEST(typical_p_keeps_what_is_nearest_to_the_entropy)
{
    static const struct {
        double p;
        int32_t ids[6];
    } cases[] = {{0, {3, -1}},
                 {0.3, {3, -1}},
                 {0.31, {2, 3, -1}},
                 {0.5, {2, 3, -1}},
                 {0.51, {1, 2, 3, -1}},
                 {0.9, {1, 2, 3, -1}},
                 {0.91, {0, 1, 2, 3, -1}},
                 {1, {0, 1, 2, 3, -1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct set set;
        fill(&set, tenths, 4);
        locus_stage_typical_p(&set.candidates, cases[i].p);
        check_left(&set, cases[i].ids);
    }
}
END_TEST

START_TEST(temperature_divides_or_takes_the_likeliest)
{
    struct set set;
    fill(&set, (const double[]){1, -2, 3}, 3);
    locus_stage_temperature(&set.candidates, 0.5);
    ck_assert(set.at[0].logit == 2 && set.at[1].logit == -4 && set.at[2].logit == 6);
    locus_stage_temperature(&set.candidates, 0);
    check_left(&set, IDS(2));
    fill(&set, (const double[]){1, 3, 3}, 3);
    locus_stage_temperature(&set.candidates, 0);
    check_left(&set, IDS(1));
}
END_TEST

/* A penalty lowers negative logits too. */
START_TEST(penalties_lower_every_logit)
{
    struct set set;
    const int counts[] = {0, 1, 3, 1, 2};
    fill(&set, (const double[]){2, 2, 2, -2, 0}, 5);
    locus_stage_penalties(&set.candidates, &(struct locus_penalties){.repeat = 2}, counts);
    const double repeated[] = {2, 1, 1, -4, 0};
    for (int i = 0; i < 5; i++)
        ck_assert_msg(set.at[i].logit == repeated[i], "%d: %g", i, set.at[i].logit);
    fill(&set, (const double[]){2, 2, 2, -2, 0}, 5);
    locus_stage_penalties(&set.candidates, &(struct locus_penalties){1, 0.5, 0.25}, counts);
    const double present[] = {2, 1.25, 0.75, -2.75, -1};
    for (int i = 0; i < 5; i++)
        ck_assert_msg(set.at[i].logit == present[i], "%d: %g", i, set.at[i].logit);
}
END_TEST

START_TEST(weights_are_exponentials)
{
    struct set set;
    const double logits[] = {0, -1, -0.5, -20, -700, -800, -1e300, -1e-9, -31, -75, -150, -600};
    fill(&set, logits, 12);
    double sum = locus_candidates_weigh(&set.candidates), wanted = 0;
    for (int i = 0; i < 12; i++) {
        double weight = set.at[i].weight, right = exp(logits[i]);
        wanted += right;
        ck_assert_msg(fabs(weight - right) <= 1e-15 * right + 1e-304, "%d: %g", i, weight);
    }
    ck_assert(fabs(sum - wanted) < 1e-14);
    fill(&set, (const double[]){1e300, 1e300 - 1e290}, 2); /* nothing overflows */
    ck_assert(locus_candidates_weigh(&set.candidates) == 1);
}
END_TEST

/* ---- draws --------------------------------------------------------------------------------- */

static bool is_end(const void *source, int32_t token)
{
    return token == *(const int32_t *)source;
}

static const int32_t end_token = 2;

static const struct locus_sampler_vocabulary vocabulary = {6, 5, is_end, &end_token};

static locus_sampler *create(const locus_sampler_params *params)
{
    locus_error error = {0};
    locus_sampler *sampler = locus_sampler_create_for(&vocabulary, params, &error);
    ck_assert_msg(sampler != NULL, "%s", error.message);
    return sampler;
}

/* Everything off: the model's own distribution. */
static locus_sampler_params plain(uint64_t seed)
{
    locus_sampler_params params = locus_sampler_defaults();
    params.temperature = 1;
    params.top_k = 0;
    params.top_p = 1;
    params.min_p = 0;
    params.seed = seed;
    return params;
}

static int32_t next(locus_sampler *sampler, const float *logits)
{
    locus_error error = {0};
    int32_t token = locus_sampler_next(sampler, logits, &error);
    ck_assert_msg(token >= 0, "%s", error.message);
    return token;
}

enum { N_DRAWS = 100000 };

static void count_draws(const locus_sampler_params *params, const float *logits, int counts[6])
{
    locus_sampler *sampler = create(params);
    memset(counts, 0, 6 * sizeof *counts);
    for (int i = 0; i < N_DRAWS; i++)
        counts[next(sampler, logits)]++;
    locus_sampler_free(sampler);
}

/* 5 standard deviations of a count of N_DRAWS with that probability. */
static void check_share(int count, double p)
{
    double expected = N_DRAWS * p, spread = sqrt(N_DRAWS * p * (1 - p));
    ck_assert_msg(fabs(count - expected) <= 5 * spread, "%d draws, expected %g", count, expected);
}

static float logits_of(double p)
{
    return (float)log(p);
}

START_TEST(draws_have_the_distribution_of_the_logits)
{
    const float logits[] = {logits_of(0.1),  logits_of(0.4),  logits_of(0.2),
                            logits_of(0.25), logits_of(0.05), 50};
    int counts[6];
    locus_sampler_params params = plain(_i ? UINT64_MAX : 0);
    count_draws(&params, logits, counts);
    const double wanted[] = {0.1, 0.4, 0.2, 0.25, 0.05};
    for (int i = 0; i < 5; i++)
        check_share(counts[i], wanted[i]);
    params.temperature = 0.5F; /* squares them */
    count_draws(&params, logits, counts);
    for (int i = 0; i < 5; i++)
        check_share(counts[i], wanted[i] * wanted[i] / 0.275);
    params.top_k = 2;
    count_draws(&params, logits, counts);
    check_share(counts[1], 0.16 / 0.2225);
    ck_assert_int_eq(counts[1] + counts[3], N_DRAWS);
}
END_TEST

START_TEST(padding_is_never_drawn)
{
    const float logits[] = {0, 0, 0, 0, 0, 1000};
    int counts[6];
    locus_sampler_params params = plain(1);
    count_draws(&params, logits, counts);
    ck_assert_int_eq(counts[5], 0);
    params.temperature = 0;
    locus_sampler *sampler = create(&params);
    ck_assert_int_eq(next(sampler, logits), 0);
    /* Nor does what a padding id holds matter, if it is a number. */
    const float banned[] = {0, 1, 0, 0, 0, -INFINITY}, huge[] = {0, 1, 0, 0, 0, FLT_MAX};
    ck_assert_int_eq(next(sampler, banned), 1);
    ck_assert_int_eq(next(sampler, huge), 1);
    locus_sampler_free(sampler);
}
END_TEST

START_TEST(end_is_never_drawn_where_it_is_ignored)
{
    const float logits[] = {0, 0, 9, 0, 0, 0};
    int counts[6];
    locus_sampler_params params = plain(1);
    count_draws(&params, logits, counts);
    ck_assert_int_gt(counts[2], N_DRAWS / 2);
    params.ignore_end = true;
    count_draws(&params, logits, counts);
    ck_assert_int_eq(counts[2], 0);
    check_share(counts[0], 0.25);
}
END_TEST

START_TEST(temperature_0_is_the_likeliest_whatever_the_stages)
{
    const float logits[] = {1, 4, 2, 3, 4, 9};
    locus_sampler_params params = plain(1);
    params.temperature = 0;
    params.stages[0] = LOCUS_STAGE_TOP_K;
    params.top_k = 4;
    locus_sampler *sampler = create(&params);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(next(sampler, logits), 1);
    locus_sampler_free(sampler);
}
END_TEST

START_TEST(stages_run_in_the_order_given)
{
    /* .1 .4 .2 .3: at temperature .5 the share of the first two is (16 + 9) / 30 > .8. */
    const float logits[] = {logits_of(0.1), logits_of(0.4), logits_of(0.2),
                            logits_of(0.3), -INFINITY,      0};
    int counts[6];
    locus_sampler_params params = plain(3);
    params.temperature = 0.5F;
    params.top_p = 0.8F;
    const enum locus_sampler_stage cold_first[] = {LOCUS_STAGE_TEMPERATURE, LOCUS_STAGE_TOP_P};
    memcpy(params.stages, cold_first, sizeof cold_first);
    count_draws(&params, logits, counts);
    ck_assert_int_eq(counts[1] + counts[3], N_DRAWS);
    const enum locus_sampler_stage cold_last[] = {LOCUS_STAGE_TOP_P, LOCUS_STAGE_TEMPERATURE};
    memcpy(params.stages, cold_last, sizeof cold_last);
    count_draws(&params, logits, counts);
    ck_assert_int_eq(counts[1] + counts[2] + counts[3], N_DRAWS);
    check_share(counts[2], 4.0 / 29);
}
END_TEST

START_TEST(same_seed_draws_the_same)
{
    const float logits[] = {0, 0.1F, 0.2F, 0.3F, 0.4F, 0};
    const uint64_t seeds[] = {0, 1, UINT64_C(1) << 63, UINT64_MAX};
    int32_t first[4][64];
    for (int s = 0; s < 4; s++) {
        locus_sampler_params params = plain(seeds[s]);
        locus_sampler *left = create(&params), *right = create(&params);
        for (int i = 0; i < 64; i++) {
            first[s][i] = next(left, logits);
            ck_assert_int_eq(next(right, logits), first[s][i]);
        }
        locus_sampler_free(left);
        locus_sampler_free(right);
        for (int other = 0; other < s; other++)
            ck_assert(memcmp(first[s], first[other], sizeof first[s]) != 0);
    }
}
END_TEST

START_TEST(logits_are_left_as_they_are)
{
    const float logits[] = {0, 5, 0.2F, 0.3F, 0.4F, 0};
    float copy[6];
    memcpy(copy, logits, sizeof copy);
    locus_sampler_params params = locus_sampler_defaults();
    params.repeat_penalty = 2;
    locus_sampler *sampler = create(&params);
    for (int i = 0; i < 10; i++)
        next(sampler, copy);
    ck_assert_mem_eq(copy, logits, sizeof copy);
    locus_sampler_free(sampler);
}
END_TEST

START_TEST(logit_bias_is_added_and_bans)
{
    const float logits[] = {1, 4, 2, 3, 0, 9};
    locus_logit_bias bias[] = {{1, -INFINITY}, {1, 100}, {2, 1.5F}, {2, 0.75F}, {3, 1}};
    locus_sampler_params params = plain(1);
    params.temperature = 0;
    params.logit_bias = bias;
    params.n_logit_bias = 5;
    locus_sampler *sampler = create(&params);
    memset(bias, 0, sizeof bias);               /* it was copied */
    ck_assert_int_eq(next(sampler, logits), 2); /* 4.25 over 4; 1 stays banned */
    locus_sampler_free(sampler);
}
END_TEST

/* ---- penalties over a text ----------------------------------------------------------------- */

static int32_t greedy_after(const int32_t *tokens, int n, int last_n)
{
    const float logits[] = {3, 2.9F, 1, 0, 0, 0};
    locus_sampler_params params = plain(1);
    params.temperature = 0;
    params.repeat_penalty = 1.5F;
    params.repeat_last_n = last_n;
    locus_sampler *sampler = create(&params);
    for (int i = 0; i < n; i++)
        locus_sampler_accept(sampler, tokens[i]);
    int32_t token = next(sampler, logits);
    locus_sampler_free(sampler);
    return token;
}

START_TEST(penalties_look_back_on_the_last_tokens_only)
{
    const int32_t tokens[] = {0, 3, 4};
    ck_assert_int_eq(greedy_after(tokens, 0, 2), 0);
    ck_assert_int_eq(greedy_after(tokens, 2, 2), 1);
    ck_assert_int_eq(greedy_after(tokens, 3, 2), 0); /* 0 is out of sight */
    ck_assert_int_eq(greedy_after(tokens, 3, 3), 1);
    ck_assert_int_eq(greedy_after(tokens, 3, 64), 1);
    ck_assert_int_eq(greedy_after(tokens, 3, -1), 1);
    ck_assert_int_eq(greedy_after(tokens, 3, 0), 0);
    const int32_t strange[] = {-1, 6, INT32_MAX}; /* ids of nothing are passed over */
    ck_assert_int_eq(greedy_after(strange, 3, 2), 0);
}
END_TEST

START_TEST(drawn_tokens_are_penalised)
{
    const float logits[] = {3, 2.9F, 2.8F, 2.7F, 2.6F, 0};
    locus_sampler_params params = plain(1);
    params.temperature = 0;
    params.frequency_penalty = 0.15F;
    locus_sampler *sampler = create(&params);
    const int32_t wanted[] = {0, 1, 0, 2, 1};
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(next(sampler, logits), wanted[i]);
    locus_sampler_free(sampler);
}
END_TEST

/* ---- what can't be drawn from -------------------------------------------------------------- */

START_TEST(odd_logits_and_nothing_to_draw_are_errors)
{
    locus_sampler_params params = locus_sampler_defaults();
    locus_sampler *sampler = create(&params);
    for (int i = 0; i < 12; i++) {
        float logits[] = {0, 1, 2, 3, 4, 5};
        locus_error error = {0};
        logits[i / 2] = i % 2 ? INFINITY : NAN;
        ck_assert_int_eq(locus_sampler_next(sampler, logits, NULL), -1);
        ck_assert_int_eq(locus_sampler_next(sampler, logits, &error), -1);
        ck_assert_int_eq(error.status, LOCUS_ERROR_NUMERIC);
        ck_assert_ptr_nonnull(strstr(error.message, i % 2 ? "+inf" : "NaN"));
    }
    const float nothing[] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, 1};
    locus_error error = {0};
    ck_assert_int_eq(locus_sampler_next(sampler, nothing, &error), -1);
    ck_assert_int_eq(error.status, LOCUS_ERROR_NUMERIC);
    const float huge[] = {0, -INFINITY, -INFINITY, -FLT_MAX, FLT_MAX, 1};
    ck_assert_int_eq(next(sampler, huge), 4);
    locus_sampler_free(sampler);
}
END_TEST

static void refuse(locus_sampler_params params, const char *says)
{
    locus_error error = {0};
    ck_assert_ptr_null(locus_sampler_create_for(&vocabulary, &params, &error));
    ck_assert_int_eq(error.status, LOCUS_ERROR_ARGUMENT);
    ck_assert_msg(strstr(error.message, says) != NULL, "%s", error.message);
}

/* The defaults, but for one field. */
#define WITH(field, value) ((params = locus_sampler_defaults()), params.field = (value), params)

START_TEST(senseless_parameters_are_refused)
{
    locus_sampler_params params;
    refuse(WITH(temperature, -1), "temperature is -1; expected 0 or more");
    refuse(WITH(temperature, NAN), "temperature is nan");
    refuse(WITH(temperature, INFINITY), "temperature is inf");
    refuse(WITH(top_p, -0.5F), "top_p is -0.5; expected 0 to 1");
    refuse(WITH(min_p, 1.5F), "min_p is 1.5; expected 0 to 1");
    refuse(WITH(typical_p, NAN), "typical_p is nan");
    refuse(WITH(repeat_penalty, 0), "repeat_penalty is 0; expected a number above 0");
    refuse(WITH(presence_penalty, NAN), "presence_penalty is nan");
    refuse(WITH(frequency_penalty, INFINITY), "frequency_penalty is inf");
    refuse(WITH(repeat_last_n, -2), "repeat_last_n is -2");
    refuse(WITH(stages[0], (enum locus_sampler_stage)7), "stages[0] is 7");
    params = locus_sampler_defaults();
    params.stages[0] = params.stages[1] = LOCUS_STAGE_TOP_K;
    refuse(params, "listed twice");
    const locus_logit_bias past = {5, 1}, nan = {1, NAN}, infinite = {1, INFINITY};
    const struct {
        const locus_logit_bias *bias;
        const char *says;
    } biases[] = {{&past, "token 5; expected an id from 0 to 4"},
                  {&nan, "is nan; expected"},
                  {&infinite, "is inf; expected"},
                  {NULL, "expected its length"}};
    for (int i = 0; i < 4; i++) {
        params = locus_sampler_defaults();
        params.logit_bias = biases[i].bias;
        params.n_logit_bias = 1;
        refuse(params, biases[i].says);
    }
}
END_TEST

START_TEST(extreme_parameters_draw_something)
{
    const float logits[] = {3e38F, -3e38F, 1, 3.1e38F, 0, 0};
    for (int i = 0; i < 64; i++) {
        locus_sampler_params params = locus_sampler_defaults();
        params.temperature = (i & 1) != 0 ? 1e-45F : 3e38F;
        params.top_p = i & 2 ? 0.0F : 1e30F;
        params.typical_p = i & 4 ? 0.0F : 1.0F;
        params.repeat_penalty = i & 8 ? 1.2e-38F : 3e38F;
        params.frequency_penalty = i & 16 ? 3e38F : -3e38F;
        params.min_p = i & 32 ? 1.0F : 0.0F;
        locus_sampler *sampler = create(&params);
        for (int n = 0; n < 5; n++)
            ck_assert_int_lt(next(sampler, logits), 5);
        locus_sampler_free(sampler);
    }
}
END_TEST

START_TEST(generator_is_uniform_and_never_1)
{
    struct locus_rng rng;
    locus_rng_seed(&rng, 0);
    int counts[10] = {0};
    for (int i = 0; i < N_DRAWS; i++) {
        double x = locus_rng_double(&rng);
        ck_assert(x >= 0 && x < 1);
        counts[(int)(10 * x)]++;
    }
    for (int i = 0; i < 10; i++)
        check_share(counts[i], 0.1);
    /* The numbers of xoshiro256++ from the state 1, 2, 3, 4: (s0 + s3) rotated by 23, plus s0. */
    rng = (struct locus_rng){{1, 2, 3, 4}};
    ck_assert_uint_eq(locus_rng_next(&rng), 41943041);
    ck_assert_uint_eq(locus_rng_next(&rng), 58720359);
    ck_assert_uint_eq(locus_rng_next(&rng), UINT64_C(3588806011781223));
}
END_TEST

/* A stage's result is known to be in order only where it is. */
START_TEST(cuts_after_any_stage_take_the_likeliest)
{
    struct set set;
    const int counts[] = {0, 1, 0, 0};
    fill(&set, tenths, 4);
    locus_stage_typical_p(&set.candidates, 0.9); /* 3, 2, 1 by distance from the entropy */
    locus_stage_top_k(&set.candidates, 1);
    check_left(&set, IDS(1));
    fill(&set, tenths, 4);
    locus_stage_top_k(&set.candidates, 3); /* 1, 3, 2 */
    locus_stage_penalties(&set.candidates, &(struct locus_penalties){1, 9, 0}, counts);
    locus_stage_top_k(&set.candidates, 1);
    check_left(&set, IDS(3));
    for (int k = 1; k <= 6; k++) {
        fill(&set, (const double[]){3, 1, 6, 4, 5, 2, 0}, 7);
        locus_stage_top_k(&set.candidates, 6);
        locus_stage_top_k(&set.candidates, k);
        const int32_t likeliest[] = {2, 4, 3, 0, 5, 1};
        ck_assert_uint_eq(set.candidates.n, (size_t)k);
        for (int i = 0; i < k; i++)
            ck_assert_int_eq(set.at[i].id, likeliest[i]);
    }
}
END_TEST

/* A bias added to the largest of floats is past them, but no infinity. */
START_TEST(huge_logits_keep_their_order)
{
    const locus_logit_bias biases[] = {{1, FLT_MAX}, {2, FLT_MAX}};
    locus_sampler_params params = plain(1);
    params.logit_bias = biases;
    params.n_logit_bias = 2;
    const float logits[] = {FLT_MAX, FLT_MAX, 5, -INFINITY, 0, 0};
    int counts[6];
    count_draws(&params, logits, counts);
    ck_assert_int_eq(counts[1], N_DRAWS);
}
END_TEST

START_TEST(tokens_that_do_not_exist_are_not_remembered)
{
    const float logits[] = {0, 1, 0, 0, 0, 0};
    locus_sampler_params params = plain(1);
    params.temperature = 0;
    params.presence_penalty = 2;
    params.repeat_last_n = 1;
    locus_sampler *sampler = create(&params);
    locus_sampler_accept(sampler, 1);
    locus_sampler_accept(sampler, 6); /* the vocabulary's size */
    locus_sampler_accept(sampler, -1);
    ck_assert_int_eq(next(sampler, logits), 0);
    locus_sampler_free(sampler);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sampler");
    TCase *stages = tcase_create("stages"), *draws = tcase_create("draws");
    tcase_add_test(stages, top_k_keeps_the_likeliest);
    tcase_add_test(stages, top_k_takes_the_lower_id_of_equal_tokens);
    tcase_add_test(stages, top_p_keeps_the_smallest_set_that_reaches_p);
    tcase_add_test(stages, cut_renormalises);
    tcase_add_test(stages, min_p_keeps_a_share_of_the_likeliest);
    tcase_add_test(stages, typical_p_keeps_what_is_nearest_to_the_entropy);
    tcase_add_test(stages, temperature_divides_or_takes_the_likeliest);
    tcase_add_test(stages, penalties_lower_every_logit);
    tcase_add_test(stages, weights_are_exponentials);
    tcase_add_test(stages, cuts_after_any_stage_take_the_likeliest);
    suite_add_tcase(suite, stages);
    tcase_add_loop_test(draws, draws_have_the_distribution_of_the_logits, 0, 2);
    tcase_add_test(draws, padding_is_never_drawn);
    tcase_add_test(draws, end_is_never_drawn_where_it_is_ignored);
    tcase_add_test(draws, temperature_0_is_the_likeliest_whatever_the_stages);
    tcase_add_test(draws, stages_run_in_the_order_given);
    tcase_add_test(draws, same_seed_draws_the_same);
    tcase_add_test(draws, logits_are_left_as_they_are);
    tcase_add_test(draws, logit_bias_is_added_and_bans);
    tcase_add_test(draws, penalties_look_back_on_the_last_tokens_only);
    tcase_add_test(draws, drawn_tokens_are_penalised);
    tcase_add_test(draws, odd_logits_and_nothing_to_draw_are_errors);
    tcase_add_test(draws, senseless_parameters_are_refused);
    tcase_add_test(draws, extreme_parameters_draw_something);
    tcase_add_test(draws, generator_is_uniform_and_never_1);
    tcase_add_test(draws, huge_logits_keep_their_order);
    tcase_add_test(draws, tokens_that_do_not_exist_are_not_remembered);
    suite_add_tcase(suite, draws);
    return testing_run(suite);
}
