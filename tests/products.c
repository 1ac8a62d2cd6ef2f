/* Random matrix products, and the kernel sets that run here: see products.h. */
#include "products.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "testing.h"

/* ---- weights ------------------------------------------------------------------------------ */

/* Where the halves of a block are; -1: there is no second. */
static const struct {
    enum locus_tensor_type type;
    int scale, min;
} halves[] = {
    {LOCUS_Q8_0, 0, -1},   {LOCUS_Q5_0, 0, -1},   {LOCUS_Q5_1, 0, 2},   {LOCUS_Q4_0, 0, -1},
    {LOCUS_Q4_1, 0, 2},    {LOCUS_IQ4_NL, 0, -1}, {LOCUS_Q4_K, 0, 2},   {LOCUS_Q5_K, 0, 2},
    {LOCUS_Q6_K, 208, -1}, {LOCUS_Q3_K, 108, -1}, {LOCUS_Q2_K, 80, 82},
};

static void put_half(unsigned char *at, int odd)
{
    uint16_t half = locus_float_to_f16(random_float(odd));
    memcpy(at, &half, sizeof half);
}

static void random_floats_row(unsigned char *row, enum locus_tensor_type type, int n_values,
                              int odd)
{
    for (int c = 0; c < n_values; c++) {
        float value = random_float(odd);
        uint16_t half =
            type == LOCUS_F16 ? locus_float_to_f16(value) : (uint16_t)(locus_bits_of(value) >> 16);
        const double wide = (double)value * (1 + 1e-9);
        if (type == LOCUS_F64)
            memcpy(row + 8 * c, &wide, 8);
        else if (type == LOCUS_F32)
            memcpy(row + 4 * c, &value, 4);
        else
            memcpy(row + 2 * c, &half, 2);
    }
}

void random_row(unsigned char *row, enum locus_tensor_type type, int n_values, int odd)
{
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)type);
    if (info->block_values == 1) {
        random_floats_row(row, type, n_values, odd);
        return;
    }
    size_t h = 0;
    for (int b = 0; type == LOCUS_MXFP4 && b < n_values / info->block_values;
         b++, row += info->block_bytes) {
        for (int i = 1; i < info->block_bytes; i++)
            row[i] = (unsigned char)random_bits();
        row[0] = (unsigned char)random_int(odd ? 0 : 120, odd ? 255 : 130);
    }
    if (type == LOCUS_MXFP4) return;
    while (halves[h].type != type)
        ck_assert_uint_lt(++h, sizeof halves / sizeof *halves);
    for (int b = 0; b < n_values / info->block_values; b++, row += info->block_bytes) {
        for (int i = 0; i < info->block_bytes; i++)
            row[i] = (unsigned char)(random_int(0, 7) ? random_bits() : 0x80);
        put_half(row + halves[h].scale, odd);
        if (halves[h].min >= 0) put_half(row + halves[h].min, odd);
    }
}

static struct locus_weight random_weight(enum locus_tensor_type type, int rows, int cols, int odd)
{
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)type);
    size_t row_bytes = (size_t)(cols / info->block_values) * (size_t)info->block_bytes;
    struct guarded stored = guard((size_t)rows * row_bytes);
    for (int r = 0; r < rows; r++)
        random_row((unsigned char *)stored.block + (size_t)r * row_bytes, type, cols, odd);
    struct locus_weight weight;
    struct locus_row_source source = {.data = (unsigned char *)stored.block};
    ck_assert_int_eq(locus_weight_pack(&weight, type, rows, cols, source, 1, NULL), LOCUS_OK);
    /* Each row can be read back as a file has it. */
    struct guarded unpacked = guard((size_t)cols * sizeof(float)), expected = guard(unpacked.size);
    for (int r = 0; r < rows; r++) {
        locus_weight_row(&weight, r, floats_of(&unpacked));
        locus_dequantize_row(floats_of(&expected), stored.block + (size_t)r * row_bytes, type,
                             (size_t)cols);
        assert_same(&expected, &unpacked, info->name);
    }
    release(&unpacked);
    release(&expected);
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
        guard((size_t)n * (size_t)cols / LOCUS_QUANT_BLOCK * sizeof(struct locus_activation_block));
    product.bf16 = guard((size_t)n * locus_bf16_cols(cols) * sizeof(uint16_t));
    product.bias = random_floats((size_t)rows, odd);
    product.before = random_floats((size_t)n * (size_t)rows, odd);
    return product;
}

void release_product(struct product *product)
{
    release(&product->panels);
    release(&product->x);
    release(&product->blocks);
    release(&product->bf16);
    release(&product->bias);
    release(&product->before);
}

struct locus_matmul product_op(const struct product *product, const struct guarded *out)
{
    return (struct locus_matmul){
        .out = floats_of(out),
        .in = {floats_of(&product->x), (void *)product->blocks.block, (void *)product->bf16.block},
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
    if (locus_tensor_is_quantised(product->weight.type))
        for (int i = 0; i < product->n; i++)
            kernels->quantize(blocks + (size_t)i * (size_t)(cols / LOCUS_QUANT_BLOCK),
                              floats_of(&product->x) + (size_t)i * (size_t)cols, cols);
    for (int i = 0; i < product->n && kernels->to_bf16; i++)
        kernels->to_bf16((uint16_t *)(void *)product->bf16.block +
                             (size_t)i * locus_bf16_cols(cols),
                         floats_of(&product->x) + (size_t)i * (size_t)cols, cols);
    struct locus_matmul op = product_op(product, &out);
    for (int thread = 0; thread < n_threads; thread++)
        locus_multiply(kernels, &op, thread, n_threads);
    return out;
}

/* ---- kernel sets -------------------------------------------------------------------------- */

enum { MAX_SETS = 16 };

const struct locus_kernels *plain_kernels(void)
{
    static struct locus_kernels kernels;
    ck_assert_int_eq(locus_kernels_init(&kernels, "reference", NULL), LOCUS_OK);
    return &kernels;
}

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
    static struct locus_kernels kernels;
    struct sigaction before, action = {.sa_handler = jump_back};
    if (locus_kernels_init(&kernels, "avx512+vnni", NULL) &&
        locus_kernels_init(&kernels, "avx512", NULL))
        return NULL;
    sigaction(SIGILL, &action, &before);
    volatile bool runs = false;
    if (!sigsetjmp(illegal, 1)) {
        multiply_a_pair();
        runs = true;
    }
    sigaction(SIGILL, &before, NULL);
    locus_kernels_avx512_bf16(&kernels);
    kernels.name = "avx512+vnni+bf16";
    return runs ? &kernels : NULL;
}
#else
const struct locus_kernels *kernels_with_dots(void)
{
    return NULL;
}
#endif

const struct locus_kernels *kernels_at(int index)
{
    static struct locus_kernels sets[MAX_SETS];
    const struct locus_kernels *dots = kernels_with_dots();
    const char *name;
    int i = 0;
    for (; (name = locus_kernels_name(i)); i++) {
        ck_assert_int_lt(i, MAX_SETS);
        if (dots && !strcmp(name, dots->name)) dots = NULL;
        if (i < index) continue;
        ck_assert_int_eq(locus_kernels_init(&sets[i], name, NULL), LOCUS_OK);
        ck_assert_str_eq(sets[i].name, name);
        return &sets[i];
    }
    return i == index ? dots : NULL;
}
