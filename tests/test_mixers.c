/* Mixers other than attention: a running mean, whose state is as long as a token, stands where
 * attention is in some layers or all. What a mixer promises must hold for it: the same bits however
 * a text is cut, at any number of threads, and after every rewind.
 */
#include <stdlib.h>
#include <string.h>

#include "forward/attention.h"
#include "forward/map.h"
#include "forward/pass.h"
#include "testing.h"
#include "tiny.h"

enum { N = 200, COPY = 64 /* tokens from one copy of the state to the next */ };

/* ---- the mixer ------------------------------------------------------------------------------ */

/* mean = 7/8 mean + 1/8 in, a channel; x += mean. */
struct mean {
    int at;        /* tokens taken in */
    float *mean;   /* [n_embd] */
    float *copies; /* [1 + capacity / COPY, n_embd]: the mean after i * COPY tokens */
};

struct means {
    int n_embd, n_layer, refuse_after; /* refuse_after > 0: chunks that end past it */
    struct mean *layers;
};

static const struct locus_layer_part mean_part = {.name = "running mean"};

static enum locus_status open_means(void **state, const struct locus_session *session,
                                    locus_error *error)
{
    struct means *means = *state = calloc(1, sizeof *means);
    const size_t n_embd = (size_t)session->model->config.n_embd;
    (void)error;
    means->n_embd = (int)n_embd;
    means->n_layer = session->model->config.n_layer;
    means->layers = calloc((size_t)means->n_layer, sizeof *means->layers);
    for (int l = 0; l < means->n_layer; l++) {
        const size_t n_copies = 1 + (size_t)session->setup.capacity / COPY;
        means->layers[l].mean = calloc(n_embd, sizeof(float));
        means->layers[l].copies = calloc(n_copies * n_embd, sizeof(float));
    }
    return LOCUS_OK;
}

static void close_means(void *state)
{
    struct means *means = state;
    for (int l = 0; l < means->n_layer; l++) {
        free(means->layers[l].mean);
        free(means->layers[l].copies);
    }
    free(means->layers);
    free(means);
}

/* A thread has channels, and takes their tokens in order. */
static void run_mean(const struct pass *pass, void *state, int layer, const float *in)
{
    const struct means *means = state;
    struct mean *own = &means->layers[layer];
    float *x = pass->session->scratch.x;
    for (int c = share_first(pass, means->n_embd); c < share_end(pass, means->n_embd); c++)
        for (int i = 0; i < pass->n; i++) {
            const int at = i * means->n_embd + c, taken = pass->first_slot + i + 1;
            own->mean[c] = 0.875f * own->mean[c] + 0.125f * in[at];
            x[at] += own->mean[c];
            if (taken % COPY == 0) own->copies[taken / COPY * means->n_embd + c] = own->mean[c];
        }
    await_all(pass);
    if (pass->thread == 0) own->at = pass->first_slot + pass->n;
}

/* The state of all layers that have one is equally long. */
static int taken_in(const struct means *means)
{
    int most = 0;
    for (int l = 0; l < means->n_layer; l++)
        most = means->layers[l].at > most ? means->layers[l].at : most;
    return most;
}

static enum locus_status check_means(const void *state, const struct locus_session *session,
                                     locus_error *error)
{
    const struct means *means = state;
    (void)session;
    if (means->refuse_after == 0 || taken_in(means) <= means->refuse_after) return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_NUMERIC, "a mean past %d tokens", means->refuse_after);
}

static enum locus_status resume_means(const void *state, const struct locus_session *session,
                                      int n_keep, int *n, locus_error *error)
{
    (void)session, (void)error;
    *n = taken_in(state) == n_keep ? n_keep : n_keep / COPY * COPY;
    return LOCUS_OK;
}

static void rewind_means(void *state, int n)
{
    const struct means *means = state;
    const size_t n_embd = (size_t)means->n_embd;
    if (taken_in(means) == n) return;
    ck_assert_int_eq(n % COPY, 0);
    for (int l = 0; l < means->n_layer; l++) {
        struct mean *own = &means->layers[l];
        memcpy(own->mean, own->copies + (size_t)(n / COPY) * n_embd, n_embd * sizeof(float));
        own->at = n;
    }
}

static int replay_means(const struct locus_session *session)
{
    (void)session;
    return COPY - 1;
}

static const struct locus_mixer mean_mixer = {
    .tensors = &mean_part,
    .open = open_means,
    .close = close_means,
    .run = run_mean,
    .check = check_means,
    .resume = resume_means,
    .rewind = rewind_means,
    .replay = replay_means,
};

/* ---- models that have it -------------------------------------------------------------------- */

static int32_t tokens[N];

/* Bit l of `layers`: layer l has the running mean. */
static locus_model *open_model(unsigned layers)
{
    locus_model *model = tiny_model(0, 0);
    for (int l = 0; l < TINY_LAYERS; l++)
        if (layers >> l & 1) model->config.layers[l].mixer = &mean_part;
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    return model;
}

/* Its tensors are those that the file had. */
static void close_model(locus_model *model)
{
    for (int l = 0; l < TINY_LAYERS; l++)
        model->config.layers[l].mixer = &locus_attention_part;
    locus_model_free(model);
}

static locus_session *open_session(const locus_model *model, const char *attention, int n_batch,
                                   int n_threads)
{
    const struct locus_session_extras extras = {.mixer = &mean_mixer};
    const bool attends = locus_config_has(&model->config, &locus_attention_part);
    const locus_session_params params = {.position = attends ? "rope" : NULL,
                                         .attention = attention,
                                         .n_context = N,
                                         .n_batch = n_batch,
                                         .n_threads = n_threads};
    locus_error error = {0};
    locus_session *session = locus_session_create_with(model, &params, &extras, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    return session;
}

/* Evaluates tokens [first, end), `step` a call. */
static void eval(locus_session *session, int first, int end, int step, float *logits)
{
    locus_error error = {0};
    ck_assert_int_eq(locus_session_length(session), first);
    for (int i = first; i < end; i += step) {
        const int n = end - i < step ? end - i : step;
        const enum locus_status status =
            locus_session_eval(session, tokens + i, n, logits + (size_t)i * TINY_VOCAB, n, &error);
        ck_assert_msg(status == LOCUS_OK, "%s", error.message);
    }
}

/* Logits [N, TINY_VOCAB] of the text at once, on one thread. */
static float *straight(const locus_model *model, const char *attention)
{
    float *logits = calloc((size_t)N * TINY_VOCAB, sizeof *logits);
    locus_session *session = open_session(model, attention, N, 1);
    eval(session, 0, N, N, logits);
    locus_session_free(session);
    return logits;
}

static void check_same(const float *logits, const float *expected, int first, int end)
{
    for (int i = first; i < end; i++)
        ck_assert_msg(!memcmp(logits + i * TINY_VOCAB, expected + i * TINY_VOCAB,
                              TINY_VOCAB * sizeof *logits),
                      "token %d", i);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static const unsigned mixtures[] = {1, 2, 3}; /* the first layer, the second, both */

enum { N_MIXTURES = sizeof mixtures / sizeof *mixtures, N_WITH_ATTENTION = 2 };

START_TEST(a_text_has_the_same_bits_however_it_is_cut)
{
    static const struct {
        int n_batch, step, n_threads;
    } ways[] = {{N, N, 3}, {1, N, 1}, {7, 5, 1}, {COPY, 90, 2}, {N, 1, 1}, {7, N, 2}};
    locus_model *model = open_model(mixtures[_i]);
    float *expected = straight(model, NULL), *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        locus_session *session = open_session(model, NULL, ways[i].n_batch, ways[i].n_threads);
        memset(logits, 0, N * TINY_VOCAB * sizeof *logits);
        eval(session, 0, N, ways[i].step, logits);
        check_same(logits, expected, 0, N);
        locus_session_free(session);
    }
    free(expected);
    free(logits);
    close_model(model);
}
END_TEST

/* To every length, from the end and from a text that went on otherwise. */
START_TEST(after_a_rewind_a_text_goes_on_with_the_same_bits)
{
    locus_model *model = open_model(mixtures[_i]);
    float *expected = straight(model, NULL), *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    locus_session *session = open_session(model, NULL, 30, 1);
    eval(session, 0, N, N, logits);
    for (int n_keep = N; n_keep >= 0; n_keep--) {
        locus_error error = {0};
        ck_assert_msg(!locus_session_rewind(session, n_keep, &error), "%s", error.message);
        ck_assert_int_eq(locus_session_length(session), n_keep);
        const int n = N - n_keep < 3 ? N - n_keep : 3;
        for (int i = 0; i < n; i++) {
            const int32_t other = (tokens[n_keep + i] + 1) % TINY_VOCAB;
            ck_assert(!locus_session_eval(session, &other, 1, NULL, 0, NULL));
        }
        ck_assert(!locus_session_rewind(session, n_keep, NULL));
        eval(session, n_keep, n_keep + n, N, logits);
        check_same(logits, expected, n_keep, n_keep + n);
    }
    locus_session_free(session);
    free(expected);
    free(logits);
    close_model(model);
}
END_TEST

/* A ring of keys holds those of the tokens that are run again. */
START_TEST(two_batches_back_can_be_gone_back_to_beside_a_window)
{
    enum { BATCH = 4 };
    static const char window[] = "window:size=9";
    locus_model *model = open_model(mixtures[_i]);
    float *expected = straight(model, window), *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    locus_session *session = open_session(model, window, BATCH, 1);
    for (int n = 1; n <= N; n++) {
        locus_error error = {0};
        const int back = n < 2 * BATCH ? n : 2 * BATCH;
        eval(session, n - 1, n, 1, logits);
        ck_assert_msg(!locus_session_rewind(session, n - back, &error), "%s", error.message);
        eval(session, n - back, n, BATCH, logits);
        check_same(logits, expected, n - back, n);
    }
    locus_session_free(session);
    free(expected);
    free(logits);
    close_model(model);
}
END_TEST

START_TEST(a_refused_chunk_leaves_the_state_as_it_was)
{
    enum { HELD = 70, BATCH = 8 };
    locus_model *model = open_model(mixtures[_i]);
    float *expected = straight(model, NULL), *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    locus_session *session = open_session(model, NULL, BATCH, 2);
    struct means *means = session->layers[_i == 1].state;
    locus_error error = {0};
    eval(session, 0, HELD, HELD, logits);
    memcpy(logits, locus_session_logits(session), TINY_VOCAB * sizeof *logits);
    means->refuse_after = HELD + 2 * BATCH;
    ck_assert_int_eq(locus_session_eval(session, tokens + HELD, 3 * BATCH, NULL, 0, &error),
                     LOCUS_ERROR_NUMERIC);
    ck_assert_str_eq(error.message, "a mean past 86 tokens");
    ck_assert_int_eq(locus_session_length(session), HELD);
    ck_assert(!memcmp(logits, locus_session_logits(session), TINY_VOCAB * sizeof *logits));
    means->refuse_after = 0;
    eval(session, HELD, N, N, logits);
    check_same(logits, expected, HELD, N);
    locus_session_free(session);
    free(expected);
    free(logits);
    close_model(model);
}
END_TEST

/* The means are of the last tokens above all; of all of them nevertheless. */
START_TEST(the_state_is_what_the_tokens_make_it)
{
    locus_model *model = open_model(3), *attention = open_model(0);
    float *expected = straight(model, NULL), *others = straight(attention, NULL);
    float *logits = calloc(N * TINY_VOCAB, sizeof *logits);
    ck_assert(memcmp(expected, others, N * TINY_VOCAB * sizeof *expected) != 0);
    const int32_t first = tokens[0];
    tokens[0] = (first + 1) % TINY_VOCAB;
    locus_session *session = open_session(model, NULL, N, 1);
    eval(session, 0, N, N, logits);
    tokens[0] = first;
    for (int i = 0; i < 40; i++)
        ck_assert(memcmp(logits + i * TINY_VOCAB, expected + i * TINY_VOCAB,
                         TINY_VOCAB * sizeof *logits) != 0);
    locus_session_free(session);
    free(expected);
    free(others);
    free(logits);
    close_model(model);
    close_model(attention);
}
END_TEST

START_TEST(only_layers_of_attention_have_keys_and_a_map)
{
    locus_model *model = open_model(mixtures[_i]);
    locus_session *session = open_session(model, NULL, N, 1);
    const struct locus_attention *attention = locus_session_attention_state(session);
    const int n_attention = mixtures[_i] == 3 ? 0 : 1;
    ck_assert_int_eq(attention ? attention->cache.n_layer : 0, n_attention);
    for (int l = 0; l < TINY_LAYERS; l++) {
        locus_error error = {0};
        float weights[9];
        const bool mean = mixtures[_i] >> l & 1;
        ck_assert_int_eq(locus_session_probe(session, tokens, 3, l, 0, weights, &error),
                         mean ? LOCUS_ERROR_UNSUPPORTED : LOCUS_OK);
        ck_assert(!mean || strstr(error.message, "is running mean, expected attention"));
    }
    locus_session_free(session);
    close_model(model);
}
END_TEST

/* A layer may name what nothing runs. */
START_TEST(a_mixer_that_nobody_knows_is_refused)
{
    locus_model *model = open_model(2);
    locus_error error = {0};
    ck_assert_ptr_null(locus_session_create(model, NULL, &error));
    ck_assert_int_eq(error.status, LOCUS_ERROR_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, "layer 1 is of running mean") != NULL, "%s", error.message);
    close_model(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mixers");
    TCase *tests = tcase_create("mixers");
    tcase_add_loop_test(tests, a_text_has_the_same_bits_however_it_is_cut, 0, N_MIXTURES);
    tcase_add_loop_test(tests, after_a_rewind_a_text_goes_on_with_the_same_bits, 0, N_MIXTURES);
    tcase_add_loop_test(tests, two_batches_back_can_be_gone_back_to_beside_a_window, 0,
                        N_WITH_ATTENTION);
    tcase_add_loop_test(tests, a_refused_chunk_leaves_the_state_as_it_was, 0, N_MIXTURES);
    tcase_add_test(tests, the_state_is_what_the_tokens_make_it);
    tcase_add_loop_test(tests, only_layers_of_attention_have_keys_and_a_map, 0, N_MIXTURES);
    tcase_add_test(tests, a_mixer_that_nobody_knows_is_refused);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
