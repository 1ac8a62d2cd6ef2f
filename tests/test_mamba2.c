/* What Mamba 2 alone has; that a text's bits are the same however it is cut is test_running.c's,
 * and that they are transformers', test_golden.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "mixed.h"
#include "model/quantize.h"
#include "testing.h"

static const struct mixed alone = {"2222", false}, beside = {"2a2a", true};

/* ---- weights -------------------------------------------------------------------------------- */

START_TEST(quantised_weights_are_near_and_have_the_same_bits_however_a_text_is_cut)
{
    struct locus_quantize job = {.recipe = locus_recipe_find("q8_0"), .n_threads = 1};
    const char *path = testing_temporary("quantised.gguf");
    locus_error error = {0};
    ck_assert_msg(!locus_quantize(&job, mixed_write(&beside), path, &error), "%s", error.message);
    locus_model *model = mixed_open_path(path), *floats = mixed_open(&beside);
    const struct locus_checkpoint *checkpoint = locus_model_checkpoint(model);
    static const struct {
        const char *name;
        enum locus_tensor_type type;
    } expected[] = {{"blk.0.ssm_in.weight", LOCUS_Q8_0},
                    {"blk.0.ssm_conv1d.weight", LOCUS_F32},
                    {"blk.0.ssm_norm.weight", LOCUS_F32},
                    {"blk.0.ssm_a", LOCUS_F32}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_int_eq(locus_checkpoint_tensor(checkpoint, expected[i].name)->type,
                         expected[i].type);
    mixed_check_quantised(model, floats);
    locus_model_free(model);
    locus_model_free(floats);
}
END_TEST

/* ---- norms ---------------------------------------------------------------------------------- */

START_TEST(the_norm_after_the_gate_may_have_an_epsilon_of_its_own)
{
    struct variant *variant = variant_begin(mixed_write(&alone));
    locus_writer_f32(variant_writer(variant), "locus.ssm.norm_epsilon", 0.5f);
    locus_model *model = mixed_open_path(variant_finish(variant));
    ck_assert_double_le(mixed_off_plain(model), 5e-5);
    locus_model_free(model);
}
END_TEST

/* ---- what a session is asked for ------------------------------------------------------------ */

START_TEST(a_scheme_is_refused_in_a_model_without_attention)
{
    locus_model *model = mixed_open(&alone);
    mixed_refuse_session(model, &(locus_session_params){.position = "alibi"},
                         LOCUS_ERROR_UNSUPPORTED, "position alibi: the model's layers are mamba2");
    locus_model_free(model);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

static const struct {
    const char *key; /* gets the value, or goes where that is negative; a tensor may go, too */
    int value;
    const char *says;
} wrong[] = {
    {"locus.ssm.time_step_rank", 5, "time_step_rank is 5, expected a divisor of inner_size, 72"},
    {"locus.ssm.time_step_rank", 73, "locus.ssm.time_step_rank is 73, expected 1 to 72"},
    {"locus.ssm.group_count", 4, "group_count is 4, expected a divisor of time_step_rank, 6"},
    {"locus.ssm.group_count", 1, "blk.0.ssm_conv1d.weight is [92, 4], expected [82, 4]"},
    {"locus.ssm.inner_size", -1, "locus.ssm.inner_size is missing"},
    {"blk.1.ssm_norm.weight", -1, "tensor blk.1.ssm_norm.weight is missing"},
    {"blk.1.ssm_dt.bias", -1, "tensor blk.1.ssm_dt.bias is missing"},
};

START_TEST(files_that_are_wrong_are_refused_by_name)
{
    mixed_refuse_changed(&alone, wrong[_i].key, wrong[_i].value, wrong[_i].says);
}
END_TEST

START_TEST(what_a_head_decays_by_is_no_logarithm)
{
    struct variant *variant = variant_begin(mixed_write(&alone));
    int rows, cols;
    float *values = variant_floats(variant, "blk.2.ssm_a", &rows, &cols);
    values[4] = 0.25f;
    variant_drop(variant, "blk.2.ssm_a");
    variant_add(variant, "blk.2.ssm_a", LOCUS_F32, rows, cols, values);
    free(values);
    mixed_refuse_file(variant, "blk.2.ssm_a is 0.25 for head 4, expected -e^(A_log)");
}
END_TEST

START_TEST(both_kinds_of_scans_in_one_model_are_refused)
{
    struct variant *variant = variant_begin(mixed_write(&alone));
    static const char *const names[] = {"mamba2", "mamba", "mamba2", "mamba2"};
    static const size_t lengths[] = {6, 5, 6, 6};
    variant_drop(variant, "locus.mixer");
    locus_writer_strings(variant_writer(variant), "locus.mixer", names, lengths, 4);
    mixed_refuse_file(variant, "layers of mamba beside others of mamba2");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mamba2");
    TCase *tests = tcase_create("mamba2");
    tcase_add_test(tests, quantised_weights_are_near_and_have_the_same_bits_however_a_text_is_cut);
    tcase_add_test(tests, the_norm_after_the_gate_may_have_an_epsilon_of_its_own);
    tcase_add_test(tests, a_scheme_is_refused_in_a_model_without_attention);
    tcase_add_loop_test(tests, files_that_are_wrong_are_refused_by_name, 0,
                        sizeof wrong / sizeof *wrong);
    tcase_add_test(tests, what_a_head_decays_by_is_no_logarithm);
    tcase_add_test(tests, both_kinds_of_scans_in_one_model_are_refused);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
