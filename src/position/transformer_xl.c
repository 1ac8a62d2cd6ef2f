/* Transformer-XL's relative positions: a query also meets the encoding of its distance to a key.
 *
 * Dai et al., "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context" (arXiv
 * 1901.02860), section 3.3: score = ((q + u).k_j + (q + v).(W_r R_distance)) scale, where R is
 * [sines, cosines] of width D. u is added to queries before the scores are made; the bias is then
 * (q' + v - u).(W_r R_distance) scale of such a query q'. W_r R is precomputed a layer, and
 * distances index it: nothing is shifted. clamp > 0 makes all longer distances one (the authors'
 * clamp_len).
 */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/math.h"
#include "kernels/kernels.h"
#include "position/registry.h"
#include "position/tables.h"
#include "position/tensors.h"

struct xl_layer {
    const float *u;   /* [n_head, head_dim]; the model's */
    const float *w_r; /* [n_head * head_dim, n_embd]; the model's */
    float *v_less_u;  /* [n_head, head_dim] */
    float *products;  /* [n_head, n / LOCUS_KEY_PANEL] panels: W_r R, from the longest distance to
                       * 0 */
};

/* What makes the tables of all layers. */
struct encoder {
    double *theta; /* [n_embd / 2] */
    float *block;  /* [n_embd, LOCUS_KEY_PANEL]: R of some distances */
    int n_embd, clamp;
};

struct xl {
    int n_layer, n_head, head_dim;
    int n, n_filled; /* distances 0 .. n-1, whole panels; those that have been filled */
    float scale;
    struct locus_kernels kernels; /* the session's; they change no bit */
    struct locus_position_env env;
    struct encoder encoder;
    struct xl_layer layers[];
};

/* ---- tables ------------------------------------------------------------------------------- */

/* block[:, l] = R of distance `longest` - l. An odd width's last row stays zero. */
static void encode_block(const struct encoder *encoder, int longest)
{
    int half = encoder->n_embd / 2;
    for (int k = 0; k < half; k++)
        for (int l = 0; l < LOCUS_KEY_PANEL; l++) {
            int distance = longest - l;
            double sine, cosine;
            if (encoder->clamp > 0 && distance > encoder->clamp) distance = encoder->clamp;
            locus_sine_cosine(distance * encoder->theta[k], &sine, &cosine);
            encoder->block[(size_t)k * LOCUS_KEY_PANEL + (size_t)l] = (float)sine;
            encoder->block[(size_t)(half + k) * LOCUS_KEY_PANEL + (size_t)l] = (float)cosine;
        }
}

/* A head's panels; each is [head_dim, LOCUS_KEY_PANEL], as those of keys are. */
static float *head_panels(const struct xl *xl, const struct xl_layer *layer, int head)
{
    return layer->products + (size_t)head * (size_t)xl->head_dim * (size_t)xl->n;
}

/* out[LOCUS_KEY_PANEL] = row[n] . columns[n, LOCUS_KEY_PANEL]. A lane is an output, so that bits
 * don't depend on the width of a vector. */
static void dot_columns(float *restrict out, const float *restrict row,
                        const float *restrict columns, int n)
{
    float sums[LOCUS_KEY_PANEL] = {0};
    for (int c = 0; c < n; c++, columns += LOCUS_KEY_PANEL)
        for (int l = 0; l < LOCUS_KEY_PANEL; l++)
            sums[l] += row[c] * columns[l];
    for (int l = 0; l < LOCUS_KEY_PANEL; l++)
        out[l] = sums[l];
}

/* A layer's panels whose longest distance is `longest`: the products of W_r with the encoder's
 * block. */
static void fill_panels(const struct xl *xl, const struct xl_layer *layer, int longest)
{
    const struct encoder *encoder = &xl->encoder;
    const size_t head_dim = (size_t)xl->head_dim, n_embd = (size_t)encoder->n_embd;
    const size_t first = (size_t)(xl->n - 1 - longest);
    for (int h = 0; h < xl->n_head; h++) {
        float *panel = head_panels(xl, layer, h) + first * head_dim;
        const float *rows = layer->w_r + (size_t)h * head_dim * n_embd;
        for (size_t d = 0; d < head_dim; d++)
            dot_columns(panel + d * LOCUS_KEY_PANEL, rows + d * n_embd, encoder->block,
                        encoder->n_embd);
    }
}

static void fill(void *state, int n_positions)
{
    struct xl *xl = state;
    const int n = locus_distance_count(&xl->env, n_positions);
    for (; xl->n_filled < n; xl->n_filled += LOCUS_KEY_PANEL) {
        const int longest = xl->n_filled + LOCUS_KEY_PANEL - 1;
        encode_block(&xl->encoder, longest);
        for (int layer = 0; layer < xl->n_layer; layer++)
            fill_panels(xl, &xl->layers[layer], longest);
    }
}

/* ---- set-up ------------------------------------------------------------------------------- */

static enum locus_status make_layer(struct xl *xl, int index, const struct locus_position_env *env,
                                    locus_error *error)
{
    const struct locus_tensor_query query = {env, "transformer-xl", index};
    struct xl_layer *layer = &xl->layers[index];
    size_t n_rows = (size_t)xl->n_head * (size_t)xl->head_dim;
    const float *v;
    enum locus_status status;
    if ((status = locus_tensor_find(&query, "position_u", xl->n_head, xl->head_dim, &layer->u, NULL,
                                    error)) ||
        (status =
             locus_tensor_find(&query, "position_v", xl->n_head, xl->head_dim, &v, NULL, error)) ||
        (status = locus_tensor_find(&query, "position_r.weight", (int)n_rows, env->n_embd,
                                    &layer->w_r, NULL, error)))
        return status;
    layer->v_less_u = locus_aligned_zalloc(n_rows, sizeof(float));
    layer->products = locus_aligned_zalloc(n_rows, (size_t)xl->n * sizeof(float));
    if (!layer->v_less_u || !layer->products)
        return locus_table_fail(error, "transformer-xl", xl->n,
                                n_rows * ((size_t)xl->n + 1) * sizeof(float));
    for (size_t i = 0; i < n_rows; i++)
        layer->v_less_u[i] = v[i] - layer->u[i];
    return LOCUS_OK;
}

static void free_xl(void *state)
{
    struct xl *xl = state;
    if (!xl) return;
    free(xl->encoder.theta);
    locus_aligned_free(xl->encoder.block);
    for (int l = 0; l < xl->n_layer; l++) {
        locus_aligned_free(xl->layers[l].v_less_u);
        locus_aligned_free(xl->layers[l].products);
    }
    free(xl);
}

static enum locus_status make_encoder(struct encoder *encoder, const struct locus_position_env *env,
                                      const struct locus_position_spec *spec, locus_error *error)
{
    const size_t half = (size_t)env->n_embd / 2;
    const size_t block_floats = (size_t)env->n_embd * LOCUS_KEY_PANEL;
    *encoder = (struct encoder){
        .theta = calloc(half + 1, sizeof(double)),
        .block = locus_aligned_zalloc(block_floats, sizeof(float)),
        .n_embd = env->n_embd,
        .clamp = locus_position_int(spec, "clamp"),
    };
    if (!encoder->theta || !encoder->block)
        return locus_fail_memory(error, block_floats * sizeof(float));
    for (size_t k = 0; k < half; k++)
        encoder->theta[k] =
            locus_power(locus_position_number(spec, "base"), -2.0 * (double)k / env->n_embd);
    return LOCUS_OK;
}

static enum locus_status init_xl(void **state, const struct locus_position_env *env,
                                 const struct locus_position_spec *spec, locus_error *error)
{
    size_t n_bytes = sizeof(struct xl) + (size_t)env->n_layer * sizeof(struct xl_layer);
    struct xl *xl = calloc(1, n_bytes);
    if (!xl) return locus_fail_memory(error, n_bytes);
    *state = xl;
    xl->n_layer = env->n_layer;
    xl->n_head = env->n_head;
    xl->head_dim = env->head_dim;
    const int n = locus_distance_count(env, env->session_length);
    xl->n = (n - 1) / LOCUS_KEY_PANEL * LOCUS_KEY_PANEL + LOCUS_KEY_PANEL;
    xl->scale = env->score_scale;
    xl->env = *env;
    enum locus_status status = locus_kernels_init(&xl->kernels, env->kernels, error);
    if (!status) status = make_encoder(&xl->encoder, env, spec, error);
    for (int layer = 0; !status && layer < xl->n_layer; layer++)
        status = make_layer(xl, layer, env, error);
    return status;
}

/* ---- use ---------------------------------------------------------------------------------- */

static void rotate(const void *state, const struct locus_rotate_op *op)
{
    const struct xl *xl = state;
    const float *u = xl->layers[op->layer].u;
    float *rows = op->rows;
    if (op->which != LOCUS_QUERY) return;
    const size_t width = (size_t)op->n_heads * (size_t)xl->head_dim;
    for (int i = 0; i < op->n; i++, rows += width)
        for (size_t d = 0; d < width; d++)
            rows[d] += u[d];
}

static size_t padded(size_t n)
{
    return (n + LOCUS_KEY_PANEL - 1) / LOCUS_KEY_PANEL * LOCUS_KEY_PANEL;
}

/* The query's products with the panels that hold [at, at + n); where the first of them begins. */
static int multiply(const struct xl *xl, struct locus_scores *product, const float *panels, int at,
                    int n)
{
    const int origin = at / LOCUS_KEY_PANEL * LOCUS_KEY_PANEL;
    product->n_panels = (at - origin + n - 1) / LOCUS_KEY_PANEL + 1;
    product->keys = panels + (size_t)origin * (size_t)xl->head_dim;
    xl->kernels.scores(product);
    return origin;
}

static void bias(const void *state, const struct locus_bias_op *op)
{
    const struct xl *xl = state;
    const struct xl_layer *layer = &xl->layers[op->layer];
    const int *k_positions = op->k_positions, n_k = op->n_k;
    const size_t head_dim = (size_t)xl->head_dim;
    const float *v_less_u = layer->v_less_u + (size_t)op->head * head_dim;
    const float *panels = head_panels(xl, layer, op->head);
    float *query = op->scratch, *products = op->scratch + padded(head_dim);
    struct locus_scores product = {.format = LOCUS_FORMAT_F32,
                                   .out = products,
                                   .q = query,
                                   .n_rows = 1,
                                   .head_dim = xl->head_dim,
                                   .scale = xl->scale};
    for (size_t d = 0; d < head_dim; d++)
        query[d] = op->q[d] + v_less_u[d];
    /* In the order of the panels, a key is at `first` + its position. */
    const int first = xl->n - 1 - op->q_position;
    if (!k_positions) {
        const int origin = multiply(xl, &product, panels, first + op->k_first, n_k);
        for (int j = 0; j < n_k; j++)
            op->scores[j] += products[first + op->k_first + j - origin];
        return;
    }
    for (int j = 0; j < n_k;) {
        const int origin = multiply(xl, &product, panels, first + k_positions[j], 1);
        for (; j < n_k; j++) { /* as many as lie in the panel */
            const int at = first + k_positions[j] - origin;
            if (at < 0 || at >= LOCUS_KEY_PANEL) break;
            op->scores[j] += products[at];
        }
    }
}

static size_t scratch_floats(const void *state, int n_k)
{
    const struct xl *xl = state;
    return padded((size_t)xl->head_dim) + padded((size_t)n_k) + LOCUS_KEY_PANEL;
}

static const struct locus_param params[] = {
    {"clamp", LOCUS_PARAM_INT, "0", 0, 1 << 30, NULL, false,
     "above 0: longer distances count as this one"},
    {"base", LOCUS_PARAM_FLOAT, "10000", 1, 1e15, NULL, false,
     "wavelengths of the encoded distance grow from 2 pi towards 2 pi base"},
    {0},
};

static const char *const tensors[] = {
    "position_u",
    "position_v",
    "blk.N.position_u",
    "blk.N.position_v",
    "position_r.weight",
    "blk.N.position_r.weight",
    NULL,
};

const struct locus_position_scheme locus_scheme_transformer_xl = {
    .abi = LOCUS_POSITION_ABI,
    .name = "transformer-xl",
    .summary = "encodings of the distance, met by the query (Transformer-XL)",
    .params = params,
    .tensors = tensors,
    .init = init_xl,
    .free = free_xl,
    .fill = fill,
    .rotate = rotate,
    .bias = bias,
    .scratch_floats = scratch_floats,
};
