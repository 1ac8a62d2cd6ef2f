/* Sessions: made, fed, rewound. See session.h and locus.h. */
#include "forward/session.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/math.h"
#include "model/finite.h"

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* ---- create and free ---------------------------------------------------------------------- */

static enum locus_status set_position(struct locus_session *session, locus_error *error)
{
    struct locus_positions *positions = &session->positions;
    const struct locus_position_env env =
        locus_description_env(&session->setup, session->model, session->setup.capacity);
    enum locus_status status = locus_positions_init(positions, &session->setup.specs, &env, error);
    if (status) return status;
    session->embed_floats = positions->schemes[0].embed_floats;
    for (int i = 0; i < positions->n; i++)
        session->layer_floats = max_int(session->layer_floats, positions->schemes[i].layer_floats);
    return LOCUS_OK;
}

/* What can't be had is refused before schemes make tables as long as the session. */
static enum locus_status open_session(struct locus_session *session,
                                      const struct locus_session_params *params, int text_length,
                                      locus_error *error)
{
    enum locus_status status =
        locus_session_describe(&session->setup, session->model, params, text_length, error);
    if (status) return status;
    session->kernels = &session->setup.kernels;
    if ((status = locus_room_make(session, error)) || (status = set_position(session, error)))
        return status;
    return locus_room_make_states(session, error);
}

locus_session *locus_session_create_for(const locus_model *model,
                                        const locus_session_params *params, int text_length,
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
    if (open_session(session, params ? params : &defaults, text_length, error)) {
        locus_session_free(session);
        return NULL;
    }
    return session;
}

locus_session *locus_session_create(const locus_model *model, const locus_session_params *params,
                                    locus_error *error)
{
    return locus_session_create_for(model, params, 0, error);
}

void locus_session_free(locus_session *session)
{
    if (!session) return;
    locus_positions_close(&session->positions);
    locus_room_free(session);
    locus_aligned_free(session->score_logits);
    locus_description_free(&session->setup);
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
    if (n > session->setup.capacity - session->length)
        return locus_fail(error, LOCUS_ERROR_POSITION,
                          "%d tokens held and %d more, but the context holds %d", session->length,
                          n, session->setup.capacity);
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "token %d is %d, expected 0 to %d", i,
                              (int)tokens[i], n_vocab - 1);
    return LOCUS_OK;
}

/* One chunk; whoever calls it has checked that there is room. Keys or values that the cache can't
 * hold are refused, and the session goes back to n_before tokens; to those before the chunk where
 * the keys of so few are no longer held. */
static enum locus_status forward(struct locus_session *session, const int32_t *tokens, int n,
                                 const int *coordinates, const struct locus_outputs *outputs,
                                 int n_before, locus_error *error)
{
    int layer, slot;
    /* The caller's coordinates may be any. */
    const int n_positions = session->setup.first_position + session->length + n;
    locus_positions_fill(&session->positions,
                         session->setup.n_axes ? session->positions.n_positions : n_positions);
    locus_coordinates_put(session, coordinates, n);
    locus_forward(session, tokens, n, outputs);
    int first_held = locus_cache_first_held(&session->cache, session->length + n - 1);
    session->first_held = max_int(session->first_held, first_held);
    if (locus_cache_overflow(&session->cache, &layer, &slot)) {
        locus_session_rewind(session, n_before, NULL);
        return locus_fail(error, LOCUS_ERROR_NUMERIC,
                          "position %d, layer %d: a key or value is past 65504, the most that "
                          "cache type f16 holds; expected cache type f32 or q8_0 (--cache-type)",
                          session->setup.first_position + slot, layer);
    }
    session->length += n;
    return LOCUS_OK;
}

enum locus_status locus_session_eval(locus_session *session, const int32_t *tokens, int n,
                                     float *logits, int n_rows, locus_error *error)
{
    return locus_session_eval_at(session, tokens, n, NULL, logits, n_rows, error);
}

enum locus_status locus_session_eval_at(locus_session *session, const int32_t *tokens, int n,
                                        const int *coordinates, float *logits, int n_rows,
                                        locus_error *error)
{
    enum locus_status status = check_eval(session, tokens, n, logits, n_rows, error);
    if (!status) status = locus_coordinates_check(session, coordinates, n, error);
    if (status) return status;
    const size_t n_vocab = (size_t)session->model->config.n_vocab;
    const int n_before = session->length;
    for (int done = 0; done < n;) {
        int chunk = n - done < session->setup.n_batch ? n - done : session->setup.n_batch;
        int after = n - done - chunk; /* tokens of later chunks */
        int rows = n_rows > after ? n_rows - after : 0;
        if (rows > chunk) rows = chunk;
        const struct locus_outputs outputs = {.logits = logits, .n_rows = rows, .last = after == 0};
        if ((status =
                 forward(session, tokens + done, chunk, coordinates, &outputs, n_before, error)))
            return status;
        if (coordinates) coordinates += (size_t)chunk * (size_t)session->setup.n_axes;
        if (logits) logits += (size_t)rows * n_vocab;
        done += chunk;
    }
    return LOCUS_OK;
}

enum locus_status locus_session_score(struct locus_session *session, const int32_t *tokens, int n,
                                      const int32_t *targets, float *nll, locus_error *error)
{
    enum locus_status status = check_eval(session, tokens, n, NULL, 0, error);
    if (!status) status = locus_coordinates_check(session, NULL, n, error);
    if (status) return status;
    const size_t row_bytes = (size_t)session->model->config.n_vocab * sizeof(float);
    for (int i = 0; i < n; i++)
        if (targets[i] >= session->model->config.n_vocab)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "target %d is %d, expected below %d", i,
                              (int)targets[i], session->model->config.n_vocab);
    if (!session->score_logits)
        session->score_logits = locus_aligned_zalloc(LOCUS_SCORE_ROWS, row_bytes);
    if (!session->score_logits) return locus_fail_memory(error, LOCUS_SCORE_ROWS * row_bytes);
    const int n_before = session->length;
    for (int done = 0, chunk; done < n; done += chunk) {
        chunk = n - done < session->setup.n_batch ? n - done : session->setup.n_batch;
        struct locus_outputs outputs = {.targets = targets + done, .nll = nll + done};
        for (int i = 0; i < chunk; i++) {
            nll[done + i] = 0;
            if (targets[done + i] >= 0) session->scored[outputs.n_scored++] = i;
        }
        if ((status = forward(session, tokens + done, chunk, NULL, &outputs, n_before, error)))
            return status;
    }
    return LOCUS_OK;
}

/* Scores that attention left in weights[n, n], -INFINITY where a row doesn't look, to shares. */
static void softmax_rows(float *weights, int n)
{
    for (int i = 0; i < n; i++, weights += n) {
        float max = -INFINITY;
        double sum = 0;
        for (int j = 0; j < n; j++)
            max = weights[j] > max ? weights[j] : max;
        for (int j = 0; j < n; j++) {
            weights[j] = locus_exp(weights[j] - max);
            sum += (double)weights[j];
        }
        for (int j = 0; j < n; j++)
            weights[j] = (float)((double)weights[j] / sum);
    }
}

enum locus_status locus_session_probe(struct locus_session *session, const int32_t *tokens, int n,
                                      int layer, int head, float *weights, locus_error *error)
{
    const struct locus_config *config = &session->model->config;
    if (layer < 0 || layer >= config->n_layer || head < 0 || head >= config->n_head)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "layer %d and head %d, expected 0 to %d and 0 to %d", layer, head,
                          config->n_layer - 1, config->n_head - 1);
    enum locus_status status = locus_session_rewind(session, 0, error);
    if (!status) status = check_eval(session, tokens, n, NULL, 0, error);
    if (status) return status;
    for (size_t i = 0; i < (size_t)n * (size_t)n; i++)
        weights[i] = -INFINITY;
    session->probe = (struct locus_probe){.layer = layer, .head = head, .n = n, .weights = weights};
    status = locus_session_eval(session, tokens, n, NULL, 0, error);
    session->probe.weights = NULL;
    softmax_rows(weights, n);
    for (size_t i = 0; i < (size_t)n * (size_t)n && !status; i++)
        if (isnan(weights[i]))
            status = locus_fail_numeric(session->model, error,
                                        "attention weights at position %d are no numbers",
                                        (int)(i / (size_t)n));
    return status;
}

float *locus_session_logits(locus_session *session)
{
    return session->logits;
}

/* The next row needs keys that are still held. */
static enum locus_status check_held(const struct locus_session *session, int n_keep,
                                    locus_error *error)
{
    const int pinned = session->cache.n_pinned * LOCUS_KV_BLOCK;
    struct locus_span spans[LOCUS_MAX_SPANS];
    const int n_spans = session->setup.policy.kind->split(&session->setup.policy, n_keep, spans);
    for (int s = 0; s < n_spans; s++) {
        const int end = spans[s].end < n_keep ? spans[s].end : n_keep;
        const int first = max_int(spans[s].first, pinned);
        if (first < end && first < session->first_held)
            return locus_fail(error, LOCUS_ERROR_POSITION,
                              "rewind to %d tokens: the next one sees position %d, but attention "
                              "%s holds none between its sinks and position %d",
                              n_keep, session->setup.first_position + first,
                              session->setup.attention,
                              session->setup.first_position + session->first_held);
    }
    return LOCUS_OK;
}

enum locus_status locus_session_rewind(locus_session *session, int n_keep, locus_error *error)
{
    if (n_keep < 0 || n_keep > session->length)
        return locus_fail(error, LOCUS_ERROR_POSITION,
                          "rewind to %d tokens, expected 0 to the %d held", n_keep,
                          session->length);
    enum locus_status status = check_held(session, n_keep, error);
    if (status) return status;
    session->length = n_keep;
    const int pinned = session->cache.n_pinned * LOCUS_KV_BLOCK;
    if (n_keep <= pinned) session->first_held = pinned;
    return LOCUS_OK;
}

int locus_session_length(const locus_session *session)
{
    return session->length;
}

int locus_session_capacity(const locus_session *session)
{
    return session->setup.capacity;
}

int locus_session_n_threads(const locus_session *session)
{
    return session->setup.n_threads;
}

const char *locus_session_position(const locus_session *session)
{
    return session->positions.text;
}

const char *locus_session_attention(const locus_session *session)
{
    return session->setup.attention;
}

int locus_session_reach(const locus_session *session)
{
    return locus_policy_reach(&session->setup.policy, session->model->config.trained_length);
}

const char *locus_session_kernels(const locus_session *session)
{
    return session->kernels->name;
}

enum locus_cache_type locus_session_cache_type(const locus_session *session)
{
    return session->setup.cache_type;
}
