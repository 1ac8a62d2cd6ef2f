/* How far two models' predictions are apart: against what PyTorch computes from the same checkpoint
 * under two position schemes (scripts/golden_perplexity.py), and what must be exact. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/perplexity.h"
#include "testing.h"

/* Relative. */
#define TOLERANCE 1e-4

struct fixture {
    struct testing_model opened;
    struct locus_corpus corpus;
};

static struct fixture fixture_open(void)
{
    const struct locus_corpus_options options = {false, {LOCUS_BEGIN_NONE, -1}};
    locus_error error;
    struct fixture fixture = {.opened = testing_open(testing_golden("perplexity.gguf"))};
    char *text = testing_read(testing_golden("perplexity.txt"), NULL);
    ck_assert_int_eq(locus_corpus_encode(&fixture.corpus, fixture.opened.model,
                                         fixture.opened.tokenizer, text, strlen(text), &options,
                                         &error),
                     LOCUS_OK);
    free(text);
    return fixture;
}

static void fixture_close(struct fixture *fixture)
{
    locus_corpus_free(&fixture->corpus);
    testing_close(&fixture->opened);
}

static locus_session *session_under(const struct fixture *fixture, const char *position, int length,
                                    int n_batch, int n_threads)
{
    const locus_session_params params = {
        .position = *position ? position : NULL, .n_batch = n_batch, .n_threads = n_threads};
    locus_error error;
    locus_session *session =
        locus_session_for_text(fixture->opened.model, &params, length, length, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    return session;
}

/* A run of the text under one SPEC against another. */
struct comparison {
    struct locus_losses losses;
    struct locus_divergence divergence;
    bool whole;
};

static struct comparison compare(const struct fixture *fixture, const struct locus_plan *plan,
                                 const char *position, const char *reference, int n_batch,
                                 int n_threads, const struct locus_watch *watch)
{
    struct comparison run;
    locus_error error;
    locus_session *session = session_under(fixture, position, plan->length, n_batch, n_threads);
    locus_session *other = session_under(fixture, reference, plan->length, n_batch, n_threads);
    ck_assert_int_eq(locus_losses_init(&run.losses, plan, &fixture->corpus, &error), LOCUS_OK);
    ck_assert_int_eq(locus_divergence_init(&run.divergence, fixture->corpus.n_tokens, &error),
                     LOCUS_OK);
    enum locus_status status = locus_measure_against(session, other, &fixture->corpus, &run.losses,
                                                     &run.divergence, watch, &run.whole, &error);
    ck_assert_msg(status == LOCUS_OK, "%s", error.message);
    locus_session_free(session);
    locus_session_free(other);
    return run;
}

static void comparison_free(struct comparison *run)
{
    locus_losses_free(&run->losses);
    locus_divergence_free(&run->divergence);
}

static struct locus_divergence_summary sum(const struct locus_divergence *divergences, int n)
{
    struct locus_divergence_summary summary;
    ck_assert_int_eq(locus_divergence_sum(divergences, n, &summary, NULL), LOCUS_OK);
    return summary;
}

/* ---- PyTorch ------------------------------------------------------------------------------ */

static void check_near(double found, double expected, const char *what, const char *line)
{
    ck_assert_msg(fabs(found - expected) <= TOLERANCE * fabs(expected),
                  "%s of %s: found %.9g, expected %.9g", what, line, found, expected);
}

/* protocol,length,stride,"position","reference",tokens,nll,mean,median,99,max,same_top */
static void check_line(const struct fixture *fixture, const char *line)
{
    char protocol[16], specs[2][64] = {"", ""};
    struct locus_plan plan = {.protocol = LOCUS_WINDOWS};
    double nll, mean, median, quantile_99, max, same_top;
    int used = 0, n_tokens;
    ck_assert_int_eq(sscanf(line, "%15[a-z],%d,%d,%n", protocol, &plan.length, &plan.stride, &used),
                     3);
    const char *rest = line + used;
    for (int i = 0; i < 2; i++) {
        const char *end = strchr(rest + 1, '"');
        ck_assert(*rest == '"' && end && end - rest < 64);
        memcpy(specs[i], rest + 1, (size_t)(end - rest - 1));
        rest = end + 2;
    }
    ck_assert_int_eq(sscanf(rest, "%d,%lf,%lf,%lf,%lf,%lf,%lf", &n_tokens, &nll, &mean, &median,
                            &quantile_99, &max, &same_top),
                     7);
    while (strcmp(protocol, locus_protocol_name(plan.protocol)) != 0)
        plan.protocol++;
    struct comparison run = compare(fixture, &plan, specs[0], specs[1], 24, 1, NULL);
    const struct locus_divergence_summary summary = sum(&run.divergence, 1);
    ck_assert_int_eq(summary.tokens, n_tokens);
    check_near(summary.reference_nll, nll, "reference's loss", line);
    check_near(summary.mean, mean, "mean", line);
    check_near(summary.median, median, "median", line);
    check_near(summary.quantile_99, quantile_99, "99 %", line);
    check_near(summary.max, max, "maximum", line);
    check_near(summary.same_top, same_top, "same top", line);
    comparison_free(&run);
}

START_TEST(divergence_is_that_of_pytorch)
{
    struct fixture fixture = fixture_open();
    char *lines = testing_read(testing_golden("divergence.csv"), NULL), *rest = lines;
    int n = 0;
    (void)strtok_r(lines, "\n", &rest); /* the header */
    for (char *line; (line = strtok_r(NULL, "\n", &rest)); n++)
        check_line(&fixture, line);
    ck_assert_int_ge(n, 4);
    free(lines);
    fixture_close(&fixture);
}
END_TEST

/* ---- what is exact ------------------------------------------------------------------------ */

START_TEST(a_model_is_not_apart_from_itself)
{
    const struct locus_plan plan = {.protocol = LOCUS_WINDOWS, .length = 100};
    struct fixture fixture = fixture_open();
    struct comparison run = compare(&fixture, &plan, "", "", 0, 1, NULL);
    const struct locus_divergence_summary summary = sum(&run.divergence, 1);
    ck_assert_int_eq(summary.tokens, fixture.corpus.n_tokens - 1);
    ck_assert(summary.mean == 0 && summary.max == 0 && summary.error == 0);
    ck_assert(summary.same_top == 1 && summary.same_top_error == 0);
    ck_assert(summary.difference == 0 && summary.difference_error == 0);
    comparison_free(&run);
    fixture_close(&fixture);
}
END_TEST

START_TEST(losses_are_those_without_a_reference)
{
    const struct locus_plan plan = {LOCUS_SLIDING, 90, 70, false};
    struct fixture fixture = fixture_open();
    struct comparison run = compare(&fixture, &plan, "alibi", "", 0, 1, NULL);
    struct locus_losses alone;
    bool whole;
    locus_session *session = session_under(&fixture, "alibi", plan.length, 0, 1);
    ck_assert_int_eq(locus_losses_init(&alone, &plan, &fixture.corpus, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_measure(session, &fixture.corpus, &alone, 1, NULL, &whole, NULL),
                     LOCUS_OK);
    for (int i = 1; i < fixture.corpus.n_tokens; i++)
        ck_assert_mem_eq(&run.losses.nll[i], &alone.nll[i], sizeof *alone.nll);
    locus_losses_free(&alone);
    locus_session_free(session);
    comparison_free(&run);
    fixture_close(&fixture);
}
END_TEST

START_TEST(neither_threads_nor_batch_change_a_bit)
{
    static const struct {
        int n_batch, n_threads;
    } cases[] = {{7, 1}, {64, 2}, {65, 3}, {100, 1}};
    const struct locus_plan plan = {.protocol = LOCUS_WINDOWS, .length = 100};
    struct fixture fixture = fixture_open();
    struct comparison first = compare(&fixture, &plan, "alibi", "", 0, 1, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comparison run =
            compare(&fixture, &plan, "alibi", "", cases[i].n_batch, cases[i].n_threads, NULL);
        for (int j = 1; j < fixture.corpus.n_tokens; j++) {
            const struct locus_prediction *a = &first.divergence.predictions[j],
                                          *b = &run.divergence.predictions[j];
            ck_assert_mem_eq(&a->kl, &b->kl, sizeof a->kl);
            ck_assert_mem_eq(&a->nll, &b->nll, sizeof a->nll);
            ck_assert_mem_eq(&a->reference_nll, &b->reference_nll, sizeof a->nll);
            ck_assert_int_eq(a->same_top, b->same_top);
        }
        comparison_free(&run);
    }
    comparison_free(&first);
    fixture_close(&fixture);
}
END_TEST

static bool after_three(void *context)
{
    int *calls = context;
    return ++*calls > 3;
}

START_TEST(a_window_cut_short_leaves_nothing)
{
    const struct locus_plan plan = {.protocol = LOCUS_WINDOWS, .length = 100};
    struct fixture fixture = fixture_open();
    int calls = 0;
    const struct locus_watch watch = {.context = &calls, .stopped = after_three};
    struct comparison run = compare(&fixture, &plan, "alibi", "", 64, 1, &watch);
    ck_assert(!run.whole);
    for (int i = 0; i < fixture.corpus.n_tokens; i++)
        ck_assert_msg(isnan(run.divergence.predictions[i].kl) == (i == 0 || i > 100), "token %d",
                      i);
    ck_assert_int_eq(sum(&run.divergence, 1).tokens, 100);
    comparison_free(&run);
    fixture_close(&fixture);
}
END_TEST

/* ---- formulas ----------------------------------------------------------------------------- */

START_TEST(two_tokens_by_hand)
{
    const float even[] = {3, 3}, three_to_one[] = {logf(3), 0};
    const float certain[] = {0, -INFINITY}, large[] = {5003, 5003};
    const double ln2 = log(2), ln3 = log(3);
    ck_assert_double_eq_tol(locus_kl_divergence(three_to_one, even, 2), 0.75 * ln3 - ln2, 1e-7);
    ck_assert_double_eq_tol(locus_kl_divergence(even, three_to_one, 2), ln2 - 0.5 * ln3, 1e-7);
    ck_assert_double_eq_tol(locus_kl_divergence(certain, even, 2), ln2, 1e-12);
    ck_assert(isinf(locus_kl_divergence(even, certain, 2)));
    ck_assert_double_eq_tol(locus_kl_divergence(even, large, 2), 0, 1e-12);
    const float none[] = {NAN, 0};
    ck_assert(isnan(locus_kl_divergence(even, none, 2)));
}
END_TEST

static struct locus_divergence divergence_of(const double *kl, int n)
{
    struct locus_divergence divergence;
    ck_assert_int_eq(locus_divergence_init(&divergence, n, NULL), LOCUS_OK);
    for (int i = 0; i < n; i++)
        divergence.predictions[i] = (struct locus_prediction){
            .kl = kl[i], .nll = 2 + (float)i, .reference_nll = 1, .same_top = i % 4 == 0};
    return divergence;
}

START_TEST(summaries_are_over_all_tokens)
{
    const double first[] = {5, NAN, 1, 3}, second[] = {NAN, 2, 4};
    struct locus_divergence both[] = {divergence_of(first, 4), divergence_of(second, 3)};
    const struct locus_divergence_summary one = sum(&both[1], 1), all = sum(both, 2);
    ck_assert_int_eq(one.tokens, 2);
    ck_assert_double_eq(one.mean, 3);
    ck_assert_double_eq(one.error, 1); /* sqrt(variance 1 / (2 - 1)) */
    ck_assert_double_eq(one.median, 3);
    ck_assert_int_eq(all.tokens, 5);
    ck_assert_double_eq(all.mean, 3);
    ck_assert_double_eq_tol(all.error, sqrt(2.0 / 4), 1e-15);
    ck_assert_double_eq(all.median, 3);
    ck_assert_double_eq_tol(all.quantile_99, 4.96, 1e-12);
    ck_assert_double_eq(all.max, 5);
    ck_assert_double_eq_tol(all.same_top, 0.2, 1e-15);
    ck_assert_double_eq_tol(all.same_top_error, sqrt(0.2 * 0.8 / 4), 1e-15);
    ck_assert_double_eq(all.reference_nll, 1);
    ck_assert_double_eq_tol(all.difference, (1 + 3 + 4 + 2 + 3) / 5.0, 1e-15);
    locus_divergence_free(&both[0]);
    locus_divergence_free(&both[1]);
}
END_TEST

START_TEST(one_token_has_no_error)
{
    const double kl[] = {NAN, 2};
    struct locus_divergence divergence = divergence_of(kl, 2);
    const struct locus_divergence_summary summary = sum(&divergence, 1);
    ck_assert_int_eq(summary.tokens, 1);
    ck_assert(summary.mean == 2 && summary.median == 2 && summary.max == 2);
    ck_assert(isnan(summary.error) && isnan(summary.same_top_error));
    locus_divergence_free(&divergence);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("divergence");
    TCase *golden = tcase_create("PyTorch"), *exact = tcase_create("exact");
    TCase *formulas = tcase_create("formulas");
    tcase_add_test(golden, divergence_is_that_of_pytorch);
    tcase_add_test(exact, a_model_is_not_apart_from_itself);
    tcase_add_test(exact, losses_are_those_without_a_reference);
    tcase_add_test(exact, neither_threads_nor_batch_change_a_bit);
    tcase_add_test(exact, a_window_cut_short_leaves_nothing);
    tcase_add_test(formulas, two_tokens_by_hand);
    tcase_add_test(formulas, summaries_are_over_all_tokens);
    tcase_add_test(formulas, one_token_has_no_error);
    suite_add_tcase(suite, golden);
    suite_add_tcase(suite, exact);
    suite_add_tcase(suite, formulas);
    return testing_run(suite);
}
