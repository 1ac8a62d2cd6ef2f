/* Sessions: made, fed, rewound. See session.h and locus.h. */
#include "forward/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

/* ---- create and free ---------------------------------------------------------------------- */

/* What each layer is made of. */
static enum locus_status find_parts(struct locus_session *session, const struct locus_mixer *own,
                                    locus_error *error)
{
    const struct locus_config *config = &session->model->config;
    const size_t n_layer = (size_t)config->n_layer;
    session->layers = calloc(n_layer, sizeof *session->layers);
    if (!session->layers) return locus_fail_memory(error, n_layer * sizeof *session->layers);
    for (size_t i = 0; i < n_layer; i++) {
        const struct locus_layer_config *layer = &config->layers[i];
        session->layers[i].mixer = locus_mixer_find(layer->mixer, own);
        session->layers[i].mlp = locus_mlp_find(layer->mlp);
        if (!session->layers[i].mixer || !session->layers[i].mlp)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "layer %zu is of %s and %s, expected kinds that can be run", i,
                              layer->mixer->name, layer->mlp->name);
    }
    return LOCUS_OK;
}

static enum locus_status init_positions(struct locus_session *session, locus_error *error)
{
    const struct locus_position_env env =
        locus_description_env(&session->setup, session->model, session->setup.capacity);
    return locus_positions_init(&session->positions, &session->setup.specs, &env, error);
}

/* A description that was made before has its texts copied. */
static enum locus_status describe(struct locus_session *session,
                                  const struct locus_session_params *params,
                                  const struct locus_session_extras *extras, locus_error *error)
{
    struct locus_description *setup = &session->setup;
    if (!extras->description)
        return locus_session_describe(setup, session->model, params, extras->text_length, error);
    *setup = *extras->description;
    setup->position = strdup(setup->position);
    setup->attention = strdup(setup->attention);
    return setup->position && setup->attention ? LOCUS_OK : locus_fail_memory(error, sizeof *setup);
}

/* What can't be had is refused before schemes make tables as long as the session. */
static enum locus_status open_session(struct locus_session *session,
                                      const struct locus_session_params *params,
                                      const struct locus_session_extras *extras, locus_error *error)
{
    enum locus_status status = describe(session, params, extras, error);
    if (status) return status;
    session->stop = params->stop;
    session->stop_context = params->stop_context;
    session->kernels = &session->setup.kernels;
    if ((status = find_parts(session, extras->mixer, error)) ||
        (status = locus_mixers_open(&session->mixers, session, error)) ||
        (status = locus_scratch_make(session, error)) || (status = init_positions(session, error)))
        return status;
    return locus_token_states_make(session, error);
}

locus_session *locus_session_create_with(const locus_model *model,
                                         const locus_session_params *params,
                                         const struct locus_session_extras *extras,
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
    session->layer_weights = locus_model_info_get(model).n_parameters / model->config.n_layer;
    if (open_session(session, params ? params : &defaults, extras, error)) {
        locus_session_free(session);
        return NULL;
    }
    return session;
}

locus_session *locus_session_create(const locus_model *model, const locus_session_params *params,
                                    locus_error *error)
{
    return locus_session_create_with(model, params, &(struct locus_session_extras){0}, error);
}

void locus_session_free(locus_session *session)
{
    if (!session) return;
    locus_mixers_close(&session->mixers);
    locus_positions_close(&session->positions);
    locus_aligned_free(session->scratch.block);
    locus_aligned_free(session->states.block);
    locus_aligned_free(session->score_logits);
    locus_description_free(&session->setup);
    free(session->layers);
    free(session);
}

/* ---- tokens ------------------------------------------------------------------------------- */

enum locus_status locus_request_check(const struct locus_session *session,
                                      const struct locus_request *request, locus_error *error)
{
    const int n_vocab = session->model->config.n_vocab;
    const int n = request->n, n_rows = request->n_rows;
    if (n < 1 || !request->tokens || n_rows < 0 || n_rows > n || (n_rows && !request->logits))
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "eval of %d tokens with %d rows of logits, expected 1 or more tokens and "
                          "0 to as many rows",
                          n, n_rows);
    if (n > session->setup.capacity - session->length)
        return locus_fail(error, LOCUS_ERROR_POSITION,
                          "%d tokens held and %d more, but the context holds %d", session->length,
                          n, session->setup.capacity);
    for (int i = 0; i < n; i++)
        if (request->tokens[i] < 0 || request->tokens[i] >= n_vocab)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "token %d is %d, expected 0 to %d", i,
                              (int)request->tokens[i], n_vocab - 1);
    for (int i = 0; request->targets && i < n; i++)
        if (request->targets[i] >= n_vocab)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "target %d is %d, expected below %d", i,
                              (int)request->targets[i], n_vocab);
    return locus_coordinates_check(session, request->coordinates, n, error);
}

/* What the request asks of its tokens [first, first + n). */
static struct locus_outputs outputs_of(struct locus_session *session,
                                       const struct locus_request *request, int first, int n)
{
    struct locus_outputs outputs = {.map = request->map};
    const int after = request->n - first - n; /* tokens of later chunks */
    const int rows_from = request->n - request->n_rows;
    if (request->targets) {
        outputs.targets = request->targets + first;
        outputs.nll = request->nll + first;
        for (int i = 0; i < n; i++) {
            outputs.nll[i] = 0;
            if (outputs.targets[i] >= 0) session->scratch.scored[outputs.n_scored++] = i;
        }
        return outputs;
    }
    outputs.last = after == 0;
    if (first + n <= rows_from) return outputs;
    const int skipped = first > rows_from ? first - rows_from : 0; /* rows of earlier chunks */
    outputs.logits = request->logits + (size_t)skipped * (size_t)session->model->config.n_vocab;
    outputs.n_rows = first + n - rows_from - skipped;
    return outputs;
}

/* One chunk, for which there is room. What the mixers can't hold is refused. */
static enum locus_status run_chunk(struct locus_session *session, const struct locus_chunk *chunk,
                                   const struct locus_outputs *outputs, locus_error *error)
{
    /* The caller's coordinates may be any. */
    const int n_positions = session->setup.n_axes
                                ? session->positions.n_positions
                                : session->setup.first_position + chunk->first_slot + chunk->n;
    locus_positions_fill(&session->positions, n_positions);
    locus_forward(session, chunk, outputs);
    enum locus_status status = locus_mixers_check(&session->mixers, session, error);
    if (!status) session->length = chunk->first_slot + chunk->n;
    return status;
}

static struct locus_chunk chunk_of(const struct locus_session *session, const int32_t *tokens,
                                   int n)
{
    const int n_batch = session->setup.n_batch;
    return (struct locus_chunk){tokens, n < n_batch ? n : n_batch, session->length};
}

enum locus_status locus_session_ask_stop(const struct locus_session *session, int n_done, int n,
                                         locus_error *error)
{
    if (!session->stop || !session->stop(session->stop_context)) return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_STOPPED, "stopped after %d of %d tokens", n_done, n);
}

/* After a refusal the session goes back to the tokens that it held before the call. Where a policy
 * has dropped the keys that this needs, it goes back to those before the chunk. */
enum locus_status locus_session_run(struct locus_session *session,
                                    const struct locus_request *request, locus_error *error)
{
    const int n_before = session->length;
    const int *coordinates = request->coordinates;
    for (int done = 0; done < request->n;) {
        enum locus_status status =
            done ? locus_session_ask_stop(session, done, request->n, error) : LOCUS_OK;
        if (status) return status;
        const struct locus_chunk chunk =
            chunk_of(session, request->tokens + done, request->n - done);
        const struct locus_outputs outputs = outputs_of(session, request, done, chunk.n);
        locus_coordinates_put(session, coordinates, chunk.n);
        if (session->states.tokens) /* NOLINTNEXTLINE(clang-analyzer-core.*): checked before */
            memcpy(session->states.tokens + session->length, chunk.tokens,
                   (size_t)chunk.n * sizeof *chunk.tokens);
        status = run_chunk(session, &chunk, &outputs, error);
        if (status) {
            if (locus_session_rewind(session, n_before, NULL))
                locus_session_rewind(session, session->length, NULL);
            return status;
        }
        if (coordinates) coordinates += (size_t)chunk.n * (size_t)session->setup.n_axes;
        done += chunk.n;
    }
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
    const struct locus_request request = {
        .tokens = tokens, .n = n, .coordinates = coordinates, .logits = logits, .n_rows = n_rows};
    enum locus_status status = locus_request_check(session, &request, error);
    return status ? status : locus_session_run(session, &request, error);
}

enum locus_status locus_session_score(struct locus_session *session, const int32_t *tokens, int n,
                                      const int32_t *targets, float *nll, locus_error *error)
{
    const struct locus_request request = {.tokens = tokens, .n = n, .targets = targets, .nll = nll};
    enum locus_status status = locus_request_check(session, &request, error);
    if (status) return status;
    const size_t row_bytes = (size_t)session->model->config.n_vocab * sizeof(float);
    if (!session->score_logits)
        session->score_logits = locus_aligned_zalloc(LOCUS_SCORE_ROWS, row_bytes);
    if (!session->score_logits) return locus_fail_memory(error, LOCUS_SCORE_ROWS * row_bytes);
    return locus_session_run(session, &request, error);
}

/* Runs the tokens [length, n) again, whose mixers can't go on from n. */
static enum locus_status replay(struct locus_session *session, int n, locus_error *error)
{
    const struct locus_outputs none = {0};
    enum locus_status status = LOCUS_OK;
    while (session->length < n && !status) {
        const struct locus_chunk chunk =
            chunk_of(session, session->states.tokens + session->length, n - session->length);
        status = run_chunk(session, &chunk, &none, error);
    }
    return status;
}

enum locus_status locus_session_rewind(locus_session *session, int n_keep, locus_error *error)
{
    int n;
    if (n_keep < 0 || n_keep > session->length)
        return locus_fail(error, LOCUS_ERROR_POSITION,
                          "rewind to %d tokens, expected 0 to the %d held", n_keep,
                          session->length);
    enum locus_status status = locus_mixers_resume(&session->mixers, session, n_keep, &n, error);
    if (status) return status;
    locus_mixers_rewind(&session->mixers, n);
    session->length = n;
    return replay(session, n_keep, error);
}

float *locus_session_logits(locus_session *session)
{
    return session->scratch.logits;
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

const char *locus_session_cache_name(const struct locus_session *session)
{
    const bool attends = locus_config_has(&session->model->config, &locus_attention_part);
    return attends ? locus_cache_type_name(session->setup.cache_type) : "none";
}

enum locus_cache_type locus_session_cache_type(const locus_session *session)
{
    return session->setup.cache_type;
}
