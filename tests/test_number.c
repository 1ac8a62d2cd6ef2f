/* Numbers as text: what is taken for one, and that they are read and written with a point though
 * the program that uses the library has set a locale with a decimal comma.
 */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "chart/axes.h"
#include "cli/kit/json.h"
#include "cli/kit/table.h"
#include "experiment/report.h"
#include "forward/policy.h"
#include "position/position.h"
#include "testing.h"
#include "variant.h"

/* ---- numbers people type ------------------------------------------------------------------- */

START_TEST(integers_are_the_whole_text)
{
    int value = 7;
    ck_assert(locus_number_int("+12", 0, 20, &value) && value == 12);
    ck_assert(locus_number_int("-3", -3, 0, &value) && value == -3);
    static const char *const wrong[] = {"",    " 1",  "1 ",         "+-1",
                                        "-+1", "0x1", "1.0",        "1e1",
                                        "21",  "-4",  "9999999999", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!locus_number_int(wrong[i], -3, 20, &value), "%s", wrong[i]);
    ck_assert_int_eq(value, -3);
}
END_TEST

START_TEST(floats_are_the_whole_text)
{
    float value = 7;
    ck_assert(locus_number_float("+.5", 0, 1, &value) && value == 0.5f);
    ck_assert(locus_number_float("1e-400", 0, 1, &value) && value == 0);
    ck_assert(locus_number_float("-2.5E+1", -30, 1, &value) && value == -25);
    ck_assert(locus_number_float("-inf", -(double)INFINITY, 1, &value) && isinf(value));
    value = 7;
    static const char *const wrong[] = {"",      " 1", "1 ",   "0x1p2", "nan", "inf", "infinity",
                                        "1e999", "-1", "1.5.", "e5",    "1e",  ".",   "+-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!locus_number_float(wrong[i], 0, 10, &value), "%s", wrong[i]);
    ck_assert(value == 7);
}
END_TEST

START_TEST(seeds_have_64_bits)
{
    uint64_t value = 7;
    ck_assert(locus_number_seed("18446744073709551615", &value) && value == UINT64_MAX);
    ck_assert(locus_number_seed("-1", &value) && value == UINT64_MAX);
    ck_assert(locus_number_seed("0x1F", &value) && value == 31);
    static const char *const wrong[] = {
        "", "18446744073709551616", "-9223372036854775809", "0x", "1.0", " 1", "--1", "0x1g"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!locus_number_seed(wrong[i], &value), "%s", wrong[i]);
    ck_assert(value == 31);
}
END_TEST

/* ---- a locale with a comma ----------------------------------------------------------------- */

/* A locale that is "C" but for its numbers, where the system's localedef makes one from this text;
 * false where it doesn't. */
static bool set_comma_locale(void)
{
    static const char source[] =
        "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n";
    const char *path = testing_temporary("comma");
    char command[3 * 4096], folder[4096];
    testing_write(path, source, sizeof source - 1);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    snprintf(command, sizeof command, "localedef -c -i '%s' '%s/xx_XX' >'%s.log' 2>&1", path,
             folder, path);
    /* It warns of what the text leaves out, and that is its exit status. */
    if (system(command) < 0 || setenv("LOCPATH", folder, 1) || !setlocale(LC_ALL, "xx_XX")) {
        puts("skipped: test_number: localedef makes no locale here");
        return false;
    }
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    ck_assert_str_eq(text, "0,5"); /* the tests below would fail without what they test */
    ck_assert(strtod("0.5", NULL) == 0);
    return true;
}

START_TEST(text_has_points)
{
    if (!set_comma_locale()) return;
    struct locus_buffer buffer = {0};
    locus_error error = {0};
    char text[32];
    locus_buffer_printf(&buffer, "%g %.1f %d", 0.25, 1234567.5, 1234567);
    ck_assert_str_eq(buffer.bytes, "0.25 1234567.5 1234567");
    locus_buffer_free(&buffer);
    locus_fail(&error, LOCUS_ERROR_FORMAT, "%g", 1e-7 * 1.5);
    ck_assert_str_eq(error.message, "1.5e-07");
    locus_number_format(0.1, text);
    ck_assert_str_eq(text, "0.1");
    locus_number_print(text, 2.5, 0.5);
    ck_assert_str_eq(text, "2.5");
    snprintf(text, sizeof text, "%.1f", 0.5);
    ck_assert_str_eq(text, "0,5"); /* the program's locale is as it was */
}
END_TEST

START_TEST(points_are_read)
{
    if (!set_comma_locale()) return;
    double value = 0;
    float number = 0;
    ck_assert(locus_number_parse("1.25", 4, false, &value) && value == 1.25);
    ck_assert(!locus_number_parse("1,25", 4, false, &value));
    ck_assert(locus_number_float("+0.75", 0, 1, &number) && number == 0.75f);
    ck_assert(!locus_number_float("0,75", 0, 1, &number));
    ck_assert(locus_number_read("3.5e1x", NULL) == 35);
}
END_TEST

START_TEST(results_have_points)
{
    if (!set_comma_locale()) return;
    struct locus_buffer out = {0};
    struct locus_json json = {.out = &out};
    struct locus_row row = {{0}};
    locus_json_open(&json, NULL, '[');
    locus_json_float(&json, NULL, 0.1f);
    locus_json_measure(&json, NULL, 1.5);
    locus_json_close(&json, ']');
    ck_assert_str_eq(out.bytes, "[0.1, 1.500]");
    out.length = 0;
    ck_assert(locus_row_set_real(&row, LOCUS_COLUMN_NLL, 2.5));
    ck_assert(locus_row_set_real(&row, LOCUS_COLUMN_SECONDS, 0.25));
    ck_assert_str_eq(row.cells[LOCUS_COLUMN_NLL], "2.5");
    ck_assert_str_eq(row.cells[LOCUS_COLUMN_SECONDS], "0.250");
    ck_assert(locus_row_number(&row, LOCUS_COLUMN_NLL) == 2.5);
    locus_row_free(&row);
    struct locus_table table = {.n_columns = 1};
    locus_table_add(&table, "%.2f", 0.5);
    locus_table_print(&table, &out);
    ck_assert_str_eq(out.bytes, "0.50\n");
    locus_buffer_free(&out);
}
END_TEST

/* A CSV is written and read again, a cell that is a number with it. */
START_TEST(a_csv_is_read_as_it_was_written)
{
    if (!set_comma_locale()) return;
    const char *path = testing_temporary("x.csv");
    struct locus_csv csv;
    struct locus_row row = {{0}};
    ck_assert(locus_row_set_real(&row, LOCUS_COLUMN_NLL, 2.5));
    ck_assert(locus_row_set_int(&row, LOCUS_COLUMN_TOKENS, 10));
    ck_assert(locus_row_set_real(&row, LOCUS_COLUMN_PERPLEXITY, exp(2.5)));
    ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_NEW, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_csv_add(&csv, &row, NULL), LOCUS_OK);
    locus_csv_close(&csv);
    ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_RESUME, NULL), LOCUS_OK);
    ck_assert_int_eq(csv.n_rows, 1);
    ck_assert(locus_row_number(&csv.rows[0], LOCUS_COLUMN_NLL) == 2.5);
    ck_assert(fabs(locus_row_number(&csv.rows[0], LOCUS_COLUMN_PERPLEXITY) - exp(2.5)) < 1e-4);
    locus_csv_close(&csv);
    locus_row_free(&row);
}
END_TEST

/* SPECs: a user's, and one that a family's metadata come to. */
START_TEST(specs_have_points)
{
    if (!set_comma_locale()) return;
    locus_error error = {0};
    struct variant *variant = variant_begin(NULL);
    struct locus_checkpoint_writer *writer = variant_writer(variant);
    locus_writer_string(writer, "llama.rope.scaling.type", "linear", 6);
    locus_writer_f32(writer, "llama.rope.scaling.factor", 2.5f);
    locus_model *model = locus_model_open(variant_finish(variant), &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    ck_assert_ptr_nonnull(strstr(locus_model_info_get(model).position, "factor=2.5"));
    locus_session_params params = {.position = "rope:scaling=yarn,factor=1.5,beta_fast=16.5"};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_ptr_nonnull(strstr(locus_session_position(session), "factor=1.5,"));
    ck_assert_ptr_nonnull(strstr(locus_session_position(session), "beta_fast=16.5"));
    locus_session_free(session);
    params.position = "rope:base=-0.5";
    ck_assert_ptr_null(locus_session_create(model, &params, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "-0.5"));
    locus_model_free(model);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("number");
    TCase *tests = tcase_create("number");
    tcase_add_test(tests, integers_are_the_whole_text);
    tcase_add_test(tests, floats_are_the_whole_text);
    tcase_add_test(tests, seeds_have_64_bits);
    tcase_add_test(tests, text_has_points);
    tcase_add_test(tests, points_are_read);
    tcase_add_test(tests, results_have_points);
    tcase_add_test(tests, a_csv_is_read_as_it_was_written);
    tcase_add_test(tests, specs_have_points);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
