/* A scheme in a file of its own (own_scheme.c), passed in the session's parameters: it runs, and
 * obeys what the library's schemes obey.
 */
#include <stdlib.h>
#include <string.h>

#include "locus.h"
#include "own_scheme.h"
#include "testing.h"
#include "tiny.h"

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

int main(void)
{
    Suite *suite = suite_create("own scheme");
    TCase *tests = tcase_create("a scheme in the session's parameters");
    tcase_add_test(tests, own_scheme_runs_by_its_name_and_by_default);
    tcase_add_test(tests, own_scheme_keeps_its_bits_in_batches_and_policies);
    tcase_add_test(tests, own_parameters_are_checked_like_any_schemes);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
