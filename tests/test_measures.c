/* Experiments at their edges: what tells rows of results apart, equal numbers and equal models,
 * tasks of one letter and policies that forget, marks that are no marks.
 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "experiment/divergence.h"
#include "experiment/perplexity.h"
#include "experiment/report.h"
#include "experiment/tasks.h"
#include "testing.h"
#include "variant.h"

/* ---- rows --------------------------------------------------------------------------------- */

static bool is_result(int column)
{
    const enum locus_column results[] = {
        LOCUS_COLUMN_NLL,      LOCUS_COLUMN_PERPLEXITY, LOCUS_COLUMN_STANDARD_ERROR,
        LOCUS_COLUMN_ACCURACY, LOCUS_COLUMN_THREADS,    LOCUS_COLUMN_BITS_PER_BYTE,
        LOCUS_COLUMN_SECONDS,
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if ((int)results[i] == column) return true;
    return false;
}

START_TEST(rows_are_told_apart_by_all_but_their_results)
{
    struct locus_row row = {{0}};
    struct locus_csv csv = {.rows = &row, .n_rows = 1};
    for (int i = 0; i < LOCUS_N_COLUMNS; i++)
        ck_assert(locus_row_set_int(&row, (enum locus_column)i, i));
    for (int i = 0; i < LOCUS_N_COLUMNS; i++) {
        struct locus_row other;
        ck_assert(locus_row_copy(&other, &row));
        ck_assert_ptr_eq(locus_csv_find(&csv, &other), &row);
        ck_assert(locus_row_set_int(&other, (enum locus_column)i, 77));
        ck_assert_msg((locus_csv_find(&csv, &other) != NULL) == is_result(i), "%s",
                      locus_column_name((enum locus_column)i));
        locus_row_free(&other);
    }
    locus_row_free(&row);
}
END_TEST

START_TEST(cells_hold_no_control_characters)
{
    struct locus_row row = {{0}};
    ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TEXT, "a\nb\x7F\x1F c\xC3\xA9"));
    ck_assert_str_eq(row.cells[LOCUS_COLUMN_TEXT], "a?b?? c\xC3\xA9");
    locus_row_free(&row);
}
END_TEST

/* A file may not grow past the next row's first bytes. */
START_TEST(a_row_that_cannot_be_written_whole_leaves_none_of_it)
{
    const char *path = testing_temporary("rows.csv");
    struct locus_row row = {{0}};
    struct locus_csv csv;
    locus_error error;
    size_t before, after;
    struct rlimit limit;
    ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TASK, "perplexity"));
    ck_assert_int_eq(locus_csv_open(&csv, path, false, &error), LOCUS_OK);
    ck_assert_int_eq(locus_csv_add(&csv, &row, &error), LOCUS_OK);
    free(testing_read(path, &before));
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit low = {before + 8, limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &low), 0);
    const enum locus_status status = locus_csv_add(&csv, &row, &error);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(status, LOCUS_ERROR_IO);
    free(testing_read(path, &after));
    ck_assert_uint_eq(after, before);
    locus_csv_close(&csv);
    locus_row_free(&row);
}
END_TEST

/* ---- equal numbers ------------------------------------------------------------------------ */

/* Rounding would make some of these variances negative. */
START_TEST(equal_numbers_have_no_spread)
{
    for (int n = 2; n < 300; n++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < n; i++) {
            sum += 0.1 * n;
            squares += 0.1 * n * 0.1 * n;
        }
        const double error = locus_standard_error(sum, squares, n);
        ck_assert_msg(error >= 0 && error < 1e-6 * n, "%d: %g", n, error);
    }
}
END_TEST

/* Logits that a constant moves, by no rounding, give the same predictions. */
START_TEST(no_divergence_is_below_zero)
{
    enum { N_VOCAB = 17 };
    struct locus_rng rng;
    locus_rng_seed(&rng, 4);
    for (int trial = 0; trial < 200; trial++) {
        float here[N_VOCAB], there[N_VOCAB];
        for (int i = 0; i < N_VOCAB; i++) {
            here[i] = (float)(locus_rng_next(&rng) % 512) / 64;
            there[i] = here[i] + (float)trial;
        }
        const double kl = locus_kl_divergence(here, there, N_VOCAB);
        ck_assert_msg(kl >= 0 && kl < 1e-12, "%d: %g", trial, kl);
    }
}
END_TEST

/* ---- tasks -------------------------------------------------------------------------------- */

static void run_trials(const struct testing_model *opened, const struct locus_trials *trials,
                       const char *attention)
{
    const locus_session_params params = {.attention = attention, .n_threads = 1, .n_batch = 16};
    int n_tokens, n_right;
    bool whole;
    locus_error error;
    ck_assert_int_eq(locus_trials_tokens(trials, opened->tokenizer, &n_tokens, &error), LOCUS_OK);
    locus_session *session =
        locus_session_for_text(opened->model, &params, n_tokens, n_tokens, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_msg(locus_trials_run(trials, opened->model, opened->tokenizer, session, NULL,
                                   &n_right, &whole, &error) == LOCUS_OK,
                  "%s", error.message);
    ck_assert(whole);
    locus_session_free(session);
}

/* One trial's text may be the last one's, and a policy may have forgotten what they share. */
START_TEST(trials_may_repeat_a_text_or_lose_it)
{
    struct testing_model opened = testing_open(testing_golden("perplexity.gguf"));
    const struct locus_trials letters = {
        .task = LOCUS_TASK_COPY, .length = 1, .n_trials = 200, .begin = -1};
    const struct locus_trials keys = {
        .task = LOCUS_TASK_PASSKEY, .length = 700, .depth = 0.1, .n_trials = 3, .begin = -1};
    run_trials(&opened, &letters, "full");
    run_trials(&opened, &keys, "window:size=20");
    testing_close(&opened);
}
END_TEST

/* How many tokens 30 letters are in a cell's only trial, which tells one text from another. */
static int letters_of(const struct testing_model *opened, double depth, uint64_t seed)
{
    const struct locus_trials trials = {.task = LOCUS_TASK_COPY,
                                        .length = 30,
                                        .n_trials = 1,
                                        .depth = depth,
                                        .seed = seed,
                                        .begin = -1};
    int n_tokens;
    ck_assert_int_eq(locus_trials_tokens(&trials, opened->tokenizer, &n_tokens, NULL), LOCUS_OK);
    return n_tokens;
}

START_TEST(cells_draw_numbers_of_their_own)
{
    struct testing_model opened = testing_open(testing_golden("../../models/tales.gguf"));
    int by_depth = 0, by_seed = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const int n = letters_of(&opened, 0, seed);
        ck_assert_int_eq(letters_of(&opened, 0, seed), n);
        by_depth += letters_of(&opened, 0.5, seed) != n;
        by_seed += letters_of(&opened, 0, seed + 100) != n;
    }
    ck_assert_int_gt(by_depth, 5);
    ck_assert_int_gt(by_seed, 5);
    testing_close(&opened);
}
END_TEST

/* ---- texts -------------------------------------------------------------------------------- */

/* An end of text that is written like <this> cuts a text; a plain character does not. */
START_TEST(only_bracketed_ends_of_text_are_marks)
{
    static const char text[] = "one.three.<|endoftext|>four";
    struct variant *variant = variant_begin(testing_golden("perplexity.gguf"));
    variant_drop(variant, "tokenizer.ggml.eos_token_id");
    locus_writer_u32(variant_writer(variant), "tokenizer.ggml.eos_token_id", '.');
    struct testing_model opened = testing_open(variant_finish(variant));
    struct locus_corpus corpus = {0};
    const struct locus_corpus_options options = {.documents = true,
                                                 .begin = {LOCUS_BEGIN_NONE, .token = -1}};
    locus_error error;
    ck_assert_msg(locus_corpus_encode(&corpus, opened.model, opened.tokenizer, text, strlen(text),
                                      &options, &error) == LOCUS_OK,
                  "%s", error.message);
    ck_assert_int_eq(corpus.n_documents, 2);
    locus_corpus_free(&corpus);
    testing_close(&opened);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("measures");
    TCase *tests = tcase_create("edges");
    tcase_add_test(tests, rows_are_told_apart_by_all_but_their_results);
    tcase_add_test(tests, cells_hold_no_control_characters);
    tcase_add_test(tests, a_row_that_cannot_be_written_whole_leaves_none_of_it);
    tcase_add_test(tests, equal_numbers_have_no_spread);
    tcase_add_test(tests, no_divergence_is_below_zero);
    tcase_add_test(tests, trials_may_repeat_a_text_or_lose_it);
    tcase_add_test(tests, cells_draw_numbers_of_their_own);
    tcase_add_test(tests, only_bracketed_ends_of_text_are_marks);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
