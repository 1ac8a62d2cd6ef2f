/* Formulas of the position schemes that bias scores or add to embeddings, through their hooks,
 * against the papers' formulas written out plainly in double, and published values.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "position_testing.h"
#include "testing.h"

enum { N_HEAD = 4, N = 64, HEAD_DIM = 8 };

static const float no_query[HEAD_DIM];

/* The bias of one head at one distance, through the hook. */
static double bias_at(const struct locus_position *position, int head, int distance)
{
    float score = 0;
    float scratch[8];
    ck_assert_uint_le(locus_position_scratch_floats(position, 1), 8);
    const struct locus_bias_op op = {.head = head,
                                     .q = no_query,
                                     .q_position = distance,
                                     .n_k = 1,
                                     .scores = &score,
                                     .scratch = scratch};
    locus_position_bias(position, &op);
    return (double)score;
}

/* ---- ALiBi -------------------------------------------------------------------------------- */

static const struct slopes {
    int n_head;
    double exponents[20];
} all_slopes[] = {
    {6, {-2, -4, -6, -8, -1, -3}},
    {12, {-1, -2, -3, -4, -5, -6, -7, -8, -.5, -1.5, -2.5, -3.5}},
    {20, {-.5,  -1, -1.5, -2, -2.5, -3, -3.5, -4,   -4.5,  -5,
          -5.5, -6, -6.5, -7, -7.5, -8, -.25, -.75, -1.25, -1.75}},
};

START_TEST(alibi_slopes_are_the_published_ones)
{
    const struct slopes *slopes = &all_slopes[_i];
    struct locus_position_env env = position_env(NULL);
    env.n_head = env.n_head_kv = slopes->n_head;
    struct locus_position position = position_open(&env, "alibi");
    for (int h = 0; h < slopes->n_head; h++) {
        ck_assert_double_eq(bias_at(&position, h, 0), 0);
        for (int distance = 1; distance < N; distance++)
            position_near(bias_at(&position, h, distance),
                          -(double)distance * exp2(slopes->exponents[h]), 1e-7, "head", h);
    }
    locus_position_free(&position);
}
END_TEST

START_TEST(alibi_parameters_divide_the_bias)
{
    struct locus_position_env env = position_env(NULL);
    struct locus_position plain = position_open(&env, "alibi:max_bias=16");
    struct locus_position scaled = position_open(&env, "alibi:max_bias=16,scaled=1,factor=4");
    for (int h = 0; h < N_HEAD; h++) {
        position_near(bias_at(&plain, h, 10), -10 * exp2(-4.0 * (h + 1)), 1e-7, "max_bias", h);
        position_near(bias_at(&scaled, h, 10), bias_at(&plain, h, 10) / 4 / sqrt(HEAD_DIM), 1e-6,
                      "scaled", h);
    }
    locus_position_free(&plain);
    locus_position_free(&scaled);
}
END_TEST

START_TEST(alibi_has_no_bias_past_its_heads)
{
    struct locus_position_env env = position_env(NULL);
    struct locus_position position = position_open(&env, "alibi:heads=3");
    static const double exponents[] = {-4, -8, -2}; /* those of 3 heads */
    for (int h = 0; h < N_HEAD; h++)
        for (int distance = 0; distance < N; distance += 9)
            position_near(bias_at(&position, h, distance),
                          h < 3 ? -distance * exp2(exponents[h]) : 0, 1e-7, "head", h);
    locus_position_free(&position);
    position_refused(&env, "alibi:heads=5", "heads is 5; expected at most the model's 4");
    position_refused(&env, "alibi:heads=0", "heads is '0'; expected a whole number from 1");
}
END_TEST

START_TEST(alibi_slopes_may_be_the_checkpoints)
{
    static const float shared[N_HEAD] = {0.5F, 0, -0.25F, 3}, own[N_HEAD] = {1, 2, 3, 4};
    static const float wrong[N_HEAD] = {1, NAN, 1, 1};
    const struct fake_checkpoint checkpoint = {{{"position_alibi.slopes", 1, N_HEAD, shared},
                                                {"blk.1.position_alibi.slopes", 1, N_HEAD, own}}};
    const struct fake_checkpoint bad = {{{"position_alibi.slopes", 1, N_HEAD, wrong}}};
    struct locus_position_env env = position_env(&checkpoint), bare = position_env(NULL);
    struct locus_position position = position_open(&env, "alibi:slopes=tensor,factor=2");
    float scores[N];
    for (int layer = 0; layer < 2; layer++)
        for (int h = 0; h < N_HEAD; h++) {
            position_bias_row(&position, layer, h, no_query, N - 1, scores);
            const double slope = (double)(layer ? own : shared)[h];
            for (int j = 0; j < N; j++)
                position_near((double)scores[j], -slope * (N - 1 - j) / 2, 1e-7, "slope", h);
        }
    locus_position_free(&position);
    position_refused(&bare, "alibi:slopes=tensor", "no tensor position_alibi.slopes");
    position_refused(&env, "alibi:slopes=tensor,max_bias=4",
                     "'max_bias' has no effect beside the other values; expected slopes=formula");
    position_refused(&env, "alibi:slopes=tensor,heads=2", "expected slopes=formula");
    env = position_env(&bad);
    position_refused(&env, "alibi:slopes=tensor", "the slope of head 1 in position_alibi.slopes");
}
END_TEST

/* ---- keys of any scheme ------------------------------------------------------------------- */

START_TEST(logn_multiplies_the_query_by_its_position)
{
    struct locus_position_env env = position_env(NULL);
    struct locus_position plain = position_open(&env, "alibi");
    struct locus_position scaled = position_open(&env, "alibi:logn=position");
    struct locus_position stated = position_open(&env, "ntk:factor=2,trained=4,logn=position");
    for (int p = 0; p < N; p++) {
        ck_assert_float_eq(locus_position_query_scale(&plain, p), 1);
        position_near((double)locus_position_query_scale(&scaled, p),
                      fmax(1, log(p + 1) / log(env.trained_length)), 1e-7, "logn", p);
        position_near((double)locus_position_query_scale(&stated, p), fmax(1, log(p + 1) / log(4)),
                      1e-7, "logn of trained=4", p);
    }
    ck_assert_float_eq(locus_position_query_scale(&scaled, env.trained_length - 1), 1);
    ck_assert_float_eq(locus_position_query_scale(&scaled, env.trained_length * 16 - 1), 2);
    locus_position_free(&plain);
    locus_position_free(&scaled);
    locus_position_free(&stated);
}
END_TEST

START_TEST(senseless_keys_of_any_scheme_are_refused)
{
    struct locus_position_env env = position_env(NULL);
    position_refused(&env, "alibi:temperature=0", "temperature is '0'; expected a number from");
    position_refused(&env, "none:temperature=-1", "temperature is '-1'; expected a number from");
    position_refused(&env, "none:logn=count", "logn is 'count'; expected one of none|position");
    env.trained_length = 1;
    position_refused(&env, "alibi:logn=position", "trained length is 1; expected 2 or more");
}
END_TEST

/* ---- T5 and clipped relative -------------------------------------------------------------- */

START_TEST(t5_buckets_are_those_of_the_authors_code)
{
    /* The first distance of each bucket of 32, for max_distance 128: every distance to 16, then
     * ceil(16 * 8^(k/16)). */
    static float table[32 * N_HEAD];
    for (int bucket = 0; bucket < 32; bucket++)
        for (int h = 0; h < N_HEAD; h++)
            table[bucket * N_HEAD + h] = (float)(bucket + 100 * h);
    const struct fake_checkpoint checkpoint = {{{"position_bias.weight", 32, N_HEAD, table}}};
    struct locus_position_env env = position_env(&checkpoint);
    env.session_length = 512;
    struct locus_position position = position_open(&env, "t5");
    for (int distance = 0; distance < 512; distance++) {
        int bucket = distance;
        if (distance >= 16)
            for (bucket = 16; bucket < 31 && distance >= 16 * pow(8, (bucket - 15) / 16.0);)
                bucket++;
        ck_assert_double_eq(bias_at(&position, 0, distance), bucket);
        ck_assert_double_eq(bias_at(&position, 3, distance), bucket + 300);
    }
    static const int known[][2] = {{15, 15}, {16, 16}, {18, 16},  {19, 17},  {20, 17}, {21, 18},
                                   {32, 21}, {64, 26}, {127, 31}, {128, 31}, {511, 31}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        ck_assert_double_eq(bias_at(&position, 0, known[i][0]), known[i][1]);
    locus_position_free(&position);
}
END_TEST

START_TEST(t5_bucket_starts_on_a_whole_step_exactly)
{
    /* buckets 16, max_distance 128: exact is 8, and 16, 32, 64 are whole steps. */
    static float table[16 * N_HEAD];
    for (int bucket = 0; bucket < 16; bucket++)
        table[bucket * N_HEAD] = (float)bucket;
    const struct fake_checkpoint checkpoint = {{{"position_bias.weight", 16, N_HEAD, table}}};
    struct locus_position_env env = position_env(&checkpoint);
    env.session_length = 256;
    struct locus_position position = position_open(&env, "t5:buckets=16,max_distance=128");
    ck_assert_double_eq(bias_at(&position, 0, 15), 9);
    ck_assert_double_eq(bias_at(&position, 0, 16), 10);
    ck_assert_double_eq(bias_at(&position, 0, 31), 11);
    ck_assert_double_eq(bias_at(&position, 0, 32), 12);
    ck_assert_double_eq(bias_at(&position, 0, 64), 14);
    locus_position_free(&position);
}
END_TEST

START_TEST(relative_clips_at_the_tables_end)
{
    static float table[6 * N_HEAD];
    position_random(table, 6 * N_HEAD, 2, 1);
    const struct fake_checkpoint checkpoint = {{{"position_bias.weight", 6, N_HEAD, table}}};
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position position = position_open(&env, "relative:max_distance=5");
    float scores[N];
    for (int h = 0; h < N_HEAD; h++) {
        position_bias_row(&position, 1, h, no_query, N - 1, scores);
        for (int j = 0; j < N; j++) {
            int distance = N - 1 - j;
            ck_assert(scores[j] == table[(distance < 5 ? distance : 5) * N_HEAD + h]);
        }
    }
    locus_position_free(&position);
}
END_TEST

/* ---- KERPLE and Sandwich ------------------------------------------------------------------ */

START_TEST(kerple_is_the_papers_kernel)
{
    static const float p[N_HEAD] = {0.5F, 1, 2.5F, -3}, a[N_HEAD] = {1, 0.001F, 0.25F, 2};
    static const float p1[N_HEAD] = {1.5F, 1, 1, 1};
    const struct fake_checkpoint checkpoint = {{{"position_kerple.p", 1, N_HEAD, p},
                                                {"position_kerple.a", 1, N_HEAD, a},
                                                {"blk.1.position_kerple.p", 1, N_HEAD, p1}}};
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position log_kind = position_open(&env, "kerple");
    struct locus_position power = position_open(&env, "kerple:kind=power,eps=0.02");
    float scores[N];
    for (int layer = 0; layer < 2; layer++)
        for (int h = 0; h < N_HEAD; h++) {
            double ph = (double)(layer ? p1 : p)[h], ah = (double)a[h];
            position_bias_row(&log_kind, layer, h, no_query, N - 1, scores);
            for (int j = 0; j < N; j++)
                position_near((double)scores[j],
                              -fmax(ph, 0.01) * log(1 + fmax(ah, 0.01) * (N - 1 - j)), 1e-6, "log",
                              j);
            position_bias_row(&power, layer, h, no_query, N - 1, scores);
            for (int j = 0; j < N; j++)
                position_near((double)scores[j],
                              -fmax(ah, 0.02) * pow(N - 1 - j, fmin(2, fmax(ph, 0.02))), 1e-6,
                              "power", j);
        }
    locus_position_free(&log_kind);
    locus_position_free(&power);
}
END_TEST

START_TEST(sandwich_gives_the_known_values)
{
    struct locus_position_env env = position_env(NULL);
    env.n_head = 12;
    env.session_length = 128;
    struct locus_position one = position_open(&env, "sandwich:first=1");
    struct locus_position zero = position_open(&env, "sandwich");
    position_near(bias_at(&one, 0, 1), -2.169928, 1e-6, "first=1", 1);
    position_near(bias_at(&one, 0, 10), -29.011359, 1e-6, "first=1", 10);
    position_near(bias_at(&one, 0, 100), -49.978371, 1e-6, "first=1", 100);
    position_near(bias_at(&one, 11, 1), -0.180827, 1e-6, "head 11", 1);
    position_near(bias_at(&zero, 0, 1), -2.859474, 1e-6, "first=0", 1);
    ck_assert_double_eq(bias_at(&zero, 5, 0), 0);
    locus_position_free(&one);
    locus_position_free(&zero);
}
END_TEST

/* ---- what is added to embeddings ---------------------------------------------------------- */

enum { N_EMBD = 32, N_ROWS = 12 };

static const struct learned_case {
    const char *spec;
    int max_positions;
} learned_cases[] = {
    {"learned", N_ROWS},
    {"learned:offset=2", N_ROWS - 2},
    {"learned:beyond=clamp,offset=2", 0},
    {"learned:beyond=wrap,offset=2", 0},
    {"learned:beyond=interpolate,factor=2.5,offset=2", 23},
};

/* The row, counted in fractions, that holds position p. */
static double row_of(int which, int p)
{
    const int n = N_ROWS - 2;
    const double rows[] = {p, p + 2, 2 + (p < n ? p : n - 1), 2 + p % n, 2 + p / 2.5};
    return rows[which];
}

START_TEST(learned_reads_the_row_of_each_position)
{
    static float table[N_ROWS * N_EMBD];
    position_random(table, N_ROWS * N_EMBD, 1, 1);
    const struct fake_checkpoint checkpoint = {{{"position_embd.weight", N_ROWS, N_EMBD, table}}};
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position position = position_open(&env, learned_cases[_i].spec);
    ck_assert_int_eq(locus_position_max_positions(&position), learned_cases[_i].max_positions);
    int n = learned_cases[_i].max_positions ? learned_cases[_i].max_positions : N;
    for (int p = 0; p < n; p++) {
        float x[N_EMBD];
        position_random(x, N_EMBD, 1, 2);
        double before = (double)x[5], row = row_of(_i, p), low = floor(row);
        const float *at = table + (ptrdiff_t)low * N_EMBD + 5;
        double expected = (double)at[0];
        if (row > low) expected += (row - low) * ((double)at[N_EMBD] - (double)at[0]);
        position_embed(&position, x, p, 1, NULL);
        position_near((double)x[5], before + expected, 1e-6, learned_cases[_i].spec, p);
    }
    locus_position_free(&position);
}
END_TEST

static const struct sinusoid {
    const char *spec;
    bool concat, fairseq;
    double offset, factor;
    int width; /* of a grid */
} sinusoids[] = {
    {"sinusoidal", false, false, 0, 1, 0},
    {"sinusoidal:layout=concat", true, false, 0, 1, 0},
    {"sinusoidal:layout=concat,denominator=fairseq,offset=2", true, true, 2, 1, 0},
    {"sinusoidal:offset=3,factor=4", false, false, 3, 4, 0},
    {"sinusoidal:layout=concat,width=7", true, false, 0, 1, 7},
};

/* Column c of a table of n columns. */
static double sinusoid_at(const struct sinusoid *s, double p, int c, int n)
{
    int k = s->concat ? c % (n / 2) : c / 2;
    bool sine = s->concat ? c < n / 2 : c % 2 == 0;
    double theta = s->fairseq ? exp(-k * log(10000) / (n / 2 - 1)) : pow(10000, -2.0 * k / n);
    double angle = (p + s->offset) / s->factor * theta;
    return sine ? sin(angle) : cos(angle);
}

START_TEST(sinusoids_are_the_papers)
{
    const struct sinusoid *which = &sinusoids[_i];
    struct locus_position_env env = position_env(NULL);
    struct locus_position position = position_open(&env, which->spec);
    float x[N * N_EMBD] = {0};
    position_embed(&position, x, 0, N, NULL);
    for (int p = 0; p < N; p++)
        for (int c = 0; c < N_EMBD; c++) {
            int half = N_EMBD / 2;
            double expected = which->width == 0 ? sinusoid_at(which, p, c, N_EMBD)
                              : c < half        ? sinusoid_at(which, p / which->width, c, half)
                                         : sinusoid_at(which, p % which->width, c - half, half);
            position_near((double)x[p * N_EMBD + c], expected, 1e-7, which->spec, p);
        }
    locus_position_free(&position);
}
END_TEST

/* ---- tables that grow with the text ------------------------------------------------------- */

/* Step by step or at once, and from a first position on that isn't 0. */
START_TEST(tables_are_the_same_however_they_are_filled)
{
    static const char *const specs[] = {"alibi", "sandwich", "sinusoidal", "rope", "xpos"};
    struct locus_position_env env = position_env(NULL);
    env.first_position = 3;
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        struct locus_position whole = position_open(&env, specs[s]), steps = {.spec = whole.spec};
        ck_assert_int_eq(locus_position_init(&steps, &env, NULL), LOCUS_OK);
        for (int p = env.first_position; p < N; p++) {
            float rows[2][N_EMBD] = {{0}}, scores[2] = {0};
            locus_position_fill(&steps, p + 1);
            for (int i = 0; i < 2; i++) {
                const struct locus_position *position = i ? &steps : &whole;
                const int first = env.first_position;
                const struct locus_bias_op op = {.q = no_query,
                                                 .q_position = p,
                                                 .n_k = 1,
                                                 .k_first = first,
                                                 .scores = &scores[i]};
                for (int c = 0; c < N_EMBD; c++)
                    rows[i][c] = (float)(c + 1);
                position_embed(position, rows[i], p, 1, NULL);
                position_rotate(position, 0, LOCUS_QUERY, rows[i], 1, p, first);
                locus_position_bias(position, &op);
            }
            ck_assert_mem_eq(rows[0], rows[1], sizeof rows[0]);
            ck_assert_mem_eq(&scores[0], &scores[1], sizeof scores[0]);
            if (whole.spec.scheme->bias && p > env.first_position) ck_assert_float_ne(scores[0], 0);
        }
        locus_position_free(&whole);
        locus_position_free(&steps);
    }
}
END_TEST

/* ---- refusals ----------------------------------------------------------------------------- */

START_TEST(bias_schemes_refuse_what_they_cannot_serve)
{
    static const float table[6 * N_HEAD];
    const struct fake_checkpoint checkpoint = {{{"position_bias.weight", 6, N_HEAD, table},
                                                {"position_kerple.p", 1, N_HEAD, table},
                                                {"position_kerple.a", N_HEAD, 1, table}}};
    struct locus_position_env env = position_env(&checkpoint), bare = position_env(NULL);
    position_refused(&bare, "t5", "no tensor position_bias.weight; expected [32, 4]");
    position_refused(&env, "t5", "position_bias.weight is [6, 4]; expected [32, 4]");
    position_refused(&env, "t5:max_distance=16", "more than buckets/2 = 16");
    position_refused(&env, "t5:max_distance=0", "from 1");
    position_refused(&bare, "relative", "no tensor position_bias.weight; expected [rows, 4]");
    position_refused(&env, "relative:max_distance=6", "is [6, 4]; expected [7, 4]");
    position_refused(&bare, "kerple", "position_kerple.p");
    position_refused(&env, "kerple", "position_kerple.a is [4, 1]; expected [1, 4]");
    position_refused(&env, "sandwich:dim=7", "dim is 7; expected an even number");
    position_refused(&env, "alibi:factor=0", "factor is '0'; expected a number from 1e-06");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("position formulas");
    TCase *tests = tcase_create("biases");
    tcase_add_loop_test(tests, alibi_slopes_are_the_published_ones, 0,
                        sizeof all_slopes / sizeof *all_slopes);
    tcase_add_test(tests, alibi_parameters_divide_the_bias);
    tcase_add_test(tests, alibi_has_no_bias_past_its_heads);
    tcase_add_test(tests, alibi_slopes_may_be_the_checkpoints);
    tcase_add_test(tests, logn_multiplies_the_query_by_its_position);
    tcase_add_test(tests, senseless_keys_of_any_scheme_are_refused);
    tcase_add_test(tests, t5_buckets_are_those_of_the_authors_code);
    tcase_add_test(tests, t5_bucket_starts_on_a_whole_step_exactly);
    tcase_add_test(tests, relative_clips_at_the_tables_end);
    tcase_add_test(tests, kerple_is_the_papers_kernel);
    tcase_add_test(tests, sandwich_gives_the_known_values);
    tcase_add_loop_test(tests, learned_reads_the_row_of_each_position, 0,
                        sizeof learned_cases / sizeof *learned_cases);
    tcase_add_loop_test(tests, sinusoids_are_the_papers, 0, sizeof sinusoids / sizeof *sinusoids);
    tcase_add_test(tests, tables_are_the_same_however_they_are_filled);
    tcase_add_test(tests, bias_schemes_refuse_what_they_cannot_serve);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
