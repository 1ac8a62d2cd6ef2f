/* Tasks: their texts are what scripts/tasks.py describes, and sessions hold them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/tasks.h"
#include "testing.h"
#include "variant.h"

enum { N_EXAMPLES = 200 };

struct example {
    struct locus_buffer prompt, answer;
};

static struct example make(enum locus_task task, int length, double depth, struct locus_rng *rng)
{
    struct example example = {0};
    locus_task_example(task, length, depth, rng, &example.prompt, &example.answer);
    ck_assert(!example.prompt.failed && !example.answer.failed);
    return example;
}

static void free_example(struct example *example)
{
    locus_buffer_free(&example->prompt);
    locus_buffer_free(&example->answer);
}

START_TEST(letters_are_given_back_forwards_and_backwards)
{
    struct locus_rng rng;
    locus_rng_seed(&rng, 1);
    for (int i = 0; i < N_EXAMPLES; i++) {
        const bool reversed = i % 2;
        const int length = 1 + i % 60;
        struct example example =
            make(reversed ? LOCUS_TASK_REVERSE : LOCUS_TASK_COPY, length, -1, &rng);
        char expected[160], letters[64] = "", answer[64] = "";
        int n = 0;
        const char *format = reversed ? "reverse:%60[a-z]=%n" : "copy:%60[a-z]=%n";
        ck_assert_int_eq(sscanf(example.prompt.bytes, format, letters, &n), 1);
        ck_assert_uint_eq((size_t)n, example.prompt.length);
        ck_assert_int_eq((int)strlen(letters), length);
        for (int j = 0; j < length; j++)
            answer[j] = letters[reversed ? length - 1 - j : j];
        snprintf(expected, sizeof expected, "%s\n", answer);
        ck_assert_str_eq(example.answer.bytes, expected);
        free_example(&example);
    }
}
END_TEST

START_TEST(sums_are_written_from_their_last_digit)
{
    struct locus_rng rng;
    bool zero_seen = false;
    locus_rng_seed(&rng, 2);
    for (int i = 0; i < N_EXAMPLES; i++) {
        const int length = 1 + i % 15;
        struct example example = make(LOCUS_TASK_ADDITION, length, -1, &rng);
        unsigned long long a, b;
        char first[32] = "", second[32] = "", sum[32], expected[32] = "";
        int n = 0;
        ck_assert_int_eq(
            sscanf(example.prompt.bytes, "add:%20[0-9]+%20[0-9]=%n", first, second, &n), 2);
        ck_assert_uint_eq((size_t)n, example.prompt.length);
        ck_assert_int_eq((int)strlen(first), length);
        ck_assert_int_eq((int)strlen(second), length);
        ck_assert(length == 1 || (first[0] != '0' && second[0] != '0'));
        zero_seen |= first[0] == '0';
        a = strtoull(first, NULL, 10), b = strtoull(second, NULL, 10);
        int digits = snprintf(sum, sizeof sum, "%llu", a + b);
        for (int j = 0; j < digits; j++)
            expected[j] = sum[digits - 1 - j];
        expected[digits] = '\n';
        ck_assert_str_eq(example.answer.bytes, expected);
        free_example(&example);
    }
    ck_assert(zero_seen);
}
END_TEST

START_TEST(a_passkey_text_has_its_length_and_the_key_at_its_depth)
{
    static const char bare[] = "There is an important info hidden inside a lot of irrelevant text. "
                               "The pass key is 00000. Remember it. What is the pass key? The pass "
                               "key is ";
    static const char filler[] = "The grass is green. The sky is blue. The sun is yellow. Here we "
                                 "go. There and back again. ";
    const int shortest = 1 + (int)strlen(bare) + 5 + 1;
    ck_assert_int_eq(locus_task_shortest(LOCUS_TASK_PASSKEY), shortest);
    struct locus_rng rng;
    locus_rng_seed(&rng, 3);
    for (int length = shortest; length < 700; length += 37)
        for (int d = 0; d <= 4; d++) {
            struct example example = make(LOCUS_TASK_PASSKEY, length, d / 4.0, &rng);
            const char *text = example.prompt.bytes, *key = strstr(text, "The pass key is ");
            ck_assert_int_eq(1 + (int)example.prompt.length + (int)example.answer.length, length);
            ck_assert_uint_eq(example.answer.length, 6);
            ck_assert_mem_eq(key + 16, example.answer.bytes, 5);
            ck_assert_int_eq(strncmp(key + 21, ". Remember it. ", 15), 0);
            /* Filler goes on after the key where it stopped before it. */
            const size_t start = 67, before = (size_t)(key - text) - start;
            const size_t after = example.prompt.length - start - before - 36 - 38;
            ck_assert_uint_eq(before, (size_t)floor(d / 4.0 * (length - shortest) + 0.5));
            for (size_t i = 0; i < before + after; i++)
                ck_assert_int_eq(text[start + i + (i < before ? 0 : 36)],
                                 filler[i % (sizeof filler - 1)]);
            ck_assert_str_eq(text + example.prompt.length - 38,
                             "What is the pass key? The pass key is ");
            free_example(&example);
        }
}
END_TEST

/* ---- trials ------------------------------------------------------------------------------- */

static int count_right(const struct testing_model *fixture, const struct locus_trials *trials,
                       int n_threads, int *n_tokens)
{
    locus_error error;
    int n_right;
    bool whole;
    ck_assert_int_eq(locus_trials_tokens(trials, fixture->tokenizer, n_tokens, &error), LOCUS_OK);
    const locus_session_params params = {.position = "none", .n_threads = n_threads};
    locus_session *session =
        locus_session_for_text(fixture->model, &params, *n_tokens, *n_tokens, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_msg(locus_trials_run(trials, fixture->model, fixture->tokenizer, session, NULL,
                                   &n_right, &whole, &error) == LOCUS_OK,
                  "%s", error.message);
    ck_assert(whole);
    locus_session_free(session);
    return n_right;
}

START_TEST(sessions_are_as_long_as_the_longest_text)
{
    static const int expected[LOCUS_N_TASKS] = {
        [LOCUS_TASK_COPY] = 1 + 5 + 12 + 1 + 12 + 1,
        [LOCUS_TASK_REVERSE] = 1 + 8 + 12 + 1 + 12 + 1,
        [LOCUS_TASK_ADDITION] = 1 + 4 + 12 + 1 + 12 + 1 + 13 + 1,
        [LOCUS_TASK_PASSKEY] = 200,
    };
    struct testing_model fixture = testing_open(testing_golden("perplexity.gguf"));
    for (int task = 0; task < LOCUS_N_TASKS; task++) {
        const struct locus_trials trials = {.task = (enum locus_task)task,
                                            .length = task == LOCUS_TASK_PASSKEY ? 200 : 12,
                                            .n_trials = 20,
                                            .depth = 0.3,
                                            .seed = 9,
                                            .begin = locus_model_info_get(fixture.model).bos_token};
        struct locus_trials bare = trials;
        int n_tokens;
        int right = count_right(&fixture, &trials, 1, &n_tokens);
        ck_assert_int_eq(n_tokens, expected[task]);
        bare.begin = -1;
        (void)count_right(&fixture, &bare, 1, &n_tokens);
        ck_assert_int_eq(n_tokens, expected[task] - (task != LOCUS_TASK_PASSKEY));
        ck_assert_int_ge(right, 0);
        ck_assert_int_le(right, 20);
    }
    testing_close(&fixture);
}
END_TEST

START_TEST(odd_logits_answer_nothing)
{
    const float odd[] = {INFINITY, NAN};
    const char *const says[] = {"is infinite: output_norm.weight holds inf",
                                "is not a number: output_norm.weight holds nan"};
    for (int i = 0; i < 2; i++) {
        int rows, cols, n_tokens, n_right;
        bool whole;
        struct variant *variant = variant_begin(testing_golden("perplexity.gguf"));
        float *values = variant_floats(variant, "output_norm.weight", &rows, &cols);
        values[0] = odd[i];
        variant_drop(variant, "output_norm.weight");
        variant_add(variant, "output_norm.weight", LOCUS_F32, 0, cols, values);
        free(values);
        struct testing_model fixture = testing_open(variant_finish(variant));
        const struct locus_trials trials = {
            .task = LOCUS_TASK_COPY, .length = 12, .n_trials = 1, .begin = -1};
        locus_error error = {0};
        ck_assert_int_eq(locus_trials_tokens(&trials, fixture.tokenizer, &n_tokens, NULL), 0);
        locus_session *session = locus_session_for_text(fixture.model, &(locus_session_params){0},
                                                        n_tokens, n_tokens, &error);
        ck_assert_msg(session != NULL, "%s", error.message);
        ck_assert_int_eq(locus_trials_run(&trials, fixture.model, fixture.tokenizer, session, NULL,
                                          &n_right, &whole, &error),
                         LOCUS_ERROR_NUMERIC);
        ck_assert_msg(strstr(error.message, says[i]) != NULL, "%s", error.message);
        locus_session_free(session);
        testing_close(&fixture);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tasks");
    TCase *texts = tcase_create("texts"), *trials = tcase_create("trials");
    tcase_add_test(texts, letters_are_given_back_forwards_and_backwards);
    tcase_add_test(texts, sums_are_written_from_their_last_digit);
    tcase_add_test(texts, a_passkey_text_has_its_length_and_the_key_at_its_depth);
    tcase_add_test(trials, sessions_are_as_long_as_the_longest_text);
    tcase_add_test(trials, odd_logits_answer_nothing);
    suite_add_tcase(suite, texts);
    suite_add_tcase(suite, trials);
    return testing_run(suite);
}
