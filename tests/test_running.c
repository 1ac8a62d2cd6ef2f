/* Mixers with states that run along with a text: the same bits however it is cut, at any number of
 * threads, in every kernel set and after every rewind; alone, and beside one another and attention.
 */
#include <stdlib.h>
#include <string.h>

#include "forward/running.h"
#include "mixed.h"
#include "testing.h"

static const struct mixed models[] = {{"mmmm", false}, {"mama", true},  {"rrrr", true},
                                      {"ramr", true},  {"2222", false}, {"2ar2", true},
                                      {"hhhh", true},  {"ahrm", true},  {"ammm", false},
                                      {"mmmm", true},  {"rrrr", false}};

enum { N_MODELS = sizeof models / sizeof *models, N_REWOUND = 8 };

/* ---- bits ----------------------------------------------------------------------------------- */

START_TEST(a_text_has_the_same_bits_however_it_is_cut)
{
    static const struct {
        int n_batch, step, n_threads;
    } ways[] = {{MIXED_TEXT, MIXED_TEXT, 3}, {1, MIXED_TEXT, 1},  {7, 5, 1}, {256, 300, 2},
                {MIXED_TEXT, 1, 1},          {100, MIXED_TEXT, 2}};
    static const enum locus_tensor_type types[] = {LOCUS_F32, LOCUS_F16};
    for (size_t t = 0; t < 2; t++) {
        locus_model *model = mixed_open_converted(&models[_i], types[t]);
        float *expected = mixed_logits(model, MIXED_TEXT, MIXED_TEXT, 1, NULL);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            float *logits =
                mixed_logits(model, ways[i].n_batch, ways[i].step, ways[i].n_threads, NULL);
            mixed_check_same(logits, expected, 0, MIXED_TEXT, "cut");
            free(logits);
        }
        free(expected);
        locus_model_free(model);
    }
}
END_TEST

START_TEST(every_kernel_set_gives_the_same_bits)
{
    locus_model *model = mixed_open(&models[_i]);
    float *expected = mixed_logits(model, 64, MIXED_TEXT, 1, "reference");
    const char *name;
    for (int i = 0; (name = locus_kernels_name(i)); i++) {
        float *logits = mixed_logits(model, 64, MIXED_TEXT, 2, name);
        mixed_check_same(logits, expected, 0, MIXED_TEXT, name);
        free(logits);
    }
    free(expected);
    locus_model_free(model);
}
END_TEST

/* To every length, from the end and from a text that went on otherwise. */
START_TEST(after_a_rewind_a_text_goes_on_with_the_same_bits)
{
    locus_model *model = mixed_open(&models[_i]);
    float *expected = mixed_logits(model, MIXED_TEXT, MIXED_TEXT, 1, NULL),
          *logits = calloc(MIXED_TEXT * MIXED_VOCAB, sizeof *logits);
    locus_session *session = mixed_session(model, 100, 1, NULL);
    mixed_eval(session, 0, MIXED_TEXT, MIXED_TEXT, logits);
    for (int n_keep = MIXED_TEXT; n_keep >= 0; n_keep--) {
        const int n = MIXED_TEXT - n_keep < 3 ? MIXED_TEXT - n_keep : 3;
        locus_error error = {0};
        ck_assert_msg(!locus_session_rewind(session, n_keep, &error), "%s", error.message);
        for (int i = 0; i < n; i++) {
            const int32_t other = (mixed_tokens[n_keep + i] + 1) % MIXED_VOCAB;
            ck_assert(!locus_session_eval(session, &other, 1, NULL, 0, NULL));
        }
        ck_assert(!locus_session_rewind(session, n_keep, NULL));
        ck_assert_int_eq(locus_session_length(session), n_keep);
        mixed_eval(session, n_keep, n_keep + n, MIXED_TEXT, logits);
        mixed_check_same(logits, expected, n_keep, n_keep + n, "rewound");
    }
    locus_session_free(session);
    free(expected);
    free(logits);
    locus_model_free(model);
}
END_TEST

/* Guards the tests above: what is far back still counts. */
START_TEST(the_first_token_is_felt_at_the_last)
{
    locus_model *model = mixed_open(&models[_i]);
    float *expected = mixed_logits(model, MIXED_TEXT, MIXED_TEXT, 1, NULL),
          *logits = calloc(MIXED_TEXT * MIXED_VOCAB, sizeof *logits);
    locus_session *session = mixed_session(model, MIXED_TEXT, 1, NULL);
    mixed_tokens[0] = (mixed_tokens[0] + 1) % MIXED_VOCAB;
    mixed_eval(session, 0, MIXED_TEXT, MIXED_TEXT, logits);
    for (int i = 0; i < MIXED_TEXT; i++)
        ck_assert_msg(memcmp(logits + (size_t)i * MIXED_VOCAB, expected + (size_t)i * MIXED_VOCAB,
                             MIXED_VOCAB * sizeof *logits) != 0,
                      "token %d", i);
    locus_session_free(session);
    free(expected);
    free(logits);
    locus_model_free(model);
}
END_TEST

START_TEST(logits_are_those_of_the_plain_pass)
{
    locus_model *model = mixed_open(&models[_i]);
    ck_assert_double_le(mixed_off_plain(model), 5e-5);
    locus_model_free(model);
}
END_TEST

/* ---- what a session keeps ------------------------------------------------------------------- */

START_TEST(copies_are_no_more_however_long_a_session_is)
{
    ck_assert_int_eq(locus_running_interval(1), 256);
    ck_assert_int_eq(locus_running_interval(16639), 256);
    for (int capacity = 1; capacity < 1 << 30; capacity = capacity * 3 + 1) {
        const int interval = locus_running_interval(capacity);
        ck_assert_int_le(capacity / interval, LOCUS_RUNNING_COPIES);
        ck_assert(interval == 256 || capacity / (interval / 2) > LOCUS_RUNNING_COPIES);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("running");
    TCase *tests = tcase_create("running");
    tcase_add_loop_test(tests, a_text_has_the_same_bits_however_it_is_cut, 0, N_MODELS);
    tcase_add_loop_test(tests, every_kernel_set_gives_the_same_bits, 0, N_MODELS);
    tcase_add_loop_test(tests, after_a_rewind_a_text_goes_on_with_the_same_bits, 0, N_REWOUND);
    tcase_add_loop_test(tests, the_first_token_is_felt_at_the_last, 0, N_MODELS);
    tcase_add_loop_test(tests, logits_are_those_of_the_plain_pass, 0, N_MODELS);
    tcase_add_test(tests, copies_are_no_more_however_long_a_session_is);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
