/* One head's attention weights: see map.h. */
#include "forward/map.h"

#include <math.h>

#include "base/math.h"
#include "forward/attention.h"
#include "forward/session.h"
#include "model/finite.h"

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

static enum locus_status check_head(const struct locus_session *session, int layer, int head,
                                    locus_error *error)
{
    const struct locus_config *config = &session->model->config;
    const bool there = layer >= 0 && layer < config->n_layer;
    if (there && session->layers[layer].mixer != &locus_mixer_attention)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "layer %d is %s, expected attention, which has weights to show", layer,
                          session->layers[layer].mixer->tensors->name);
    if (!there || head < 0 || head >= config->n_head)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "layer %d and head %d, expected 0 to %d and 0 to %d", layer, head,
                          config->n_layer - 1, config->n_head - 1);
    return LOCUS_OK;
}

enum locus_status locus_session_probe(locus_session *session, const int32_t *tokens, int n,
                                      int layer, int head, float *weights, locus_error *error)
{
    enum locus_status status = check_head(session, layer, head, error);
    if (!status) status = locus_session_rewind(session, 0, error);
    if (status) return status;
    struct locus_attention_map map = {.layer = layer, .head = head, .n = n, .weights = weights};
    const struct locus_request request = {.tokens = tokens, .n = n, .map = &map};
    if ((status = locus_request_check(session, &request, error))) return status;
    for (size_t i = 0; i < (size_t)n * (size_t)n; i++)
        weights[i] = -INFINITY;
    status = locus_session_run(session, &request, error);
    softmax_rows(weights, n);
    for (size_t i = 0; i < (size_t)n * (size_t)n && !status; i++)
        if (isnan(weights[i]))
            status = locus_fail_numeric(session->model, error,
                                        "attention weights at position %d are no numbers",
                                        (int)(i / (size_t)n));
    return status;
}
