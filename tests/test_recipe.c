/* Recipes for quantising: names, and the type of each tensor. */
#include "model/recipe.h"

#include <stdio.h>
#include <string.h>

#include "base/tensor_type.h"
#include "testing.h"

static struct locus_tensor tensor_of(const char *name, int64_t cols, int64_t rows)
{
    return (struct locus_tensor){
        .name = name, .type = LOCUS_F32, .n_dims = 2, .dims = {cols, rows, 1, 1}};
}

/* The type that a matrix [rows, cols] gets, by name; "" if it is a fallback's, before it. */
static const char *type_by(const char *recipe, bool pure, struct locus_recipe_facts facts,
                           struct locus_tensor tensor, bool wants_fallback)
{
    bool fallback;
    const struct locus_recipe *found = locus_recipe_find(recipe);
    ck_assert_ptr_nonnull(found);
    const enum locus_tensor_type type = locus_recipe_type(found, pure, &facts, &tensor, &fallback);
    ck_assert_msg(fallback == wants_fallback, "%s", tensor.name);
    return locus_tensor_type_find((uint32_t)type)->name;
}

static const char *type_of(const char *recipe, struct locus_recipe_facts facts, const char *name)
{
    return type_by(recipe, false, facts, tensor_of(name, 1024, 1024), false);
}

/* The numbers are those of the package gguf, LlamaFileType. */
START_TEST(recipes_have_the_file_types_of_gguf)
{
    static const struct {
        const char *name;
        int file_type;
    } cases[] = {{"f32", 0},   {"F16", 1},   {"q4_0", 2},    {"q4_1", 3},    {"q8_0", 7},
                 {"q5_0", 8},  {"q5_1", 9},  {"q2_k", 10},   {"q3_k", 11},   {"q4_k", 14},
                 {"q5_k", 16}, {"Q6_K", 18}, {"q4_k_m", 15}, {"Q5_k_M", 17}, {"bf16", 32}};
    size_t n = 0;
    while (locus_recipe_at(n))
        n++;
    ck_assert_uint_eq(n, sizeof cases / sizeof *cases);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(locus_recipe_find(cases[i].name)->file_type, cases[i].file_type);
    ck_assert_ptr_null(locus_recipe_find("q6_k_m"));
    ck_assert_ptr_null(locus_recipe_find(""));
}
END_TEST

/* Of 32 layers, as llama-quantize has them. */
START_TEST(mixtures_widen_values_and_the_way_out_of_half_of_the_layers)
{
    static const char *const parts[] = {"attn_v", "attn_qkv", "ffn_down", "ffn_down_exps",
                                        "ffn_down_shexp"};
    static const char wider[] = "11110010010010010010010010011111";
    const struct locus_recipe_facts facts = {.n_layers = 32, .own_head = true};
    for (int layer = 0; layer < 32; layer++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, parts[i]);
            const bool wide = wider[layer] == '1';
            ck_assert_str_eq(type_of("q4_k_m", facts, name), wide ? "Q6_K" : "Q4_K");
            ck_assert_str_eq(type_of("q5_k_m", facts, name), wide ? "Q6_K" : "Q5_K");
            ck_assert_str_eq(type_of("q4_k", facts, name), "Q4_K");
        }
}
END_TEST

START_TEST(tensors_have_the_types_of_their_part)
{
    static const struct {
        const char *recipe, *name, *type;
        struct locus_recipe_facts facts;
    } cases[] = {
        /* The head, and the embedding that is it. */
        {"q4_k_m", "output.weight", "Q6_K", {4, 0, true, false}},
        {"q4_k_m", "token_embd.weight", "Q4_K", {4, 0, true, false}},
        {"q4_k_m", "token_embd.weight", "Q6_K", {4, 0, false, false}},
        {"q2_k", "output.weight", "Q6_K", {4, 0, true, false}},
        {"q6_k", "output.weight", "Q6_K", {4, 0, true, false}},
        {"q5_k_m", "output.weight", "Q8_0", {4, 0, true, true}},
        {"q4_0", "token_embd.weight", "Q8_0", {4, 0, true, false}},
        {"q5_1", "output.weight", "Q8_0", {4, 0, true, false}},
        {"f16", "output.weight", "F16", {4, 0, true, false}},
        /* What is widened nowhere. */
        {"q4_k_m", "blk.0.attn_q.weight", "Q4_K", {4, 0, true, false}},
        {"q4_k_m", "blk.0.attn_k.weight", "Q4_K", {4, 0, true, false}},
        {"q4_k_m", "blk.0.attn_output.weight", "Q4_K", {4, 0, true, false}},
        {"q4_k_m", "blk.0.ffn_up.weight", "Q4_K", {4, 0, true, false}},
        {"q4_k_m", "blk.3.ffn_gate_exps.weight", "Q4_K", {4, 60, true, false}},
        {"q6_k", "blk.0.attn_v.weight", "Q6_K", {4, 0, true, false}},
        /* 8 experts. */
        {"q4_k_m", "blk.1.attn_v.weight", "Q8_0", {32, 8, true, false}},
        {"q5_k_m", "blk.1.attn_k.weight", "Q8_0", {32, 8, true, false}},
        {"q4_k_m", "blk.1.attn_output.weight", "Q5_K", {32, 8, true, false}},
        {"q4_k_m", "blk.5.ffn_down_exps.weight", "Q4_K", {32, 8, true, false}},
        /* Falcon. */
        {"q4_k_m", "blk.0.ffn_down.weight", "Q6_K", {32, 0, true, true}},
        {"q4_k_m", "blk.2.ffn_down.weight", "Q5_K", {32, 0, true, true}},
        {"q4_k_m", "blk.4.ffn_down.weight", "Q4_K", {32, 0, true, true}},
        {"q5_k_m", "blk.2.ffn_down.weight", "Q6_K", {32, 0, true, true}},
        /* What is no matrix, or one that stays. */
        {"q4_k_m", "blk.0.attn_norm.weight", "F32", {4, 0, true, false}},
        {"q4_k_m", "blk.0.ffn_gate_inp.weight", "F32", {4, 0, true, false}},
        {"q4_k_m", "position_embd.weight", "F32", {4, 0, true, false}},
        {"q4_k_m", "blk.0.attn_v.bias", "F32", {4, 0, true, false}},
        /* Names that only look like a layer's. */
        {"q4_k_m", "blk.x.attn_v.weight", "Q4_K", {4, 0, true, false}},
        {"q4_k_m", "blk.99999999999.attn_v.weight", "Q4_K", {4, 0, true, false}},
        {"q4_k_m", "attn_v.weight", "Q4_K", {4, 0, true, false}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = type_of(cases[i].recipe, cases[i].facts, cases[i].name);
        ck_assert_msg(!strcmp(found, cases[i].type), "%s of %s: %s, expected %s", cases[i].name,
                      cases[i].recipe, found, cases[i].type);
    }
}
END_TEST

/* 80 layers whose heads share their values: those that have no Q6_K have Q5_K. */
START_TEST(shared_values_of_80_layers_are_widened)
{
    const struct locus_recipe_facts facts = {.n_layers = 80, .own_head = true};
    const char *name = "blk.11.attn_v.weight";
    ck_assert_str_eq(type_by("q4_k_m", false, facts, tensor_of(name, 1024, 128), false), "Q5_K");
    ck_assert_str_eq(type_by("q5_k_m", false, facts, tensor_of(name, 1024, 128), false), "Q5_K");
    ck_assert_str_eq(type_by("q4_k_m", false, facts, tensor_of(name, 1024, 1024), false), "Q4_K");
    name = "blk.12.attn_v.weight";
    ck_assert_str_eq(type_by("q4_k_m", false, facts, tensor_of(name, 1024, 128), false), "Q6_K");
}
END_TEST

START_TEST(pure_is_one_type)
{
    static const char *const tensors[] = {"token_embd.weight", "output.weight",
                                          "blk.0.attn_v.weight", "blk.0.ffn_down.weight"};
    const struct locus_recipe_facts facts = {.n_layers = 4, .n_experts = 8};
    for (size_t i = 0; i < 4; i++) {
        const struct locus_tensor tensor = tensor_of(tensors[i], 512, 8);
        ck_assert_str_eq(type_by("q4_k_m", true, facts, tensor, false), "Q4_K");
        ck_assert_str_eq(type_by("q4_0", true, facts, tensor, false), "Q4_0");
    }
}
END_TEST

START_TEST(rows_of_no_whole_blocks_have_a_type_that_fits)
{
    static const struct {
        const char *recipe, *name;
        int cols;
        const char *type;
    } cases[] = {
        {"q4_k_m", "blk.1.attn_q.weight", 288, "Q5_0"},
        {"q4_k_m", "blk.3.attn_v.weight", 288, "Q8_0"},
        {"q5_k_m", "blk.1.attn_q.weight", 288, "Q5_1"},
        {"q6_k", "blk.1.attn_q.weight", 288, "Q8_0"},
        {"q3_k", "blk.1.attn_q.weight", 288, "Q4_0"},
        {"q2_k", "blk.1.attn_q.weight", 288, "Q4_0"},
        {"q2_k", "output.weight", 288, "Q8_0"},
        {"q4_k_m", "blk.1.attn_q.weight", 80, "F16"},
        {"q8_0", "blk.1.attn_q.weight", 80, "F16"},
        {"q5_1", "blk.1.attn_q.weight", 80, "F16"},
    };
    const struct locus_recipe_facts facts = {.n_layers = 4, .own_head = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct locus_tensor tensor = tensor_of(cases[i].name, cases[i].cols, 8);
        ck_assert_str_eq(type_by(cases[i].recipe, false, facts, tensor, true), cases[i].type);
    }
    /* No fallback: nothing else was wanted. */
    ck_assert_str_eq(type_by("f16", false, facts, tensor_of("a.weight", 7, 7), false), "F16");
}
END_TEST

START_TEST(facts_are_read_from_the_checkpoint)
{
    const char *path = testing_temporary("facts.gguf");
    const int64_t dims[] = {4, 2};
    const float data[8] = {0};
    struct locus_checkpoint_writer *writer = locus_writer_create(NULL);
    locus_writer_string(writer, "general.architecture", "falcon", 6);
    locus_writer_u32(writer, "falcon.expert_count", 8);
    locus_writer_tensor(writer, "blk.11.ffn_up.weight", LOCUS_F32, 2, dims, data);
    locus_writer_tensor(writer, "blk.2.ffn_up.weight", LOCUS_F32, 2, dims, data);
    locus_writer_tensor(writer, "output.weight", LOCUS_F32, 2, dims, data);
    ck_assert_int_eq(locus_writer_finish(writer, path, NULL), LOCUS_OK);
    locus_writer_free(writer);
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(path, NULL);
    const struct locus_recipe_facts facts = locus_recipe_facts_of(checkpoint);
    locus_checkpoint_free(checkpoint);
    ck_assert_int_eq(facts.n_layers, 12);
    ck_assert_int_eq(facts.n_experts, 8);
    ck_assert(facts.own_head && facts.falcon);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recipe");
    TCase *tests = tcase_create("recipes");
    tcase_add_test(tests, recipes_have_the_file_types_of_gguf);
    tcase_add_test(tests, mixtures_widen_values_and_the_way_out_of_half_of_the_layers);
    tcase_add_test(tests, tensors_have_the_types_of_their_part);
    tcase_add_test(tests, shared_values_of_80_layers_are_widened);
    tcase_add_test(tests, pure_is_one_type);
    tcase_add_test(tests, rows_of_no_whole_blocks_have_a_type_that_fits);
    tcase_add_test(tests, facts_are_read_from_the_checkpoint);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
