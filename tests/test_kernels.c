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
#include "kernels/kernels.h"
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
    struct locus_row_source source = {(unsigned char *)stored.block, 0, rows, rows};
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
    struct locus_matmul op = {.out = floats_of(&out),
                              .in = {floats_of(&product->x), blocks},
                              .weight = &product->weight,
                              .bias = product->with_bias ? floats_of(&product->bias) : NULL,
                              .n = product->n,
                              .add = product->add};
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

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *products = tcase_create("products");
    tcase_add_loop_test(products, products_have_the_bits_of_plain_c, 0,
                        sizeof types / sizeof *types);
    suite_add_tcase(suite, products);
    return testing_run(suite);
}
