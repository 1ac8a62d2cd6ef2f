/* Each kernel set that this CPU has against plain C, bit for bit: random shapes, values that
 * include denormals, infinities and NaN, a page that faults right after every buffer.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/kernels.h"
#include "products.h"
#include "testing.h"

/* ---- matrix products ---------------------------------------------------------------------- */

static void check_product(enum locus_tensor_type type, int rows, int cols, int n, int odd)
{
    char what[128];
    struct product product = random_product(type, rows, cols, n, odd);
    struct guarded expected = multiply(&product, plain_kernels(), 1);
    const struct locus_kernels *kernels;
    for (int i = 0; (kernels = kernels_at(i)); i++)
        for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
            if (type == LOCUS_BF16 && kernels->to_bf16) continue; /* see test_kernels_bf16.c */
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
    const struct locus_tensor_type_info *info = locus_tensor_type_at((size_t)_i);
    const enum locus_tensor_type type = info->type;
    const int step = info->block_values, most = step > 96 ? 1 : 96 / step;
    random_seed(1 + (uint64_t)_i);
    for (int trial = 0; trial < 60; trial++) {
        int rows = random_int(1, 100), cols = random_int(1, most) * step;
        check_product(type, rows, cols, few[trial % 8], trial % 3 == 0 ? 4 : 0);
    }
    const int least = step > 32 ? step : 32;
    check_product(type, 33, least, 75, 0);
    check_product(type, 1, least, 1, 0);
    check_product(type, 96, 1024, 2, 0);
    check_product(type, 70, 2 * least, 301, 0);
    /* More than one strip of unpacked blocks. */
    if (step > 1) check_product(type, 33, 4608, 101, 0);
}
END_TEST

/* ---- kernel sets -------------------------------------------------------------------------- */

/* What a set needs of its CPU, in the words of Linux, which are none of ours. */
static const struct {
    const char *name, *flags[8];
} sets[] = {
    {"reference", {NULL}},
#if defined(__x86_64__)
    {"avx2", {"avx2", "fma", "f16c"}},
    {"avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "f16c"}},
    {"avx512+vnni", {"avx512_vnni", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "f16c"}},
    {"avx512+vnni+bf16", {"avx512_bf16", "avx512_vnni", "avx512bw", "avx512dq", "avx512vl"}},
#elif defined(__aarch64__)
    {"neon", {"asimd"}},
    {"neon+dotprod", {"asimddp"}},
#endif
};

enum { N_SETS = sizeof sets / sizeof *sets };

#if defined(__aarch64__)
static const char flags_line[] = "Features";
#else
static const char flags_line[] = "flags";
#endif

/* Whether the system says that the CPU has it; -1: it says nothing of the kind. */
static int cpu_has(const char *flag)
{
    char line[8192], word[64];
    int found = -1;
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(word, sizeof word, " %s ", flag);
    while (file && found < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, flags_line, strlen(flags_line))) continue;
        line[strcspn(line, "\n")] = ' ';
        found = strstr(line, word) != NULL;
    }
    if (file) fclose(file);
    return found;
}

/* One that the CPU hasn't is said, and doesn't run; one that it has does run. */
START_TEST(sets_are_those_that_the_cpu_has)
{
    const char *name;
    struct locus_kernels kernels;
    int listed = 0, all = 1;
    for (int i = 0; (name = locus_kernels_name(i)); i++)
        listed |= !strcmp(name, sets[_i].name);
    for (int f = 0; sets[_i].flags[f]; f++) {
        const int has = cpu_has(sets[_i].flags[f]);
        if (has < all) all = has;
    }
    if (all >= 0) ck_assert_msg(listed == all, "%s is %s", sets[_i].name, all ? "not run" : "run");
    ck_assert_int_eq(!locus_kernels_init(&kernels, sets[_i].name, NULL), listed);
    if (!listed) {
        testing_skip_cpu(sets[_i].name);
        return;
    }
    ck_assert_str_eq(kernels.name, sets[_i].name);
    for (int form = 0; form < LOCUS_N_FORMS; form++)
        ck_assert(kernels.matmul[form] != NULL);
    printf("kernels %s: compared with plain C\n", kernels.name);
}
END_TEST

START_TEST(sets_are_known_by_name)
{
    struct locus_kernels kernels;
    locus_error error = {0};
    ck_assert_int_eq(locus_kernels_init(&kernels, NULL, NULL), LOCUS_OK);
    ck_assert_str_eq(kernels.name, locus_kernels_name(0));
    ck_assert_int_eq(locus_kernels_init(&kernels, "avx1024", &error), LOCUS_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "kernels \"avx1024\": this CPU has "));
    for (int i = 0; locus_kernels_name(i); i++)
        ck_assert_ptr_nonnull(strstr(error.message, locus_kernels_name(i)));
    if (!locus_kernels_init(&kernels, "avx512_bf16", NULL)) /* its older name */
        ck_assert_str_eq(kernels.name, "avx512+vnni+bf16");
}
END_TEST

/* ---- rows --------------------------------------------------------------------------------- */

START_TEST(blocks_of_activations_have_the_bits_of_plain_c)
{
    for (int trial = 0; trial < 200; trial++) {
        const int n = LOCUS_QUANT_BLOCK * random_int(1, 5);
        struct guarded x = random_floats((size_t)n, trial % 4 == 0 ? 4 : 0);
        if (trial % 4 == 1) memset(x.block, 0, x.size / 2);
        if (trial % 4 == 2) floats_of(&x)[random_int(0, n - 1)] = 1e-41f;
        struct guarded expected =
            guard((size_t)n / LOCUS_QUANT_BLOCK * sizeof(struct locus_activation_block));
        struct guarded found = guard(expected.size);
        plain_kernels()->quantize((void *)expected.block, floats_of(&x), n);
        const struct locus_activation_block *block = (const void *)expected.block;
        int8_t q[LOCUS_QUANT_BLOCK];
        float scale;
        locus_quantize_row(q, &scale, floats_of(&x), LOCUS_QUANT_BLOCK);
        ck_assert_mem_eq(q, block->q, sizeof q);
        int sum = 0, first = 0;
        for (int i = 0; i < LOCUS_QUANT_BLOCK; i++) {
            sum += q[i];
            if (i < 16) first += q[i];
        }
        ck_assert_int_eq(block->minus_8_sum, -8 * sum);
        ck_assert_int_eq(block->minus_128_sum, -128 * sum);
        ck_assert_int_eq(block->minus_128_first, -128 * first);
        const struct locus_kernels *kernels;
        for (int i = 0; (kernels = kernels_at(i)); i++) {
            kernels->quantize((void *)found.block, floats_of(&x), n);
            assert_same(&expected, &found, kernels->name);
        }
        release(&x);
        release(&expected);
        release(&found);
    }
}
END_TEST

START_TEST(halves_have_the_bits_of_plain_c)
{
    for (int trial = 0; trial < 60; trial++) {
        const int n = random_int(1, 100);
        struct guarded x = random_floats((size_t)n, trial % 2 ? 3 : 0),
                       found = guard((size_t)n * 2);
        const struct locus_kernels *kernels;
        for (int i = 0; (kernels = kernels_at(i)); i++) {
            kernels->to_f16((void *)found.block, floats_of(&x), n);
            for (int j = 0; j < n; j++) {
                uint16_t half = locus_float_to_f16(floats_of(&x)[j]);
                ck_assert_mem_eq(found.block + 2 * j, &half, sizeof half);
            }
        }
        release(&x);
        release(&found);
    }
}
END_TEST

/* Runs norm, activation (with and without up), sum_exp, finish, scale_and_cap or steps by number
 * into out[n]. */
enum { N_ROW_OPERATIONS = 18 };

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
    else if (which == 12)
        kernels->activate(LOCUS_RELU_SQUARED, out, in[0], in[1], n);
    else if (which == 17)
        kernels->steps(out, out, in[0], in[1], in[2], n);
    else if (which > 14)
        kernels->activate(LOCUS_CLIPPED_SWISH, out, in[0], which == 15 ? NULL : in[1], n);
    else if (which > 12) {
        memcpy(out, in[0], (size_t)n * sizeof *out);
        kernels->scale_and_cap(out, n, 0.3f, which == 13 ? 0.0f : 2.5f);
    } else if (which == 10)
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
        row_operation(plain_kernels(), _i, floats_of(&expected), inputs, n);
        for (int i = 0; (kernels = kernels_at(i)); i++) {
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

/* ---- running states ----------------------------------------------------------------------- */

enum { WIDE = 70, MOST_ROWS = 9, MOST_TAPS = 5, MOST_STATE = 17 };

/* One panel somewhere in rows of WIDE values, of which nothing else is touched. */
struct recurrence {
    struct guarded rows[3], b, c, a, taps, channels, h, out;
    struct locus_scan scan;
    struct locus_convolution convolution;
    struct locus_recurrence recurrence;
    struct locus_long_convolution distant;
};

static struct recurrence random_recurrence(int odd)
{
    const int n = random_int(1, MOST_ROWS), n_state = random_int(1, MOST_STATE);
    const int n_taps = random_int(1, MOST_TAPS), width = random_int(1, LOCUS_CHANNELS);
    const size_t n_values = (size_t)(n + n_taps - 1) * WIDE;
    struct recurrence r = {.a = random_floats((size_t)n_state * LOCUS_CHANNELS, odd),
                           .b = random_floats((size_t)(n * n_state), odd),
                           .c = random_floats((size_t)(n * n_state), odd),
                           .taps = random_floats((size_t)n_taps * LOCUS_CHANNELS, odd),
                           .channels = random_floats(LOCUS_CHANNELS, odd),
                           .h = random_floats((size_t)n_state * LOCUS_CHANNELS, odd),
                           .out = random_floats(n_values, 0)};
    for (int i = 0; i < 3; i++)
        r.rows[i] = random_floats(n_values, odd);
    const size_t first = WIDE - (size_t)width; /* up to the end */
    r.scan = (struct locus_scan){.out = floats_of(&r.out) + first,
                                 .dt = floats_of(&r.rows[0]) + first,
                                 .u = floats_of(&r.rows[1]) + first,
                                 .z = floats_of(&r.rows[2]) + first,
                                 .b = floats_of(&r.b),
                                 .c = floats_of(&r.c),
                                 .a = floats_of(&r.a),
                                 .skip = floats_of(&r.channels),
                                 .h = floats_of(&r.h),
                                 .stride = WIDE,
                                 .n = n,
                                 .n_state = n_state,
                                 .width = width};
    r.convolution = (struct locus_convolution){.out = floats_of(&r.out) + first,
                                               .x = floats_of(&r.rows[0]) + first,
                                               .taps = floats_of(&r.taps),
                                               .bias = floats_of(&r.channels),
                                               .stride = WIDE,
                                               .n = n,
                                               .n_taps = n_taps,
                                               .width = width,
                                               .bare = n % 2 == 0};
    r.recurrence = (struct locus_recurrence){.out = floats_of(&r.out) + first,
                                             .u = floats_of(&r.rows[1]) + first,
                                             .b = floats_of(&r.b),
                                             .c = floats_of(&r.c),
                                             .decay = floats_of(&r.rows[0]),
                                             .step = floats_of(&r.rows[2]),
                                             .skip = random_float(odd),
                                             .h = floats_of(&r.h),
                                             .stride = WIDE,
                                             .state_stride = (size_t)n_state,
                                             .step_stride = (size_t)random_int(0, WIDE),
                                             .n = n,
                                             .n_state = n_state,
                                             .width = width};
    /* Rows after others. */
    r.distant = (struct locus_long_convolution){.out = floats_of(&r.out) + first,
                                                .gate = floats_of(&r.rows[0]) + first,
                                                .h = floats_of(&r.rows[1]),
                                                .p = floats_of(&r.rows[2]),
                                                .skip = floats_of(&r.channels),
                                                .out_stride = WIDE,
                                                .gate_stride = WIDE,
                                                .first = random_int(0, 3 * n),
                                                .n = n,
                                                .width = width};
    return r;
}

static void release_recurrence(struct recurrence *r)
{
    struct guarded *const all[] = {&r->rows[0], &r->rows[1], &r->rows[2],  &r->b, &r->c,
                                   &r->a,       &r->taps,    &r->channels, &r->h, &r->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        release(all[i]);
}

enum { CONVOLVES, SCANS, RECURS, CONVOLVES_LONG, N_KINDS };

/* Runs it in that set from what `before` holds; the state goes back to that. */
static void run_recurrence(const struct locus_kernels *kernels, const struct recurrence *r,
                           int kind, struct guarded *out, struct guarded *h)
{
    struct guarded before = guard(r->h.size);
    struct locus_scan scan = r->scan;
    struct locus_convolution convolution = r->convolution;
    struct locus_recurrence recurrence = r->recurrence;
    struct locus_long_convolution distant = r->distant;
    *out = guard(r->out.size);
    *h = guard(r->h.size);
    memcpy(before.block, r->h.block, before.size);
    memcpy(out->block, r->out.block, out->size);
    scan.out = floats_of(out) + (r->scan.out - floats_of(&r->out));
    convolution.out = recurrence.out = distant.out = scan.out;
    if (kind == CONVOLVES)
        kernels->convolve(&convolution);
    else if (kind == SCANS)
        kernels->scan(&scan);
    else if (kind == RECURS)
        kernels->recur(&recurrence);
    else
        kernels->convolve_long(&distant);
    memcpy(h->block, r->h.block, h->size);
    memcpy(r->h.block, before.block, before.size);
    release(&before);
}

START_TEST(running_states_have_the_bits_of_plain_c)
{
    const struct locus_kernels *kernels;
    for (int trial = 0; trial < 120; trial++) {
        struct recurrence r = random_recurrence(trial % 3 == 0 ? 3 : 0);
        struct guarded expected[2], found[2];
        run_recurrence(plain_kernels(), &r, _i, &expected[0], &expected[1]);
        for (int i = 0; (kernels = kernels_at(i)); i++) {
            run_recurrence(kernels, &r, _i, &found[0], &found[1]);
            for (int k = 0; k < 2; k++) {
                assert_same(&expected[k], &found[k], kernels->name);
                release(&found[k]);
            }
        }
        release(&expected[0]);
        release(&expected[1]);
        release_recurrence(&r);
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
            uint16_t half = locus_float_to_f16(random_float(odd));
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
        plain_kernels()->scores(&op);
        const struct locus_kernels *kernels;
        op.out = floats_of(&found);
        for (int i = 0; (kernels = kernels_at(i)); i++) {
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
        for (size_t i = 0; i < n * LOCUS_KV_BLOCK; i++)
            own.scores[i] = floats_of(scores)[i] * (block ? 3.0f : 1.0f);
        kernels->mix(&own);
    }
    /* Weights outside of [first, end) are nobody's. */
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < LOCUS_KV_BLOCK; j++)
            if (j < op->first[i] || j >= op->end[i]) own.scores[i * LOCUS_KV_BLOCK + (size_t)j] = 0;
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
        random_cache(format, LOCUS_KV_BLOCK * locus_value_row_bytes(format, head_dim), odd);
    struct guarded scores = random_floats((size_t)n_rows * LOCUS_KV_BLOCK, odd);
    const struct locus_mixing op = {.format = format,
                                    .stride = LOCUS_KV_BLOCK,
                                    .first = first,
                                    .end = end,
                                    .values = values.block,
                                    .n_rows = n_rows,
                                    .head_dim = head_dim};
    struct mixed expected = mix_twice(plain_kernels(), &op, &scores);
    const struct locus_kernels *kernels;
    for (int i = 0; (kernels = kernels_at(i)); i++) {
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

/* One row of a block's scores into a softmax that has seen others, or none. */
static void mix_row(const struct locus_kernels *kernels, struct locus_softmax *softmax, float *mix,
                    const float *scores, const float *values, int head_dim)
{
    static const int first[] = {0}, end[] = {LOCUS_KV_BLOCK};
    float own[LOCUS_KV_BLOCK];
    memcpy(own, scores, sizeof own);
    kernels->mix(&(struct locus_mixing){.format = LOCUS_FORMAT_F32,
                                        .softmax = softmax,
                                        .mix = mix,
                                        .scores = own,
                                        .stride = LOCUS_KV_BLOCK,
                                        .first = first,
                                        .end = end,
                                        .values = values,
                                        .n_rows = 1,
                                        .head_dim = head_dim});
    for (int j = 0; j < LOCUS_KV_BLOCK; j++)
        ck_assert_msg(own[j] >= 0 && own[j] <= 1, "%s: weight %d is %g", kernels->name, j,
                      (double)own[j]);
}

/* Keys at -INFINITY, before and after others: as if they weren't there. */
static void check_unseen(const struct locus_kernels *kernels, const float *scores,
                         const float *values)
{
    enum { HEAD_DIM = 16 };
    struct locus_softmax fresh = {.max = -INFINITY}, softmax = fresh, once = fresh;
    float mix[HEAD_DIM] = {0}, mixed_once[HEAD_DIM] = {0}, unseen[LOCUS_KV_BLOCK];
    for (int j = 0; j < LOCUS_KV_BLOCK; j++)
        unseen[j] = -INFINITY;
    mix_row(kernels, &softmax, mix, unseen, values, HEAD_DIM);
    ck_assert_int_eq(memcmp(&softmax, &fresh, sizeof fresh), 0);
    for (int d = 0; d < HEAD_DIM; d++)
        ck_assert_float_eq(mix[d], 0);
    mix_row(kernels, &once, mixed_once, scores, values, HEAD_DIM);
    mix_row(kernels, &softmax, mix, scores, values, HEAD_DIM);
    mix_row(kernels, &softmax, mix, unseen, values, HEAD_DIM);
    ck_assert_int_eq(memcmp(&softmax, &once, sizeof once), 0);
    ck_assert_int_eq(memcmp(mix, mixed_once, sizeof mix), 0);
}

START_TEST(query_whose_keys_are_all_at_minus_infinity_has_no_weights)
{
    struct guarded scores = random_floats(LOCUS_KV_BLOCK, 0);
    struct guarded values = random_floats((size_t)LOCUS_KV_BLOCK * 16, 0);
    const struct locus_kernels *kernels;
    check_unseen(plain_kernels(), floats_of(&scores), floats_of(&values));
    for (int i = 0; (kernels = kernels_at(i)); i++)
        check_unseen(kernels, floats_of(&scores), floats_of(&values));
    release(&scores);
    release(&values);
}
END_TEST

static void add_products(Suite *suite)
{
    TCase *products = tcase_create("products");
    int n_types = 0;
    while (locus_tensor_type_at((size_t)n_types))
        n_types++;
    tcase_add_loop_test(products, products_have_the_bits_of_plain_c, 0, n_types);
    suite_add_tcase(suite, products);
}

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *dispatch = tcase_create("sets");
    tcase_add_loop_test(dispatch, sets_are_those_that_the_cpu_has, 0, N_SETS);
    tcase_add_test(dispatch, sets_are_known_by_name);
    suite_add_tcase(suite, dispatch);
    add_products(suite);
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, blocks_of_activations_have_the_bits_of_plain_c);
    tcase_add_test(rows, halves_have_the_bits_of_plain_c);
    tcase_add_loop_test(rows, running_states_have_the_bits_of_plain_c, 0, N_KINDS);
    tcase_add_loop_test(rows, row_operations_have_the_bits_of_plain_c, 0, N_ROW_OPERATIONS);
    suite_add_tcase(suite, rows);
    TCase *attention = tcase_create("attention");
    tcase_add_loop_test(attention, scores_have_the_bits_of_plain_c, 0, LOCUS_FORMAT_Q8_0 + 1);
    tcase_add_loop_test(attention, mixes_have_the_bits_of_plain_c, 0, LOCUS_FORMAT_Q8_0 + 1);
    tcase_add_test(attention, query_whose_keys_are_all_at_minus_infinity_has_no_weights);
    suite_add_tcase(suite, attention);
    return testing_run(suite);
}
