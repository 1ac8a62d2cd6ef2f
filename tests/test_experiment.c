/* Perplexity's protocols, what they share and sum up to, and the rows they are kept as. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "experiment/perplexity.h"
#include "experiment/report.h"
#include "experiment/setting.h"
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

START_TEST(windows_and_sliding_score_every_token_but_the_first_once)
{
    int counts[LONGEST_TEXT];
    for (int n = 0; n < LONGEST_TEXT; n++)
        for (int length = 1; length <= 24; length++)
            for (int stride = 0; stride <= length; stride++) {
                struct locus_plan plan = {stride ? LOCUS_SLIDING : LOCUS_WINDOWS, length, stride};
                ck_assert_int_eq(locus_plan_check(&plan, NULL), LOCUS_OK);
                ck_assert_int_eq(locus_plan_tokens(&plan, n), n > 1 ? n - 1 : 0);
                count_targets(&plan, n, counts);
                for (int i = 0; i < n; i++)
                    ck_assert_msg(counts[i] == (i > 0), "%d tokens, L %d, S %d: token %d %d times",
                                  n, length, stride, i, counts[i]);
            }
}
END_TEST

START_TEST(sliding_windows_are_full_and_see_length_less_stride_before_what_counts)
{
    const struct locus_plan plan = {LOCUS_SLIDING, 16, 4};
    for (int i = 1; i + 1 < locus_plan_count(&plan, 64); i++) {
        struct locus_window window = locus_plan_window(&plan, 64, i);
        ck_assert_int_eq(window.n, 16);
        ck_assert_int_eq(window.from, 12);
        ck_assert_int_eq(window.first, 4 * i);
    }
}
END_TEST

START_TEST(half_scores_the_second_half_of_whole_windows)
{
    int counts[LONGEST_TEXT];
    for (int n = 0; n < LONGEST_TEXT; n++)
        for (int length = 3; length <= 40; length++) {
            const struct locus_plan plan = {LOCUS_HALF, length, 0};
            ck_assert_int_eq(locus_plan_tokens(&plan, n), n / length * (length - 1 - length / 2));
            count_targets(&plan, n, counts);
            for (int i = 0; i < n; i++)
                ck_assert_int_eq(counts[i], i / length < n / length && i % length > length / 2);
        }
}
END_TEST

START_TEST(lengths_and_strides_without_sense_are_refused)
{
    const struct locus_plan plans[] = {{LOCUS_WINDOWS, 0, 0},  {LOCUS_HALF, 2, 0},
                                       {LOCUS_SLIDING, 8, 0},  {LOCUS_SLIDING, 8, 9},
                                       {LOCUS_SLIDING, 8, -1}, {LOCUS_WINDOWS, -4, 0}};
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

/* A golden model, and two documents of tokens drawn by a fixed rule. */
static struct bench bench_open(const char *name)
{
    struct bench bench = {0};
    locus_error error;
    bench.model = locus_model_open(testing_golden(name), &error);
    ck_assert_msg(bench.model != NULL, "%s: %s", name, error.message);
    bench.corpus = (struct locus_corpus){.n_tokens = N_TOKENS, .n_documents = 2, .begin = 3};
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
    locus_session *session = locus_session_for_length(bench->model, &params, length, &error);
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
    const struct locus_plan plan = {LOCUS_SLIDING, 24, 7};
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

START_TEST(sliding_by_its_length_is_windows)
{
    struct bench bench = bench_open("bloom-alibi.gguf");
    struct locus_losses windows = measure(&bench, (struct locus_plan){LOCUS_WINDOWS, 32, 0}, 0);
    struct locus_losses sliding = measure(&bench, (struct locus_plan){LOCUS_SLIDING, 32, 32}, 0);
    ck_assert(same_losses(&windows, &sliding));
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
                                            protocol == LOCUS_SLIDING ? 16 : 0};
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
    struct locus_losses losses = measure(&bench, (struct locus_plan){LOCUS_WINDOWS, 32, 0}, 0);
    struct locus_summary whole = locus_summary_of(&losses, &bench.corpus), sum = {0};
    ck_assert_int_eq(whole.tokens, N_TOKENS - 2);
    for (int end = 8, first = 0; end <= 32; first = end, end *= 2)
        sum = add(sum, locus_summary_of_rows(&losses, &bench.corpus, first, end));
    ck_assert_int_eq(sum.tokens, whole.tokens);
    ck_assert_int_eq(sum.bytes, whole.bytes);
    ck_assert_double_eq_tol(sum.sum, whole.sum, 1e-9 * whole.sum);

    /* The first bucket is what windows of its length have at the starts that both share. */
    struct locus_losses shorter = measure(&bench, (struct locus_plan){LOCUS_WINDOWS, 8, 0}, 0);
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

START_TEST(half_puts_begin_of_text_over_the_first_token_of_a_window)
{
    struct bench bench = bench_open("llama-none.gguf");
    const struct locus_plan plan = {LOCUS_HALF, 16, 0};
    struct locus_losses over = measure(&bench, plan, 0);
    bench.corpus.begin = -1;
    struct locus_losses without = measure(&bench, plan, 0);
    ck_assert(!same_losses(&over, &without));
    for (int i = 0; i < N_FIRST; i += 16)
        bench.corpus.tokens[i] = 3;
    for (int i = N_FIRST; i < N_TOKENS; i += 16)
        bench.corpus.tokens[i] = 3;
    struct locus_losses written = measure(&bench, plan, 0);
    ck_assert(same_losses(&over, &written));
    locus_losses_free(&over);
    locus_losses_free(&without);
    locus_losses_free(&written);
    bench_close(&bench);
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

/* ---- rows --------------------------------------------------------------------------------- */

static struct locus_row make_row(const char *position, int length, double nll)
{
    struct locus_row row = {{0}};
    struct locus_summary summary = {
        .tokens = 10, .bytes = 30, .sum = nll * 10, .squares = nll * nll * 11};
    ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TASK, "perplexity"));
    ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_POSITION, position));
    ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TEXT, "a \"quoted\", text"));
    ck_assert(locus_row_set_int(&row, LOCUS_COLUMN_LENGTH, length));
    ck_assert(locus_row_set_summary(&row, &summary));
    ck_assert(locus_row_set_real(&row, LOCUS_COLUMN_SECONDS, 0.25 * length));
    return row;
}

static void write_rows(const char *path, bool resume, const struct locus_row *rows, int n)
{
    struct locus_csv csv;
    locus_error error;
    ck_assert_msg(locus_csv_open(&csv, path, resume, &error) == LOCUS_OK, "%s", error.message);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(locus_csv_add(&csv, &rows[i], &error), LOCUS_OK);
    locus_csv_close(&csv);
}

START_TEST(rows_come_back_from_their_file)
{
    const char *path = testing_temporary("rows.csv");
    struct locus_row rows[] = {make_row("rope:dim=8,base=10000", 16, 1.25),
                               make_row("alibi", 32, 2.5)};
    write_rows(path, false, rows, 2);
    struct locus_csv csv;
    ck_assert_int_eq(locus_csv_open(&csv, path, true, NULL), LOCUS_OK);
    ck_assert_int_eq(csv.n_rows, 2);
    for (int i = 0; i < 2; i++) {
        const struct locus_row *found = locus_csv_find(&csv, &rows[i]);
        ck_assert_ptr_eq(found, &csv.rows[i]);
        for (int j = 0; j < LOCUS_N_COLUMNS; j++)
            ck_assert_pstr_eq(found->cells[j], rows[i].cells[j]);
    }
    struct locus_row other = make_row("alibi", 16, 2.5);
    ck_assert_ptr_null(locus_csv_find(&csv, &other));
    /* Results, threads and seconds may differ. */
    ck_assert(locus_row_set_int(&rows[1], LOCUS_COLUMN_THREADS, 7));
    ck_assert(locus_row_set_real(&rows[1], LOCUS_COLUMN_NLL, 9));
    ck_assert_ptr_nonnull(locus_csv_find(&csv, &rows[1]));
    locus_csv_close(&csv);
    locus_row_free(&other);
    locus_row_free(&rows[0]);
    locus_row_free(&rows[1]);
}
END_TEST

START_TEST(a_file_cut_anywhere_is_taken_up_again)
{
    const char *path = testing_temporary("whole.csv"), *cut = testing_temporary("cut.csv");
    struct locus_row rows[] = {make_row("rope:dim=8", 16, 1), make_row("none", 32, 2)};
    size_t n_bytes, n_again;
    write_rows(path, false, rows, 2);
    char *bytes = testing_read(path, &n_bytes);
    for (size_t n = 0; n <= n_bytes; n++) {
        testing_write(cut, bytes, n);
        struct locus_csv csv;
        locus_error error;
        ck_assert_msg(locus_csv_open(&csv, cut, true, &error) == LOCUS_OK, "cut at %zu: %s", n,
                      error.message);
        for (int i = 0; i < 2; i++)
            if (!locus_csv_find(&csv, &rows[i]))
                ck_assert_int_eq(locus_csv_add(&csv, &rows[i], NULL), LOCUS_OK);
        locus_csv_close(&csv);
        char *again = testing_read(cut, &n_again);
        ck_assert_uint_eq(n_again, n_bytes);
        ck_assert_mem_eq(again, bytes, n_bytes);
        free(again);
    }
    free(bytes);
    locus_row_free(&rows[0]);
    locus_row_free(&rows[1]);
}
END_TEST

START_TEST(a_file_that_another_run_writes_is_left_alone)
{
    const char *path = testing_temporary("shared.csv");
    struct locus_csv first, second;
    locus_error error;
    ck_assert_int_eq(locus_csv_open(&first, path, false, &error), LOCUS_OK);
    size_t n_before, n_after;
    free(testing_read(path, &n_before));
    for (int resume = 0; resume < 2; resume++) {
        ck_assert_int_eq(locus_csv_open(&second, path, resume, &error), LOCUS_ERROR_IO);
        ck_assert_ptr_nonnull(strstr(error.message, "shared.csv: another run is writing to it"));
        locus_csv_close(&second);
    }
    free(testing_read(path, &n_after));
    ck_assert_uint_eq(n_before, n_after);
    locus_csv_close(&first);
    ck_assert_int_eq(locus_csv_open(&second, path, true, &error), LOCUS_OK);
    locus_csv_close(&second);
}
END_TEST

START_TEST(a_file_of_something_else_is_not_resumed_and_stays)
{
    static const char *const contents[] = {"precious notes\n", "task,model\n1,2\n", "x"};
    const char *path = testing_temporary("other.csv");
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        struct locus_csv csv;
        locus_error error;
        size_t n_bytes;
        testing_write(path, contents[i], strlen(contents[i]));
        ck_assert_int_eq(locus_csv_open(&csv, path, true, &error), LOCUS_ERROR_FORMAT);
        ck_assert_ptr_nonnull(strstr(error.message, "header"));
        locus_csv_close(&csv);
        char *bytes = testing_read(path, &n_bytes);
        ck_assert_str_eq(bytes, contents[i]);
        free(bytes);
    }
}
END_TEST

START_TEST(a_row_whose_result_is_no_number_is_not_resumed)
{
    static const char *const results[] = {"abc", "2.5x", "nan"};
    const char *path = testing_temporary("odd.csv");
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        struct locus_row row = make_row("none", 16, 2.5);
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_NLL, results[i]));
        write_rows(path, false, &row, 1);
        struct locus_csv csv;
        locus_error error;
        char expected[64];
        ck_assert_int_eq(locus_csv_open(&csv, path, true, &error), LOCUS_ERROR_FORMAT);
        snprintf(expected, sizeof expected, "odd.csv: line 2: nll is '%s', no number", results[i]);
        ck_assert_msg(strstr(error.message, expected) != NULL, "%s", error.message);
        locus_csv_close(&csv);
        locus_row_free(&row);
    }
}
END_TEST

START_TEST(pooled_rows_average_over_all_tokens)
{
    struct locus_row a = make_row("none", 16, 1), b = make_row("none", 16, 2), pooled;
    struct locus_summary more = {.tokens = 30, .bytes = 60, .sum = 60, .squares = 150};
    ck_assert(locus_row_set_summary(&b, &more));
    const struct locus_row *rows[] = {&a, &b};
    ck_assert(locus_row_pool(&pooled, rows, 2));
    ck_assert_str_eq(pooled.cells[LOCUS_COLUMN_TEXT], "pooled");
    ck_assert_str_eq(pooled.cells[LOCUS_COLUMN_TOKENS], "40");
    ck_assert_double_eq_tol(locus_row_number(&pooled, LOCUS_COLUMN_NLL), 70.0 / 40, 1e-8);
    ck_assert_double_eq_tol(locus_row_number(&pooled, LOCUS_COLUMN_BITS_PER_BYTE), 70 / log(2) / 90,
                            1e-8);
    double variance = (11.0 + 150.0) / 40 - 1.75 * 1.75;
    ck_assert_double_eq_tol(locus_row_number(&pooled, LOCUS_COLUMN_STANDARD_ERROR),
                            exp(1.75) * sqrt(variance / 39), 1e-6);
    locus_row_free(&a);
    locus_row_free(&b);
    locus_row_free(&pooled);
}
END_TEST

/* ---- SHA-256 ------------------------------------------------------------------------------ */

START_TEST(sha256_gives_the_standards_digests)
{
    static const struct {
        const char *text, *start; /* FIPS 180-4's examples, and lengths about a chunk's end */
    } cases[] = {
        {"", "e3b0c442"},
        {"abc", "ba7816bf"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
         "lmnopqrsmnopqrstnopqrstu",
         "cf5b16a7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t digest[32];
        char start[9];
        locus_sha256(cases[i].text, strlen(cases[i].text), digest);
        snprintf(start, sizeof start, "%02x%02x%02x%02x", digest[0], digest[1], digest[2],
                 digest[3]);
        ck_assert_str_eq(start, cases[i].start);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("experiment");
    TCase *protocols = tcase_create("protocols"), *losses = tcase_create("losses"),
          *rows = tcase_create("rows");
    tcase_add_test(protocols, windows_and_sliding_score_every_token_but_the_first_once);
    tcase_add_test(protocols,
                   sliding_windows_are_full_and_see_length_less_stride_before_what_counts);
    tcase_add_test(protocols, half_scores_the_second_half_of_whole_windows);
    tcase_add_test(protocols, lengths_and_strides_without_sense_are_refused);
    tcase_add_test(losses, a_session_holds_no_more_than_the_text);
    tcase_add_test(losses, losses_are_those_of_the_logits);
    tcase_add_test(losses, sliding_by_its_length_is_windows);
    tcase_add_test(losses, a_long_forward_serves_shorter_windows_bit_for_bit);
    tcase_add_test(losses, positions_together_are_the_windows);
    tcase_add_test(losses, half_puts_begin_of_text_over_the_first_token_of_a_window);
    tcase_add_test(losses, averages_are_over_tokens);
    tcase_add_test(rows, rows_come_back_from_their_file);
    tcase_add_test(rows, a_file_cut_anywhere_is_taken_up_again);
    tcase_add_test(rows, a_file_that_another_run_writes_is_left_alone);
    tcase_add_test(rows, a_file_of_something_else_is_not_resumed_and_stays);
    tcase_add_test(rows, a_row_whose_result_is_no_number_is_not_resumed);
    tcase_add_test(rows, pooled_rows_average_over_all_tokens);
    tcase_add_test(rows, sha256_gives_the_standards_digests);
    suite_add_tcase(suite, protocols);
    suite_add_tcase(suite, losses);
    suite_add_tcase(suite, rows);
    return testing_run(suite);
}
