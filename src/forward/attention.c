/* Attention: some query rows at a time, over the spans of keys that the cache policy gives them.
 *
 *     q . keys -> scale -> position.bias -> running softmax, values mixed -> divided by its sum
 *
 * A unit of work is the queries of some rows and heads that read the same keys, so that a block of
 * keys is read once for all of them. A span is worked off in segments: blocks of 64 slots, or the
 * whole of it where the bias wants all scores of a row. Blocks begin at multiples of 64 slots,
 * whatever the chunk, and a row takes in its own keys of them only, so every row has its own fixed
 * order of operations: a prompt and single tokens give the same bits.
 */
#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "forward/session.h"

enum {
    UNIT_QUERIES = 48, /* queries a unit at most */
    UNIT_ROWS = UNIT_QUERIES
};

/* A thread's scratch. */
struct scratch {
    int n_queries, segment;        /* slots, a multiple of 64 */
    float *q;                      /* [n_queries, head_dim]: as the span reads them */
    float *scores;                 /* [n_queries, segment] */
    float *mix;                    /* [n_queries, head_dim] */
    struct locus_softmax *softmax; /* [n_queries] */
    int *first, *end;              /* [n_queries]: slots of a block or segment, from its start */
    float *bias;
    float *rotated;   /* LOCUS_FRAME_BLOCK: [n_queries, head_dim], relative to a block's origin */
    int *q_positions; /* and [n_queries] */
    float *keys;      /* LOCUS_FRAME_QUERY: [64, n_head_kv, head_dim], a block as cached */
    float *panels;    /* and [n_head_kv, 64 / 16] panels, the block relative to the query */
    int *k_positions; /* and [64] */
};

/* Rows [row, row_end) of heads [head, head_end). Their queries are numbered row after row. Either
 * one row, or heads that share their keys. */
struct reading {
    struct locus_session *session;
    const struct locus_position *position; /* the layer's scheme */
    int layer, row, row_end, head, head_end;
    const struct locus_span *spans; /* [rows]: the span being read */
    struct scratch scratch;
};

/* ---- scratch ------------------------------------------------------------------------------ */

/* Takes n_floats, whole cache lines, from base; adds them up when there is nothing to take from. A
 * scheme may ask for any number: a sum past SIZE_MAX stays there, and can't be had. */
static float *take(float *base, size_t *used, size_t n_floats)
{
    enum { LINE = 16 };
    float *block = base ? base + *used : NULL;
    size_t lines = n_floats / LINE + (n_floats % LINE != 0);
    if (!locus_mul_size(lines, LINE, &lines) || __builtin_add_overflow(*used, lines, used))
        *used = SIZE_MAX;
    return block;
}

static int group_size(const struct locus_session *session)
{
    return session->model->config.n_head / session->model->config.n_head_kv;
}

/* Slots that all the keys of a session take. */
static int whole_segment(const struct locus_session *session)
{
    return (session->capacity - 1) / LOCUS_KEY_BLOCK * LOCUS_KEY_BLOCK + LOCUS_KEY_BLOCK;
}

/* Keys that are rotated for a query are so once for all heads of a row; of whole rows of scores
 * there are as many as stay in the cache. */
static int unit_queries(const struct locus_session *session, const struct locus_position *position)
{
    enum { WHOLE_ROWS = 12, SCORES = 64 * 1024 };
    if (position->frame == LOCUS_FRAME_QUERY) return session->model->config.n_head;
    if (!locus_position_whole_row(position)) return UNIT_QUERIES;
    const int fitting = SCORES / whole_segment(session);
    return fitting < 1 ? 1 : fitting < WHOLE_ROWS ? fitting : WHOLE_ROWS;
}

static struct scratch lay_out(const struct locus_session *session,
                              const struct locus_position *position, float *base, size_t *used)
{
    const struct locus_config *config = &session->model->config;
    const size_t head_dim = (size_t)config->head_dim;
    struct scratch scratch = {.n_queries = unit_queries(session, position),
                              .segment = LOCUS_KEY_BLOCK};
    if (locus_position_whole_row(position)) scratch.segment = whole_segment(session);
    const size_t n = (size_t)scratch.n_queries;
    const size_t n_rotated = position->frame == LOCUS_FRAME_BLOCK ? n : 0;
    const size_t n_keys = position->frame == LOCUS_FRAME_QUERY ? LOCUS_KEY_BLOCK : 0;
    scratch.q = take(base, used, n * head_dim);
    scratch.scores = take(base, used, n * (size_t)scratch.segment);
    scratch.mix = take(base, used, n * head_dim);
    scratch.softmax = (void *)take(base, used, n * sizeof *scratch.softmax / sizeof(float));
    scratch.first = (void *)take(base, used, n);
    scratch.end = (void *)take(base, used, n);
    scratch.bias = take(base, used, locus_position_scratch_floats(position, scratch.segment));
    scratch.rotated = take(base, used, n_rotated * head_dim);
    scratch.q_positions = (void *)take(base, used, n_rotated);
    scratch.keys = take(base, used, n_keys * (size_t)config->n_head_kv * head_dim);
    scratch.panels = take(base, used, n_keys * (size_t)config->n_head_kv * head_dim);
    scratch.k_positions = (void *)take(base, used, n_keys);
    return scratch;
}

size_t locus_attend_floats(const struct locus_session *session)
{
    size_t most = 0;
    for (int i = 0; i < session->positions.n; i++) {
        size_t used = 0;
        lay_out(session, &session->positions.schemes[i], NULL, &used);
        most = used > most ? used : most;
    }
    return most;
}

/* ---- queries ------------------------------------------------------------------------------ */

static int n_heads(const struct reading *reading)
{
    return reading->head_end - reading->head;
}

static int n_queries(const struct reading *reading)
{
    return (reading->row_end - reading->row) * n_heads(reading);
}

static const struct locus_span *query_span(const struct reading *reading, int query)
{
    return &reading->spans[query / n_heads(reading)];
}

static int query_head(const struct reading *reading, int query)
{
    return reading->head + query % n_heads(reading);
}

/* Queries [*query, *query_end) are those that read the keys of head kv. */
static void queries_of(const struct reading *reading, int kv, int *query, int *query_end)
{
    const int group = group_size(reading->session);
    const int first = kv * group - reading->head, end = first + group;
    *query = first > 0 ? first : 0;
    *query_end = end < n_heads(reading) ? end : n_heads(reading);
    if (reading->row_end - reading->row > 1) *query = 0, *query_end = n_queries(reading);
}

/* Where a row's heads are in session->q, q_moved and attended. */
static size_t row_offset(const struct reading *reading, int row)
{
    const struct locus_config *config = &reading->session->model->config;
    return ((size_t)row * (size_t)config->n_head + (size_t)reading->head) *
           (size_t)config->head_dim;
}

static void gather_queries(const struct reading *reading)
{
    const struct locus_session *session = reading->session;
    const float *rows = reading->spans[0].moved ? session->q_moved : session->q;
    const size_t n = (size_t)n_heads(reading) * (size_t)session->model->config.head_dim;
    for (int row = reading->row; row < reading->row_end; row++)
        memcpy(reading->scratch.q + (size_t)(row - reading->row) * n,
               rows + row_offset(reading, row), n * sizeof *rows);
}

/* Of the slots [start, stop) each query sees first[query] to end[query], counted from start; none
 * where end <= first. */
static void clip_spans(const struct reading *reading, int start, int stop)
{
    const struct scratch *scratch = &reading->scratch;
    for (int query = 0; query < n_queries(reading); query++) {
        const struct locus_span *span = query_span(reading, query);
        scratch->first[query] = span->first > start ? span->first - start : 0;
        scratch->end[query] = (span->end < stop ? span->end : stop) - start;
        if (scratch->end[query] <= scratch->first[query])
            scratch->first[query] = scratch->end[query] = 0;
    }
}

/* ---- scores ------------------------------------------------------------------------------- */

/* The keys of slots [first, end) of a block from `start` on, cached as projected, become panels
 * rotated for this row's query. */
static void rotate_block(const struct reading *reading, int start, int first, int end)
{
    const struct locus_session *session = reading->session;
    const struct scratch *scratch = &reading->scratch;
    const struct locus_cache *cache = &session->cache;
    float *keys = scratch->keys +
                  (size_t)(first - start) * (size_t)cache->n_head_kv * (size_t)cache->head_dim;
    locus_cache_get_key_rows(cache, reading->layer, first, end, keys);
    for (int j = first; j < end; j++)
        scratch->k_positions[j - first] = session->first_position + j;
    const struct locus_rotate_op op = {.layer = reading->layer,
                                       .which = LOCUS_KEY,
                                       .rows = keys,
                                       .n = end - first,
                                       .n_heads = cache->n_head_kv,
                                       .positions = scratch->k_positions,
                                       .origin = reading->spans[0].q_position,
                                       .kept = locus_layer_kept(session, reading->layer, first),
                                       .n_axes = session->n_axes,
                                       .coordinates = locus_coordinates_at(session, first)};
    locus_position_rotate(reading->position, &op);
    locus_cache_pack_keys(cache, scratch->keys, end - start, scratch->panels);
}

/* The queries as they read the block from slot `start` on: [n_queries, head_dim]. */
static const float *block_queries(const struct reading *reading, int start)
{
    const struct locus_session *session = reading->session;
    const struct scratch *scratch = &reading->scratch;
    const int n_rows = reading->row_end - reading->row;
    const int slot = session->length + reading->row;
    if (reading->position->frame != LOCUS_FRAME_BLOCK) return scratch->q;
    memcpy(scratch->rotated, scratch->q,
           (size_t)(n_queries(reading) * session->cache.head_dim) * sizeof *scratch->q);
    for (int i = 0; i < n_rows; i++)
        scratch->q_positions[i] = reading->spans[i].q_position;
    const struct locus_rotate_op op = {
        .layer = reading->layer,
        .which = LOCUS_QUERY,
        .rows = scratch->rotated,
        .n = n_rows,
        .n_heads = n_heads(reading),
        .first_head = reading->head,
        .positions = scratch->q_positions,
        .origin = locus_block_origin(session, start, reading->spans[0].far),
        .kept = locus_layer_kept(session, reading->layer, slot),
        .n_axes = session->n_axes,
        .coordinates = locus_coordinates_at(session, slot)};
    locus_position_rotate(reading->position, &op);
    return scratch->rotated;
}

/* Scaled scores against the slots [start, end) of one block; `at` is its place in the segment.
 * Slots that no query sees yet may lie among them. */
static void score_block(const struct reading *reading, int start, int end, int at)
{
    const struct locus_session *session = reading->session;
    const struct locus_config *config = &session->model->config;
    const struct scratch *scratch = &reading->scratch;
    const int group = group_size(session);
    const bool by_query = reading->position->frame == LOCUS_FRAME_QUERY;
    const float *q = block_queries(reading, start);
    for (int kv = reading->head / group; kv <= (reading->head_end - 1) / group; kv++) {
        int query, query_end;
        queries_of(reading, kv, &query, &query_end);
        struct locus_scores op = {
            .format = by_query ? LOCUS_FORMAT_F32 : session->cache.format,
            .out = scratch->scores + (size_t)query * (size_t)scratch->segment + at,
            .stride = (size_t)scratch->segment,
            .q = q + (size_t)query * (size_t)config->head_dim,
            .n_rows = query_end - query,
            .head_dim = config->head_dim,
            .n_panels = (end - 1 - start) / LOCUS_KEY_PANEL + 1,
            .scale = config->attention_scale,
        };
        if (by_query)
            op.keys = scratch->panels + (size_t)kv * LOCUS_KEY_BLOCK * (size_t)config->head_dim;
        else
            op.keys = locus_cache_keys(&session->cache,
                                       reading->spans[0].far ? LOCUS_FAR_KEYS : LOCUS_KEYS,
                                       reading->layer, kv, start);
        session->kernels->scores(&op);
        for (int i = 0; i < op.n_rows && config->score_cap > 0; i++)
            session->kernels->scale_and_cap(op.out + (size_t)i * op.stride,
                                            op.n_panels * LOCUS_KEY_PANEL, 1, config->score_cap);
    }
}

/* Adds the bias to each query's scores of the segment from `start` on. */
static void add_biases(const struct reading *reading, int start)
{
    const struct locus_session *session = reading->session;
    const struct scratch *scratch = &reading->scratch;
    const struct locus_probe *probe = &session->probe;
    if (!locus_position_has_bias(reading->position) && !probe->weights) return;
    for (int query = 0; query < n_queries(reading); query++) {
        const struct locus_span *span = query_span(reading, query);
        const int head = query_head(reading, query);
        const int slot = session->length + reading->row + query / n_heads(reading);
        const int first = start + scratch->first[query];
        const int n = scratch->end[query] - scratch->first[query];
        float *scores =
            scratch->scores + (size_t)query * (size_t)scratch->segment + scratch->first[query];
        if (n == 0) continue;
        const struct locus_bias_op op = {
            .layer = reading->layer,
            .head = head,
            .q = scratch->q + (size_t)query * (size_t)session->cache.head_dim,
            .q_position = span->q_position,
            .n_k = n,
            .k_first = session->first_position + first,
            .k_positions = span->far ? session->far_positions + first : NULL,
            .scores = scores,
            .scratch = scratch->bias,
            .q_kept = locus_layer_kept(session, reading->layer, slot),
            .k_kept = locus_layer_kept(session, reading->layer, first),
            .n_axes = session->n_axes,
            .q_coordinates = locus_coordinates_at(session, slot),
            .k_coordinates = locus_coordinates_at(session, first),
        };
        locus_position_bias(reading->position, &op);
        if (probe->weights && probe->layer == reading->layer && probe->head == head) {
            memcpy(probe->weights + (size_t)slot * (size_t)probe->n + first, scores,
                   (size_t)n * sizeof *scores);
        }
    }
}

/* ---- the softmax -------------------------------------------------------------------------- */

/* Takes one block of slots, in `at` of the segment, into the softmax of every query. */
static void mix_block(const struct reading *reading, int start, int at)
{
    const struct locus_session *session = reading->session;
    const struct scratch *scratch = &reading->scratch;
    const struct locus_cache *cache = &session->cache;
    const int group = group_size(session);
    for (int kv = reading->head / group; kv <= (reading->head_end - 1) / group; kv++) {
        int query, query_end;
        queries_of(reading, kv, &query, &query_end);
        const struct locus_mixing op = {
            .format = cache->format,
            .softmax = scratch->softmax + query,
            .mix = scratch->mix + (size_t)query * (size_t)cache->head_dim,
            .scores = scratch->scores + (size_t)query * (size_t)scratch->segment + at,
            .stride = (size_t)scratch->segment,
            .first = scratch->first + query,
            .end = scratch->end + query,
            .values = locus_cache_values(cache, reading->layer, kv, start),
            .n_rows = query_end - query,
            .head_dim = cache->head_dim,
        };
        session->kernels->mix(&op);
    }
}

/* Takes slots [first, end) of the segment from `start` on into the softmax of every query. */
static void take_segment(const struct reading *reading, int start, int first, int end)
{
    for (int block = start; block < end; block += LOCUS_KEY_BLOCK) {
        const int block_end = end < block + LOCUS_KEY_BLOCK ? end : block + LOCUS_KEY_BLOCK;
        if (reading->position->frame == LOCUS_FRAME_QUERY)
            rotate_block(reading, block, first > block ? first : block, block_end);
        score_block(reading, block, block_end, block - start);
    }
    clip_spans(reading, start, end);
    add_biases(reading, start);
    for (int block = start; block < end; block += LOCUS_KEY_BLOCK) {
        const int block_end = end < block + LOCUS_KEY_BLOCK ? end : block + LOCUS_KEY_BLOCK;
        if (reading->scratch.segment > LOCUS_KEY_BLOCK) clip_spans(reading, block, block_end);
        mix_block(reading, block, block - start);
    }
}

/* Takes a span of each row, all of one kind. */
static void take_span(struct reading *reading, const struct locus_span *spans)
{
    reading->spans = spans;
    int first = spans[0].first, end = spans[0].end;
    for (int i = 1; i < reading->row_end - reading->row; i++) {
        first = spans[i].first < first ? spans[i].first : first;
        end = spans[i].end > end ? spans[i].end : end;
    }
    gather_queries(reading);
    const int segment = reading->scratch.segment;
    for (int start = first / LOCUS_KEY_BLOCK * LOCUS_KEY_BLOCK; start < end; start += segment)
        take_segment(reading, start, first > start ? first : start,
                     end < start + segment ? end : start + segment);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* What the row in `slot` sees in a layer: the policy's spans, or the local layer's part of them. */
static int row_spans(const struct locus_session *session, int layer, int slot,
                     struct locus_span spans[LOCUS_MAX_SPANS])
{
    const int window = session->model->config.layers[layer].window;
    const int n_spans = session->policy.kind->split(&session->policy, slot, spans);
    const int first = window > 0 && slot >= window ? slot - window + 1 : 0;
    int n = 0;
    for (int s = 0; s < n_spans; s++) {
        if (spans[s].first < first) spans[s].first = first;
        if (spans[s].first < spans[s].end) spans[n++] = spans[s];
    }
    return n;
}

/* Rows from reading->row on that see as many spans of the same kinds, `limit` at most: their spans,
 * spans[s][row], and how many; reading->row_end is set. */
static int rows_alike(struct reading *reading, int limit,
                      struct locus_span spans[LOCUS_MAX_SPANS][UNIT_ROWS])
{
    const struct locus_session *session = reading->session;
    int n_spans = 0;
    for (reading->row_end = reading->row; reading->row_end < limit; reading->row_end++) {
        const int i = reading->row_end - reading->row;
        struct locus_span own[LOCUS_MAX_SPANS];
        int n = row_spans(session, reading->layer, session->length + reading->row_end, own);
        if (i == 0) n_spans = n;
        for (int s = 0; s < n && i > 0 && n == n_spans; s++)
            if (own[s].moved != spans[s][0].moved || own[s].far != spans[s][0].far) n = -1;
        if (n != n_spans) break;
        for (int s = 0; s < n; s++)
            spans[s][i] = own[s];
    }
    return n_spans;
}

static void attend_rows(struct reading *reading, int n_spans,
                        struct locus_span spans[LOCUS_MAX_SPANS][UNIT_ROWS])
{
    struct locus_session *session = reading->session;
    const struct scratch *scratch = &reading->scratch;
    const size_t n = (size_t)n_queries(reading);
    const size_t head_dim = (size_t)session->model->config.head_dim;
    /* NOLINTBEGIN(clang-analyzer-core.*): lay_out gives no addresses only when it counts sizes */
    for (size_t i = 0; i < n; i++)
        scratch->softmax[i] = (struct locus_softmax){.max = -INFINITY};
    memset(scratch->mix, 0, n * head_dim * sizeof *scratch->mix);
    /* NOLINTEND(clang-analyzer-core.*) */
    for (int s = 0; s < n_spans; s++)
        take_span(reading, spans[s]);
    for (size_t i = 0; i < n; i++) {
        const int row = reading->row + (int)i / n_heads(reading);
        float *out =
            session->attended + row_offset(reading, row) + i % (size_t)n_heads(reading) * head_dim;
        session->kernels->finish(&scratch->softmax[i], out, scratch->mix + i * head_dim,
                                 session->model->config.head_dim);
    }
}

/* How units are cut: rows and heads of each. */
static void cut_units(const struct reading *reading, int n, int n_threads, int *rows, int *heads)
{
    const struct locus_session *session = reading->session;
    const int n_head = session->model->config.n_head, most = reading->scratch.n_queries;
    const bool by_query = reading->position->frame == LOCUS_FRAME_QUERY;
    *rows = 1;
    *heads = by_query ? n_head : group_size(session);
    if (*heads > most) *heads = most;
    /* A few rows are shared out by heads, at the price of reading keys twice. */
    while (*heads > 1 && n * ((n_head - 1) / *heads + 1) < n_threads)
        *heads = (*heads + 1) / 2;
    if (by_query) return;
    *rows = most / *heads;
    const int fair = n * (n_head / *heads) / (4 * n_threads); /* four units a thread, or more */
    if (*rows > fair) *rows = fair > 0 ? fair : 1;
}

void locus_attend(struct locus_session *session, int layer, int n, int thread, int n_threads)
{
    float *base = session->threads + (size_t)thread * session->thread_floats;
    size_t used = 0;
    struct reading reading = {.session = session,
                              .position = locus_positions_at(&session->positions, layer),
                              .layer = layer};
    reading.scratch = lay_out(session, reading.position, base, &used);
    struct locus_span spans[LOCUS_MAX_SPANS][UNIT_ROWS];
    const int n_head = session->model->config.n_head;
    int rows, heads;
    cut_units(&reading, n, n_threads, &rows, &heads);
    const int n_row_units = (n - 1) / rows + 1, n_head_units = (n_head - 1) / heads + 1;
    /* Later rows see more keys: deal them out in turn. */
    for (int unit = thread; unit < n_row_units * n_head_units; unit += n_threads) {
        const int row = unit % n_row_units * rows, row_end = row + rows < n ? row + rows : n;
        reading.head = unit / n_row_units * heads;
        reading.head_end = reading.head + heads < n_head ? reading.head + heads : n_head;
        for (reading.row = row; reading.row < row_end; reading.row = reading.row_end) {
            const int n_spans = rows_alike(&reading, row_end, spans);
            attend_rows(&reading, n_spans, spans);
        }
    }
}
