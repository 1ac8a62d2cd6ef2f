/* The model: what is read from a checkpoint. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostile.h"
#include "locus.h"
#include "testing.h"
#include "variant.h"

static void u32(struct variant *variant, const char *key, uint32_t value)
{
    locus_writer_u32(variant_writer(variant), key, value);
}

/* ---- what is read -------------------------------------------------------------------------- */

static locus_model *open_variant(struct variant *variant)
{
    locus_error error = {0};
    locus_model *model = locus_model_open(variant_finish(variant), &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    return model;
}

START_TEST(info_describes_the_model)
{
    locus_model *model = open_variant(variant_begin(NULL));
    locus_model_info info = locus_model_info_get(model);
    ck_assert_str_eq(info.name, "hostile");
    ck_assert_str_eq(info.family, "llama");
    ck_assert_str_eq(info.weight_type, "F32");
    ck_assert_str_eq(info.position, "rope:pairs=adjacent,dim=8,base=10000");
    ck_assert_int_eq(info.n_embd, 32);
    ck_assert_int_eq(info.n_layer, 2);
    ck_assert_int_eq(info.n_head, 4);
    ck_assert_int_eq(info.n_head_kv, 2);
    ck_assert_int_eq(info.head_dim, 8);
    ck_assert_int_eq(info.n_ff, 64);
    ck_assert_int_eq(info.trained_length, 64);
    ck_assert_int_eq(info.n_vocab, 271);
    ck_assert_int_eq(info.n_tokens, 271);
    ck_assert_int_eq(info.n_parameters, 2 * 271 * 32 + 32 + 2 * (2 * 32 + 3072 + 3 * 2048));
    ck_assert_int_eq(info.bos_token, 1);
    ck_assert_int_eq(info.eos_token, 2);
    ck_assert(locus_model_is_end(model, 2));
    ck_assert(!locus_model_is_end(model, 1) && !locus_model_is_end(model, -1));
    locus_model_free(model);
}
END_TEST

/* Ids of type 5 at the end, and rows of the embedding past the tokens. */
START_TEST(padding_of_the_vocabulary_is_no_token)
{
    struct variant *variant = variant_begin(NULL);
    int32_t types[260];
    const char *tokens[260];
    size_t lengths[260];
    float scores[260] = {0};
    for (int i = 0; i < 260; i++) {
        types[i] = i == 3 || i >= 257 ? 5 : 1;
        tokens[i] = "x", lengths[i] = 1;
    }
    variant_drop(variant, "tokenizer.ggml.token_type");
    variant_drop(variant, "tokenizer.ggml.tokens");
    variant_drop(variant, "tokenizer.ggml.scores");
    locus_writer_i32s(variant_writer(variant), "tokenizer.ggml.token_type", types, 260);
    locus_writer_strings(variant_writer(variant), "tokenizer.ggml.tokens", tokens, lengths, 260);
    locus_writer_f32s(variant_writer(variant), "tokenizer.ggml.scores", scores, 260);
    locus_model *model = open_variant(variant);
    ck_assert_int_eq(locus_model_info_get(model).n_vocab, 271);
    ck_assert_int_eq(locus_model_info_get(model).n_tokens, 257);
    locus_model_free(model);
}
END_TEST

START_TEST(text_begins_with_end_of_text_where_there_is_no_other)
{
    struct variant *variant = variant_begin(NULL);
    variant_drop(variant, "tokenizer.ggml.bos_token_id");
    u32(variant, "tokenizer.ggml.eot_token_id", 5);
    locus_model *model = open_variant(variant);
    ck_assert_int_eq(locus_model_info_get(model).bos_token, 2);
    ck_assert(locus_model_is_end(model, 5) && locus_model_is_end(model, 2));
    locus_model_free(model);
    variant = variant_begin(NULL);
    variant_drop(variant, "tokenizer.ggml.bos_token_id");
    variant_drop(variant, "tokenizer.ggml.eos_token_id");
    model = open_variant(variant);
    ck_assert_int_eq(locus_model_info_get(model).bos_token, -1);
    ck_assert(!locus_model_is_end(model, -1));
    locus_model_free(model);
}
END_TEST

/* Every key that may name one, and a list with a token twice; the sampler keeps away from all. */
START_TEST(file_may_name_many_ends_of_text)
{
    static const int32_t listed[] = {9, 5, 270, 9};
    static const bool is_end[271] = {[2] = true, [5] = true, [7] = true, [9] = true, [270] = true};
    struct variant *variant = variant_begin(NULL);
    u32(variant, "tokenizer.ggml.eot_token_id", 5);
    u32(variant, "tokenizer.ggml.eom_token_id", 7);
    locus_writer_i32s(variant_writer(variant), "locus.end_token_ids", listed, 4);
    locus_model *model = open_variant(variant);
    ck_assert_int_eq(locus_model_info_get(model).eos_token, 2);
    for (int32_t id = 0; id < 271; id++)
        ck_assert_msg(locus_model_is_end(model, id) == is_end[id], "token %d", (int)id);
    ck_assert(!locus_model_is_end(model, 271));
    locus_sampler_params params = locus_sampler_defaults();
    params.temperature = 0;
    params.ignore_end = true;
    locus_sampler *sampler = locus_sampler_create(model, &params, NULL);
    ck_assert_ptr_nonnull(sampler);
    for (int32_t id = 0; id < 271; id++) {
        float logits[271] = {[3] = 1};
        logits[id] = 2;
        int32_t token = locus_sampler_next(sampler, logits, NULL);
        ck_assert_int_eq(token, is_end[id] ? 3 : id);
    }
    locus_sampler_free(sampler);
    locus_model_free(model);
    variant = variant_begin(NULL);
    locus_writer_i32s(variant_writer(variant), "locus.end_token_ids", listed, 0);
    model = open_variant(variant);
    ck_assert(locus_model_is_end(model, 2) && !locus_model_is_end(model, 9));
    locus_model_free(model);
}
END_TEST

/* ---- one model in several shapes ----------------------------------------------------------- */

enum { N_TOKENS = 9 };

/* Logits of a fixed text, all rows: for the caller to free(). */
static float *run(const locus_model *model, size_t *n_bytes)
{
    locus_error error = {0};
    locus_session_params params = {
        .n_context = 32, .n_threads = 1, .cache_type = LOCUS_CACHE_F32, .kernels = "reference"};
    static const int32_t tokens[N_TOKENS] = {1, 260, 100, 269, 3, 17, 200, 5, 5};
    size_t n_vocab = (size_t)locus_model_info_get(model).n_vocab;
    *n_bytes = N_TOKENS * n_vocab * sizeof(float);
    float *logits = malloc(*n_bytes);
    ck_assert_ptr_nonnull(logits);
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_int_eq(locus_session_eval(session, tokens, N_TOKENS, logits, N_TOKENS, &error), 0);
    locus_session_free(session);
    return logits;
}

static float *run_variant(struct variant *variant, size_t *n_bytes)
{
    locus_model *model = open_variant(variant);
    float *logits = run(model, n_bytes);
    locus_model_free(model);
    return logits;
}

static void check_same_bits(struct variant *left, struct variant *right, const char *what)
{
    size_t n_left, n_right;
    float *a = run_variant(left, &n_left), *b = run_variant(right, &n_right);
    ck_assert_uint_eq(n_left, n_right);
    ck_assert_msg(!memcmp(a, b, n_left), "%s: the bits differ", what);
    free(a);
    free(b);
}

static void fuse(struct variant *variant, const char *const names[3], const char *fused)
{
    float all[3 * 32 * 32];
    int n = 0, rows, cols;
    for (int part = 0; part < 3; part++) {
        float *values = variant_floats(variant, names[part], &rows, &cols);
        memcpy(all + n * cols, values, (size_t)(rows * cols) * sizeof *values);
        n += rows;
        free(values);
        variant_drop(variant, names[part]);
    }
    variant_add(variant, fused, LOCUS_F32, n, cols, all);
}

START_TEST(fused_projections_give_the_bits_of_separate_ones)
{
    struct variant *variant = variant_begin(NULL);
    static const char *const names[2][3] = {
        {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"},
        {"blk.1.attn_q.weight", "blk.1.attn_k.weight", "blk.1.attn_v.weight"}};
    fuse(variant, names[0], "blk.0.attn_qkv.weight");
    fuse(variant, names[1], "blk.1.attn_qkv.weight");
    check_same_bits(variant_begin(NULL), variant, "fused");
}
END_TEST

START_TEST(tied_head_gives_the_bits_of_a_copy)
{
    struct variant *tied = variant_begin(NULL), *copied = variant_begin(NULL);
    int rows, cols;
    variant_drop(tied, "output.weight");
    variant_drop(copied, "output.weight");
    float *values = variant_floats(copied, "token_embd.weight", &rows, &cols);
    variant_add(copied, "output.weight", LOCUS_F32, rows, cols, values);
    free(values);
    check_same_bits(tied, copied, "tied");
}
END_TEST

/* Halves are exact floats, and take the same chains. */
START_TEST(halves_give_the_bits_of_the_floats_they_are)
{
    static const enum locus_tensor_type types[] = {LOCUS_F16, LOCUS_BF16};
    for (int i = 0; i < 2; i++) {
        struct variant *halves = variant_begin(NULL);
        variant_convert(halves, types[i]);
        const char *path = variant_finish(halves);
        struct variant *floats = variant_begin(path);
        variant_convert(floats, LOCUS_F32);
        check_same_bits(variant_begin(path), floats, i ? "BF16" : "F16");
    }
}
END_TEST

START_TEST(quantised_weights_stay_near_the_floats_they_are)
{
    static const struct {
        enum locus_tensor_type type;
        const char *name;
    } types[] = {{LOCUS_Q8_0, "Q8_0"}, {LOCUS_Q4_0, "Q4_0"}};
    for (int i = 0; i < 2; i++) {
        struct variant *quantised = variant_begin(NULL);
        variant_convert(quantised, types[i].type);
        const char *path = variant_finish(quantised);
        struct variant *floats = variant_begin(path);
        variant_convert(floats, LOCUS_F32);
        size_t n_bytes;
        locus_model *model = open_variant(variant_begin(path));
        ck_assert_str_eq(locus_model_info_get(model).weight_type, types[i].name);
        float *a = run(model, &n_bytes), *b = run_variant(floats, &n_bytes);
        locus_model_free(model);
        double error = 0, size = 0;
        for (size_t j = 0; j < n_bytes / sizeof *a; j++) {
            error += (double)(a[j] - b[j]) * (double)(a[j] - b[j]);
            size += (double)b[j] * (double)b[j];
        }
        /* Activations have 8 bits: an error of 1/254 a value at most, that adds up over layers. */
        ck_assert_msg(sqrt(error / size) < 0.02, "%s: %g", types[i].name, sqrt(error / size));
        free(a);
        free(b);
    }
}
END_TEST

/* Whoever writes over a file in place doesn't end the processes that have it open as a model. */
START_TEST(an_open_model_needs_its_file_no_more)
{
    enum { N = 3 };
    size_t n_bytes;
    char *bytes = testing_read(testing_golden("perplexity.gguf"), &n_bytes);
    const char *path = testing_temporary("cut.gguf");
    testing_write(path, bytes, n_bytes);
    free(bytes);
    locus_error error = {0};
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    struct testing_model whole = testing_open(testing_golden("perplexity.gguf"));
    ck_assert_int_eq(truncate(path, 0), 0);
    locus_tokenizer *tokenizer = locus_tokenizer_create(model, &error);
    ck_assert_msg(tokenizer != NULL, "%s", error.message);
    const locus_model_info info = locus_model_info_get(model),
                           other = locus_model_info_get(whole.model);
    ck_assert_str_eq(info.name, other.name);
    ck_assert_str_eq(info.position, other.position);
    const size_t row_bytes = (size_t)info.n_vocab * sizeof(float);
    float *rows = malloc(2 * N * row_bytes), *wanted = rows + N * info.n_vocab;
    const int32_t tokens[N] = {1, 5, 2};
    locus_session *session = locus_session_create(model, NULL, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_int_eq(locus_session_eval(session, tokens, N, rows, N, NULL), LOCUS_OK);
    locus_session_free(session);
    session = locus_session_create(whole.model, NULL, NULL);
    ck_assert_int_eq(locus_session_eval(session, tokens, N, wanted, N, NULL), LOCUS_OK);
    ck_assert_int_eq(memcmp(rows, wanted, N * row_bytes), 0);
    for (int32_t token = 0; token < info.n_tokens; token++) {
        size_t n, n_wanted;
        const char *piece = locus_token_piece(tokenizer, -1, token, LOCUS_TEXT_SPECIAL, &n);
        const char *right =
            locus_token_piece(whole.tokenizer, -1, token, LOCUS_TEXT_SPECIAL, &n_wanted);
        ck_assert(n == n_wanted && !memcmp(piece, right, n));
    }
    free(rows);
    locus_session_free(session);
    locus_tokenizer_free(tokenizer);
    locus_model_free(model);
    testing_close(&whole);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model");
    TCase *tests = tcase_create("model");
    tcase_add_test(tests, info_describes_the_model);
    tcase_add_test(tests, padding_of_the_vocabulary_is_no_token);
    tcase_add_test(tests, text_begins_with_end_of_text_where_there_is_no_other);
    tcase_add_test(tests, file_may_name_many_ends_of_text);
    tcase_add_test(tests, fused_projections_give_the_bits_of_separate_ones);
    tcase_add_test(tests, tied_head_gives_the_bits_of_a_copy);
    tcase_add_test(tests, halves_give_the_bits_of_the_floats_they_are);
    tcase_add_test(tests, an_open_model_needs_its_file_no_more);
    tcase_add_test(tests, quantised_weights_stay_near_the_floats_they_are);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
