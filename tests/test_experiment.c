/* Perplexity's protocols, and the losses that they share and sum up to. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/perplexity.h"
#include "testing.h"

/* ---- protocols ---------------------------------------------------------------------------- */

enum { LONGEST_TEXT = 50 };

/* How often each token of a text is predicted and counts. */
static void count_targets(const struct locus_plan *plan, int n_tokens, int counts[LONGEST_TEXT])
{
    memset(counts, 0, LONGEST_TEXT * sizeof *counts);
    const int n_windows = locus_plan_count(plan, n_tokens);
    for (int i = 0; i < n_windows; i++) {
        struct locus_window window = locus_plan_window(plan, n_tokens, i), found;
        ck_assert_int_ge(window.first, 0);
        ck_assert_int_le(window.n, plan->length);
        ck_assert_int_lt(window.from, window.n);
        ck_assert_int_lt(window.first + window.n, n_tokens);
        ck_assert(locus_plan_find(plan, n_tokens, window.first, &found));
        ck_assert_mem_eq(&found, &window, sizeof found);
        for (int row = window.from; row < window.n; row++)
            counts[window.first + row + 1]++;
    }
}

START_TEST(windows_score_every_token_but_the_first_once)
{
    int counts[LONGEST_TEXT];
    for (int n = 0; n < LONGEST_TEXT; n++)
        for (int length = 1; length <= 24; length++) {
            const struct locus_plan plan = {LOCUS_WINDOWS, length, 0, false};
            ck_assert_int_eq(locus_plan_check(&plan, NULL), LOCUS_OK);
            ck_assert_int_eq(locus_plan_tokens(&plan, n), n > 1 ? n - 1 : 0);
            count_targets(&plan, n, counts);
            for (int i = 0; i < n; i++)
                ck_assert_int_eq(counts[i], i > 0);
        }
}
END_TEST

/* What the loop of the recipe counts, written as it is published: labels[i] of a window [begin,
 * end) are its tokens from the last window's end on, and the first of a window has no logits. */
static int strided_counts(int n, int length, int stride, int counts[LONGEST_TEXT])
{
    int previous_end = 0, total = 0;
    memset(counts, 0, LONGEST_TEXT * sizeof *counts);
    for (int begin = 0; begin < n; begin += stride) {
        const int end = begin + length < n ? begin + length : n;
        for (int i = previous_end > begin + 1 ? previous_end : begin + 1; i < end; i++)
            counts[i]++, total++;
        previous_end = end;
        if (end == n) break;
    }
    return total;
}

START_TEST(sliding_scores_what_the_strided_recipe_does)
{
    int counts[LONGEST_TEXT], expected[LONGEST_TEXT];
    for (int n = 0; n < LONGEST_TEXT; n++)
        for (int length = 2; length <= 24; length++)
            for (int stride = 1; stride <= length; stride++) {
                const struct locus_plan plan = {LOCUS_SLIDING, length, stride, false};
                ck_assert_int_eq(locus_plan_check(&plan, NULL), LOCUS_OK);
                const int total = strided_counts(n, length, stride, expected);
                ck_assert_int_eq(locus_plan_tokens(&plan, n), total);
                if (stride < length) ck_assert_int_eq(total, n > 1 ? n - 1 : 0);
                count_targets(&plan, n, counts);
                for (int i = 0; i < n; i++)
                    ck_assert_msg(counts[i] == expected[i],
                                  "%d tokens, L %d, S %d: token %d %d times", n, length, stride, i,
                                  counts[i]);
            }
}
END_TEST

START_TEST(sliding_windows_hold_what_they_predict)
{
    const struct locus_plan plan = {LOCUS_SLIDING, 16, 4, false};
    const int n_windows = locus_plan_count(&plan, 62);
    for (int i = 0; i < n_windows; i++) {
        struct locus_window window = locus_plan_window(&plan, 62, i);
        ck_assert_int_eq(window.first, 4 * i);
        ck_assert_int_eq(window.n, i + 1 < n_windows ? 15 : 13); /* the last one holds 48 to 61 */
        ck_assert_int_eq(window.from, i > 0 ? 11 : 0);
    }
    ck_assert_int_eq(n_windows, 13);
}
END_TEST

START_TEST(a_length_is_a_windows_that_the_text_fills)
{
    static const struct {
        enum locus_protocol protocol;
        int n_tokens, longest;
    } cases[] = {
        {LOCUS_WINDOWS, 17, 16}, {LOCUS_WINDOWS, 16, 15}, {LOCUS_WINDOWS, 400, 16},
        {LOCUS_SLIDING, 16, 16}, {LOCUS_SLIDING, 15, 15}, {LOCUS_SLIDING, 400, 16},
        {LOCUS_HALF, 16, 16},    {LOCUS_HALF, 15, 15},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct locus_plan plan = {cases[i].protocol, 16, 4, false};
        ck_assert_int_eq(locus_plan_longest(&plan, cases[i].n_tokens), cases[i].longest);
    }
}
END_TEST

START_TEST(strides_that_are_not_given_leave_half_a_window)
{
    static const struct {
        int length, stride;
    } cases[] = {{2048, 256}, {512, 256}, {511, 255}, {256, 128}, {100, 50}, {3, 1}, {2, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct locus_plan asked = {LOCUS_SLIDING, 0, 0, false};
        struct locus_plan plan = locus_plan_at(asked, cases[i].length);
        ck_assert_int_eq(plan.length, cases[i].length);
        ck_assert_int_eq(plan.stride, cases[i].stride);
        plan = locus_plan_at((struct locus_plan){LOCUS_SLIDING, 9, 7, false}, cases[i].length);
        ck_assert_int_eq(plan.stride, 7);
    }
}
END_TEST

START_TEST(a_first_window_is_the_only_one)
{
    int counts[LONGEST_TEXT];
    for (int n = 0; n < LONGEST_TEXT; n++)
        for (int length = 3; length <= 24; length++) {
            struct locus_plan plan = {LOCUS_WINDOWS, length, 0, true};
            count_targets(&plan, n, counts);
            for (int i = 0; i < n; i++)
                ck_assert_int_eq(counts[i], i > 0 && i <= length);
            ck_assert_int_eq(locus_plan_tokens(&plan, n), n <= length ? n - (n > 0) : length);
            plan.protocol = LOCUS_HALF;
            count_targets(&plan, n, counts);
            for (int i = 0; i < n; i++)
                ck_assert_int_eq(counts[i], n >= length && i > length / 2 && i < length);
        }
    const struct locus_plan sliding = {LOCUS_SLIDING, 16, 4, true};
    ck_assert_int_eq(locus_plan_check(&sliding, NULL), LOCUS_ERROR_ARGUMENT);
}
END_TEST

START_TEST(half_scores_the_second_half_of_whole_windows)
{
    int counts[LONGEST_TEXT];
    for (int n = 0; n < LONGEST_TEXT; n++)
        for (int length = 3; length <= 40; length++) {
            const struct locus_plan plan = {LOCUS_HALF, length, 0, false};
            ck_assert_int_eq(locus_plan_tokens(&plan, n), n / length * (length - 1 - length / 2));
            count_targets(&plan, n, counts);
            for (int i = 0; i < n; i++)
                ck_assert_int_eq(counts[i], i / length < n / length && i % length > length / 2);
        }
}
END_TEST

START_TEST(lengths_and_strides_without_sense_are_refused)
{
    const struct locus_plan plans[] = {{LOCUS_WINDOWS, 0, 0, false}, {LOCUS_HALF, 2, 0, false},
                                       {LOCUS_SLIDING, 1, 1, false}, {LOCUS_SLIDING, 8, 0, false},
                                       {LOCUS_SLIDING, 8, 9, false}, {LOCUS_SLIDING, 8, -1, false},
                                       {LOCUS_WINDOWS, -4, 0, false}};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        ck_assert_int_eq(locus_plan_check(&plans[i], NULL), LOCUS_ERROR_ARGUMENT);
}
END_TEST

/* ---- losses ------------------------------------------------------------------------------- */

enum { N_TOKENS = 150, N_FIRST = 100 /* tokens of the first of two documents */ };

struct bench {
    locus_model *model;
    struct locus_corpus corpus;
};

static const struct locus_begin every = {LOCUS_BEGIN_EVERY, 3}, nowhere = {LOCUS_BEGIN_NONE, -1};

/* A golden model, and two documents of tokens drawn by a fixed rule. */
static struct bench bench_open(const char *name)
{
    struct bench bench = {0};
    locus_error error;
    bench.model = locus_model_open(testing_golden(name), &error);
    ck_assert_msg(bench.model != NULL, "%s: %s", name, error.message);
    bench.corpus = (struct locus_corpus){.n_tokens = N_TOKENS, .n_documents = 2, .begin = every};
    bench.corpus.tokens = calloc(N_TOKENS, sizeof *bench.corpus.tokens);
    bench.corpus.n_bytes = calloc(N_TOKENS, sizeof *bench.corpus.n_bytes);
    bench.corpus.documents = calloc(2, sizeof *bench.corpus.documents);
    const uint32_t n_vocab = (uint32_t)locus_model_info_get(bench.model).n_vocab;
    uint32_t state = 7;
    for (int i = 0; i < N_TOKENS; i++) {
        state = state * 1664525 + 1013904223;
        bench.corpus.tokens[i] = (int32_t)(state >> 8) % (int32_t)n_vocab;
        bench.corpus.n_bytes[i] = 1 + i % 3;
    }
    bench.corpus.documents[0] = (struct locus_document){0, N_FIRST};
    bench.corpus.documents[1] = (struct locus_document){N_FIRST, N_TOKENS - N_FIRST};
    return bench;
}

static void bench_close(struct bench *bench)
{
    locus_corpus_free(&bench->corpus);
    locus_model_free(bench->model);
}

static locus_session *open_session(const struct bench *bench, const char *position, int length,
                                   int n_batch)
{
    locus_error error;
    const locus_session_params params = {.position = position, .n_threads = 1, .n_batch = n_batch};
    locus_session *session = locus_session_for_text(bench->model, &params, length, length, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    return session;
}

/* Losses under a plan of its own, in a session of its own. */
static struct locus_losses measure(const struct bench *bench, struct locus_plan plan, int n_batch)
{
    struct locus_losses losses;
    locus_error error;
    bool whole;
    locus_session *session = open_session(bench, NULL, plan.length, n_batch);
    ck_assert_int_eq(locus_losses_init(&losses, &plan, &bench->corpus, &error), LOCUS_OK);
    ck_assert_msg(locus_measure(session, &bench->corpus, &losses, 1, NULL, &whole, &error) ==
                      LOCUS_OK,
                  "%s", error.message);
    ck_assert(whole);
    locus_session_free(session);
    return losses;
}

static bool same_losses(const struct locus_losses *a, const struct locus_losses *b)
{
    for (int i = 0; i < N_TOKENS; i++) {
        if (isnan(a->nll[i]) && isnan(b->nll[i])) continue;
        if (memcmp(&a->nll[i], &b->nll[i], sizeof a->nll[i]) != 0) return false;
    }
    return true;
}

/* Windows far longer than the text: the SPEC is theirs, the memory the text's. */
START_TEST(a_session_holds_no_more_than_the_text)
{
    static const char *const positions[] = {NULL, "alibi", "yarn:factor=auto", "dynamic-ntk",
                                            "rope:scaling=dynamic,length=row"};
    struct bench bench = bench_open("llama-half.gguf");
    const int longest = locus_corpora_longest(&bench.corpus, 1);
    int expected = 0;
    for (int i = 0; i < bench.corpus.n_documents; i++)
        if (bench.corpus.documents[i].n > expected) expected = bench.corpus.documents[i].n;
    ck_assert_int_eq(longest, expected);
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        locus_error error;
        const locus_session_params params = {.position = positions[i], .n_threads = 1};
        locus_session *whole = open_session(&bench, positions[i], 4096, 0);
        locus_session *fitted = locus_session_for_text(bench.model, &params, 4096, longest, &error);
        ck_assert_msg(fitted != NULL, "%s", error.message);
        ck_assert_str_eq(locus_session_position(fitted), locus_session_position(whole));
        ck_assert_int_eq(locus_session_capacity(whole), 4096);
        ck_assert_int_eq(locus_session_capacity(fitted), longest);
        locus_session_free(whole);
        locus_session_free(fitted);
        fitted = locus_session_for_text(bench.model, &params, 8, longest, &error);
        ck_assert_int_eq(locus_session_capacity(fitted), 8);
        locus_session_free(fitted);
        fitted = locus_session_for_text(bench.model, &params, 100000000, longest, &error);
        ck_assert_msg(fitted != NULL || strstr(error.message, "factor"), "%s", error.message);
        locus_session_free(fitted);
    }
    bench_close(&bench);
}
END_TEST

START_TEST(losses_are_those_of_the_logits)
{
    struct bench bench = bench_open("llama-half.gguf");
    const int n_vocab = locus_model_info_get(bench.model).n_vocab;
    const struct locus_plan plan = {LOCUS_SLIDING, 24, 7, false};
    bench.corpus.begin = nowhere;
    struct locus_losses losses = measure(&bench, plan, 5);
    float *logits = calloc(24 * (size_t)n_vocab, sizeof *logits);
    locus_session *session = open_session(&bench, NULL, 24, 0);
    for (int d = 0; d < 2; d++) {
        const struct locus_document document = bench.corpus.documents[d];
        for (int i = 0; i < locus_plan_count(&plan, document.n); i++) {
            struct locus_window window = locus_plan_window(&plan, document.n, i);
            const int first = document.first + window.first;
            ck_assert_int_eq(locus_session_rewind(session, 0, NULL), LOCUS_OK);
            ck_assert_int_eq(locus_session_eval(session, bench.corpus.tokens + first, window.n,
                                                logits, window.n, NULL),
                             LOCUS_OK);
            for (int row = window.from; row < window.n; row++) {
                const float *x = logits + (size_t)row * (size_t)n_vocab;
                const int target = first + row + 1;
                double sum = 0;
                for (int j = 0; j < n_vocab; j++)
                    sum += exp((double)x[j]);
                double expected = log(sum) - (double)x[bench.corpus.tokens[target]];
                ck_assert_double_eq_tol((double)losses.nll[target], expected, 2e-5);
            }
        }
    }
    locus_session_free(session);
    free(logits);
    locus_losses_free(&losses);
    bench_close(&bench);
}
END_TEST

START_TEST(sliding_by_its_length_is_windows_that_do_not_meet)
{
    struct bench bench = bench_open("bloom-alibi.gguf");
    bench.corpus.begin = nowhere;
    struct locus_losses windows =
        measure(&bench, (struct locus_plan){LOCUS_WINDOWS, 32, 0, false}, 0);
    struct locus_losses sliding =
        measure(&bench, (struct locus_plan){LOCUS_SLIDING, 32, 32, false}, 0);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < bench.corpus.documents[i].n; j++) {
            const int token = bench.corpus.documents[i].first + j;
            if (j % 32 == 0)
                ck_assert(isnan(sliding.nll[token]));
            else
                ck_assert_mem_eq(&sliding.nll[token], &windows.nll[token], sizeof(float));
        }
    locus_losses_free(&windows);
    locus_losses_free(&sliding);
    bench_close(&bench);
}
END_TEST

START_TEST(a_long_forward_serves_shorter_windows_bit_for_bit)
{
    enum { N = 3 };
    struct bench bench = bench_open("llama-half.gguf");
    for (int protocol = LOCUS_WINDOWS; protocol <= LOCUS_HALF; protocol++) {
        const int lengths[N] = {64, 32, 16};
        struct locus_losses shared[N];
        bool whole;
        for (int i = 0; i < N; i++) {
            const struct locus_plan plan = {(enum locus_protocol)protocol, lengths[i],
                                            protocol == LOCUS_SLIDING ? 16 : 0, false};
            ck_assert_int_eq(locus_losses_init(&shared[i], &plan, &bench.corpus, NULL), LOCUS_OK);
        }
        locus_session *session = open_session(&bench, NULL, 64, 0);
        for (int i = 0; i < N; i++)
            ck_assert_int_eq(
                locus_measure(session, &bench.corpus, shared + i, N - i, NULL, &whole, NULL),
                LOCUS_OK);
        locus_session_free(session);
        for (int i = 0; i < N; i++) {
            struct locus_losses alone = measure(&bench, shared[i].plan, 0);
            ck_assert_msg(same_losses(&alone, &shared[i]), "protocol %d, length %d", protocol,
                          lengths[i]);
            locus_losses_free(&alone);
            locus_losses_free(&shared[i]);
        }
    }
    bench_close(&bench);
}
END_TEST

static struct locus_summary add(struct locus_summary a, struct locus_summary b)
{
    return (struct locus_summary){a.tokens + b.tokens, a.bytes + b.bytes, a.sum + b.sum,
                                  a.squares + b.squares};
}

START_TEST(positions_together_are_the_windows)
{
    struct bench bench = bench_open("gpt2-learned.gguf");
    struct locus_losses losses =
        measure(&bench, (struct locus_plan){LOCUS_WINDOWS, 32, 0, false}, 0);
    struct locus_summary whole = locus_summary_of(&losses, &bench.corpus), sum = {0};
    ck_assert_int_eq(whole.tokens, N_TOKENS - 2);
    for (int end = 8, first = 0; end <= 32; first = end, end *= 2)
        sum = add(sum, locus_summary_of_rows(&losses, &bench.corpus, first, end));
    ck_assert_int_eq(sum.tokens, whole.tokens);
    ck_assert_int_eq(sum.bytes, whole.bytes);
    ck_assert_double_eq_tol(sum.sum, whole.sum, 1e-9 * whole.sum);

    /* The first bucket is what windows of its length have at the starts that both share. */
    struct locus_losses shorter =
        measure(&bench, (struct locus_plan){LOCUS_WINDOWS, 8, 0, false}, 0);
    for (int i = 0; i < 2; i++)
        for (int j = 1; j < bench.corpus.documents[i].n; j++)
            if ((j - 1) % 32 < 8) {
                const int token = bench.corpus.documents[i].first + j;
                ck_assert_mem_eq(&shorter.nll[token], &losses.nll[token], sizeof(float));
            }
    locus_losses_free(&shorter);
    locus_losses_free(&losses);
    bench_close(&bench);
}
END_TEST

START_TEST(begin_of_text_goes_over_the_first_token_of_every_window)
{
    for (int protocol = LOCUS_WINDOWS; protocol <= LOCUS_HALF; protocol++) {
        struct bench bench = bench_open("llama-none.gguf");
        const struct locus_plan plan = {(enum locus_protocol)protocol, 16,
                                        protocol == LOCUS_SLIDING ? 16 : 0, false};
        struct locus_losses over = measure(&bench, plan, 0);
        bench.corpus.begin = nowhere;
        struct locus_losses without = measure(&bench, plan, 0);
        ck_assert(!same_losses(&over, &without));
        /* What is fed there is not what is predicted there. */
        struct locus_losses written = {plan, NULL};
        if (protocol != LOCUS_WINDOWS) {
            for (int i = 0; i < N_FIRST; i += 16)
                bench.corpus.tokens[i] = every.token;
            for (int i = N_FIRST; i < N_TOKENS; i += 16)
                bench.corpus.tokens[i] = every.token;
            written = measure(&bench, plan, 0);
            ck_assert(same_losses(&over, &written));
        }
        locus_losses_free(&over);
        locus_losses_free(&without);
        locus_losses_free(&written);
        bench_close(&bench);
    }
}
END_TEST

START_TEST(averages_are_over_tokens)
{
    const double losses[] = {1, 2, 4, 0.5};
    struct locus_summary summary = {0};
    ck_assert(isnan(locus_summary_nll(&summary)));
    for (int i = 0; i < 4; i++)
        locus_summary_add(&summary, losses[i], 2);
    ck_assert_double_eq_tol(locus_summary_nll(&summary), 1.875, 1e-12);
    ck_assert_double_eq_tol(locus_summary_perplexity(&summary), exp(1.875), 1e-12);
    /* Variance 1.796875 about the mean, over 4 - 1. */
    ck_assert_double_eq_tol(locus_summary_error(&summary), exp(1.875) * sqrt(1.796875 / 3), 1e-12);
    ck_assert_double_eq_tol(locus_summary_bits_per_byte(&summary), 7.5 / log(2) / 8, 1e-12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("experiment");
    TCase *protocols = tcase_create("protocols"), *losses = tcase_create("losses");
    tcase_add_test(protocols, windows_score_every_token_but_the_first_once);
    tcase_add_test(protocols, sliding_scores_what_the_strided_recipe_does);
    tcase_add_test(protocols, sliding_windows_hold_what_they_predict);
    tcase_add_test(protocols, a_length_is_a_windows_that_the_text_fills);
    tcase_add_test(protocols, strides_that_are_not_given_leave_half_a_window);
    tcase_add_test(protocols, a_first_window_is_the_only_one);
    tcase_add_test(protocols, half_scores_the_second_half_of_whole_windows);
    tcase_add_test(protocols, lengths_and_strides_without_sense_are_refused);
    tcase_add_test(losses, a_session_holds_no_more_than_the_text);
    tcase_add_test(losses, losses_are_those_of_the_logits);
    tcase_add_test(losses, sliding_by_its_length_is_windows_that_do_not_meet);
    tcase_add_test(losses, a_long_forward_serves_shorter_windows_bit_for_bit);
    tcase_add_test(losses, positions_together_are_the_windows);
    tcase_add_test(losses, begin_of_text_goes_over_the_first_token_of_every_window);
    tcase_add_test(losses, averages_are_over_tokens);
    suite_add_tcase(suite, protocols);
    suite_add_tcase(suite, losses);
    return testing_run(suite);
}
