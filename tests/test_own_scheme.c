/* A scheme in a file of its own (own_scheme.c), passed in the session's parameters: it runs, and
 * obeys what the library's schemes obey.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "locus.h"
#include "own_scheme.h"
#include "testing.h"
#include "tiny.h"
#include "variant.h"

enum { N = 80 };

static locus_session *try_session(const locus_model *model, const char *position,
                                  const char *attention, int n_batch, locus_error *error)
{
    locus_session_params params = {.position = position,
                                   .scheme = &own_scheme,
                                   .attention = attention,
                                   .n_context = N,
                                   .n_batch = n_batch,
                                   .n_threads = 1};
    return locus_session_create(model, &params, error);
}

/* Logits of the whole text [N, TINY_VOCAB]; the resolved SPEC is as given. */
static float *logits_of(const locus_model *model, const char *position, const char *attention,
                        int n_batch, const char *resolved)
{
    locus_error error;
    int32_t tokens[N];
    float *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    locus_session *session = try_session(model, position, attention, n_batch, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_str_eq(locus_session_position(session), resolved);
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    ck_assert_int_eq(locus_session_eval(session, tokens, N, logits, N, &error), LOCUS_OK);
    locus_session_free(session);
    return logits;
}

static bool same(const float *a, const float *b)
{
    return memcmp(a, b, N * TINY_VOCAB * sizeof *a) == 0;
}

START_TEST(own_scheme_runs_by_its_name_and_by_default)
{
    locus_model *model = tiny_model(0, 0);
    float *plain = logits_of(model, NULL, NULL, 0, "own:slope=1");
    float *named = logits_of(model, "own", NULL, 0, "own:slope=1");
    float *steep = logits_of(model, "own:slope=2.5", NULL, 0, "own:slope=2.5");
    float *flat = logits_of(model, "own:slope=0", NULL, 0, "own:slope=0");
    float *none = logits_of(model, "none", NULL, 0, "none");
    ck_assert(same(plain, named));
    ck_assert(!same(plain, steep));
    ck_assert(!same(plain, none));
    ck_assert(same(flat, none));
    float *all[] = {plain, named, steep, flat, none};
    for (int i = 0; i < 5; i++)
        free(all[i]);
    locus_model_free(model);
}
END_TEST

START_TEST(own_scheme_keeps_its_bits_in_batches_and_policies)
{
    const char *const policies[] = {"full", "window:size=9", "sinks:keep=2,size=9",
                                    "self-extend:group=3,window=8"};
    locus_model *model = tiny_model(0, 0);
    for (int i = 0; i < 4; i++) {
        float *whole = logits_of(model, NULL, policies[i], 0, "own:slope=1");
        float *cut = logits_of(model, NULL, policies[i], 1, "own:slope=1");
        ck_assert_msg(same(whole, cut), "%s", policies[i]);
        free(whole);
        free(cut);
    }
    locus_model_free(model);
}
END_TEST

START_TEST(own_parameters_are_checked_like_any_schemes)
{
    const char *const refused[][2] = {{"own:slop=1", "the nearest is 'slope'"},
                                      {"own:slope=101", "expected a number from 0 to 100"},
                                      {"own:slope=x", "expected a number from 0 to 100"},
                                      {"owns", "the nearest is 'own'"}};
    locus_model *model = tiny_model(0, 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        locus_error error;
        ck_assert_ptr_null(try_session(model, refused[i][0], NULL, 0, &error));
        ck_assert_msg(strstr(error.message, refused[i][1]) != NULL, "%s", error.message);
    }
    locus_model_free(model);
}
END_TEST

/* ---- schemes that are not as they should be ------------------------------------------------ */

/* own_scheme with one thing wrong is refused so. */
static void refuse_scheme(const struct locus_position_scheme *scheme, const char *says)
{
    locus_model *model = tiny_model(0, 0);
    locus_error error = {0};
    const locus_session_params params = {.scheme = scheme, .n_context = N, .n_threads = 1};
    ck_assert_ptr_null(locus_session_create(model, &params, NULL));
    ck_assert_ptr_null(locus_session_create(model, &params, &error));
    ck_assert_int_eq(error.status, LOCUS_ERROR_ARGUMENT);
    ck_assert_msg(strstr(error.message, says) != NULL, "no \"%s\": %s", says, error.message);
    locus_model_free(model);
}

START_TEST(schemes_need_a_name_that_a_spec_can_say)
{
    const struct {
        const char *name, *says;
    } cases[] = {{NULL, "the scheme given has no name"},
                 {"", "the scheme given has no name"},
                 {"my own", "position 'my own': expected a name without"},
                 {"own:x", "position 'own:x'"},
                 {"own;", "position 'own;'"},
                 {"a,b", "position 'a,b'"},
                 {"a=b", "position 'a=b'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_position_scheme scheme = own_scheme;
        scheme.name = cases[i].name;
        refuse_scheme(&scheme, cases[i].says);
    }
}
END_TEST

START_TEST(wrong_tables_are_refused_by_name)
{
    const struct {
        struct locus_param param;
        const char *says;
    } cases[] = {
        {{"slope", LOCUS_PARAM_FLOAT, "1", 100, 0, NULL, true, ""}, "a min that is not at most"},
        {{"slope", LOCUS_PARAM_INT, "1", NAN, 1, NULL, true, ""}, "a min that is not at most"},
        {{"slope", (enum locus_param_type)9, "1", 0, 1, NULL, true, ""}, "has a type"},
        {{"slope", LOCUS_PARAM_FLOAT, "2", 0, 1, NULL, true, ""}, "a default out of its range"},
        {{"slope", LOCUS_PARAM_FLOAT, "x", 0, 1, NULL, true, ""}, "no valid default"},
        {{"slope", LOCUS_PARAM_INT, "0.5", 0, 1, NULL, true, ""}, "no valid default"},
        {{"slope", LOCUS_PARAM_FLOAT, NULL, 0, 1, NULL, true, ""}, "no valid default"},
        {{"slope", LOCUS_PARAM_CHOICE, "x", 0, 0, "a|b", true, ""}, "no valid default"},
        {{"slope", LOCUS_PARAM_CHOICE, "x", 0, 0, NULL, true, ""}, "no valid choices"},
        {{"slope", LOCUS_PARAM_FLOAT, "1", -1, 1, "auto", true, ""}, "no valid choices"},
        {{"", LOCUS_PARAM_FLOAT, "1", 0, 1, NULL, true, ""}, "a key that no SPEC can give"},
        {{"a=b", LOCUS_PARAM_FLOAT, "1", 0, 1, NULL, true, ""}, "a key that no SPEC can give"},
        {{"inherit", LOCUS_PARAM_FLOAT, "1", 0, 1, NULL, true, ""}, "a key that no SPEC can give"},
        {{"first", LOCUS_PARAM_FLOAT, "1", 0, 1, NULL, true, ""}, "'first' of its table is there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct locus_param table[] = {
            {"first", LOCUS_PARAM_INT, "0", 0, 0, NULL, false, ""}, cases[i].param, {0}};
        struct locus_position_scheme scheme = own_scheme;
        scheme.params = table;
        refuse_scheme(&scheme, cases[i].says);
        refuse_scheme(&scheme, "position own: parameter '");
    }
}
END_TEST

static const char *reason; /* NULL: none */

static enum locus_status fail_so(void **state, const struct locus_position_env *env,
                                 const struct locus_position_spec *spec, locus_error *error)
{
    (void)state, (void)env, (void)spec;
    if (reason) *error = (locus_error){.status = LOCUS_ERROR_MEMORY};
    if (reason) memcpy(error->message, reason, strlen(reason));
    return LOCUS_ERROR_IO;
}

START_TEST(failed_inits_say_why_or_that_they_do_not)
{
    struct locus_position_scheme scheme = own_scheme;
    scheme.init = fail_so;
    reason = NULL;
    refuse_scheme(&scheme, "position own: init failed without saying why");
    reason = "";
    refuse_scheme(&scheme, "position own: init failed without saying why");
    char endless[sizeof((locus_error *)0)->message + 1];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    reason = endless; /* fills the message, and leaves no room for its end */
    locus_model *model = tiny_model(0, 0);
    locus_error error = {0};
    ck_assert_ptr_null(locus_session_create(
        model, &(locus_session_params){.scheme = &scheme, .n_context = N}, &error));
    ck_assert_int_eq(error.status, LOCUS_ERROR_MEMORY);
    ck_assert_uint_eq(strlen(error.message), sizeof error.message - 1);
    locus_model_free(model);
}
END_TEST

/* The checkpoint's own SPEC, rope with values of its own, is the library's rope. */
START_TEST(a_name_of_the_librarys_is_the_callers_in_the_callers_spec)
{
    struct locus_position_scheme scheme = own_scheme;
    scheme.name = "rope";
    locus_model *model = locus_model_open(variant_finish(variant_begin(NULL)), NULL);
    const char *const specs[][2] = {{NULL, "rope:slope=1"},
                                    {"rope", "rope:slope=1"},
                                    {"rope:slope=2", "rope:slope=2"},
                                    {"none; layers 0 rope", "none; layers 0 rope:slope=1"}};
    for (int i = 0; i < 4; i++) {
        locus_error error = {0};
        const locus_session_params params = {
            .position = specs[i][0], .scheme = &scheme, .n_context = N, .n_threads = 1};
        locus_session *session = locus_session_create(model, &params, &error);
        ck_assert_msg(session != NULL, "%s", error.message);
        ck_assert_str_eq(locus_session_position(session), specs[i][1]);
        locus_session_free(session);
    }
    const locus_session_params params = {.position = "rope:base=5", .scheme = &scheme};
    locus_error error = {0};
    ck_assert_ptr_null(locus_session_create(model, &params, &error));
    ck_assert_int_eq(error.status, LOCUS_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "rope has no parameter 'base'"));
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("own scheme");
    TCase *tests = tcase_create("a scheme in the session's parameters");
    tcase_add_test(tests, own_scheme_runs_by_its_name_and_by_default);
    tcase_add_test(tests, own_scheme_keeps_its_bits_in_batches_and_policies);
    tcase_add_test(tests, own_parameters_are_checked_like_any_schemes);
    suite_add_tcase(suite, tests);
    tests = tcase_create("schemes that are not as they should be");
    tcase_add_test(tests, schemes_need_a_name_that_a_spec_can_say);
    tcase_add_test(tests, wrong_tables_are_refused_by_name);
    tcase_add_test(tests, failed_inits_say_why_or_that_they_do_not);
    tcase_add_test(tests, a_name_of_the_librarys_is_the_callers_in_the_callers_spec);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
