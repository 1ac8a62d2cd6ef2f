/* What the forward pass promises a scheme's hooks: schemes made for the test, which check their
 * arguments, or say one thing in two ways.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "locus_position.h"
#include "testing.h"
#include "tiny.h"

enum { N = 150, WINDOW = 70, SHIFT = 5000 };

/* ---- schemes ------------------------------------------------------------------------------ */

/* Scores times 1 + (i - j)/100: by keys relative to their query ... */
static void scale_keys(const void *state, const struct locus_rotate_op *op)
{
    float *rows = op->rows;
    (void)state;
    ck_assert_int_eq(op->n_heads, op->which == LOCUS_KEY ? TINY_HEADS_KV : TINY_HEADS);
    if (op->which == LOCUS_QUERY) return;
    for (int i = 0; i < op->n; i++) {
        ck_assert_int_ge(op->origin, op->positions[i]);
        for (int d = 0; d < op->n_heads * TINY_HEAD_DIM; d++)
            *rows++ *= 1 + 0.01f * (float)(op->origin - op->positions[i]);
    }
}

static enum locus_frame of_query(const void *state)
{
    (void)state;
    return LOCUS_FRAME_QUERY;
}

static const struct locus_position_scheme by_query = {.abi = LOCUS_POSITION_ABI,
                                                      .name = "by-query",
                                                      .summary = "",
                                                      .rotate = scale_keys,
                                                      .frame = of_query};

/* ... or by the bias. */
static void scale_scores(const void *state, const struct locus_bias_op *op)
{
    (void)state;
    ck_assert_ptr_null(op->k_positions);
    for (int j = 0; j < op->n_k; j++)
        op->scores[j] *= 1 + 0.01f * (float)(op->q_position - op->k_first - j);
}

static const struct locus_position_scheme by_score = {
    .abi = LOCUS_POSITION_ABI, .name = "by-score", .summary = "", .bias = scale_scores};

/* Scores times 2^((i - j)/32), a factor that would be too large for a float beside the position's
 * own 2^(i/32): by queries and keys relative to a block ... */
static void scale_from_origin(const void *state, const struct locus_rotate_op *op)
{
    float *rows = op->rows;
    (void)state;
    ck_assert_int_le(op->first_head + op->n_heads,
                     op->which == LOCUS_KEY ? TINY_HEADS_KV : TINY_HEADS);
    ck_assert_int_ge(op->origin, SHIFT);
    ck_assert_int_eq((op->origin - SHIFT) % 64, 0);
    for (int i = 0; i < op->n; i++) {
        const int from_origin = op->positions[i] - op->origin;
        if (op->which == LOCUS_KEY) ck_assert(from_origin >= 0 && from_origin < 64);
        const float power = (float)from_origin / 32;
        for (int d = 0; d < op->n_heads * TINY_HEAD_DIM; d++)
            *rows++ *= exp2f(op->which == LOCUS_KEY ? -power : power);
    }
}

static enum locus_frame of_block(const void *state)
{
    (void)state;
    return LOCUS_FRAME_BLOCK;
}

static const struct locus_position_scheme by_block = {.abi = LOCUS_POSITION_ABI,
                                                      .name = "by-block",
                                                      .summary = "",
                                                      .rotate = scale_from_origin,
                                                      .frame = of_block};

/* ... or by the bias. */
static void scale_exponentially(const void *state, const struct locus_bias_op *op)
{
    (void)state;
    for (int j = 0; j < op->n_k; j++)
        op->scores[j] *= exp2f((float)(op->q_position - op->k_first - j) / 32);
}

static const struct locus_position_scheme by_growth = {
    .abi = LOCUS_POSITION_ABI, .name = "by-growth", .summary = "", .bias = scale_exponentially};

/* Scores less the row's largest, which a softmax doesn't notice; scratch holds a row. */
static size_t row_scratch(const void *state, int n_k)
{
    (void)state;
    return (size_t)n_k;
}

static void centre_row(const void *state, const struct locus_bias_op *op)
{
    const int n_seen = op->layer == 1 && op->q_position >= WINDOW ? WINDOW : op->q_position + 1;
    float largest = op->scores[0];
    (void)state;
    ck_assert_int_eq(op->n_k, n_seen);
    ck_assert_int_eq(op->k_first, op->q_position - n_seen + 1);
    for (int j = 0; j < op->n_k; j++)
        largest = op->scores[j] > largest ? op->scores[j] : largest;
    for (int j = 0; j < op->n_k; j++)
        op->scratch[j] = op->scores[j] - largest;
    memcpy(op->scores, op->scratch, (size_t)op->n_k * sizeof *op->scores);
}

static const struct locus_position_scheme by_row = {.abi = LOCUS_POSITION_ABI,
                                                    .name = "by-row",
                                                    .summary = "",
                                                    .whole_row = true,
                                                    .bias = centre_row,
                                                    .scratch_floats = row_scratch};

/* Both at once: keys relative to their query, then the whole row. */
static const struct locus_position_scheme by_both = {.abi = LOCUS_POSITION_ABI,
                                                     .name = "by-both",
                                                     .summary = "",
                                                     .rotate = scale_keys,
                                                     .frame = of_query,
                                                     .whole_row = true,
                                                     .bias = centre_row,
                                                     .scratch_floats = row_scratch};

/* A number for each head, which a softmax doesn't notice: the sum of all heads' queries' first
 * elements times the head's number. */
static void shift_heads(const void *state, const struct locus_bias_op *op)
{
    const float *q = op->q;
    float sum = 0;
    (void)state;
    ck_assert_int_eq(op->head, 0);
    ck_assert_uint_eq(op->q_stride, TINY_HEAD_DIM);
    for (int head = 0; head < TINY_HEADS; head++)
        sum += q[(size_t)head * op->q_stride];
    for (int head = 0; head < TINY_HEADS; head++)
        for (int j = 0; j < op->n_k; j++)
            op->scores[(size_t)head * op->scores_stride + (size_t)j] += (float)head * sum;
}

static const struct locus_position_scheme by_heads = {.abi = LOCUS_POSITION_ABI,
                                                      .name = "by-heads",
                                                      .summary = "",
                                                      .all_heads = true,
                                                      .bias = shift_heads};

/* The same of whole rows, and of keys relative to their query. */
static void shift_whole_rows(const void *state, const struct locus_bias_op *op)
{
    ck_assert_int_eq(op->n_k,
                     op->layer == 1 && op->q_position >= WINDOW ? WINDOW : op->q_position + 1);
    shift_heads(state, op);
}

static const struct locus_position_scheme by_all = {.abi = LOCUS_POSITION_ABI,
                                                    .name = "by-all",
                                                    .summary = "",
                                                    .rotate = scale_keys,
                                                    .frame = of_query,
                                                    .whole_row = true,
                                                    .all_heads = true,
                                                    .bias = shift_whole_rows};

/* Adds the sum of all tokens so far, kept a position: [2] floats, the sum and how many. */
static int two_floats(const void *state)
{
    (void)state;
    return 2;
}

static void add_sum(const void *state, const struct locus_embed_op *op)
{
    float *states = op->token_states;
    (void)state;
    for (int i = 0; i < op->n; i++, states += 2) {
        states[0] = states[-2] + (float)op->tokens[i];
        states[1] = states[-1] + 1;
        ck_assert_float_eq(states[1], (float)(op->first_position + i + 1));
        for (int c = 0; c < TINY_EMBD; c++)
            op->x[i * TINY_EMBD + c] += 0.001f * states[0];
    }
}

/* The same from the tokens alone; only for a text at once. */
static void add_sum_at_once(const void *state, const struct locus_embed_op *op)
{
    float sum = 0;
    (void)state;
    ck_assert_int_eq(op->first_position, 0);
    ck_assert_ptr_null(op->token_states);
    for (int i = 0; i < op->n; i++) {
        sum += (float)op->tokens[i];
        for (int c = 0; c < TINY_EMBD; c++)
            op->x[i * TINY_EMBD + c] += 0.001f * sum;
    }
}

static const struct locus_position_scheme by_store = {.abi = LOCUS_POSITION_ABI,
                                                      .name = "by-store",
                                                      .summary = "",
                                                      .embed_floats = two_floats,
                                                      .embed = add_sum};
static const struct locus_position_scheme by_text = {
    .abi = LOCUS_POSITION_ABI, .name = "by-text", .summary = "", .embed = add_sum_at_once};

/* A decay that depends on the text, as forget gates do: each token keeps, of each layer, its
 * running sum and how many there are. Scores times 1 + the sum between key and query: by the bias
 * ... */
enum { KEPT = 2 };

static int state_floats(const void *state)
{
    (void)state;
    return KEPT;
}

static void sum_gates(const void *state, const struct locus_observe_op *op)
{
    float *states = op->token_states;
    (void)state;
    for (int i = 0; i < op->n; i++, states += KEPT) {
        states[0] = states[-KEPT] + 0.01f * fabsf(op->x[i * TINY_EMBD + op->layer]);
        states[1] = states[1 - KEPT] + 1;
        ck_assert_float_eq(states[1], (float)(op->first_position + i + 1));
    }
}

static void scale_by_gates(const void *state, const struct locus_bias_op *op)
{
    (void)state;
    ck_assert_float_eq(op->q_token_state[1], (float)(op->q_position + 1));
    for (int j = 0; j < op->n_k; j++) {
        const float *states = op->k_token_states + (ptrdiff_t)j * KEPT;
        ck_assert_float_eq(states[1], (float)(op->k_first + j + 1));
        op->scores[j] *= 1 + op->q_token_state[0] - states[0];
    }
}

static const struct locus_position_scheme by_gates = {.abi = LOCUS_POSITION_ABI,
                                                      .name = "by-gates",
                                                      .summary = "",
                                                      .bias = scale_by_gates,
                                                      .observe = sum_gates,
                                                      .layer_floats = state_floats};

/* ... or by keys relative to their query. */
static void scale_keys_by_gates(const void *state, const struct locus_rotate_op *op)
{
    float *rows = op->rows;
    (void)state;
    for (int i = 0; i < op->n; i++)
        ck_assert_float_eq(op->token_states[i * KEPT + 1], (float)(op->positions[i] + 1));
    if (op->which == LOCUS_QUERY) return;
    const float *of_query = op->token_states + (ptrdiff_t)(op->origin - op->positions[0]) * KEPT;
    ck_assert_float_eq(of_query[1], (float)(op->origin + 1));
    for (int i = 0; i < op->n; i++)
        for (int d = 0; d < op->n_heads * TINY_HEAD_DIM; d++)
            *rows++ *= 1 + of_query[0] - op->token_states[i * KEPT];
}

static const struct locus_position_scheme by_gated_keys = {.abi = LOCUS_POSITION_ABI,
                                                           .name = "by-gated-keys",
                                                           .summary = "",
                                                           .rotate = scale_keys_by_gates,
                                                           .frame = of_query,
                                                           .observe = sum_gates,
                                                           .layer_floats = state_floats};

/* ---- sessions ----------------------------------------------------------------------------- */

struct setting {
    const char *position; /* SPEC; NULL: the scheme's name */
    int first_position;
};

/* The text in batches of n_batch, then its last third again; logits [N, TINY_VOCAB]. */
static float *run_as(struct setting setting, const locus_model *model,
                     const struct locus_position_scheme *scheme, int n_batch, int n_threads)
{
    locus_error error;
    int32_t tokens[N];
    const int first = N * 2 / 3;
    float *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    locus_session_params params = {.position = setting.position,
                                   .scheme = scheme,
                                   .n_context = N,
                                   .n_batch = n_batch,
                                   .n_threads = n_threads,
                                   .first_position = setting.first_position};
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

static float *run(const locus_model *model, const struct locus_position_scheme *scheme, int n_batch,
                  int n_threads)
{
    return run_as((struct setting){0}, model, scheme, n_batch, n_threads);
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

START_TEST(keys_are_relative_to_their_query)
{
    locus_model *model = tiny_model(WINDOW, 2);
    float *whole = run(model, &by_query, 0, 1);
    check_near(whole, run(model, &by_score, 0, 1));
    check_same(whole, run(model, &by_query, 1, 1));
    check_same(whole, run(model, &by_query, 11, 1));
    check_same(whole, run(model, &by_query, N - 1, 2));
    free(whole);
    locus_model_free(model);
}
END_TEST

START_TEST(keys_are_relative_to_their_block)
{
    const struct setting shifted = {.first_position = SHIFT};
    locus_model *model = tiny_model(WINDOW, 2);
    float *whole = run_as(shifted, model, &by_block, 0, 1);
    check_near(whole, run_as(shifted, model, &by_growth, 0, 1));
    check_same(whole, run_as(shifted, model, &by_block, 1, 1));
    check_same(whole, run_as(shifted, model, &by_block, 11, 1));
    check_same(whole, run_as(shifted, model, &by_block, N - 1, 2));
    free(whole);
    locus_model_free(model);
}
END_TEST

/* The text without positions: logits [N, TINY_VOCAB]. */
static float *run_plain(const locus_model *model)
{
    return run_as((struct setting){.position = "none"}, model, NULL, 0, 1);
}

START_TEST(whole_rows_are_all_that_a_token_sees)
{
    locus_model *model = tiny_model(WINDOW, 2);
    float *whole = run(model, &by_row, 0, 1);
    check_near(whole, run_plain(model));
    check_same(whole, run(model, &by_row, 1, 1));
    check_same(whole, run(model, &by_row, N - 1, 2));
    free(whole);
    locus_model_free(model);
}
END_TEST

START_TEST(all_heads_of_a_token_come_at_once)
{
    locus_model *model = tiny_model(WINDOW, 2);
    float *whole = run(model, &by_heads, 0, 1), *rows = run(model, &by_all, 0, 1);
    check_near(whole, run_plain(model));
    check_near(rows, run(model, &by_score, 0, 1));
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        check_same(whole, run(model, &by_heads, n_threads, n_threads));
        check_same(rows, run(model, &by_all, N - n_threads, n_threads));
    }
    free(whole);
    free(rows);
    locus_model_free(model);
}
END_TEST

START_TEST(whole_rows_of_keys_relative_to_their_query)
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

START_TEST(what_a_scheme_keeps_of_each_layer_goes_on_from_the_last_token)
{
    locus_model *model = tiny_model(WINDOW, 2);
    float *whole = run(model, &by_gates, 0, 1), *plain = run(model, &by_score, 0, 1);
    ck_assert_int_ne(memcmp(whole, plain, N * TINY_VOCAB * sizeof *whole), 0);
    check_near(whole, run(model, &by_gated_keys, 0, 1));
    check_same(whole, run(model, &by_gates, 1, 1));
    check_same(whole, run(model, &by_gates, 11, 1));
    check_same(whole, run(model, &by_gates, N - 1, 2));
    float *keys = run(model, &by_gated_keys, 0, 1);
    check_same(keys, run(model, &by_gated_keys, 1, 1));
    check_same(keys, run(model, &by_gated_keys, N - 1, 2));
    free(keys);
    free(plain);
    free(whole);
    locus_model_free(model);
}
END_TEST

/* Frames side by side: keys as rows in one layer, and as panels in the other. */
START_TEST(each_layer_has_its_frame)
{
    static const struct {
        const char *position, *same_as;
        const struct locus_position_scheme *scheme, *other;
    } pairs[] = {
        {"none; layers 1 by-query", "none; layers 1 by-score", &by_query, &by_score},
        {"none; layers 0 by-query", "none; layers 0 by-score", &by_query, &by_score},
        {"by-query; layers 1 alibi", "by-score; layers 1 alibi", &by_query, &by_score},
        {"alibi; layers 0 by-block", "alibi; layers 0 by-growth", &by_block, &by_growth},
        {"rope; layers 1 by-gated-keys", "rope; layers 1 by-gates", &by_gated_keys, &by_gates},
        {"by-both; layers 1 xpos", "by-score; layers 1 xpos", &by_both, &by_score},
    };
    locus_model *model = tiny_model(0, 0);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const int shift = pairs[i].scheme == &by_block ? SHIFT : 0;
        const struct setting one = {pairs[i].position, shift}, other = {pairs[i].same_as, shift};
        float *whole = run_as(one, model, pairs[i].scheme, 0, 1);
        check_near(whole, run_as(other, model, pairs[i].other, 0, 1));
        check_same(whole, run_as(one, model, pairs[i].scheme, 1, 1));
        check_same(whole, run_as(one, model, pairs[i].scheme, N - 1, 2));
        free(whole);
    }
    locus_model_free(model);
}
END_TEST

START_TEST(a_scheme_of_another_abi_is_refused_by_name)
{
    locus_model *model = tiny_model(0, 0);
    struct locus_position_scheme old = by_score;
    for (old.abi = 0; old.abi <= LOCUS_POSITION_ABI + 1; old.abi++) {
        locus_error error;
        locus_session_params params = {.scheme = &old, .n_context = N};
        locus_session *session = locus_session_create(model, &params, &error);
        ck_assert_int_eq(session != NULL, old.abi == LOCUS_POSITION_ABI);
        if (!session) {
            ck_assert_int_eq(error.status, LOCUS_ERROR_ARGUMENT);
            ck_assert_ptr_nonnull(strstr(error.message, "by-score"));
            ck_assert_ptr_nonnull(strstr(error.message, "abi"));
        }
        locus_session_free(session);
    }
    locus_model_free(model);
}
END_TEST

/* Sizes on most systems: a struct that grows without a new LOCUS_POSITION_ABI lets a scheme that
 * was built before in, and reads past its end. */
START_TEST(a_struct_that_changes_has_another_abi)
{
    const struct {
        const char *name;
        size_t size, of_abi_2;
    } structs[] = {{"scheme", sizeof(struct locus_position_scheme), 184},
                   {"param", sizeof(struct locus_param), 64},
                   {"spec", sizeof(struct locus_position_spec), 272},
                   {"env", sizeof(struct locus_position_env), 72},
                   {"embed", sizeof(struct locus_embed_op), 48},
                   {"observe", sizeof(struct locus_observe_op), 32},
                   {"rotate", sizeof(struct locus_rotate_op), 72},
                   {"bias", sizeof(struct locus_bias_op), 112}};
    ck_assert_int_eq(LOCUS_POSITION_ABI, 2);
    for (size_t i = 0; i < sizeof structs / sizeof *structs && sizeof(void *) == 8; i++)
        ck_assert_msg(structs[i].size == structs[i].of_abi_2,
                      "%s has %zu bytes: raise LOCUS_POSITION_ABI", structs[i].name,
                      structs[i].size);
}
END_TEST

/* ---- what a scheme may ask for --------------------------------------------------------------- */

/* The error of a session that is refused. */
static locus_error refusal(const locus_model *model, const struct locus_position_scheme *scheme)
{
    locus_error error = {0};
    const locus_session_params params = {.scheme = scheme, .n_context = 20, .n_threads = 2};
    ck_assert_ptr_null(locus_session_create(model, &params, NULL));
    ck_assert_ptr_null(locus_session_create(model, &params, &error));
    return error;
}

static size_t wanted_floats;

static size_t wanted_scratch(const void *state, int n_k)
{
    (void)state, (void)n_k;
    return wanted_floats;
}

static void fill_scratch(const void *state, const struct locus_bias_op *op)
{
    (void)state;
    for (size_t i = 0; i < wanted_floats; i++)
        op->scratch[i] = 1;
}

START_TEST(scratch_is_had_as_asked_or_refused)
{
    const struct locus_position_scheme greedy = {.abi = LOCUS_POSITION_ABI,
                                                 .name = "greedy",
                                                 .summary = "",
                                                 .bias = fill_scratch,
                                                 .scratch_floats = wanted_scratch};
    const size_t too_many[] = {(size_t)1 << 61,  (size_t)1 << 62, (size_t)1 << 63, SIZE_MAX,
                               SIZE_MAX - 20000, SIZE_MAX - 15,   SIZE_MAX / 4,    SIZE_MAX / 8};
    locus_model *model = tiny_model(0, 0);
    for (size_t i = 0; i < sizeof too_many / sizeof *too_many; i++) {
        wanted_floats = too_many[i];
        const locus_error error = refusal(model, &greedy);
        ck_assert_int_eq(error.status, LOCUS_ERROR_MEMORY);
        ck_assert_ptr_nonnull(strstr(error.message, "out of memory"));
    }
    wanted_floats = 20001;
    free(run(model, &greedy, 0, 2));
    locus_model_free(model);
}
END_TEST

static int answer;

static int answer_it(const void *state)
{
    (void)state;
    return answer;
}

static enum locus_frame answer_frame(const void *state)
{
    (void)state;
    return (enum locus_frame)3;
}

START_TEST(senseless_answers_of_hooks_are_refused_by_name)
{
    struct locus_position_scheme embeds = by_store, keeps = by_gates, ends = by_score,
                                 frames = by_query;
    embeds.embed_floats = keeps.layer_floats = ends.max_positions = answer_it;
    frames.frame = answer_frame;
    const struct {
        const struct locus_position_scheme *scheme;
        const char *says;
    } cases[] = {{&embeds, "position by-store: embed_floats is -2147483647, expected 0 or more"},
                 {&keeps, "position by-gates: layer_floats is -2147483647, expected 0 or more"},
                 {&ends, "position by-score: max_positions is -2147483647, expected 0 or more"},
                 {&frames, "position by-query: frame is 3, expected 0 to 2"}};
    locus_model *model = tiny_model(0, 0);
    answer = -INT_MAX;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const locus_error error = refusal(model, cases[i].scheme);
        ck_assert_int_eq(error.status, LOCUS_ERROR_ARGUMENT);
        ck_assert_str_eq(error.message, cases[i].says);
    }
    locus_model_free(model);
}
END_TEST

/* More than there are addresses for. */
START_TEST(floats_kept_a_position_are_had_or_refused)
{
    struct locus_position_scheme embeds = by_store, keeps = by_gates;
    embeds.embed_floats = keeps.layer_floats = answer_it;
    const struct locus_position_scheme *const schemes[] = {&embeds, &keeps};
    locus_model *model = tiny_model(0, 0);
    answer = INT_MAX;
    for (int i = 0; i < 2; i++) {
        locus_error error = {0};
        const locus_session_params params = {.scheme = schemes[i],
                                             .n_context = 1 << 16,
                                             .n_batch = 1,
                                             .cache_type = LOCUS_CACHE_Q8_0};
        ck_assert_ptr_null(locus_session_create(model, &params, &error));
        ck_assert_int_eq(error.status, LOCUS_ERROR_MEMORY);
    }
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hooks");
    TCase *tests = tcase_create("promises");
    tcase_add_test(tests, keys_are_relative_to_their_query);
    tcase_add_test(tests, keys_are_relative_to_their_block);
    tcase_add_test(tests, whole_rows_are_all_that_a_token_sees);
    tcase_add_test(tests, all_heads_of_a_token_come_at_once);
    tcase_add_test(tests, whole_rows_of_keys_relative_to_their_query);
    tcase_add_test(tests, what_a_scheme_keeps_goes_on_from_the_last_position);
    tcase_add_test(tests, what_a_scheme_keeps_of_each_layer_goes_on_from_the_last_token);
    tcase_add_test(tests, each_layer_has_its_frame);
    tcase_add_test(tests, a_scheme_of_another_abi_is_refused_by_name);
    tcase_add_test(tests, a_struct_that_changes_has_another_abi);
    suite_add_tcase(suite, tests);
    tests = tcase_create("what a scheme may ask for");
    tcase_add_test(tests, scratch_is_had_as_asked_or_refused);
    tcase_add_test(tests, senseless_answers_of_hooks_are_refused_by_name);
    tcase_add_test(tests, floats_kept_a_position_are_had_or_refused);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
