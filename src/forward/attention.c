/* Attention: one query row of one head at a time, over blocks of keys.
 *
 *     q . keys -> scale -> position.bias -> running softmax, values mixed -> divided by its sum
 *
 * Blocks begin at multiples of 64 slots, whatever the chunk, so every row has its own fixed order
 * of operations: a prompt and single tokens give the same bits.
 */
#include <math.h>

#include "forward/session.h"

size_t locus_attend_floats(const struct locus_session *session)
{
    size_t n = LOCUS_KEY_BLOCK + (size_t)session->model->config.head_dim +
               locus_position_scratch_floats(&session->position, LOCUS_KEY_BLOCK);
    return (n + 15) / 16 * 16; /* a thread's own cache lines */
}

/* The first slot a row sees: all before it, or a local layer's window. */
static int first_slot(const struct locus_config *config, int layer, int slot)
{
    bool local = config->window > 0 &&
                 (config->window_every <= 1 || (layer + 1) % config->window_every == 0);
    return local && slot >= config->window ? slot - config->window + 1 : 0;
}

static void attend_row(struct locus_session *session, int layer, int head, int row, float *scratch)
{
    const struct locus_config *config = &session->model->config;
    const struct locus_kernels *kernels = session->kernels;
    const struct locus_cache *cache = &session->cache;
    const size_t head_dim = (size_t)config->head_dim;
    const size_t at = ((size_t)row * (size_t)config->n_head + (size_t)head) * head_dim;
    const float *q = session->q + at;
    const int kv_head = head / (config->n_head / config->n_head_kv);
    const unsigned char *keys = locus_cache_keys(cache, layer, kv_head);
    const unsigned char *values = locus_cache_values(cache, layer, kv_head);
    const int slot = session->length + row, first = first_slot(config, layer, slot);
    float *scores = scratch, *mix = scores + LOCUS_KEY_BLOCK, *bias_scratch = mix + head_dim;
    struct locus_softmax softmax = {.max = -INFINITY};
    for (size_t d = 0; d < head_dim; d++)
        mix[d] = 0;
    for (int block = first / LOCUS_KEY_BLOCK; block <= slot / LOCUS_KEY_BLOCK; block++) {
        const int start = block * LOCUS_KEY_BLOCK;
        const int from = first > start ? first - start : 0;
        const int end = slot + 1 - start < LOCUS_KEY_BLOCK ? slot + 1 - start : LOCUS_KEY_BLOCK;
        const size_t panel = (size_t)start / LOCUS_KEY_PANEL;
        kernels->scores(cache->format, scores, q, keys + panel * cache->key_panel_bytes,
                        config->head_dim, (end - 1) / LOCUS_KEY_PANEL + 1, config->attention_scale);
        locus_position_bias(&session->position, layer, head, q, session->first_position + slot,
                            session->first_position + start + from, NULL, end - from, scores + from,
                            bias_scratch);
        kernels->mix(cache->format, &softmax, mix, scores,
                     values + (size_t)start * cache->value_row_bytes, config->head_dim, from, end);
    }
    kernels->finish(&softmax, session->attended + at, mix, config->head_dim);
}

void locus_attend(struct locus_session *session, int layer, int n, int thread, int n_threads)
{
    float *scratch = session->threads + (size_t)thread * session->thread_floats;
    const int n_head = session->model->config.n_head;
    /* Later rows see more keys: deal them out in turn. */
    for (int unit = thread; unit < n * n_head; unit += n_threads)
        attend_row(session, layer, unit / n, unit % n, scratch);
}
