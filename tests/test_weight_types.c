/* Types of weights: rows of every table, blocks of any bytes as the package gguf reads them, and
 * whole models in each type beside the floats that they are.
 */
#include "kernels/weight_type.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "checkpoint/checkpoint.h"
#include "locus.h"
#include "model/quantize.h"
#include "products.h"
#include "testing.h"

/* ---- tables ------------------------------------------------------------------------------- */

START_TEST(a_type_that_is_read_has_a_row)
{
    for (uint32_t type = 0; type < 100; type++) {
        const struct locus_tensor_type_info *info = locus_tensor_type_find(type);
        const struct locus_weight_type *row = locus_weight_type((enum locus_tensor_type)type);
        ck_assert((info != NULL) == (row != NULL));
        if (!info) continue;
        const struct locus_traits form = locus_traits_of(info->type);
        ck_assert_int_eq(row->read != NULL, info->block_values > 1);
        ck_assert_int_eq(row->dequantise != NULL, info->block_values == 1);
        ck_assert_int_eq(form.n_scales > 0, info->block_values > 1);
        ck_assert_int_eq(info->block_values % form.columns, form.columns == 2 ? 1 : 0);
        if (row->encode) ck_assert_float_gt(row->limit, 0);
    }
}
END_TEST

/* A model in memory is about as large as its file. Q3_K and Q2_K are widened to nibbles, and
 * MXFP4's scales to floats. */
START_TEST(panels_are_hardly_larger_than_stored_rows)
{
    const struct locus_tensor_type_info *info = locus_tensor_type_at((size_t)_i);
    const int cols = 4096;
    const size_t stored = LOCUS_PANEL * locus_tensor_row_bytes(info->type, (size_t)cols);
    const size_t packed = locus_panel_bytes(locus_traits_of(info->type), cols);
    const bool widened = info->type == LOCUS_Q3_K || info->type == LOCUS_Q2_K;
    if (!widened) ck_assert_uint_le(packed, stored * (info->type == LOCUS_MXFP4 ? 118 : 103) / 100);
    ck_assert_uint_le(packed, 2 * stored);
}
END_TEST

START_TEST(types_that_are_written_are_those_with_an_encoder)
{
    for (size_t t = 0; locus_tensor_type_at(t); t++) {
        const struct locus_tensor_type_info *info = locus_tensor_type_at(t);
        const struct locus_recipe *recipe = locus_recipe_find(info->name);
        ck_assert_msg((recipe != NULL) == (locus_weight_type(info->type)->encode != NULL), "%s",
                      info->name);
        if (recipe) ck_assert_int_eq(recipe->type, info->type);
    }
}
END_TEST

/* ---- blocks ------------------------------------------------------------------------------- */

static uint64_t output_of_splitmix64(uint64_t index)
{
    uint64_t x = (index + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* The SHA-256 of the values of n_blocks blocks, in hexadecimal: see scripts/golden_blocks.py. */
static void digest_of(const struct locus_tensor_type_info *info, size_t n_blocks, char text[65])
{
    const size_t n_bytes = n_blocks * (size_t)info->block_bytes;
    const size_t n_values = n_blocks * (size_t)info->block_values;
    uint64_t *stored = calloc(n_bytes / 8 + 1, sizeof *stored);
    float *values = calloc(n_values, sizeof *values);
    uint8_t digest[32];
    ck_assert(stored && values);
    for (size_t i = 0; i <= n_bytes / 8; i++)
        stored[i] = output_of_splitmix64(i);
    locus_dequantize_row(values, stored, info->type, n_values);
    for (size_t i = 0; i < n_values; i++)
        if (isnan(values[i])) values[i] = locus_float_of(0x7FC00000);
    locus_sha256(values, n_values * sizeof *values, digest);
    for (int i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    free(stored);
    free(values);
}

START_TEST(blocks_are_what_gguf_reads)
{
    char line[256], name[16], wanted[65], found[65];
    unsigned n_blocks, n_types = 0;
    const char *other = getenv("LOCUS_TEST_BLOCKS");
    FILE *file = fopen(other ? other : testing_golden("weight_types.csv"), "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%15[^,],%u,%64s", name, &n_blocks, wanted) != 3) continue;
        const struct locus_tensor_type_info *info = NULL;
        for (size_t t = 0; (info = locus_tensor_type_at(t)) && strcmp(info->name, name);)
            t++;
        ck_assert_msg(info != NULL, "%s is not read", name);
        digest_of(info, n_blocks, found);
        ck_assert_msg(!strcmp(found, wanted), "%u blocks of %s: %s, expected %s", n_blocks, name,
                      found, wanted);
        n_types++;
    }
    fclose(file);
    for (size_t t = 0; locus_tensor_type_at(t); t++)
        n_types -= locus_tensor_type_at(t)->block_values > 1;
    ck_assert_uint_eq(n_types, 0); /* a line a type */
}
END_TEST

/* ---- models ------------------------------------------------------------------------------- */

enum { WIDTH = 256, N_VOCAB = 40, N_TOKENS = 20, TRAINED = 32 };

static const struct {
    const char *name;
    int rows; /* 0: a vector */
} tensors[] = {{"token_embd.weight", N_VOCAB},   {"blk.0.attn_norm.weight", 0},
               {"blk.0.attn_q.weight", WIDTH},   {"blk.0.attn_k.weight", WIDTH},
               {"blk.0.attn_v.weight", WIDTH},   {"blk.0.attn_output.weight", WIDTH},
               {"blk.0.ffn_norm.weight", 0},     {"blk.0.ffn_up.weight", WIDTH},
               {"blk.0.ffn_down.weight", WIDTH}, {"output_norm.weight", 0},
               {"position_embd.weight", TRAINED}};

enum { N_TENSORS = sizeof tensors / sizeof *tensors };

/* Every tensor of that type: matrices, the embedding, a scheme's table, the weights of norms. As
 * floats, if asked for: what the type's blocks stand for. */
static const char *write_model(enum locus_tensor_type type, bool as_floats)
{
    const char *path = testing_temporary(as_floats ? "floats.gguf" : "blocks.gguf");
    struct locus_checkpoint_writer *writer = locus_writer_create(NULL);
    static const char *const texts[][2] = {{"general.architecture", "locus"},
                                           {"locus.norm", "rmsnorm"},
                                           {"locus.activation", "relu"},
                                           {"locus.position", "learned"}};
    const struct {
        const char *key;
        uint32_t value;
    } counts[] = {{"locus.context_length", TRAINED},
                  {"locus.embedding_length", WIDTH},
                  {"locus.block_count", 1},
                  {"locus.feed_forward_length", WIDTH},
                  {"locus.attention.head_count", 4}};
    void *data[N_TENSORS];
    for (size_t i = 0; i < 4; i++)
        locus_writer_string(writer, texts[i][0], texts[i][1], strlen(texts[i][1]));
    for (size_t i = 0; i < 5; i++)
        locus_writer_u32(writer, counts[i].key, counts[i].value);
    /* Weights of any size would have each token see one other, and errors decide which. */
    locus_writer_f32(writer, "locus.attention.scale", 1e-20f);
    random_seed((uint64_t)type + 7);
    for (int i = 0; i < N_TENSORS; i++) {
        const int n_rows = tensors[i].rows ? tensors[i].rows : 1;
        const int64_t dims[] = {WIDTH, n_rows};
        const size_t n_values = (size_t)n_rows * WIDTH;
        unsigned char *stored = malloc(locus_tensor_row_bytes(type, n_values));
        float *floats = malloc(n_values * sizeof *floats);
        ck_assert(stored && floats);
        random_row(stored, type, (int)n_values, 0);
        locus_dequantize_row(floats, stored, type, n_values);
        data[i] = as_floats ? (void *)floats : stored;
        free(as_floats ? (void *)stored : floats);
        locus_writer_tensor(writer, tensors[i].name, as_floats ? LOCUS_F32 : type,
                            tensors[i].rows ? 2 : 1, dims, data[i]);
    }
    ck_assert_int_eq(locus_writer_finish(writer, path, NULL), LOCUS_OK);
    locus_writer_free(writer);
    for (int i = 0; i < N_TENSORS; i++)
        free(data[i]);
    return path;
}

/* Logits of all tokens [N_TOKENS, N_VOCAB]. */
static void run_model(const char *path, const char *kernels, const char *type, float *logits)
{
    locus_error error = {0};
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    ck_assert_str_eq(locus_model_info_get(model).weight_type, type);
    const locus_session_params params = {
        .n_context = N_TOKENS, .cache_type = LOCUS_CACHE_F32, .kernels = kernels};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    int32_t tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = 7 * i % N_VOCAB;
    ck_assert_msg(!locus_session_eval(session, tokens, N_TOKENS, logits, N_TOKENS, &error), "%s",
                  error.message);
    locus_session_free(session);
    locus_model_free(model);
}

START_TEST(a_model_in_each_type_is_near_its_floats)
{
    static float found[N_TOKENS * N_VOCAB], wanted[N_TOKENS * N_VOCAB];
    const struct locus_tensor_type_info *info = locus_tensor_type_at((size_t)_i);
    run_model(write_model(info->type, true), NULL, "F32", wanted);
    const char *path = write_model(info->type, false), *kernels;
    run_model(path, "reference", info->name, found);
    double error = 0, size = 0;
    for (int i = 0; i < N_TOKENS * N_VOCAB; i++) {
        error += pow((double)found[i] - (double)wanted[i], 2);
        size += pow((double)wanted[i], 2);
    }
    /* Quantised weights meet activations of 8 bits. */
    ck_assert_double_gt(size, 0);
    ck_assert_msg(sqrt(error / size) < (info->block_values > 1 ? 0.05 : 1e-6), "%s: %g", info->name,
                  sqrt(error / size));
    for (int k = 0; (kernels = locus_kernels_name(k)); k++) {
        if (info->type == LOCUS_BF16 && strstr(kernels, "bf16")) continue;
        run_model(path, kernels, info->name, wanted);
        ck_assert_msg(!memcmp(found, wanted, sizeof found), "%s, %s", info->name, kernels);
    }
}
END_TEST

/* Quantised by that many threads. */
static char *quantised(const struct locus_recipe *recipe, int n_threads, size_t *n_bytes)
{
    char in[256];
    snprintf(in, sizeof in, "%s", write_model(LOCUS_F32, false));
    const char *out = testing_temporary("quantised.gguf");
    struct locus_quantize job = {.recipe = recipe, .n_threads = n_threads};
    locus_error error = {0};
    ck_assert_msg(!locus_quantize(&job, in, out, &error), "%s", error.message);
    for (int t = 0; t < LOCUS_N_TENSOR_TYPES; t++)
        ck_assert_int_eq(job.n_fallbacks[t], 0);
    return testing_read(out, n_bytes);
}

START_TEST(a_model_quantised_by_each_recipe_is_near_its_floats)
{
    static float found[N_TOKENS * N_VOCAB], wanted[N_TOKENS * N_VOCAB];
    const struct locus_recipe *recipe = locus_recipe_at((size_t)_i);
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)recipe->type);
    size_t n_one, n_many;
    char *many = quantised(recipe, 3, &n_many), *one = quantised(recipe, 1, &n_one);
    ck_assert_uint_eq(n_one, n_many);
    ck_assert_mem_eq(one, many, n_one);
    const char *path = testing_temporary("quantised.gguf");
    testing_write(path, one, n_one);
    free(one);
    free(many);
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(path, NULL);
    int64_t file_type;
    ck_assert(locus_checkpoint_int(checkpoint, "general.file_type", &file_type));
    ck_assert_int_eq(file_type, recipe->file_type);
    locus_checkpoint_free(checkpoint);
    run_model(write_model(LOCUS_F32, false), NULL, "F32", wanted);
    run_model(path, "reference", info->name, found);
    double error = 0, size = 0;
    for (int i = 0; i < N_TOKENS * N_VOCAB; i++) {
        error += pow((double)found[i] - (double)wanted[i], 2);
        size += pow((double)wanted[i], 2);
    }
    const double bits = 8.0 * info->block_bytes / info->block_values;
    const double most = 3 * exp2(-bits) + 0.012;
    ck_assert_double_gt(size, 0);
    ck_assert_msg(sqrt(error / size) < most, "%s: %g, expected %g", recipe->name,
                  sqrt(error / size), most);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weight types");
    TCase *tests = tcase_create("types");
    int n_types = 0, n_recipes = 0;
    while (locus_tensor_type_at((size_t)n_types))
        n_types++;
    while (locus_recipe_at((size_t)n_recipes))
        n_recipes++;
    tcase_add_test(tests, a_type_that_is_read_has_a_row);
    tcase_add_test(tests, types_that_are_written_are_those_with_an_encoder);
    tcase_add_test(tests, blocks_are_what_gguf_reads);
    tcase_add_loop_test(tests, panels_are_hardly_larger_than_stored_rows, 0, n_types);
    tcase_add_loop_test(tests, a_model_in_each_type_is_near_its_floats, 0, n_types);
    tcase_add_loop_test(tests, a_model_quantised_by_each_recipe_is_near_its_floats, 0, n_recipes);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
