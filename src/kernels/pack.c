/* Packing: stored rows into panels in which a lane is an output row. See kernels.h. */
#include "base/buffer.h"
#include "base/threads.h"
#include "kernels/share.h"
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

/* ---- floats ------------------------------------------------------------------------------- */

/* Columns from `first` on of one row. */
static void pack_lane(const struct locus_weight_type *type, void *panel, int lane, const void *row,
                      size_t first, size_t cols)
{
    const struct locus_traits form = locus_forms[type->form];
    const size_t columns = (size_t)form.columns;
    const double *doubles = row;
    const float *floats = row;
    const uint16_t *halves = row;
    for (size_t c = first; c < cols; c++) {
        const size_t at = (c / columns * LOCUS_PANEL + (size_t)lane) * columns + c % columns;
        if (form.bits == 32)
            ((float *)panel)[at] = type->doubles ? (float)doubles[c] : floats[c];
        else
            ((uint16_t *)panel)[at] = halves[c];
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

/* n_rows of a panel; whole panels but for their last columns by squares, the rest a lane at a time.
 */
static void pack_floats(const struct locus_weight_type *type, void *panel,
                        const unsigned char *const rows[LOCUS_PANEL], int n_rows, size_t cols)
{
    const struct locus_traits form = locus_forms[type->form];
    const bool whole = n_rows == LOCUS_PANEL && !type->doubles;
    size_t done = 0;
    if (whole && form.bits * form.columns == 32)
        done = pack_dwords(panel, rows, cols / (size_t)form.columns) * (size_t)form.columns;
    else if (whole)
        done = pack_words(panel, rows, cols);
    for (int lane = 0; lane < n_rows; lane++)
        pack_lane(type, panel, lane, rows[lane], done, cols);
}

/* ---- blocks ------------------------------------------------------------------------------- */

/* The scales of a block's rows, or its mins: as floats, halves, or steps with what they count in.
 */
static void put_scales(struct locus_traits form, char *scales, char *steps,
                       const struct locus_levels *levels, int n_rows, bool mins)
{
    uint16_t *halves = (uint16_t *)(void *)(form.scale_bytes == 1 ? steps : scales);
    for (int r = 0; r < n_rows && form.scale_bytes == 4; r++)
        ((float *)(void *)scales)[r] = levels[r].scale;
    for (int r = 0; r < n_rows && form.scale_bytes < 4; r++)
        halves[r] = mins ? levels[r].min_half : levels[r].half;
    for (int s = 0; s < form.n_scales && form.scale_bytes == 1; s++)
        for (int r = 0; r < n_rows; r++)
            scales[s * LOCUS_PANEL + r] = mins ? levels[r].min_steps[s] : levels[r].steps[s];
}

/* The bits of one row's 32 levels past the fourth, four columns at a time. The form's bits are a
 * constant, so that words stay in registers. */
INLINE void pack_high_bits(struct locus_traits form, uint8_t out[LOCUS_QUANT_BLOCK / 2],
                           const uint8_t stored[LOCUS_QUANT_BLOCK])
{
    uint32_t words[2] = {0}, four;
    for (int g = 0; g < LOCUS_QUANT_BLOCK / 4; g++) {
        const struct locus_high_bits high = locus_high_bits(form, g);
        memcpy(&four, stored + 4 * g, sizeof four);
        words[high.word - 4] |= (four & (uint32_t)high.mask * 0x01010101u) >> 4 << high.at;
    }
    memcpy(out, words, sizeof words);
}

/* One row's 32 levels, less than 8 bits each, as the words that the form has of them. */
static void pack_bits(struct locus_traits form, uint8_t out[LOCUS_QUANT_BLOCK],
                      const int8_t q[LOCUS_QUANT_BLOCK])
{
    enum { HALF = LOCUS_QUANT_BLOCK / 2 };
    uint8_t stored[LOCUS_QUANT_BLOCK];
    for (int c = 0; c < LOCUS_QUANT_BLOCK; c++)
        stored[c] = (uint8_t)(q[c] + form.offset);
    for (int i = 0; i < HALF; i++)
        out[i] = (uint8_t)((stored[i] & 15) | stored[i + HALF] << 4);
    if (form.bits == 5) pack_high_bits((struct locus_traits){.bits = 5}, out + HALF, stored);
    if (form.bits == 6) pack_high_bits((struct locus_traits){.bits = 6}, out + HALF, stored);
}

/* What was read of 32 columns of n_rows rows; `levels` past them are zeros. */
static void pack_block(struct locus_traits form, char *head, char *block,
                       const struct locus_levels levels[LOCUS_PANEL], int n_rows)
{
    uint8_t words[LOCUS_PANEL][LOCUS_QUANT_BLOCK];
    const unsigned char *at[LOCUS_PANEL];
    put_scales(form, block, head, levels, n_rows, false);
    if (form.mins)
        put_scales(form, block + locus_block_mins(form), head + LOCUS_PANEL * sizeof(uint16_t),
                   levels, n_rows, true);
    for (int r = 0; r < LOCUS_PANEL; r++) {
        at[r] = form.bits == 8 ? (const unsigned char *)levels[r].q : words[r];
        if (form.bits < 8) pack_bits(form, words[r], levels[r].q);
    }
    uint32_t *out = (uint32_t *)(void *)(block + locus_block_levels(form));
    const size_t n = (size_t)form.bits, by_squares = n / 4 * 4;
    locus_transpose_dwords(out, at, LOCUS_PANEL, by_squares);
    for (size_t w = by_squares; w < n; w++)
        for (size_t r = 0; r < LOCUS_PANEL; r++)
            memcpy(&out[w * LOCUS_PANEL + r], at[r] + 4 * w, sizeof *out);
}

/* Whole panels of a type whose blocks are a half and levels as they are packed. */
static void pack_as_stored(struct locus_traits form, size_t stored_bytes, char *block,
                           const unsigned char *const rows[LOCUS_PANEL], size_t n_blocks)
{
    const unsigned char *at[LOCUS_PANEL];
    for (size_t b = 0; b < n_blocks; b++, block += locus_block_bytes(form)) {
        uint16_t *halves = (uint16_t *)(void *)block;
        for (int r = 0; r < LOCUS_PANEL; r++) {
            at[r] = rows[r] + b * stored_bytes + sizeof *halves;
            memcpy(&halves[r], rows[r] + b * stored_bytes, sizeof *halves);
        }
        locus_transpose_dwords((uint32_t *)(void *)(block + locus_block_levels(form)), at,
                               LOCUS_PANEL, (size_t)form.bits);
    }
}

static void pack_blocks(const struct locus_weight *weight, char *panel,
                        const unsigned char *const rows[LOCUS_PANEL], int n_rows)
{
    const struct locus_weight_type *type = locus_weight_type(weight->type);
    const struct locus_traits form = locus_forms[type->form];
    const size_t n_blocks = (size_t)weight->cols / LOCUS_QUANT_BLOCK;
    if (type->as_packed && n_rows == LOCUS_PANEL) {
        pack_as_stored(form, locus_tensor_row_bytes(weight->type, LOCUS_QUANT_BLOCK), panel, rows,
                       n_blocks);
        return;
    }
    struct locus_levels levels[LOCUS_PANEL] = {0};
    for (size_t b = 0; b < n_blocks; b++) {
        for (int r = 0; r < n_rows; r++)
            type->read(&levels[r], rows[r], b);
        pack_block(form, panel + locus_head_at(form, b), panel + locus_block_at(form, b), levels,
                   n_rows);
    }
}

/* ---- panels ------------------------------------------------------------------------------- */

static size_t panel_bytes_of(const struct locus_weight *weight)
{
    return locus_panel_bytes(locus_traits_of(weight->type), weight->cols);
}

static const unsigned char *stored_row(const struct packing *packing, int row)
{
    const size_t stored = (size_t)packing->source.first + (size_t)row;
    return packing->source.data + stored * stored_row_bytes(packing->weight);
}

static void pack_panel(const struct packing *packing, int p)
{
    const struct locus_weight *weight = packing->weight;
    const struct locus_weight_type *type = locus_weight_type(weight->type);
    char *panel = (char *)weight->panels + (size_t)p * panel_bytes_of(weight);
    const unsigned char *rows[LOCUS_PANEL];
    const int first = p * LOCUS_PANEL, left = weight->rows - first;
    const int n_rows = left < LOCUS_PANEL ? left : LOCUS_PANEL;
    for (int r = 0; r < n_rows; r++)
        rows[r] = stored_row(packing, first + r);
    if (type->read)
        pack_blocks(weight, panel, rows, n_rows);
    else
        pack_floats(type, panel, rows, n_rows, (size_t)weight->cols);
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
        if (source->drop)
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
        weight->panels =
            locus_aligned_zalloc((size_t)locus_weight_n_panels(weight), panel_bytes_of(weight));
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
    return (size_t)locus_weight_n_panels(weight) * panel_bytes_of(weight);
}

/* A lane's scales, or mins: the reverse of put_scales. */
static void get_scales(struct locus_traits form, const char *scales, const char *steps, int lane,
                       float *scale, uint16_t *half, int8_t counts[2])
{
    if (form.scale_bytes == 4) *scale = ((const float *)(const void *)scales)[lane];
    if (form.scale_bytes == 2) *half = ((const uint16_t *)(const void *)scales)[lane];
    if (form.scale_bytes > 1) return;
    *half = ((const uint16_t *)(const void *)steps)[lane];
    for (int s = 0; s < 2; s++)
        counts[s] = ((const int8_t *)scales)[(form.n_scales == 2 ? s * LOCUS_PANEL : 0) + lane];
}

/* One row's 32 columns of a block, as they were read. */
static void unpack_levels(struct locus_levels *levels, struct locus_traits form, const char *head,
                          const char *block, int lane)
{
    const char *mins = block + locus_block_mins(form);
    const char *min_steps = head + LOCUS_PANEL * sizeof(uint16_t);
    const uint8_t *stored = (const uint8_t *)(block + locus_block_levels(form));
    float none;
    get_scales(form, block, head, lane, &levels->scale, &levels->half, levels->steps);
    if (form.mins)
        get_scales(form, mins, min_steps, lane, &none, &levels->min_half, levels->min_steps);
    for (int c = 0; c < LOCUS_QUANT_BLOCK; c++)
        levels->q[c] = (int8_t)(locus_stored_level(form, stored, lane, c) - form.offset);
}

/* Column c of a lane of floats. */
static float unpack_float(enum locus_form form, const void *panel, int lane, size_t c)
{
    const size_t columns = (size_t)locus_forms[form].columns;
    const size_t at = (c / columns * LOCUS_PANEL + (size_t)lane) * columns + c % columns;
    const uint16_t *halves = panel;
    if (form == LOCUS_FORM_F32) return ((const float *)panel)[at];
    return form == LOCUS_FORM_F16 ? locus_f16_to_float(halves[at])
                                  : locus_bf16_to_float(halves[at]);
}

void locus_weight_row(const struct locus_weight *weight, int row, float *out)
{
    const struct locus_weight_type *type = locus_weight_type(weight->type);
    const struct locus_traits form = locus_forms[type->form];
    const int lane = row % LOCUS_PANEL;
    const char *panel =
        (const char *)weight->panels + (size_t)(row / LOCUS_PANEL) * panel_bytes_of(weight);
    struct locus_levels levels;
    if (!type->read)
        for (size_t c = 0; c < (size_t)weight->cols; c++)
            out[c] = unpack_float(type->form, panel, lane, c);
    else
        for (size_t b = 0; b < (size_t)weight->cols / LOCUS_QUANT_BLOCK; b++) {
            unpack_levels(&levels, form, panel + locus_head_at(form, b),
                          panel + locus_block_at(form, b), lane);
            locus_levels_to_floats(out + b * LOCUS_QUANT_BLOCK, &levels, form);
        }
}
