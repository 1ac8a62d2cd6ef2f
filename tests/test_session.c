/* Sessions: the same bits however a text is cut, whatever the threads, batch and kernel set, for
 * every golden model, cache and weight type; and what a session refuses.
 */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "forward/session.h"
#include "products.h"
#include "testing.h"
#include "variant.h"

enum { MOST = 80 }; /* tokens of a text: more than a block of 64 keys */

static const char *const goldens[] = {
    "gpt2-learned",       "gpt1-postnorm",    "gptneo-local",     "opt-relu",
    "xglm-sinusoidal",    "llama-half",       "neox-parallel",    "gptj-parallel",
    "bloom-alibi",        "mpt-alibi",        "llama-sinusoidal", "llama-none",
    "gemma2-capped",      "qwen3-head-norms", "granite-scales",   "stablelm-head-norms",
    "olmo2-output-norms", "mixtral-experts",  "qwen2-experts",
};
enum { N_GOLDENS = sizeof goldens / sizeof *goldens };

static const enum locus_tensor_type weight_types[] = {LOCUS_F32, LOCUS_F16, LOCUS_BF16, LOCUS_Q8_0,
                                                      LOCUS_Q4_0};
enum { N_TYPES = sizeof weight_types / sizeof *weight_types };

/* ---- running ------------------------------------------------------------------------------- */

struct text {
    locus_model *model;
    const struct locus_kernels *kernels; /* NULL: the default */
    int32_t tokens[MOST];
    int n, n_vocab;
};

static struct text open_text(const char *path)
{
    locus_error error = {0};
    struct text text = {.model = locus_model_open(path, &error)};
    ck_assert_msg(text.model != NULL, "%s", error.message);
    locus_model_info info = locus_model_info_get(text.model);
    text.n_vocab = info.n_vocab;
    text.n = info.trained_length < MOST ? info.trained_length : MOST;
    for (int i = 0; i < text.n; i++)
        text.tokens[i] = (7 * i + i * i) % info.n_vocab;
    return text;
}

static struct text open_hostile(enum locus_tensor_type type)
{
    struct variant *variant = variant_begin(NULL);
    variant_convert(variant, type);
    return open_text(variant_finish(variant));
}

static locus_session *open_session(const struct text *text, locus_session_params params)
{
    locus_error error = {0};
    if (!params.n_threads) params.n_threads = 1;
    locus_session *session = locus_session_create(text->model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    if (text->kernels) session->kernels = text->kernels;
    return session;
}

/* Tokens first .. end-1 in calls of `step`, all rows of logits into rows[n, n_vocab]. */
static void eval(locus_session *session, const struct text *text, int first, int end, int step,
                 float *rows)
{
    locus_error error = {0};
    for (int at = first, n; at < end; at += n) {
        n = end - at < step ? end - at : step;
        enum locus_status status = locus_session_eval(
            session, text->tokens + at, n, rows + (size_t)at * (size_t)text->n_vocab, n, &error);
        ck_assert_msg(status == LOCUS_OK, "%s", error.message);
    }
    ck_assert_int_eq(locus_session_length(session), end);
}

static size_t rows_bytes(const struct text *text, int n)
{
    return (size_t)n * (size_t)text->n_vocab * sizeof(float);
}

static float *new_rows(const struct text *text)
{
    float *rows = calloc(1, rows_bytes(text, text->n));
    ck_assert_ptr_nonnull(rows);
    return rows;
}

static void check_same(const struct text *text, const float *rows, const float *wanted,
                       const char *what)
{
    size_t n = (size_t)text->n_vocab;
    for (int i = 0; i < text->n; i++)
        ck_assert_msg(!memcmp(rows + (size_t)i * n, wanted + (size_t)i * n, rows_bytes(text, 1)),
                      "%s: row %d differs", what, i);
}

/* ---- the same bits ------------------------------------------------------------------------- */

static void check_cut(const struct text *text, locus_session_params params, int step,
                      const float *wanted, const char *what)
{
    float *rows = new_rows(text);
    locus_session *session = open_session(text, params);
    eval(session, text, 0, text->n, step, rows);
    check_same(text, rows, wanted, what);
    locus_session_free(session);
    free(rows);
}

/* After a rewind to any place, what comes next is as if nothing else had been there. */
static void check_rewinds(const struct text *text, locus_session_params params, const float *wanted)
{
    float *rows = new_rows(text);
    locus_session *session = open_session(text, params);
    const int places[] = {text->n - 1, text->n / 2, 17, 3, 0};
    eval(session, text, 0, text->n, text->n, rows);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int place = places[i] < text->n ? places[i] : 0;
        ck_assert_int_eq(locus_session_rewind(session, place, NULL), LOCUS_OK);
        /* Something else first, to be forgotten. */
        const int32_t others[] = {1, 1};
        int n_others = text->n - place < 2 ? text->n - place : 2;
        ck_assert_int_eq(locus_session_eval(session, others, n_others, NULL, 0, NULL), LOCUS_OK);
        ck_assert_int_eq(locus_session_rewind(session, place, NULL), LOCUS_OK);
        memset(rows + (size_t)place * (size_t)text->n_vocab, 0, rows_bytes(text, text->n - place));
        eval(session, text, place, text->n, 11, rows);
        check_same(text, rows, wanted, "rewind");
    }
    locus_session_free(session);
    free(rows);
}

/* Rows asked for are the last; none asked for still leaves the last one's. */
static void check_rows(const struct text *text, locus_session_params params, const float *wanted)
{
    const int counts[] = {0, 1, 2, 9, text->n};
    float *rows = new_rows(text);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        locus_session *session = open_session(text, params);
        int n = counts[i];
        ck_assert_int_eq(
            locus_session_eval(session, text->tokens, text->n, n ? rows : NULL, n, NULL), LOCUS_OK);
        ck_assert(!memcmp(rows, wanted + (size_t)(text->n - n) * (size_t)text->n_vocab,
                          rows_bytes(text, n)));
        ck_assert(!memcmp(locus_session_logits(session),
                          wanted + (size_t)(text->n - 1) * (size_t)text->n_vocab,
                          rows_bytes(text, 1)));
        locus_session_free(session);
    }
    free(rows);
}

/* BF16's own instructions round in a way of their own: sets that have them make bits of their own.
 */
static bool same_bits(enum locus_tensor_type type, const struct locus_kernels *kernels,
                      const struct locus_kernels *others)
{
    return type != LOCUS_BF16 || !kernels->to_bf16 == !others->to_bf16;
}

static void check_model(const struct text *text, enum locus_cache_type cache_type,
                        enum locus_tensor_type type)
{
    locus_session_params params = {.n_context = text->n, .cache_type = cache_type};
    float *wanted = new_rows(text);
    locus_session *session = open_session(text, params);
    eval(session, text, 0, text->n, text->n, wanted);
    locus_session_free(session);
    check_cut(text, params, 1, wanted, "token by token");
    check_cut(text, params, 13, wanted, "in calls of 13");
    check_rewinds(text, params, wanted);
    check_rows(text, params, wanted);
    const int batches[] = {1, 7, 512};
    for (int i = 0; i < 3; i++) {
        params.n_batch = batches[i];
        params.n_threads = i + 1;
        check_cut(text, params, text->n, wanted, "another batch, more threads");
    }
    params.n_threads = 0;
    struct text other = *text;
    for (int i = 0; (other.kernels = kernels_at(i)); i++) {
        if (!same_bits(type, other.kernels, text->kernels)) continue;
        check_cut(&other, params, text->n, wanted, other.kernels->name);
        check_cut(&other, params, 1, wanted, other.kernels->name);
    }
    free(wanted);
}

START_TEST(golden_models_keep_their_bits)
{
    char name[64];
    snprintf(name, sizeof name, "%s.gguf", goldens[_i]);
    struct text text = open_text(testing_golden(name));
    ck_assert_int_ge(text.n, 32);
    text.kernels = kernels_at(0);
    check_model(&text, LOCUS_CACHE_F32, LOCUS_F32);
    check_model(&text, LOCUS_CACHE_F16, LOCUS_F32);
    check_model(&text, LOCUS_CACHE_Q8_0, LOCUS_F32);
    locus_model_free(text.model);
}
END_TEST

START_TEST(every_weight_type_keeps_its_bits)
{
    enum locus_tensor_type type = weight_types[_i];
    struct text text = open_hostile(type);
    const struct locus_kernels *const sets[] = {plain_kernels(), kernels_with_dots()};
    for (int i = 0; i < (type == LOCUS_BF16 && sets[1] ? 2 : 1); i++) {
        text.kernels = sets[i];
        check_model(&text, LOCUS_CACHE_AUTO, type);
        check_model(&text, LOCUS_CACHE_Q8_0, type);
    }
    locus_model_free(text.model);
}
END_TEST

/* ---- several sessions ---------------------------------------------------------------------- */

struct job {
    const struct text *text;
    const float *wanted;
    bool same;
};

static void *run_job(void *context)
{
    struct job *job = context;
    float *rows = calloc(1, rows_bytes(job->text, job->text->n));
    job->same = rows != NULL;
    for (int round = 0; round < 3 && job->same; round++) {
        locus_session_params params = {.n_context = job->text->n, .n_threads = 1, .n_batch = 5};
        locus_session *session = locus_session_create(job->text->model, &params, NULL);
        job->same = session &&
                    !locus_session_eval(session, job->text->tokens, job->text->n, rows,
                                        job->text->n, NULL) &&
                    !memcmp(rows, job->wanted, rows_bytes(job->text, job->text->n));
        locus_session_free(session);
    }
    free(rows);
    return NULL;
}

START_TEST(threads_share_a_model)
{
    enum { N = 4 };
    struct text text = open_hostile(LOCUS_Q8_0);
    float *wanted = new_rows(&text);
    locus_session *session = open_session(&text, (locus_session_params){.n_context = text.n});
    eval(session, &text, 0, text.n, text.n, wanted);
    pthread_t threads[N];
    struct job jobs[N];
    for (int i = 0; i < N; i++) {
        jobs[i] = (struct job){&text, wanted, false};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_job, &jobs[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(jobs[i].same);
    }
    locus_session_free(session);
    free(wanted);
    locus_model_free(text.model);
}
END_TEST

/* ---- what a session says of itself --------------------------------------------------------- */

START_TEST(defaults_are_the_models)
{
    struct text text = open_hostile(LOCUS_F32), halves = open_hostile(LOCUS_F16);
    locus_session *session = locus_session_create(text.model, NULL, NULL);
    ck_assert_ptr_nonnull(session);
    ck_assert_int_eq(locus_session_capacity(session), 64);
    ck_assert_int_eq(locus_session_length(session), 0);
    ck_assert_int_eq(locus_session_n_threads(session), locus_threads_default());
    ck_assert_str_eq(locus_session_position(session), "rope:pairs=adjacent,dim=8,base=10000");
    ck_assert_str_eq(locus_session_kernels(session), locus_kernels_name(0));
    ck_assert_int_eq(locus_session_cache_type(session), LOCUS_CACHE_F32);
    for (int i = 0; i < text.n_vocab; i++)
        ck_assert(locus_session_logits(session)[i] == 0);
    locus_session_free(session);
    session = locus_session_create(halves.model, NULL, NULL);
    ck_assert_int_eq(locus_session_cache_type(session), LOCUS_CACHE_F16);
    locus_session_free(session);
    locus_session_free(NULL);
    locus_model_free(text.model);
    locus_model_free(halves.model);
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------ */

static void refuse(const struct text *text, locus_session_params params, const char *says)
{
    locus_error error = {0};
    ck_assert_ptr_null(locus_session_create(text->model, &params, NULL));
    ck_assert_ptr_null(locus_session_create(text->model, &params, &error));
    ck_assert_int_ne(error.status, LOCUS_OK);
    ck_assert_msg(strstr(error.message, says) != NULL, "no \"%s\": %s", says, error.message);
}

START_TEST(senseless_parameters_are_refused)
{
    struct text text = open_hostile(LOCUS_F32);
    refuse(&text, (locus_session_params){.n_context = -1}, "n_context is -1, expected 0 or more");
    refuse(&text, (locus_session_params){.n_batch = -1}, "n_batch is -1");
    refuse(&text, (locus_session_params){.n_threads = -2}, "n_threads is -2");
    refuse(&text, (locus_session_params){.n_threads = INT_MAX}, "n_threads is 2147483647");
    refuse(&text, (locus_session_params){.first_position = -1}, "first_position is -1");
    refuse(&text, (locus_session_params){.cache_type = (enum locus_cache_type)9},
           "cache_type is 9");
    refuse(&text, (locus_session_params){.kernels = "sse"}, "kernels \"sse\"");
    refuse(&text, (locus_session_params){.position = "rope:bsae=1"}, "nearest is 'base'");
    refuse(&text, (locus_session_params){.position = "learned"}, "position_embd.weight");
    refuse(&text, (locus_session_params){.n_context = INT_MAX}, "2147483647 positions");
    refuse(&text, (locus_session_params){.n_context = 9, .first_position = INT_MAX}, "positions");
    locus_error error = {.message = "untouched"};
    ck_assert_ptr_null(locus_session_create(NULL, NULL, &error));
    ck_assert_str_eq(error.message, "untouched");
    locus_model_free(text.model);
}
END_TEST

START_TEST(context_past_a_table_is_refused_or_cut)
{
    struct text text = open_text(testing_golden("gpt2-learned.gguf"));
    locus_session *session = open_session(&text, (locus_session_params){0});
    int rows = locus_session_capacity(session);
    locus_session_free(session);
    char says[64];
    snprintf(says, sizeof says, "%d positions, the session needs %d", rows, rows + 1);
    refuse(&text, (locus_session_params){.n_context = rows + 1}, says);
    session = open_session(&text, (locus_session_params){.first_position = 5});
    ck_assert_int_eq(locus_session_capacity(session), rows - 5);
    locus_session_free(session);
    refuse(&text, (locus_session_params){.first_position = rows}, "the session needs");
    locus_model_free(text.model);
}
END_TEST

static void refuse_eval(locus_session *session, const int32_t *tokens, int n, float *logits,
                        int n_rows, const char *says)
{
    locus_error error = {0};
    int length = locus_session_length(session);
    ck_assert_int_ne(locus_session_eval(session, tokens, n, logits, n_rows, &error), LOCUS_OK);
    ck_assert_int_ne(locus_session_eval(session, tokens, n, logits, n_rows, NULL), LOCUS_OK);
    ck_assert_msg(strstr(error.message, says) != NULL, "no \"%s\": %s", says, error.message);
    ck_assert_int_eq(locus_session_length(session), length);
}

START_TEST(failed_calls_leave_the_session_as_it_was)
{
    struct text text = open_hostile(LOCUS_F32);
    float *wanted = new_rows(&text), *rows = new_rows(&text);
    locus_session *session = open_session(&text, (locus_session_params){.n_context = text.n});
    eval(session, &text, 0, text.n, text.n, wanted);
    ck_assert_int_eq(locus_session_rewind(session, 0, NULL), LOCUS_OK);
    eval(session, &text, 0, 9, 9, rows);
    const int32_t wrong[] = {1, 2, text.n_vocab}, negative[] = {-1};
    refuse_eval(session, wrong, 3, NULL, 0, "token 2 is 271, expected 0 to 270");
    refuse_eval(session, negative, 1, NULL, 0, "token 0 is -1");
    refuse_eval(session, wrong, 0, NULL, 0, "eval of 0 tokens");
    refuse_eval(session, wrong, -1, NULL, 0, "eval of -1 tokens");
    refuse_eval(session, NULL, 1, NULL, 0, "eval of 1 tokens");
    refuse_eval(session, wrong, 2, rows, 3, "with 3 rows");
    refuse_eval(session, wrong, 2, rows, -1, "with -1 rows");
    refuse_eval(session, wrong, 2, NULL, 1, "with 1 rows");
    refuse_eval(session, text.tokens, text.n, NULL, 0, "9 tokens held and 64 more");
    locus_error error = {0};
    ck_assert_int_ne(locus_session_rewind(session, 10, &error), LOCUS_OK);
    ck_assert_ptr_nonnull(strstr(error.message, "rewind to 10"));
    ck_assert_int_ne(locus_session_rewind(session, -1, &error), LOCUS_OK);
    eval(session, &text, 9, text.n, 5, rows);
    check_same(&text, rows, wanted, "after failures");
    locus_session_free(session);
    free(wanted);
    free(rows);
    locus_model_free(text.model);
}
END_TEST

/* ---- what a cache type can't hold ---------------------------------------------------------- */

/* The text on a model whose keys of the second layer are so many times as large. */
static struct text open_loud(float times)
{
    int rows, cols;
    struct variant *variant = variant_begin(NULL);
    float *values = variant_floats(variant, "blk.1.attn_k.weight", &rows, &cols);
    for (int i = 0; i < rows * cols; i++)
        values[i] *= times;
    variant_drop(variant, "blk.1.attn_k.weight");
    variant_add(variant, "blk.1.attn_k.weight", LOCUS_F32, rows, cols, values);
    free(values);
    return open_text(variant_finish(variant));
}

/* The position at which a run token by token is refused, or -1. */
static int find_refusal(const struct text *text, locus_session_params params)
{
    locus_session *session = open_session(text, params);
    int at = 0;
    while (at < text->n && !locus_session_eval(session, text->tokens + at, 1, NULL, 0, NULL))
        at++;
    locus_session_free(session);
    return at < text->n ? at : -1;
}

/* A text of which the loudest keys alone don't fit an F16 cache under that attention: those at
 * *position. */
static struct text open_too_loud(const char *attention, int *position)
{
    for (float times = 1e4f;; times *= 1.05f) {
        struct text text = open_loud(times);
        locus_session_params params = {
            .n_context = text.n, .cache_type = LOCUS_CACHE_F16, .attention = attention};
        *position = find_refusal(&text, params);
        if (*position >= 0) return text;
        locus_model_free(text.model);
    }
}

START_TEST(keys_past_the_range_of_halves_are_refused)
{
    int position;
    char says[128];
    struct text text = open_too_loud(NULL, &position);
    ck_assert_int_gt(position, 8);
    snprintf(says, sizeof says, "position %d, layer 1: a key or value is past 65504", position);
    float *wanted = new_rows(&text), *rows = new_rows(&text);
    const int batches[] = {512, 1, 7}, threads[] = {1, 3, 2};
    for (int i = 0; i < 3; i++) {
        locus_session_params params = {.n_context = text.n,
                                       .cache_type = LOCUS_CACHE_F16,
                                       .n_batch = batches[i],
                                       .n_threads = threads[i]};
        locus_session *session = open_session(&text, params);
        refuse_eval(session, text.tokens, text.n, wanted, 1, says);
        eval(session, &text, 0, 5, 5, wanted);
        refuse_eval(session, text.tokens + 5, text.n - 5, NULL, 0, says);
        refuse_eval(session, text.tokens + 5, text.n - 5, NULL, 0, "--cache-type");
        ck_assert(!memcmp(locus_session_logits(session), wanted + 4 * text.n_vocab,
                          rows_bytes(&text, 1)));
        eval(session, &text, 5, position, 3, wanted);
        float nll = -1;
        ck_assert_int_eq(
            locus_session_score(session, text.tokens + position, 1, text.tokens, &nll, NULL),
            LOCUS_ERROR_NUMERIC);
        ck_assert(nll <= 0 && locus_session_length(session) == position);
        locus_session_free(session);
        params.n_batch = 0;
        session = open_session(&text, params);
        eval(session, &text, 0, position, position, rows);
        ck_assert(!memcmp(rows, wanted, rows_bytes(&text, position)));
        locus_session_free(session);
    }
    free(wanted);
    free(rows);
    locus_model_free(text.model);
}
END_TEST

START_TEST(other_cache_types_hold_what_halves_do_not)
{
    int position;
    struct text text = open_too_loud(NULL, &position);
    const enum locus_cache_type fit[] = {LOCUS_CACHE_F32, LOCUS_CACHE_Q8_0};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            find_refusal(&text, (locus_session_params){.n_context = text.n, .cache_type = fit[i]}),
            -1);
    /* Keys that the scheme rotates anew for each query, and those stored a second time, too. */
    locus_session_params params = {.n_context = text.n, .cache_type = LOCUS_CACHE_F16};
    params.position = "dynamic-ntk:length=row,trained=16";
    ck_assert_int_ge(find_refusal(&text, params), 0);
    params.position = NULL;
    params.attention = "self-extend:group=2,window=16";
    ck_assert_int_ge(find_refusal(&text, params), 0);
    locus_model_free(text.model);
}
END_TEST

/* Where keys are dropped, the batches before the refused one may stay: what is held is true. */
START_TEST(a_refusal_under_a_window_leaves_a_session_that_goes_on)
{
    int position;
    const char *attention = "window:size=4";
    struct text text = open_too_loud(attention, &position);
    locus_session_params params = {
        .n_context = text.n, .cache_type = LOCUS_CACHE_F16, .attention = attention, .n_batch = 4};
    ck_assert_int_gt(position, 8);
    float *wanted = new_rows(&text), *rows = new_rows(&text);
    locus_session *session = open_session(&text, params);
    eval(session, &text, 0, position, 4, wanted);
    locus_session_free(session);
    session = open_session(&text, params);
    eval(session, &text, 0, 2, 2, rows);
    ck_assert_int_eq(locus_session_eval(session, text.tokens + 2, text.n - 2, NULL, 0, NULL),
                     LOCUS_ERROR_NUMERIC);
    const int held = locus_session_length(session);
    ck_assert(held == 2 || (held <= position && held > position - 4));
    eval(session, &text, held, position, 1, rows);
    ck_assert(!memcmp(rows + (size_t)held * (size_t)text.n_vocab,
                      wanted + (size_t)held * (size_t)text.n_vocab,
                      rows_bytes(&text, position - held)));
    locus_session_free(session);
    free(wanted);
    free(rows);
    locus_model_free(text.model);
}
END_TEST

/* Keys that are no numbers to begin with are not the cache's fault. */
START_TEST(odd_keys_are_not_blamed_on_the_cache)
{
    const float odd[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        struct text text = open_loud(odd[i]);
        ck_assert_int_eq(find_refusal(&text, (locus_session_params){.n_context = text.n,
                                                                    .cache_type = LOCUS_CACHE_F16}),
                         -1);
        locus_model_free(text.model);
    }
}
END_TEST

/* ---- stopping ------------------------------------------------------------------------------- */

struct stopper {
    int n_asked, stop_at; /* the time that it is asked; 0: never */
};

static bool stop(void *context)
{
    struct stopper *stopper = context;
    return ++stopper->n_asked == stopper->stop_at;
}

/* The passes before stay done, and the text goes on from there. */
START_TEST(a_call_can_be_stopped_between_passes)
{
    enum { BATCH = 8, N = 4 * BATCH - 3, AT = 2 };
    struct text text = open_text(testing_golden("llama-half.gguf"));
    struct stopper stopper = {0};
    locus_error error = {0};
    const size_t n_values = (size_t)N * (size_t)text.n_vocab;
    float *expected = calloc(n_values, sizeof *expected), *rows = calloc(n_values, sizeof *rows);
    int32_t targets[N];
    float nll[N];
    memset(targets, 0, sizeof targets);
    locus_session *session = open_session(
        &text, (locus_session_params){.n_batch = BATCH, .stop = stop, .stop_context = &stopper});
    eval(session, &text, 0, BATCH, BATCH, expected);
    ck_assert_int_eq(stopper.n_asked, 0); /* one pass has no between */
    locus_session_rewind(session, 0, NULL);
    eval(session, &text, 0, N, N, expected);
    ck_assert_int_eq(stopper.n_asked, 3);
    for (int scores = 0; scores < 2; scores++) {
        float *logits = locus_session_logits(session);
        locus_session_rewind(session, 0, NULL);
        stopper = (struct stopper){.stop_at = AT};
        logits[0] = 1234;
        ck_assert_int_eq(scores ? locus_session_score(session, text.tokens, N, targets, nll, &error)
                                : locus_session_eval(session, text.tokens, N, rows, N, &error),
                         LOCUS_ERROR_STOPPED);
        ck_assert_str_eq(error.message, "stopped after 16 of 29 tokens");
        ck_assert_int_eq(stopper.n_asked, AT);
        ck_assert_int_eq(locus_session_length(session), AT * BATCH);
        ck_assert(logits[0] == 1234);
        eval(session, &text, AT * BATCH, N, N, rows);
        const size_t first = AT * BATCH * (size_t)text.n_vocab;
        ck_assert(!memcmp(rows + first, expected + first, (n_values - first) * sizeof *rows));
    }
    free(expected);
    free(rows);
    locus_session_free(session);
    locus_model_free(text.model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session");
    TCase *tests = tcase_create("session");
    tcase_add_loop_test(tests, golden_models_keep_their_bits, 0, N_GOLDENS);
    tcase_add_loop_test(tests, every_weight_type_keeps_its_bits, 0, N_TYPES);
    tcase_add_test(tests, threads_share_a_model);
    tcase_add_test(tests, defaults_are_the_models);
    tcase_add_test(tests, senseless_parameters_are_refused);
    tcase_add_test(tests, context_past_a_table_is_refused_or_cut);
    tcase_add_test(tests, failed_calls_leave_the_session_as_it_was);
    tcase_add_test(tests, keys_past_the_range_of_halves_are_refused);
    tcase_add_test(tests, other_cache_types_hold_what_halves_do_not);
    tcase_add_test(tests, a_refusal_under_a_window_leaves_a_session_that_goes_on);
    tcase_add_test(tests, a_call_can_be_stopped_between_passes);
    tcase_add_test(tests, odd_keys_are_not_blamed_on_the_cache);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
