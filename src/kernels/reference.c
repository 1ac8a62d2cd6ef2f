/* The oracle: the operations in plain C for any CPU. Every other set gives these bits. */
#include "kernels/lanes.h"
#include "kernels/share.h"

enum { TILE = 4 }; /* rows of activations that share a pass over a panel */

/* One result: the chain, plus bias, stored or added to what is there. */
INLINE void store(const struct locus_matmul *op, int i, int row, float chain)
{
    float *out = op->out + (size_t)i * (size_t)op->weight->rows + row;
    float result = op->bias ? chain + op->bias[row] : chain;
    *out = op->add ? *out + result : result;
}

/* The 32 weights of one column of a panel as floats. */
INLINE void load_lanes(float *w, const void *panel, size_t column, enum locus_tensor_type type)
{
    const float *floats = (const float *)panel + column * LOCUS_PANEL;
    const uint16_t *halves = (const uint16_t *)panel + column * LOCUS_PANEL;
    const uint16_t *pairs = (const uint16_t *)panel + column / 2 * LOCUS_PANEL * 2 + column % 2;
    for (int r = 0; r < LOCUS_PANEL; r++) {
        if (type == LOCUS_F32) w[r] = floats[r];
        if (type == LOCUS_F16) w[r] = locus_half_to_float(halves[r]);
        if (type == LOCUS_BF16) w[r] = locus_bfloat_to_float(pairs[2 * r]);
    }
}

/* n_tile rows of activations, from row i on, times one panel of floats or halves. */
INLINE void panel_floats(const struct locus_matmul *op, const void *panel, int p, int i, int n_tile,
                         enum locus_tensor_type type)
{
    const size_t cols = (size_t)op->weight->cols;
    const float *restrict x = op->in.x + (size_t)i * cols;
    float chain[TILE][LOCUS_PANEL] = {{0}};
    for (size_t c = 0; c < cols; c++) {
        float w[LOCUS_PANEL];
        load_lanes(w, panel, c, type);
        for (int t = 0; t < n_tile; t++)
            for (int r = 0; r < LOCUS_PANEL; r++)
                chain[t][r] = fmaf(x[(size_t)t * cols + c], w[r], chain[t][r]);
    }
    for (int t = 0; t < n_tile; t++)
        for (int r = 0; r < LOCUS_PANEL && p * LOCUS_PANEL + r < op->weight->rows; r++)
            store(op, i + t, p * LOCUS_PANEL + r, chain[t][r]);
}

INLINE void matmul_floats(const struct locus_matmul *op, enum locus_tensor_type type,
                          struct locus_share share)
{
    size_t panel_bytes = locus_panel_bytes(type, op->weight->cols);
    for (int p = share.first; p < share.end; p++) {
        const void *panel = (const char *)op->weight->panels + (size_t)p * panel_bytes;
        int i = share.row;
        for (; i + TILE <= share.row_end; i += TILE)
            panel_floats(op, panel, p, i, TILE, type);
        for (; i < share.row_end; i++)
            panel_floats(op, panel, p, i, 1, type);
    }
}

/* Integer dots of 32 columns of 32 rows with one block of activations: exact in any order. */
INLINE void dots_q8(int32_t *dots, const struct locus_q8_panel *block, const int8_t *q)
{
    for (int r = 0; r < LOCUS_PANEL; r++)
        dots[r] = 0;
    for (int c = 0; c < LOCUS_BLOCK; c++)
        for (int r = 0; r < LOCUS_PANEL; r++)
            dots[r] += block->q[c / 4][r][c % 4] * q[c];
}

INLINE void dots_q4(int32_t *dots, const struct locus_q4_panel *block, const int8_t *q)
{
    for (int r = 0; r < LOCUS_PANEL; r++)
        dots[r] = 0;
    for (int c = 0; c < LOCUS_BLOCK / 2; c++)
        for (int r = 0; r < LOCUS_PANEL; r++) {
            int byte = block->q[c / 4][r][c % 4];
            dots[r] += ((byte & 15) - 8) * q[c] + ((byte >> 4) - 8) * q[c + LOCUS_BLOCK / 2];
        }
}

/* A chain has one multiply-add a block: dot times (scale of the weights x that of activations). */
INLINE void matmul_quants(const struct locus_matmul *op, enum locus_tensor_type type,
                          struct locus_share share)
{
    const size_t blocks = (size_t)op->weight->cols / LOCUS_BLOCK;
    const struct locus_q8_panel *q8 = op->weight->panels;
    const struct locus_q4_panel *q4 = op->weight->panels;
    for (int p = share.first; p < share.end; p++)
        for (int i = share.row; i < share.row_end; i++) {
            float chain[LOCUS_PANEL] = {0};
            for (size_t b = 0; b < blocks; b++) {
                size_t at = (size_t)p * blocks + b;
                const struct locus_activation_block *in = &op->in.blocks[(size_t)i * blocks + b];
                const uint16_t *scales = type == LOCUS_Q8_0 ? q8[at].scale : q4[at].scale;
                int32_t dots[LOCUS_PANEL];
                if (type == LOCUS_Q8_0)
                    dots_q8(dots, &q8[at], in->q);
                else
                    dots_q4(dots, &q4[at], in->q);
                for (int r = 0; r < LOCUS_PANEL; r++)
                    chain[r] =
                        fmaf((float)dots[r], locus_half_to_float(scales[r]) * in->scale, chain[r]);
            }
            int row = p * LOCUS_PANEL;
            for (int r = 0; r < LOCUS_PANEL && row + r < op->weight->rows; r++)
                store(op, i, row + r, chain[r]);
        }
}

static void matmul(const struct locus_matmul *op, int thread, int n_threads)
{
    const struct locus_share share = locus_share_of(op, thread, n_threads);
    switch (op->weight->type) {
    case LOCUS_F32:
        matmul_floats(op, LOCUS_F32, share);
        break;
    case LOCUS_F16:
        matmul_floats(op, LOCUS_F16, share);
        break;
    case LOCUS_BF16:
        matmul_floats(op, LOCUS_BF16, share);
        break;
    case LOCUS_Q8_0:
        matmul_quants(op, LOCUS_Q8_0, share);
        break;
    case LOCUS_Q4_0:
        matmul_quants(op, LOCUS_Q4_0, share);
        break;
    }
}

/* ---- attention ---------------------------------------------------------------------------- */

/* Dimension d of the 16 keys of a panel. */
INLINE void load_keys(float *k, const void *panel, int head_dim, int d,
                      enum locus_cache_format format)
{
    const float *floats = panel;
    const uint16_t *halves = panel;
    const int8_t *q = (const int8_t *)(floats + locus_cache_blocks(head_dim) * LOCUS_KEY_PANEL);
    const float *scales = floats + d / LOCUS_BLOCK * LOCUS_KEY_PANEL;
    for (int j = 0; j < LOCUS_KEY_PANEL; j++) {
        int at = d * LOCUS_KEY_PANEL + j;
        if (format == LOCUS_FORMAT_F32) k[j] = floats[at];
        if (format == LOCUS_FORMAT_F16) k[j] = locus_half_to_float(halves[at]);
        if (format == LOCUS_FORMAT_Q8_0) k[j] = (float)q[at] * scales[j];
    }
}

static void from_halves(float *out, const uint16_t *halves, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = locus_half_to_float(halves[i]);
}

static void scores(const struct locus_scores *op)
{
    const size_t panel_bytes = locus_key_panel_bytes(op->format, op->head_dim);
    for (int i = 0; i < op->n_rows; i++)
        for (int p = 0; p < op->n_panels; p++) {
            const float *q = op->q + (size_t)i * (size_t)op->head_dim;
            float *out = op->out + (size_t)i * op->stride + (size_t)p * LOCUS_KEY_PANEL;
            float chain[LOCUS_KEY_PANEL] = {0};
            for (int d = 0; d < op->head_dim; d++) {
                float k[LOCUS_KEY_PANEL];
                load_keys(k, (const char *)op->keys + (size_t)p * panel_bytes, op->head_dim, d,
                          op->format);
                for (int j = 0; j < LOCUS_KEY_PANEL; j++)
                    chain[j] = fmaf(q[d], k[j], chain[j]);
            }
            for (int j = 0; j < LOCUS_KEY_PANEL; j++)
                out[j] = chain[j] * op->scale;
        }
}

/* The running softmax of one row (Milakov and Gimelshein, 2018): scores become weights. A block
 * that raises the maximum scales what was gathered before it by e^(old - new). */
static void soften(const struct locus_mixing *op, int row)
{
    struct locus_softmax *softmax = &op->softmax[row];
    float *scores = op->scores + (size_t)row * op->stride;
    float *mix = op->mix + (size_t)row * (size_t)op->head_dim;
    float max = softmax->max;
    for (int j = op->first[row]; j < op->end[row]; j++)
        max = scores[j] > max ? scores[j] : max;
    float base = max == -INFINITY ? 0 : max; /* nothing but -INFINITY yet: every weight is 0 */
    if (max > softmax->max) {
        float shrink = locus_exp(softmax->max - base);
        for (int s = 0; s < SUMS; s++)
            softmax->sums[s] *= shrink;
        for (int d = 0; d < op->head_dim; d++)
            mix[d] *= shrink;
        softmax->max = max;
    }
    for (int j = op->first[row]; j < op->end[row]; j++) {
        scores[j] = locus_exp_weight(scores[j] - base);
        softmax->sums[j % SUMS] += scores[j];
    }
}

static void mix(const struct locus_mixing *op)
{
    for (int row = 0; row < op->n_rows; row++) {
        soften(op, row);
        mix_values(op->format, op, row, 0, op->first[row], op->end[row]);
    }
}

const struct locus_kernels locus_kernels_reference = {
    .name = "reference",
    .matmul = matmul,
    .quantize = quantize,
    .to_halves = to_halves,
    LANE_KERNELS,
};
