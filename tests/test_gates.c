/* Formulas of the position schemes that read a layer's input or the scores of all heads (FoX, PaTH,
 * DAPE), through their hooks, against the papers' formulas written out plainly in double.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "position_testing.h"
#include "testing.h"

enum { N_EMBD = 32, N_HEAD = 4, HEAD_DIM = 8, N = 64, N_LAYER = 2, UNITS = 5, PARTS = 2 };

/* ---- FoX ---------------------------------------------------------------------------------- */

static double log_sigmoid(double z)
{
    return z < 0 ? z - log1p(exp(z)) : -log1p(exp(-z));
}

/* ln of a head's gate for a token. */
static double log_gate(const float *weight, float bias, const float *x)
{
    double z = (double)bias;
    for (int c = 0; c < N_EMBD; c++)
        z += (double)weight[c] * (double)x[c];
    return log_sigmoid(z);
}

/* x[n, n_embd] from a position on; states[n, N_HEAD * PARTS]. */
static void observe(const struct locus_position *position, int layer, const float *x, int first,
                    int n, float *states)
{
    const struct locus_observe_op op = {
        .layer = layer, .x = x, .first_position = first, .n = n, .token_states = states};
    locus_position_observe(position, &op);
}

/* A head's biases for the query `at` against n_k keys up to it: scores[n_k]. */
static void fox_row(const struct locus_position *position, int head, int at, int n_k,
                    const float *states, float *scores)
{
    const int first = at + 1 - n_k, width = N_HEAD * PARTS;
    const struct locus_bias_op op = {.head = head,
                                     .q_position = at,
                                     .n_k = n_k,
                                     .k_first = first,
                                     .scores = scores,
                                     .q_token_state = states + (ptrdiff_t)at * width,
                                     .k_token_states = states + (ptrdiff_t)first * width};
    memset(scores, 0, (size_t)n_k * sizeof *scores);
    locus_position_bias(position, &op);
}

START_TEST(fox_adds_the_logarithms_of_the_gates_between)
{
    enum { WIDTH = N_HEAD * PARTS };
    static float weight[N_LAYER][N_HEAD * N_EMBD], own[N_LAYER][N_HEAD], x[N * N_EMBD];
    static float states[(N + 1) * WIDTH], parts[(N + 1) * WIDTH];
    for (unsigned layer = 0; layer < N_LAYER; layer++) {
        position_random(weight[layer], N_HEAD * N_EMBD, 0.3F, layer + 1);
        position_random(own[layer], N_HEAD, 4, layer + 3);
    }
    position_random(x, N * N_EMBD, 2, 5);
    const struct fake_checkpoint checkpoint = {
        {{"blk.0.position_fox.weight", N_HEAD, N_EMBD, weight[0]},
         {"blk.0.position_fox.bias", 1, N_HEAD, own[0]},
         {"blk.1.position_fox.weight", N_HEAD, N_EMBD, weight[1]},
         {"blk.1.position_fox.bias", 1, N_HEAD, own[1]}}};
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position position = position_open(&env, "fox");
    ck_assert_int_eq(position.layer_floats, WIDTH);
    for (int layer = 0; layer < N_LAYER; layer++) {
        observe(&position, layer, x, 0, N, states + WIDTH);
        for (int first = 0, n = 1; first < N; first += n, n = first + 3 < N ? 3 : N - first)
            observe(&position, layer, x + (ptrdiff_t)first * N_EMBD, first, n,
                    parts + (ptrdiff_t)(first + 1) * WIDTH);
        ck_assert(memcmp(states, parts, sizeof states) == 0);
        for (int head = 0; head < N_HEAD; head++) {
            float scores[N];
            double sum = 0;
            fox_row(&position, head, N - 1, N, states + WIDTH, scores);
            for (int j = N - 1; j >= 0; j--) {
                position_near((double)scores[j], sum, 2e-6, "fox", j);
                sum += log_gate(weight[layer] + (ptrdiff_t)head * N_EMBD, own[layer][head],
                                x + (ptrdiff_t)j * N_EMBD);
            }
        }
    }
    locus_position_free(&position);
}
END_TEST

/* Gates of 0.02 to 0.999..., by the biases alone, of hundreds of thousands of tokens before. */
START_TEST(fox_tells_near_gates_apart_at_great_depth)
{
    enum { DEPTH = 200000, WIDTH = N_HEAD * PARTS, NEAR = 60 };
    static const float own[N_HEAD] = {-4, 0, 4, 9};
    static float weight[N_HEAD * N_EMBD];
    float *x = calloc(DEPTH, N_EMBD * sizeof *x), *states = calloc(DEPTH + 1, WIDTH * sizeof *x);
    ck_assert(x && states);
    for (int head = 0; head < N_HEAD; head++)
        weight[head * N_EMBD] = 1;
    for (int i = 0; i < DEPTH; i++)
        x[(ptrdiff_t)i * N_EMBD] = (float)(i % 7 - 3) * 0.3F;
    const struct fake_checkpoint checkpoint = {
        {{"position_fox.weight", N_HEAD, N_EMBD, weight}, {"position_fox.bias", 1, N_HEAD, own}}};
    struct locus_position_env env = position_env(&checkpoint);
    env.session_length = DEPTH;
    struct locus_position position = position_open(&env, "fox");
    observe(&position, 0, x, 0, DEPTH, states + WIDTH);
    double one_float = 0; /* the largest error of a running sum in one float */
    for (int head = 0; head < N_HEAD; head++) {
        float scores[NEAR], sums[DEPTH], sum = 0;
        for (int i = 0; i < DEPTH; i++)
            sums[i] = sum += (float)log_gate(weight + (ptrdiff_t)head * N_EMBD, own[head],
                                             x + (ptrdiff_t)i * N_EMBD);
        double expected = 0;
        fox_row(&position, head, DEPTH - 1, NEAR, states + WIDTH, scores);
        for (int j = NEAR - 1, at = DEPTH - 1; j >= 0; j--, at--) {
            ck_assert_double_le(fabs((double)scores[j] - expected), 1e-6 * fabs(expected) + 1e-8);
            one_float = fmax(one_float, fabs((double)(sums[DEPTH - 1] - sums[at]) - expected));
            expected +=
                log_gate(weight + (ptrdiff_t)head * N_EMBD, own[head], x + (ptrdiff_t)at * N_EMBD);
        }
    }
    ck_assert_double_gt(one_float, 0.01);
    locus_position_free(&position);
    free(x);
    free(states);
}
END_TEST

/* Far from 0 on either side: a gate that is shut, one that is open, one that is no number. */
START_TEST(fox_takes_any_logit)
{
    enum { WIDTH = N_HEAD * PARTS };
    static const float own[N_HEAD] = {-1e30F, 1e30F, -800, NAN};
    static float weight[N_HEAD * N_EMBD], x[2 * N_EMBD], states[3 * WIDTH];
    const struct fake_checkpoint checkpoint = {
        {{"position_fox.weight", N_HEAD, N_EMBD, weight}, {"position_fox.bias", 1, N_HEAD, own}}};
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position position = position_open(&env, "fox");
    observe(&position, 0, x, 0, 2, states + WIDTH);
    const float expected[N_HEAD] = {-1e30F, 0, -800, NAN};
    for (int head = 0; head < N_HEAD; head++) {
        float scores[2];
        fox_row(&position, head, 1, 2, states + WIDTH, scores);
        ck_assert(isnan(expected[head]) ? isnan(scores[0]) : scores[0] == expected[head]);
    }
    locus_position_free(&position);
}
END_TEST

/* ---- DAPE --------------------------------------------------------------------------------- */

struct network {
    float w1[UNITS * 2 * N_HEAD], b1[UNITS], w2[N_HEAD * UNITS], b2[N_HEAD];
};

/* All heads' scores of a query at i and n_k keys from `first` on, through the hook: scores
 * [N_HEAD, stride]. */
static void dape_row(const struct locus_position *position, int layer, int i, int first, int n_k,
                     float *scores, int stride)
{
    static const float q[N_HEAD * HEAD_DIM];
    float *scratch = calloc(locus_position_scratch_floats(position, n_k), sizeof *scratch);
    ck_assert_ptr_nonnull(scratch);
    const struct locus_bias_op op = {.layer = layer,
                                     .q = q,
                                     .q_stride = HEAD_DIM,
                                     .q_position = i,
                                     .n_k = n_k,
                                     .k_first = first,
                                     .scores = scores,
                                     .scores_stride = (size_t)stride,
                                     .scratch = scratch};
    locus_position_bias(position, &op);
    free(scratch);
}

START_TEST(dape_is_its_network_of_all_heads)
{
    const bool alibi = _i == 1;
    static struct network networks[N_LAYER];
    static const float p[N_HEAD] = {1.3F, 0.4F, 0.001F, 2.5F}, a[N_HEAD] = {0.7F, 0.002F, 1, 0.1F};
    static float before[N_HEAD * N], scores[N_HEAD * N], slices[N_HEAD * N];
    for (unsigned layer = 0; layer < N_LAYER; layer++)
        position_random(networks[layer].w1, sizeof *networks / sizeof(float), 1, layer + 1);
    position_random(before, N_HEAD * N, 3, 4);
    struct network *one = &networks[0], *two = &networks[1];
    const struct fake_checkpoint checkpoint = {
        {{"position_kerple.p", 1, N_HEAD, p},
         {"position_kerple.a", 1, N_HEAD, a},
         {"blk.0.position_dape.fc1.weight", UNITS, 2 * N_HEAD, one->w1},
         {"blk.0.position_dape.fc1.bias", 1, UNITS, one->b1},
         {"blk.0.position_dape.fc2.weight", N_HEAD, UNITS, one->w2},
         {"blk.0.position_dape.fc2.bias", 1, N_HEAD, one->b2},
         {"blk.1.position_dape.fc1.weight", UNITS, 2 * N_HEAD, two->w1},
         {"blk.1.position_dape.fc1.bias", 1, UNITS, two->b1},
         {"blk.1.position_dape.fc2.weight", N_HEAD, UNITS, two->w2},
         {"blk.1.position_dape.fc2.bias", 1, N_HEAD, two->b2}}};
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position position = position_open(&env, alibi ? "dape:over=alibi" : "dape");
    for (int layer = 0; layer < N_LAYER; layer++) {
        const struct network *network = &networks[layer];
        memcpy(scores, before, sizeof scores);
        memcpy(slices, before, sizeof slices);
        dape_row(&position, layer, N - 1, 0, N, scores, N);
        for (int first = 0, n = 1; first < N; first += n, n = first + 17 < N ? 17 : N - first)
            dape_row(&position, layer, N - 1, first, n, slices + first, N);
        ck_assert_msg(memcmp(scores, slices, sizeof scores) == 0, "slices differ from a row");
        for (int j = 0; j < N; j++) {
            double in[2 * N_HEAD], out[N_HEAD];
            for (int h = 0; h < N_HEAD; h++) {
                const int distance = N - 1 - j;
                in[h] = (double)before[h * N + j];
                in[N_HEAD + h] =
                    alibi ? -pow(2, -2 * (h + 1)) * distance
                          : -fmax((double)p[h], 0.01) * log1p(fmax((double)a[h], 0.01) * distance);
                out[h] = in[h] + in[N_HEAD + h] + (double)network->b2[h];
            }
            for (int u = 0; u < UNITS; u++) {
                double unit = (double)network->b1[u];
                for (int c = 0; c < 2 * N_HEAD; c++)
                    unit += (double)network->w1[u * 2 * N_HEAD + c] * in[c];
                for (int h = 0; h < N_HEAD; h++)
                    out[h] += (double)network->w2[h * UNITS + u] * (unit < 0 ? unit / 100 : unit);
            }
            for (int h = 0; h < N_HEAD; h++)
                position_near((double)scores[h * N + j], out[h], 2e-6, "dape", j);
        }
    }
    locus_position_free(&position);
}
END_TEST

/* ---- PaTH --------------------------------------------------------------------------------- */

enum { KV = 2, RANK = 5, WIDTH = KV * HEAD_DIM, STATE = 4 * WIDTH + KV };

struct turns {
    float down[RANK * N_EMBD], up[WIDTH * RANK], conv[WIDTH * 3], gate[KV * N_EMBD], bias[KV];
};

static double product(const float *row, const float *x, int n)
{
    double sum = 0;
    for (int c = 0; c < n; c++)
        sum += (double)row[c] * (double)x[c];
    return sum;
}

/* A token's projection, zero before the first. */
static double projected(const struct turns *turns, const float *x, int token, int c)
{
    double sum = 0;
    for (int r = 0; r < RANK && token >= 0; r++)
        sum += (double)turns->up[c * RANK + r] *
               product(turns->down + (ptrdiff_t)r * N_EMBD, x + (ptrdiff_t)token * N_EMBD, N_EMBD);
    return sum;
}

/* k[HEAD_DIM] after the turn of a token. */
static void turn_key(const struct turns *turns, const float *x, int token, int kv, double *k)
{
    double w[HEAD_DIM], square = 1e-6, dot = 0;
    const double beta = 2 / (1 + exp(-product(turns->gate + (ptrdiff_t)kv * N_EMBD,
                                              x + (ptrdiff_t)token * N_EMBD, N_EMBD) -
                                     (double)turns->bias[kv]));
    for (int d = 0; d < HEAD_DIM; d++) {
        const int c = kv * HEAD_DIM + d;
        double sum = 0;
        for (int tap = 0; tap < 3; tap++)
            sum += (double)turns->conv[c * 3 + tap] * projected(turns, x, token + tap - 2, c);
        w[d] = sum / (1 + exp(-sum));
        square += w[d] * w[d];
    }
    for (int d = 0; d < HEAD_DIM; d++)
        dot += w[d] * k[d] / square;
    for (int d = 0; d < HEAD_DIM; d++)
        k[d] -= beta * dot * w[d];
}

/* Keys[n, WIDTH] through the hook, which keeps them, in two chunks where `cut` > 0. */
static void keep_keys(const struct locus_position *position, const float *x, const float *keys,
                      int n, int cut, float *states)
{
    float rows[N * WIDTH];
    int positions[N];
    memcpy(rows, keys, sizeof rows);
    for (int i = 0; i < n; i++)
        positions[i] = i;
    for (int first = 0, end = cut; first < n; first = end, end = n) {
        if (end <= first) continue;
        observe(position, 1, x + (ptrdiff_t)first * N_EMBD, first, end - first,
                states + (ptrdiff_t)first * STATE);
        const struct locus_rotate_op op = {.layer = 1,
                                           .which = LOCUS_KEY,
                                           .rows = rows + (ptrdiff_t)first * WIDTH,
                                           .n = end - first,
                                           .n_heads = KV,
                                           .positions = positions + first,
                                           .token_states = states + (ptrdiff_t)first * STATE};
        locus_position_rotate(position, &op);
    }
    ck_assert_msg(memcmp(rows, keys, sizeof rows) == 0, "keys are changed");
}

START_TEST(path_turns_keys_by_each_token_after_them)
{
    static struct turns turns;
    static float x[N * N_EMBD], keys[N * WIDTH], q[N_HEAD * HEAD_DIM];
    static float states[(N + 1) * STATE], parts[(N + 1) * STATE];
    position_random(turns.down, sizeof turns / sizeof(float), 0.5F, 1);
    position_random(x, N * N_EMBD, 1, 2);
    position_random(keys, N * WIDTH, 1, 3);
    position_random(q, N_HEAD * HEAD_DIM, 1, 4);
    const struct fake_checkpoint checkpoint = {
        {{"position_path.down.weight", RANK, N_EMBD, turns.down},
         {"position_path.up.weight", WIDTH, RANK, turns.up},
         {"position_path.conv.weight", WIDTH, 3, turns.conv},
         {"position_path.beta.weight", KV, N_EMBD, turns.gate},
         {"position_path.beta.bias", 1, KV, turns.bias}}};
    struct locus_position_env env = position_env(&checkpoint);
    env.n_head_kv = KV;
    struct locus_position position = position_open(&env, "path");
    ck_assert_int_eq(position.layer_floats, STATE);
    keep_keys(&position, x, keys, N, N, states + STATE);
    keep_keys(&position, x, keys, N, 13, parts + STATE);
    ck_assert(memcmp(states, parts, sizeof states) == 0);
    for (int head = 0; head < N_HEAD; head++) {
        const int kv = head / (N_HEAD / KV), last = N - 1;
        const float *own = q + (ptrdiff_t)head * HEAD_DIM;
        float scores[N] = {0}, scratch[2 * HEAD_DIM];
        ck_assert_uint_le(locus_position_scratch_floats(&position, N), 2 * HEAD_DIM);
        const struct locus_bias_op op = {.layer = 1,
                                         .head = head,
                                         .q = own,
                                         .q_position = last,
                                         .n_k = N,
                                         .scores = scores,
                                         .scratch = scratch,
                                         .q_token_state = states + (ptrdiff_t)N * STATE,
                                         .k_token_states = states + STATE};
        locus_position_bias(&position, &op);
        for (int j = 0; j < N; j++) {
            double k[HEAD_DIM], before = 0, after = 0;
            for (int d = 0; d < HEAD_DIM; d++) {
                k[d] = (double)keys[j * WIDTH + kv * HEAD_DIM + d];
                before += (double)own[d] * k[d];
            }
            for (int token = j + 1; token <= last; token++)
                turn_key(&turns, x, token, kv, k);
            for (int d = 0; d < HEAD_DIM; d++)
                after += (double)own[d] * k[d];
            position_near((double)scores[j], (after - before) / sqrt(HEAD_DIM), 2e-6, "path", j);
        }
    }
    locus_position_free(&position);
}
END_TEST

/* ---- refusals ----------------------------------------------------------------------------- */

START_TEST(missing_and_wrong_tensors_are_named)
{
    static const float values[N_HEAD * N_EMBD];
    const struct fake_checkpoint checkpoint = {
        {{"position_fox.weight", N_HEAD, N_EMBD + 1, values},
         {"position_path.down.weight", RANK, N_EMBD, values},
         {"position_path.up.weight", N_HEAD * HEAD_DIM, RANK + 1, values},
         {"position_dape.fc1.weight", UNITS, 2 * N_HEAD, values},
         {"position_dape.fc1.bias", 1, UNITS, values},
         {"position_dape.fc2.weight", N_HEAD, UNITS + 1, values}}};
    struct locus_position_env env = position_env(&checkpoint), bare = position_env(NULL);
    position_refused(&bare, "fox", "no tensor position_fox.weight or blk.0.position_fox.weight");
    position_refused(&env, "fox", "position_fox.weight is [4, 33]; expected [4, 32]");
    position_refused(&bare, "path", "no tensor position_path.down.weight");
    position_refused(&env, "path", "position_path.up.weight is [32, 6]; expected [32, 5]");
    position_refused(&bare, "dape", "no tensor position_kerple.p or blk.0.position_kerple.p");
    position_refused(&bare, "dape:over=fire", "no tensor position_fire.c");
    position_refused(&bare, "dape:over=alibi", "no tensor position_dape.fc1.weight");
    position_refused(&env, "dape:over=alibi",
                     "position_dape.fc2.weight is [4, 6]; expected [4, 5]");
    position_refused(&env, "dape:over=rope", "over is 'rope'; expected one of kerple|alibi|fire");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gates");
    TCase *tests = tcase_create("of the text");
    tcase_add_test(tests, fox_adds_the_logarithms_of_the_gates_between);
    tcase_add_test(tests, fox_tells_near_gates_apart_at_great_depth);
    tcase_add_test(tests, fox_takes_any_logit);
    tcase_add_loop_test(tests, dape_is_its_network_of_all_heads, 0, 2);
    tcase_add_test(tests, path_turns_keys_by_each_token_after_them);
    tcase_add_test(tests, missing_and_wrong_tensors_are_named);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
