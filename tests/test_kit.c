/* What the commands share: JSON, tables, pages, the nearest name to a wrong one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/text.h"
#include "cli/kit/json.h"
#include "cli/kit/page.h"
#include "cli/kit/progress.h"
#include "cli/kit/table.h"
#include "testing.h"

static void check_text(struct locus_buffer *found, const char *wanted)
{
    ck_assert(!found->failed);
    ck_assert_str_eq(found->bytes, wanted);
    locus_buffer_free(found);
}

START_TEST(json_spells_any_bytes)
{
    static const char bytes[] = "a\"\\\n\t\x01\x1F\x7F\xC3\xA9\xFF\xC3";
    struct locus_buffer out = {0};
    struct locus_json json = {.out = &out};
    locus_json_bytes(&json, NULL, bytes, sizeof bytes - 1);
    check_text(&out, "\"a\\\"\\\\\\n\\t\\u0001\\u001f\\u007f\xC3\xA9\\ufffd\\ufffd\"");
}
END_TEST

START_TEST(json_floats_read_back_as_they_were)
{
    struct locus_rng rng;
    locus_rng_seed(&rng, 5);
    for (int i = 0; i < 20000; i++) {
        const uint32_t bits = (uint32_t)locus_rng_next(&rng);
        float value;
        memcpy(&value, &bits, sizeof value);
        struct locus_buffer out = {0};
        struct locus_json json = {.out = &out};
        locus_json_float(&json, NULL, value);
        if (!isfinite(value))
            ck_assert_str_eq(out.bytes, "null");
        else
            ck_assert_msg(strtof(out.bytes, NULL) == value, "%.9g: %s", (double)value, out.bytes);
        locus_buffer_free(&out);
    }
    struct locus_buffer out = {0};
    struct locus_json json = {.out = &out};
    locus_json_open(&json, NULL, '[');
    locus_json_float(&json, NULL, 0.1f);
    locus_json_float(&json, NULL, 0.8f);
    locus_json_float(&json, NULL, 1e10f);
    locus_json_close(&json, ']');
    check_text(&out, "[0.1, 0.8, 1e+10]");
}
END_TEST

/* A character is a column, whatever its bytes. */
START_TEST(tables_stand_in_columns)
{
    struct locus_table table = {.n_columns = 3, .n_left = 1};
    struct locus_buffer out = {0};
    const char *const cells[] = {"text", "n", "x", "caf\xC3\xA9s", "10", "1.5", "\xE2\x82\xAC"};
    for (int i = 0; i < 7; i++)
        locus_table_add(&table, "%s", cells[i]);
    locus_table_add(&table, "%d", 7);
    locus_table_add(&table, "%s", "");
    locus_table_print(&table, &out);
    check_text(&out, "text    n    x\n"
                     "caf\xC3\xA9s  10  1.5\n"
                     "\xE2\x82\xAC       7     \n");
}
END_TEST

START_TEST(wide_tables_come_in_parts)
{
    struct locus_table table = {.n_columns = 4, .n_left = 1, .width = 13};
    struct locus_buffer out = {0};
    const char *const cells[] = {"text", "a", "bb", "c", "x", "10", "200", "3000"};
    for (int i = 0; i < 8; i++)
        locus_table_add(&table, "%s", cells[i]);
    locus_table_print(&table, &out);
    check_text(&out, "text   a   bb\n"
                     "x     10  200\n"
                     "\n"
                     "text     c\n"
                     "x     3000\n");
}
END_TEST

/* ---- pages --------------------------------------------------------------------------------- */

START_TEST(long_lines_go_on_under_their_second_column)
{
    static const struct {
        const char *line, *wanted;
    } cases[] = {
        {"short\n\n", "short\n\n"},
        {"one two three four five six", "one two three four\nfive six"},
        {"one two three four f", "one two three four f"}, /* as wide as the page */
        {"  -x  one two three four", "  -x  one two three\n      four"},
        {"  one two three four five", "  one two three four\n  five"},
        {"usage: locus x [-y] [-z]", "usage: locus x [-y]\n       [-z]"},
        {"a:b=1,c=2,d=3,e=4,f=5,g=6", "a:b=1,c=2,d=3,e=4,\nf=5,g=6"},
        {"nothingthatmaybecutanywhere", "nothingthatmaybecutanywhere"},
        {"caf\xC3\xA9s caf\xC3\xA9s caf\xC3\xA9s caf\xC3\xA9",
         "caf\xC3\xA9s caf\xC3\xA9s caf\xC3\xA9s\ncaf\xC3\xA9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_buffer out = {0};
        locus_buffer_printf(&out, "before%s", cases[i].line);
        locus_page_fold(&out, 6, 0);
        ck_assert_str_eq(out.bytes + 6, cases[i].line);
        locus_page_fold(&out, 6, 20);
        ck_assert_str_eq(out.bytes + 6, cases[i].wanted);
        locus_buffer_free(&out);
    }
}
END_TEST

/* Into a file or pipe: whole lines, no more of them than the interval lets through. */
START_TEST(progress_that_is_no_terminals_comes_in_lines)
{
    struct locus_progress progress;
    char text[256] = "";
    FILE *file = tmpfile();
    const int saved = dup(STDERR_FILENO);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(dup2(fileno(file), STDERR_FILENO), 0);
    locus_progress_begin(&progress, 8, false);
    const double interval = progress.interval;
    progress.label = "length 64";
    locus_progress_advance(&progress, 1); /* a minute has not passed */
    progress.interval = 0;
    locus_progress_advance(&progress, 1);
    locus_progress_clear(&progress);
    locus_progress_begin(&progress, 8, true);
    progress.interval = 0;
    locus_progress_advance(&progress, 1); /* --quiet */
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    ck_assert(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    ck_assert(interval == 60);
    ck_assert_str_eq(text, "locus: 25%, 0 s left: length 64\n");
}
END_TEST

/* The nearest of the names, up to a NULL. */
static const char *nearest_of(const char *name, const char *const *names)
{
    struct locus_suggestion suggestion = locus_suggestion_near(name);
    for (; *names; names++)
        locus_suggestion_offer(&suggestion, *names);
    return suggestion.nearest;
}

START_TEST(near_names_are_offered_and_far_ones_are_not)
{
    static const char *const names[] = {"generate", "plot", "bench", "top-k", "p", "ab", NULL};
    ck_assert_pstr_eq(nearest_of("genrate", names), "generate");
    ck_assert_pstr_eq(nearest_of("polt", names), "plot");
    ck_assert_pstr_eq(nearest_of("topk", names), "top-k");
    ck_assert_pstr_eq(nearest_of("x", names), NULL); /* "p" would have no letter of it */
    ck_assert_pstr_eq(nearest_of("ac", names), "ab");
    ck_assert_pstr_eq(nearest_of("quantize", names), NULL);
    ck_assert_pstr_eq(nearest_of("", names), NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kit");
    TCase *tests = tcase_create("kit");
    tcase_add_test(tests, json_spells_any_bytes);
    tcase_add_test(tests, json_floats_read_back_as_they_were);
    tcase_add_test(tests, tables_stand_in_columns);
    tcase_add_test(tests, wide_tables_come_in_parts);
    tcase_add_test(tests, long_lines_go_on_under_their_second_column);
    tcase_add_test(tests, progress_that_is_no_terminals_comes_in_lines);
    tcase_add_test(tests, near_names_are_offered_and_far_ones_are_not);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
