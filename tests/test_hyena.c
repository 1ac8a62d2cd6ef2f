/* What Hyena alone has; that a text's bits are the same however it is cut is test_running.c's, and
 * that they are decoder.py's, test_golden.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "hostile.h"
#include "mixed.h"
#include "model/quantize.h"
#include "testing.h"

static const struct mixed alone = {"hhhh", true}, beside = {"haha", true};

START_TEST(what_makes_the_filter_is_not_quantised)
{
    struct locus_quantize job = {.recipe = locus_recipe_find("q8_0"), .n_threads = 1};
    const char *path = testing_temporary("quantised.gguf");
    locus_error error = {0};
    ck_assert_msg(!locus_quantize(&job, mixed_write(&beside), path, &error), "%s", error.message);
    locus_model *model = mixed_open_path(path);
    const struct locus_checkpoint *checkpoint = locus_model_checkpoint(model);
    static const struct {
        const char *name;
        enum locus_tensor_type type;
    } expected[] = {{"blk.0.hyena_in.weight", LOCUS_Q8_0},
                    {"blk.0.hyena_conv1d.weight", LOCUS_F32},
                    {"blk.0.hyena_filter_1.weight", LOCUS_F32},
                    {"blk.0.hyena_filter_out.weight", LOCUS_F32}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_int_eq(locus_checkpoint_tensor(checkpoint, expected[i].name)->type,
                         expected[i].type);
    float *whole = mixed_logits(model, MIXED_TEXT, MIXED_TEXT, 2, NULL);
    float *cut = mixed_logits(model, 7, 5, 1, NULL);
    mixed_check_same(cut, whole, 0, MIXED_TEXT, "quantised");
    free(whole);
    free(cut);
    locus_model_free(model);
}
END_TEST

/* A file may tell another length than the decoder's; it changes the filter. */
START_TEST(the_length_of_the_filter_is_its_own)
{
    struct variant *variant = variant_begin(mixed_write(&alone));
    locus_writer_u32(variant_writer(variant), "locus.hyena.filter_length", 100);
    locus_model *model = mixed_open_path(variant_finish(variant)), *usual = mixed_open(&alone);
    ck_assert_double_le(mixed_off_plain(model), 5e-5);
    float *changed = mixed_logits(model, MIXED_TEXT, MIXED_TEXT, 1, NULL);
    float *before = mixed_logits(usual, MIXED_TEXT, MIXED_TEXT, 1, NULL);
    ck_assert(memcmp(changed, before, MIXED_TEXT * MIXED_VOCAB * sizeof *before) != 0);
    free(changed);
    free(before);
    locus_model_free(model);
    locus_model_free(usual);
}
END_TEST

START_TEST(a_scheme_is_refused_in_a_model_without_attention)
{
    locus_model *model = mixed_open(&alone);
    mixed_refuse_session(model, &(locus_session_params){.position = "alibi"},
                         LOCUS_ERROR_UNSUPPORTED, "position alibi: the model's layers are hyena");
    locus_model_free(model);
}
END_TEST

START_TEST(filters_that_cannot_be_had_are_refused)
{
    locus_model *model = mixed_open(&alone);
    hostile_limit_memory((size_t)1 << 30);
    const locus_session_params params = {.n_context = 1 << 24, .n_batch = 8, .n_threads = 1};
    mixed_refuse_session(model, &params, LOCUS_ERROR_MEMORY, "out of memory");
    locus_model_free(model);
}
END_TEST

static const struct {
    const char *key; /* gets the value, or goes where that is negative; a tensor may go, too */
    int value;
    const char *says;
} wrong[] = {
    {"locus.hyena.conv_kernel", 0, "locus.hyena.conv_kernel is 0, expected 1 to 256"},
    {"locus.hyena.filter_bands", 9, "hyena_filter_0.weight is [24, 7], expected [24, 19]"},
    {"locus.hyena.filter_bands", 256, "locus.hyena.filter_bands is 256, expected 1 to 255"},
    {"locus.hyena.filter_width", -1, "locus.hyena.filter_width is missing"},
    {"locus.hyena.filter_layers", 3, "tensor blk.0.hyena_filter_2.weight is missing"},
    {"locus.hyena.filter_layers", 1, "hyena_filter_1."},
    {"locus.hyena.filter_layers", 9, "locus.hyena.filter_layers is 9, expected 1 to 8"},
    {"blk.2.hyena_skip", -1, "tensor blk.2.hyena_skip is missing"},
    {"blk.2.hyena_in.bias", -1, "blk.2.hyena_in.bias is missing, but other layers have it"},
};

START_TEST(files_that_are_wrong_are_refused_by_name)
{
    mixed_refuse_changed(&alone, wrong[_i].key, wrong[_i].value, wrong[_i].says);
}
END_TEST

START_TEST(a_filter_does_not_grow_with_the_distance)
{
    struct variant *variant = variant_begin(mixed_write(&alone));
    int rows, cols;
    float *values = variant_floats(variant, "blk.1.hyena_decay", &rows, &cols);
    values[6] = -0.5f;
    variant_drop(variant, "blk.1.hyena_decay");
    variant_add(variant, "blk.1.hyena_decay", LOCUS_F32, 0, MIXED_EMBD, values);
    free(values);
    mixed_refuse_file(variant, "blk.1.hyena_decay is -0.5 for channel 6, expected 0 or more");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hyena");
    TCase *tests = tcase_create("hyena");
    tcase_add_test(tests, what_makes_the_filter_is_not_quantised);
    tcase_add_test(tests, the_length_of_the_filter_is_its_own);
    tcase_add_test(tests, a_scheme_is_refused_in_a_model_without_attention);
    tcase_add_test(tests, filters_that_cannot_be_had_are_refused);
    tcase_add_loop_test(tests, files_that_are_wrong_are_refused_by_name, 0,
                        sizeof wrong / sizeof *wrong);
    tcase_add_test(tests, a_filter_does_not_grow_with_the_distance);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
