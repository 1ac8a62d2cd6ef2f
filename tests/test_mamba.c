/* What selective scans alone have; that a text's bits are the same however it is cut is
 * test_running.c's, and that they are transformers', test_golden.c's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/map.h"
#include "hostile.h"
#include "mixed.h"
#include "model/quantize.h"
#include "testing.h"

static const struct mixed alone = {"mmmm", false}, beside = {"mama", true};

/* ---- values --------------------------------------------------------------------------------- */

/* As Falcon Mamba has it. */
START_TEST(normed_steps_are_those_of_the_plain_pass)
{
    struct variant *variant = variant_begin(mixed_write(_i == 0 ? &alone : &beside));
    locus_writer_bool(variant_writer(variant), "locus.ssm.dt_b_c_rms", true);
    locus_writer_f32(variant_writer(variant), "locus.ssm.norm_epsilon", 0.01f);
    locus_model *model = mixed_open_path(variant_finish(variant));
    ck_assert_double_le(mixed_off_plain(model), 5e-5);
    locus_model_free(model);
}
END_TEST

/* As Jamba has them. */
START_TEST(norms_inside_a_scan_may_have_weights)
{
    static const struct {
        const char *name;
        int n;
    } norms[] = {
        {"ssm_dt_norm", MIXED_RANK}, {"ssm_b_norm", MIXED_STATE}, {"ssm_c_norm", MIXED_STATE}};
    struct variant *variant = variant_begin(mixed_write(&alone));
    float weights[MIXED_RANK];
    for (int i = 0; i < MIXED_RANK; i++)
        weights[i] = 0.5f + 0.03f * (float)i;
    char names[3 * MIXED_LAYERS][64];
    for (int i = 0; i < 3 * MIXED_LAYERS; i++) {
        snprintf(names[i], sizeof names[i], "blk.%d.%s.weight", i / 3, norms[i % 3].name);
        variant_add(variant, names[i], LOCUS_F32, 0, norms[i % 3].n, weights);
    }
    locus_model *model = mixed_open_path(variant_finish(variant)), *without = mixed_open(&alone);
    ck_assert_double_le(mixed_off_plain(model), 5e-5);
    float *normed = mixed_logits(model, MIXED_TEXT, MIXED_TEXT, 1, NULL),
          *bare = mixed_logits(without, MIXED_TEXT, MIXED_TEXT, 1, NULL);
    ck_assert(memcmp(normed, bare, MIXED_TEXT * MIXED_VOCAB * sizeof *bare) != 0);
    free(normed);
    free(bare);
    locus_model_free(model);
    locus_model_free(without);
}
END_TEST

/* Blocks of quantised values, where rows divide into them. The taps of the convolution are kept. */
START_TEST(quantised_weights_are_near_and_have_the_same_bits_however_a_text_is_cut)
{
    struct locus_quantize job = {.recipe = locus_recipe_find("q8_0"), .n_threads = 1};
    const char *path = testing_temporary("quantised.gguf");
    locus_error error = {0};
    ck_assert_msg(!locus_quantize(&job, mixed_write(&beside), path, &error), "%s", error.message);
    locus_model *model = mixed_open_path(path), *floats = mixed_open(&beside);
    const struct locus_checkpoint *checkpoint = locus_model_checkpoint(model);
    ck_assert_int_eq(locus_checkpoint_tensor(checkpoint, "blk.0.ssm_in.weight")->type, LOCUS_Q8_0);
    ck_assert_int_eq(locus_checkpoint_tensor(checkpoint, "blk.0.ssm_conv1d.weight")->type,
                     LOCUS_F32);
    mixed_check_quantised(model, floats);
    locus_model_free(model);
    locus_model_free(floats);
}
END_TEST

/* ---- what a session keeps ------------------------------------------------------------------- */

START_TEST(only_layers_of_attention_have_keys_and_a_map)
{
    locus_model *model = mixed_open(&beside);
    locus_session *session = mixed_session(model, MIXED_TEXT, 1, NULL);
    float weights[9];
    locus_error error = {0};
    ck_assert_int_eq(locus_session_probe(session, mixed_tokens, 3, 1, 0, weights, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_session_probe(session, mixed_tokens, 3, 0, 0, weights, &error),
                     LOCUS_ERROR_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, "is mamba, expected attention") != NULL, "%s",
                  error.message);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

START_TEST(states_that_cannot_be_had_are_refused)
{
    locus_model *model = mixed_open(&alone);
    hostile_limit_memory((size_t)4 << 30);
    const locus_session_params params = {.n_context = 1 << 30, .n_batch = 1 << 30, .n_threads = 1};
    mixed_refuse_session(model, &params, LOCUS_ERROR_MEMORY, "out of memory");
    locus_model_free(model);
}
END_TEST

static const struct {
    locus_session_params params;
    const char *says;
} idle[] = {
    {{.position = "rope"}, "position rope: the model's layers are mamba"},
    {{.position = "none; layers 0 alibi"}, "expected none"},
    {{.attention = "window:size=8"}, "attention window:size=8: the model's layers are mamba"},
    {{.attention = "sinks:keep=2,size=9"}, "expected full"},
    {{.cache_type = LOCUS_CACHE_Q8_0}, "cache type q8_0: the model's layers are mamba"},
    {{.n_axes = 2}, "2 coordinates a token: the model's layers are mamba"},
};

START_TEST(what_attention_alone_has_is_refused_in_a_model_without_it)
{
    locus_model *scans = mixed_open(&alone), *mixed = mixed_open(&beside);
    const locus_session_params plain = {.position = "none", .attention = "full"};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
        mixed_refuse_session(scans, &idle[i].params, LOCUS_ERROR_UNSUPPORTED, idle[i].says);
        locus_session *session = locus_session_create(mixed, &idle[i].params, NULL);
        /* A layer of scans has no more use for a SPEC there: see test_layers.c. */
        const bool of_layer = idle[i].params.position && strchr(idle[i].params.position, ';');
        ck_assert_msg(!session == (of_layer || idle[i].params.n_axes), "%s", idle[i].says);
        locus_session_free(session);
    }
    locus_session *session = locus_session_create(scans, &plain, NULL);
    ck_assert_ptr_nonnull(session);
    locus_session_free(session);
    locus_model_free(scans);
    locus_model_free(mixed);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

static void replace_u32(struct variant *variant, const char *key, uint32_t value)
{
    variant_drop(variant, key);
    locus_writer_u32(variant_writer(variant), key, value);
}

static void replace_mixer(struct variant *variant, const char *const *names, size_t n)
{
    size_t lengths[8];
    for (size_t i = 0; i < n; i++)
        lengths[i] = strlen(names[i]);
    variant_drop(variant, "locus.mixer");
    locus_writer_strings(variant_writer(variant), "locus.mixer", names, lengths, n);
}

static void no_state_size(struct variant *variant)
{
    variant_drop(variant, "locus.ssm.state_size");
}

static void other_rank(struct variant *variant)
{
    replace_u32(variant, "locus.ssm.time_step_rank", MIXED_RANK - 1);
}

static void no_taps(struct variant *variant)
{
    replace_u32(variant, "locus.ssm.conv_kernel", 0);
}

static void no_skip(struct variant *variant)
{
    variant_drop(variant, "blk.2.ssm_d");
}

static void one_bias_less(struct variant *variant)
{
    variant_drop(variant, "blk.2.ssm_conv1d.bias");
}

static void logarithms(struct variant *variant)
{
    int rows, cols;
    float *values = variant_floats(variant, "blk.0.ssm_a", &rows, &cols);
    values[7] = 0.5f;
    variant_drop(variant, "blk.0.ssm_a");
    variant_add(variant, "blk.0.ssm_a", LOCUS_F32, rows, cols, values);
    free(values);
}

static void unknown_mixer(struct variant *variant)
{
    replace_mixer(variant, (const char *const[]){"mamba", "attention", "wine", "mamba"}, 4);
}

static void three_mixers(struct variant *variant)
{
    replace_mixer(variant, (const char *const[]){"mamba", "attention", "mamba"}, 3);
}

static void all_attention(struct variant *variant)
{
    variant_drop(variant, "locus.mixer");
    locus_writer_string(variant_writer(variant), "locus.mixer", "attention", 9);
}

static void no_mlp(struct variant *variant)
{
    replace_u32(variant, "locus.feed_forward_length", 0);
}

static const struct {
    void (*change)(struct variant *variant);
    const char *says;
} wrong[] = {
    {no_state_size, "locus.ssm.state_size is missing"},
    {other_rank, "blk.0.ssm_x.weight is [42, 72], expected [41, 72]"},
    {no_taps, "locus.ssm.conv_kernel is 0, expected 1 to 256"},
    {no_skip, "tensor blk.2.ssm_d is missing"},
    {one_bias_less, "blk.2.ssm_conv1d.bias is missing, but other layers have it"},
    {logarithms, "blk.0.ssm_a is 0.5 for channel 1, state 2, expected -e^(A_log)"},
    {unknown_mixer, "locus.mixer is \"wine\", expected one of attention, mamba"},
    {three_mixers, "locus.mixer has 3 entries, expected one a layer (4)"},
    {all_attention, "locus.ssm.inner_size is a key of the model"},
    {no_mlp, "ffn_norm.weight is used by no part of the model"},
};

START_TEST(files_that_are_wrong_are_refused_by_name)
{
    struct variant *variant = variant_begin(mixed_write(&beside));
    wrong[_i].change(variant);
    mixed_refuse_file(variant, wrong[_i].says);
}
END_TEST

/* Which says by its name what has a key in others. */
static const struct {
    const char *key;
    uint32_t value;
    const char *says;
} of_the_family[] = {
    {"mamba.feed_forward_length", 64, "mamba.feed_forward_length is 64, expected 0 to 0"},
    {"mamba.attention.head_count", 4, "mamba.attention.head_count is 4, expected 0 to 0"},
    {"mamba.attention.sliding_window", 4, "mamba.attention.sliding_window is a key"},
    {"mamba.rope.freq_base", 4, "mamba.rope.freq_base is a key"},
};

START_TEST(the_family_has_no_mlp_and_no_heads)
{
    const char *key = of_the_family[_i].key;
    struct variant *variant = variant_begin(testing_golden("mamba-scans.gguf"));
    if (_i < 2) variant_drop(variant, key);
    locus_writer_u32(variant_writer(variant), key, of_the_family[_i].value);
    mixed_refuse_file(variant, of_the_family[_i].says);
}
END_TEST

START_TEST(a_file_without_attention_has_no_scheme)
{
    struct variant *variant = variant_begin(testing_golden("mamba-scans.gguf"));
    locus_writer_string(variant_writer(variant), "locus.position", "alibi", 5);
    mixed_refuse_file(variant, "locus.position is \"alibi\", but no layer attends");
}
END_TEST

/* Jamba's, whose layers without heads of keys and values are scans. */
static const struct {
    const char *key;
    int32_t counts[4];
    int n;
    const char *says;
} headless[] = {
    {"jamba.attention.head_count_kv",
     {0, 4, 2, 0},
     4,
     "is 4, but 2 for layer 2; expected the same"},
    {"jamba.attention.head_count_kv", {0, 0, -2, 0}, 4, "is -2 for layer 2, expected 0 to 16384"},
    {"jamba.attention.head_count_kv", {0, 2, 2}, 3, "has 3 entries, expected one a layer (4)"},
    {"jamba.attention.head_count_kv", {0}, 0, "jamba.attention.head_count_kv is missing"},
    {"jamba.attention.head_count_kv",
     {0, 0, 0, 0},
     4,
     "attention.head_count is 4, expected 0 to 0"},
    {"jamba.expert_count", {2}, 1, "jamba.expert_count is 2, expected 1 at most"},
};

START_TEST(layers_without_key_and_value_heads_are_told_by_their_count)
{
    struct variant *variant = variant_begin(testing_golden("jamba-mixed.gguf"));
    struct locus_checkpoint_writer *writer = variant_writer(variant);
    variant_drop(variant, headless[_i].key);
    if (headless[_i].n > 1)
        locus_writer_i32s(writer, headless[_i].key, headless[_i].counts, (size_t)headless[_i].n);
    else if (headless[_i].n)
        locus_writer_u32(writer, headless[_i].key, (uint32_t)headless[_i].counts[0]);
    mixed_refuse_file(variant, headless[_i].says);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mamba");
    TCase *tests = tcase_create("mamba");
    tcase_add_loop_test(tests, normed_steps_are_those_of_the_plain_pass, 0, 2);
    tcase_add_test(tests, norms_inside_a_scan_may_have_weights);
    tcase_add_test(tests, quantised_weights_are_near_and_have_the_same_bits_however_a_text_is_cut);
    tcase_add_test(tests, only_layers_of_attention_have_keys_and_a_map);
    tcase_add_test(tests, states_that_cannot_be_had_are_refused);
    tcase_add_test(tests, what_attention_alone_has_is_refused_in_a_model_without_it);
    tcase_add_loop_test(tests, files_that_are_wrong_are_refused_by_name, 0,
                        sizeof wrong / sizeof *wrong);
    tcase_add_loop_test(tests, the_family_has_no_mlp_and_no_heads, 0,
                        sizeof of_the_family / sizeof *of_the_family);
    tcase_add_test(tests, a_file_without_attention_has_no_scheme);
    tcase_add_loop_test(tests, layers_without_key_and_value_heads_are_told_by_their_count, 0,
                        sizeof headless / sizeof *headless);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
