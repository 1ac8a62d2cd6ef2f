/* What the forward pass promises a scheme's hooks: schemes made for the test, which check their
 * arguments, or say one thing in two ways.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "locus_position.h"
#include "testing.h"
#include "tiny.h"

enum { N = 150, WINDOW = 70 };

/* ---- schemes ------------------------------------------------------------------------------ */

/* Scores times 1 + (i - j)/100: by keys that know their reader ... */
static void scale_keys(const void *state, int layer, enum locus_position_rows which, float *rows,
                       int n_heads, const int *positions, int n, int reader)
{
    (void)state, (void)layer;
    ck_assert_int_eq(n_heads, which == LOCUS_KEY ? TINY_HEADS_KV : TINY_HEADS);
    ck_assert((reader >= 0) == (which == LOCUS_KEY));
    if (which == LOCUS_QUERY) return;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < n_heads * TINY_HEAD_DIM; d++)
            *rows++ *= 1 + 0.01f * (float)(reader - positions[i]);
}

static bool always(const void *state)
{
    (void)state;
    return true;
}

static const struct locus_position_scheme by_reader = {
    .name = "by-reader", .summary = "", .rotate = scale_keys, .per_row_keys = always};

/* ... or by the bias. */
static void scale_scores(const void *state, int layer, int head, const float *q, int q_position,
                         int k_first, const int *k_positions, int n_k, float *scores,
                         float *scratch)
{
    (void)state, (void)layer, (void)head, (void)q, (void)scratch;
    ck_assert_ptr_null(k_positions);
    for (int j = 0; j < n_k; j++)
        scores[j] *= 1 + 0.01f * (float)(q_position - k_first - j);
}

static const struct locus_position_scheme by_score = {
    .name = "by-score", .summary = "", .bias = scale_scores};

/* Scores less the row's largest, which a softmax doesn't notice; scratch holds a row. */
static size_t row_scratch(const void *state, int n_k)
{
    (void)state;
    return (size_t)n_k;
}

static void centre_row(const void *state, int layer, int head, const float *q, int q_position,
                       int k_first, const int *k_positions, int n_k, float *scores, float *scratch)
{
    (void)state, (void)head, (void)q, (void)k_positions;
    const int n_seen = layer == 1 && q_position >= WINDOW ? WINDOW : q_position + 1;
    ck_assert_int_eq(n_k, n_seen);
    ck_assert_int_eq(k_first, q_position - n_seen + 1);
    float largest = scores[0];
    for (int j = 0; j < n_k; j++)
        largest = scores[j] > largest ? scores[j] : largest;
    for (int j = 0; j < n_k; j++)
        scratch[j] = scores[j] - largest;
    memcpy(scores, scratch, (size_t)n_k * sizeof *scores);
}

static const struct locus_position_scheme by_row = {.name = "by-row",
                                                    .summary = "",
                                                    .whole_row = true,
                                                    .bias = centre_row,
                                                    .scratch_floats = row_scratch};

/* Both at once: keys that know their reader, then the whole row. */
static void scale_and_centre(const void *state, int layer, int head, const float *q, int q_position,
                             int k_first, const int *k_positions, int n_k, float *scores,
                             float *scratch)
{
    centre_row(state, layer, head, q, q_position, k_first, k_positions, n_k, scores, scratch);
}

static const struct locus_position_scheme by_both = {.name = "by-both",
                                                     .summary = "",
                                                     .rotate = scale_keys,
                                                     .per_row_keys = always,
                                                     .whole_row = true,
                                                     .bias = scale_and_centre,
                                                     .scratch_floats = row_scratch};

/* Adds the sum of all tokens so far, kept a position: [2] floats, the sum and how many. */
static int two_floats(const void *state)
{
    (void)state;
    return 2;
}

static void add_sum(const void *state, const int32_t *tokens, float *x, int first_position, int n,
                    float *kept)
{
    (void)state;
    for (int i = 0; i < n; i++, kept += 2) {
        kept[0] = kept[-2] + (float)tokens[i];
        kept[1] = kept[-1] + 1;
        ck_assert_float_eq(kept[1], (float)(first_position + i + 1));
        for (int c = 0; c < TINY_EMBD; c++)
            x[i * TINY_EMBD + c] += 0.001f * kept[0];
    }
}

/* The same from the tokens alone; only for a text at once. */
static void add_sum_at_once(const void *state, const int32_t *tokens, float *x, int first_position,
                            int n, float *kept)
{
    (void)state;
    ck_assert_int_eq(first_position, 0);
    ck_assert_ptr_null(kept);
    float sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (float)tokens[i];
        for (int c = 0; c < TINY_EMBD; c++)
            x[i * TINY_EMBD + c] += 0.001f * sum;
    }
}

static const struct locus_position_scheme by_store = {
    .name = "by-store", .summary = "", .row_floats = two_floats, .embed = add_sum};
static const struct locus_position_scheme by_text = {
    .name = "by-text", .summary = "", .embed = add_sum_at_once};

/* ---- sessions ----------------------------------------------------------------------------- */

/* The text in batches of n_batch, then its last third again; logits [N, TINY_VOCAB]. */
static float *run(const locus_model *model, const struct locus_position_scheme *scheme, int n_batch,
                  int n_threads)
{
    locus_error error;
    int32_t tokens[N];
    const int first = N * 2 / 3;
    float *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    locus_session_params params = {
        .scheme = scheme, .n_context = N, .n_batch = n_batch, .n_threads = n_threads};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    ck_assert_int_eq(locus_session_eval(session, tokens, N, logits, N, NULL), LOCUS_OK);
    if (n_batch) {
        ck_assert_int_eq(locus_session_rewind(session, first, NULL), LOCUS_OK);
        ck_assert_int_eq(locus_session_eval(session, tokens + first, N - first,
                                            logits + first * TINY_VOCAB, N - first, NULL),
                         LOCUS_OK);
    }
    locus_session_free(session);
    return logits;
}

static void check_same(float *a, float *b)
{
    ck_assert_int_eq(memcmp(a, b, N * TINY_VOCAB * sizeof *a), 0);
    free(b);
}

static void check_near(const float *a, float *b)
{
    for (int i = 0; i < N * TINY_VOCAB; i++)
        ck_assert_msg(fabsf(a[i] - b[i]) <= 1e-4f, "row %d: %g and %g", i / TINY_VOCAB,
                      (double)a[i], (double)b[i]);
    free(b);
}

START_TEST(keys_of_a_row_know_their_reader)
{
    locus_model *model = tiny_model(WINDOW, 2);
    float *whole = run(model, &by_reader, 0, 1);
    check_near(whole, run(model, &by_score, 0, 1));
    check_same(whole, run(model, &by_reader, 1, 1));
    check_same(whole, run(model, &by_reader, 11, 1));
    check_same(whole, run(model, &by_reader, N - 1, 2));
    free(whole);
    locus_model_free(model);
}
END_TEST

START_TEST(whole_rows_are_all_that_a_token_sees)
{
    locus_model *model = tiny_model(WINDOW, 2);
    float *whole = run(model, &by_row, 0, 1);
    locus_session_params none = {.position = "none", .n_context = N, .n_threads = 1};
    locus_session *session = locus_session_create(model, &none, NULL);
    float *plain = calloc(N * TINY_VOCAB, sizeof *plain);
    int32_t tokens[N];
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    ck_assert_int_eq(locus_session_eval(session, tokens, N, plain, N, NULL), LOCUS_OK);
    locus_session_free(session);
    check_near(whole, plain);
    check_same(whole, run(model, &by_row, 1, 1));
    check_same(whole, run(model, &by_row, N - 1, 2));
    free(whole);
    locus_model_free(model);
}
END_TEST

START_TEST(whole_rows_of_keys_that_know_their_reader)
{
    locus_model *model = tiny_model(WINDOW, 2);
    float *whole = run(model, &by_both, 0, 1);
    check_near(whole, run(model, &by_score, 0, 1));
    check_same(whole, run(model, &by_both, 1, 1));
    check_same(whole, run(model, &by_both, N - 1, 2));
    free(whole);
    locus_model_free(model);
}
END_TEST

START_TEST(what_a_scheme_keeps_goes_on_from_the_last_position)
{
    locus_model *model = tiny_model(0, 0);
    float *whole = run(model, &by_store, 0, 1);
    check_same(whole, run(model, &by_text, 0, 1));
    check_same(whole, run(model, &by_store, 1, 1));
    check_same(whole, run(model, &by_store, 11, 1));
    free(whole);
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hooks");
    TCase *tests = tcase_create("promises");
    tcase_add_test(tests, keys_of_a_row_know_their_reader);
    tcase_add_test(tests, whole_rows_are_all_that_a_token_sees);
    tcase_add_test(tests, whole_rows_of_keys_that_know_their_reader);
    tcase_add_test(tests, what_a_scheme_keeps_goes_on_from_the_last_position);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
