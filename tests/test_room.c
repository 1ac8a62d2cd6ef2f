/* What a session takes: refused before anything is made where it can't be had, and no more of it
 * than the positions of a text need, wherever they begin.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "locus_position.h"
#include "testing.h"
#include "tiny.h"

enum { N = 40, HUGE_CONTEXT = 1000000000 };

static const size_t memory = (size_t)4 << 30; /* what tests may have */

static void refuse(const locus_model *model, const locus_session_params *params, const char *says)
{
    locus_error error = {0};
    ck_assert_ptr_null(locus_session_create(model, params, NULL));
    ck_assert_ptr_null(locus_session_create(model, params, &error));
    ck_assert_msg(strstr(error.message, says) != NULL, "no \"%s\": %s", says, error.message);
}

/* A scheme that counts its inits, and knows the longest session it was to make tables for. */
static int n_inits, longest;

static enum locus_status count_init(void **state, const struct locus_position_env *env,
                                    const struct locus_position_spec *spec, locus_error *error)
{
    (void)state, (void)spec, (void)error;
    n_inits++;
    longest = env->session_length > longest ? env->session_length : longest;
    return LOCUS_OK;
}

static const struct locus_position_scheme counting = {
    .abi = LOCUS_POSITION_ABI, .name = "counting", .summary = "", .init = count_init};

START_TEST(what_cannot_be_had_is_refused_before_tables_are_made)
{
    locus_model *model = tiny_model(0, 0);
    locus_session_params params = {.scheme = &counting, .n_context = N, .n_threads = 1};
    locus_session_free(locus_session_create(model, &params, NULL));
    ck_assert_int_eq(n_inits, 1);
    ck_assert_int_eq(longest, N);
    hostile_limit_memory(memory);
    params.n_context = HUGE_CONTEXT;
    refuse(model, &params, "out of memory: a cache of 1000000000 positions in 2 layers");
    ck_assert_int_le(longest, N);
    params.attention = "window:size=8"; /* the cache is small, a chunk's scratch is not */
    params.n_batch = HUGE_CONTEXT;
    refuse(model, &params, "out of memory");
    ck_assert_int_le(longest, N);
    locus_model_free(model);
}
END_TEST

/* What is wrong with the scheme is said before what can't be had. */
START_TEST(a_wrong_or_short_scheme_is_named_however_long_the_session)
{
    locus_model *model = locus_model_open(testing_golden("gpt2-learned.gguf"), NULL);
    locus_session_params params = {.n_context = HUGE_CONTEXT, .n_threads = 1};
    hostile_limit_memory(memory);
    refuse(model, &params, "positions, the session needs 1000000000");
    params.position = "rope:bsae=1";
    refuse(model, &params, "the nearest is 'base'");
    params.position = "t5";
    refuse(model, &params, "position t5: the checkpoint has no tensor");
    locus_model_free(model);
}
END_TEST

/* ---- positions far off --------------------------------------------------------------------- */

/* Logits [N, TINY_VOCAB] of the text; coordinates [N] or NULL. */
static float *run(const locus_model *model, const locus_session_params *params,
                  const int *coordinates)
{
    locus_error error = {0};
    int32_t tokens[N];
    float *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    locus_session *session = locus_session_create(model, params, &error);
    ck_assert_msg(session != NULL, "%s: %s", params->position, error.message);
    ck_assert_msg(!locus_session_eval_at(session, tokens, N, coordinates, logits, N, &error), "%s",
                  error.message);
    locus_session_free(session);
    return logits;
}

static bool same(const float *a, const float *b)
{
    return memcmp(a, b, N * TINY_VOCAB * sizeof *a) == 0;
}

/* The last positions that there are; a table from 0 to them would be of many gigabytes. */
START_TEST(a_text_far_off_takes_no_more_than_one_at_0)
{
    static const char *const specs[] = {"rope",
                                        "dynamic-ntk:length=row",
                                        "longrope:length=row",
                                        "sinusoidal",
                                        "alibi",
                                        "kerple",
                                        "relative",
                                        "sandwich",
                                        "t5",
                                        "transformer-xl",
                                        "xpos"};
    static const char *const policies[] = {"full", "self-extend:group=4,window=8"};
    locus_model *model = tiny_model(0, 0);
    hostile_limit_memory(memory / 4);
    for (size_t i = 0; i < 2 * sizeof specs / sizeof *specs; i++) {
        const char *spec = specs[i / 2], *policy = policies[i % 2];
        const bool moves = strcmp(policy, "full") != 0;
        if (moves && (strchr(spec, ':') || !strcmp(spec, "sinusoidal"))) continue;
        locus_session_params params = {
            .position = spec, .attention = policy, .n_context = N, .n_threads = 1};
        float *near = run(model, &params, NULL);
        params.first_position = (INT_MAX - 64 - N) / 4 * 4;
        float *far = run(model, &params, NULL);
        const bool relative = i / 2 >= 4 && i / 2 < 9; /* by distance, and by nothing else */
        ck_assert_msg(!relative || same(near, far), "%s %s", spec, policy);
        params.first_position += 3; /* positions are rounded otherwise */
        free(run(model, &params, NULL));
        free(near);
        free(far);
    }
    locus_model_free(model);
}
END_TEST

/* Places before the session's first position have no row in its tables. */
START_TEST(places_without_a_row_have_the_bits_of_those_with_one)
{
    static const char *const specs[] = {
        "rope",          "rope:pairs=adjacent,scaling=linear,factor=3",
        "yarn:factor=4", "longrope:length=100",
        "sinusoidal",    "sinusoidal:width=5,layout=concat"};
    locus_model *model = tiny_model(0, 0);
    int coordinates[N];
    for (int i = 0; i < N; i++)
        coordinates[i] = (7 * i) % N;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        locus_session_params params = {
            .position = specs[i], .n_context = N, .n_axes = 1, .n_threads = 1};
        float *rows = run(model, &params, coordinates);
        params.first_position = 1000;
        float *none = run(model, &params, coordinates);
        params.n_axes = 0;
        float *straight = run(model, &params, NULL);
        ck_assert_msg(same(rows, none), "%s", specs[i]);
        ck_assert_msg(!same(rows, straight), "%s", specs[i]);
        free(rows);
        free(none);
        free(straight);
    }
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("room");
    TCase *tests = tcase_create("room");
    tcase_add_test(tests, what_cannot_be_had_is_refused_before_tables_are_made);
    tcase_add_test(tests, a_wrong_or_short_scheme_is_named_however_long_the_session);
    tcase_add_test(tests, a_text_far_off_takes_no_more_than_one_at_0);
    tcase_add_test(tests, places_without_a_row_have_the_bits_of_those_with_one);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
