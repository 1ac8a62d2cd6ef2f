/* Cache policies: what a row sees, against the plain forward pass (reference.c), which asks for
 * every pair of tokens whether one sees the other, and at which positions; SPECs; memory and
 * rewinds.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/attention.h"
#include "forward/map.h"
#include "plain.h"
#include "reference.h"
#include "testing.h"
#include "tiny.h"

enum { N = 420 };

/* ---- what each policy shows --------------------------------------------------------------- */

enum kind { FULL, WINDOW, SINKS, EXTEND, REROPE, LEAKY, DUAL };

struct policy_case {
    const char *text;
    enum kind kind;
    int a, b;
};

static const struct policy_case cases[] = {
    {"full", FULL, 0, 0},
    {"window:size=20", WINDOW, 20, 0},
    {"window:size=1", WINDOW, 1, 0},
    {"window:size=130", WINDOW, 130, 0},
    {"sinks:keep=4,size=30", SINKS, 4, 30},
    {"sinks:keep=70,size=100", SINKS, 70, 100},
    {"sinks:keep=0,size=33", SINKS, 0, 33},
    {"self-extend:group=3,window=20", EXTEND, 3, 20},
    {"self-extend:group=7,window=96", EXTEND, 7, 96},
    {"self-extend:group=1,window=5", EXTEND, 1, 5},
    {"rerope:window=20", REROPE, 20, 0},
    {"rerope:window=1", REROPE, 1, 0},
    {"rerope:window=130", REROPE, 130, 0},
    {"leaky-rerope:window=20,k=3", LEAKY, 20, 3},
    {"leaky-rerope:window=96,k=16", LEAKY, 96, 16},
    {"leaky-rerope:window=5,k=1", LEAKY, 5, 1},
    {"dual-chunk:chunk=30,window=7", DUAL, 30, 7},
    {"dual-chunk:chunk=128,window=128", DUAL, 128, 128},
    {"dual-chunk:chunk=64,window=1", DUAL, 64, 1},
    {"dual-chunk:chunk=1,window=1", DUAL, 1, 1},
};

/* A bias, a rotation, and one that is made block by block. */
static const char *const schemes[] = {"none", "rope", "alibi", "xpos"};

enum { N_CASES = sizeof cases / sizeof *cases, N_SCHEMES = sizeof schemes / sizeof *schemes };

/* Whether i sees j <= i, and at which positions of both. */
static bool sees(const void *of, int i, int j, int *q_position, int *k_position)
{
    const struct policy_case *policy = of;
    const int a = policy->a, b = policy->b;
    *q_position = i, *k_position = j;
    switch (policy->kind) {
    case WINDOW:
        return i - j < a;
    case SINKS:
        if (i >= b && j < a) *q_position = b - 1; /* the row is the last of b in the cache */
        return i < b || j < a || i - j < b - a;
    case EXTEND:
        if (i - j >= b) *q_position = i / a + b - b / a, *k_position = j / a;
        return true;
    case REROPE:
        if (i - j >= a) *q_position = a, *k_position = 0;
        return true;
    case LEAKY: /* in b-ths: (i - a) / b + a, and j / b */
        if (i - j >= a && b > 1) *q_position = i - a + a * b, *k_position = j;
        return true;
    case DUAL: /* the positions of An et al.'s three parts */
        if (i / a == j / a) return true;
        *k_position = j % a;
        *q_position = i / a - j / a == 1 && i % a < b ? a + i % a : a + b - 1;
        return true;
    default:
        return true;
    }
}

/* ---- sessions ----------------------------------------------------------------------------- */

static locus_session *open_session(const locus_model *model, const char *position,
                                   const char *attention, int n_context, int n_batch)
{
    locus_error error;
    locus_session_params params = {.position = position,
                                   .attention = attention,
                                   .n_context = n_context,
                                   .n_batch = n_batch,
                                   .n_threads = 1};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    return session;
}

/* Evaluates text[from, end) into logits + from * TINY_VOCAB. */
static void eval(locus_session *session, int from, int end, float *logits)
{
    locus_error error;
    int32_t tokens[N];
    for (int i = from; i < end; i++)
        tokens[i - from] = tiny_token(i);
    ck_assert_msg(locus_session_eval(session, tokens, end - from, logits + from * TINY_VOCAB,
                                     end - from, &error) == LOCUS_OK,
                  "%s", error.message);
}

/* Whether it shows keys at distances that aren't whole. */
static bool is_between(const struct policy_case *policy)
{
    return policy->kind == LEAKY && policy->b > 1;
}

/* Why a scheme is refused; NULL: it isn't. */
static const char *reason_against(const struct policy_case *policy, const char *scheme)
{
    const bool turns = !strcmp(scheme, "none") || !strcmp(scheme, "rope");
    if (is_between(policy) && !turns) return "it has no positions between two";
    if (policy->kind == DUAL && policy->a % 64 != 0 && 64 % policy->a != 0 &&
        !strcmp(scheme, "xpos"))
        return "a chunk of a multiple of 64 can be";
    return NULL;
}

/* The rows of a session's whole text have the logits of the plain pass. */
static void check_rows(const locus_model *model, const char *scheme,
                       const struct policy_case *policy)
{
    static float logits[N * TINY_VOCAB];
    static double expected[N * TINY_VOCAB];
    int32_t tokens[N];
    locus_session *session = open_session(model, scheme, policy->text, N, 16);
    const struct reference reference = {.model = model,
                                        .positions = &session->positions,
                                        .sees = sees,
                                        .policy = policy,
                                        .divisor = policy->kind == LEAKY ? policy->b : 1};
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    eval(session, 0, N, logits);
    reference_logits(&reference, tokens, N, expected);
    for (int i = 0; i < N; i++) {
        const double difference =
            plain_difference(logits + i * TINY_VOCAB, expected + i * TINY_VOCAB, TINY_VOCAB);
        ck_assert_msg(difference <= 1e-5, "%s, %s: row %d differs by %g", scheme, policy->text, i,
                      difference);
    }
    locus_session_free(session);
}

START_TEST(rows_see_what_a_plain_softmax_over_pairs_sees)
{
    const char *scheme = schemes[_i % N_SCHEMES];
    const struct policy_case *policy = &cases[_i / N_SCHEMES];
    locus_model *model = tiny_model(0, 0);
    const char *reason = reason_against(policy, scheme);
    if (!reason) {
        check_rows(model, scheme, policy);
    } else {
        locus_error error;
        const locus_session_params params = {
            .position = scheme, .attention = policy->text, .n_context = N};
        ck_assert_ptr_null(locus_session_create(model, &params, &error));
        ck_assert_msg(strstr(error.message, reason), "%s", error.message);
    }
    locus_model_free(model);
}
END_TEST

/* The matrix of figure 2 of the paper (chunks of 6, trained on 10), row by row from its formulas:
 * what is seen is never at a distance of 10 or more, and the last 4 always at their own. */
START_TEST(dual_chunks_have_the_papers_distances)
{
    static const int rows[][12] = {
        [5] = {5, 4, 3, 2, 1, 0},
        [6] = {6, 5, 4, 3, 2, 1, 0},
        [7] = {7, 6, 5, 4, 3, 2, 1, 0},
        [9] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
        [11] = {9, 8, 7, 6, 5, 4, 5, 4, 3, 2, 1, 0},
    };
    struct locus_policy policy;
    ck_assert_int_eq(locus_policy_parse(&policy, "dual-chunk:window=4,chunk=6", NULL), LOCUS_OK);
    policy.first_position = 5;
    for (int i = 0; i < 40; i++) {
        struct locus_span spans[LOCUS_MAX_SPANS];
        const int n = policy.kind->split(&policy, i, spans);
        int j = 0;
        ck_assert_int_eq(n, i < 6 ? 1 : i < 12 ? 2 : 3);
        for (int s = 0; s < n; s++) {
            ck_assert_int_eq(spans[s].first, j); /* each key once, in order */
            ck_assert_int_eq(spans[s].moved, n - 1 - s);
            for (; j < spans[s].end; j++) {
                const int key = spans[s].group ? policy.kind->group_position(&policy, j)
                                               : policy.first_position + j;
                const int distance = spans[s].q_position - key;
                ck_assert_int_le(distance, 9);
                if (i - j < 4) ck_assert_int_eq(distance, i - j);
                if (i / 6 - j / 6 > 1) ck_assert_int_eq(distance, 9 - j % 6);
                if (i < 12 && rows[i][0]) ck_assert_int_eq(distance, rows[i][j]);
            }
        }
        ck_assert_int_eq(j, i + 1);
    }
}
END_TEST

/* The distances at which a row's spans show their keys are the formulas', the one that both halves
 * have, too. */
START_TEST(rerope_distances_are_the_formulas)
{
    const int w = 7;
    for (int k = 0; k <= 5; k++) { /* 0: without a leak */
        struct locus_policy policy;
        char text[48];
        snprintf(text, sizeof text, k ? "leaky-rerope:window=%d,k=%d" : "rerope:window=%d", w, k);
        ck_assert_int_eq(locus_policy_parse(&policy, text, NULL), LOCUS_OK);
        policy.first_position = 11;
        for (int i = 0; i < 40; i++) {
            struct locus_span spans[LOCUS_MAX_SPANS];
            const int n = policy.kind->split(&policy, i, spans);
            int j = 0;
            for (int s = 0; s < n; s++) {
                ck_assert_int_eq(spans[s].first, j); /* each key once, in order */
                for (; j < spans[s].end; j++) {
                    const double unit = spans[s].moved ? locus_policy_divisor(&policy) : 1;
                    const int key = spans[s].group ? policy.kind->group_position(&policy, j)
                                                   : policy.first_position + j;
                    const double distance = (spans[s].q_position - key) / unit;
                    const double past = i - j - w, leak = k ? past / k : 0;
                    ck_assert_double_eq_tol(distance, past < 0 ? i - j : w + leak, 1e-12);
                    if (past == 0) ck_assert_double_eq(distance, w);
                }
            }
            ck_assert_int_eq(j, i + 1);
        }
    }
}
END_TEST

START_TEST(local_layers_see_their_window_of_what_the_policy_shows)
{
    locus_model *model = tiny_model(25, 2);
    check_rows(model, "rope", &cases[_i]);
    locus_model_free(model);
}
END_TEST

/* What locus_session_probe shows of the second head of the first layer. */
START_TEST(attention_weights_are_those_of_the_plain_softmax)
{
    const int layer = 0, head = 1;
    int32_t tokens[N];
    locus_error error;
    locus_model *model = tiny_model(0, 0);
    const char *scheme = is_between(&cases[_i]) ? "rope" : "alibi";
    locus_session *session = open_session(model, scheme, cases[_i].text, N, 16);
    float *weights = calloc((size_t)N * N, sizeof *weights);
    double *expected = calloc((size_t)N * N, sizeof *expected);
    double *logits = calloc((size_t)N * TINY_VOCAB, sizeof *logits);
    ck_assert(weights && expected && logits);
    const struct reference reference = {.model = model,
                                        .positions = &session->positions,
                                        .sees = sees,
                                        .policy = &cases[_i],
                                        .divisor = cases[_i].b,
                                        .weights = expected,
                                        .layer = layer,
                                        .head = head};
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    reference_logits(&reference, tokens, N, logits);
    ck_assert_int_eq(locus_session_eval(session, tokens, 9, NULL, 0, NULL), LOCUS_OK);
    ck_assert_msg(locus_session_probe(session, tokens, N, layer, head, weights, &error) == LOCUS_OK,
                  "%s", error.message);
    for (int at = 0; at < N * N; at++)
        ck_assert_msg(fabs((double)weights[at] - expected[at]) <= 1e-5,
                      "%s: token %d sees %d with %g, expected %g", cases[_i].text, at / N, at % N,
                      (double)weights[at], expected[at]);
    ck_assert_int_eq(locus_session_probe(session, tokens, N, TINY_LAYERS, 0, weights, &error),
                     LOCUS_ERROR_ARGUMENT);
    ck_assert_int_eq(locus_session_probe(session, tokens, N, 0, TINY_HEADS, weights, &error),
                     LOCUS_ERROR_ARGUMENT);
    free(logits);
    free(expected);
    free(weights);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------- */

static int blocks_of(const locus_session *session)
{
    return locus_session_attention_state(session)->cache.n_blocks;
}

START_TEST(window_and_sinks_hold_only_what_is_in_sight)
{
    const char *const texts[] = {"window:size=20", "sinks:keep=4,size=30"};
    locus_model *model = tiny_model(0, 0);
    for (int i = 0; i < 2; i++) {
        locus_session *small = open_session(model, "rope", texts[i], 1000, 16);
        locus_session *large = open_session(model, "rope", texts[i], 100000, 16);
        ck_assert_int_eq(blocks_of(small), blocks_of(large));
        ck_assert_int_le(blocks_of(large), 5);
        locus_session_free(small);
        locus_session_free(large);
    }
    locus_model_free(model);
}
END_TEST

/* Every rewind of a long text either replays to the same bits or is refused. */
START_TEST(rewinds_are_exact_or_refused)
{
    const char *const texts[] = {"window:size=20", "sinks:keep=4,size=30",
                                 "sinks:keep=70,size=100"};
    static float logits[N * TINY_VOCAB], again[N * TINY_VOCAB];
    locus_model *model = tiny_model(0, 0);
    int n_refused = 0, n_done = 0;
    for (int keep = 0; keep < N; keep += 13) {
        locus_session *session = open_session(model, "rope", texts[_i], N, 16);
        locus_error error;
        eval(session, 0, N, logits);
        if (locus_session_rewind(session, keep, &error)) {
            n_refused++;
            ck_assert_int_eq(error.status, LOCUS_ERROR_POSITION);
            ck_assert_msg(strstr(error.message, "rewind to") && strstr(error.message, texts[_i]),
                          "%s", error.message);
            ck_assert_int_eq(locus_session_length(session), N);
        } else {
            n_done++;
            ck_assert_int_eq(locus_session_length(session), keep);
            eval(session, keep, N, again);
            ck_assert_int_eq(memcmp(logits + keep * TINY_VOCAB, again + keep * TINY_VOCAB,
                                    (size_t)(N - keep) * TINY_VOCAB * sizeof *again),
                             0);
        }
        locus_session_free(session);
    }
    ck_assert_int_gt(n_refused, 0);
    ck_assert_int_gt(n_done, 1);
    locus_model_free(model);
}
END_TEST

/* Token by token back from the farthest one evaluated: two batches at least, and the last place
 * that is left replays to the same bits. */
START_TEST(rewinds_reach_two_batches_back_and_no_key_too_far)
{
    enum { BATCH = 80 };
    const char *const texts[] = {"window:size=20", "sinks:keep=4,size=30"};
    static float logits[N * TINY_VOCAB], again[N * TINY_VOCAB];
    const int lengths[] = {N, 6 * 64 + 1, 6 * 64}; /* a block with every slot taken, too */
    locus_model *model = tiny_model(0, 0);
    for (int i = 0; i < 3; i++) {
        const int length = lengths[i];
        int keep = length;
        locus_session *session = open_session(model, "rope", texts[_i], N, BATCH);
        eval(session, 0, length, logits);
        while (keep > 0 && !locus_session_rewind(session, keep - 1, NULL))
            keep--;
        ck_assert_int_gt(keep, 0);
        ck_assert_int_le(keep, length - 2 * BATCH);
        ck_assert_int_eq(locus_session_length(session), keep);
        eval(session, keep, length, again);
        ck_assert_int_eq(memcmp(logits + keep * TINY_VOCAB, again + keep * TINY_VOCAB,
                                (size_t)(length - keep) * TINY_VOCAB * sizeof *again),
                         0);
        locus_session_free(session);
    }
    locus_model_free(model);
}
END_TEST

/* ---- texts -------------------------------------------------------------------------------- */

START_TEST(texts_are_printed_in_full)
{
    const char *const pairs[][2] = {
        {NULL, "full"},
        {"full", "full"},
        {"window:size=7", "window:size=7"},
        {"sinks:size=9", "sinks:keep=4,size=9"},
        {"sinks:size=9,keep=1", "sinks:keep=1,size=9"},
        {"self-extend:window=64,group=3", "self-extend:group=3,window=64"},
        {"rerope:window=9", "rerope:window=9"},
        {"leaky-rerope:k=4,window=9", "leaky-rerope:window=9,k=4"},
        {"dual-chunk:window=4,chunk=9", "dual-chunk:chunk=9,window=4"},
    };
    locus_model *model = tiny_model(0, 0);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        locus_session *session = open_session(model, NULL, pairs[i][0], 16, 0);
        ck_assert_str_eq(locus_session_attention(session), pairs[i][1]);
        locus_session_free(session);
    }
    locus_model_free(model);
}
END_TEST

static const char *const refused[][2] = {
    {"sink:size=4", "no policy is named 'sink'; the nearest is 'sinks'"},
    {"", "no policy is named ''"},
    {"window", "size is missing"},
    {"window:", "expected key=value"},
    {"window:size", "expected key=value"},
    {"window:=3", "expected key=value"},
    {"window:size=", "found 'size='; expected key=value"},
    {"window:size=0", "expected a whole number from 1"},
    {"window:size=-4", "expected a whole number from 1"},
    {"window:size=2.5", "expected a whole number from 1"},
    {"window:size=99999999999", "expected a whole number from 1"},
    {"window:sise=3", "no parameter 'sise'; the nearest is 'size'"},
    {"window:size=3,size=4", "given twice"},
    {"window:size=3,", "expected key=value"},
    {"full:size=3", "full has no parameters"},
    {"sinks:keep=8,size=8", "keep is 8 and size is 8; expected keep below size"},
    {"sinks:keep=2", "size is missing"},
    {"self-extend:group=0,window=4", "group is '0'; expected a whole number from 1"},
    {"self-extend:group=2,window=0", "window is '0'; expected a whole number from 1"},
    {"self-extend:window=4", "group is missing"},
    {"rerope", "window is missing; expected rerope:window=N"},
    {"rerope:window=0", "window is '0'; expected a whole number from 1"},
    {"rerope:window=4,k=2", "rerope has no parameter 'k'"},
    {"leaky-rerope:window=4", "k is missing"},
    {"leaky-rerope:window=4,k=0", "k is '0'; expected a whole number from 1 to 1024"},
    {"leaky-rerope:window=4,k=0.5", "k is '0.5'; expected a whole number"},
    {"dual-chunk", "chunk is missing; expected dual-chunk:chunk=N,..."},
    {"dual-chunk:chunk=9", "window is missing"},
    {"dual-chunk:chunk=9,window=10", "chunk is 9 and window is 10; expected window at most chunk"},
    {"dual-chunk:chunk=0,window=1", "chunk is '0'; expected a whole number from 1"},
};

START_TEST(wrong_texts_are_refused_in_one_line)
{
    struct locus_policy policy;
    locus_error error;
    ck_assert_int_eq(locus_policy_parse(&policy, refused[_i][0], &error), LOCUS_ERROR_ARGUMENT);
    ck_assert_msg(strstr(error.message, refused[_i][1]) != NULL, "'%s': %s", refused[_i][0],
                  error.message);
}
END_TEST

START_TEST(reach_is_where_distances_meet_the_trained_length)
{
    for (int trained = 8; trained <= 64; trained += 7)
        for (int group = 1; group <= 9; group += 2)
            for (int window = 1; window < trained; window += 5) {
                struct policy_case policy = {NULL, EXTEND, group, window};
                struct locus_policy parsed;
                char text[64];
                int i = 0, q_position = 0, k_position = 0;
                for (;; i++) { /* the first token is the farthest */
                    sees(&policy, i, 0, &q_position, &k_position);
                    if (q_position - k_position >= trained) break;
                }
                snprintf(text, sizeof text, "self-extend:group=%d,window=%d", group, window);
                ck_assert_int_eq(locus_policy_parse(&parsed, text, NULL), LOCUS_OK);
                ck_assert_int_eq(locus_policy_reach(&parsed, trained), i);
            }
    struct locus_policy known;
    ck_assert_int_eq(locus_policy_parse(&known, "self-extend:group=3,window=64", NULL), LOCUS_OK);
    ck_assert_int_eq(locus_policy_reach(&known, 256), 639);
    ck_assert_int_eq(locus_policy_parse(&known, "window:size=64", NULL), LOCUS_OK);
    ck_assert_int_eq(locus_policy_reach(&known, 256), 0);
    ck_assert_int_eq(locus_policy_parse(&known, "rerope:window=64", NULL), LOCUS_OK);
    ck_assert_int_eq(locus_policy_reach(&known, 256), INT_MAX);
    ck_assert_int_eq(locus_policy_reach(&known, 64), 64);
    ck_assert_int_eq(locus_policy_parse(&known, "leaky-rerope:window=64,k=4", NULL), LOCUS_OK);
    ck_assert_int_eq(locus_policy_reach(&known, 256), 64 + 4 * (256 - 64));
    ck_assert_int_eq(locus_policy_parse(&known, "dual-chunk:chunk=192,window=64", NULL), LOCUS_OK);
    ck_assert_int_eq(locus_policy_reach(&known, 256), INT_MAX);
    ck_assert_int_eq(locus_policy_reach(&known, 255), 255);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy");
    TCase *tests = tcase_create("policies");
    tcase_add_loop_test(tests, rows_see_what_a_plain_softmax_over_pairs_sees, 0,
                        N_CASES * N_SCHEMES);
    tcase_add_test(tests, rerope_distances_are_the_formulas);
    tcase_add_test(tests, dual_chunks_have_the_papers_distances);
    tcase_add_loop_test(tests, local_layers_see_their_window_of_what_the_policy_shows, 0, N_CASES);
    tcase_add_loop_test(tests, attention_weights_are_those_of_the_plain_softmax, 0, N_CASES);
    tcase_add_test(tests, window_and_sinks_hold_only_what_is_in_sight);
    tcase_add_loop_test(tests, rewinds_are_exact_or_refused, 0, 3);
    tcase_add_loop_test(tests, rewinds_reach_two_batches_back_and_no_key_too_far, 0, 2);
    tcase_add_test(tests, texts_are_printed_in_full);
    tcase_add_loop_test(tests, wrong_texts_are_refused_in_one_line, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(tests, reach_is_where_distances_meet_the_trained_length);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
