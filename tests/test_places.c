/* Positions drawn at random: the sample, how schemes read it, what is refused. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "position/places.h"
#include "position_testing.h"
#include "testing.h"
#include "tiny.h"

enum { N = 64, HEAD_DIM = 8 };

static struct locus_places draw(const char *text, int n)
{
    struct locus_position_env env = position_env(NULL);
    struct locus_position_spec spec;
    struct locus_places places;
    locus_error error;
    env.session_length = n;
    ck_assert_int_eq(position_resolve(&spec, text, NULL, NULL, &env, &error), LOCUS_OK);
    const struct locus_places_query query = {"rope", &env, &spec, 0, 0};
    ck_assert_msg(locus_places_init(&places, &query, &error) == LOCUS_OK, "%s", error.message);
    return places;
}

START_TEST(sample_rises_within_its_range)
{
    static const int ranges[] = {N, N + 1, 200, 5000};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        char text[48];
        snprintf(text, sizeof text, "rope:random=%d,seed=3", ranges[i]);
        struct locus_places places = draw(text, N);
        for (int p = 0; p < N; p++) {
            ck_assert_int_ge(locus_place(&places, p), p ? locus_place(&places, p - 1) + 1 : 0);
            ck_assert_int_lt(locus_place(&places, p), ranges[i]);
            if (ranges[i] == N) ck_assert_int_eq(locus_place(&places, p), p);
        }
        locus_places_free(&places);
    }
}
END_TEST

/* Of 6 places, each pair is drawn in a fifteenth of the cases. */
START_TEST(samples_are_equally_likely)
{
    enum { DRAWS = 15000 };
    int counts[6][6] = {{0}};
    for (int seed = 0; seed < DRAWS; seed++) {
        char text[48];
        snprintf(text, sizeof text, "rope:random=6,seed=%d", seed);
        struct locus_places places = draw(text, 2);
        counts[locus_place(&places, 0)][locus_place(&places, 1)]++;
        locus_places_free(&places);
    }
    for (int a = 0; a < 6; a++)
        for (int b = a + 1; b < 6; b++)
            ck_assert_int_lt(abs(counts[a][b] - DRAWS / 15), 150); /* 5 deviations of 31 */
}
END_TEST

START_TEST(seed_says_which_sample)
{
    struct locus_places a = draw("rope:random=1000,seed=4", N),
                        b = draw("rope:random=1000,seed=4", N),
                        c = draw("rope:random=1000,seed=5", N);
    ck_assert_int_eq(memcmp(a.drawn, b.drawn, N * sizeof *a.drawn), 0);
    ck_assert_int_ne(memcmp(a.drawn, c.drawn, N * sizeof *a.drawn), 0);
    locus_places_free(&a);
    locus_places_free(&b);
    locus_places_free(&c);
}
END_TEST

/* A key at position p is turned by the angle of its place. */
START_TEST(schemes_stand_at_the_drawn_places)
{
    static const char *const specs[] = {"rope:random=900,seed=2,offset=30",
                                        "xpos:pairs=half,random=900,seed=2,offset=30"};
    struct locus_position_env env = position_env(NULL);
    struct locus_places places = draw("rope:random=900,seed=2", N);
    struct locus_position position = position_open(&env, specs[_i]);
    float raw[HEAD_DIM], row[HEAD_DIM];
    position_random(raw, HEAD_DIM, 1, 3);
    for (int p = 0; p < N; p++) {
        memcpy(row, raw, sizeof row);
        position_rotate(&position, 0, LOCUS_KEY, row, 1, p, p); /* xPos: no decay from itself */
        for (int k = 0; k < HEAD_DIM / 2; k++) {
            const double angle = (locus_place(&places, p) + 30) * pow(10000, -2.0 * k / HEAD_DIM);
            const double x0 = (double)raw[k], x1 = (double)raw[k + HEAD_DIM / 2];
            position_near((double)row[k], x0 * cos(angle) - x1 * sin(angle), 1e-6, "x0", p);
            position_near((double)row[k + HEAD_DIM / 2], x0 * sin(angle) + x1 * cos(angle), 1e-6,
                          "x1", p);
        }
    }
    locus_position_free(&position);
    locus_places_free(&places);
}
END_TEST

START_TEST(xpos_decays_by_the_distance_of_places)
{
    struct locus_position_env env = position_env(NULL);
    struct locus_places places = draw("rope:random=900,seed=2", N);
    struct locus_position position = position_open(&env, "xpos:pairs=half,random=900,seed=2");
    const int at = 50, key = 20;
    float q[HEAD_DIM], k[HEAD_DIM];
    double dot = 0, expected = 0;
    for (int d = 0; d < HEAD_DIM; d++)
        q[d] = k[d] = d % (HEAD_DIM / 2) == 1; /* pair 1 alone */
    position_rotate(&position, 0, LOCUS_QUERY, q, 1, at, 0);
    position_rotate(&position, 0, LOCUS_KEY, k, 1, key, 0);
    for (int d = 0; d < HEAD_DIM; d++)
        dot += (double)q[d] * (double)k[d];
    const int distance = locus_place(&places, at) - locus_place(&places, key);
    const double zeta = (2.0 / HEAD_DIM + 0.4) / 1.4;
    expected = 2 * cos(distance * pow(10000, -2.0 / HEAD_DIM)) * pow(zeta, distance / 512.0);
    position_near(dot, expected, 1e-6, "decay", distance);
    locus_position_free(&position);
    locus_places_free(&places);
}
END_TEST

START_TEST(senseless_draws_are_refused)
{
    static float table[40 * 32];
    const struct fake_checkpoint checkpoint = {{{"position_embd.weight", 40, 32, table}}};
    struct locus_position_env env = position_env(&checkpoint);
    position_refused(&env, "rope:random=63",
                     "random is 63; expected at least the session's 64 positions");
    position_refused(&env, "rope:seed=2",
                     "'seed' has no effect beside the other values; expected "
                     "random");
    position_refused(&env, "xpos:random=100000", "times within");
    position_refused(&env, "alibi:random=100", "alibi has no parameter 'random'");
    env.session_length = 16;
    position_refused(&env, "learned:random=41",
                     "random is 41; expected at most the 40 positions that there are");
    position_refused(&env, "learned:random=41,offset=1,beyond=interpolate,factor=1",
                     "expected at most the 39 positions");
    env.first_position = INT_MAX - 2000;
    env.session_length = INT_MAX - 1000;
    position_refused(&env, "rope:offset=1001", "offset is 1001, past which positions");
}
END_TEST

/* A session is cut to the range, or refused where more was asked. */
START_TEST(sessions_are_no_longer_than_the_range)
{
    locus_model *model = tiny_model(0, 0);
    locus_error error;
    locus_session_params params = {.position = "rope:random=100", .n_context = 101, .n_threads = 1};
    ck_assert_ptr_null(locus_session_create(model, &params, &error));
    ck_assert_msg(strstr(error.message, "random=100 has 100 positions, the session needs 101"),
                  "%s", error.message);
    params.n_context = 100;
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    locus_session_free(session);
    params = (locus_session_params){.position = "sinusoidal:random=20", .n_threads = 1};
    session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_int_eq(locus_session_capacity(session), 20);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("places");
    TCase *tests = tcase_create("places");
    tcase_add_test(tests, sample_rises_within_its_range);
    tcase_add_test(tests, samples_are_equally_likely);
    tcase_add_test(tests, seed_says_which_sample);
    tcase_add_loop_test(tests, schemes_stand_at_the_drawn_places, 0, 2);
    tcase_add_test(tests, xpos_decays_by_the_distance_of_places);
    tcase_add_test(tests, senseless_draws_are_refused);
    tcase_add_test(tests, sessions_are_no_longer_than_the_range);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
