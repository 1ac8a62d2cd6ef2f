/* Cache policies: what a row sees, against a slow forward pass in double that asks for every pair
 * of tokens whether one sees the other, and at which positions; SPECs; memory and rewinds.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
#include "testing.h"
#include "tiny.h"

enum { N = 420, ROW = TINY_HEADS * TINY_HEAD_DIM, KV_ROW = TINY_HEADS_KV * TINY_HEAD_DIM };

/* ---- the plain forward pass --------------------------------------------------------------- */

enum kind { FULL, WINDOW, SINKS, EXTEND };
enum scheme { NONE, TURNED, SLOPED };

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
};

static const char *const schemes[] = {[NONE] = "none", [TURNED] = "rope", [SLOPED] = "alibi"};

enum { N_CASES = sizeof cases / sizeof *cases, N_SCHEMES = 3 };

/* Whether i sees j <= i, and at which positions of both. */
static bool sees(const struct policy_case *policy, int i, int j, int *q_position, int *k_position)
{
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
    default:
        return true;
    }
}

/* out[rows] = weight[rows, cols] . x[cols] */
static void multiply(double *out, const float *weight, const double *x, int rows, int cols)
{
    for (int r = 0; r < rows; r++) {
        out[r] = 0;
        for (int c = 0; c < cols; c++)
            out[r] += (double)weight[r * cols + c] * x[c];
    }
}

static void rms_norm(double *out, const double *x, const float *weight)
{
    double square = 0;
    for (int c = 0; c < TINY_EMBD; c++)
        square += x[c] * x[c] / TINY_EMBD;
    for (int c = 0; c < TINY_EMBD; c++)
        out[c] = x[c] / sqrt(square + 1e-5) * (double)weight[c];
}

/* q . k / sqrt(d) and the bias, with both at their positions. */
static double score(enum scheme scheme, int head, const double *q, const double *k, int q_position,
                    int k_position)
{
    double sum = 0;
    const int half = TINY_HEAD_DIM / 2;
    for (int d = 0; d < half; d++) {
        /* The product of two rotated pairs turns by the difference of their angles. */
        double angle =
            scheme == TURNED ? (q_position - k_position) * pow(10000, -2.0 * d / TINY_HEAD_DIM) : 0;
        double same = q[d] * k[d] + q[d + half] * k[d + half];
        double cross = q[d + half] * k[d] - q[d] * k[d + half];
        sum += same * cos(angle) - cross * sin(angle);
    }
    sum /= sqrt(TINY_HEAD_DIM);
    if (scheme == SLOPED) sum -= pow(2, -8.0 * (head + 1) / TINY_HEADS) * (q_position - k_position);
    return sum;
}

struct plain {
    double x[N][TINY_EMBD], q[N][ROW], k[N][KV_ROW], v[N][KV_ROW];
};

/* weights[N]: what row i makes of each key. */
static void row_weights(const struct plain *plain, const struct policy_case *policy,
                        enum scheme scheme, int head, int i, int window, double *weights)
{
    const int kv = head / (TINY_HEADS / TINY_HEADS_KV) * TINY_HEAD_DIM;
    double max = -INFINITY, sum = 0;
    for (int j = 0; j < N; j++) {
        int q_position, k_position;
        weights[j] = -INFINITY;
        if (j > i || (window > 0 && i - j >= window)) continue;
        if (sees(policy, i, j, &q_position, &k_position))
            weights[j] = score(scheme, head, plain->q[i] + head * TINY_HEAD_DIM, plain->k[j] + kv,
                               q_position, k_position);
        if (weights[j] > max) max = weights[j];
    }
    for (int j = 0; j < N; j++)
        sum += weights[j] = exp(weights[j] - max);
    for (int j = 0; j < N; j++)
        weights[j] /= sum;
}

/* out[ROW]: what row i gathers. */
static void attend(const struct plain *plain, const struct policy_case *policy, enum scheme scheme,
                   int i, int window, double *out)
{
    for (int head = 0; head < TINY_HEADS; head++) {
        const int kv = head / (TINY_HEADS / TINY_HEADS_KV) * TINY_HEAD_DIM;
        double weights[N];
        row_weights(plain, policy, scheme, head, i, window, weights);
        for (int d = 0; d < TINY_HEAD_DIM; d++) {
            out[head * TINY_HEAD_DIM + d] = 0;
            for (int j = 0; j <= i; j++)
                out[head * TINY_HEAD_DIM + d] += weights[j] * plain->v[j][kv + d];
        }
    }
}

static float *layer_values(int layer, const char *name, int n)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s.weight", layer, name);
    return tiny_values(full, n);
}

static void plain_layer(struct plain *plain, int layer, const struct policy_case *policy,
                        enum scheme scheme, int window)
{
    float *norm = layer_values(layer, "attn_norm", TINY_EMBD);
    float *q = layer_values(layer, "attn_q", ROW * TINY_EMBD);
    float *k = layer_values(layer, "attn_k", KV_ROW * TINY_EMBD);
    float *v = layer_values(layer, "attn_v", KV_ROW * TINY_EMBD);
    float *output = layer_values(layer, "attn_output", TINY_EMBD * ROW);
    float *ffn_norm = layer_values(layer, "ffn_norm", TINY_EMBD);
    float *up = layer_values(layer, "ffn_up", TINY_FF * TINY_EMBD);
    float *down = layer_values(layer, "ffn_down", TINY_EMBD * TINY_FF);
    double normed[TINY_EMBD], gathered[ROW], hidden[TINY_FF], added[TINY_EMBD];
    for (int i = 0; i < N; i++) {
        rms_norm(normed, plain->x[i], norm);
        multiply(plain->q[i], q, normed, ROW, TINY_EMBD);
        multiply(plain->k[i], k, normed, KV_ROW, TINY_EMBD);
        multiply(plain->v[i], v, normed, KV_ROW, TINY_EMBD);
    }
    for (int i = 0; i < N; i++) {
        attend(plain, policy, scheme, i, window, gathered);
        multiply(added, output, gathered, TINY_EMBD, ROW);
        for (int c = 0; c < TINY_EMBD; c++)
            plain->x[i][c] += added[c];
        rms_norm(normed, plain->x[i], ffn_norm);
        multiply(hidden, up, normed, TINY_FF, TINY_EMBD);
        for (int c = 0; c < TINY_FF; c++)
            hidden[c] = fmax(hidden[c], 0);
        multiply(added, down, hidden, TINY_EMBD, TINY_FF);
        for (int c = 0; c < TINY_EMBD; c++)
            plain->x[i][c] += added[c];
    }
    float *all[] = {norm, q, k, v, output, ffn_norm, up, down};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* logits[N, TINY_VOCAB] */
static void plain_logits(const struct policy_case *policy, enum scheme scheme, int window,
                         int window_every, double *logits)
{
    struct plain *plain = calloc(1, sizeof *plain);
    ck_assert_ptr_nonnull(plain);
    float *embedding = tiny_values("token_embd.weight", TINY_VOCAB * TINY_EMBD);
    float *norm = tiny_values("output_norm.weight", TINY_EMBD);
    for (int i = 0; i < N; i++)
        for (int c = 0; c < TINY_EMBD; c++)
            plain->x[i][c] = (double)embedding[tiny_token(i) * TINY_EMBD + c];
    for (int layer = 0; layer < TINY_LAYERS; layer++) {
        bool local = window > 0 && (layer + 1) % window_every == 0;
        plain_layer(plain, layer, policy, scheme, local ? window : 0);
    }
    for (int i = 0; i < N; i++) {
        double normed[TINY_EMBD];
        rms_norm(normed, plain->x[i], norm);
        multiply(logits + i * TINY_VOCAB, embedding, normed, TINY_VOCAB, TINY_EMBD);
    }
    free(embedding);
    free(norm);
    free(plain);
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

static void check_near(const float *got, const double *expected, const char *what)
{
    for (int i = 0; i < N; i++) {
        double largest = 0;
        for (int c = 0; c < TINY_VOCAB; c++)
            largest = fmax(largest, fabs(expected[i * TINY_VOCAB + c]));
        for (int c = 0; c < TINY_VOCAB; c++)
            ck_assert_msg(fabs((double)got[i * TINY_VOCAB + c] - expected[i * TINY_VOCAB + c]) <=
                              1e-5 * largest,
                          "%s: row %d, logit %d is %g, expected %g", what, i, c,
                          (double)got[i * TINY_VOCAB + c], expected[i * TINY_VOCAB + c]);
    }
}

START_TEST(rows_see_what_a_plain_softmax_over_pairs_sees)
{
    const struct policy_case *policy = &cases[_i / N_SCHEMES];
    const enum scheme scheme = (enum scheme)(_i % N_SCHEMES);
    static float logits[N * TINY_VOCAB];
    static double expected[N * TINY_VOCAB];
    locus_model *model = tiny_model(0, 0);
    locus_session *session = open_session(model, schemes[scheme], policy->text, N, 16);
    eval(session, 0, N, logits);
    plain_logits(policy, scheme, 0, 1, expected);
    check_near(logits, expected, policy->text);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

START_TEST(local_layers_see_their_window_of_what_the_policy_shows)
{
    static float logits[N * TINY_VOCAB];
    static double expected[N * TINY_VOCAB];
    locus_model *model = tiny_model(25, 2);
    locus_session *session = open_session(model, "rope", cases[_i].text, N, 16);
    eval(session, 0, N, logits);
    plain_logits(&cases[_i], TURNED, 25, 2, expected);
    check_near(logits, expected, cases[_i].text);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

/* What locus_session_probe shows of the second head of the first layer. */
START_TEST(attention_weights_are_those_of_the_plain_softmax)
{
    const struct policy_case *policy = &cases[_i];
    const int head = 1;
    int32_t tokens[N];
    locus_error error;
    locus_model *model = tiny_model(0, 0);
    locus_session *session = open_session(model, "alibi", policy->text, N, 16);
    struct plain *plain = calloc(1, sizeof *plain);
    float *weights = calloc((size_t)N * N, sizeof *weights);
    float *embedding = tiny_values("token_embd.weight", TINY_VOCAB * TINY_EMBD);
    for (int i = 0; i < N; i++) {
        tokens[i] = tiny_token(i);
        for (int c = 0; c < TINY_EMBD; c++)
            plain->x[i][c] = (double)embedding[tokens[i] * TINY_EMBD + c];
    }
    plain_layer(plain, 0, policy, SLOPED, 0); /* leaves q and k */
    ck_assert_int_eq(locus_session_eval(session, tokens, 9, NULL, 0, NULL), LOCUS_OK);
    ck_assert_msg(locus_session_probe(session, tokens, N, 0, head, weights, &error) == LOCUS_OK,
                  "%s", error.message);
    for (int i = 0; i < N; i++) {
        double expected[N];
        row_weights(plain, policy, SLOPED, head, i, 0, expected);
        for (int j = 0; j < N; j++)
            ck_assert_msg(fabs((double)weights[i * N + j] - expected[j]) <= 1e-5,
                          "%s: token %d sees %d with %g, expected %g", policy->text, i, j,
                          (double)weights[i * N + j], expected[j]);
    }
    ck_assert_int_eq(locus_session_probe(session, tokens, N, TINY_LAYERS, 0, weights, &error),
                     LOCUS_ERROR_ARGUMENT);
    ck_assert_int_eq(locus_session_probe(session, tokens, N, 0, TINY_HEADS, weights, &error),
                     LOCUS_ERROR_ARGUMENT);
    free(embedding);
    free(weights);
    free(plain);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------- */

START_TEST(window_and_sinks_hold_only_what_is_in_sight)
{
    const char *const texts[] = {"window:size=20", "sinks:keep=4,size=30"};
    locus_model *model = tiny_model(0, 0);
    for (int i = 0; i < 2; i++) {
        locus_session *small = open_session(model, "rope", texts[i], 1000, 16);
        locus_session *large = open_session(model, "rope", texts[i], 100000, 16);
        ck_assert_int_eq(small->cache.n_blocks, large->cache.n_blocks);
        ck_assert_int_le(large->cache.n_blocks, 5);
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
    {"window:size=", "expected a whole number"},
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
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy");
    TCase *tests = tcase_create("policies");
    tcase_add_loop_test(tests, rows_see_what_a_plain_softmax_over_pairs_sees, 0,
                        N_CASES * N_SCHEMES);
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
