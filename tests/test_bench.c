/* Bench: what it counts, and that its ceilings are rates. Never how fast anything is. */
#include <math.h>
#include <string.h>

#include "bench/bench.h"
#include "forward/session.h"
#include "hostile.h"
#include "model/model.h"
#include "testing.h"

static locus_model *open_model(void)
{
    const char *path = testing_temporary("bench.gguf");
    hostile_write_checkpoint(path);
    locus_error error = {0};
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model, "%s", error.message);
    return model;
}

static bool stop_at_once(void)
{
    return true;
}

START_TEST(costs_count_every_matrix_and_every_key)
{
    locus_model *model = open_model();
    const struct locus_config *c = &model->config;
    locus_session_params session_params = {.n_context = 24, .n_threads = 1};
    locus_session *session = locus_session_create(model, &session_params, NULL);
    const struct locus_bench_params params = {
        .n_prompt = 9, .n_generated = 5, .n_depth = 10, .repetitions = 2};
    struct locus_bench_result result;
    ck_assert_int_eq(locus_bench_run(&result, session, &params, NULL), LOCUS_OK);
    double d = c->n_embd, kv = (double)c->n_head_kv * c->head_dim,
           q = (double)c->n_head * c->head_dim;
    double layer = d * q + 2 * d * kv + q * d + 3 * d * c->n_ff;
    double keys = 0;
    for (int i = 0; i < 9; i++)
        keys += 10 + i + 1;
    double multiply_adds = 9 * layer * c->n_layer + keys * 2 * q * c->n_layer + d * c->n_vocab;
    ck_assert_double_eq_tol(result.prompt_operations, 2 * multiply_adds / 9, 1e-6 * multiply_adds);
    double cache = 0;
    for (int i = 0; i < 5; i++)
        cache += (10 + i + 1) * 2 * kv * c->n_layer * 4; /* an F32 cache */
    double bytes = (double)locus_bench_weight_bytes(model) + cache / 5;
    ck_assert_double_eq_tol(result.generation_bytes, bytes, 1e-6 * bytes);
    ck_assert_double_ge((double)locus_bench_weight_bytes(model),
                        4 * (layer * c->n_layer + d * c->n_vocab));
    ck_assert_int_eq(result.repetitions, 2);
    ck_assert(result.prompt.min > 0 && result.prompt.min <= result.prompt.median &&
              result.prompt.median <= result.prompt.max);
    ck_assert(result.generation.min > 0 && result.generation.min <= result.generation.median);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

START_TEST(a_stop_keeps_what_was_measured)
{
    locus_model *model = open_model();
    locus_session *session = locus_session_create(model, NULL, NULL);
    const struct locus_bench_params params = {
        .n_prompt = 2, .n_generated = 2, .repetitions = 1000000, .stop = stop_at_once};
    struct locus_bench_result result;
    ck_assert_int_eq(locus_bench_run(&result, session, &params, NULL), LOCUS_OK);
    ck_assert_int_eq(result.repetitions, 1);
    ck_assert_double_gt(result.generation.median, 0);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

START_TEST(a_session_too_short_is_an_error)
{
    locus_model *model = open_model();
    locus_session_params session_params = {.n_context = 8};
    locus_session *session = locus_session_create(model, &session_params, NULL);
    const struct locus_bench_params params = {.n_prompt = 9, .n_generated = 2, .repetitions = 1};
    struct locus_bench_result result;
    locus_error error = {0};
    ck_assert_int_eq(locus_bench_run(&result, session, &params, &error), LOCUS_ERROR_POSITION);
    ck_assert_ptr_nonnull(strstr(error.message, "8"));
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

START_TEST(ceilings_bound_the_type_they_are_for)
{
    struct locus_ceilings ceilings;
    ck_assert_int_eq(locus_ceilings_measure(&ceilings, 1 << 20, 1, NULL), LOCUS_OK);
    ck_assert(ceilings.read_gb_per_second > 0 && isfinite(ceilings.read_gb_per_second));
    ck_assert(ceilings.f32_gflops > 0 && isfinite(ceilings.f32_gflops));
    const struct locus_ceilings all = {1, 2, 3, 4}, few = {1, 2, 0, 0}, slow = {1, 2, 1, 4};
    ck_assert_double_eq(locus_bench_compute_ceiling(&all, LOCUS_F16), 2);
    ck_assert_double_eq(locus_bench_compute_ceiling(&all, LOCUS_BF16), 3);
    ck_assert_double_eq(locus_bench_compute_ceiling(&few, LOCUS_BF16), 2);
    ck_assert_double_eq(locus_bench_compute_ceiling(&slow, LOCUS_BF16), 2);
    ck_assert_double_eq(locus_bench_compute_ceiling(&all, LOCUS_Q4_0), 4);
    ck_assert_double_eq(locus_bench_compute_ceiling(&few, LOCUS_Q8_0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench");
    TCase *all = tcase_create("bench");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, costs_count_every_matrix_and_every_key);
    tcase_add_test(all, a_stop_keeps_what_was_measured);
    tcase_add_test(all, a_session_too_short_is_an_error);
    tcase_add_test(all, ceilings_bound_the_type_they_are_for);
    suite_add_tcase(suite, all);
    return testing_run(suite);
}
