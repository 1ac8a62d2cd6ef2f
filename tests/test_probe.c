/* The data behind plots: what the probes read from a scheme's hooks, against the schemes' formulas
 * written out plainly. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/probe.h"
#include "testing.h"

enum { N_EMBD = 32, N_HEAD = 4, HEAD_DIM = 16, TRAINED = 16 }; /* of schemes.gguf */

static locus_model *open_model(void)
{
    locus_error error;
    locus_model *model = locus_model_open(testing_golden("schemes.gguf"), &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    return model;
}

static struct locus_scheme_probe open_probe(const locus_model *model, const char *spec, int length)
{
    struct locus_scheme_probe probe;
    locus_error error = {0};
    ck_assert_msg(locus_scheme_probe_open(&probe, model, spec, length, &error) == LOCUS_OK,
                  "%s: %s", spec, error.message);
    return probe;
}

static const float *tensor(const locus_model *model, const char *name)
{
    int rows, cols;
    const float *values = locus_model_extra(model, name, &rows, &cols);
    ck_assert_ptr_nonnull(values);
    return values;
}

START_TEST(the_table_of_a_sinusoidal_scheme_is_its_formula)
{
    enum { N = 50 };
    locus_model *model = open_model();
    struct locus_scheme_probe probe = open_probe(model, "sinusoidal", N);
    float table[N * N_EMBD];
    ck_assert_int_eq(locus_probe_table(&probe, NULL, table, NULL), LOCUS_OK);
    for (int p = 0; p < N; p++)
        for (int c = 0; c < N_EMBD; c++) {
            double angle = p * pow(10000, -(double)(c / 2 * 2) / N_EMBD);
            double expected = c % 2 ? cos(angle) : sin(angle);
            ck_assert_double_eq_tol((double)table[p * N_EMBD + c], expected, 1e-6);
        }
    locus_scheme_probe_close(&probe);
    locus_model_free(model);
}
END_TEST

START_TEST(the_table_of_a_learned_scheme_is_the_checkpoints)
{
    locus_model *model = open_model();
    struct locus_scheme_probe probe = open_probe(model, "learned", 0);
    ck_assert_int_eq(probe.length, TRAINED);
    float table[TRAINED * N_EMBD];
    ck_assert_int_eq(locus_probe_table(&probe, NULL, table, NULL), LOCUS_OK);
    ck_assert_int_eq(memcmp(table, tensor(model, "position_embd.weight"), sizeof table), 0);
    locus_scheme_probe_close(&probe);
    locus_model_free(model);
}
END_TEST

START_TEST(a_scheme_that_reads_the_text_needs_one)
{
    enum { N = 6 };
    static const int32_t tokens[N] = {3, 1, 4, 1, 5, 9}, others[N] = {3, 1, 4, 2, 5, 9};
    locus_model *model = open_model();
    struct locus_scheme_probe probe = open_probe(model, "recurrent", N);
    float table[N * N_EMBD], other[N * N_EMBD];
    locus_error error;
    ck_assert_int_eq(locus_probe_table(&probe, NULL, table, &error), LOCUS_ERROR_ARGUMENT);
    ck_assert_int_eq(locus_probe_table(&probe, tokens, table, &error), LOCUS_OK);
    ck_assert_int_eq(locus_probe_table(&probe, others, other, &error), LOCUS_OK);
    /* A GRU's state: equal until the texts part, different from there on. */
    ck_assert_int_eq(memcmp(table, other, 3 * N_EMBD * sizeof *table), 0);
    for (int p = 3; p < N; p++)
        ck_assert(memcmp(table + p * N_EMBD, other + p * N_EMBD, N_EMBD * sizeof *table) != 0);
    static const int32_t unknown[N] = {0, 0, 0, 0, 0, 40};
    ck_assert_int_eq(locus_probe_table(&probe, unknown, table, &error), LOCUS_ERROR_ARGUMENT);
    locus_scheme_probe_close(&probe);
    locus_model_free(model);
}
END_TEST

START_TEST(similarity_is_the_cosine)
{
    static const float table[] = {1, 0, 3, 4, -2, 0, 0, 0};
    float cosines[16];
    locus_probe_similarity(table, 4, 2, cosines);
    static const double expected[9] = {1, .6, -1, .6, 1, -.6, -1, -.6, 1};
    for (int i = 0; i < 9; i++)
        ck_assert_double_eq_tol((double)cosines[i / 3 * 4 + i % 3], expected[i], 1e-6);
    for (int i = 0; i < 4; i++)
        ck_assert(isnan(cosines[12 + i]) && isnan(cosines[4 * i + 3]));
}
END_TEST

START_TEST(the_bias_of_alibi_falls_with_the_slope_of_each_head)
{
    enum { N = 100 };
    locus_model *model = open_model();
    struct locus_scheme_probe probe = open_probe(model, "alibi", N);
    float bias[N_HEAD * N];
    ck_assert_int_eq(locus_probe_bias(&probe, 1, bias, NULL), LOCUS_OK);
    for (int h = 0; h < N_HEAD; h++)
        for (int d = 0; d < N; d++)
            ck_assert_double_eq((double)bias[h * N + d], -d * pow(2, -2 * (h + 1)));
    locus_scheme_probe_close(&probe);
    locus_model_free(model);
}
END_TEST

START_TEST(each_layer_is_asked_for_its_own_scheme)
{
    enum { N = 50 };
    locus_model *model = open_model();
    locus_error error = {0};
    struct locus_scheme_probe probe = open_probe(model, "rope; layers 1 alibi", N);
    float bias[N_HEAD * N];
    double products[N];
    ck_assert_int_eq(locus_probe_bias(&probe, 1, bias, NULL), LOCUS_OK);
    ck_assert_float_eq(bias[3], -3 * 0.25F);
    ck_assert_int_eq(locus_probe_rotation(&probe, 0, 0, products, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_probe_bias(&probe, 0, bias, &error), LOCUS_ERROR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "position rope adds no bias"));
    ck_assert_int_eq(locus_probe_rotation(&probe, 1, 0, products, &error), LOCUS_ERROR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "position alibi rotates no query"));
    locus_scheme_probe_close(&probe);
    locus_model_free(model);
}
END_TEST

START_TEST(the_bias_of_t5_is_the_table_by_bucket)
{
    enum { N = 60 };
    locus_model *model = open_model();
    const float *table = tensor(model, "position_bias.weight");
    struct locus_scheme_probe probe = open_probe(model, "t5:buckets=32,max_distance=50", N);
    float bias[N_HEAD * N];
    ck_assert_int_eq(locus_probe_bias(&probe, 0, bias, NULL), LOCUS_OK);
    for (int d = 0; d < N; d++) {
        int bucket = d < 16 ? d : (int)fmin(31, 16 + floor(log(d / 16.0) / log(50 / 16.0) * 16));
        for (int h = 0; h < N_HEAD; h++)
            ck_assert_float_eq(bias[h * N + d], table[bucket * N_HEAD + h]);
    }
    locus_scheme_probe_close(&probe);
    locus_model_free(model);
}
END_TEST

/* For a query of zeros, Transformer-XL leaves v.(W_r R_dist) times the scale: no u in it. */
START_TEST(the_bias_of_transformer_xl_is_that_of_a_query_of_zeros)
{
    enum { N = 12 };
    locus_model *model = open_model();
    const float *weight = tensor(model, "blk.1.position_r.weight");
    const float *v = tensor(model, "position_v");
    struct locus_scheme_probe probe = open_probe(model, "transformer-xl", N);
    float bias[N_HEAD * N];
    ck_assert_int_eq(locus_probe_bias(&probe, 1, bias, NULL), LOCUS_OK);
    for (int d = 0; d < N; d++)
        for (int h = 0; h < N_HEAD; h++) {
            double sum = 0;
            for (int i = 0; i < HEAD_DIM; i++)
                for (int c = 0; c < N_EMBD; c++) {
                    int half = N_EMBD / 2, k = c % half;
                    double angle = d * pow(10000, -(double)k / half);
                    double r = c < half ? sin(angle) : cos(angle);
                    sum += (double)v[h * HEAD_DIM + i] *
                           (double)weight[(h * HEAD_DIM + i) * N_EMBD + c] * r;
                }
            ck_assert_double_eq_tol((double)bias[h * N + d], sum / sqrt(HEAD_DIM), 1e-5);
        }
    locus_scheme_probe_close(&probe);
    locus_model_free(model);
}
END_TEST

START_TEST(the_rotation_of_rope_is_a_mean_of_cosines)
{
    enum { N = 200 };
    static const struct {
        const char *spec;
        int pairs;
        double factor;
    } cases[] = {{"rope", 8, 1},
                 {"rope:pairs=adjacent", 8, 1},
                 {"rope:dim=8", 4, 1},
                 {"rope:scaling=linear,factor=4", 8, 4}};
    locus_model *model = open_model();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_scheme_probe probe = open_probe(model, cases[i].spec, N);
        double products[N];
        ck_assert_int_eq(locus_probe_rotation(&probe, 0, 3, products, NULL), LOCUS_OK);
        for (int d = 0; d < N; d++) {
            double sum = HEAD_DIM - 2 * cases[i].pairs; /* dimensions that don't turn */
            for (int k = 0; k < cases[i].pairs; k++)
                sum += 2 * cos(d / cases[i].factor * pow(10000, -(double)k / cases[i].pairs));
            ck_assert_double_eq_tol(products[d], sum / HEAD_DIM, 1e-5);
        }
        locus_scheme_probe_close(&probe);
    }
    locus_model_free(model);
}
END_TEST

/* Pair k decays by zeta_k = (2k/dim + 0.4) / 1.4 over 512 positions; blocks leave no seam. */
START_TEST(the_rotation_of_xpos_decays_pair_by_pair)
{
    enum { N = 300 };
    locus_model *model = open_model();
    struct locus_scheme_probe probe = open_probe(model, "xpos", N);
    double products[N];
    ck_assert_int_eq(locus_probe_rotation(&probe, 1, 2, products, NULL), LOCUS_OK);
    for (int d = 0; d < N; d++) {
        double sum = 0;
        for (int k = 0; k < HEAD_DIM / 2; k++)
            sum += 2 * cos(d * pow(10000, -2.0 * k / HEAD_DIM)) *
                   pow((2.0 * k / HEAD_DIM + 0.4) / 1.4, d / 512.0);
        ck_assert_double_eq_tol(products[d], sum / HEAD_DIM, 1e-5);
    }
    locus_scheme_probe_close(&probe);
    locus_model_free(model);
}
END_TEST

/* With length=row, all that the last row reads turns by the frequencies of its length. */
START_TEST(the_rotation_of_a_scaling_by_row_is_the_last_rows)
{
    enum { N = 64 };
    locus_model *model = open_model();
    struct locus_scheme_probe row = open_probe(model, "rope:scaling=dynamic,length=row", N);
    struct locus_scheme_probe fixed = open_probe(model, "rope:scaling=dynamic,length=64", N);
    double by_row[N], by_length[N];
    ck_assert_int_eq(locus_probe_rotation(&row, 0, 0, by_row, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_probe_rotation(&fixed, 0, 0, by_length, NULL), LOCUS_OK);
    for (int d = 0; d < N; d++)
        ck_assert_double_eq_tol(by_row[d], by_length[d], 1e-5);
    locus_scheme_probe_close(&row);
    locus_scheme_probe_close(&fixed);
    locus_model_free(model);
}
END_TEST

/* From the registry: a scheme has those probes that it has hooks for, and says which. */
START_TEST(every_scheme_is_probed_where_it_has_the_hook_and_refused_elsewhere)
{
    locus_model *model = open_model();
    static const int32_t tokens[TRAINED] = {1, 2, 3};
    for (size_t i = 0; i < locus_position_count(); i++) {
        const struct locus_position_scheme *scheme = locus_position_at(i);
        struct locus_scheme_probe probe;
        locus_error error = {0};
        float table[TRAINED * N_EMBD], bias[N_HEAD * TRAINED];
        double products[TRAINED];
        ck_assert_msg(!locus_scheme_probe_open(&probe, model, scheme->name, 0, &error), "%s",
                      error.message);
        const struct {
            bool works;
            enum locus_status status;
        } probes[] = {
            {scheme->embed, locus_probe_table(&probe, tokens, table, &error)},
            {scheme->bias && !scheme->whole_row && !scheme->all_heads && !scheme->observe,
             locus_probe_bias(&probe, 0, bias, &error)},
            {scheme->rotate && !scheme->bias, locus_probe_rotation(&probe, 0, 0, products, &error)},
        };
        for (int p = 0; p < 3; p++)
            ck_assert_msg(probes[p].status ==
                              (probes[p].works ? LOCUS_OK : LOCUS_ERROR_UNSUPPORTED),
                          "%s, probe %d: %s", scheme->name, p, error.message);
        ck_assert_msg(strstr(error.message, scheme->name) && strstr(error.message, "attention"),
                      "%s", error.message);
        locus_scheme_probe_close(&probe);
    }
    locus_model_free(model);
}
END_TEST

START_TEST(what_the_model_or_the_scheme_lacks_is_said)
{
    locus_model *model = open_model();
    struct locus_scheme_probe probe;
    locus_error error = {0};
    ck_assert_int_eq(locus_scheme_probe_open(&probe, model, "learned", 25, &error),
                     LOCUS_ERROR_POSITION);
    ck_assert_msg(strstr(error.message, "24") && strstr(error.message, "25"), "%s", error.message);
    locus_scheme_probe_close(&probe);
    probe = open_probe(model, "alibi", 8);
    float bias[N_HEAD * 8];
    double products[8];
    ck_assert_int_eq(locus_probe_bias(&probe, 2, bias, &error), LOCUS_ERROR_ARGUMENT);
    ck_assert_msg(strstr(error.message, "layers 0 to 1"), "%s", error.message);
    locus_scheme_probe_close(&probe);
    probe = open_probe(model, "rope", 8);
    ck_assert_int_eq(locus_probe_rotation(&probe, 0, 4, products, &error), LOCUS_ERROR_ARGUMENT);
    ck_assert_msg(strstr(error.message, "heads 0 to 3"), "%s", error.message);
    locus_scheme_probe_close(&probe);
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probe");
    TCase *tests = tcase_create("probe");
    tcase_add_test(tests, the_table_of_a_sinusoidal_scheme_is_its_formula);
    tcase_add_test(tests, the_table_of_a_learned_scheme_is_the_checkpoints);
    tcase_add_test(tests, a_scheme_that_reads_the_text_needs_one);
    tcase_add_test(tests, similarity_is_the_cosine);
    tcase_add_test(tests, the_bias_of_alibi_falls_with_the_slope_of_each_head);
    tcase_add_test(tests, each_layer_is_asked_for_its_own_scheme);
    tcase_add_test(tests, the_bias_of_t5_is_the_table_by_bucket);
    tcase_add_test(tests, the_bias_of_transformer_xl_is_that_of_a_query_of_zeros);
    tcase_add_test(tests, the_rotation_of_rope_is_a_mean_of_cosines);
    tcase_add_test(tests, the_rotation_of_xpos_decays_pair_by_pair);
    tcase_add_test(tests, the_rotation_of_a_scaling_by_row_is_the_last_rows);
    tcase_add_test(tests, every_scheme_is_probed_where_it_has_the_hook_and_refused_elsewhere);
    tcase_add_test(tests, what_the_model_or_the_scheme_lacks_is_said);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
