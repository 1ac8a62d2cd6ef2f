/* Kernels: the arithmetic of the forward pass, behind one table of functions.
 *
 * One rule makes them fast and exact: a SIMD lane is an output, and every output is one sequential
 * chain of fused multiply-adds. So plain C, AVX2, AVX-512 and NEON give the same bits; AVX512-BF16
 * alone has its own, for BF16 weights. Weights lie in panels of output rows for it (form.h,
 * pack.c), and cached keys in panels of positions.
 *
 * The table is filled with plain C, then overwritten upwards by what the CPU has (dispatch.c). A
 * level of it is one file that includes the others, each of which builds on those before it:
 *
 *     share.h       a thread's share of a product
 *     simd_*.h      the vectors of a CPU level, the sizes of its tiles, and (or in levels_avx512.h
 *                   and the level's file) integer dots: levels_load, dots_start, dots_add
 *     tiles.h       products as tiles over panels; declares accumulate, what a tile takes in
 *     accumulate.h  defines it: columns of floats, blocks of levels
 *     lanes.h       norms, activations and sums in plain C, a lane an output
 *     scan.h        convolutions over time and running states, a lane a channel
 *     attention.h   scores, softmax and mixing
 *
 * avx512_vnni.c, avx512_bf16.c and neon_dot.c overwrite single products of the level below.
 */
#ifndef LOCUS_KERNELS_H
#define LOCUS_KERNELS_H

#include <stdbool.h>

#include "base/error.h"
#include "kernels/weight_type.h"

/* ---- weights ------------------------------------------------------------------------------ */

/* The KV cache's two sizes. Cached keys lie in panels [head_dim][16]; a block is whole panels. */
enum {
    LOCUS_KEY_PANEL = 16, /* keys a panel */
    LOCUS_KV_BLOCK = 64   /* slots a block, which the softmax takes in at once */
};

/* A packed matrix [rows, cols]; the last panel is filled up with zero rows. */
struct locus_weight {
    enum locus_tensor_type type;
    int rows, cols;
    void *panels;
    bool lent; /* the panels are someone else's to free */
};

/* Stored rows, one after another, that form a weight. */
struct locus_row_source {
    const unsigned char *data; /* the stored matrix */
    int first;                 /* its row that is the weight's row 0 */
    /* OPTIONAL: rows that have been packed won't be read again; called by any thread. */
    void (*drop)(const void *context, const unsigned char *rows, size_t n_bytes);
    const void *context;
    /* OPTIONAL: zeroed memory, aligned to 64 bytes, that the panels are to lie in; it stays the
     * caller's. */
    void *room;
};

static inline int locus_weight_n_panels(const struct locus_weight *weight)
{
    return (weight->rows - 1) / LOCUS_PANEL + 1;
}

/* Packs rows x cols values of that type (cols a multiple of its block). */
enum locus_status locus_weight_pack(struct locus_weight *weight, enum locus_tensor_type type,
                                    int rows, int cols, struct locus_row_source source,
                                    int n_threads, locus_error *error);
void locus_weight_free(struct locus_weight *weight);
size_t locus_weight_bytes(const struct locus_weight *weight);

/* Row `row` of the weight as floats out[cols] (a token's embedding). */
void locus_weight_row(const struct locus_weight *weight, int row, float *out);

/* ---- operations --------------------------------------------------------------------------- */

/* 32 activations quantised by locus_quantize_block.
 *
 * Weights are stored, or loaded, with an offset of up to 128 added to them, so that they are not
 * negative. The product with q is then too large by the offset times the sum of q. These sums take
 * it back. */
struct locus_activation_block {
    float scale;
    int32_t minus_8_sum, minus_128_sum; /* -8 and -128 times the sum of q */
    int32_t minus_128_first;            /* -128 times the sum of the first 16 */
    int8_t q[LOCUS_QUANT_BLOCK];
};

/* The sum of part number s of n_parts, 1 or 2, of a block, times -128. */
static inline int32_t locus_minus_128_part(const struct locus_activation_block *block, int n_parts,
                                           int s)
{
    if (n_parts == 1) return block->minus_128_sum;
    return s == 0 ? block->minus_128_first : block->minus_128_sum - block->minus_128_first;
}

/* The same, times -offset (a power of 2 up to 128, or 0). */
static inline int32_t locus_minus_offset_part(const struct locus_activation_block *block,
                                              int offset, int n_parts, int s)
{
    if (offset == 0) return 0;
    if (offset == 8 && n_parts == 1) return block->minus_8_sum;
    return locus_minus_128_part(block, n_parts, s) / (128 / offset); /* exact */
}

/* Rows of activations. Quantised weights multiply `blocks`; BF16 ones `bf16` in a set that has
 * to_bf16; the others `x`. */
struct locus_activations {
    const float *x;                              /* [n, cols] */
    const struct locus_activation_block *blocks; /* [n, cols / 32] */
    const uint16_t *bf16;                        /* [n, locus_bf16_cols(cols)] */
};

/* A row of bf16 is filled up with a 0 to whole pairs. */
static inline size_t locus_bf16_cols(int cols)
{
    return ((size_t)cols + 1) / 2 * 2;
}

/* out[n, rows] = activations[n, cols] . weight[rows, cols]^T + bias[rows], or that added to out. */
struct locus_matmul {
    float *out;
    struct locus_activations in;
    const struct locus_weight *weight;
    const float *bias; /* or NULL */
    int n;
    bool add;
};

enum locus_norm_kind { LOCUS_LAYERNORM, LOCUS_RMSNORM };

/* out[n] = the norm of x[n]; may be in place. */
struct locus_norm {
    enum locus_norm_kind kind;
    float epsilon;
    const float *weight; /* [n] */
    const float *bias;   /* [n] or NULL */
};

enum locus_activation {
    LOCUS_GELU_TANH,
    LOCUS_GELU_ERF,
    LOCUS_RELU,
    LOCUS_SILU,
    LOCUS_RELU_SQUARED,
    LOCUS_CLIPPED_SWISH /* gpt-oss; what it is multiplied by is clipped, too, and 1 added */
};

enum locus_cache_format { LOCUS_FORMAT_F32, LOCUS_FORMAT_F16, LOCUS_FORMAT_Q8_0 };

/* One query's softmax, as it takes in one block of keys after another: a running maximum, and 16
 * partial sums relative to it. A key belongs to the sum of its slot mod 16. */
struct locus_softmax {
    float max; /* -INFINITY before the first block */
    float sums[LOCUS_KEY_PANEL];
};

/* out[i * stride + j] = (q[i] . key j) * scale for n_rows queries and the keys of n_panels panels.
 */
struct locus_scores {
    enum locus_cache_format format;
    float *out;
    size_t stride;
    const float *q;   /* [n_rows, head_dim] */
    const void *keys; /* panels, as cache.h lays them */
    int n_rows, head_dim, n_panels;
    float scale;
};

/* One block of keys for the softmax of n_rows queries. Row i sees the keys j in [first[i], end[i]),
 * which may be empty: scores[i * stride + j] goes into its softmax, and the key's value into its
 * mix. Scores are overwritten; a row of them has room for LOCUS_KV_BLOCK. */
struct locus_mixing {
    enum locus_cache_format format;
    struct locus_softmax *softmax; /* [n_rows] */
    float *mix;                    /* [n_rows, head_dim] */
    float *scores;
    size_t stride;
    const int *first, *end; /* [n_rows], 0 to LOCUS_KV_BLOCK */
    const void *values;     /* rows, as cache.h lays them: row j belongs to score j */
    int n_rows, head_dim;
};

/* Channels that a mixer with a running state keeps side by side, a lane each: a panel. What is said
 * of a panel is [n][LOCUS_CHANNELS]; the last panel's first `width` channels are there. */
enum { LOCUS_CHANNELS = 16 };

/* A depthwise causal convolution over time, for one panel: out[i] = silu(bias + the sum over k of
 * taps[k] x[i - n_taps + 1 + k]), taps in that order; `bare`: without SiLU. */
struct locus_convolution {
    float *out;        /* [n, stride] */
    const float *x;    /* [n_taps - 1 + n, stride]: those before the first come first */
    const float *taps; /* [n_taps][LOCUS_CHANNELS] */
    const float *bias; /* [LOCUS_CHANNELS] */
    size_t stride;
    int n, n_taps, width;
    bool bare;
};

/* A convolution over all tokens so far, for one panel: out[i] = gate[i] (the sum over k of h[k]
 * p[first + i - k], k from 0 to first + i in that order, + skip p[first + i]). */
struct locus_long_convolution {
    float *out;         /* [n, out_stride] */
    const float *gate;  /* [n, gate_stride] */
    const float *h, *p; /* [first + n][LOCUS_CHANNELS] */
    const float *skip;  /* [LOCUS_CHANNELS] */
    size_t out_stride, gate_stride;
    int first, n, width;
};

/* The selective scan of Mamba (Gu and Dao 2023, algorithm 2), for one panel: a row after another,
 *
 *     h[s] = e^(step a[s]) h[s] + step u b[s], step = softplus(dt)
 *     out  = (the sum over s of c[s] h[s], in order, + skip u) silu(z)
 */
struct locus_scan {
    float *out;              /* [n, stride]; may be dt */
    const float *dt, *u, *z; /* [n, stride] */
    const float *b, *c;      /* [n, n_state] */
    const float *a;          /* [n_state][LOCUS_CHANNELS] */
    const float *skip;       /* [LOCUS_CHANNELS] */
    float *h;                /* [n_state][LOCUS_CHANNELS] */
    size_t stride;
    int n, n_state, width;
};

/* A state whose numbers all decay alike, of one head, for one panel of its values: Mamba 2's (Dao
 * and Gu 2024, arXiv 2405.21060), and retention's. A row after another,
 *
 *     h[s] = decay h[s] + b[s] step u
 *     out  = the sum over s of c[s] h[s], in order, + skip u
 */
struct locus_recurrence {
    float *out;                /* [n, stride]; may be u */
    const float *u;            /* [n, stride] */
    const float *b, *c;        /* [n, state_stride]: n_state of each row */
    const float *decay, *step; /* [n, step_stride]: one of each row; step_stride 0: of all */
    float skip;
    float *h; /* [n_state][LOCUS_CHANNELS] */
    size_t stride, state_stride, step_stride;
    int n, n_state, width;
};

/* Panels [first, end) for the activations' rows [row, row_end): a thread's share of a product. */
struct locus_share {
    int first, end, row, row_end;
};

struct locus_kernels {
    const char *name; /* what runs: "avx512+vnni" */
    /* Products, by the form of the weights. */
    void (*matmul[LOCUS_N_FORMS])(const struct locus_matmul *op, struct locus_share share);
    /* x[n_cols], a multiple of 32, as blocks. */
    void (*quantize)(struct locus_activation_block *blocks, const float *x, int n_cols);
    /* x[n_cols] rounded by locus_float_to_bf16, filled up to whole pairs. NULL: BF16 weights
     * multiply activations as they are, with plain C's bits. */
    void (*to_bf16)(uint16_t *bf16, const float *x, int n_cols);
    /* x[n] as f16, and back. */
    void (*to_f16)(uint16_t *out, const float *x, int n);
    void (*from_f16)(float *out, const uint16_t *x, int n);
    void (*norm)(const struct locus_norm *norm, float *out, const float *x, int n);
    /* out[n] = activation(gate[n]), times up[n] unless up is NULL; out may be gate, not up. */
    void (*activate)(enum locus_activation kind, float *out, const float *gate, const float *up,
                     int n);
    /* x[n] times scale, then, where cap > 0, cap tanh(x / cap). */
    void (*scale_and_cap)(float *x, int n, float scale, float cap);
    void (*scores)(const struct locus_scores *op);
    void (*mix)(const struct locus_mixing *op);
    /* The sum of e^(x[i] - max) over x[n], n >= 1, with max its largest. */
    float (*sum_exp)(const float *x, int n, float *max);
    /* mix[head_dim] divided by the sum. */
    void (*finish)(const struct locus_softmax *softmax, float *out, const float *mix, int head_dim);
    void (*convolve)(const struct locus_convolution *op);
    void (*convolve_long)(const struct locus_long_convolution *op);
    void (*scan)(const struct locus_scan *op);
    void (*recur)(const struct locus_recurrence *op);
    /* Of n heads: step = softplus(dt + bias), decay = e^(step a); step may be dt. */
    void (*steps)(float *step, float *decay, const float *dt, const float *bias, const float *a,
                  int n);
};

/* Values of a quantised cached row share a scale in blocks of 32; the last may be shorter. */
static inline int locus_cache_blocks(int head_dim)
{
    return (head_dim - 1) / LOCUS_QUANT_BLOCK + 1;
}

static inline size_t locus_key_panel_bytes(enum locus_cache_format format, int head_dim)
{
    size_t n = (size_t)head_dim * LOCUS_KEY_PANEL;
    if (format == LOCUS_FORMAT_F32) return n * 4;
    if (format == LOCUS_FORMAT_F16) return n * 2;
    return n + (size_t)locus_cache_blocks(head_dim) * LOCUS_KEY_PANEL * sizeof(float);
}

/* A multiple of 4, so that a row's scales are aligned. */
static inline size_t locus_value_row_bytes(enum locus_cache_format format, int head_dim)
{
    size_t n = (size_t)head_dim;
    if (format == LOCUS_FORMAT_F32) return n * 4;
    if (format == LOCUS_FORMAT_F16) return (n * 2 + 3) / 4 * 4;
    return (size_t)locus_cache_blocks(head_dim) * sizeof(float) + (n + 3) / 4 * 4;
}

/* ---- kernel sets -------------------------------------------------------------------------- */

/* Fills the table with the set of that name, or the best this CPU has for NULL. An unknown name, or
 * one this CPU can't run, is refused with the names it can. "avx512_bf16" is an older name of
 * "avx512+vnni+bf16". */
enum locus_status locus_kernels_init(struct locus_kernels *kernels, const char *name,
                                     locus_error *error);

/* The names of the sets this CPU can run, best first; NULL past the last. */
const char *locus_kernels_name(int index);

/* op, by the kernels of its weight's form: that thread's share of the outputs. */
void locus_multiply(const struct locus_kernels *kernels, const struct locus_matmul *op, int thread,
                    int n_threads);

/* The levels that sets are made of. Each writes over those members of the table that it knows a
 * better way for, and runs only on a CPU that has what it is named after. */
void locus_kernels_reference(struct locus_kernels *kernels); /* plain C: all members */
#if defined(__x86_64__)
void locus_kernels_avx2(struct locus_kernels *kernels);        /* all, with FMA and F16C */
void locus_kernels_avx512(struct locus_kernels *kernels);      /* all, with F, BW, DQ and VL */
void locus_kernels_avx512_vnni(struct locus_kernels *kernels); /* blocks, by vpdpbusd */
/* BF16 by vdpbf16ps: activations rounded to bf16, two columns an instruction. Its bits are its
 * own, the same at any number of threads and rows. */
void locus_kernels_avx512_bf16(struct locus_kernels *kernels);
#elif defined(__aarch64__)
void locus_kernels_neon(struct locus_kernels *kernels);     /* all */
void locus_kernels_neon_dot(struct locus_kernels *kernels); /* blocks, by sdot */
#endif

#endif
