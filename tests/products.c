/* Random matrix products, and the kernel sets that run here: see products.h. */
#include "products.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "testing.h"

/* ---- weights ------------------------------------------------------------------------------ */

/* Rows as a file stores them. */
static void fill_row(unsigned char *row, enum locus_tensor_type type, int cols, int odd)
{
    if (!locus_is_quantised(type)) {
        for (int c = 0; c < cols; c++) {
            float value = random_float(odd);
            uint16_t half = type == LOCUS_F16 ? locus_float_to_half(value)
                                              : (uint16_t)(locus_bits_of(value) >> 16);
            if (type == LOCUS_F32)
                memcpy(row + 4 * c, &value, 4);
            else
                memcpy(row + 2 * c, &half, 2);
        }
        return;
    }
    int n_bytes = type == LOCUS_Q8_0 ? 34 : 18;
    for (int b = 0; b < cols / LOCUS_BLOCK; b++, row += n_bytes) {
        uint16_t scale = locus_float_to_half(random_float(odd));
        memcpy(row, &scale, 2);
        for (int i = 2; i < n_bytes; i++)
            row[i] = (unsigned char)(random_int(0, 7) ? random_bits() : 0x80);
    }
}

static struct locus_weight random_weight(enum locus_tensor_type type, int rows, int cols, int odd)
{
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)type);
    size_t row_bytes = (size_t)(cols / info->block_values) * (size_t)info->block_bytes;
    struct guarded stored = guard((size_t)rows * row_bytes);
    for (int r = 0; r < rows; r++)
        fill_row((unsigned char *)stored.block + (size_t)r * row_bytes, type, cols, odd);
    struct locus_weight weight;
    struct locus_row_source source = {
        .data = (unsigned char *)stored.block, .group = rows, .stride = rows};
    ck_assert_int_eq(locus_weight_pack(&weight, type, rows, cols, source, 1, NULL), LOCUS_OK);
    /* Each row can be read back as a file has it. */
    float *unpacked = calloc((size_t)cols * 2, sizeof *unpacked), *expected = unpacked + cols;
    for (int r = 0; r < rows; r++) {
        locus_weight_row(&weight, r, unpacked);
        locus_dequantize_row(expected, stored.block + (size_t)r * row_bytes, type, (size_t)cols);
        ck_assert_mem_eq(unpacked, expected, (size_t)cols * sizeof *unpacked);
    }
    free(unpacked);
    release(&stored);
    return weight;
}

/* A copy of the panels up against a guard page. */
static struct guarded guard_panels(struct locus_weight *weight)
{
    struct guarded panels = guard(locus_weight_bytes(weight));
    memcpy(panels.block, weight->panels, panels.size);
    locus_aligned_free(weight->panels);
    weight->panels = panels.block;
    return panels;
}

/* ---- products ----------------------------------------------------------------------------- */

struct product random_product(enum locus_tensor_type type, int rows, int cols, int n, int odd)
{
    struct product product = {.n = n, .with_bias = random_int(0, 1), .add = random_int(0, 1)};
    product.weight = random_weight(type, rows, cols, odd);
    product.panels = guard_panels(&product.weight);
    product.x = random_floats((size_t)n * (size_t)cols, odd);
    product.blocks =
        guard((size_t)n * (size_t)cols / LOCUS_BLOCK * sizeof(struct locus_activation_block));
    product.bfloats = guard((size_t)n * locus_bfloat_cols(cols) * sizeof(uint16_t));
    product.bias = random_floats((size_t)rows, odd);
    product.before = random_floats((size_t)n * (size_t)rows, odd);
    return product;
}

void release_product(struct product *product)
{
    release(&product->panels);
    release(&product->x);
    release(&product->blocks);
    release(&product->bfloats);
    release(&product->bias);
    release(&product->before);
}

struct locus_matmul product_op(const struct product *product, const struct guarded *out)
{
    return (struct locus_matmul){.out = floats_of(out),
                                 .in = {floats_of(&product->x), (void *)product->blocks.block,
                                        (void *)product->bfloats.block},
                                 .weight = &product->weight,
                                 .bias = product->with_bias ? floats_of(&product->bias) : NULL,
                                 .n = product->n,
                                 .add = product->add};
}

struct guarded multiply(const struct product *product, const struct locus_kernels *kernels,
                        int n_threads)
{
    struct guarded out = guard(product->before.size);
    memcpy(out.block, product->before.block, out.size);
    struct locus_activation_block *blocks = (void *)product->blocks.block;
    const int cols = product->weight.cols;
    if (locus_is_quantised(product->weight.type))
        for (int i = 0; i < product->n; i++)
            kernels->quantize(blocks + (size_t)i * (size_t)(cols / LOCUS_BLOCK),
                              floats_of(&product->x) + (size_t)i * (size_t)cols, cols);
    for (int i = 0; i < product->n && kernels->to_bfloats; i++)
        kernels->to_bfloats((uint16_t *)(void *)product->bfloats.block +
                                (size_t)i * locus_bfloat_cols(cols),
                            floats_of(&product->x) + (size_t)i * (size_t)cols, cols);
    struct locus_matmul op = product_op(product, &out);
    for (int thread = 0; thread < n_threads; thread++)
        kernels->matmul(&op, thread, n_threads);
    return out;
}

/* ---- kernel sets -------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include <immintrin.h>

static sigjmp_buf illegal;

static void jump_back(int number)
{
    (void)number;
    siglongjmp(illegal, 1);
}

__attribute__((target("avx512f,avx512bf16"))) static void multiply_a_pair(void)
{
    __m512 sum = _mm512_setzero_ps();
    __asm__ volatile("vdpbf16ps %0, %0, %0" : "+v"(sum));
}

const struct locus_kernels *kernels_with_dots(void)
{
    struct sigaction before, action = {.sa_handler = jump_back};
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("fma"))
        return NULL;
    sigaction(SIGILL, &action, &before);
    volatile bool runs = false;
    if (!sigsetjmp(illegal, 1)) {
        multiply_a_pair();
        runs = true;
    }
    sigaction(SIGILL, &before, NULL);
    return runs ? &locus_kernels_avx512_bf16 : NULL;
}
#else
const struct locus_kernels *kernels_with_dots(void)
{
    return NULL;
}
#endif

const struct locus_kernels *kernels_at(int index)
{
    const struct locus_kernels *kernels, *dots = kernels_with_dots();
    int i = 0;
    for (; (kernels = locus_kernels_at(i)); i++) {
        if (i == index) return kernels;
        if (kernels == dots) dots = NULL;
    }
    return i == index ? dots : NULL;
}
