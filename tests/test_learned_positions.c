/* Formulas of the position schemes with networks and tables of their own (FIRE, Transformer-XL,
 * CoPE, the GRU), through their hooks, against the papers' formulas written out plainly in double.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "position_testing.h"
#include "testing.h"

enum { N_EMBD = 32, N_HEAD = 4, HEAD_DIM = 8, N = 64, N_LAYER = 2 };

static const float no_query[HEAD_DIM];

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

START_TEST(gates_are_the_logistic_function)
{
    for (float x = -80; x < 80; x += 0.0137F) {
        double expected = sigmoid((double)x);
        ck_assert_double_le(fabs((double)locus_sigmoid(x) - expected), 3e-7 * expected);
        ck_assert_double_le(fabs((double)locus_gate_tanh(x) - tanh((double)x)), 5e-7);
    }
    ck_assert(locus_sigmoid(0) == 0.5F && locus_sigmoid(HUGE_VALF) == 1);
    ck_assert(locus_sigmoid(-HUGE_VALF) < 1e-37F && isnan(locus_sigmoid(NAN)));
}
END_TEST

/* ---- FIRE --------------------------------------------------------------------------------- */

enum { WIDTH = 12 };

static double fire_x(double c, double threshold, double eps, int i, int j)
{
    return log(fabs(c * (i - j)) + 1) / (log(fabs(c * fmax(threshold, i)) + 1) + eps);
}

START_TEST(fire_sees_the_known_inputs)
{
    /* One hidden unit that passes x on. */
    static const float one = 1, c = 0.1F, threshold = 512;
    static const float heads[N_HEAD] = {1, 2, -1, 0.5F}, zeros[N_HEAD];
    const struct fake_checkpoint checkpoint = {{{"position_fire.c", 1, 1, &c},
                                                {"position_fire.threshold", 1, 1, &threshold},
                                                {"position_fire.fc1.weight", 1, 1, &one},
                                                {"position_fire.fc1.bias", 1, 1, zeros},
                                                {"position_fire.fc2.weight", N_HEAD, 1, heads},
                                                {"position_fire.fc2.bias", 1, N_HEAD, zeros}}};
    struct locus_position_env env = position_env(&checkpoint);
    env.session_length = 1024;
    struct locus_position position = position_open(&env, "fire");
    static const struct known {
        int i, j;
        double x;
    } known[] = {{400, 390, 0.1753}, {1000, 990, 0.1502}, {1000, 1000, 0}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        for (int h = 0; h < N_HEAD; h++) {
            float score = 0;
            const struct locus_bias_op op = {.layer = 1,
                                             .head = h,
                                             .q = no_query,
                                             .q_position = known[k].i,
                                             .n_k = 1,
                                             .k_first = known[k].j,
                                             .scores = &score};
            locus_position_bias(&position, &op);
            ck_assert_double_le(fabs((double)score - (double)heads[h] * known[k].x), 1e-4);
        }
    locus_position_free(&position);
}
END_TEST

START_TEST(fire_is_its_network)
{
    float w1[WIDTH], b1[WIDTH], w2[N_HEAD * WIDTH], b2[N_HEAD], c = -0.3F, threshold = 20;
    float b1_of_layer[WIDTH];
    position_random(w1, WIDTH, 3, 1);
    position_random(b1, WIDTH, 1, 2);
    position_random(w2, N_HEAD * WIDTH, 2, 3);
    position_random(b2, N_HEAD, 1, 4);
    position_random(b1_of_layer, WIDTH, 1, 5);
    w1[3] = 0; /* a unit without a corner, */
    b1[3] = 1; /* and always on */
    const struct fake_checkpoint checkpoint = {
        {{"position_fire.c", 1, 1, &c},
         {"position_fire.threshold", 1, 1, &threshold},
         {"position_fire.fc1.weight", WIDTH, 1, w1},
         {"position_fire.fc1.bias", 1, WIDTH, b1},
         {"position_fire.fc2.weight", N_HEAD, WIDTH, w2},
         {"position_fire.fc2.bias", 1, N_HEAD, b2},
         {"blk.1.position_fire.fc1.bias", 1, WIDTH, b1_of_layer}}};
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position position = position_open(&env, "fire:eps=0.001");
    float scores[N];
    for (int layer = 0; layer < N_LAYER; layer++)
        for (int h = 0; h < N_HEAD; h++)
            for (int i = 0; i < N; i++) {
                position_bias_row(&position, layer, h, no_query, i, scores);
                for (int j = 0; j <= i; j++) {
                    double x = fire_x((double)c, 20, 0.001, i, j), expected = (double)b2[h];
                    for (int n = 0; n < WIDTH; n++)
                        expected +=
                            (double)w2[h * WIDTH + n] *
                            fmax(0, (double)w1[n] * x + (double)(layer ? b1_of_layer : b1)[n]);
                    position_near((double)scores[j], expected, 2e-6, "fire", j);
                }
            }
    locus_position_free(&position);
}
END_TEST

/* ---- Transformer-XL ----------------------------------------------------------------------- */

/* ((q + u).k + (q + v).(W_r R_distance)) scale, written out. */
static double xl_score(const float *q, const float *k, const float *u, const float *v,
                       const float *w_r, int n_embd, int distance)
{
    double sum = 0;
    for (int d = 0; d < HEAD_DIM; d++) {
        double projected = 0;
        for (int c = 0; c < n_embd / 2; c++) {
            double angle = distance * pow(10000, -2.0 * c / n_embd);
            projected += (double)w_r[d * n_embd + c] * sin(angle);
            projected += (double)w_r[d * n_embd + n_embd / 2 + c] * cos(angle);
        }
        sum += ((double)q[d] + (double)u[d]) * (double)k[d];
        sum += ((double)q[d] + (double)v[d]) * projected;
    }
    return sum / sqrt(HEAD_DIM);
}

static const struct xl_case {
    const char *spec;
    int n_embd, clamp;
} xl_cases[] = {{"transformer-xl", N_EMBD, N}, {"transformer-xl:clamp=10", N_EMBD - 1, 10}};

START_TEST(transformer_xl_scores_are_the_papers)
{
    const struct xl_case *which = &xl_cases[_i];
    const int n_embd = which->n_embd, rows = N_HEAD * HEAD_DIM;
    float u[N_HEAD * HEAD_DIM], v[N_HEAD * HEAD_DIM], v1[N_HEAD * HEAD_DIM];
    float w_r[N_LAYER][N_HEAD * HEAD_DIM * N_EMBD], raw[N_HEAD * HEAD_DIM], k[HEAD_DIM];
    position_random(u, rows, 1, 1);
    position_random(v, rows, 1, 2);
    position_random(v1, rows, 1, 3);
    position_random(w_r[0], rows * n_embd, 1, 4);
    position_random(w_r[1], rows * n_embd, 1, 5);
    position_random(raw, rows, 1, 6);
    position_random(k, HEAD_DIM, 1, 7);
    const struct fake_checkpoint checkpoint = {{{"position_u", N_HEAD, HEAD_DIM, u},
                                                {"position_v", N_HEAD, HEAD_DIM, v},
                                                {"blk.1.position_v", N_HEAD, HEAD_DIM, v1},
                                                {"blk.0.position_r.weight", rows, n_embd, w_r[0]},
                                                {"blk.1.position_r.weight", rows, n_embd, w_r[1]}}};
    struct locus_position_env env = position_env(&checkpoint);
    env.n_embd = n_embd;
    struct locus_position position = position_open(&env, which->spec);
    for (int layer = 0; layer < N_LAYER; layer++) {
        float q[N_HEAD * HEAD_DIM], key[HEAD_DIM], scores[N];
        int i = N - 1;
        memcpy(q, raw, sizeof q);
        memcpy(key, k, sizeof key);
        position_rotate(&position, layer, LOCUS_QUERY, q, N_HEAD, i, 0);
        position_rotate(&position, layer, LOCUS_KEY, key, 1, i, 0);
        ck_assert(memcmp(key, k, sizeof key) == 0);
        for (int h = 0; h < N_HEAD; h++) {
            const float *own = q + (ptrdiff_t)h * HEAD_DIM;
            position_bias_row(&position, layer, h, own, i, scores);
            double product = 0;
            for (int d = 0; d < HEAD_DIM; d++)
                product += (double)own[d] * (double)k[d];
            for (int j = 0; j < N; j++) {
                int distance = i - j < which->clamp ? i - j : which->clamp;
                double expected =
                    xl_score(raw + (ptrdiff_t)h * HEAD_DIM, k, u + (ptrdiff_t)h * HEAD_DIM,
                             (layer ? v1 : v) + (ptrdiff_t)h * HEAD_DIM,
                             w_r[layer] + (ptrdiff_t)h * HEAD_DIM * n_embd, n_embd, distance);
                position_near(product / sqrt(HEAD_DIM) + (double)scores[j], expected, 2e-6, "score",
                              j);
            }
        }
    }
    locus_position_free(&position);
}
END_TEST

/* ---- CoPE --------------------------------------------------------------------------------- */

enum { N_POSITIONS = 12 };

START_TEST(cope_counts_gates_from_the_query_back)
{
    const bool raw = _i == 1;
    float table[N_LAYER][N_POSITIONS * HEAD_DIM], q[HEAD_DIM], before[N], scores[N];
    float scratch[N + N_POSITIONS];
    for (unsigned layer = 0; layer < N_LAYER; layer++)
        position_random(table[layer], N_POSITIONS * HEAD_DIM, 1, layer + 1);
    position_random(q, HEAD_DIM, 1, 3);
    position_random(before, N, 3, 4);
    before[N - 2] = -30; /* a gate all but shut: a position just above a whole one */
    const struct fake_checkpoint checkpoint = {
        {{"blk.0.position_cope.weight", N_POSITIONS, HEAD_DIM, table[0]},
         {"blk.1.position_cope.weight", N_POSITIONS, HEAD_DIM, table[1]}}};
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position position = position_open(&env, raw ? "cope:gate=raw" : "cope");
    ck_assert_uint_le(locus_position_scratch_floats(&position, N), N + N_POSITIONS);
    for (int layer = 0; layer < N_LAYER; layer++)
        for (int n = 1; n <= N; n++) {
            memcpy(scores, before, sizeof scores);
            const struct locus_bias_op op = {.layer = layer,
                                             .head = 2,
                                             .q = q,
                                             .q_position = n - 1,
                                             .n_k = n,
                                             .scores = scores,
                                             .scratch = scratch};
            locus_position_bias(&position, &op);
            double p = 0;
            for (int j = n - 1; j >= 0; j--) {
                p += sigmoid((double)before[j] * (raw ? sqrt(HEAD_DIM) : 1));
                double at = fmin(p, N_POSITIONS - 1), low = 0, high = 0;
                for (int d = 0; d < HEAD_DIM; d++) {
                    low += (double)q[d] * (double)table[layer][(int)floor(at) * HEAD_DIM + d];
                    high += (double)q[d] * (double)table[layer][(int)ceil(at) * HEAD_DIM + d];
                }
                double w = at - floor(at);
                position_near((double)scores[j], (double)before[j] + (1 - w) * low + w * high, 2e-5,
                              "cope", j);
            }
        }
    locus_position_free(&position);
}
END_TEST

/* ---- the GRU ------------------------------------------------------------------------------ */

struct gru_weights {
    float ih[3 * N_EMBD * N_EMBD], hh[3 * N_EMBD * N_EMBD], bias_ih[3 * N_EMBD],
        bias_hh[3 * N_EMBD];
};

static double affine(const float *weight, const float *bias, int row, int n, const double *x)
{
    double sum = (double)bias[row];
    for (int c = 0; c < n; c++)
        sum += (double)weight[row * n + c] * x[c];
    return sum;
}

static void gru_step(const struct gru_weights *w, int n, const double *e, double *p)
{
    double next[N_EMBD];
    for (int c = 0; c < n; c++) {
        double r = sigmoid(affine(w->ih, w->bias_ih, c, n, e) + affine(w->hh, w->bias_hh, c, n, p));
        double z = sigmoid(affine(w->ih, w->bias_ih, n + c, n, e) +
                           affine(w->hh, w->bias_hh, n + c, n, p));
        double new = tanh(affine(w->ih, w->bias_ih, 2 * n + c, n, e) +
                          r * affine(w->hh, w->bias_hh, 2 * n + c, n, p));
        next[c] = (1 - z) * new + z *p[c];
    }
    memcpy(p, next, (size_t)n * sizeof *p);
}

START_TEST(recurrent_adds_the_state_of_a_gru)
{
    const int n = _i == 0 ? N_EMBD : 21; /* whole panels, and not */
    static struct gru_weights w;
    position_random(w.ih, 3 * n * n, 0.5F, 1);
    position_random(w.hh, 3 * n * n, 0.5F, 2);
    position_random(w.bias_ih, 3 * n, 0.5F, 3);
    position_random(w.bias_hh, 3 * n, 0.5F, 4);
    const struct fake_checkpoint checkpoint = {{{"position_gru.weight_ih", 3 * n, n, w.ih},
                                                {"position_gru.weight_hh", 3 * n, n, w.hh},
                                                {"position_gru.bias_ih", 1, 3 * n, w.bias_ih},
                                                {"position_gru.bias_hh", 1, 3 * n, w.bias_hh}}};
    struct locus_position_env env = position_env(&checkpoint);
    env.n_embd = n;
    struct locus_position position = position_open(&env, "recurrent");
    ck_assert_int_eq(position.embed_floats, n);
    float tokens[N * N_EMBD], whole[N * N_EMBD], parts[N * N_EMBD];
    float kept[(N + 1) * N_EMBD] = {0}, kept_parts[(N + 1) * N_EMBD] = {0};
    position_random(tokens, N * n, 1, 5);
    memcpy(whole, tokens, sizeof whole);
    memcpy(parts, tokens, sizeof parts);
    position_embed(&position, whole, 0, N, kept + n);
    double p[N_EMBD] = {0}, e[N_EMBD];
    for (int t = 0; t < N; t++) {
        for (int c = 0; c < n; c++)
            e[c] = (double)tokens[t * n + c];
        gru_step(&w, n, e, p);
        for (int c = 0; c < n; c++)
            position_near((double)whole[t * n + c], e[c] + p[c], 2e-6, "state", t);
    }
    /* In chunks, the kept row before each carries the state: the same bits. */
    for (int t = 0, chunk = 1; t < N; t += chunk, chunk = 3)
        position_embed(&position, parts + (ptrdiff_t)t * n, t, t + chunk < N ? chunk : N - t,
                       kept_parts + (ptrdiff_t)(t + 1) * n);
    ck_assert(memcmp(whole, parts, (size_t)(N * n) * sizeof *parts) == 0);
    locus_position_free(&position);
}
END_TEST

/* ---- a stretched table -------------------------------------------------------------------- */

/* Rows spread evenly over the session, as PyTorch's interpolate(mode="linear") resamples a table:
 * the first and the last on its ends (align_corners=True), or each with a centre (False). */
START_TEST(a_stretched_table_has_the_length_of_the_session)
{
    const bool resized = _i == 1;
    enum { ROWS = 19, MOST = 400 };
    static const int lengths[] = {1, 2, 16, 17, 18, 19, 20, 33, 34, 35, 50, 123, 256, 399, 400};
    static float table[ROWS * N_EMBD], x[MOST * N_EMBD];
    position_random(table, ROWS * N_EMBD, 1, 1);
    const struct fake_checkpoint checkpoint = {{{"position_embd.weight", ROWS, N_EMBD, table}}};
    struct locus_position_env env = position_env(&checkpoint);
    for (int offset = 0; offset <= 2; offset += 2)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const int n = env.session_length = lengths[i], last = ROWS - offset - 1;
            char spec[64];
            snprintf(spec, sizeof spec, "learned:beyond=%s,factor=auto,offset=%d",
                     resized ? "resize" : "interpolate", offset);
            struct locus_position position = position_open(&env, spec);
            ck_assert_int_ge(locus_position_max_positions(&position), n);
            if (n > last + 1) ck_assert_int_eq(locus_position_max_positions(&position), n);
            memset(x, 0, sizeof x);
            const struct locus_embed_op op = {.x = x, .n = n};
            locus_position_embed(&position, &op);
            for (int p = 0; p < n; p++) {
                const double centred = (p + 0.5) * (last + 1) / n - 0.5;
                const double at = n - 1 <= last ? p
                                  : resized     ? fmin(fmax(centred, 0), last)
                                                : (double)p * last / (n - 1);
                const int row = at < last ? (int)at : last, next = row < last ? row + 1 : last;
                for (int d = 0; d < N_EMBD; d++) {
                    const double a = (double)table[(offset + row) * N_EMBD + d];
                    const double b = (double)table[(offset + next) * N_EMBD + d];
                    position_near((double)x[p * N_EMBD + d], a + (at - row) * (b - a), 1e-6, spec,
                                  p);
                }
            }
            locus_position_free(&position);
        }
    env.session_length = 40;
    position_refused(&env, "learned:beyond=wrap,factor=auto", "expected beyond=interpolate");
    position_refused(&env, "learned:beyond=clamp,factor=auto",
                     "expected beyond=interpolate or resize");
}
END_TEST

/* ---- refusals ----------------------------------------------------------------------------- */

START_TEST(missing_and_wrong_tensors_are_named)
{
    static const float values[3 * N_EMBD * N_EMBD];
    const struct fake_checkpoint checkpoint = {
        {{"position_u", N_HEAD, HEAD_DIM, values},
         {"position_v", N_HEAD, HEAD_DIM, values},
         {"position_r.weight", N_EMBD, N_EMBD + 1, values},
         {"position_cope.weight", 4, HEAD_DIM + 1, values},
         {"position_gru.weight_ih", 3 * N_EMBD, N_EMBD, values},
         {"position_gru.weight_hh", 2 * N_EMBD, N_EMBD, values},
         {"position_fire.c", 1, 1, values},
         {"position_fire.threshold", 1, 1, values},
         {"position_fire.fc1.weight", 4, 1, values},
         {"position_fire.fc1.bias", 1, 5, values}}};
    struct locus_position_env env = position_env(&checkpoint), bare = position_env(NULL);
    position_refused(&bare, "fire", "position_fire.c or blk.0.position_fire.c; expected [1, 1]");
    position_refused(&env, "fire", "position_fire.fc1.bias is [1, 5]; expected [1, 4]");
    position_refused(&bare, "transformer-xl", "no tensor position_u or blk.0.position_u");
    position_refused(&env, "transformer-xl", "position_r.weight is [32, 33]; expected [32, 32]");
    position_refused(&bare, "cope", "no tensor position_cope.weight or blk.0.position_cope.weight");
    position_refused(&env, "cope", "position_cope.weight is [4, 9]; expected [rows, 8]");
    position_refused(&bare, "recurrent", "no tensor position_gru.weight_ih; expected [96, 32]");
    position_refused(&env, "recurrent", "position_gru.weight_hh is [64, 32]; expected [96, 32]");
    position_refused(&bare, "learned", "no tensor position_embd.weight");
    position_refused(&bare, "sinusoidal:denominator=fairseq,factor=0", "factor is '0'");
    env.n_embd = 3;
    position_refused(&env, "sinusoidal:layout=concat,denominator=fairseq", "expected 4 or more");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("learned positions");
    TCase *tests = tcase_create("networks");
    tcase_add_test(tests, gates_are_the_logistic_function);
    tcase_add_test(tests, fire_sees_the_known_inputs);
    tcase_add_test(tests, fire_is_its_network);
    tcase_add_loop_test(tests, transformer_xl_scores_are_the_papers, 0, 2);
    tcase_add_loop_test(tests, cope_counts_gates_from_the_query_back, 0, 2);
    tcase_add_loop_test(tests, recurrent_adds_the_state_of_a_gru, 0, 2);
    tcase_add_loop_test(tests, a_stretched_table_has_the_length_of_the_session, 0, 2);
    tcase_add_test(tests, missing_and_wrong_tensors_are_named);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
