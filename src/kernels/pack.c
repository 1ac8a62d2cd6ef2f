/* Packing: stored rows into panels in which a lane is an output row. See kernels.h. */
#include "base/buffer.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "kernels/transpose.h"

enum { GROUP_BYTES = 512 * 1024 }; /* stored rows that a thread packs at a time */

static size_t stored_row_bytes(const struct locus_weight *weight)
{
    return locus_tensor_row_bytes(weight->type, (size_t)weight->cols);
}

struct packing {
    struct locus_weight *weight;
    struct locus_row_source source;
    int next_group; /* the first that no thread has taken */
};

/* Columns from `first` on of one row. */
static void pack_lane(const struct locus_weight *weight, void *panel, int lane, const void *row,
                      size_t first)
{
    const size_t cols = (size_t)weight->cols;
    if (weight->type == LOCUS_F32) {
        float *out = panel;
        const float *in = row;
        for (size_t c = first; c < cols; c++)
            out[c * LOCUS_PANEL + (size_t)lane] = in[c];
    } else if (weight->type == LOCUS_F16) {
        uint16_t *out = panel;
        const uint16_t *in = row;
        for (size_t c = first; c < cols; c++)
            out[c * LOCUS_PANEL + (size_t)lane] = in[c];
    } else if (weight->type == LOCUS_BF16) {
        uint16_t *out = panel;
        const uint16_t *in = row;
        for (size_t c = first; c < cols; c++)
            out[(c / 2 * LOCUS_PANEL + (size_t)lane) * 2 + c % 2] = in[c];
    } else if (weight->type == LOCUS_Q8_0) {
        struct locus_q8_panel *out = panel;
        const struct locus_q8_0 *in = row;
        for (size_t b = first / LOCUS_BLOCK; b < cols / LOCUS_BLOCK; b++) {
            out[b].scale[lane] = in[b].scale;
            for (int c = 0; c < LOCUS_BLOCK; c++)
                out[b].q[c / 4][lane][c % 4] = in[b].q[c];
        }
    } else {
        struct locus_q4_panel *out = panel;
        const struct locus_q4_0 *in = row;
        for (size_t b = first / LOCUS_BLOCK; b < cols / LOCUS_BLOCK; b++) {
            out[b].scale[lane] = in[b].scale;
            for (int c = 0; c < LOCUS_BLOCK / 2; c++)
                out[b].q[c / 4][lane][c % 4] = in[b].q[c];
        }
    }
}

/* Columns that a strip of a panel has: 64 bytes a row, all of which are read while they are near.
 */
enum { STRIP_DWORDS = 16, STRIP_WORDS = 32 };

/* Whole dwords (words) of 32 rows; returns how many columns of 4 (2) bytes that is. */
static size_t pack_dwords(uint32_t *out, const unsigned char *const rows[LOCUS_PANEL], size_t n)
{
    const unsigned char *at[LOCUS_PANEL];
    for (size_t i = 0; i < n; i += STRIP_DWORDS) {
        for (int r = 0; r < LOCUS_PANEL; r++)
            at[r] = rows[r] + 4 * i;
        locus_transpose_dwords(out + i * LOCUS_PANEL, at, LOCUS_PANEL,
                               n - i < STRIP_DWORDS ? (n - i) / 4 * 4 : STRIP_DWORDS);
    }
    return n / 4 * 4;
}

static size_t pack_words(uint16_t *out, const unsigned char *const rows[LOCUS_PANEL], size_t n)
{
    const unsigned char *at[LOCUS_PANEL];
    for (size_t i = 0; i < n; i += STRIP_WORDS) {
        for (int r = 0; r < LOCUS_PANEL; r++)
            at[r] = rows[r] + 2 * i;
        locus_transpose_words(out + i * LOCUS_PANEL, at,
                              n - i < STRIP_WORDS ? (n - i) / 8 * 8 : STRIP_WORDS);
    }
    return n / 8 * 8;
}

/* A panel of 32 rows; returns the columns packed, the first ones. */
static size_t pack_columns(const struct locus_weight *weight, void *panel,
                           const unsigned char *const rows[LOCUS_PANEL])
{
    const size_t cols = (size_t)weight->cols;
    const unsigned char *at[LOCUS_PANEL];
    struct locus_q8_panel *q8 = panel;
    struct locus_q4_panel *q4 = panel;
    switch (weight->type) {
    case LOCUS_F32:
        return pack_dwords(panel, rows, cols);
    case LOCUS_F16:
        return pack_words(panel, rows, cols);
    case LOCUS_BF16:
        return 2 * pack_dwords(panel, rows, cols / 2);
    case LOCUS_Q8_0:
    case LOCUS_Q4_0:
        break;
    }
    const bool is_q8 = weight->type == LOCUS_Q8_0;
    const size_t block_bytes = is_q8 ? sizeof(struct locus_q8_0) : sizeof(struct locus_q4_0);
    for (size_t b = 0; b < cols / LOCUS_BLOCK; b++) {
        uint16_t *scale = is_q8 ? q8[b].scale : q4[b].scale;
        for (int r = 0; r < LOCUS_PANEL; r++) {
            memcpy(&scale[r], rows[r] + b * block_bytes, sizeof *scale);
            at[r] = rows[r] + b * block_bytes + sizeof *scale;
        }
        if (is_q8)
            locus_transpose_dwords((uint32_t *)(void *)q8[b].q, at, LOCUS_PANEL, LOCUS_BLOCK / 4);
        else
            locus_transpose_dwords((uint32_t *)(void *)q4[b].q, at, LOCUS_PANEL, LOCUS_BLOCK / 8);
    }
    return cols;
}

static const unsigned char *stored_row(const struct packing *packing, int row)
{
    const struct locus_row_source *source = &packing->source;
    size_t stored = (size_t)source->first + (size_t)(row / source->group) * (size_t)source->stride +
                    (size_t)(row % source->group);
    return source->data + stored * stored_row_bytes(packing->weight);
}

/* The last panel, and the last columns of one, go a lane at a time. */
static void pack_panel(const struct packing *packing, int p)
{
    const struct locus_weight *weight = packing->weight;
    unsigned char *panel =
        (unsigned char *)weight->panels + (size_t)p * locus_panel_bytes(weight->type, weight->cols);
    const unsigned char *rows[LOCUS_PANEL];
    const int first = p * LOCUS_PANEL, left = weight->rows - first;
    const int n_rows = left < LOCUS_PANEL ? left : LOCUS_PANEL;
    for (int r = 0; r < n_rows; r++)
        rows[r] = stored_row(packing, first + r);
    const size_t done = n_rows == LOCUS_PANEL ? pack_columns(weight, panel, rows) : 0;
    for (int lane = 0; lane < n_rows; lane++)
        pack_lane(weight, panel, lane, rows[lane], done);
}

/* Panels are taken in groups by whoever is free; the pages of a group's rows are dropped at once,
 * so that packed and stored rows are never both there as a whole. */
static void pack_groups(void *context, int thread, int n_threads)
{
    struct packing *packing = context;
    const struct locus_row_source *source = &packing->source;
    const struct locus_weight *weight = packing->weight;
    const size_t stored_bytes = stored_row_bytes(weight);
    const size_t panel_bytes = LOCUS_PANEL * stored_bytes;
    const int group = panel_bytes < GROUP_BYTES ? (int)(GROUP_BYTES / panel_bytes) : 1;
    const int n_panels = locus_weight_n_panels(weight), n_groups = (n_panels - 1) / group + 1;
    (void)thread, (void)n_threads;
    for (;;) {
        const int taken = __atomic_fetch_add(&packing->next_group, 1, __ATOMIC_RELAXED);
        if (taken >= n_groups) return;
        const int start = taken * group, rows = start * LOCUS_PANEL;
        const int stop = n_panels - start < group ? n_panels : start + group;
        const int rows_end = stop < n_panels ? stop * LOCUS_PANEL : weight->rows;
        for (int p = start; p < stop; p++)
            pack_panel(packing, p);
        if (source->drop && source->group >= weight->rows)
            source->drop(source->context, stored_row(packing, rows),
                         (size_t)(rows_end - rows) * stored_bytes);
    }
}

enum locus_status locus_weight_pack(struct locus_weight *weight, enum locus_tensor_type type,
                                    int rows, int cols, struct locus_row_source source,
                                    int n_threads, locus_error *error)
{
    *weight = (struct locus_weight){
        .type = type, .rows = rows, .cols = cols, .panels = source.room, .lent = source.room};
    if (!source.room) {
        weight->panels = locus_aligned_zalloc((size_t)locus_weight_n_panels(weight),
                                              locus_panel_bytes(type, cols));
        if (!weight->panels) return locus_fail_memory(error, locus_weight_bytes(weight));
        locus_aligned_huge(weight->panels, locus_weight_bytes(weight));
    }
    locus_threads_run(n_threads, pack_groups, &(struct packing){weight, source, 0});
    return LOCUS_OK;
}

void locus_weight_free(struct locus_weight *weight)
{
    if (!weight->lent) locus_aligned_free(weight->panels);
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
