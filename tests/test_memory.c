/* What a session takes: refused before anything is made where it can't be had, and no more of it
 * than the positions of a text need, wherever they begin.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
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
    ck_assert_int_eq(n_inits, 2); /* for a few positions, then for all */
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

START_TEST(a_table_that_cannot_be_had_is_named)
{
    static const char *const specs[] = {"alibi", "xpos", "sandwich", "dynamic-ntk:factor=2"};
    locus_model *model = tiny_model(0, 0);
    locus_session_params params = {
        .n_context = HUGE_CONTEXT, .n_batch = 8, .n_threads = 1, .attention = "window:size=8"};
    hostile_limit_memory(memory);
    for (int i = 0; i < 4; i++) {
        params.position = specs[i];
        refuse(model, &params, "'s tables of 1000000000 positions could not be had");
    }
    locus_model_free(model);
}
END_TEST

/* ---- sessions that are only described ------------------------------------------------------- */

static void check_description(const locus_model *model, const locus_session_params *params,
                              int text_length)
{
    locus_error error = {0};
    struct locus_description described;
    ck_assert_msg(!locus_session_describe(&described, model, params, text_length, &error), "%s",
                  error.message);
    const struct locus_session_extras extras = {.text_length = text_length};
    locus_session *session = locus_session_create_with(model, params, &extras, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_str_eq(described.position, locus_session_position(session));
    ck_assert_str_eq(described.attention, locus_session_attention(session));
    ck_assert_str_eq(described.kernels.name, locus_session_kernels(session));
    ck_assert_int_eq(described.cache_type, locus_session_cache_type(session));
    ck_assert_int_eq(described.n_threads, locus_session_n_threads(session));
    ck_assert_int_eq(described.capacity, locus_session_capacity(session));
    locus_session_free(session);
    locus_description_free(&described);
}

START_TEST(a_description_is_what_the_session_becomes)
{
    static const char *const specs[] = {"rope:scaling=dynamic", "rope:factor=auto,scaling=linear",
                                        "alibi", "dynamic-ntk"};
    locus_model *model = tiny_model(0, 0);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int length = 0; length < 3 * N; length += N) {
            const locus_session_params params = {.position = specs[i],
                                                 .attention = i % 2 ? "window:size=9" : NULL,
                                                 .n_context = i < 2 ? N : 0,
                                                 .cache_type =
                                                     i ? LOCUS_CACHE_AUTO : LOCUS_CACHE_Q8_0,
                                                 .kernels = i == 2 ? "reference" : NULL,
                                                 .n_threads = (int)i};
            check_description(model, &params, length);
        }
    locus_model_free(model);
    model = locus_model_open(testing_golden("gpt2-learned.gguf"), NULL);
    check_description(model, &(locus_session_params){0}, 0);
    locus_model_free(model);
}
END_TEST

/* However long the session is, and though no machine has the memory for it. */
START_TEST(a_description_takes_no_memory_for_its_session)
{
    locus_model *model = tiny_model(0, 0);
    const locus_session_params params = {.scheme = &counting, .n_context = HUGE_CONTEXT};
    struct locus_description described;
    hostile_limit_memory(memory / 4);
    ck_assert_int_eq(locus_session_describe(&described, model, &params, HUGE_CONTEXT, NULL),
                     LOCUS_OK);
    ck_assert_int_eq(described.capacity, HUGE_CONTEXT);
    ck_assert_int_eq(n_inits, 1);
    ck_assert_int_lt(longest, N);
    locus_description_free(&described);
    refuse(model, &params, "out of memory");
    locus_model_free(model);
}
END_TEST

/* A session too long for its schemes is refused in the same words; one that nobody asked for is as
 * long as they are. */
START_TEST(a_description_is_refused_as_its_session_is)
{
    locus_model *model = locus_model_open(testing_golden("gpt2-learned.gguf"), NULL);
    static const locus_session_params refused[] = {
        {.n_context = 100000}, {.position = "t5"},    {.position = "learned:ofset=1"},
        {.attention = "near"}, {.n_axes = 2},         {.kernels = "abacus"},
        {.n_threads = -1},     {.first_position = -1}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct locus_description described;
        locus_error error = {0}, session_error = {0};
        const enum locus_status status =
            locus_session_describe(&described, model, &refused[i], 0, &error);
        ck_assert_ptr_null(locus_session_create(model, &refused[i], &session_error));
        ck_assert_int_eq(status, session_error.status);
        ck_assert_str_eq(error.message, session_error.message);
        ck_assert(error.message[0]);
        locus_description_free(&described);
    }
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
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_add_test(tests, what_cannot_be_had_is_refused_before_tables_are_made);
    tcase_add_test(tests, a_wrong_or_short_scheme_is_named_however_long_the_session);
    tcase_add_test(tests, a_table_that_cannot_be_had_is_named);
    tcase_add_test(tests, a_description_is_what_the_session_becomes);
    tcase_add_test(tests, a_description_takes_no_memory_for_its_session);
    tcase_add_test(tests, a_description_is_refused_as_its_session_is);
    tcase_add_test(tests, a_text_far_off_takes_no_more_than_one_at_0);
    tcase_add_test(tests, places_without_a_row_have_the_bits_of_those_with_one);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
