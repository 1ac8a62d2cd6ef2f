/* Attention of a chunk: some query rows at a time, over the spans of keys that the cache policy
 * gives them.
 *
 *     q . keys -> scale -> position.bias -> running softmax, values mixed -> divided by its sum
 *
 * A unit of work is the queries of some rows and heads that read the same keys, so that a block of
 * keys is read once for all of them. A span is worked off in segments: blocks of 64 slots, or the
 * whole of it where the bias wants all scores of a row. Blocks begin at multiples of 64 slots,
 * whatever the chunk, and a row takes in its own keys of them only, so every row has its own fixed
 * order of operations: a prompt and single tokens give the same bits. See attention.h.
 */
#include <math.h>
#include <string.h>

#include "forward/attention.h"
#include "forward/map.h"
#include "forward/pass.h"

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
struct unit {
    const struct pass *pass;
    const struct locus_session *session;
    const struct locus_attention *attention;
    const struct locus_position *position; /* the layer's scheme */
    int layer, cache_layer, row, row_end, head, head_end;
    const struct locus_span *spans;        /* [rows]: the span being read */
    const struct locus_attention_map *map; /* of one of these heads; NULL: none is asked for */
    struct scratch scratch;
};

/* ---- scratch ------------------------------------------------------------------------------ */

static int group_size(const struct locus_session *session)
{
    return session->model->config.n_head / session->model->config.n_head_kv;
}

/* Slots that all the keys of a session take. */
static int whole_segment(const struct locus_session *session)
{
    return (session->setup.capacity - 1) / LOCUS_KV_BLOCK * LOCUS_KV_BLOCK + LOCUS_KV_BLOCK;
}

/* Whether a unit is one row and all its heads: keys that are rotated for a query are so once for
 * them, and some biases need them at once. */
static bool by_row(const struct locus_position *position)
{
    return position->frame == LOCUS_FRAME_QUERY || locus_position_all_heads(position);
}

/* Of whole rows of scores there are as many as stay in the cache. */
static int unit_queries(const struct locus_session *session, const struct locus_position *position)
{
    enum { WHOLE_ROWS = 12, SCORES = 64 * 1024 };
    if (by_row(position)) return session->model->config.n_head;
    if (!locus_position_whole_row(position)) return UNIT_QUERIES;
    const int fitting = SCORES / whole_segment(session);
    return fitting < 1 ? 1 : fitting < WHOLE_ROWS ? fitting : WHOLE_ROWS;
}

static struct scratch lay_out(const struct locus_session *session,
                              const struct locus_position *position, struct locus_arena *arena)
{
    const struct locus_config *config = &session->model->config;
    const size_t head_dim = (size_t)config->head_dim, n_head_kv = (size_t)config->n_head_kv;
    struct scratch scratch = {.n_queries = unit_queries(session, position),
                              .segment = LOCUS_KV_BLOCK};
    if (locus_position_whole_row(position)) scratch.segment = whole_segment(session);
    const size_t n = (size_t)scratch.n_queries;
    const size_t n_rotated = position->frame == LOCUS_FRAME_BLOCK ? n : 0;
    const size_t n_keys = position->frame == LOCUS_FRAME_QUERY ? LOCUS_KV_BLOCK : 0;
    scratch.q = locus_arena_floats(arena, n, head_dim);
    scratch.scores = locus_arena_floats(arena, n, (size_t)scratch.segment);
    scratch.mix = locus_arena_floats(arena, n, head_dim);
    scratch.softmax = locus_arena_take(arena, n, 1, sizeof *scratch.softmax);
    scratch.first = locus_arena_ints(arena, n, 1);
    scratch.end = locus_arena_ints(arena, n, 1);
    scratch.bias =
        locus_arena_floats(arena, 1, locus_position_scratch_floats(position, scratch.segment));
    scratch.rotated = locus_arena_floats(arena, n_rotated, head_dim);
    scratch.q_positions = locus_arena_ints(arena, n_rotated, 1);
    scratch.keys = locus_arena_floats(arena, n_keys, n_head_kv * head_dim);
    scratch.panels = locus_arena_floats(arena, n_keys, n_head_kv * head_dim);
    scratch.k_positions = locus_arena_ints(arena, n_keys, 1);
    return scratch;
}

size_t locus_attend_floats(const struct locus_session *session)
{
    size_t most = 0;
    for (int i = 0; i < session->positions.n; i++) {
        struct locus_arena arena = {0};
        lay_out(session, &session->positions.schemes[i], &arena);
        most = arena.used > most ? arena.used : most;
    }
    return most / sizeof(float) + (most % sizeof(float) != 0);
}

/* ---- queries ------------------------------------------------------------------------------ */

static int n_heads(const struct unit *unit)
{
    return unit->head_end - unit->head;
}

static int n_queries(const struct unit *unit)
{
    return (unit->row_end - unit->row) * n_heads(unit);
}

static const struct locus_span *query_span(const struct unit *unit, int query)
{
    return &unit->spans[query / n_heads(unit)];
}

static int query_head(const struct unit *unit, int query)
{
    return unit->head + query % n_heads(unit);
}

/* Queries [*query, *query_end) are those that read the keys of head kv. */
static void queries_of(const struct unit *unit, int kv, int *query, int *query_end)
{
    const int group = group_size(unit->session);
    const int first = kv * group - unit->head, end = first + group;
    *query = first > 0 ? first : 0;
    *query_end = end < n_heads(unit) ? end : n_heads(unit);
    if (unit->row_end - unit->row > 1) *query = 0, *query_end = n_queries(unit);
}

/* Where a row's heads are in q, q_moved and attended. */
static size_t row_offset(const struct unit *unit, int row)
{
    const struct locus_config *config = &unit->session->model->config;
    return ((size_t)row * (size_t)config->n_head + (size_t)unit->head) * (size_t)config->head_dim;
}

static void gather_queries(const struct unit *unit)
{
    const struct locus_attention *attention = unit->attention;
    const int moved = unit->spans[0].moved;
    const float *rows = moved ? attention->q_moved[moved - 1] : attention->q;
    const size_t n = (size_t)n_heads(unit) * (size_t)attention->cache.head_dim;
    for (int row = unit->row; row < unit->row_end; row++)
        memcpy(unit->scratch.q + (size_t)(row - unit->row) * n, rows + row_offset(unit, row),
               n * sizeof *rows);
}

/* Of the slots [start, stop) each query sees first[query] to end[query], counted from start; none
 * where end <= first. */
static void clip_spans(const struct unit *unit, int start, int stop)
{
    const struct scratch *scratch = &unit->scratch;
    for (int query = 0; query < n_queries(unit); query++) {
        const struct locus_span *span = query_span(unit, query);
        scratch->first[query] = span->first > start ? span->first - start : 0;
        scratch->end[query] = (span->end < stop ? span->end : stop) - start;
        if (scratch->end[query] <= scratch->first[query])
            scratch->first[query] = scratch->end[query] = 0;
    }
}

/* ---- scores ------------------------------------------------------------------------------- */

/* The keys of slots [first, end) of a block from `start` on, cached as projected, become panels
 * rotated for this row's query. */
static void rotate_block(const struct unit *unit, int start, int first, int end)
{
    const struct locus_session *session = unit->session;
    const struct scratch *scratch = &unit->scratch;
    const struct locus_cache *cache = &unit->attention->cache;
    float *keys = scratch->keys +
                  (size_t)(first - start) * (size_t)cache->n_head_kv * (size_t)cache->head_dim;
    locus_cache_get_key_rows(cache, unit->cache_layer, first, end, keys);
    for (int j = first; j < end; j++)
        scratch->k_positions[j - first] = session->setup.first_position + j;
    const struct locus_rotate_op op = {.layer = unit->layer,
                                       .which = LOCUS_KEY,
                                       .rows = keys,
                                       .n = end - first,
                                       .n_heads = cache->n_head_kv,
                                       .positions = scratch->k_positions,
                                       .origin = unit->spans[0].q_position,
                                       .token_states =
                                           locus_layer_states(session, unit->layer, first),
                                       .n_axes = session->setup.n_axes,
                                       .coordinates = locus_coordinates_at(session, first)};
    locus_position_rotate(unit->position, &op);
    locus_cache_pack_keys(cache, scratch->keys, end - start, scratch->panels);
}

/* The queries as they read the block from slot `start` on: [n_queries, head_dim]. */
static const float *block_queries(const struct unit *unit, int start)
{
    const struct locus_session *session = unit->session;
    const struct scratch *scratch = &unit->scratch;
    const int n_rows = unit->row_end - unit->row;
    const int slot = unit->pass->first_slot + unit->row;
    if (unit->position->frame != LOCUS_FRAME_BLOCK) return scratch->q;
    memcpy(scratch->rotated, scratch->q,
           (size_t)(n_queries(unit) * unit->attention->cache.head_dim) * sizeof *scratch->q);
    for (int i = 0; i < n_rows; i++)
        scratch->q_positions[i] = unit->spans[i].q_position;
    const struct locus_rotate_op op = {
        .layer = unit->layer,
        .which = LOCUS_QUERY,
        .rows = scratch->rotated,
        .n = n_rows,
        .n_heads = n_heads(unit),
        .first_head = unit->head,
        .positions = scratch->q_positions,
        .origin = locus_block_origin(session, unit->attention, start, unit->spans[0].group),
        .token_states = locus_layer_states(session, unit->layer, slot),
        .n_axes = session->setup.n_axes,
        .coordinates = locus_coordinates_at(session, slot)};
    locus_position_rotate(unit->position, &op);
    return scratch->rotated;
}

/* Scaled scores against the slots [start, end) of one block; `at` is its place in the segment.
 * Slots that no query sees yet may lie among them. */
static void score_block(const struct unit *unit, int start, int end, int at)
{
    const struct locus_session *session = unit->session;
    const struct locus_config *config = &session->model->config;
    const struct scratch *scratch = &unit->scratch;
    const int group = group_size(session);
    const bool by_query = unit->position->frame == LOCUS_FRAME_QUERY;
    const float *q = block_queries(unit, start);
    for (int kv = unit->head / group; kv <= (unit->head_end - 1) / group; kv++) {
        int query, query_end;
        queries_of(unit, kv, &query, &query_end);
        struct locus_scores op = {
            .format = by_query ? LOCUS_FORMAT_F32 : unit->attention->cache.format,
            .out = scratch->scores + (size_t)query * (size_t)scratch->segment + at,
            .stride = (size_t)scratch->segment,
            .q = q + (size_t)query * (size_t)config->head_dim,
            .n_rows = query_end - query,
            .head_dim = config->head_dim,
            .n_panels = (end - 1 - start) / LOCUS_KEY_PANEL + 1,
            .scale = config->attention_scale,
        };
        if (by_query)
            op.keys = scratch->panels + (size_t)kv * LOCUS_KV_BLOCK * (size_t)config->head_dim;
        else
            op.keys = locus_cache_keys(&unit->attention->cache,
                                       unit->spans[0].group ? LOCUS_GROUP_KEYS : LOCUS_KEYS,
                                       unit->cache_layer, kv, start);
        session->kernels->scores(&op);
        for (int i = 0; i < op.n_rows && config->score_cap > 0; i++)
            session->kernels->scale_and_cap(op.out + (size_t)i * op.stride,
                                            op.n_panels * LOCUS_KEY_PANEL, 1, config->score_cap);
    }
}

/* Adds the bias to each query's scores of the segment from `start` on; to all at once, where a unit
 * is a row whose heads the scheme wants together. */
static void add_biases(const struct unit *unit, int start)
{
    const struct locus_session *session = unit->session;
    const struct scratch *scratch = &unit->scratch;
    const int n = locus_position_all_heads(unit->position) ? 1 : n_queries(unit);
    for (int query = 0; query < n; query++) {
        const struct locus_span *span = query_span(unit, query);
        const int head = query_head(unit, query);
        const int slot = unit->pass->first_slot + unit->row + query / n_heads(unit);
        const int first = start + scratch->first[query];
        const int n_k = scratch->end[query] - scratch->first[query];
        float *scores =
            scratch->scores + (size_t)query * (size_t)scratch->segment + scratch->first[query];
        if (n_k == 0) continue;
        const struct locus_bias_op op = {
            .layer = unit->layer,
            .head = head,
            .q = scratch->q + (size_t)query * (size_t)unit->attention->cache.head_dim,
            .q_stride = (size_t)unit->attention->cache.head_dim,
            .q_position = span->q_position,
            .n_k = n_k,
            .k_first = session->setup.first_position + first,
            .k_positions = span->group ? unit->attention->group_positions + first : NULL,
            .scores = scores,
            .scores_stride = (size_t)scratch->segment,
            .scratch = scratch->bias,
            .q_token_state = locus_layer_states(session, unit->layer, slot),
            .k_token_states = locus_layer_states(session, unit->layer, first),
            .n_axes = session->setup.n_axes,
            .q_coordinates = locus_coordinates_at(session, slot),
            .k_coordinates = locus_coordinates_at(session, first),
        };
        locus_position_bias(unit->position, &op);
    }
}

/* Divides each query's scores of the segment by the temperature. */
static void divide_scores(const struct unit *unit)
{
    const struct scratch *scratch = &unit->scratch;
    for (int query = 0; query < n_queries(unit); query++) {
        const int first = scratch->first[query];
        unit->session->kernels->scale_and_cap(
            scratch->scores + (size_t)query * (size_t)scratch->segment + first,
            scratch->end[query] - first, unit->position->over_temperature, 0);
    }
}

/* The scores of the map's head in the segment from `start` on. */
static void show_scores(const struct unit *unit, int start)
{
    const struct scratch *scratch = &unit->scratch;
    const struct locus_attention_map *map = unit->map;
    const int n_rows = unit->row_end - unit->row;
    for (int row = 0; row < n_rows; row++) {
        const int query = row * n_heads(unit) + map->head - unit->head;
        const int slot = unit->pass->first_slot + unit->row + row;
        const float *scores = scratch->scores + (size_t)query * (size_t)scratch->segment;
        float *out = map->weights + (size_t)slot * (size_t)map->n + start;
        for (int j = scratch->first[query]; j < scratch->end[query]; j++)
            out[j] = scores[j];
    }
}

/* ---- the softmax -------------------------------------------------------------------------- */

/* Takes one block of slots, in `at` of the segment, into the softmax of every query. */
static void mix_block(const struct unit *unit, int start, int at)
{
    const struct locus_session *session = unit->session;
    const struct scratch *scratch = &unit->scratch;
    const struct locus_cache *cache = &unit->attention->cache;
    const int group = group_size(session);
    for (int kv = unit->head / group; kv <= (unit->head_end - 1) / group; kv++) {
        int query, query_end;
        queries_of(unit, kv, &query, &query_end);
        const struct locus_mixing op = {
            .format = cache->format,
            .softmax = scratch->softmax + query,
            .mix = scratch->mix + (size_t)query * (size_t)cache->head_dim,
            .scores = scratch->scores + (size_t)query * (size_t)scratch->segment + at,
            .stride = (size_t)scratch->segment,
            .first = scratch->first + query,
            .end = scratch->end + query,
            .values = locus_cache_values(cache, unit->cache_layer, kv, start),
            .n_rows = query_end - query,
            .head_dim = cache->head_dim,
        };
        session->kernels->mix(&op);
    }
}

/* Takes slots [first, end) of the segment from `start` on into the softmax of every query. */
static void attend_segment(const struct unit *unit, int start, int first, int end)
{
    for (int block = start; block < end; block += LOCUS_KV_BLOCK) {
        const int block_end = end < block + LOCUS_KV_BLOCK ? end : block + LOCUS_KV_BLOCK;
        if (unit->position->frame == LOCUS_FRAME_QUERY)
            rotate_block(unit, block, first > block ? first : block, block_end);
        score_block(unit, block, block_end, block - start);
    }
    clip_spans(unit, start, end);
    if (locus_position_has_bias(unit->position)) add_biases(unit, start);
    if (unit->position->over_temperature != 1) divide_scores(unit);
    if (unit->map) show_scores(unit, start);
    for (int block = start; block < end; block += LOCUS_KV_BLOCK) {
        const int block_end = end < block + LOCUS_KV_BLOCK ? end : block + LOCUS_KV_BLOCK;
        if (unit->scratch.segment > LOCUS_KV_BLOCK) clip_spans(unit, block, block_end);
        mix_block(unit, block, block - start);
    }
}

/* Takes a span of each row, all of one kind. */
static void attend_span(struct unit *unit, const struct locus_span *spans)
{
    unit->spans = spans;
    int first = spans[0].first, end = spans[0].end;
    for (int i = 1; i < unit->row_end - unit->row; i++) {
        first = spans[i].first < first ? spans[i].first : first;
        end = spans[i].end > end ? spans[i].end : end;
    }
    gather_queries(unit);
    const int segment = unit->scratch.segment;
    for (int start = first / LOCUS_KV_BLOCK * LOCUS_KV_BLOCK; start < end; start += segment)
        attend_segment(unit, start, first > start ? first : start,
                       end < start + segment ? end : start + segment);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* What the row in `slot` sees in a layer: the policy's spans, or the local layer's part of them. */
static int row_spans(const struct locus_session *session, int layer, int slot,
                     struct locus_span spans[LOCUS_MAX_SPANS])
{
    const int window = session->model->config.layers[layer].window;
    const int n_spans = session->setup.policy.kind->split(&session->setup.policy, slot, spans);
    const int first = window > 0 && slot >= window ? slot - window + 1 : 0;
    int n = 0;
    for (int s = 0; s < n_spans; s++) {
        if (spans[s].first < first) spans[s].first = first;
        if (spans[s].first < spans[s].end) spans[n++] = spans[s];
    }
    return n;
}

/* Rows from unit->row on that see as many spans of the same kinds, `limit` at most: their spans,
 * spans[s][row], and how many; unit->row_end is set. */
static int rows_alike(struct unit *unit, int limit,
                      struct locus_span spans[LOCUS_MAX_SPANS][UNIT_ROWS])
{
    const struct locus_session *session = unit->session;
    int n_spans = 0;
    for (unit->row_end = unit->row; unit->row_end < limit; unit->row_end++) {
        const int i = unit->row_end - unit->row;
        struct locus_span own[LOCUS_MAX_SPANS];
        int n = row_spans(session, unit->layer, unit->pass->first_slot + unit->row_end, own);
        if (i == 0) n_spans = n;
        for (int s = 0; s < n && i > 0 && n == n_spans; s++)
            if (own[s].moved != spans[s][0].moved || own[s].group != spans[s][0].group) n = -1;
        if (n != n_spans) break;
        for (int s = 0; s < n; s++)
            spans[s][i] = own[s];
    }
    return n_spans;
}

static void attend_rows(struct unit *unit, int n_spans,
                        struct locus_span spans[LOCUS_MAX_SPANS][UNIT_ROWS])
{
    const struct locus_session *session = unit->session;
    const struct scratch *scratch = &unit->scratch;
    const size_t n = (size_t)n_queries(unit);
    const size_t head_dim = (size_t)session->model->config.head_dim;
    /* NOLINTBEGIN(clang-analyzer-core.*): lay_out gives no addresses only when it counts sizes */
    const struct locus_attention_weights *weights = session->model->layers[unit->layer].mixer;
    for (size_t i = 0; i < n; i++) {
        scratch->softmax[i] = (struct locus_softmax){.max = -INFINITY};
        if (weights->sinks) /* as if a key had been seen whose value is 0 */
            scratch->softmax[i] = (struct locus_softmax){
                .max = weights->sinks[query_head(unit, (int)i)] * unit->position->over_temperature,
                .sums = {1}};
    }
    memset(scratch->mix, 0, n * head_dim * sizeof *scratch->mix);
    /* NOLINTEND(clang-analyzer-core.*) */
    for (int s = 0; s < n_spans; s++)
        attend_span(unit, spans[s]);
    for (size_t i = 0; i < n; i++) {
        const int row = unit->row + (int)i / n_heads(unit);
        float *out = unit->attention->attended + row_offset(unit, row) +
                     i % (size_t)n_heads(unit) * head_dim;
        session->kernels->finish(&scratch->softmax[i], out, scratch->mix + i * head_dim,
                                 session->model->config.head_dim);
    }
}

/* How units are cut: rows and heads of each. */
static void cut_units(const struct unit *unit, int n, int n_threads, int *rows, int *heads)
{
    const struct locus_session *session = unit->session;
    const int n_head = session->model->config.n_head, most = unit->scratch.n_queries;
    const bool all_heads = locus_position_all_heads(unit->position);
    *rows = 1;
    *heads = by_row(unit->position) ? n_head : group_size(session);
    if (all_heads) return;
    if (*heads > most) *heads = most;
    /* A few rows are shared out by heads, at the price of unit keys twice. */
    while (*heads > 1 && n * ((n_head - 1) / *heads + 1) < n_threads)
        *heads = (*heads + 1) / 2;
    if (by_row(unit->position)) return;
    *rows = most / *heads;
    const int fair = n * (n_head / *heads) / (4 * n_threads); /* four units a thread, or more */
    if (*rows > fair) *rows = fair > 0 ? fair : 1;
}

/* The map of the pass, where one of the unit's heads is asked for. */
static const struct locus_attention_map *find_map(const struct unit *unit)
{
    const struct locus_attention_map *map = unit->pass->outputs->map;
    const bool here =
        map && map->layer == unit->layer && map->head >= unit->head && map->head < unit->head_end;
    return here ? map : NULL;
}

void locus_attend(const struct pass *pass, const struct locus_attention *attention, int layer)
{
    const struct locus_session *session = pass->session;
    struct locus_arena arena = {.base = (char *)pass_thread_scratch(pass)};
    struct unit unit = {.pass = pass,
                        .session = session,
                        .attention = attention,
                        .position = locus_positions_at(&session->positions, layer),
                        .layer = layer,
                        .cache_layer = attention->cache_layer[layer]};
    unit.scratch = lay_out(session, unit.position, &arena);
    struct locus_span spans[LOCUS_MAX_SPANS][UNIT_ROWS];
    const int n_head = session->model->config.n_head, n = pass->n;
    int rows, heads;
    cut_units(&unit, n, pass->n_threads, &rows, &heads);
    const int n_row_units = (n - 1) / rows + 1, n_head_units = (n_head - 1) / heads + 1;
    /* Later rows see more keys: deal them out in turn. */
    for (int i = pass->thread; i < n_row_units * n_head_units; i += pass->n_threads) {
        const int row = i % n_row_units * rows, row_end = row + rows < n ? row + rows : n;
        unit.head = i / n_row_units * heads;
        unit.head_end = unit.head + heads < n_head ? unit.head + heads : n_head;
        unit.map = find_map(&unit);
        for (unit.row = row; unit.row < row_end; unit.row = unit.row_end) {
            const int n_spans = rows_alike(&unit, row_end, spans);
            attend_rows(&unit, n_spans, spans);
        }
    }
}
