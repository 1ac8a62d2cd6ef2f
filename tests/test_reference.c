/* The engine's logits against those of the plain forward pass (reference.c): every scheme of the
 * registry, one of one's own, and every golden model; a prompt at once, then token by token. Cache
 * policies are test_policy.c's.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
#include "golden.h"
#include "own_scheme.h"
#include "plain.h"
#include "reference.h"
#include "specs.h"
#include "testing.h"
#include "tiny.h"
#include "variant.h"

/* Of the largest logit of a row. */
#define TOLERANCE 2e-5

enum { N = 90, N_PROMPT = 70 };

static locus_session *open_session(const locus_model *model, const char *position,
                                   const struct locus_position_scheme *scheme, int n_context)
{
    locus_error error;
    const bool attends = locus_config_has(&model->config, &locus_attention_part);
    locus_session_params params = {.position = position,
                                   .scheme = scheme,
                                   .n_context = n_context,
                                   .n_batch = 32,
                                   .n_threads = 1,
                                   .cache_type = attends ? LOCUS_CACHE_F32 : LOCUS_CACHE_AUTO};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    return session;
}

/* The logits [n, n_vocab] of the plain pass. */
static double *plain_logits(const locus_model *model, struct locus_positions *positions,
                            const int32_t *tokens, int n)
{
    const struct reference reference = {.model = model, .positions = positions};
    double *logits = calloc((size_t)(n * model->config.n_vocab), sizeof *logits);
    ck_assert_ptr_nonnull(logits);
    reference_logits(&reference, tokens, n, logits);
    return logits;
}

/* The largest difference of a row from the plain pass with `positions`. */
static double largest_difference(locus_session *session, struct locus_positions *positions,
                                 const int32_t *tokens, int n_prompt, int n)
{
    const int n_vocab = session->model->config.n_vocab;
    float *logits = calloc((size_t)(n * n_vocab), sizeof *logits);
    double *expected = plain_logits(session->model, positions, tokens, n), largest = 0;
    locus_error error;
    ck_assert_ptr_nonnull(logits);
    for (int first = 0, end = n_prompt; first < n; first = end++)
        ck_assert_msg(locus_session_eval(session, tokens + first, end - first,
                                         logits + first * n_vocab, end - first, &error) == LOCUS_OK,
                      "%s", error.message);
    for (int i = 0; i < n; i++)
        largest =
            fmax(largest, plain_difference(logits + i * n_vocab, expected + i * n_vocab, n_vocab));
    free(logits);
    free(expected);
    return largest;
}

static double tiny_difference(locus_session *session, struct locus_positions *positions)
{
    int32_t tokens[N];
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    return largest_difference(session, positions, tokens, N_PROMPT, N);
}

/* Every SPEC, with all layers global and with each second one local. */
START_TEST(every_scheme_has_the_logits_of_the_plain_pass)
{
    const char *spec = spec_at(_i);
    for (int window = 0; window <= 20; window += 20) {
        locus_model *model = tiny_model(window, 2);
        locus_session *session = open_session(model, spec, NULL, N);
        const double difference = tiny_difference(session, &session->positions);
        ck_assert_msg(difference <= TOLERANCE, "%s, window %d: differs by %g", spec, window,
                      difference);
        locus_session_free(session);
        locus_model_free(model);
    }
}
END_TEST

/* Guards the test above: a scheme that the engine forgot would be seen. */
START_TEST(no_two_schemes_agree)
{
    const char *name = locus_position_at((size_t)_i)->name;
    const char *other = strcmp(name, "none") == 0 ? "alibi" : "none";
    locus_model *model = tiny_model(0, 0);
    locus_session *session = open_session(model, name, NULL, N);
    locus_session *another = open_session(model, other, NULL, N);
    ck_assert_double_gt(tiny_difference(session, &another->positions), 1000 * TOLERANCE);
    locus_session_free(session);
    locus_session_free(another);
    locus_model_free(model);
}
END_TEST

/* Weights as they are stored: halves. */
START_TEST(stored_halves_have_them_too)
{
    struct variant *variant = variant_begin(testing_golden("llama-half.gguf"));
    variant_convert(variant, LOCUS_F16);
    locus_error error;
    locus_model *model = locus_model_open(variant_finish(variant), &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    locus_session *session = open_session(model, NULL, NULL, N);
    const double difference = tiny_difference(session, &session->positions);
    ck_assert_msg(difference <= TOLERANCE, "differs by %g", difference);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

START_TEST(a_scheme_of_ones_own_has_them_too)
{
    locus_model *model = tiny_model(0, 0);
    locus_session *session = open_session(model, "own:slope=2", &own_scheme, N);
    const double difference = tiny_difference(session, &session->positions);
    ck_assert_msg(difference <= TOLERANCE, "differs by %g", difference);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

/* ---- what the caller says, and what a scheme sees ----------------------------------------- */

static const struct {
    const char *position;
    int n_axes;
} placed[] = {{"rope", 1},
              {"rope:axis1=2", 2},
              {"rope:axis1=1,axis2=3,pairs=adjacent", 3},
              {"learned", 1},
              {"sinusoidal", 1}};

START_TEST(coordinates_have_them_too)
{
    const int n_axes = placed[_i].n_axes;
    int coordinates[N * 3];
    int32_t tokens[N];
    float logits[N * TINY_VOCAB];
    double expected[N * TINY_VOCAB];
    locus_error error;
    locus_model *model = tiny_model(0, 0);
    const locus_session_params params = {
        .position = placed[_i].position, .n_context = N, .n_threads = 1, .n_axes = n_axes};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    for (int i = 0; i < N * n_axes; i++)
        coordinates[i] = i * 7919 % N;
    const struct reference reference = {.model = model,
                                        .positions = &session->positions,
                                        .coordinates = coordinates,
                                        .n_axes = n_axes};
    ck_assert_int_eq(locus_session_eval_at(session, tokens, N, coordinates, logits, N, &error),
                     LOCUS_OK);
    reference_logits(&reference, tokens, N, expected);
    for (int i = 0; i < N; i++)
        ck_assert_double_le(plain_difference(logits + (ptrdiff_t)i * TINY_VOCAB,
                                             expected + (ptrdiff_t)i * TINY_VOCAB, TINY_VOCAB),
                            TOLERANCE);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

/* A gate a token, which all keys before it are dimmed by: kept as the sum of its logarithms. */
static int one_float(const void *state)
{
    (void)state;
    return 1;
}

static void sum_gates(const void *state, const struct locus_observe_op *op)
{
    (void)state;
    for (int i = 0; i < op->n; i++)
        op->token_states[i] =
            op->token_states[i - 1] - 0.1f * log1pf(expf(op->x[(ptrdiff_t)i * TINY_EMBD]));
}

static void dim(const void *state, const struct locus_bias_op *op)
{
    (void)state;
    for (int j = 0; j < op->n_k; j++)
        op->scores[j] += op->q_token_state[0] - op->k_token_states[j];
}

static const struct locus_position_scheme gated = {.abi = LOCUS_POSITION_ABI,
                                                   .name = "gated",
                                                   .summary = "gates that dim what came before",
                                                   .layer_floats = one_float,
                                                   .observe = sum_gates,
                                                   .bias = dim};

START_TEST(what_a_scheme_observes_has_them_too)
{
    locus_model *model = tiny_model(20, 2);
    locus_session *session = open_session(model, "gated", &gated, N);
    locus_session *none = open_session(model, "none", NULL, N);
    const double difference = tiny_difference(session, &session->positions);
    ck_assert_msg(difference <= TOLERANCE, "differs by %g", difference);
    ck_assert_double_gt(tiny_difference(none, &session->positions), 1000 * TOLERANCE);
    locus_session_free(session);
    locus_session_free(none);
    locus_model_free(model);
}
END_TEST

/* ---- the golden models -------------------------------------------------------------------- */

/* The engine, and the plain pass itself against transformers and scripts/decoder.py. (Policies have
 * their own in test_policy.c, and it has no coordinates.) False: it isn't run. */
static bool check_golden(const char *name)
{
    struct golden golden = golden_open(name);
    if (golden.attention || golden.n_axes > 0) {
        golden_close(&golden);
        return false;
    }
    locus_session *session = open_session(golden.model, golden.position, NULL, golden.n_tokens);
    const double difference = largest_difference(session, &session->positions, golden.tokens,
                                                 golden.n_prompt, golden.n_tokens);
    ck_assert_msg(difference <= TOLERANCE, "%s: differs by %g", name, difference);
    double *plain = plain_logits(golden.model, &session->positions, golden.tokens, golden.n_tokens);
    for (int i = 0; i < golden.n_tokens; i++) {
        const double off = plain_difference(golden.logits + i * golden.n_vocab,
                                            plain + i * golden.n_vocab, golden.n_vocab);
        ck_assert_msg(off <= TOLERANCE, "%s: row %d of the plain pass differs by %g", name, i, off);
    }
    free(plain);
    locus_session_free(session);
    golden_close(&golden);
    return true;
}

START_TEST(golden_models_have_the_logits_of_the_plain_pass)
{
    DIR *folder = opendir(testing_golden(""));
    int n = 0;
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char name[sizeof entry->d_name];
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".logits") != 0) continue;
        snprintf(name, sizeof name, "%.*s", (int)(dot - entry->d_name), entry->d_name);
        n += check_golden(name);
    }
    closedir(folder);
    ck_assert_int_ge(n, 60);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reference");
    TCase *tests = tcase_create("the plain forward pass");
    tcase_add_loop_test(tests, every_scheme_has_the_logits_of_the_plain_pass, 0, spec_count());
    tcase_add_loop_test(tests, no_two_schemes_agree, 0, (int)locus_position_count());
    tcase_add_test(tests, stored_halves_have_them_too);
    tcase_add_test(tests, a_scheme_of_ones_own_has_them_too);
    tcase_add_loop_test(tests, coordinates_have_them_too, 0, sizeof placed / sizeof *placed);
    tcase_add_test(tests, what_a_scheme_observes_has_them_too);
    tcase_add_test(tests, golden_models_have_the_logits_of_the_plain_pass);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
