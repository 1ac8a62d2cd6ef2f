/* Quantising: the rounding of each stored type, and whole checkpoints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "hostile.h"
#include "kernels/weight_type.h"
#include "locus.h"
#include "model/quantize.h"
#include "testing.h"

enum { N_BLOCKS = 200 };

enum { ROW = 256 }; /* a block of the largest kind */

/* Of types whose blocks fit rows of 32. */
static const char *const names[] = {"F16", "BF16", "Q8_0", "Q4_0", "Q5_0", "Q5_1", "Q4_1"};

enum { N_NAMES = sizeof names / sizeof *names };

/* Sums of 12 uniform numbers: near enough to normal. */
static float draw(uint32_t *state)
{
    float sum = -6;
    for (int i = 0; i < 12; i++) {
        *state = *state * 1664525u + 1013904223u;
        sum += (float)(*state >> 8) / 16777216.0f;
    }
    return sum;
}

static double squared_error(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum;
}

START_TEST(halves_are_the_nearest)
{
    float x[LOCUS_QUANT_BLOCK], back[LOCUS_QUANT_BLOCK];
    unsigned char row[4 * LOCUS_QUANT_BLOCK];
    uint32_t state = 7;
    for (int b = 0; b < N_BLOCKS; b++) {
        for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
            x[i] = draw(&state) * 0.03f;
        locus_encode_row(row, LOCUS_F16, x, LOCUS_QUANT_BLOCK);
        locus_dequantize_row(back, row, LOCUS_F16, LOCUS_QUANT_BLOCK);
        for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
            ck_assert_float_le(fabsf(back[i] - x[i]), fabsf(x[i]) / 2048 + 3e-8f);
        locus_encode_row(row, LOCUS_BF16, x, LOCUS_QUANT_BLOCK);
        locus_dequantize_row(back, row, LOCUS_BF16, LOCUS_QUANT_BLOCK);
        for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
            ck_assert_float_le(fabsf(back[i] - x[i]), fabsf(x[i]) / 256);
    }
}
END_TEST

/* Where a step of the block's own leads: to the nearest level, or to the last on that side. */
START_TEST(each_value_of_a_block_has_its_nearest_level)
{
    float x[LOCUS_QUANT_BLOCK];
    struct locus_q8_0 q8;
    struct locus_q4_0 q4;
    uint32_t state = 5;
    for (int b = 0; b < N_BLOCKS; b++) {
        for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
            x[i] = draw(&state) * 0.03f;
        locus_encode_row(&q8, LOCUS_Q8_0, x, LOCUS_QUANT_BLOCK);
        locus_encode_row(&q4, LOCUS_Q4_0, x, LOCUS_QUANT_BLOCK);
        const float scale8 = locus_f16_to_float(q8.scale), scale4 = locus_f16_to_float(q4.scale);
        for (int i = 0; i < LOCUS_QUANT_BLOCK; i++) {
            const int half = LOCUS_QUANT_BLOCK / 2;
            const int level4 = i < half ? (q4.q[i] & 15) - 8 : (q4.q[i - half] >> 4) - 8;
            const float exact8 = fminf(fmaxf(x[i] / scale8, -127), 127);
            const float exact4 = fminf(fmaxf(x[i] / scale4, -8), 7);
            ck_assert_float_le(fabsf(exact8 - q8.q[i]), 0.5001f);
            ck_assert_float_le(fabsf(exact4 - (float)level4), 0.5001f);
        }
    }
}
END_TEST

/* The usual rules bring the extreme value to level 127, or to -8, exactly. */
static void usual_rule(float *back, const float *x, enum locus_tensor_type type)
{
    const bool q8 = type == LOCUS_Q8_0;
    float m = 0;
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
        if (fabsf(x[i]) > fabsf(m)) m = x[i];
    float scale = locus_f16_to_float(locus_float_to_f16(q8 ? fabsf(m) / 127 : m / -8));
    for (int i = 0; i < LOCUS_QUANT_BLOCK; i++) {
        float level = scale != 0 ? roundf(x[i] / scale) : 0;
        back[i] = scale * fminf(fmaxf(level, q8 ? -127 : -8), q8 ? 127 : 7);
    }
}

START_TEST(blocks_lose_less_than_by_the_usual_rule)
{
    static const struct {
        enum locus_tensor_type type;
        double share; /* of its squared error, over all blocks */
    } cases[] = {{LOCUS_Q8_0, 0.82}, {LOCUS_Q4_0, 0.9}};
    const enum locus_tensor_type type = cases[_i].type;
    float x[LOCUS_QUANT_BLOCK], back[LOCUS_QUANT_BLOCK], usual[LOCUS_QUANT_BLOCK];
    unsigned char row[2 * LOCUS_QUANT_BLOCK];
    uint32_t state = 11;
    double sum = 0, usual_sum = 0;
    for (int b = 0; b < N_BLOCKS; b++) {
        for (int i = 0; i < LOCUS_QUANT_BLOCK; i++)
            x[i] = draw(&state);
        locus_encode_row(row, type, x, LOCUS_QUANT_BLOCK);
        locus_dequantize_row(back, row, type, LOCUS_QUANT_BLOCK);
        usual_rule(usual, x, type);
        double error = squared_error(back, x, LOCUS_QUANT_BLOCK);
        double usual_error = squared_error(usual, x, LOCUS_QUANT_BLOCK);
        ck_assert_double_le(error, usual_error * 1.0001);
        sum += error, usual_sum += usual_error;
    }
    ck_assert_double_lt(sum, cases[_i].share * usual_sum);
}
END_TEST

START_TEST(blocks_of_zeros_equal_values_and_subnormals_survive)
{
    const float values[] = {0, 1, -1, 65504, 1e-42f, -3e-8f};
    float x[ROW], back[ROW];
    unsigned char row[4 * ROW];
    float value = values[_i];
    for (int i = 0; i < ROW; i++)
        x[i] = value;
    const struct locus_recipe *recipe;
    for (size_t t = 0; (recipe = locus_recipe_at(t)); t++) {
        locus_encode_row(row, recipe->type, x, ROW);
        locus_dequantize_row(back, row, recipe->type, ROW);
        for (int i = 0; i < ROW; i++)
            ck_assert_msg(fabsf(back[i] - value) <= fabsf(value) / 200 + 6e-8f, "%s: %g, not %g",
                          recipe->name, (double)back[i], (double)value);
    }
}
END_TEST

START_TEST(blocks_without_a_scale_become_nan)
{
    const float values[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f};
    float x[ROW] = {1, 2, 3}, back[ROW];
    unsigned char row[2 * ROW];
    x[_i] = values[_i];
    const struct locus_recipe *recipe;
    for (size_t t = 0; (recipe = locus_recipe_at(t)); t++) {
        const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)recipe->type);
        if (info->block_values == 1) continue;
        locus_encode_row(row, recipe->type, x, ROW);
        locus_dequantize_row(back, row, recipe->type, ROW);
        for (int i = 0; i < info->block_values; i++)
            ck_assert_msg(isnan(back[i]), "%s, %g in a block: value %d is %g", recipe->name,
                          (double)values[_i], i, (double)back[i]);
    }
}
END_TEST

/* Logits of a few tokens. */
static void run_model(const char *path, float *logits, int n_vocab)
{
    static const int32_t tokens[] = {1, 5, 40, 7, 100, 33};
    locus_error error = {0};
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model, "%s", error.message);
    ck_assert_int_eq(locus_model_info_get(model).n_vocab, n_vocab);
    locus_session *session = locus_session_create(model, NULL, &error);
    ck_assert_msg(session, "%s", error.message);
    ck_assert_msg(!locus_session_eval(session, tokens, 6, NULL, 0, &error), "%s", error.message);
    memcpy(logits, locus_session_logits(session), (size_t)n_vocab * sizeof *logits);
    locus_session_free(session);
    locus_model_free(model);
}

static int vocabulary(const char *path)
{
    locus_error error;
    locus_model *model = locus_model_open(path, &error);
    int n = locus_model_info_get(model).n_vocab;
    locus_model_free(model);
    return n;
}

START_TEST(a_whole_checkpoint_runs_in_every_type)
{
    static const double limits[N_NAMES] = {2e-3, 2e-2, 3e-2, 0.35, 0.2, 0.2, 0.35};
    char in[256];
    snprintf(in, sizeof in, "%s", testing_temporary("in.gguf"));
    const char *out = testing_temporary("out.gguf");
    hostile_write_checkpoint(in);
    int n = vocabulary(in);
    float *exact = malloc((size_t)n * sizeof *exact), *got = malloc((size_t)n * sizeof *got);
    run_model(in, exact, n);
    double norm = 0;
    for (int i = 0; i < n; i++)
        norm += (double)exact[i] * (double)exact[i];
    struct locus_quantize job = {.recipe = locus_recipe_find(names[_i]), .n_threads = 2};
    locus_error error = {0};
    ck_assert_msg(!locus_quantize(&job, in, out, &error), "%s", error.message);
    ck_assert_uint_lt(job.bytes_after, job.bytes_before);
    run_model(out, got, n);
    double relative = sqrt(squared_error(exact, got, (size_t)n) / norm);
    ck_assert_double_lt(relative, limits[_i]);
    ck_assert_double_gt(relative, 0);
    free(exact);
    free(got);
}
END_TEST

START_TEST(as_f32_a_checkpoint_has_the_very_values)
{
    char in[256], small[256];
    snprintf(in, sizeof in, "%s", testing_temporary("in.gguf"));
    snprintf(small, sizeof small, "%s", testing_temporary("small.gguf"));
    const char *out = testing_temporary("out.gguf");
    hostile_write_checkpoint(in);
    struct locus_quantize down = {.recipe = locus_recipe_find(names[_i])},
                          up = {.recipe = locus_recipe_find("F32")};
    ck_assert_int_eq(locus_quantize(&down, in, small, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_quantize(&up, small, out, NULL), LOCUS_OK);
    struct locus_checkpoint *before = locus_checkpoint_open(small, NULL);
    struct locus_checkpoint *after = locus_checkpoint_open(out, NULL);
    ck_assert(before && after);
    ck_assert_uint_eq(locus_checkpoint_n_tensors(before), locus_checkpoint_n_tensors(after));
    for (size_t i = 0; i < locus_checkpoint_n_tensors(before); i++) {
        const struct locus_tensor *from = locus_checkpoint_tensor_at(before, i);
        const struct locus_tensor *to = locus_checkpoint_tensor_at(after, i);
        const size_t n = (size_t)(to->dims[0] * to->dims[1] * to->dims[2] * to->dims[3]);
        ck_assert_int_eq(to->type, LOCUS_F32);
        float *values = malloc(n * sizeof *values);
        locus_dequantize_row(values, from->data, from->type, n);
        ck_assert_mem_eq(values, to->data, n * sizeof *values);
        free(values);
    }
    locus_checkpoint_free(before);
    locus_checkpoint_free(after);
}
END_TEST

/* Experts are matrices; norms of each head, routers and vectors stay as they are. */
START_TEST(experts_are_quantised_and_norms_and_routers_are_not)
{
    static const struct {
        const char *model, *tensor;
        enum locus_tensor_type type;
    } cases[] = {
        {"mixtral-experts.gguf", "blk.0.ffn_gate_exps.weight", LOCUS_Q8_0},
        {"mixtral-experts.gguf", "blk.1.ffn_up_exps.weight", LOCUS_Q8_0},
        {"mixtral-experts.gguf", "blk.0.ffn_gate_inp.weight", LOCUS_F32},
        {"mixtral-experts.gguf", "blk.0.attn_norm.weight", LOCUS_F32},
        {"stablelm-head-norms.gguf", "blk.0.attn_q_norm.weight", LOCUS_F32},
        {"stablelm-head-norms.gguf", "blk.0.attn_q.weight", LOCUS_Q8_0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_quantize job = {.recipe = locus_recipe_find("Q8_0"), .n_threads = 1};
        const char *out = testing_temporary("experts.gguf");
        locus_error error = {0};
        ck_assert_msg(!locus_quantize(&job, testing_golden(cases[i].model), out, &error), "%s",
                      error.message);
        struct locus_checkpoint *checkpoint = locus_checkpoint_open(out, &error);
        ck_assert_msg(checkpoint != NULL, "%s", error.message);
        const struct locus_tensor *tensor = locus_checkpoint_tensor(checkpoint, cases[i].tensor);
        ck_assert_msg(tensor && tensor->type == cases[i].type, "%s", cases[i].tensor);
        locus_checkpoint_free(checkpoint);
        locus_model *model = locus_model_open(out, &error);
        ck_assert_msg(model != NULL, "%s", error.message);
        locus_model_free(model);
    }
}
END_TEST

START_TEST(a_file_may_be_quantised_in_its_own_place)
{
    const char *path = testing_temporary("same.gguf");
    hostile_write_checkpoint(path);
    struct locus_quantize job = {.recipe = locus_recipe_find("Q8_0")};
    locus_error error = {0};
    ck_assert_msg(!locus_quantize(&job, path, path, &error), "%s", error.message);
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model, "%s", error.message);
    ck_assert_str_eq(locus_model_info_get(model).weight_type, "Q8_0");
    locus_model_free(model);
}
END_TEST

/* How often a job was asked whether to stop, and when it was told so. Tests run one at a time. */
static int n_asked, stop_at;

static bool asked(void)
{
    return ++n_asked == stop_at;
}

START_TEST(a_stopped_job_leaves_what_was_there)
{
    char in[256];
    snprintf(in, sizeof in, "%s", testing_temporary("in.gguf"));
    const char *out = testing_temporary("old.gguf");
    hostile_write_checkpoint(in);
    testing_write(out, "old", 3);
    struct locus_quantize job = {.recipe = locus_recipe_find("Q8_0"), .stopped = asked};
    locus_error error = {0};
    bool written = false;
    for (stop_at = 1; !written; stop_at++) {
        size_t n;
        ck_assert_int_eq(testing_count_files(out), 1);
        char *bytes = testing_read(out, &n);
        ck_assert_str_eq(bytes, "old");
        free(bytes);
        n_asked = 0;
        written = locus_quantize(&job, in, out, &error) == LOCUS_OK;
        ck_assert_msg(written || strstr(error.message, "stopped before"), "%s", error.message);
    }
    /* Once a tensor is converted, and once it is written. */
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(out, NULL);
    ck_assert_int_eq(stop_at - 2, 2 * (int)locus_checkpoint_n_tensors(checkpoint));
    locus_checkpoint_free(checkpoint);
}
END_TEST

START_TEST(a_value_that_does_not_fit_is_refused_and_leaves_no_file)
{
    const float values[] = {NAN, INFINITY, 1e30f};
    char in[256];
    snprintf(in, sizeof in, "%s", testing_temporary("bad.gguf"));
    const char *out = testing_temporary("none.gguf");
    float data[2 * LOCUS_QUANT_BLOCK] = {0};
    const int64_t dims[] = {LOCUS_QUANT_BLOCK, 2};
    data[40] = values[_i];
    struct locus_checkpoint_writer *writer = locus_writer_create(NULL);
    locus_writer_string(writer, "general.architecture", "locus", 5);
    locus_writer_tensor(writer, "blk.0.ffn_up.weight", LOCUS_F32, 2, dims, data);
    ck_assert_int_eq(locus_writer_finish(writer, in, NULL), LOCUS_OK);
    locus_writer_free(writer);
    for (size_t t = 0; t < N_NAMES; t++) {
        struct locus_quantize job = {.recipe = locus_recipe_find(names[t])};
        locus_error error = {0};
        if (!strcmp(names[t], "BF16") && _i == 2) continue; /* that one it can hold */
        ck_assert_int_eq(locus_quantize(&job, in, out, &error), LOCUS_ERROR_NUMERIC);
        ck_assert_ptr_nonnull(strstr(error.message, "blk.0.ffn_up.weight"));
        ck_assert_int_ne(access(out, F_OK), 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quantize");
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, halves_are_the_nearest);
    tcase_add_test(rows, each_value_of_a_block_has_its_nearest_level);
    tcase_add_loop_test(rows, blocks_lose_less_than_by_the_usual_rule, 0, 2);
    tcase_add_loop_test(rows, blocks_of_zeros_equal_values_and_subnormals_survive, 0, 6);
    tcase_add_loop_test(rows, blocks_without_a_scale_become_nan, 0, 5);
    suite_add_tcase(suite, rows);
    TCase *files = tcase_create("files");
    tcase_add_loop_test(files, a_whole_checkpoint_runs_in_every_type, 0, N_NAMES);
    tcase_add_loop_test(files, as_f32_a_checkpoint_has_the_very_values, 0, N_NAMES);
    tcase_add_test(files, experts_are_quantised_and_norms_and_routers_are_not);
    tcase_add_test(files, a_file_may_be_quantised_in_its_own_place);
    tcase_add_test(files, a_stopped_job_leaves_what_was_there);
    tcase_add_loop_test(files, a_value_that_does_not_fit_is_refused_and_leaves_no_file, 0, 3);
    suite_add_tcase(suite, files);
    return testing_run(suite);
}
