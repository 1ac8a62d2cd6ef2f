/* Scores of a text: -log p of each next token, against a softmax in double over all logits, and the
 * same bits however the text is cut.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
#include "kernels/kernels.h"
#include "products.h"
#include "testing.h"
#include "tiny.h"

enum { N = 200 };

static locus_session *open_session(const locus_model *model, int n_batch, int n_threads)
{
    locus_error error;
    locus_session_params params = {
        .position = "rope", .n_context = N, .n_batch = n_batch, .n_threads = n_threads};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    return session;
}

/* tokens[N], and what follows each; every third is not asked for. */
static void make_text(int32_t *tokens, int32_t *targets)
{
    for (int i = 0; i < N; i++) {
        tokens[i] = tiny_token(i);
        targets[i] = i % 3 == 1 ? -1 : tiny_token(i + 1);
    }
}

static void score(locus_session *session, const int32_t *tokens, const int32_t *targets, int n,
                  float *nll)
{
    locus_error error;
    ck_assert_msg(locus_session_score(session, tokens, n, targets, nll, &error) == LOCUS_OK, "%s",
                  error.message);
}

START_TEST(scores_are_the_softmax_of_the_logits)
{
    int32_t tokens[N], targets[N];
    float nll[N];
    static float logits[N * TINY_VOCAB];
    locus_model *model = tiny_model(0, 0);
    locus_session *session = open_session(model, 0, 1);
    make_text(tokens, targets);
    ck_assert_int_eq(locus_session_eval(session, tokens, N, logits, N, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_session_rewind(session, 0, NULL), LOCUS_OK);
    score(session, tokens, targets, N, nll);
    ck_assert_int_eq(locus_session_length(session), N);
    for (int i = 0; i < N; i++) {
        const float *row = logits + i * TINY_VOCAB;
        double sum = 0;
        for (int c = 0; c < TINY_VOCAB; c++)
            sum += exp((double)row[c]);
        double expected = targets[i] < 0 ? 0 : log(sum) - (double)row[targets[i]];
        ck_assert_msg(fabs((double)nll[i] - expected) <= 1e-6 * fmax(1, expected),
                      "token %d: %g, expected %g", i, (double)nll[i], expected);
    }
    /* The logits of the last eval are still there. */
    ck_assert_int_eq(memcmp(locus_session_logits(session), logits + (N - 1) * TINY_VOCAB,
                            TINY_VOCAB * sizeof *logits),
                     0);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

START_TEST(scores_have_the_same_bits_however_the_text_is_cut)
{
    int32_t tokens[N], targets[N];
    float expected[N], nll[N];
    locus_model *model = tiny_model(0, 0);
    locus_session *session = open_session(model, 0, 1);
    make_text(tokens, targets);
    score(session, tokens, targets, N, expected);
    ck_assert_int_eq(locus_session_rewind(session, 0, NULL), LOCUS_OK);
    for (int i = 0; i < N; i++)
        score(session, tokens + i, targets + i, 1, nll + i);
    ck_assert_int_eq(memcmp(nll, expected, sizeof nll), 0);
    locus_session_free(session);
    const int batches[] = {1, 7, 64, 65, 130};
    for (int i = 0; i < 5; i++) {
        session = open_session(model, batches[i], 1 + i % 2);
        score(session, tokens, targets, N, nll);
        ck_assert_int_eq(memcmp(nll, expected, sizeof nll), 0);
        locus_session_free(session);
    }
    locus_model_free(model);
}
END_TEST

START_TEST(wrong_tokens_and_targets_are_refused)
{
    int32_t tokens[] = {1, 2}, targets[] = {2, TINY_VOCAB};
    float nll[2];
    locus_error error;
    locus_model *model = tiny_model(0, 0);
    locus_session *session = open_session(model, 0, 1);
    ck_assert_int_eq(locus_session_score(session, tokens, 2, targets, nll, &error),
                     LOCUS_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "target 1 is 40"));
    targets[1] = 0, tokens[1] = -1;
    ck_assert_int_eq(locus_session_score(session, tokens, 2, targets, nll, &error),
                     LOCUS_ERROR_ARGUMENT);
    ck_assert_int_eq(locus_session_length(session), 0);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

/* Extreme logits neither overflow nor vanish, and all kernel sets agree to the bit. */
START_TEST(sums_of_exponentials_hold_in_every_kernel_set)
{
    const struct {
        float scale;
        int centre; /* of ids from 0 to 39: past them, every logit is negative */
    } rows[] = {{0, 20}, {1, 20}, {1, 500}, {1, -60}, {30, 20}, {1e4f, 40}, {1e30f, 20}};
    enum { MOST = 1003, N_ROWS = sizeof rows / sizeof *rows };
    float x[MOST];
    for (int n = 1; n <= MOST; n += 167)
        for (int s = 0; s < N_ROWS; s++) {
            double expected = 0;
            float max, sum, largest = -INFINITY;
            for (int i = 0; i < n; i++) {
                x[i] = rows[s].scale * (float)(tiny_token(i + n) - rows[s].centre);
                largest = x[i] > largest ? x[i] : largest;
            }
            for (int i = 0; i < n; i++)
                expected += exp((double)x[i] - (double)largest);
            sum = plain_kernels()->sum_exp(x, n, &max);
            ck_assert_float_eq(max, largest);
            ck_assert_msg(fabs((double)sum - expected) <= 1e-6 * expected, "%g, expected %g",
                          (double)sum, expected);
            const struct locus_kernels *kernels;
            for (int i = 0; (kernels = kernels_at(i)); i++) {
                float other_max, other = kernels->sum_exp(x, n, &other_max);
                ck_assert_int_eq(memcmp(&other, &sum, sizeof sum), 0);
                ck_assert_float_eq(other_max, max);
            }
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("score");
    TCase *tests = tcase_create("scores");
    tcase_add_test(tests, scores_are_the_softmax_of_the_logits);
    tcase_add_test(tests, scores_have_the_same_bits_however_the_text_is_cut);
    tcase_add_test(tests, wrong_tokens_and_targets_are_refused);
    tcase_add_test(tests, sums_of_exponentials_hold_in_every_kernel_set);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
