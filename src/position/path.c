/* Turns of the text: between a key and a query lie reflections, one a token, that the tokens say.
 *
 * Yang et al., "PaTH Attention: Position Encoding via Accumulating Householder Transformations"
 * (arXiv 2505.16381): score(i, j) = q_i . (H_i ... H_{j+1} k_j) scale, with
 * H_t = I - beta_t w_t w_t^T for each head of keys. As in the authors' code w is a projection of
 * low rank of what keys are projected from, through a causal convolution of three tokens and SiLU,
 * its length 1 (1e-6 added to the square); beta = 2 sigmoid(u . x + b). Their variant with forget
 * gates is not here.
 *
 * Row by row the query is turned back past one token after another: q -> H_i q -> H_{i-1} H_i q
 * ..., and meets the key before each, at 3 head_dim multiply-adds a key beside attention's 2. For
 * that the keys are kept once more, as floats, beside w: 4 n_head_kv head_dim + n_head_kv floats a
 * token and layer, eight times the keys of an f16 cache. Products of many turns stay exact: none
 * makes a query longer. The scores gain the difference (H ... q - q) . k.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "position/registry.h"
#include "position/tensors.h"

enum { ROWS = 48, TAPS = 3 };

/* A token's state: [width] each, then betas[n_head_kv]. */
enum part { KEY, TURN, PROJECTED, BEFORE, N_PARTS };

struct path_layer {
    struct locus_weight down, up, gate; /* [rank, n_embd], [width, rank], [n_head_kv, n_embd] */
    const float *conv, *bias;           /* [width, TAPS], [n_head_kv]; the model's */
};

struct path {
    int n_layer, n_embd, n_head_kv, head_dim, group; /* group: heads that share a key */
    int width;                                       /* n_head_kv * head_dim */
    float scale;
    struct locus_kernels kernels;   /* the session's; they change no bit */
    float *low, *projected, *gates; /* scratch of observe: [ROWS, most ranks], [ROWS, width],
                                     * [ROWS, n_head_kv] */
    int most_rank;
    struct path_layer layers[];
};

/* ---- set-up ------------------------------------------------------------------------------- */

static enum locus_status pack(struct locus_weight *weight, const float *values, int rows, int cols,
                              locus_error *error)
{
    const struct locus_row_source source = {.data = (const unsigned char *)values};
    return locus_weight_pack(weight, LOCUS_F32, rows, cols, source, 1, error);
}

static enum locus_status make_layer(struct path *path, int index,
                                    const struct locus_position_env *env, locus_error *error)
{
    const struct locus_tensor_query query = {env, "path", index};
    struct path_layer *layer = &path->layers[index];
    const int n_embd = path->n_embd, width = path->width, n_head_kv = path->n_head_kv;
    const float *down, *up, *gate;
    int rank;
    enum locus_status status;
    if ((status = locus_tensor_find(&query, "position_path.down.weight", LOCUS_ANY_ROWS, n_embd,
                                    &down, &rank, error)) ||
        (status =
             locus_tensor_find(&query, "position_path.up.weight", width, rank, &up, NULL, error)) ||
        (status = locus_tensor_find(&query, "position_path.conv.weight", width, TAPS, &layer->conv,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_path.beta.weight", n_head_kv, n_embd, &gate,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_path.beta.bias", 1, n_head_kv, &layer->bias,
                                    NULL, error)))
        return status;
    if (rank > path->most_rank) path->most_rank = rank;
    if ((status = pack(&layer->down, down, rank, n_embd, error)) ||
        (status = pack(&layer->up, up, width, rank, error)))
        return status;
    return pack(&layer->gate, gate, n_head_kv, n_embd, error);
}

static void free_path(void *state)
{
    struct path *path = state;
    for (int i = 0; path && i < path->n_layer; i++) {
        locus_weight_free(&path->layers[i].down);
        locus_weight_free(&path->layers[i].up);
        locus_weight_free(&path->layers[i].gate);
    }
    if (path) {
        locus_aligned_free(path->low);
        locus_aligned_free(path->projected);
        locus_aligned_free(path->gates);
    }
    free(path);
}

static enum locus_status init_path(void **state, const struct locus_position_env *env,
                                   const struct locus_position_spec *spec, locus_error *error)
{
    const size_t n_bytes = sizeof(struct path) + (size_t)env->n_layer * sizeof(struct path_layer);
    (void)spec;
    struct path *path = calloc(1, n_bytes);
    if (!path) return locus_fail_memory(error, n_bytes);
    *state = path;
    path->n_layer = env->n_layer;
    path->n_embd = env->n_embd;
    path->n_head_kv = env->n_head_kv;
    path->head_dim = env->head_dim;
    path->group = env->n_head / env->n_head_kv;
    path->width = env->n_head_kv * env->head_dim;
    path->scale = env->score_scale;
    enum locus_status status = locus_kernels_init(&path->kernels, env->kernels, error);
    for (int layer = 0; !status && layer < env->n_layer; layer++)
        status = make_layer(path, layer, env, error);
    if (status) return status;
    path->low = locus_aligned_zalloc(ROWS, (size_t)path->most_rank * sizeof(float));
    path->projected = locus_aligned_zalloc(ROWS, (size_t)path->width * sizeof(float));
    path->gates = locus_aligned_zalloc(ROWS, (size_t)path->n_head_kv * sizeof(float));
    if (path->low && path->projected && path->gates) return LOCUS_OK;
    return locus_fail_memory(
        error, ROWS * (size_t)(path->most_rank + path->width + path->n_head_kv) * sizeof(float));
}

static int layer_floats(const void *state)
{
    const struct path *path = state;
    return N_PARTS * path->width + path->n_head_kv;
}

/* ---- a token's turn ----------------------------------------------------------------------- */

static void multiply(const struct path *path, const struct locus_weight *weight, const float *bias,
                     const float *rows, int n, float *out)
{
    const struct locus_matmul op = {
        .out = out, .in = {.x = rows}, .weight = weight, .bias = bias, .n = n};
    locus_multiply(&path->kernels, &op, 0, 1);
}

/* turn[head_dim] to length 1. */
static void normalise(float *turn, int head_dim)
{
    float square = 1e-6f;
    for (int d = 0; d < head_dim; d++)
        square += turn[d] * turn[d];
    const float length = sqrtf(square);
    for (int d = 0; d < head_dim; d++)
        turn[d] /= length;
}

/* A token's state after the one of the token before it, but for its key. */
static void step(const struct path *path, const struct path_layer *layer, const float *projected,
                 const float *gates, const float *previous, float *state)
{
    const int width = path->width;
    float *turn = state + TURN * width;
    memcpy(state + PROJECTED * width, projected, (size_t)width * sizeof *state);
    memcpy(state + BEFORE * width, previous + PROJECTED * width, (size_t)width * sizeof *state);
    for (int c = 0; c < width; c++) {
        const float *taps = layer->conv + (ptrdiff_t)c * TAPS;
        const float sum = taps[0] * previous[BEFORE * width + c] +
                          taps[1] * previous[PROJECTED * width + c] + taps[2] * projected[c];
        turn[c] = sum * locus_sigmoid(sum);
    }
    for (int head = 0; head < path->n_head_kv; head++) {
        normalise(turn + (ptrdiff_t)head * path->head_dim, path->head_dim);
        state[N_PARTS * width + head] = 2 * locus_sigmoid(gates[head]);
    }
}

static void observe(const void *state, const struct locus_observe_op *op)
{
    const struct path *path = state;
    const struct path_layer *layer = &path->layers[op->layer];
    const int floats = layer_floats(state);
    float *states = op->token_states;
    for (int first = 0; first < op->n; first += ROWS) {
        const int n = op->n - first < ROWS ? op->n - first : ROWS;
        const float *x = op->x + (ptrdiff_t)first * path->n_embd;
        multiply(path, &layer->down, NULL, x, n, path->low);
        multiply(path, &layer->up, NULL, path->low, n, path->projected);
        multiply(path, &layer->gate, layer->bias, x, n, path->gates);
        for (int i = 0; i < n; i++, states += floats)
            step(path, layer, path->projected + (ptrdiff_t)i * path->width,
                 path->gates + (ptrdiff_t)i * path->n_head_kv, states - floats, states);
    }
}

/* Keeps keys as they are. */
static void rotate(const void *state, const struct locus_rotate_op *op)
{
    const struct path *path = state;
    const int floats = layer_floats(state);
    const size_t width = (size_t)path->width;
    if (op->which == LOCUS_QUERY) return;
    for (int i = 0; i < op->n; i++)
        memcpy(op->token_states + (ptrdiff_t)i * floats + KEY * path->width,
               op->rows + (size_t)i * width, width * sizeof *op->rows);
}

/* ---- scores ------------------------------------------------------------------------------- */

enum { LANES = 8 };

/* a . b + a . c, [n]: in eight sums, whatever the CPU. */
static float dot_of_sum(const float *restrict a, const float *restrict b, const float *restrict c,
                        int n)
{
    float sums[LANES] = {0};
    int d = 0;
    for (; d + LANES <= n; d += LANES)
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += a[d + lane] * (b[d + lane] + c[d + lane]);
    for (int lane = 0; d < n; d++, lane++)
        sums[lane] += a[d] * (b[d] + c[d]);
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) +
           ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

/* n_k is all the row sees, the query's own key last. scratch: what turns have added to the query,
 * and zeros. */
static void bias(const void *state, const struct locus_bias_op *op)
{
    const struct path *path = state;
    const int head_dim = path->head_dim, floats = layer_floats(state);
    const int head = op->head / path->group, at = head * head_dim;
    float *added = op->scratch, *zeros = op->scratch + head_dim;
    memset(op->scratch, 0, 2 * (size_t)head_dim * sizeof *op->scratch);
    for (int j = op->n_k - 2; j >= 0; j--) {
        const float *own = op->k_token_states + (ptrdiff_t)j * floats, *next = own + floats;
        const float *turn = next + TURN * path->width + at;
        const float by =
            next[N_PARTS * path->width + head] * dot_of_sum(turn, op->q, added, head_dim);
        for (int d = 0; d < head_dim; d++)
            added[d] -= by * turn[d];
        op->scores[j] +=
            path->scale * dot_of_sum(own + KEY * path->width + at, added, zeros, head_dim);
    }
}

static size_t scratch_floats(const void *state, int n_k)
{
    const struct path *path = state;
    (void)n_k;
    return 2 * (size_t)path->head_dim;
}

static const char *const tensors[] = {
    "position_path.down.weight",
    "position_path.up.weight",
    "position_path.conv.weight",
    "position_path.beta.weight",
    "position_path.beta.bias",
    "blk.N.position_path.down.weight",
    "blk.N.position_path.up.weight",
    "blk.N.position_path.conv.weight",
    "blk.N.position_path.beta.weight",
    "blk.N.position_path.beta.bias",
    NULL,
};

const struct locus_position_scheme locus_scheme_path = {
    .abi = LOCUS_POSITION_ABI,
    .name = "path",
    .summary = "keys reflected once by each token between them and the query (PaTH)",
    .tensors = tensors,
    .init = init_path,
    .free = free_path,
    .layer_floats = layer_floats,
    .observe = observe,
    .rotate = rotate,
    .whole_row = true,
    .bias = bias,
    .scratch_floats = scratch_floats,
};
