/* Attention: one query row at a time, over the spans of keys that the cache policy gives it.
 *
 *     q . keys -> scale -> position.bias -> running softmax, values mixed -> divided by its sum
 *
 * A span is worked off in segments: blocks of 64 slots, or the whole of it where the bias wants all
 * scores of a row. Blocks begin at multiples of 64 slots, whatever the chunk, so every row has its
 * own fixed order of operations: a prompt and single tokens give the same bits.
 */
#include <math.h>
#include <string.h>

#include "forward/session.h"

/* A thread's scratch. A unit of work is one row of `n_heads` heads. */
struct scratch {
    int n_heads, segment;          /* slots, a multiple of 64 */
    float *scores;                 /* [n_heads, segment] */
    float *mix;                    /* [n_heads, head_dim] */
    struct locus_softmax *softmax; /* [n_heads] */
    float *bias;
    float *keys;        /* [64, n_head_kv, head_dim]: a block as cached */
    float *panels;      /* [n_head_kv, 64 / 16] panels: the block as the row reads it */
    int *key_positions; /* [64] */
    float *query;       /* [head_dim]: as it reads a block, where that is its own rotation */
};

/* One row of some heads. */
struct reading {
    struct locus_session *session;
    int layer, row, slot;
    int head, head_end;
    struct scratch scratch;
};

/* ---- scratch ------------------------------------------------------------------------------ */

/* Takes n_floats, whole cache lines, from *at; adds them up when there is nothing to take from. */
static float *take(float *base, size_t *used, size_t n_floats)
{
    float *block = base ? base + *used : NULL;
    *used += (n_floats + 15) / 16 * 16;
    return block;
}

/* Keys that depend on their reader are rotated once for all heads of a row. */
static struct scratch lay_out(const struct locus_session *session, float *base, size_t *used)
{
    const struct locus_config *config = &session->model->config;
    const size_t head_dim = (size_t)config->head_dim;
    const size_t block =
        session->per_row_keys ? LOCUS_KEY_BLOCK * (size_t)config->n_head_kv * head_dim : 0;
    struct scratch scratch = {.n_heads = session->per_row_keys ? config->n_head : 1,
                              .segment = LOCUS_KEY_BLOCK};
    if (session->position.spec.scheme->whole_row)
        scratch.segment =
            (session->capacity - 1) / LOCUS_KEY_BLOCK * LOCUS_KEY_BLOCK + LOCUS_KEY_BLOCK;
    const size_t n_heads = (size_t)scratch.n_heads;
    scratch.scores = take(base, used, n_heads * (size_t)scratch.segment);
    scratch.mix = take(base, used, n_heads * head_dim);
    scratch.softmax = (void *)take(base, used, n_heads * sizeof *scratch.softmax / sizeof(float));
    scratch.bias =
        take(base, used, locus_position_scratch_floats(&session->position, scratch.segment));
    scratch.keys = take(base, used, block);
    scratch.panels = take(base, used, block);
    scratch.key_positions = (void *)take(base, used, session->per_row_keys ? LOCUS_KEY_BLOCK : 0);
    scratch.query = take(base, used, head_dim);
    return scratch;
}

size_t locus_attend_floats(const struct locus_session *session)
{
    size_t used = 0;
    lay_out(session, NULL, &used);
    return used;
}

/* ---- scores ------------------------------------------------------------------------------- */

static int kv_head(const struct reading *reading, int head)
{
    const struct locus_config *config = &reading->session->model->config;
    return head / (config->n_head / config->n_head_kv);
}

static const float *query(const struct reading *reading, const struct locus_span *span, int head)
{
    const struct locus_config *config = &reading->session->model->config;
    size_t at = (size_t)reading->row * (size_t)config->n_head + (size_t)head;
    const float *rows = span->moved ? reading->session->q_moved : reading->session->q;
    return rows + at * (size_t)config->head_dim;
}

/* The query as it reads the block from slot `start` on. */
static const float *block_query(const struct reading *reading, const struct locus_span *span,
                                int head, int start)
{
    const struct locus_session *session = reading->session;
    const float *q = query(reading, span, head);
    if (!session->position.spec.scheme->relative_blocks) return q;
    float *turned = reading->scratch.query;
    memcpy(turned, q, (size_t)session->cache.head_dim * sizeof *q);
    locus_position_rotate(&session->position, reading->layer, LOCUS_QUERY, turned, 1,
                          &span->q_position, 1, locus_block_origin(session, start, span->far));
    return turned;
}

/* The row's scores against slot `start` + 0, 1, ...: those of its segment. */
static float *head_scores(const struct reading *reading, int head)
{
    const struct scratch *scratch = &reading->scratch;
    return scratch->scores + (size_t)(head - reading->head) * (size_t)scratch->segment;
}

/* The keys of slots [first, end) of a block from `start` on, cached as projected, become panels
 * rotated for this row. */
static void rotate_block(const struct reading *reading, const struct locus_span *span, int start,
                         int first, int end)
{
    const struct locus_session *session = reading->session;
    const struct scratch *scratch = &reading->scratch;
    const int n_head_kv = session->cache.n_head_kv, head_dim = session->cache.head_dim;
    const size_t row_floats = (size_t)n_head_kv * (size_t)head_dim;
    locus_cache_get_keys(&session->cache, reading->layer, first, end, scratch->keys);
    for (int j = first; j < end; j++)
        scratch->key_positions[j - first] = session->first_position + j;
    locus_position_rotate(&session->position, reading->layer, LOCUS_KEY, scratch->keys, n_head_kv,
                          scratch->key_positions, end - first, span->q_position);
    for (int j = first; j < end; j++) {
        const float *row = scratch->keys + (size_t)(j - first) * row_floats;
        for (int head = 0; head < n_head_kv; head++) {
            size_t panel = (size_t)(head * LOCUS_KEY_BLOCK + j - start) / LOCUS_KEY_PANEL;
            float *out = scratch->panels + panel * LOCUS_KEY_PANEL * (size_t)head_dim;
            for (int d = 0; d < head_dim; d++)
                out[d * LOCUS_KEY_PANEL + j % LOCUS_KEY_PANEL] = row[head * head_dim + d];
        }
    }
}

/* Scaled scores of the slots [first, end) of one block, from `start` on, of every head; `at` is the
 * block's place in its segment. */
static void score_block(const struct reading *reading, const struct locus_span *span, int start,
                        int first, int end, int at)
{
    const struct locus_session *session = reading->session;
    const struct locus_config *config = &session->model->config;
    const int n_panels = (end - 1 - start) / LOCUS_KEY_PANEL + 1;
    if (session->per_row_keys) rotate_block(reading, span, start, first, end);
    for (int head = reading->head; head < reading->head_end; head++) {
        const int kv = kv_head(reading, head);
        const void *keys =
            reading->scratch.panels + (size_t)kv * LOCUS_KEY_BLOCK * (size_t)config->head_dim;
        enum locus_cache_format format = LOCUS_FORMAT_F32;
        if (!session->per_row_keys) {
            keys = locus_cache_keys(&session->cache, span->far ? LOCUS_FAR_KEYS : LOCUS_KEYS,
                                    reading->layer, kv, start);
            format = session->cache.format;
        }
        session->kernels->scores(format, head_scores(reading, head) + at,
                                 block_query(reading, span, head, start), keys, config->head_dim,
                                 n_panels, config->attention_scale);
    }
}

/* ---- one row ------------------------------------------------------------------------------ */

/* Adds the bias to one head's scores of the slots [first, end). */
static void add_bias(const struct reading *reading, const struct locus_span *span, int head,
                     int first, int end, float *scores)
{
    const struct locus_session *session = reading->session;
    const int *k_positions = span->far ? session->far_positions + first : NULL;
    locus_position_bias(&session->position, reading->layer, head, query(reading, span, head),
                        span->q_position, session->first_position + first, k_positions, end - first,
                        scores, reading->scratch.bias);
    const struct locus_probe *probe = &session->probe;
    if (probe->weights && probe->layer == reading->layer && probe->head == head)
        memcpy(probe->weights + (size_t)reading->slot * (size_t)probe->n + first, scores,
               (size_t)(end - first) * sizeof *scores);
}

/* Takes the span's slots [start, start + segment) into the softmax of every head. */
static void take_segment(const struct reading *reading, const struct locus_span *span, int start)
{
    const struct locus_session *session = reading->session;
    const struct scratch *scratch = &reading->scratch;
    const struct locus_cache *cache = &session->cache;
    const int head_dim = cache->head_dim, stop = start + scratch->segment;
    const int first = span->first > start ? span->first : start;
    const int end = span->end < stop ? span->end : stop;
    for (int block = start; block < end; block += LOCUS_KEY_BLOCK) {
        const int block_end = end < block + LOCUS_KEY_BLOCK ? end : block + LOCUS_KEY_BLOCK;
        score_block(reading, span, block, first > block ? first : block, block_end, block - start);
    }
    for (int head = reading->head; head < reading->head_end; head++) {
        float *scores = head_scores(reading, head);
        const size_t own = (size_t)(head - reading->head);
        add_bias(reading, span, head, first, end, scores + first - start);
        for (int block = start; block < end; block += LOCUS_KEY_BLOCK) {
            const int block_end = end < block + LOCUS_KEY_BLOCK ? end : block + LOCUS_KEY_BLOCK;
            const unsigned char *values =
                locus_cache_values(cache, reading->layer, kv_head(reading, head), block);
            session->kernels->mix(cache->format, &scratch->softmax[own],
                                  scratch->mix + own * (size_t)head_dim, scores + block - start,
                                  values, head_dim, first > block ? first - block : 0,
                                  block_end - block);
        }
    }
}

/* What the row in `slot` sees in a layer: the policy's spans, or the local layer's part of them. */
static int row_spans(const struct locus_session *session, int layer, int slot,
                     struct locus_span spans[LOCUS_MAX_SPANS])
{
    const struct locus_config *config = &session->model->config;
    const bool local = config->window > 0 && slot >= config->window &&
                       (config->window_every <= 1 || (layer + 1) % config->window_every == 0);
    const int n_spans = session->policy.kind->split(&session->policy, slot, spans);
    const int first = local ? slot - config->window + 1 : 0;
    int n = 0;
    for (int s = 0; s < n_spans; s++) {
        if (spans[s].first < first) spans[s].first = first;
        if (spans[s].first < spans[s].end) spans[n++] = spans[s];
    }
    return n;
}

static void attend_row(const struct reading *reading)
{
    struct locus_session *session = reading->session;
    const struct locus_config *config = &session->model->config;
    const struct scratch *scratch = &reading->scratch;
    const size_t n_heads = (size_t)(reading->head_end - reading->head);
    const size_t head_dim = (size_t)config->head_dim;
    for (size_t h = 0; h < n_heads; h++)
        scratch->softmax[h] = (struct locus_softmax){.max = -INFINITY};
    for (size_t i = 0; i < n_heads * head_dim; i++)
        scratch->mix[i] = 0;
    struct locus_span spans[LOCUS_MAX_SPANS];
    const int n_spans = row_spans(session, reading->layer, reading->slot, spans);
    for (int s = 0; s < n_spans; s++) {
        int start = spans[s].first / LOCUS_KEY_BLOCK * LOCUS_KEY_BLOCK;
        for (; start < spans[s].end; start += scratch->segment)
            take_segment(reading, &spans[s], start);
    }
    float *out = session->attended +
                 ((size_t)reading->row * (size_t)config->n_head + (size_t)reading->head) * head_dim;
    for (size_t h = 0; h < n_heads; h++)
        session->kernels->finish(&scratch->softmax[h], out + h * head_dim,
                                 scratch->mix + h * head_dim, config->head_dim);
}

void locus_attend(struct locus_session *session, int layer, int n, int thread, int n_threads)
{
    float *base = session->threads + (size_t)thread * session->thread_floats;
    size_t used = 0;
    struct reading reading = {
        .session = session, .layer = layer, .scratch = lay_out(session, base, &used)};
    const int n_head = session->model->config.n_head;
    /* A few rows of many heads are shared out too, at the price of rotating keys twice. */
    int n_heads = reading.scratch.n_heads;
    if (n < n_threads && n_heads > 1) n_heads = (n_head - 1) / n_threads + 1;
    const int n_units = (n_head - 1) / n_heads + 1;
    /* Later rows see more keys: deal them out in turn. */
    for (int unit = thread; unit < n * n_units; unit += n_threads) {
        reading.row = unit % n;
        reading.slot = session->length + reading.row;
        reading.head = unit / n * n_heads;
        reading.head_end = reading.head + n_heads < n_head ? reading.head + n_heads : n_head;
        attend_row(&reading);
    }
}
