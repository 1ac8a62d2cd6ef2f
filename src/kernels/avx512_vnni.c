/* AVX-512 with VNNI: products of quantised weights by vpdpbusd, which adds four products of
 * unsigned and signed bytes to a 32-bit sum, exactly. See accumulate.h.
 *
 * Many rows of activations meet a panel unpacked once for all of them: bytes as vpdpbusd takes
 * them, scales as floats. A tile then has nothing to do but its dots, and to fold them in.
 */
#if defined(__x86_64__)
#include "kernels/levels_avx512.h"

/* Levels with a sign are made unsigned by adding 128. */
INLINE ivec levels_load(struct locus_traits form, const char *levels, int group, int lane)
{
    ivec bytes = level_bytes(form, levels, group, lane);
    return form.negative ? _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) : bytes;
}

/* What the dots of a block's scale number s start from: what takes 128, or the form's offset, back.
 */
INLINE ivec dots_start(struct locus_traits form, const struct locus_activation_block *in, int s)
{
    const int offset = form.negative ? 128 : form.offset;
    return _mm512_set1_epi32(locus_minus_offset_part(in, offset, form.n_scales, s));
}

INLINE ivec dots_add(struct locus_traits form, ivec dots, ivec w, const int8_t *q)
{
    (void)form;
    return _mm512_dpbusd_epi32(dots, w, four_activations(q));
}

#include "kernels/products.h"

/* ---- unpacked panels ---------------------------------------------------------------------- */

enum {
    STRIP_BLOCKS = 128,           /* blocks of a panel that are unpacked at a time, on the stack */
    CARRIED_ROWS = 96,            /* rows whose accumulators are carried from strip to strip */
    UNPACK_ROWS = 2 * QUANT_ROWS, /* that pay for unpacking */
    /* Of activations that stay in the second-level cache while panels pass over them; where panels
     * stay and rows pass, share.h has another budget. */
    ROWS_BYTES = 1024 * 1024
};

/* The form of an unpacked panel. */
INLINE struct locus_traits unpacked(struct locus_traits form)
{
    if (form.negative) form.offset = 128;
    form.negative = false;
    form.bits = 8;
    form.scale_bytes = sizeof(float);
    form.super = 0;
    form.table = NULL;
    return form;
}

enum {
    BLOCK_BYTES = LOCUS_PANEL * (LOCUS_QUANT_BLOCK + 4 * sizeof(float))
}; /* unpacked, at most */

/* The rows of a product that are being worked off, over one strip of one panel. */
struct strip {
    const struct locus_matmul *op;
    char *blocks; /* [n_blocks], unpacked */
    int panel, first_block, n_blocks;
    int row, row_end;
    const char *next; /* packed bytes of the strip after this one */
    size_t next_bytes;
    float (*carried)[LOCUS_PANEL]; /* [CARRIED_ROWS]: accumulators amid a panel of several strips */
};

/* n blocks of a panel, from the one that `packed` is the head of, if there are heads, on. */
INLINE void unpack(struct locus_traits form, char *out, const char *packed, int n)
{
    const struct locus_traits to = unpacked(form);
    for (int b = 0; b < n; b++) {
        const char *head = packed + locus_head_at(form, (size_t)b);
        const char *block = packed + locus_block_at(form, (size_t)b);
        float *floats = (float *)(void *)(out + locus_block_at(to, (size_t)b));
        char *levels = out + locus_block_at(to, (size_t)b) + locus_block_levels(to);
        for (int v = 0; v < PANEL_VECS; v++) {
            for (int s = 0; s < form.n_scales; s++)
                vec_store(floats + s * LOCUS_PANEL + v * VEC_LANES,
                          block_scales(form, head, block, s, v));
            for (int s = 0; form.mins && s < form.n_scales; s++)
                vec_store(floats + (form.n_scales + s) * LOCUS_PANEL + v * VEC_LANES,
                          block_mins(form, head, block, s, v));
            for (int g = 0; g < LOCUS_QUANT_BLOCK / 4; g++)
                _mm512_storeu_si512(
                    levels + (g * LOCUS_PANEL + v * VEC_LANES) * 4,
                    levels_load(form, block + locus_block_levels(form), g, v * VEC_LANES));
        }
    }
}

INLINE void strip_tile(struct locus_traits form, const struct strip *strip, int row, int n_rows)
{
    const struct locus_traits from = unpacked(form);
    const struct locus_matmul *op = strip->op;
    const size_t stride = (size_t)op->weight->cols / LOCUS_QUANT_BLOCK;
    const struct locus_activation_block *in =
        op->in.blocks + (size_t)row * stride + strip->first_block;
    const bool begins = strip->first_block == 0;
    const bool ends = strip->first_block + strip->n_blocks == (int)stride;
    float *carried = begins && ends ? NULL : strip->carried[row - strip->row];
    vec acc[MAX_ACC];
    for (int c = 0; c < n_rows * QUANT_VECS; c++)
        acc[c] = begins ? vec_set(0) : vec_load(carried + c * VEC_LANES);
    for (int b = 0; b < strip->n_blocks; b++) {
        const char *block = strip->blocks + locus_block_at(from, (size_t)b);
        accumulate_block(from, acc, block, block, in + b, stride, n_rows, 0,
                         QUANT_VECS); /* no head */
    }
    if (!ends)
        for (int c = 0; c < n_rows * QUANT_VECS; c++)
            vec_store(carried + c * VEC_LANES, acc[c]);
    else
        for (int t = 0; t < n_rows; t++)
            store_acc(op, row + t, strip->panel * LOCUS_PANEL, acc + t * QUANT_VECS, QUANT_VECS);
}

/* What is unpacked next is asked for a part a tile. */
INLINE void strip_rows(struct locus_traits form, const struct strip *strip)
{
    const int n_tiles = (strip->row_end - strip->row) / QUANT_ROWS;
    const size_t part = (strip->next_bytes / (size_t)(n_tiles + 1) + 64) / 64 * 64;
    const char *next = strip->next, *next_end = next + strip->next_bytes;
    int row = strip->row;
    for (; row + QUANT_ROWS <= strip->row_end; row += QUANT_ROWS) {
        const char *stop = next + part < next_end ? next + part : next_end;
        for (; next < stop; next += 64)
            __builtin_prefetch(next, 0, 2);
        strip_tile(form, strip, row, QUANT_ROWS);
    }
    const int left = strip->row_end - row;
    if (left & 4) strip_tile(form, strip, row, 4), row += 4;
    if (left & 2) strip_tile(form, strip, row, 2), row += 2;
    if (left & 1) strip_tile(form, strip, row, 1);
}

/* Rows a pass over the panels: as many as stay in the cache, in passes alike. */
INLINE int pass_rows(int n_rows, int n_blocks)
{
    int most = ROWS_BYTES / (n_blocks * (int)sizeof(struct locus_activation_block));
    if (n_blocks > STRIP_BLOCKS || most < CARRIED_ROWS) most = CARRIED_ROWS;
    const int n_passes = (n_rows - 1) / most + 1, rows = (n_rows - 1) / n_passes + 1;
    return n_passes == 1 ? rows : (rows + QUANT_ROWS - 1) / QUANT_ROWS * QUANT_ROWS;
}

INLINE void matmul_unpacked(struct locus_traits form, const struct locus_matmul *op,
                            struct locus_share share)
{
    _Alignas(64) char blocks[STRIP_BLOCKS * BLOCK_BYTES];
    float carried[CARRIED_ROWS][LOCUS_PANEL];
    const size_t panel_bytes = locus_panel_bytes(form, op->weight->cols);
    const int n_blocks = op->weight->cols / LOCUS_QUANT_BLOCK;
    const int rows = pass_rows(share.row_end - share.row, n_blocks);
    struct strip strip = {.op = op, .blocks = blocks, .carried = carried};
    for (strip.row = share.row; strip.row < share.row_end; strip.row = strip.row_end) {
        strip.row_end = strip.row + rows < share.row_end ? strip.row + rows : share.row_end;
        for (strip.panel = share.first; strip.panel < share.end; strip.panel++)
            for (int first = 0; first < n_blocks; first += STRIP_BLOCKS) {
                const int left = n_blocks - first;
                const char *packed = (const char *)op->weight->panels +
                                     (size_t)strip.panel * panel_bytes +
                                     locus_head_at(form, (size_t)first);
                strip.first_block = first;
                strip.n_blocks = left < STRIP_BLOCKS ? left : STRIP_BLOCKS;
                strip.next = packed + locus_head_at(form, (size_t)strip.n_blocks);
                strip.next_bytes = locus_head_at(
                    form, (size_t)(n_blocks < STRIP_BLOCKS ? n_blocks : STRIP_BLOCKS));
                unpack(form, blocks, packed, strip.n_blocks);
                strip_rows(form, &strip);
            }
    }
}

INLINE void matmul_blocks(struct locus_traits form, const struct locus_matmul *op,
                          struct locus_share share)
{
    if (share.row_end - share.row < UNPACK_ROWS)
        matmul_panels(form, op, share);
    else
        matmul_unpacked(form, op, share);
}

void locus_kernels_avx512_vnni(struct locus_kernels *kernels)
{
    set_block_products(kernels);
}
#endif
