/* Coordinates that the caller gives tokens in place of positions: sessions that take them, RoPE's
 * sections that turn by them, and what is refused.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
#include "position_testing.h"
#include "testing.h"
#include "tiny.h"

enum { N = 90, AXES = 3, HEAD_DIM = 8 };

static locus_session *try_session(const locus_model *model, const char *position, int n_axes,
                                  const char *attention, int n_batch, locus_error *error)
{
    const locus_session_params params = {.position = position,
                                         .attention = attention,
                                         .n_context = N,
                                         .n_batch = n_batch,
                                         .n_threads = n_batch > 1 ? 2 : 1,
                                         .n_axes = n_axes};
    return locus_session_create(model, &params, error);
}

/* Logits [N, TINY_VOCAB] of the text at coordinates[N, n_axes] (NULL: none given), and of its
 * second half again. */
static float *logits_of(const locus_model *model, const char *position, int n_axes,
                        const int *coordinates, int n_batch)
{
    locus_error error;
    int32_t tokens[N];
    const int half = N / 2;
    float *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    locus_session *session = try_session(model, position, n_axes, NULL, n_batch, &error);
    ck_assert_msg(session != NULL, "%s: %s", position, error.message);
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    ck_assert_int_eq(locus_session_eval_at(session, tokens, N, coordinates, logits, N, &error), 0);
    ck_assert_int_eq(locus_session_rewind(session, half, NULL), 0);
    ck_assert_int_eq(locus_session_eval_at(session, tokens + half, N - half,
                                           coordinates ? coordinates + half * n_axes : NULL,
                                           logits + (ptrdiff_t)half * TINY_VOCAB, N - half, &error),
                     0);
    locus_session_free(session);
    return logits;
}

static bool same(const float *a, float *b)
{
    const bool equal = memcmp(a, b, N * TINY_VOCAB * sizeof *a) == 0;
    free(b);
    return equal;
}

static const struct {
    const char *position;
    int n_axes;
} taking[] = {
    {"rope", 1},
    {"rope:axis1=2", 2},
    {"rope:axis1=1,axis2=3,pairs=adjacent", 3},
    {"rope:axis1=1,p=0.75", 2},
    {"dynamic-ntk:axis1=1,trained=16", 2},
    {"dynamic-ntk:axis1=1,trained=16,length=40", 2},
    {"learned", 1},
    {"sinusoidal", 1},
    {"none", 2},
    {"rope:axis1=2; layers 1 none", 2},
};

START_TEST(coordinates_that_are_the_position_change_no_bit)
{
    locus_model *model = tiny_model(0, 0);
    const char *position = taking[_i].position;
    const int n_axes = taking[_i].n_axes;
    int counted[N * AXES];
    for (int i = 0; i < N * n_axes; i++)
        counted[i] = i / n_axes;
    float *plain = logits_of(model, position, 0, NULL, 0);
    ck_assert_msg(same(plain, logits_of(model, position, n_axes, counted, 0)), "%s", position);
    ck_assert_msg(same(plain, logits_of(model, position, n_axes, NULL, 0)), "%s", position);
    free(plain);
    locus_model_free(model);
}
END_TEST

/* Text has its position on all axes: a model of several is then RoPE's, whatever the sections. */
START_TEST(text_on_all_axes_has_the_bits_of_plain_rope)
{
    static const struct {
        const char *sections, *plain;
        int n_axes;
    } pairs[] = {
        {"rope:axis1=2", "rope", 2},
        {"rope:axis1=1,axis2=3,pairs=adjacent", "rope:pairs=adjacent", 3},
        {"yarn:factor=4,trained=16,axis1=2", "yarn:factor=4,trained=16", 2},
        {"dynamic-ntk:trained=16,axis1=1", "dynamic-ntk:trained=16", 2},
    };
    locus_model *model = tiny_model(0, 0);
    int counted[N * AXES];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        for (int at = 0; at < N * pairs[i].n_axes; at++)
            counted[at] = at / pairs[i].n_axes;
        float *plain = logits_of(model, pairs[i].plain, 0, NULL, 0);
        ck_assert_msg(same(plain, logits_of(model, pairs[i].sections, pairs[i].n_axes, counted, 7)),
                      "%s", pairs[i].sections);
        ck_assert_msg(same(plain, logits_of(model, pairs[i].sections, 0, NULL, 0)), "%s",
                      pairs[i].sections);
        free(plain);
    }
    locus_model_free(model);
}
END_TEST

START_TEST(coordinates_keep_their_bits_in_batches)
{
    locus_model *model = tiny_model(0, 0);
    const char *position = taking[_i].position;
    const int n_axes = taking[_i].n_axes;
    int drawn[N * AXES];
    for (int i = 0; i < N * n_axes; i++)
        drawn[i] = i * 7919 % N;
    float *whole = logits_of(model, position, n_axes, drawn, 0);
    ck_assert_msg(same(whole, logits_of(model, position, n_axes, drawn, 1)), "%s", position);
    ck_assert_msg(same(whole, logits_of(model, position, n_axes, drawn, 7)), "%s", position);
    const bool places_matter = strcmp(position, "none") != 0;
    ck_assert_msg(same(whole, logits_of(model, position, n_axes, NULL, 0)) != places_matter, "%s",
                  position);
    free(whole);
    locus_model_free(model);
}
END_TEST

/* A picture's tokens, then text: one past the largest coordinate, on every axis. */
START_TEST(text_goes_on_past_the_largest_coordinate)
{
    locus_model *model = tiny_model(0, 0);
    int spelled_out[N * 2];
    int32_t tokens[N];
    locus_error error;
    for (int i = 0; i < N; i++) {
        tokens[i] = tiny_token(i);
        spelled_out[2 * i] = i < 12 ? 3 : 7 + i - 12;
        spelled_out[2 * i + 1] = i < 12 ? i % 7 : 7 + i - 12;
    }
    float *whole = logits_of(model, "rope:axis1=2", 2, spelled_out, 0);
    float *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    locus_session *session = try_session(model, "rope:axis1=2", 2, NULL, 16, &error);
    ck_assert_int_eq(locus_session_eval_at(session, tokens, 12, spelled_out, logits, 12, &error),
                     0);
    ck_assert_int_eq(
        locus_session_eval(session, tokens + 12, 40, logits + (ptrdiff_t)12 * TINY_VOCAB, 40, NULL),
        0);
    ck_assert_int_eq(locus_session_rewind(session, 20, NULL), 0);
    ck_assert_int_eq(locus_session_eval(session, tokens + 20, N - 20,
                                        logits + (ptrdiff_t)20 * TINY_VOCAB, N - 20, NULL),
                     0);
    ck_assert(same(whole, logits));
    free(whole);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

/* M-RoPE: pair k turns by base^(-2k/dim) times its axis' coordinate; axial: k counts from its
 * axis' first pair, and dim is that axis' own. */
START_TEST(pairs_turn_by_their_axis)
{
    static const char *const specs[] = {"rope:axis1=1,axis2=3", "rope:axis1=1,axis2=3,ladder=own"};
    static const int first[] = {0, 1, 3, 4}, place[] = {5, 40, 17};
    struct locus_position_env env = position_env(NULL);
    struct locus_position position = position_open(&env, specs[_i]);
    float raw[HEAD_DIM], row[HEAD_DIM];
    const int at = 9;
    position_random(raw, HEAD_DIM, 1, 3);
    memcpy(row, raw, sizeof row);
    const struct locus_rotate_op op = {.which = LOCUS_KEY,
                                       .rows = row,
                                       .n = 1,
                                       .n_heads = 1,
                                       .positions = &at,
                                       .n_axes = 3,
                                       .coordinates = place};
    locus_position_rotate(&position, &op);
    for (int axis = 0; axis < 3; axis++)
        for (int k = first[axis]; k < first[axis + 1]; k++) {
            const int n = _i ? first[axis + 1] - first[axis] : 4, index = _i ? k - first[axis] : k;
            const double angle = place[axis] * pow(10000, -(double)index / n);
            const double x = (double)raw[k], y = (double)raw[k + 4];
            position_near((double)row[k], x * cos(angle) - y * sin(angle), 1e-6, specs[_i], k);
            position_near((double)row[k + 4], x * sin(angle) + y * cos(angle), 1e-6, specs[_i], k);
        }
    locus_position_free(&position);
}
END_TEST

START_TEST(what_cannot_take_coordinates_is_refused)
{
    static const struct {
        const char *position, *attention, *says;
        int n_axes;
    } refused[] = {
        {"alibi", NULL, "position alibi can't take 1 coordinates", 1},
        {"xpos", NULL, "position xpos can't take 1 coordinates", 1},
        {"rope", NULL, "position rope can't take 2 coordinates", 2},
        {"rope:axis1=2", NULL, "position rope can't take 1 coordinates", 1},
        {"rope; layers 1 alibi", NULL, "position alibi can't take 1 coordinates", 1},
        {"rope", "sinks:keep=2,size=9", "attention sinks moves positions", 1},
        {"rope:axis1=4", NULL, "axis1 is 4; expected a pair", 2},
        {"rope:axis2=2", NULL, "axis2 is 2; expected a pair past the axis before it", 2},
        {"rope:axis1=2,axis2=2", NULL, "axis2 is 2", 3},
        {"yarn:factor=2,axis1=2,ladder=own", NULL, "ladder=own with this scaling", 2},
        {"rope", NULL, "n_axes is -1", -1},
    };
    locus_model *model = tiny_model(0, 0);
    locus_error error;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ck_assert_ptr_null(try_session(model, refused[i].position, refused[i].n_axes,
                                       refused[i].attention, 0, &error));
        ck_assert_msg(strstr(error.message, refused[i].says) != NULL, "%s", error.message);
    }
    locus_model_free(model);
}
END_TEST

START_TEST(wrong_coordinates_leave_the_session_as_it_was)
{
    locus_model *model = tiny_model(0, 0);
    locus_error error;
    const int32_t tokens[3] = {1, 2, 3};
    const int good[6] = {0, 0, 4, N - 1, 3, 3}, low[6] = {0, 0, 0, -1, 0, 0},
              high[6] = {0, 0, 0, 0, N, 0};
    locus_session *session = try_session(model, "rope:axis1=2", 2, NULL, 0, &error);
    ck_assert_int_eq(locus_session_eval_at(session, tokens, 3, low, NULL, 0, &error),
                     LOCUS_ERROR_POSITION);
    ck_assert_str_eq(error.message, "coordinate 1 of token 1 is -1, expected 0 to 89");
    ck_assert_int_eq(locus_session_eval_at(session, tokens, 3, high, NULL, 0, &error),
                     LOCUS_ERROR_POSITION);
    ck_assert_str_eq(error.message, "coordinate 0 of token 2 is 90, expected 0 to 89");
    ck_assert_int_eq(locus_session_length(session), 0);
    ck_assert_int_eq(locus_session_eval_at(session, tokens, 3, good, NULL, 0, &error), LOCUS_OK);
    ck_assert_int_eq(locus_session_eval(session, tokens, 1, NULL, 0, &error), LOCUS_ERROR_POSITION);
    ck_assert_str_eq(error.message,
                     "1 tokens go on at coordinate 90, expected an end of at most 90");
    ck_assert_int_eq(locus_session_length(session), 3);
    locus_session_free(session);
    session = try_session(model, "rope", 0, NULL, 0, &error);
    ck_assert_int_eq(locus_session_eval_at(session, tokens, 3, good, NULL, 0, &error),
                     LOCUS_ERROR_ARGUMENT);
    ck_assert_str_eq(error.message, "coordinates of 3 tokens, but the session's n_axes is 0");
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinates");
    TCase *tests = tcase_create("sessions");
    const int n_taking = sizeof taking / sizeof *taking;
    tcase_add_loop_test(tests, coordinates_that_are_the_position_change_no_bit, 0, n_taking);
    tcase_add_test(tests, text_on_all_axes_has_the_bits_of_plain_rope);
    tcase_add_loop_test(tests, coordinates_keep_their_bits_in_batches, 0, n_taking);
    tcase_add_test(tests, text_goes_on_past_the_largest_coordinate);
    tcase_add_loop_test(tests, pairs_turn_by_their_axis, 0, 2);
    tcase_add_test(tests, what_cannot_take_coordinates_is_refused);
    tcase_add_test(tests, wrong_coordinates_leave_the_session_as_it_was);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
