/* Sessions: made, fed, rewound. See session.h and locus.h. */
#include "forward/session.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/threads.h"

enum { DEFAULT_BATCH = 512 };

/* ---- position ----------------------------------------------------------------------------- */

/* Resolves the SPEC for a session of `capacity` positions. */
static enum locus_status set_position(struct locus_session *session,
                                      const struct locus_session_params *params, locus_error *error)
{
    const struct locus_config *config = &session->model->config;
    const struct locus_position_env env = {
        .n_embd = config->n_embd,
        .n_layer = config->n_layer,
        .n_head = config->n_head,
        .n_head_kv = config->n_head_kv,
        .head_dim = config->head_dim,
        .trained_length = config->trained_length,
        .session_length = session->first_position + session->capacity,
        .score_scale = config->attention_scale,
        .cache_type = session->cache_type,
        .source = session->model,
        .tensor = locus_model_extra,
    };
    const char *text = params->position;
    if (!text && params->scheme) text = params->scheme->name;
    enum locus_status status = locus_position_resolve(
        &session->position.spec, text, config->position, params->scheme, &env, error);
    if (status) {
        session->position.spec.scheme = NULL;
        return status;
    }
    struct locus_buffer printed = {0};
    locus_position_print(&session->position.spec, &printed);
    session->position_text = printed.bytes;
    if (printed.failed) return locus_fail_memory(error, printed.length);
    if ((status = locus_position_init(&session->position, &env, error))) return status;
    session->per_row_keys = locus_position_per_row_keys(&session->position);
    session->row_floats = locus_position_row_floats(&session->position);
    return LOCUS_OK;
}

/* A session longer than the scheme is refused if it was asked for, else cut. */
static enum locus_status limit_capacity(struct locus_session *session, bool asked,
                                        locus_error *error)
{
    int max = locus_position_max_positions(&session->position);
    if (max == 0 || session->capacity <= max - session->first_position) return LOCUS_OK;
    if (asked || max <= session->first_position)
        return locus_fail(
            error, LOCUS_ERROR_POSITION, "position %s has %d positions, the session needs %lld",
            session->position_text, max, (long long)session->first_position + session->capacity);
    session->capacity = max - session->first_position;
    return LOCUS_OK;
}

/* ---- scratch ------------------------------------------------------------------------------ */

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

static enum locus_status allocate(struct locus_session *session, locus_error *error)
{
    const struct locus_config *config = &session->model->config;
    const size_t n = (size_t)session->n_batch, n_embd = (size_t)config->n_embd;
    const size_t q_width = (size_t)config->n_head * (size_t)config->head_dim;
    const size_t kv_width = (size_t)config->n_head_kv * (size_t)config->head_dim;
    const size_t n_ff = (size_t)config->n_ff;
    const size_t widest =
        (size_t)max_int(config->n_embd, max_int(config->n_ff, config->n_head * config->head_dim));
    const struct {
        void **block;
        size_t rows, row_bytes;
    } blocks[] = {
        {(void **)&session->x, n, n_embd * sizeof(float)},
        {(void **)&session->normed, n, n_embd * sizeof(float)},
        {(void **)&session->mlp_normed, config->parallel_residual ? n : 0, n_embd * sizeof(float)},
        {(void **)&session->q, n, q_width * sizeof(float)},
        {(void **)&session->k, n, kv_width * sizeof(float)},
        {(void **)&session->v, n, kv_width * sizeof(float)},
        {(void **)&session->attended, n, q_width * sizeof(float)},
        {(void **)&session->gate, config->gated ? n : 0, n_ff * sizeof(float)},
        {(void **)&session->up, n, n_ff * sizeof(float)},
        {(void **)&session->quants, n, widest},
        {(void **)&session->quant_scales, n, (widest / LOCUS_BLOCK + 1) * sizeof(float)},
        {(void **)&session->positions, n, sizeof(int)},
        {(void **)&session->threads, (size_t)session->n_threads,
         session->thread_floats * sizeof(float)},
        {(void **)&session->kept, session->row_floats ? 1 + (size_t)session->capacity : 0,
         (size_t)session->row_floats * sizeof(float)},
        {(void **)&session->logits, 1, (size_t)config->n_vocab * sizeof(float)},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        *blocks[i].block = locus_aligned_zalloc(blocks[i].rows, blocks[i].row_bytes);
        if (!*blocks[i].block)
            return locus_fail_memory(error, blocks[i].rows * blocks[i].row_bytes);
    }
    return LOCUS_OK;
}

/* ---- create and free ---------------------------------------------------------------------- */

static enum locus_status check_params(const struct locus_session_params *params, locus_error *error)
{
    const struct {
        const char *name;
        int value;
    } counts[] = {{"n_context", params->n_context},
                  {"n_batch", params->n_batch},
                  {"n_threads", params->n_threads},
                  {"first_position", params->first_position}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < 0)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "%s is %d, expected 0 or more",
                              counts[i].name, counts[i].value);
    if ((int)params->cache_type < LOCUS_CACHE_AUTO || params->cache_type > LOCUS_CACHE_Q8_0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT, "cache_type is %d, expected %d to %d",
                          (int)params->cache_type, LOCUS_CACHE_AUTO, LOCUS_CACHE_Q8_0);
    return LOCUS_OK;
}

static enum locus_cache_type choose_cache_type(const struct locus_model *model,
                                               enum locus_cache_type asked)
{
    if (asked != LOCUS_CACHE_AUTO) return asked;
    return strcmp(locus_model_info_get(model).weight_type, "F32") ? LOCUS_CACHE_F16
                                                                  : LOCUS_CACHE_F32;
}

static enum locus_status open_session(struct locus_session *session,
                                      const struct locus_session_params *params, locus_error *error)
{
    static const enum locus_cache_format formats[] = {
        [LOCUS_CACHE_F32] = LOCUS_FORMAT_F32,
        [LOCUS_CACHE_F16] = LOCUS_FORMAT_F16,
        [LOCUS_CACHE_Q8_0] = LOCUS_FORMAT_Q8_0,
    };
    const struct locus_config *config = &session->model->config;
    enum locus_status status = check_params(params, error);
    if (status) return status;
    if (!(session->kernels = locus_kernels_find(params->kernels, error)))
        return LOCUS_ERROR_ARGUMENT;
    session->cache_type = choose_cache_type(session->model, params->cache_type);
    session->n_threads = params->n_threads ? params->n_threads : locus_threads_default();
    session->first_position = params->first_position;
    session->capacity = params->n_context ? params->n_context : config->trained_length;
    if (session->capacity > INT_MAX - LOCUS_KEY_PANEL - session->first_position)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "a session of %d positions from %d on, expected an end below %d",
                          session->capacity, session->first_position, INT_MAX - LOCUS_KEY_PANEL);
    if ((status = set_position(session, params, error)) ||
        (status = limit_capacity(session, params->n_context != 0, error)))
        return status;
    session->n_batch = params->n_batch ? params->n_batch : DEFAULT_BATCH;
    if (session->n_batch > session->capacity) session->n_batch = session->capacity;
    session->thread_floats = locus_attend_floats(session);
    status = locus_cache_init(&session->cache, formats[session->cache_type], config->n_layer,
                              config->n_head_kv, config->head_dim, session->capacity, error);
    return status ? status : allocate(session, error);
}

locus_session *locus_session_create(const locus_model *model, const locus_session_params *params,
                                    locus_error *error)
{
    static const locus_session_params defaults = {0};
    if (!model) return NULL;
    struct locus_session *session = calloc(1, sizeof *session);
    if (!session) {
        locus_fail_memory(error, sizeof *session);
        return NULL;
    }
    session->model = model;
    if (open_session(session, params ? params : &defaults, error)) {
        locus_session_free(session);
        return NULL;
    }
    return session;
}

void locus_session_free(locus_session *session)
{
    if (!session) return;
    locus_position_free(&session->position);
    locus_cache_free(&session->cache);
    void *blocks[] = {session->x,        session->normed, session->mlp_normed,   session->q,
                      session->k,        session->v,      session->gate,         session->up,
                      session->attended, session->quants, session->quant_scales, session->positions,
                      session->threads,  session->kept,   session->logits};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        locus_aligned_free(blocks[i]);
    free(session->position_text);
    free(session);
}

/* ---- use ---------------------------------------------------------------------------------- */

static enum locus_status check_eval(const struct locus_session *session, const int32_t *tokens,
                                    int n, const float *logits, int n_rows, locus_error *error)
{
    const int n_vocab = session->model->config.n_vocab;
    if (n < 1 || !tokens || n_rows < 0 || n_rows > n || (n_rows && !logits))
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "eval of %d tokens with %d rows of logits, expected 1 or more tokens and "
                          "0 to as many rows",
                          n, n_rows);
    if (n > session->capacity - session->length)
        return locus_fail(error, LOCUS_ERROR_POSITION,
                          "%d tokens held and %d more, but the context holds %d", session->length,
                          n, session->capacity);
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "token %d is %d, expected 0 to %d", i,
                              (int)tokens[i], n_vocab - 1);
    return LOCUS_OK;
}

enum locus_status locus_session_eval(locus_session *session, const int32_t *tokens, int n,
                                     float *logits, int n_rows, locus_error *error)
{
    enum locus_status status = check_eval(session, tokens, n, logits, n_rows, error);
    if (status) return status;
    const size_t n_vocab = (size_t)session->model->config.n_vocab;
    for (int done = 0; done < n;) {
        int chunk = n - done < session->n_batch ? n - done : session->n_batch;
        int after = n - done - chunk; /* tokens of later chunks */
        int rows = n_rows > after ? n_rows - after : 0;
        if (rows > chunk) rows = chunk;
        locus_forward(session, tokens + done, chunk, logits, rows, after == 0);
        session->length += chunk;
        if (logits) logits += (size_t)rows * n_vocab;
        done += chunk;
    }
    return LOCUS_OK;
}

float *locus_session_logits(locus_session *session)
{
    return session->logits;
}

enum locus_status locus_session_rewind(locus_session *session, int n_keep, locus_error *error)
{
    if (n_keep < 0 || n_keep > session->length)
        return locus_fail(error, LOCUS_ERROR_POSITION,
                          "rewind to %d tokens, expected 0 to the %d held", n_keep,
                          session->length);
    session->length = n_keep;
    return LOCUS_OK;
}

int locus_session_length(const locus_session *session)
{
    return session->length;
}

int locus_session_capacity(const locus_session *session)
{
    return session->capacity;
}

int locus_session_n_threads(const locus_session *session)
{
    return session->n_threads;
}

const char *locus_session_position(const locus_session *session)
{
    return session->position_text;
}

const char *locus_session_attention(const locus_session *session)
{
    (void)session;
    return "full";
}

const char *locus_session_kernels(const locus_session *session)
{
    return session->kernels->name;
}

enum locus_cache_type locus_session_cache_type(const locus_session *session)
{
    return session->cache_type;
}
