/* What a position scheme does, as numbers: see probe.h. */
#include "experiment/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
#include "model/finite.h"

static enum locus_status open_probe(struct locus_scheme_probe *probe, const char *spec,
                                    locus_error *error)
{
    const struct locus_model *model = probe->model;
    bool asked = probe->length > 0;
    if (!asked) probe->length = model->config.trained_length;
    const struct locus_position_env env = locus_model_env(model, probe->length);
    enum locus_status status = locus_model_check_position(model, spec, error);
    if (!status)
        status = locus_positions_open(&probe->positions, spec, model->config.position, NULL, &env,
                                      error);
    if (status) return status;
    int max = locus_positions_max(&probe->positions);
    locus_positions_fill(&probe->positions, probe->length);
    if (max == 0 || probe->length <= max) return LOCUS_OK;
    if (asked)
        return locus_fail(error, LOCUS_ERROR_POSITION, "position %s has %d positions, found %d",
                          probe->positions.text, max, probe->length);
    probe->length = max;
    return LOCUS_OK;
}

enum locus_status locus_scheme_probe_open(struct locus_scheme_probe *probe,
                                          const struct locus_model *model, const char *spec,
                                          int length, locus_error *error)
{
    *probe = (struct locus_scheme_probe){.model = model, .length = length};
    return open_probe(probe, spec, error);
}

void locus_scheme_probe_close(struct locus_scheme_probe *probe)
{
    locus_positions_close(&probe->positions);
    *probe = (struct locus_scheme_probe){0};
}

/* "position NAME <reason>; plots that fit: ..." */
static enum locus_status refuse(const struct locus_position *position, const char *reason,
                                locus_error *error)
{
    const bool reads_text = position->layer_floats > 0, biases = locus_position_has_bias(position);
    const bool reads_scores =
        locus_position_whole_row(position) || locus_position_all_heads(position);
    return locus_fail(
        error, LOCUS_ERROR_UNSUPPORTED, "position %s %s; plots that fit: %s%s%sattention",
        position->spec.scheme->name, reason,
        locus_position_embeds(position) ? "table, similarity, " : "",
        biases && !reads_scores && !reads_text ? "bias, " : "",
        locus_position_rotates(position) && !biases && !reads_text ? "rotation, " : "");
}

static enum locus_status check_layer(const struct locus_scheme_probe *probe, int layer,
                                     locus_error *error)
{
    int n_layer = probe->model->config.n_layer;
    if (layer >= 0 && layer < n_layer) return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_ARGUMENT, "layer %d: the model has layers 0 to %d", layer,
                      n_layer - 1);
}

/* Refuses what came out as no number: a picture would hide it. */
static enum locus_status check_number(const struct locus_scheme_probe *probe, double value,
                                      locus_error *error)
{
    if (isfinite(value)) return LOCUS_OK;
    return locus_fail_numeric(probe->model, error, "position %s gives %f, expected numbers",
                              probe->positions.text, value);
}

/* ---- table -------------------------------------------------------------------------------- */

/* rows[length, n_embd]: the tokens' embeddings, as the forward pass has them before the scheme adds
 * to them. */
static enum locus_status look_up(const struct locus_scheme_probe *probe, const int32_t *tokens,
                                 float *rows, locus_error *error)
{
    const struct locus_config *config = &probe->model->config;
    size_t n_embd = (size_t)config->n_embd;
    for (int i = 0; i < probe->length; i++) {
        if (tokens[i] < 0 || tokens[i] >= config->n_vocab)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "token %d, expected 0 to %d",
                              (int)tokens[i], config->n_vocab - 1);
        float *row = rows + (size_t)i * n_embd;
        locus_weight_row(&probe->model->embedding, tokens[i], row);
        for (size_t c = 0; c < n_embd; c++)
            row[c] *= config->embedding_scale;
    }
    return LOCUS_OK;
}

enum locus_status locus_probe_table(const struct locus_scheme_probe *probe, const int32_t *tokens,
                                    float *table, locus_error *error)
{
    const struct locus_position *position = &probe->positions.schemes[0];
    if (!locus_position_embeds(position))
        return refuse(position, "adds nothing to the embedding: it has no table", error);
    size_t n = (size_t)probe->length, n_embd = (size_t)probe->model->config.n_embd;
    size_t state_floats = (size_t)position->embed_floats;
    if (state_floats && !tokens)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position %s adds what depends on the text: it needs one",
                          position->spec.scheme->name);
    float *before = calloc(n * n_embd, sizeof *before);
    float *token_states = calloc((n + 1) * state_floats + 1, sizeof *token_states);
    int32_t *none = calloc(n, sizeof *none);
    enum locus_status status = LOCUS_OK;
    if (!before || !token_states || !none)
        status = locus_fail_memory(error, n * n_embd * sizeof *before);
    else if (!state_floats || !(status = look_up(probe, tokens, before, error))) {
        memcpy(table, before, n * n_embd * sizeof *table);
        const struct locus_embed_op op = {.tokens = tokens ? tokens : none,
                                          .x = table,
                                          .n = probe->length,
                                          .token_states =
                                              state_floats ? token_states + state_floats : NULL};
        locus_position_embed(position, &op);
        for (size_t i = 0; i < n * n_embd; i++)
            table[i] -= before[i];
        for (size_t i = 0; i < n * n_embd && !status; i++)
            status = check_number(probe, (double)table[i], error);
    }
    free(before);
    free(token_states);
    free(none);
    return status;
}

void locus_probe_similarity(const float *table, int n, int n_cols, float *cosines)
{
    for (int a = 0; a < n; a++) {
        const float *x = table + (size_t)a * (size_t)n_cols;
        for (int b = 0; b <= a; b++) {
            const float *y = table + (size_t)b * (size_t)n_cols;
            double xy = 0, xx = 0, yy = 0;
            for (int c = 0; c < n_cols; c++) {
                xy += (double)x[c] * y[c];
                xx += (double)x[c] * x[c];
                yy += (double)y[c] * y[c];
            }
            float cosine = xx > 0 && yy > 0 ? (float)(xy / sqrt(xx * yy)) : NAN;
            cosines[(size_t)a * (size_t)n + (size_t)b] = cosine;
            cosines[(size_t)b * (size_t)n + (size_t)a] = cosine;
        }
    }
}

/* ---- bias --------------------------------------------------------------------------------- */

enum locus_status locus_probe_bias(const struct locus_scheme_probe *probe, int layer, float *bias,
                                   locus_error *error)
{
    const struct locus_config *config = &probe->model->config;
    enum locus_status status = check_layer(probe, layer, error);
    if (status) return status;
    const struct locus_position *position = locus_positions_at(&probe->positions, layer);
    if (!locus_position_has_bias(position))
        return refuse(position, "adds no bias to the scores", error);
    if (locus_position_whole_row(position) || locus_position_all_heads(position))
        return refuse(position, "adds a bias that depends on the scores: it has no map by distance",
                      error);
    if (position->layer_floats > 0)
        return refuse(position, "adds a bias that depends on the text: it has no map by distance",
                      error);
    size_t n = (size_t)probe->length, head_dim = (size_t)config->head_dim;
    float *q = calloc((size_t)config->n_head * head_dim, sizeof *q);
    float *scores = calloc(n, sizeof *scores);
    float *scratch =
        calloc(locus_position_scratch_floats(position, probe->length) + 1, sizeof *scratch);
    if (!q || !scores || !scratch) {
        status = locus_fail_memory(error, n * sizeof *scores);
    } else {
        int last = probe->length - 1;
        const struct locus_rotate_op rotation = {.layer = layer,
                                                 .which = LOCUS_QUERY,
                                                 .rows = q,
                                                 .n = 1,
                                                 .n_heads = config->n_head,
                                                 .positions = &last};
        locus_position_rotate(position, &rotation);
        for (int head = 0; head < config->n_head; head++) {
            const struct locus_bias_op op = {.layer = layer,
                                             .head = head,
                                             .q = q + (size_t)head * head_dim,
                                             .q_position = last,
                                             .n_k = probe->length,
                                             .scores = scores,
                                             .scratch = scratch};
            memset(scores, 0, n * sizeof *scores);
            locus_position_bias(position, &op);
            for (size_t distance = 0; distance < n; distance++)
                bias[(size_t)head * n + distance] = scores[n - 1 - distance];
        }
        for (size_t i = 0; i < (size_t)config->n_head * n && !status; i++)
            status = check_number(probe, (double)bias[i], error);
    }
    free(q);
    free(scores);
    free(scratch);
    return status;
}

/* ---- rotation ----------------------------------------------------------------------------- */

/* rows[head_dim, n_heads, head_dim]: row i is unit vector i in every head, rotated to `at`. */
static void rotate_basis(const struct locus_scheme_probe *probe, int layer,
                         enum locus_position_rows which, int n_heads, int at, int origin,
                         int *positions, float *rows)
{
    size_t head_dim = (size_t)probe->model->config.head_dim, width = (size_t)n_heads * head_dim;
    const struct locus_rotate_op op = {.layer = layer,
                                       .which = which,
                                       .rows = rows,
                                       .n = (int)head_dim,
                                       .n_heads = n_heads,
                                       .positions = positions,
                                       .origin = origin};
    memset(rows, 0, head_dim * width * sizeof *rows);
    for (size_t i = 0; i < head_dim; i++) {
        for (size_t head = 0; head < (size_t)n_heads; head++)
            rows[i * width + head * head_dim + i] = 1;
        positions[i] = at;
    }
    locus_position_rotate(locus_positions_at(&probe->positions, layer), &op);
}

static double trace(const float *q, size_t q_width, const float *k, size_t k_width, size_t head_dim)
{
    double sum = 0;
    for (size_t i = 0; i < head_dim; i++)
        for (size_t c = 0; c < head_dim; c++)
            sum += (double)q[i * q_width + c] * k[i * k_width + c];
    return sum / (double)head_dim;
}

static bool is_flat(const double *values, int n)
{
    double min = values[0], max = values[0];
    for (int i = 1; i < n; i++) {
        min = fmin(min, values[i]);
        max = fmax(max, values[i]);
    }
    return n > 1 && max - min < 1e-9 * fmax(1, fabs(max));
}

/* As the forward pass calls the hook: each frame has its origin. */
static void compare_rotations(const struct locus_scheme_probe *probe, int layer, int head, float *q,
                              float *k, int *positions, double *products)
{
    const struct locus_config *config = &probe->model->config;
    const enum locus_frame frame = locus_positions_at(&probe->positions, layer)->frame;
    const int last = probe->length - 1;
    const size_t head_dim = (size_t)config->head_dim;
    const size_t k_head = (size_t)(head / (config->n_head / config->n_head_kv));
    for (int distance = 0, rotated_for = -1; distance <= last; distance++) {
        const int at = last - distance, block = at - at % LOCUS_KV_BLOCK;
        const int q_origin = frame == LOCUS_FRAME_BLOCK ? block : 0;
        if (q_origin != rotated_for)
            rotate_basis(probe, layer, LOCUS_QUERY, config->n_head, last, q_origin, positions, q);
        rotated_for = q_origin;
        rotate_basis(probe, layer, LOCUS_KEY, config->n_head_kv, at,
                     frame == LOCUS_FRAME_QUERY ? last : q_origin, positions, k);
        products[distance] =
            trace(q + (size_t)head * head_dim, (size_t)config->n_head * head_dim,
                  k + k_head * head_dim, (size_t)config->n_head_kv * head_dim, head_dim);
    }
}

enum locus_status locus_probe_rotation(const struct locus_scheme_probe *probe, int layer, int head,
                                       double *products, locus_error *error)
{
    const struct locus_config *config = &probe->model->config;
    enum locus_status status = check_layer(probe, layer, error);
    if (status) return status;
    if (head < 0 || head >= config->n_head)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT, "head %d: the model has heads 0 to %d", head,
                          config->n_head - 1);
    const struct locus_position *position = locus_positions_at(&probe->positions, layer);
    if (!locus_position_rotates(position))
        return refuse(position, "rotates no query and no key", error);
    if (position->layer_floats > 0)
        return refuse(position, "rotates by what the text says: it has no angle by distance",
                      error);
    size_t head_dim = (size_t)config->head_dim;
    size_t q_width = (size_t)config->n_head * head_dim;
    size_t k_width = (size_t)config->n_head_kv * head_dim;
    float *q = calloc(head_dim * q_width, sizeof *q), *k = calloc(head_dim * k_width, sizeof *k);
    int *positions = calloc(head_dim, sizeof *positions);
    if (!q || !k || !positions) {
        status = locus_fail_memory(error, head_dim * q_width * sizeof *q);
    } else {
        compare_rotations(probe, layer, head, q, k, positions, products);
        for (int i = 0; i < probe->length && !status; i++)
            status = check_number(probe, products[i], error);
        if (!status && is_flat(products, probe->length))
            status = refuse(position, "leaves q.k the same at every distance", error);
    }
    free(q);
    free(k);
    free(positions);
    return status;
}
