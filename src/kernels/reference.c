/* The oracle: the operations in plain C for any CPU. Every other set gives these bits. */
#include "kernels/lanes.h"
#include "kernels/share.h"

enum { TILE = 4 }; /* rows of activations that share a pass over a panel */

/* One result: the sum, plus bias, stored or added to what is there. */
INLINE void store(const struct locus_matmul *op, int i, int row, float acc)
{
    float *out = op->out + (size_t)i * (size_t)op->weight->rows + row;
    float result = op->bias ? acc + op->bias[row] : acc;
    *out = op->add ? *out + result : result;
}

/* The 32 weights of one column of a panel as floats. */
INLINE void load_lanes(float *w, const void *panel, size_t column, enum locus_form form)
{
    const float *floats = (const float *)panel + column * LOCUS_PANEL;
    const uint16_t *halves = (const uint16_t *)panel + column * LOCUS_PANEL;
    const uint16_t *pairs = (const uint16_t *)panel + column / 2 * LOCUS_PANEL * 2 + column % 2;
    for (int r = 0; r < LOCUS_PANEL; r++) {
        if (form == LOCUS_FORM_F32) w[r] = floats[r];
        if (form == LOCUS_FORM_F16) w[r] = locus_f16_to_float(halves[r]);
        if (form == LOCUS_FORM_BF16) w[r] = locus_bf16_to_float(pairs[2 * r]);
    }
}

/* n_tile rows of activations, from row i on, times one panel of floats or f16. */
INLINE void panel_floats(const struct locus_matmul *op, const void *panel, int p, int i, int n_tile,
                         enum locus_form form)
{
    const size_t cols = (size_t)op->weight->cols;
    const float *restrict x = op->in.x + (size_t)i * cols;
    float acc[TILE][LOCUS_PANEL] = {{0}};
    for (size_t c = 0; c < cols; c++) {
        float w[LOCUS_PANEL];
        load_lanes(w, panel, c, form);
        for (int t = 0; t < n_tile; t++)
            for (int r = 0; r < LOCUS_PANEL; r++)
                acc[t][r] = fmaf(x[(size_t)t * cols + c], w[r], acc[t][r]);
    }
    for (int t = 0; t < n_tile; t++)
        for (int r = 0; r < LOCUS_PANEL && p * LOCUS_PANEL + r < op->weight->rows; r++)
            store(op, i + t, p * LOCUS_PANEL + r, acc[t][r]);
}

INLINE void matmul_floats(const struct locus_matmul *op, enum locus_form form,
                          struct locus_share share)
{
    size_t panel_bytes = locus_panel_bytes(locus_forms[form], op->weight->cols);
    for (int p = share.first; p < share.end; p++) {
        const void *panel = (const char *)op->weight->panels + (size_t)p * panel_bytes;
        int i = share.row;
        for (; i + TILE <= share.row_end; i += TILE)
            panel_floats(op, panel, p, i, TILE, form);
        for (; i < share.row_end; i++)
            panel_floats(op, panel, p, i, 1, form);
    }
}

/* Integer dots of columns [first, end) of a block with those of the activations q: exact in any
 * order. */
INLINE void add_dots(int32_t *dots, struct locus_traits form, const uint8_t *levels,
                     const int8_t *q, int first, int end)
{
    for (int c = first; c < end; c++)
        for (int r = 0; r < LOCUS_PANEL; r++) {
            const int stored = locus_stored_level(form, levels, r, c);
            dots[r] += locus_level_value(form, stored) * q[c];
        }
}

/* Scales, or mins, of 32 outputs; `steps` is what they count in. */
INLINE void load_scales(float *out, struct locus_traits form, const char *scales, const char *steps)
{
    const float *floats = (const float *)(const void *)scales;
    const uint16_t *halves = (const uint16_t *)(const void *)scales;
    const int8_t *counts = (const int8_t *)scales;
    const uint16_t *step = (const uint16_t *)(const void *)steps;
    for (int r = 0; r < LOCUS_PANEL; r++) {
        if (form.scale_bytes == 4) out[r] = floats[r];
        if (form.scale_bytes == 2) out[r] = locus_f16_to_float(halves[r]);
        if (form.scale_bytes == 1) out[r] = locus_f16_to_float(step[r]) * (float)counts[r];
    }
}

/* One block into the sums of 32 outputs. A term is a dot times a scale, or a sum of activations
 * times a min. A block of one takes one multiply-add: dot times (scale of the weights x that of
 * activations). Of a block of several they are added up, and then multiplied by the scale of
 * activations. */
INLINE void add_block(float *acc, struct locus_traits form, const char *head, const char *block,
                      const struct locus_activation_block *in)
{
    const int bytes = LOCUS_PANEL * form.scale_bytes, n = LOCUS_QUANT_BLOCK / form.n_scales;
    const char *mins = block + locus_block_mins(form);
    const uint8_t *levels = (const uint8_t *)(block + locus_block_levels(form));
    const bool one = form.n_scales == 1 && !form.mins;
    float terms[LOCUS_PANEL] = {0};
    for (int s = 0; s < form.n_scales; s++) {
        const float sum = (float)(locus_minus_128_part(in, form.n_scales, s) / -128);
        int32_t dots[LOCUS_PANEL] = {0};
        float scales[LOCUS_PANEL], min[LOCUS_PANEL];
        add_dots(dots, form, levels, in->q, s * n, (s + 1) * n);
        load_scales(scales, form, block + s * bytes, head);
        if (form.mins)
            load_scales(min, form, mins + s * bytes, head + LOCUS_PANEL * sizeof(uint16_t));
        for (int r = 0; r < LOCUS_PANEL; r++) {
            if (one) acc[r] = fmaf((float)dots[r], scales[r] * in->scale, acc[r]);
            if (!one) terms[r] = fmaf((float)dots[r], scales[r], terms[r]);
            if (form.mins) terms[r] = fmaf(sum, min[r], terms[r]);
        }
    }
    for (int r = 0; r < LOCUS_PANEL && !one; r++)
        acc[r] = fmaf(terms[r], in->scale, acc[r]);
}

INLINE void matmul_blocks(const struct locus_matmul *op, enum locus_form which,
                          struct locus_share share)
{
    const struct locus_traits form = locus_forms[which];
    const size_t n_blocks = (size_t)op->weight->cols / LOCUS_QUANT_BLOCK;
    for (int p = share.first; p < share.end; p++)
        for (int i = share.row; i < share.row_end; i++) {
            const char *panel = (const char *)op->weight->panels +
                                (size_t)p * locus_panel_bytes(form, op->weight->cols);
            float acc[LOCUS_PANEL] = {0};
            for (size_t b = 0; b < n_blocks; b++)
                add_block(acc, form, panel + locus_head_at(form, b),
                          panel + locus_block_at(form, b),
                          &op->in.blocks[(size_t)i * n_blocks + b]);
            const int row = p * LOCUS_PANEL;
            for (int r = 0; r < LOCUS_PANEL && row + r < op->weight->rows; r++)
                store(op, i, row + r, acc[r]);
        }
}

static void matmul(const struct locus_matmul *op, struct locus_share share)
{
    switch (locus_weight_type(op->weight->type)->form) {
    case LOCUS_FORM_F32:
        matmul_floats(op, LOCUS_FORM_F32, share);
        break;
    case LOCUS_FORM_F16:
        matmul_floats(op, LOCUS_FORM_F16, share);
        break;
    case LOCUS_FORM_BF16:
        matmul_floats(op, LOCUS_FORM_BF16, share);
        break;
    case LOCUS_FORM_Q8:
        matmul_blocks(op, LOCUS_FORM_Q8, share);
        break;
    case LOCUS_FORM_Q4:
        matmul_blocks(op, LOCUS_FORM_Q4, share);
        break;
    case LOCUS_FORM_Q4_MIN:
        matmul_blocks(op, LOCUS_FORM_Q4_MIN, share);
        break;
    case LOCUS_FORM_Q5:
        matmul_blocks(op, LOCUS_FORM_Q5, share);
        break;
    case LOCUS_FORM_Q5_MIN:
        matmul_blocks(op, LOCUS_FORM_Q5_MIN, share);
        break;
    case LOCUS_FORM_IQ4:
        matmul_blocks(op, LOCUS_FORM_IQ4, share);
        break;
    case LOCUS_FORM_FP4:
        matmul_blocks(op, LOCUS_FORM_FP4, share);
        break;
    case LOCUS_FORM_Q4_K:
        matmul_blocks(op, LOCUS_FORM_Q4_K, share);
        break;
    case LOCUS_FORM_Q5_K:
        matmul_blocks(op, LOCUS_FORM_Q5_K, share);
        break;
    case LOCUS_FORM_Q6_K:
        matmul_blocks(op, LOCUS_FORM_Q6_K, share);
        break;
    case LOCUS_FORM_Q4_TWO_K:
        matmul_blocks(op, LOCUS_FORM_Q4_TWO_K, share);
        break;
    case LOCUS_FORM_Q4_TWO_MIN_K:
        matmul_blocks(op, LOCUS_FORM_Q4_TWO_MIN_K, share);
        break;
    case LOCUS_N_FORMS:
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
    const float *scales = floats + d / LOCUS_QUANT_BLOCK * LOCUS_KEY_PANEL;
    for (int j = 0; j < LOCUS_KEY_PANEL; j++) {
        int at = d * LOCUS_KEY_PANEL + j;
        if (format == LOCUS_FORMAT_F32) k[j] = floats[at];
        if (format == LOCUS_FORMAT_F16) k[j] = locus_f16_to_float(halves[at]);
        if (format == LOCUS_FORMAT_Q8_0) k[j] = (float)q[at] * scales[j];
    }
}

static void from_f16(float *out, const uint16_t *halves, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = locus_f16_to_float(halves[i]);
}

static void scores(const struct locus_scores *op)
{
    const size_t panel_bytes = locus_key_panel_bytes(op->format, op->head_dim);
    for (int i = 0; i < op->n_rows; i++)
        for (int p = 0; p < op->n_panels; p++) {
            const float *q = op->q + (size_t)i * (size_t)op->head_dim;
            float *out = op->out + (size_t)i * op->stride + (size_t)p * LOCUS_KEY_PANEL;
            float acc[LOCUS_KEY_PANEL] = {0};
            for (int d = 0; d < op->head_dim; d++) {
                float k[LOCUS_KEY_PANEL];
                load_keys(k, (const char *)op->keys + (size_t)p * panel_bytes, op->head_dim, d,
                          op->format);
                for (int j = 0; j < LOCUS_KEY_PANEL; j++)
                    acc[j] = fmaf(q[d], k[j], acc[j]);
            }
            for (int j = 0; j < LOCUS_KEY_PANEL; j++)
                out[j] = acc[j] * op->scale;
        }
}

/* The running softmax of one row (Milakov and Gimelshein, 2018): scores become weights. A block
 * that raises the maximum scales what was gathered before it by e^(old - new). */
static void softmax_row(const struct locus_mixing *op, int row)
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
        softmax_row(op, row);
        mix_values(op->format, op, row, 0, op->first[row], op->end[row]);
    }
}

void locus_kernels_reference(struct locus_kernels *kernels)
{
    *kernels = (struct locus_kernels){.quantize = quantize, .to_f16 = to_f16};
    for (int form = 0; form < LOCUS_N_FORMS; form++)
        kernels->matmul[form] = matmul;
    set_lanes(kernels);
}
