/* Each kernel set that this CPU has against plain C, bit for bit: random shapes, values that
 * include denormals, infinities and NaN, a page that faults right after every buffer.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"
#include "kernels/avx512.h"
#include "kernels/kernels.h"
#include "kernels/neon.h"
#include "testing.h"

/* ---- random values ------------------------------------------------------------------------ */

static uint64_t random_state = 1;

static uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static int random_int(int from, int to)
{
    return from + (int)(random_bits() % (uint32_t)(to - from + 1));
}

/* -2 to 2; of `odd` values in 64 some are zeros, denormals, huge, infinite or NaN. */
static float random_float(int odd)
{
    static const float special[] = {0.0f,   -0.0f, 1e-40f,    -3e-42f,    1e-38f,
                                    -3e38f, 1e30f, HUGE_VALF, -HUGE_VALF, NAN};
    if (random_int(0, 63) < odd) return special[random_int(0, 9)];
    return (float)(int32_t)random_bits() * 0x1p-30f;
}

/* ---- guarded memory ----------------------------------------------------------------------- */

/* A block whose last byte is the last one before a page that faults. */
struct guarded {
    char *pages, *block;
    size_t n_pages_bytes, size;
};

static struct guarded guard(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (size + page - 1) / page * page;
    struct guarded memory = {.n_pages_bytes = body + page, .size = size};
    memory.pages =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory.pages, MAP_FAILED);
    ck_assert_int_eq(mprotect(memory.pages + body, page, PROT_NONE), 0);
    memory.block = memory.pages + body - size;
    return memory;
}

static void release(struct guarded *memory)
{
    munmap(memory->pages, memory->n_pages_bytes);
}

static struct guarded random_floats(size_t n, int odd)
{
    struct guarded memory = guard(n * sizeof(float));
    float *values = (float *)(void *)memory.block;
    for (size_t i = 0; i < n; i++)
        values[i] = random_float(odd);
    return memory;
}

static float *floats_of(const struct guarded *memory)
{
    return (float *)(void *)memory->block;
}

/* Equal bits, or NaN in both. */
static void assert_same(const struct guarded *expected, const struct guarded *found,
                        const char *what)
{
    const float *a = floats_of(expected), *b = floats_of(found);
    if (memcmp(a, b, expected->size) == 0) return;
    for (size_t i = 0; i < expected->size / sizeof *a; i++)
        ck_assert_msg(memcmp(&a[i], &b[i], sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i])),
                      "%s: value %zu is %.9g, expected %.9g", what, i, (double)b[i], (double)a[i]);
}

/* ---- matrix products ---------------------------------------------------------------------- */

static const enum locus_tensor_type types[] = {LOCUS_F32, LOCUS_F16, LOCUS_BF16, LOCUS_Q8_0,
                                               LOCUS_Q4_0};

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

struct product {
    struct locus_weight weight;
    struct guarded panels, x, blocks, bias, before;
    int n;
    bool with_bias, add;
};

static struct product random_product(enum locus_tensor_type type, int rows, int cols, int n,
                                     int odd)
{
    struct product product = {.n = n, .with_bias = random_int(0, 1), .add = random_int(0, 1)};
    product.weight = random_weight(type, rows, cols, odd);
    product.panels = guard_panels(&product.weight);
    product.x = random_floats((size_t)n * (size_t)cols, odd);
    product.blocks =
        guard((size_t)n * (size_t)cols / LOCUS_BLOCK * sizeof(struct locus_activation_block));
    product.bias = random_floats((size_t)rows, odd);
    product.before = random_floats((size_t)n * (size_t)rows, odd);
    return product;
}

static void release_product(struct product *product)
{
    release(&product->panels);
    release(&product->x);
    release(&product->blocks);
    release(&product->bias);
    release(&product->before);
}

static struct locus_matmul product_op(const struct product *product, const struct guarded *out)
{
    return (struct locus_matmul){.out = floats_of(out),
                                 .in = {floats_of(&product->x), (void *)product->blocks.block},
                                 .weight = &product->weight,
                                 .bias = product->with_bias ? floats_of(&product->bias) : NULL,
                                 .n = product->n,
                                 .add = product->add};
}

static struct guarded multiply(const struct product *product, const struct locus_kernels *kernels,
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
    struct locus_matmul op = product_op(product, &out);
    for (int thread = 0; thread < n_threads; thread++)
        kernels->matmul(&op, thread, n_threads);
    return out;
}

static void check_product(enum locus_tensor_type type, int rows, int cols, int n, int odd)
{
    char what[128];
    struct product product = random_product(type, rows, cols, n, odd);
    struct guarded expected = multiply(&product, &locus_kernels_reference, 1);
    const struct locus_kernels *kernels;
    for (int i = 0; (kernels = locus_kernels_at(i)); i++)
        for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
            struct guarded found = multiply(&product, kernels, n_threads);
            snprintf(what, sizeof what, "%s, type %d, [%d, %d] by %d rows, %d threads",
                     kernels->name, (int)type, rows, cols, n, n_threads);
            assert_same(&expected, &found, what);
            release(&found);
        }
    release(&expected);
    release_product(&product);
}

START_TEST(products_have_the_bits_of_plain_c)
{
    static const int few[] = {1, 2, 3, 7, 12, 13, 23, 29};
    const enum locus_tensor_type type = types[_i];
    const int step = locus_is_quantised(type) ? LOCUS_BLOCK : 1;
    random_state = 1 + (uint64_t)_i;
    for (int trial = 0; trial < 60; trial++) {
        int rows = random_int(1, 100), cols = random_int(1, 96 / step) * step;
        check_product(type, rows, cols, few[trial % 8], trial % 3 == 0 ? 4 : 0);
    }
    check_product(type, 33, 32, 75, 0);
    check_product(type, 1, 32, 1, 0);
    check_product(type, 96, 1024, 2, 0);
}
END_TEST

/* The way to multiply quants that a set takes on CPUs less able than this one; NULL: none. */
static void (*lesser_way(void))(const struct locus_matmul *op, struct locus_share share)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512bw") ? locus_avx512_plain_matmul : NULL;
#elif defined(__aarch64__)
    return locus_neon_plain_matmul;
#else
    return NULL;
#endif
}

START_TEST(lesser_cpus_multiply_quants_the_same)
{
    if (!lesser_way()) return;
    for (int trial = 0; trial < 40; trial++) {
        enum locus_tensor_type type = trial % 2 ? LOCUS_Q8_0 : LOCUS_Q4_0;
        struct product product =
            random_product(type, random_int(1, 70), 32 * random_int(1, 4), random_int(1, 27), 0);
        struct guarded expected = multiply(&product, &locus_kernels_reference, 1);
        struct guarded found = guard(expected.size);
        memcpy(found.block, product.before.block, found.size);
        struct locus_matmul op = product_op(&product, &found);
        lesser_way()(&op, locus_share_of(&op, 0, 1));
        assert_same(&expected, &found, "without byte dots");
        release(&found);
        release(&expected);
        release_product(&product);
    }
}
END_TEST

/* ---- rows --------------------------------------------------------------------------------- */

START_TEST(blocks_of_activations_have_the_bits_of_plain_c)
{
    for (int trial = 0; trial < 200; trial++) {
        const int n = LOCUS_BLOCK * random_int(1, 5);
        struct guarded x = random_floats((size_t)n, trial % 4 == 0 ? 4 : 0);
        if (trial % 4 == 1) memset(x.block, 0, x.size / 2);
        if (trial % 4 == 2) floats_of(&x)[random_int(0, n - 1)] = 1e-41f;
        struct guarded expected =
            guard((size_t)n / LOCUS_BLOCK * sizeof(struct locus_activation_block));
        struct guarded found = guard(expected.size);
        locus_kernels_reference.quantize((void *)expected.block, floats_of(&x), n);
        const struct locus_activation_block *block = (const void *)expected.block;
        int8_t q[LOCUS_BLOCK];
        float scale;
        locus_quantize_row(q, &scale, floats_of(&x), LOCUS_BLOCK);
        ck_assert_mem_eq(q, block->q, sizeof q);
        int sum = 0;
        for (int i = 0; i < LOCUS_BLOCK; i++)
            sum += q[i];
        ck_assert_int_eq(block->minus_8_sums, -8 * sum);
        ck_assert_int_eq(block->minus_128_sums, -128 * sum);
        const struct locus_kernels *kernels;
        for (int i = 0; (kernels = locus_kernels_at(i)); i++) {
            kernels->quantize((void *)found.block, floats_of(&x), n);
            assert_same(&expected, &found, kernels->name);
        }
        release(&x);
        release(&expected);
        release(&found);
    }
}
END_TEST

/* Runs norm, activation (with and without up), sum_exp or finish by number into out[n]. */
enum { N_ROW_OPERATIONS = 12 };

static void row_operation(const struct locus_kernels *kernels, int which, float *out,
                          const float *const in[3], int n)
{
    const struct locus_norm norm = {which % 2 ? LOCUS_RMSNORM : LOCUS_LAYERNORM, 1e-5f, in[1],
                                    which / 2 % 2 ? in[2] : NULL};
    struct locus_softmax softmax = {.max = 1};
    if (which < 4)
        kernels->norm(&norm, out, in[0], n);
    else if (which < 8)
        kernels->activate((enum locus_activation)(which - 4), out, in[0], NULL, n);
    else if (which < 10)
        kernels->activate(which == 8 ? LOCUS_SILU : LOCUS_GELU_TANH, out, in[0], in[1], n);
    else if (which == 10)
        out[0] = kernels->sum_exp(in[0], n, &out[n > 1 ? 1 : 0]);
    else {
        for (int i = 0; i < LOCUS_KEY_PANEL; i++)
            softmax.sums[i] = in[1][i % n];
        kernels->finish(&softmax, out, in[0], n);
    }
}

START_TEST(row_operations_have_the_bits_of_plain_c)
{
    for (int trial = 0; trial < 60; trial++) {
        const int n = random_int(1, 150), odd = trial % 3 == 0 ? 3 : 0;
        struct guarded in[3], expected = random_floats((size_t)n, 0), found = guard(expected.size);
        memcpy(found.block, expected.block, found.size);
        for (int i = 0; i < 3; i++)
            in[i] = random_floats((size_t)n, odd);
        if (trial % 5 == 0)
            for (int i = 0; i < n; i++)
                floats_of(&in[0])[i] *= 40;
        const float *const inputs[3] = {floats_of(&in[0]), floats_of(&in[1]), floats_of(&in[2])};
        const struct locus_kernels *kernels;
        row_operation(&locus_kernels_reference, _i, floats_of(&expected), inputs, n);
        for (int i = 0; (kernels = locus_kernels_at(i)); i++) {
            row_operation(kernels, _i, floats_of(&found), inputs, n);
            assert_same(&expected, &found, kernels->name);
        }
        for (int i = 0; i < 3; i++)
            release(&in[i]);
        release(&expected);
        release(&found);
    }
}
END_TEST

/* ---- attention ---------------------------------------------------------------------------- */

/* Cached keys or values: numbers of the format. */
static struct guarded random_cache(enum locus_cache_format format, size_t n_bytes, int odd)
{
    struct guarded memory = guard(n_bytes);
    if (format == LOCUS_FORMAT_F32)
        for (size_t i = 0; i < n_bytes / 4; i++)
            floats_of(&memory)[i] = random_float(odd);
    else if (format == LOCUS_FORMAT_F16)
        for (size_t i = 0; i < n_bytes / 2; i++) {
            uint16_t half = locus_float_to_half(random_float(odd));
            memcpy(memory.block + 2 * i, &half, 2);
        }
    else
        for (size_t i = 0; i < n_bytes / 4; i++) {
            /* As a scale or as four quants, both are fine. */
            float value = random_float(odd);
            memcpy(memory.block + 4 * i, &value, 4);
        }
    return memory;
}

static const int head_dims[] = {1, 8, 16, 20, 33, 64, 80, 128};

START_TEST(scores_have_the_bits_of_plain_c)
{
    const enum locus_cache_format format = (enum locus_cache_format)_i;
    for (int trial = 0; trial < 64; trial++) {
        const int head_dim = head_dims[trial % 8], n_rows = random_int(1, 27);
        const int n_panels = random_int(1, 4), odd = trial % 3 == 0 ? 3 : 0;
        struct guarded keys =
            random_cache(format, (size_t)n_panels * locus_key_panel_bytes(format, head_dim), odd);
        struct guarded q = random_floats((size_t)(n_rows * head_dim), odd);
        struct guarded expected = guard((size_t)(n_rows * n_panels) * LOCUS_KEY_PANEL * 4);
        struct guarded found = guard(expected.size);
        struct locus_scores op = {.format = format,
                                  .out = floats_of(&expected),
                                  .stride = (size_t)n_panels * LOCUS_KEY_PANEL,
                                  .q = floats_of(&q),
                                  .keys = keys.block,
                                  .n_rows = n_rows,
                                  .head_dim = head_dim,
                                  .n_panels = n_panels,
                                  .scale = 0.3f};
        locus_kernels_reference.scores(&op);
        const struct locus_kernels *kernels;
        op.out = floats_of(&found);
        for (int i = 0; (kernels = locus_kernels_at(i)); i++) {
            kernels->scores(&op);
            assert_same(&expected, &found, kernels->name);
        }
        release(&keys);
        release(&q);
        release(&expected);
        release(&found);
    }
}
END_TEST

/* What the softmax of some queries is after two blocks: sums, maxima, mixes, weights. */
struct mixed {
    struct guarded softmax, mix, scores;
};

static struct mixed mix_twice(const struct locus_kernels *kernels, const struct locus_mixing *op,
                              const struct guarded *scores)
{
    const size_t n = (size_t)op->n_rows;
    struct mixed mixed = {guard(n * sizeof(struct locus_softmax)),
                          guard(n * (size_t)op->head_dim * 4), guard(scores->size)};
    struct locus_mixing own = *op;
    own.softmax = (void *)mixed.softmax.block;
    own.mix = floats_of(&mixed.mix);
    own.scores = floats_of(&mixed.scores);
    memset(mixed.softmax.block, 0, mixed.softmax.size);
    memset(mixed.mix.block, 0, mixed.mix.size);
    for (size_t i = 0; i < n; i++)
        own.softmax[i].max = -HUGE_VALF;
    for (int block = 0; block < 2; block++) {
        for (size_t i = 0; i < n * LOCUS_MIX_KEYS; i++)
            own.scores[i] = floats_of(scores)[i] * (block ? 3.0f : 1.0f);
        kernels->mix(&own);
    }
    /* Weights outside of [first, end) are nobody's. */
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < LOCUS_MIX_KEYS; j++)
            if (j < op->first[i] || j >= op->end[i]) own.scores[i * LOCUS_MIX_KEYS + (size_t)j] = 0;
    return mixed;
}

static void release_mixed(struct mixed *mixed)
{
    release(&mixed->softmax);
    release(&mixed->mix);
    release(&mixed->scores);
}

static void check_mix(enum locus_cache_format format, int head_dim, int n_rows, int shape, int odd)
{
    int first[32], end[32];
    for (int i = 0; i < n_rows; i++) {
        first[i] = shape == 0 ? 0 : shape == 1 ? 5 + i % 32 : random_int(0, 64);
        end[i] = shape == 0 ? 64 - n_rows + 1 + i : shape == 1 ? 37 + i % 27 : random_int(0, 64);
        if (end[i] <= first[i]) first[i] = end[i] = 0;
    }
    struct guarded values =
        random_cache(format, LOCUS_MIX_KEYS * locus_value_row_bytes(format, head_dim), odd);
    struct guarded scores = random_floats((size_t)n_rows * LOCUS_MIX_KEYS, odd);
    const struct locus_mixing op = {.format = format,
                                    .stride = LOCUS_MIX_KEYS,
                                    .first = first,
                                    .end = end,
                                    .values = values.block,
                                    .n_rows = n_rows,
                                    .head_dim = head_dim};
    struct mixed expected = mix_twice(&locus_kernels_reference, &op, &scores);
    const struct locus_kernels *kernels;
    for (int i = 0; (kernels = locus_kernels_at(i)); i++) {
        struct mixed found = mix_twice(kernels, &op, &scores);
        assert_same(&expected.softmax, &found.softmax, "sums");
        assert_same(&expected.mix, &found.mix, "mix");
        assert_same(&expected.scores, &found.scores, "weights");
        release_mixed(&found);
    }
    release_mixed(&expected);
    release(&values);
    release(&scores);
}

/* Rows that end one after another, rows of a window, and any; some see nothing. */
START_TEST(mixes_have_the_bits_of_plain_c)
{
    for (int trial = 0; trial < 96; trial++)
        check_mix((enum locus_cache_format)_i, head_dims[trial % 8], random_int(1, 27), trial % 3,
                  trial % 5 == 0 ? 3 : 0);
}
END_TEST

static void add_products(Suite *suite)
{
    TCase *products = tcase_create("products");
    tcase_add_loop_test(products, products_have_the_bits_of_plain_c, 0,
                        sizeof types / sizeof *types);
    tcase_add_test(products, lesser_cpus_multiply_quants_the_same);
    suite_add_tcase(suite, products);
}

int main(void)
{
    Suite *suite = suite_create("kernels");
    add_products(suite);
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, blocks_of_activations_have_the_bits_of_plain_c);
    tcase_add_loop_test(rows, row_operations_have_the_bits_of_plain_c, 0, N_ROW_OPERATIONS);
    suite_add_tcase(suite, rows);
    TCase *attention = tcase_create("attention");
    tcase_add_loop_test(attention, scores_have_the_bits_of_plain_c, 0, LOCUS_FORMAT_Q8_0 + 1);
    tcase_add_loop_test(attention, mixes_have_the_bits_of_plain_c, 0, LOCUS_FORMAT_Q8_0 + 1);
    suite_add_tcase(suite, attention);
    return testing_run(suite);
}
