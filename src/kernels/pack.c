/* Packing: stored rows into panels in which a lane is an output row. See kernels.h. */
#include "base/buffer.h"
#include "base/threads.h"
#include "kernels/kernels.h"

static size_t row_bytes(enum locus_tensor_type type, int cols)
{
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)type);
    return (size_t)(cols / info->block_values) * (size_t)info->block_bytes;
}

struct packing {
    struct locus_weight *weight;
    struct locus_row_source source;
};

static void pack_lane(const struct locus_weight *weight, void *panel, int lane, const void *row)
{
    const size_t cols = (size_t)weight->cols;
    if (weight->type == LOCUS_F32) {
        float *out = panel;
        const float *in = row;
        for (size_t c = 0; c < cols; c++)
            out[c * LOCUS_PANEL + (size_t)lane] = in[c];
    } else if (weight->type == LOCUS_F16) {
        uint16_t *out = panel;
        const uint16_t *in = row;
        for (size_t c = 0; c < cols; c++)
            out[c * LOCUS_PANEL + (size_t)lane] = in[c];
    } else if (weight->type == LOCUS_BF16) {
        uint16_t *out = panel;
        const uint16_t *in = row;
        for (size_t c = 0; c < cols; c++)
            out[(c / 2 * LOCUS_PANEL + (size_t)lane) * 2 + c % 2] = in[c];
    } else if (weight->type == LOCUS_Q8_0) {
        struct locus_q8_panel *out = panel;
        const struct locus_q8_0 *in = row;
        for (size_t b = 0; b < cols / LOCUS_BLOCK; b++) {
            out[b].scale[lane] = in[b].scale;
            for (int c = 0; c < LOCUS_BLOCK; c++)
                out[b].q[c / 4][lane][c % 4] = in[b].q[c];
        }
    } else {
        struct locus_q4_panel *out = panel;
        const struct locus_q4_0 *in = row;
        for (size_t b = 0; b < cols / LOCUS_BLOCK; b++) {
            out[b].scale[lane] = in[b].scale;
            for (int c = 0; c < LOCUS_BLOCK / 2; c++)
                out[b].q[c / 4][lane][c % 4] = in[b].q[c];
        }
    }
}

static void pack_share(void *context, int thread, int n_threads)
{
    const struct packing *packing = context;
    const struct locus_weight *weight = packing->weight;
    const struct locus_row_source *source = &packing->source;
    int first, end;
    locus_threads_share(locus_weight_n_panels(weight), thread, n_threads, &first, &end);
    for (int p = first; p < end; p++) {
        unsigned char *panel = (unsigned char *)weight->panels +
                               (size_t)p * locus_panel_bytes(weight->type, weight->cols);
        for (int lane = 0; lane < LOCUS_PANEL && p * LOCUS_PANEL + lane < weight->rows; lane++) {
            int r = p * LOCUS_PANEL + lane;
            size_t stored = (size_t)source->first +
                            (size_t)(r / source->group) * (size_t)source->stride +
                            (size_t)(r % source->group);
            pack_lane(weight, panel, lane,
                      source->data + stored * row_bytes(weight->type, weight->cols));
        }
    }
}

enum locus_status locus_weight_pack(struct locus_weight *weight, enum locus_tensor_type type,
                                    int rows, int cols, struct locus_row_source source,
                                    int n_threads, locus_error *error)
{
    *weight = (struct locus_weight){.type = type, .rows = rows, .cols = cols};
    weight->panels =
        locus_aligned_zalloc((size_t)locus_weight_n_panels(weight), locus_panel_bytes(type, cols));
    if (!weight->panels) return locus_fail_memory(error, locus_weight_bytes(weight));
    locus_threads_run(n_threads, pack_share, &(struct packing){weight, source});
    return LOCUS_OK;
}

void locus_weight_free(struct locus_weight *weight)
{
    locus_aligned_free(weight->panels);
    *weight = (struct locus_weight){0};
}

size_t locus_weight_bytes(const struct locus_weight *weight)
{
    return (size_t)locus_weight_n_panels(weight) * locus_panel_bytes(weight->type, weight->cols);
}

void locus_weight_row(const struct locus_weight *weight, int row, float *out)
{
    const int lane = row % LOCUS_PANEL;
    const void *panel = (const unsigned char *)weight->panels +
                        (size_t)(row / LOCUS_PANEL) * locus_panel_bytes(weight->type, weight->cols);
    const float *floats = panel;
    const uint16_t *halves = panel;
    const struct locus_q8_panel *q8 = panel;
    const struct locus_q4_panel *q4 = panel;
    for (int c = 0; c < weight->cols; c++) {
        size_t at = (size_t)c * LOCUS_PANEL + (size_t)lane;
        int b = c / LOCUS_BLOCK, j = c % LOCUS_BLOCK;
        switch (weight->type) {
        case LOCUS_F32:
            out[c] = floats[at];
            break;
        case LOCUS_F16:
            out[c] = locus_half_to_float(halves[at]);
            break;
        case LOCUS_BF16:
            out[c] = locus_bfloat_to_float(
                halves[(size_t)(c / 2 * LOCUS_PANEL + lane) * 2 + (size_t)(c % 2)]);
            break;
        case LOCUS_Q8_0:
            out[c] = locus_half_to_float(q8[b].scale[lane]) * (float)q8[b].q[j / 4][lane][j % 4];
            break;
        case LOCUS_Q4_0: {
            int byte = q4[b].q[j % 16 / 4][lane][j % 4];
            out[c] = locus_half_to_float(q4[b].scale[lane]) *
                     (float)((j < 16 ? byte & 15 : byte >> 4) - 8);
            break;
        }
        }
    }
}
