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

int main(void)
{
    Suite *suite = suite_create("room");
    TCase *tests = tcase_create("room");
    tcase_add_test(tests, what_cannot_be_had_is_refused_before_tables_are_made);
    tcase_add_test(tests, a_wrong_or_short_scheme_is_named_however_long_the_session);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
