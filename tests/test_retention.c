/* What retention alone has; that a text's bits are the same however it is cut is test_running.c's,
 * and that they are decoder.py's, test_golden.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "mixed.h"
#include "model/quantize.h"
#include "testing.h"

static const struct mixed alone = {"rrrr", true}, beside = {"rara", true};

/* ---- weights -------------------------------------------------------------------------------- */

START_TEST(quantised_weights_are_near_and_have_the_same_bits_however_a_text_is_cut)
{
    struct locus_quantize job = {.recipe = locus_recipe_find("q8_0"), .n_threads = 1};
    const char *path = testing_temporary("quantised.gguf");
    locus_error error = {0};
    ck_assert_msg(!locus_quantize(&job, mixed_write(&beside), path, &error), "%s", error.message);
    locus_model *model = mixed_open_path(path), *floats = mixed_open(&beside);
    const struct locus_checkpoint *checkpoint = locus_model_checkpoint(model);
    ck_assert_int_eq(locus_checkpoint_tensor(checkpoint, "blk.0.retention_v.weight")->type,
                     LOCUS_Q8_0);
    mixed_check_quantised(model, floats);
    locus_model_free(model);
    locus_model_free(floats);
}
END_TEST

/* ---- what a session is asked for ------------------------------------------------------------ */

static const struct {
    locus_session_params params;
    const char *says;
} idle[] = {
    {{.position = "xpos"}, "position xpos: the model's layers are retention"},
    {{.attention = "window:size=8"}, "attention window:size=8: the model's layers are retention"},
    {{.cache_type = LOCUS_CACHE_Q8_0}, "cache type q8_0: the model's layers are retention"},
};

START_TEST(what_attention_alone_has_is_refused_in_a_model_without_it)
{
    const locus_session_params plain = {.position = "none", .attention = "full"};
    locus_model *model = mixed_open(&alone), *mixed = mixed_open(&beside);
    mixed_refuse_session(model, &idle[_i].params, LOCUS_ERROR_UNSUPPORTED, idle[_i].says);
    locus_session *session = locus_session_create(mixed, &idle[_i].params, NULL);
    ck_assert_ptr_nonnull(session);
    locus_session_free(session);
    session = locus_session_create(model, &plain, NULL);
    ck_assert_ptr_nonnull(session);
    locus_session_free(session);
    locus_model_free(model);
    locus_model_free(mixed);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

static const struct {
    const char *key; /* gets the value, or goes where that is negative; a tensor may go, too */
    int value;
    const char *says;
} wrong[] = {
    {"locus.retention.head_count", -1, "locus.retention.head_count is missing"},
    {"locus.retention.head_count", 0, "locus.retention.head_count is 0, expected 1 to 20"},
    {"locus.retention.head_count", 21, "locus.retention.head_count is 21, expected 1 to 20"},
    {"locus.retention.key_length", 5, "locus.retention.key_length is 5, expected an even number"},
    {"locus.retention.key_length", 8, "blk.0.retention_q.weight is [18, 32], expected [24, 32]"},
    {"locus.retention.value_length", 2, "retention_v.weight is [60, 32], expected [6, 32]"},
    {"locus.retention.value_width", 2, "locus.retention.value_width is a key"},
    {"locus.attention.head_count", 4, "locus.attention.head_count is 4, expected 0 to 0"},
    {"blk.3.retention_gate.weight", -1, "tensor blk.3.retention_gate.weight is missing"},
    {"blk.2.retention_gate.bias", -1, "blk.2.retention_gate.bias is missing, but other layers"},
};

START_TEST(files_that_are_wrong_are_refused_by_name)
{
    struct variant *variant = variant_begin(mixed_write(&alone));
    const bool is_there = strcmp(wrong[_i].key, "locus.retention.value_width") != 0 &&
                          strcmp(wrong[_i].key, "locus.attention.head_count") != 0;
    if (is_there) variant_drop(variant, wrong[_i].key);
    if (wrong[_i].value >= 0)
        locus_writer_u32(variant_writer(variant), wrong[_i].key, (uint32_t)wrong[_i].value);
    mixed_refuse_file(variant, wrong[_i].says);
}
END_TEST

START_TEST(sizes_of_retention_are_refused_where_no_layer_has_it)
{
    struct variant *variant = variant_begin(mixed_write(&(struct mixed){"aaaa", true}));
    locus_writer_u32(variant_writer(variant), "locus.retention.head_count", 3);
    mixed_refuse_file(variant, "locus.retention.head_count is a key");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("retention");
    TCase *tests = tcase_create("retention");
    tcase_add_test(tests, quantised_weights_are_near_and_have_the_same_bits_however_a_text_is_cut);
    tcase_add_loop_test(tests, what_attention_alone_has_is_refused_in_a_model_without_it, 0,
                        sizeof idle / sizeof *idle);
    tcase_add_loop_test(tests, files_that_are_wrong_are_refused_by_name, 0,
                        sizeof wrong / sizeof *wrong);
    tcase_add_test(tests, sizes_of_retention_are_refused_where_no_layer_has_it);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
