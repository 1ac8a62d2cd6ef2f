/* What a file must not hold to be a model, and what it may: refusals by name. */
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "locus.h"
#include "locus_position.h"
#include "testing.h"
#include "variant.h"

/* ---- refusals ------------------------------------------------------------------------------ */

static void u32(struct variant *variant, const char *key, uint32_t value)
{
    locus_writer_u32(variant_writer(variant), key, value);
}

static void text(struct variant *variant, const char *key, const char *value)
{
    locus_writer_string(variant_writer(variant), key, value, strlen(value));
}

static void number(struct variant *variant, const char *key, float value)
{
    locus_writer_f32(variant_writer(variant), key, value);
}

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1};

static void replace_u32(struct variant *variant, const char *key, uint32_t value)
{
    variant_drop(variant, key);
    u32(variant, key, value);
}

static void no_architecture(struct variant *variant)
{
    variant_drop(variant, "general.architecture");
}

static void other_architecture(struct variant *variant)
{
    no_architecture(variant);
    text(variant, "general.architecture", "rwkv6");
}

static void no_width(struct variant *variant)
{
    variant_drop(variant, "llama.embedding_length");
}

static void no_layers(struct variant *variant)
{
    replace_u32(variant, "llama.block_count", 0);
}

static void third_layer(struct variant *variant)
{
    replace_u32(variant, "llama.block_count", 3);
}

static void text_for_a_count(struct variant *variant)
{
    variant_drop(variant, "llama.block_count");
    text(variant, "llama.block_count", "2");
}

static void odd_heads(struct variant *variant)
{
    replace_u32(variant, "llama.attention.head_count", 3);
}

static void odd_key_heads(struct variant *variant)
{
    replace_u32(variant, "llama.attention.head_count_kv", 3);
}

/* 2^14 heads of 2^20: the product is 0 in 32 bits. */
static void wrapped_heads(struct variant *variant)
{
    replace_u32(variant, "llama.attention.head_count", 1 << 14);
    replace_u32(variant, "llama.attention.head_count_kv", 1 << 14);
    u32(variant, "llama.attention.key_length", 1 << 20);
}

static void other_value_length(struct variant *variant)
{
    u32(variant, "llama.attention.value_length", 16);
}

static void negative_epsilon(struct variant *variant)
{
    variant_drop(variant, "llama.attention.layer_norm_rms_epsilon");
    locus_writer_f32(variant_writer(variant), "llama.attention.layer_norm_rms_epsilon", -1);
}

static void nan_epsilon(struct variant *variant)
{
    variant_drop(variant, "llama.attention.layer_norm_rms_epsilon");
    locus_writer_f32(variant_writer(variant), "llama.attention.layer_norm_rms_epsilon", NAN);
}

static void no_up(struct variant *variant)
{
    variant_drop(variant, "blk.1.ffn_up.weight");
}

static void no_embedding(struct variant *variant)
{
    variant_drop(variant, "token_embd.weight");
}

static void turned_up(struct variant *variant)
{
    int rows, cols;
    float *values = variant_floats(variant, "blk.1.ffn_up.weight", &rows, &cols);
    no_up(variant);
    variant_add(variant, "blk.1.ffn_up.weight", LOCUS_F32, cols, rows, values);
    free(values);
}

static void long_bias(struct variant *variant)
{
    static const float zeros[64];
    variant_add(variant, "blk.0.attn_output.bias", LOCUS_F32, 0, 33, zeros);
}

static void many_tokens(struct variant *variant)
{
    const char *tokens[300];
    size_t lengths[300];
    for (int i = 0; i < 300; i++)
        tokens[i] = "x", lengths[i] = 1;
    variant_drop(variant, "tokenizer.ggml.tokens");
    locus_writer_strings(variant_writer(variant), "tokenizer.ggml.tokens", tokens, lengths, 300);
}

static void begin_past_the_end(struct variant *variant)
{
    replace_u32(variant, "tokenizer.ggml.bos_token_id", 100000);
}

static void text_for_a_token(struct variant *variant)
{
    variant_drop(variant, "tokenizer.ggml.eos_token_id");
    text(variant, "tokenizer.ggml.eos_token_id", "2");
}

static void message_end_past_the_end(struct variant *variant)
{
    u32(variant, "tokenizer.ggml.eom_token_id", 271);
}

static void ends(struct variant *variant, const int32_t *ids, size_t n)
{
    locus_writer_i32s(variant_writer(variant), "locus.end_token_ids", ids, n);
}

static void listed_end_past_the_end(struct variant *variant)
{
    ends(variant, (const int32_t[]){4, 271}, 2);
}

static void listed_end_below_zero(struct variant *variant)
{
    ends(variant, (const int32_t[]){-1}, 1);
}

static void fractions_for_ends(struct variant *variant)
{
    locus_writer_f32s(variant_writer(variant), "locus.end_token_ids", (const float[]){2}, 1);
}

static void number_for_ends(struct variant *variant)
{
    u32(variant, "locus.end_token_ids", 2);
}

static void number_for_a_position(struct variant *variant)
{
    u32(variant, "locus.position", 1);
}

/* ---- refusals: not a whole model ----------------------------------------------------------- */

static void adapter(struct variant *variant)
{
    text(variant, "general.type", "adapter");
}

static void adapter_without_a_type(struct variant *variant)
{
    text(variant, "adapter.type", "lora");
}

static void imatrix(struct variant *variant)
{
    no_architecture(variant);
    text(variant, "general.type", "imatrix");
}

static void odd_type(struct variant *variant)
{
    text(variant, "general.type", "poem");
}

static void second_part(struct variant *variant)
{
    u32(variant, "split.no", 1);
    u32(variant, "split.count", 3);
}

static void experts(struct variant *variant)
{
    u32(variant, "llama.expert_count", 8);
}

static void old_blocks(struct variant *variant)
{
    variant_convert(variant, LOCUS_Q8_0);
    u32(variant, "general.quantization_version", 1);
}

static void experts_without_weights(struct variant *variant)
{
    experts(variant);
    u32(variant, "llama.expert_used_count", 2);
}

/* 2^10 of 2^22 rows each, of which an int counts none. */
static void wrapped_experts(struct variant *variant)
{
    u32(variant, "llama.expert_count", 1 << 10);
    u32(variant, "llama.expert_used_count", 2);
    u32(variant, "llama.expert_feed_forward_length", 1 << 22);
    variant_add(variant, "blk.0.ffn_gate_exps.weight", LOCUS_F32, 0, 32, ones);
}

static void scaled_experts(struct variant *variant)
{
    number(variant, "llama.expert_weights_scale", 2.5f);
}

static void groups_of_experts(struct variant *variant)
{
    u32(variant, "llama.expert_group_count", 4);
}

/* ---- refusals: what would change the result ------------------------------------------------- */

static void unknown_key(struct variant *variant)
{
    number(variant, "llama.attention.frobnication", 1);
}

static void other_familys_key(struct variant *variant)
{
    number(variant, "locus.embedding_scale", 2);
}

static void not_causal(struct variant *variant)
{
    locus_writer_bool(variant_writer(variant), "llama.attention.causal", false);
}

static void text_for_a_scale(struct variant *variant)
{
    text(variant, "llama.logit_scale", "1");
}

static void text_for_a_pattern(struct variant *variant)
{
    u32(variant, "llama.attention.sliding_window", 8);
    text(variant, "llama.attention.sliding_window_pattern", "1");
}

static void width_without_experts(struct variant *variant)
{
    u32(variant, "llama.expert_feed_forward_length", 32);
}

static void width_of_no_experts(struct variant *variant)
{
    width_without_experts(variant);
    u32(variant, "llama.expert_count", 0);
}

static void fewer_than_named(struct variant *variant)
{
    u32(variant, "llama.vocab_size", 270);
}

static void more_than_rows(struct variant *variant)
{
    u32(variant, "llama.vocab_size", 272);
}

static void text_for_a_size(struct variant *variant)
{
    text(variant, "llama.vocab_size", "271");
}

static void no_size(struct variant *variant)
{
    variant_drop_keys(variant, "tokenizer.");
    u32(variant, "llama.vocab_size", 0);
}

static void numbers_for_a_pattern(struct variant *variant)
{
    const int32_t flags[2] = {1, 0};
    u32(variant, "llama.attention.sliding_window", 8);
    locus_writer_i32s(variant_writer(variant), "llama.attention.sliding_window_pattern", flags, 2);
}

static void long_norm_of_queries(struct variant *variant)
{
    variant_add(variant, "blk.0.attn_q_norm.weight", LOCUS_F32, 0, 16, ones);
}

static void other_layout(struct variant *variant)
{
    text(variant, "llama.tensor_data_layout", "jploski");
}

static void heads_that_differ(struct variant *variant)
{
    const int32_t heads[2] = {2, 1};
    variant_drop(variant, "llama.attention.head_count_kv");
    locus_writer_i32s(variant_writer(variant), "llama.attention.head_count_kv", heads, 2);
}

static void heads_of_three_layers(struct variant *variant)
{
    const int32_t heads[3] = {2, 2, 2};
    variant_drop(variant, "llama.attention.head_count_kv");
    locus_writer_i32s(variant_writer(variant), "llama.attention.head_count_kv", heads, 3);
}

static void no_heads(struct variant *variant)
{
    variant_drop(variant, "llama.attention.head_count_kv");
    locus_writer_i32s(variant_writer(variant), "llama.attention.head_count_kv", NULL, 0);
}

static void norm_of_the_mix(struct variant *variant)
{
    variant_add(variant, "blk.0.attn_sub_norm.weight", LOCUS_F32, 0, 8, ones);
}

static void bias_of_the_embedding(struct variant *variant)
{
    variant_add(variant, "token_embd.bias", LOCUS_F32, 0, 32, ones);
}

static void bias_without_a_head(struct variant *variant)
{
    variant_drop(variant, "output.weight");
    variant_add(variant, "output.bias", LOCUS_F32, 0, 271, (const float[271]){1});
}

/* ALiBi and a table at once, of which one would be left out. */
static void table_beside_rotation(struct variant *variant)
{
    variant_add(variant, "position_embd.weight", LOCUS_F32, 2, 32, (const float[64]){1});
}

static void pattern_without_a_window(struct variant *variant)
{
    u32(variant, "llama.attention.sliding_window_pattern", 2);
}

static void no_epsilon(struct variant *variant)
{
    variant_drop(variant, "llama.attention.layer_norm_rms_epsilon");
}

static void widths_by_layer(struct variant *variant)
{
    const int32_t widths[2] = {32, 32};
    variant_drop(variant, "llama.embedding_length");
    locus_writer_i32s(variant_writer(variant), "llama.embedding_length", widths, 2);
}

static void position_of_the_family(struct variant *variant)
{
    text(variant, "llama.position", "none");
}

static void two_factors(struct variant *variant)
{
    number(variant, "llama.rope.scaling.factor", 4);
    number(variant, "llama.rope.scale_linear", 2);
}

static void gate_of_a_third_layer(struct variant *variant)
{
    variant_add(variant, "blk.2.ffn_gate.weight", LOCUS_F32, 2, 4, ones);
}

/* Each names what was found and what was expected. */
static const struct refusal {
    void (*change)(struct variant *variant);
    const char *says[2];
} refusals[] = {
    {no_architecture, {"general.architecture is missing"}},
    {other_architecture, {"general.architecture is \"rwkv6\"", "expected one of the 43 families"}},
    {no_width, {"llama.embedding_length is missing"}},
    {no_layers, {"llama.block_count is 0", "expected 1 to"}},
    {third_layer, {"blk.2.attn_q.weight is missing"}},
    {text_for_a_count, {"llama.block_count is not a whole number"}},
    {odd_heads, {"llama.embedding_length 32 is no multiple of the 3 heads"}},
    {odd_key_heads, {"head_count 4 is no multiple of head_count_kv 3"}},
    {wrapped_heads, {"16384 heads of 1048576", "expected at most"}},
    {other_value_length, {"value_length is 16", "expected key_length 8"}},
    {negative_epsilon, {"layer_norm_rms_epsilon is -1", "expected a number from 0 to 1e+30"}},
    {nan_epsilon, {"layer_norm_rms_epsilon is nan", "expected a number from 0 to 1e+30"}},
    {no_up, {"blk.1.ffn_up.weight is missing"}},
    {no_embedding, {"token_embd.weight is missing"}},
    {turned_up, {"blk.1.ffn_up.weight is [32, 64]", "expected [64, 32]"}},
    {long_bias, {"blk.0.attn_output.bias is [1, 33]", "expected [1, 32]"}},
    {many_tokens, {"tokenizer.ggml.tokens has 300 entries", "expected 1 to 271"}},
    {begin_past_the_end, {"bos_token_id is 100000", "expected 0 to 270"}},
    {text_for_a_token, {"eos_token_id is not a whole number"}},
    {message_end_past_the_end, {"eom_token_id is 271", "expected 0 to 270"}},
    {listed_end_past_the_end, {"locus.end_token_ids[1] is 271", "expected 0 to 270"}},
    {listed_end_below_zero, {"locus.end_token_ids[0] is -1", "expected 0 to 270"}},
    {fractions_for_ends, {"locus.end_token_ids is not an array of whole numbers"}},
    {number_for_ends, {"locus.end_token_ids is not an array of whole numbers"}},
    {number_for_a_position, {"locus.position is not a text"}},
    {adapter, {"is a LoRA adapter", "expected a whole model"}},
    {adapter_without_a_type, {"is a LoRA adapter", "expected a whole model"}},
    {imatrix, {"is an importance matrix", "expected a whole model"}},
    {odd_type, {"general.type is \"poem\"", "expected \"model\""}},
    {second_part, {"is part 2 of 3 of a split model", "gguf-split --merge"}},
    {old_blocks, {"general.quantization_version is 1", "expected 2 for quantised weights"}},
    {experts, {"llama.expert_used_count is 0", "expected 1 to the 8 experts"}},
    {experts_without_weights,
     {"a mixture of 8 experts, but tensor blk.0.ffn_gate_exps.weight is missing"}},
    {wrapped_experts, {"make 1024 experts, and 0 shared, of width 4194304", "expected at most"}},
    {scaled_experts, {"llama.expert_weights_scale is 2.5, expected 1"}},
    {groups_of_experts, {"llama.expert_group_count is 4, expected 0", "is not supported"}},
    {unknown_key, {"llama.attention.frobnication is a key", "may change the result"}},
    {other_familys_key, {"locus.embedding_scale is a key", "may change the result"}},
    {not_causal, {"llama.attention.causal is 0, expected 1"}},
    {text_for_a_scale, {"llama.logit_scale is not a number"}},
    {numbers_for_a_pattern,
     {"sliding_window_pattern is an array of numbers", "expected a count or a flag"}},
    {text_for_a_pattern, {"sliding_window_pattern is a text", "expected a count or a flag"}},
    {width_without_experts,
     {"llama.expert_count is missing, beside llama.expert_feed_forward_length 32"}},
    {width_of_no_experts,
     {"llama.expert_count is 0, beside llama.expert_feed_forward_length 32", "number of experts"}},
    {fewer_than_named, {"llama.vocab_size is 270, expected 271", "to 271 (the rows of"}},
    {more_than_rows, {"llama.vocab_size is 272, expected 271", "to 271 (the rows of"}},
    {text_for_a_size, {"llama.vocab_size is not a whole number"}},
    {no_size, {"llama.vocab_size is 0, expected 1 to 271 (the rows of token_embd.weight)"}},
    {long_norm_of_queries, {"blk.0.attn_q_norm.weight is [1, 16], expected [1, 32]"}},
    {other_layout, {"llama.tensor_data_layout is \"jploski\"", "expected one of reference"}},
    {heads_that_differ, {"head_count_kv is 2 in layer 0 and 1 in layer 1"}},
    {heads_of_three_layers, {"head_count_kv has 3 entries, expected one a layer (2)"}},
    {no_heads, {"head_count_kv has 0 entries, expected one a layer (2)"}},
    {norm_of_the_mix, {"blk.0.attn_sub_norm.weight is used by no part of the model"}},
    {bias_of_the_embedding, {"token_embd.bias is used by no part of the model"}},
    {bias_without_a_head, {"output.bias is used by no part of the model"}},
    {table_beside_rotation, {"position_embd.weight is of another position scheme", "own, rope"}},
    {pattern_without_a_window, {"sliding_window is missing, beside a pattern"}},
    {no_epsilon, {"layer_norm_rms_epsilon is missing"}},
    {widths_by_layer, {"llama.embedding_length is not a whole number"}},
    {position_of_the_family, {"llama.position is a key of the model"}},
    {two_factors, {"rope.scaling.factor is 4 and rope.scale_linear 2", "expected one factor"}},
    {gate_of_a_third_layer, {"blk.2.ffn_gate.weight is used by no part of the model"}},
};

START_TEST(refusal_names_file_field_found_and_expected)
{
    const struct refusal *refusal = &refusals[_i];
    struct variant *variant = variant_begin(NULL);
    refusal->change(variant);
    const char *path = variant_finish(variant);
    locus_error error = {0};
    ck_assert_ptr_null(locus_model_open(path, &error));
    ck_assert_int_ne(error.status, LOCUS_OK);
    ck_assert_msg(strstr(error.message, "variant.gguf") != NULL, "%s", error.message);
    for (int i = 0; i < 2 && refusal->says[i]; i++)
        ck_assert_msg(strstr(error.message, refusal->says[i]) != NULL, "no \"%s\": %s",
                      refusal->says[i], error.message);
    ck_assert_ptr_null(locus_model_open(path, NULL));
}
END_TEST

START_TEST(no_path_is_an_error)
{
    locus_error error = {0};
    ck_assert_ptr_null(locus_model_open(NULL, &error));
    ck_assert_int_eq(error.status, LOCUS_ERROR_ARGUMENT);
    locus_model_free(NULL);
}
END_TEST

START_TEST(file_without_tensors_is_a_vocabulary_alone)
{
    locus_error error = {0};
    struct locus_checkpoint_writer *writer = locus_writer_create(&error);
    const char *path = testing_temporary("vocabulary.gguf"), *token = "a";
    const size_t length = 1;
    ck_assert_ptr_nonnull(writer);
    locus_writer_string(writer, "general.architecture", "gpt2", 4);
    locus_writer_strings(writer, "tokenizer.ggml.tokens", &token, &length, 1);
    ck_assert_int_eq(locus_writer_finish(writer, path, &error), LOCUS_OK);
    locus_writer_free(writer);
    ck_assert_ptr_null(locus_model_open(path, &error));
    ck_assert_msg(strstr(error.message, "is a vocabulary alone") != NULL, "%s", error.message);
}
END_TEST

/* A scheme of one's own may have tensors that no other scheme knows: whoever runs another is told.
 */
START_TEST(tensor_of_an_unknown_scheme_is_refused_by_the_session)
{
    static const char *const theirs[] = {"position_own.slopes", "blk.N.position_own.slopes", NULL};
    static const char *const names[] = {"position_own.slopes", "blk.1.position_own.slopes",
                                        "blk.2.position_own.slopes", "position_bias.other"};
    const struct locus_position_scheme own = {
        .abi = LOCUS_POSITION_ABI, .name = "own", .summary = "own", .tensors = theirs};
    for (int i = 0; i < 4; i++) {
        locus_error error = {0};
        struct variant *variant = variant_begin(NULL);
        variant_add(variant, names[i], LOCUS_F32, 0, 4, ones);
        locus_model *model = locus_model_open(variant_finish(variant), &error);
        ck_assert_msg(model != NULL, "%s", error.message);
        ck_assert_ptr_null(locus_session_create(model, NULL, &error));
        ck_assert_msg(strstr(error.message, names[i]) != NULL, "%s", error.message);
        const locus_session_params params = {.scheme = &own};
        locus_session *session = locus_session_create(model, &params, &error);
        ck_assert_msg((session != NULL) == (i < 2), "%s: %s", names[i], error.message);
        locus_session_free(session);
        locus_model_free(model);
    }
}
END_TEST

/* ---- what may be there --------------------------------------------------------------------- */

static void heads_by_layer(struct variant *variant)
{
    const int32_t heads[2] = {2, 2};
    variant_drop(variant, "llama.attention.head_count_kv");
    locus_writer_i32s(variant_writer(variant), "llama.attention.head_count_kv", heads, 2);
}

/* What other families have, switched off as files say it; and what says nothing of the model. */
static void switched_off(struct variant *variant)
{
    text(variant, "general.type", "model");
    u32(variant, "split.count", 1);
    u32(variant, "llama.expert_count", 0);
    u32(variant, "llama.expert_used_count", 0);
    locus_writer_bool(variant_writer(variant), "llama.attention.causal", true);
    number(variant, "llama.attn_logit_softcapping", 0);
    number(variant, "llama.final_logit_softcapping", 0);
    number(variant, "llama.logit_scale", 1);
    number(variant, "llama.residual_scale", 1);
    number(variant, "llama.embedding_scale", 1);
    u32(variant, "llama.attention.sliding_window", 0);
    u32(variant, "llama.attention.sliding_window_pattern", 1);
    text(variant, "llama.tensor_data_layout", "Meta AI original pth");
    u32(variant, "llama.vocab_size", 271);
    number(variant, "llama.attention.layer_norm_epsilon", 1e-5f);
    text(variant, "locus.training.command", "none");
    text(variant, "other.thing", "of no family");
}

static void window_without_local_layers(struct variant *variant)
{
    u32(variant, "llama.attention.sliding_window", 2);
    u32(variant, "llama.attention.sliding_window_pattern", 1);
}

/* The same bits as without. */
static const struct {
    void (*change)(struct variant *variant);
    const char *what;
} harmless[] = {
    {heads_by_layer, "one head count a layer"},
    {switched_off, "keys of no effect"},
    {window_without_local_layers, "a window that no layer has"},
};

enum { N_TOKENS = 12, N_VOCAB = 271 };

static void run(const char *path, float *logits)
{
    locus_error error = {0};
    int32_t tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = 5 + 17 * i % 250;
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    locus_session *session = locus_session_create(model, NULL, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_int_eq(locus_session_eval(session, tokens, N_TOKENS, logits, N_TOKENS, &error),
                     LOCUS_OK);
    locus_session_free(session);
    locus_model_free(model);
}

START_TEST(keys_of_no_effect_leave_the_bits)
{
    static float with[N_TOKENS * N_VOCAB], without[N_TOKENS * N_VOCAB];
    struct variant *variant = variant_begin(NULL);
    harmless[_i].change(variant);
    run(variant_finish(variant), with);
    run(variant_finish(variant_begin(NULL)), without);
    ck_assert_msg(!memcmp(with, without, sizeof with), "%s: the bits differ", harmless[_i].what);
}
END_TEST

/* Rows that only round the embedding's up are no tokens. */
START_TEST(rows_past_the_vocabulary_are_no_tokens)
{
    locus_error error = {0};
    struct variant *variant = variant_begin(NULL);
    variant_drop_keys(variant, "tokenizer.");
    u32(variant, "llama.vocab_size", 265);
    locus_model *model = locus_model_open(variant_finish(variant), &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    ck_assert_int_eq(locus_model_info_get(model).n_vocab, 271);
    ck_assert_int_eq(locus_model_info_get(model).n_tokens, 265);
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model refusals");
    TCase *tests = tcase_create("refusals");
    tcase_add_loop_test(tests, refusal_names_file_field_found_and_expected, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(tests, no_path_is_an_error);
    tcase_add_test(tests, file_without_tensors_is_a_vocabulary_alone);
    tcase_add_test(tests, tensor_of_an_unknown_scheme_is_refused_by_the_session);
    tcase_add_test(tests, rows_past_the_vocabulary_are_no_tokens);
    tcase_add_loop_test(tests, keys_of_no_effect_leave_the_bits, 0,
                        sizeof harmless / sizeof *harmless);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
