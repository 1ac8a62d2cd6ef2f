/* AVX-512 with VNNI: products of quantised weights by vpdpbusd, which adds four products of
 * unsigned and signed bytes to a 32-bit sum, exactly. See chains.h.
 *
 * Many rows of activations meet a panel unpacked once for all of them: bytes as vpdpbusd takes
 * them, scales as floats. A tile then has nothing to do but its dots, and to fold them in.
 */
#if defined(__x86_64__)
#include "kernels/avx512.h"
#include "kernels/quants_avx512.h"

/* Q8_0's weights are made unsigned by adding 128. */
INLINE ivec quants_load(enum locus_tensor_type type, const void *block, int group, int lane)
{
    __m512i bytes = panel_bytes(type, block, group, lane);
    return type == LOCUS_Q8_0 ? _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) : bytes;
}

/* What a block's dots start from takes back the 128, or Q4_0's 8, too many. */
INLINE ivec quants_start(enum locus_tensor_type type, const struct locus_activation_block *in)
{
    return _mm512_set1_epi32(type == LOCUS_Q8_0 ? in->minus_128_sums : in->minus_8_sums);
}

INLINE ivec quants_dot(enum locus_tensor_type type, ivec dots, ivec w, const int8_t *q)
{
    (void)type;
    return _mm512_dpbusd_epi32(dots, w, four_activations(q));
}

#include "kernels/chains.h"

/* ---- unpacked panels ---------------------------------------------------------------------- */

enum {
    STRIP_BLOCKS = 128,           /* blocks of a panel that are unpacked at a time, on the stack */
    CARRIED_ROWS = 96,            /* rows whose chains are carried from strip to strip */
    UNPACK_ROWS = 2 * QUANT_ROWS, /* that pay for unpacking */
    /* Of activations that stay in the second-level cache while panels pass over them; where panels
     * stay and rows pass, share.h has another budget. */
    ROWS_BYTES = 1024 * 1024
};

/* 32 columns of 32 rows. */
struct unpacked {
    float scale[LOCUS_PANEL];
    uint8_t q[LOCUS_BLOCK / 4][LOCUS_PANEL][4];
};

/* The rows of a product that are being worked off, over one strip of one panel. */
struct strip {
    const struct locus_matmul *op;
    const struct unpacked *blocks; /* [n_blocks] */
    int panel, first_block, n_blocks;
    int row, row_end;
    const char *next; /* packed bytes of the strip after this one */
    size_t next_bytes;
    float (*carried)[LOCUS_PANEL]; /* [CARRIED_ROWS]: chains amid a panel of several strips */
};

INLINE void unpack(enum locus_tensor_type type, struct unpacked *out, const char *packed, int n)
{
    const size_t block_bytes = locus_panel_bytes(type, LOCUS_BLOCK);
    for (int b = 0; b < n; b++) {
        const char *block = packed + (size_t)b * block_bytes;
        for (int lane = 0; lane < LOCUS_PANEL; lane += VEC_LANES) {
            vec_store(out[b].scale + lane,
                      vec_of_halves((const uint16_t *)(const void *)block + lane));
            for (int g = 0; g < LOCUS_BLOCK / 4; g++)
                _mm512_storeu_si512(out[b].q[g][lane], quants_load(type, block, g, lane));
        }
    }
}

/* One block into the chains of n_rows rows. */
INLINE void fold_block(enum locus_tensor_type type, vec *chains, const struct unpacked *block,
                       const struct locus_activation_block *in, size_t stride, int n_rows)
{
    ivec dots[MAX_CHAINS];
    for (int t = 0; t < n_rows; t++)
        for (int v = 0; v < QUANT_VECS; v++)
            dots[t * QUANT_VECS + v] = quants_start(type, &in[(size_t)t * stride]);
    for (int g = 0; g < LOCUS_BLOCK / 4; g++)
        for (int v = 0; v < QUANT_VECS; v++) {
            ivec w = _mm512_loadu_si512(block->q[g][v * VEC_LANES]);
            for (int t = 0; t < n_rows; t++)
                dots[t * QUANT_VECS + v] =
                    quants_dot(type, dots[t * QUANT_VECS + v], w, in[(size_t)t * stride].q + 4 * g);
        }
    for (int v = 0; v < QUANT_VECS; v++) {
        vec scales = vec_load(block->scale + v * VEC_LANES);
        for (int t = 0; t < n_rows; t++)
            chains[t * QUANT_VECS + v] = vec_fma(
                vec_of_ints(dots[t * QUANT_VECS + v]),
                vec_mul(scales, vec_set(in[(size_t)t * stride].scale)), chains[t * QUANT_VECS + v]);
    }
}

INLINE void strip_tile(enum locus_tensor_type type, const struct strip *strip, int row, int n_rows)
{
    const struct locus_matmul *op = strip->op;
    const size_t stride = (size_t)op->weight->cols / LOCUS_BLOCK;
    const struct locus_activation_block *in =
        op->in.blocks + (size_t)row * stride + strip->first_block;
    const bool begins = strip->first_block == 0;
    const bool ends = strip->first_block + strip->n_blocks == (int)stride;
    float *carried = begins && ends ? NULL : strip->carried[row - strip->row];
    vec chains[MAX_CHAINS];
    for (int c = 0; c < n_rows * QUANT_VECS; c++)
        chains[c] = begins ? vec_set(0) : vec_load(carried + c * VEC_LANES);
    for (int b = 0; b < strip->n_blocks; b++)
        fold_block(type, chains, &strip->blocks[b], in + b, stride, n_rows);
    if (!ends)
        for (int c = 0; c < n_rows * QUANT_VECS; c++)
            vec_store(carried + c * VEC_LANES, chains[c]);
    else
        for (int t = 0; t < n_rows; t++)
            store_chains(op, row + t, strip->panel * LOCUS_PANEL, chains + t * QUANT_VECS,
                         QUANT_VECS);
}

/* What is unpacked next is asked for a part a tile. */
INLINE void strip_rows(enum locus_tensor_type type, const struct strip *strip)
{
    const int n_tiles = (strip->row_end - strip->row) / QUANT_ROWS;
    const size_t part = (strip->next_bytes / (size_t)(n_tiles + 1) + 64) / 64 * 64;
    const char *next = strip->next, *next_end = next + strip->next_bytes;
    int row = strip->row;
    for (; row + QUANT_ROWS <= strip->row_end; row += QUANT_ROWS) {
        const char *stop = next + part < next_end ? next + part : next_end;
        for (; next < stop; next += 64)
            __builtin_prefetch(next, 0, 2);
        strip_tile(type, strip, row, QUANT_ROWS);
    }
    const int left = strip->row_end - row;
    if (left & 4) strip_tile(type, strip, row, 4), row += 4;
    if (left & 2) strip_tile(type, strip, row, 2), row += 2;
    if (left & 1) strip_tile(type, strip, row, 1);
}

/* Rows a pass over the panels: as many as stay in the cache, in passes alike. */
INLINE int pass_rows(int n_rows, int n_blocks)
{
    int most = ROWS_BYTES / (n_blocks * (int)sizeof(struct locus_activation_block));
    if (n_blocks > STRIP_BLOCKS || most < CARRIED_ROWS) most = CARRIED_ROWS;
    const int n_passes = (n_rows - 1) / most + 1, rows = (n_rows - 1) / n_passes + 1;
    return n_passes == 1 ? rows : (rows + QUANT_ROWS - 1) / QUANT_ROWS * QUANT_ROWS;
}

INLINE void matmul_unpacked(enum locus_tensor_type type, const struct locus_matmul *op,
                            struct locus_share share)
{
    struct unpacked blocks[STRIP_BLOCKS];
    float carried[CARRIED_ROWS][LOCUS_PANEL];
    const size_t block_bytes = locus_panel_bytes(type, LOCUS_BLOCK);
    const int n_blocks = op->weight->cols / LOCUS_BLOCK;
    const int rows = pass_rows(share.row_end - share.row, n_blocks);
    struct strip strip = {.op = op, .blocks = blocks, .carried = carried};
    for (strip.row = share.row; strip.row < share.row_end; strip.row = strip.row_end) {
        strip.row_end = strip.row + rows < share.row_end ? strip.row + rows : share.row_end;
        for (strip.panel = share.first; strip.panel < share.end; strip.panel++)
            for (int first = 0; first < n_blocks; first += STRIP_BLOCKS) {
                const int left = n_blocks - first;
                const char *packed =
                    (const char *)op->weight->panels +
                    ((size_t)strip.panel * (size_t)n_blocks + (size_t)first) * block_bytes;
                strip.first_block = first;
                strip.n_blocks = left < STRIP_BLOCKS ? left : STRIP_BLOCKS;
                strip.next = packed + (size_t)strip.n_blocks * block_bytes;
                strip.next_bytes =
                    (size_t)(n_blocks < STRIP_BLOCKS ? n_blocks : STRIP_BLOCKS) * block_bytes;
                unpack(type, blocks, packed, strip.n_blocks);
                strip_rows(type, &strip);
            }
    }
}

INLINE void matmul_quants(enum locus_tensor_type type, const struct locus_matmul *op,
                          struct locus_share share)
{
    if (share.row_end - share.row < UNPACK_ROWS)
        matmul_panels(type, op, share);
    else
        matmul_unpacked(type, op, share);
}

void locus_avx512_vnni_matmul(const struct locus_matmul *op, struct locus_share share)
{
    if (op->weight->type == LOCUS_Q8_0)
        matmul_quants(LOCUS_Q8_0, op, share);
    else
        matmul_quants(LOCUS_Q4_0, op, share);
}
#endif
