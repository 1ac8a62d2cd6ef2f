/* Results: the rows they are kept as, and their CSV file. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/sha256.h"
#include "experiment/report.h"
#include "hostile.h"
#include "testing.h"

static struct locus_row make_row(const char *position, int length, double nll)
{
    struct locus_row row = {{0}};
    struct locus_summary summary = {
        .tokens = 10, .bytes = 30, .sum = nll * 10, .squares = nll * nll * 11};
    ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TASK, "perplexity"));
    ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_POSITION, position));
    ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TEXT, "a \"quoted\", text"));
    ck_assert(locus_row_set_int(&row, LOCUS_COLUMN_LENGTH, length));
    ck_assert(locus_row_set_summary(&row, &summary));
    ck_assert(locus_row_set_real(&row, LOCUS_COLUMN_SECONDS, 0.25 * length));
    return row;
}

static void write_rows(const char *path, const struct locus_row *rows, int n)
{
    struct locus_csv csv;
    locus_error error;
    ck_assert_msg(locus_csv_open(&csv, path, LOCUS_CSV_REPLACE, &error) == LOCUS_OK, "%s",
                  error.message);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(locus_csv_add(&csv, &rows[i], &error), LOCUS_OK);
    locus_csv_close(&csv);
}

START_TEST(rows_come_back_from_their_file)
{
    const char *path = testing_temporary("rows.csv");
    struct locus_row rows[] = {make_row("rope:dim=8,base=10000", 16, 1.25),
                               make_row("alibi", 32, 2.5)};
    write_rows(path, rows, 2);
    struct locus_csv csv;
    ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_RESUME, NULL), LOCUS_OK);
    ck_assert_int_eq(csv.n_rows, 2);
    for (int i = 0; i < 2; i++) {
        const struct locus_row *found = locus_csv_find(&csv, &rows[i]);
        ck_assert_ptr_eq(found, &csv.rows[i]);
        for (int j = 0; j < LOCUS_N_COLUMNS; j++)
            ck_assert_pstr_eq(found->cells[j], rows[i].cells[j]);
    }
    struct locus_row other = make_row("alibi", 16, 2.5);
    ck_assert_ptr_null(locus_csv_find(&csv, &other));
    /* Results, threads and seconds may differ. */
    ck_assert(locus_row_set_int(&rows[1], LOCUS_COLUMN_THREADS, 7));
    ck_assert(locus_row_set_real(&rows[1], LOCUS_COLUMN_NLL, 9));
    ck_assert_ptr_nonnull(locus_csv_find(&csv, &rows[1]));
    locus_csv_close(&csv);
    locus_row_free(&other);
    locus_row_free(&rows[0]);
    locus_row_free(&rows[1]);
}
END_TEST

START_TEST(texts_that_look_like_formulas_are_written_as_texts)
{
    static const struct {
        const char *text, *cell;
    } cases[] = {
        {"=cmd|calc!A1.gguf", "'=cmd|calc!A1.gguf"},
        {"+1", "'+1"},
        {"-1", "'-1"},
        {"@x, y", "\"'@x, y\""},
        {"'=1", "''=1"},
        {"''-\"", "\"'''-\"\"\""},
        {"-", "-"},
        {"'-", "'-"},
        {"'", "'"},
        {"'text'", "'text'"},
        {"a=b", "a=b"},
    };
    const char *path = testing_temporary("formulas.csv");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_row row = make_row("none", 16, -0.0005);
        struct locus_csv csv;
        struct locus_buffer cell = {0};
        locus_csv_cell(&cell, cases[i].text, strlen(cases[i].text));
        ck_assert_str_eq(cell.bytes, cases[i].cell);
        locus_buffer_free(&cell);
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_MODEL, cases[i].text));
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TEXT, cases[i].text));
        write_rows(path, &row, 1);
        char *bytes = testing_read(path, NULL);
        ck_assert_ptr_nonnull(strstr(bytes, ",-0.0005,")); /* a number stays one */
        free(bytes);
        ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_RESUME, NULL), LOCUS_OK);
        ck_assert_ptr_nonnull(locus_csv_find(&csv, &row));
        ck_assert_str_eq(csv.rows[0].cells[LOCUS_COLUMN_MODEL], cases[i].text);
        locus_csv_close(&csv);
        locus_row_free(&row);
    }
}
END_TEST

START_TEST(a_file_cut_anywhere_is_taken_up_again)
{
    const char *path = testing_temporary("whole.csv"), *cut = testing_temporary("cut.csv");
    struct locus_row rows[] = {make_row("rope:dim=8", 16, 1), make_row("none", 32, 2)};
    size_t n_bytes, n_again;
    write_rows(path, rows, 2);
    char *bytes = testing_read(path, &n_bytes);
    for (size_t n = 0; n <= n_bytes; n++) {
        testing_write(cut, bytes, n);
        struct locus_csv csv;
        locus_error error;
        ck_assert_msg(locus_csv_open(&csv, cut, LOCUS_CSV_RESUME, &error) == LOCUS_OK,
                      "cut at %zu: %s", n, error.message);
        for (int i = 0; i < 2; i++)
            if (!locus_csv_find(&csv, &rows[i]))
                ck_assert_int_eq(locus_csv_add(&csv, &rows[i], NULL), LOCUS_OK);
        locus_csv_close(&csv);
        char *again = testing_read(cut, &n_again);
        ck_assert_uint_eq(n_again, n_bytes);
        ck_assert_mem_eq(again, bytes, n_bytes);
        free(again);
    }
    free(bytes);
    locus_row_free(&rows[0]);
    locus_row_free(&rows[1]);
}
END_TEST

START_TEST(a_file_that_another_run_writes_is_left_alone)
{
    const char *path = testing_temporary("shared.csv");
    struct locus_csv first, second;
    locus_error error;
    ck_assert_int_eq(locus_csv_open(&first, path, LOCUS_CSV_NEW, &error), LOCUS_OK);
    size_t n_before, n_after;
    free(testing_read(path, &n_before));
    for (int mode = LOCUS_CSV_NEW; mode <= LOCUS_CSV_REPLACE; mode++) {
        ck_assert_int_eq(locus_csv_open(&second, path, (enum locus_csv_mode)mode, &error),
                         LOCUS_ERROR_IO);
        ck_assert_ptr_nonnull(strstr(error.message, "shared.csv: another run is writing to it"));
        locus_csv_close(&second);
    }
    free(testing_read(path, &n_after));
    ck_assert_uint_eq(n_before, n_after);
    locus_csv_close(&first);
    ck_assert_int_eq(locus_csv_open(&second, path, LOCUS_CSV_RESUME, &error), LOCUS_OK);
    locus_csv_close(&second);
}
END_TEST

START_TEST(a_file_of_something_else_is_not_resumed_and_stays)
{
    static const char *const contents[] = {"precious notes\n", "task,model\n1,2\n", "x"};
    const char *path = testing_temporary("other.csv");
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        struct locus_csv csv;
        locus_error error;
        size_t n_bytes;
        testing_write(path, contents[i], strlen(contents[i]));
        ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_RESUME, &error), LOCUS_ERROR_FORMAT);
        ck_assert_ptr_nonnull(strstr(error.message, "header"));
        locus_csv_close(&csv);
        char *bytes = testing_read(path, &n_bytes);
        ck_assert_str_eq(bytes, contents[i]);
        free(bytes);
    }
}
END_TEST

START_TEST(results_are_not_overwritten_unless_that_is_asked_for)
{
    static const char *const contents[] = {"precious notes\n", "x"};
    const char *path = testing_temporary("kept.csv");
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        struct locus_csv csv;
        locus_error error;
        testing_write(path, contents[i], strlen(contents[i]));
        ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_NEW, &error), LOCUS_ERROR_IO);
        ck_assert_ptr_nonnull(strstr(error.message, "kept.csv is there already"));
        ck_assert_ptr_nonnull(strstr(error.message, "--resume"));
        ck_assert_ptr_nonnull(strstr(error.message, "--force"));
        locus_csv_close(&csv);
        char *bytes = testing_read(path, NULL);
        ck_assert_str_eq(bytes, contents[i]);
        free(bytes);
        ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_REPLACE, &error), LOCUS_OK);
        locus_csv_close(&csv);
        bytes = testing_read(path, NULL);
        ck_assert_int_eq(strncmp(bytes, "task,model,", 11), 0);
        free(bytes);
    }
    /* An empty file and a device hold nothing. */
    struct locus_csv csv;
    testing_write(path, "", 0);
    ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_NEW, NULL), LOCUS_OK);
    locus_csv_close(&csv);
    ck_assert_int_eq(locus_csv_open(&csv, "/dev/null", LOCUS_CSV_NEW, NULL), LOCUS_OK);
    locus_csv_close(&csv);
}
END_TEST

/* As on a disk that is full. */
START_TEST(a_file_that_takes_no_header_is_not_left)
{
    const char *path = testing_temporary("x.csv");
    struct rlimit old, none;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = 10;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 6; i++) {
        const int was_there = i % 2;
        struct locus_csv csv;
        locus_error error;
        if (was_there) testing_write(path, "", 0);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
        enum locus_status status = locus_csv_open(&csv, path, (enum locus_csv_mode)(i / 2), &error);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
        locus_csv_close(&csv);
        ck_assert_int_eq(status, LOCUS_ERROR_IO);
        ck_assert_ptr_nonnull(strstr(error.message, "x.csv: write failed"));
        ck_assert_int_eq(testing_count_files(path), was_there);
        if (was_there) ck_assert_int_eq(unlink(path), 0);
    }
}
END_TEST

START_TEST(a_file_of_other_columns_is_refused_in_one_line)
{
    static const char old[] = "task,model,model_sha,weight_type,position,attention,trained_length,"
                              "text,length,threads,seconds\nperplexity,x,y\n";
    const char *path = testing_temporary("old.csv");
    struct locus_csv csv;
    locus_error error;
    testing_write(path, old, sizeof old - 1);
    ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_RESUME, &error), LOCUS_ERROR_FORMAT);
    ck_assert_msg(strstr(error.message, "old.csv: can't be resumed: its header has other columns, "
                                        "11 of them, expected the 31 of locus " LOCUS_VERSION),
                  "%s", error.message);
    locus_csv_close(&csv);
}
END_TEST

START_TEST(a_row_whose_result_can_be_none_is_not_resumed)
{
    static const struct {
        enum locus_column column;
        const char *text;
        bool fits;
    } cases[] = {
        {LOCUS_COLUMN_NLL, "abc", false},           {LOCUS_COLUMN_NLL, "2.5x", false},
        {LOCUS_COLUMN_NLL, "nan", false},           {LOCUS_COLUMN_NLL, "inf", false},
        {LOCUS_COLUMN_NLL, "1e300", false},         {LOCUS_COLUMN_NLL, "-5", false},
        {LOCUS_COLUMN_NLL, "0x1p1", false},         {LOCUS_COLUMN_NLL, " 2.5", false},
        {LOCUS_COLUMN_NLL, "+2.5", false},          {LOCUS_COLUMN_NLL, "02.5", false},
        {LOCUS_COLUMN_NLL, "2.e0", false},          {LOCUS_COLUMN_NLL, ".25e1", false},
        {LOCUS_COLUMN_NLL, "25e-1", true},          {LOCUS_COLUMN_PERPLEXITY, "infinity", false},
        {LOCUS_COLUMN_PERPLEXITY, "-inf", false},   {LOCUS_COLUMN_STANDARD_ERROR, "inf", true},
        {LOCUS_COLUMN_BITS_PER_BYTE, "inf", false}, {LOCUS_COLUMN_TOKENS, "1e30", false},
        {LOCUS_COLUMN_TOKENS, "-1", false},         {LOCUS_COLUMN_ACCURACY, "1.5", false},
        {LOCUS_COLUMN_SECONDS, "inf", false},
    };
    const char *path = testing_temporary("odd.csv");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_row row = make_row("none", 16, 2.5);
        ck_assert(locus_row_set_text(&row, cases[i].column, cases[i].text));
        write_rows(path, &row, 1);
        struct locus_csv csv;
        locus_error error;
        char expected[96];
        enum locus_status status = locus_csv_open(&csv, path, LOCUS_CSV_RESUME, &error);
        snprintf(expected, sizeof expected, "odd.csv: line 2: %s is '%s', not a number that",
                 locus_column_name(cases[i].column), cases[i].text);
        ck_assert_int_eq(status, cases[i].fits ? LOCUS_OK : LOCUS_ERROR_FORMAT);
        if (!cases[i].fits)
            ck_assert_msg(strstr(error.message, expected) != NULL, "%s", error.message);
        locus_csv_close(&csv);
        locus_row_free(&row);
    }
}
END_TEST

/* The file's pages fit in, and no second copy of its line. */
START_TEST(a_line_that_memory_lacks_is_no_fault_of_the_file)
{
    enum { LINE = 96 << 20 };
    const char *path = testing_temporary("long.csv");
    struct locus_csv csv;
    locus_error error;
    write_rows(path, NULL, 0);
    ck_assert_int_eq(truncate(path, LINE), 0); /* the header and a hole */
    FILE *stream = fopen(path, "ab");
    ck_assert_ptr_nonnull(stream);
    ck_assert_int_eq(fputc('\n', stream), '\n');
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_RESUME, &error), LOCUS_ERROR_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "long.csv: line 2 is not a row of 31 cells"));
    locus_csv_close(&csv);
    if (!hostile_limit_memory(LINE + LINE / 2)) return;
    ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_RESUME, &error), LOCUS_ERROR_MEMORY);
    locus_csv_close(&csv);
}
END_TEST

START_TEST(a_row_whose_perplexity_is_not_its_loss_is_not_resumed)
{
    static const struct {
        const char *nll, *perplexity;
        bool fits;
    } cases[] = {
        {"2.5", "12.182494", true}, {"2.5", "12.19", true}, /* rounded */
        {"2.5", "12.2", false},     {"2.5", "12.1", false},     {"2.5", "inf", false},
        {"2.5", NULL, false},       {NULL, "12.182494", false}, {NULL, NULL, true},
        {"0", "1", true},           {"800.5", "inf", true},     {"800.5", "1e300", false},
        {"1e+39", "inf", true},
    };
    const char *path = testing_temporary("apart.csv");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_row row = make_row("none", 16, 1);
        struct locus_csv csv;
        locus_error error;
        char expected[96];
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_NLL, cases[i].nll ? cases[i].nll : ""));
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_PERPLEXITY,
                                     cases[i].perplexity ? cases[i].perplexity : ""));
        /* Of a length that its text doesn't fill. */
        if (!cases[i].nll && !cases[i].perplexity)
            ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TOKENS, ""));
        write_rows(path, &row, 1);
        enum locus_status status = locus_csv_open(&csv, path, LOCUS_CSV_RESUME, &error);
        ck_assert_int_eq(status, cases[i].fits ? LOCUS_OK : LOCUS_ERROR_FORMAT);
        snprintf(expected, sizeof expected,
                 "apart.csv: line 2: perplexity is '%s', expected e to the nll '%s'",
                 cases[i].perplexity ? cases[i].perplexity : "", cases[i].nll ? cases[i].nll : "");
        if (!cases[i].fits)
            ck_assert_msg(strstr(error.message, expected) != NULL, "%s", error.message);
        locus_csv_close(&csv);
        locus_row_free(&row);
    }
}
END_TEST

START_TEST(a_row_without_the_result_of_what_it_counts_is_not_resumed)
{
    static const struct {
        const char *tokens, *nll, *perplexity, *trials, *accuracy, *expected;
    } cases[] = {
        {"10", "0", "1", "", "", NULL},
        {"", "", "", "", "", NULL},
        {"", "", "", "50", "0.5", NULL},
        {"10", "", "", "", "", "there is tokens and no perplexity, expected both or neither"},
        {"", "0", "1", "", "", "there is perplexity and no tokens, expected both or neither"},
        {"", "", "", "50", "", "there is trials and no accuracy, expected both or neither"},
        {"", "", "", "", "0.5", "there is accuracy and no trials, expected both or neither"},
    };
    const char *path = testing_temporary("half.csv");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_row row = make_row("none", 16, 1);
        struct locus_csv csv;
        locus_error error;
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TOKENS, cases[i].tokens));
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_NLL, cases[i].nll));
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_PERPLEXITY, cases[i].perplexity));
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_TRIALS, cases[i].trials));
        ck_assert(locus_row_set_text(&row, LOCUS_COLUMN_ACCURACY, cases[i].accuracy));
        write_rows(path, &row, 1);
        enum locus_status status = locus_csv_open(&csv, path, LOCUS_CSV_RESUME, &error);
        ck_assert_int_eq(status, cases[i].expected ? LOCUS_ERROR_FORMAT : LOCUS_OK);
        if (cases[i].expected)
            ck_assert_msg(strstr(error.message, cases[i].expected) != NULL, "%s", error.message);
        locus_csv_close(&csv);
        locus_row_free(&row);
    }
}
END_TEST

/* As a program that edits CSVs may leave it. */
START_TEST(a_file_with_lines_of_another_end_is_refused_by_that)
{
    const char *path = testing_temporary("edited.csv");
    struct locus_row row = make_row("none", 16, 1);
    write_rows(path, &row, 1);
    size_t n_bytes;
    char *bytes = testing_read(path, &n_bytes);
    struct locus_buffer edited = {0};
    struct locus_csv csv;
    locus_error error;
    for (size_t i = 0; i < n_bytes; i++)
        locus_buffer_append(&edited, bytes[i] == '\n' ? "\r\n" : bytes + i,
                            bytes[i] == '\n' ? 2 : 1);
    testing_write(path, edited.bytes, edited.length);
    ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_RESUME, &error), LOCUS_ERROR_FORMAT);
    ck_assert_msg(strstr(error.message, "edited.csv: can't be resumed: its lines end in CR LF, "
                                        "expected LF alone"),
                  "%s", error.message);
    locus_csv_close(&csv);
    char *again = testing_read(path, &n_bytes);
    ck_assert_uint_eq(n_bytes, edited.length);
    ck_assert_mem_eq(again, edited.bytes, n_bytes);
    locus_buffer_free(&edited);
    locus_row_free(&row);
    free(again);
    free(bytes);
}
END_TEST

START_TEST(the_newest_row_wins_and_older_states_are_told_apart)
{
    const char *path = testing_temporary("newest.csv");
    struct locus_row rows[3];
    static const char *const shas[] = {"aa", "bb", "bb"};
    for (int i = 0; i < 3; i++) {
        rows[i] = make_row("none", 16, 1 + i);
        ck_assert(locus_row_set_text(&rows[i], LOCUS_COLUMN_TEXT_SHA, shas[i]));
    }
    write_rows(path, rows, 3);
    struct locus_csv csv;
    ck_assert_int_eq(locus_csv_open(&csv, path, LOCUS_CSV_RESUME, NULL), LOCUS_OK);
    ck_assert_ptr_eq(locus_csv_find(&csv, &rows[1]), &csv.rows[2]);
    ck_assert(locus_row_is_outdated(&csv.rows[0], &rows[1], LOCUS_COLUMN_TEXT_SHA));
    ck_assert(!locus_row_is_outdated(&csv.rows[0], &rows[1], LOCUS_COLUMN_MODEL_SHA));
    ck_assert(!locus_row_is_outdated(&csv.rows[1], &rows[2], LOCUS_COLUMN_TEXT_SHA));
    struct locus_row other = make_row("none", 32, 1);
    ck_assert(!locus_row_is_outdated(&csv.rows[0], &other, LOCUS_COLUMN_TEXT_SHA));
    locus_csv_close(&csv);
    locus_row_free(&other);
    for (int i = 0; i < 3; i++)
        locus_row_free(&rows[i]);
}
END_TEST

/* Rows of a file may hold anything that is a number. */
START_TEST(pooling_survives_huge_figures)
{
    struct locus_row rows[2], pooled;
    const struct locus_row *of[] = {&rows[0], &rows[1]};
    for (int i = 0; i < 2; i++) {
        rows[i] = make_row("none", 16, 900);
        ck_assert_str_eq(rows[i].cells[LOCUS_COLUMN_PERPLEXITY], "inf");
        ck_assert(locus_row_set_text(&rows[i], LOCUS_COLUMN_TOKENS, i ? "1e300" : "7"));
        ck_assert(locus_row_set_text(&rows[i], LOCUS_COLUMN_BITS_PER_BYTE, "1e-30"));
    }
    ck_assert(locus_row_pool(&pooled, of, 2, "cc"));
    ck_assert_str_eq(pooled.cells[LOCUS_COLUMN_TEXT_SHA], "cc");
    ck_assert_str_eq(pooled.cells[LOCUS_COLUMN_TOKENS], "1000000000000007");
    locus_row_free(&pooled);
    locus_row_free(&rows[0]);
    locus_row_free(&rows[1]);
}
END_TEST

START_TEST(pooled_rows_average_over_all_tokens)
{
    struct locus_row a = make_row("none", 16, 1), b = make_row("none", 16, 2), pooled;
    struct locus_summary more = {.tokens = 30, .bytes = 60, .sum = 60, .squares = 150};
    ck_assert(locus_row_set_summary(&b, &more));
    const struct locus_row *rows[] = {&a, &b};
    ck_assert(locus_row_pool(&pooled, rows, 2, "0123456789abcdef"));
    ck_assert_str_eq(pooled.cells[LOCUS_COLUMN_TEXT], "pooled");
    ck_assert_str_eq(pooled.cells[LOCUS_COLUMN_TOKENS], "40");
    ck_assert_double_eq_tol(locus_row_number(&pooled, LOCUS_COLUMN_NLL), 70.0 / 40, 1e-8);
    ck_assert_double_eq_tol(locus_row_number(&pooled, LOCUS_COLUMN_BITS_PER_BYTE), 70 / log(2) / 90,
                            1e-8);
    double variance = (11.0 + 150.0) / 40 - 1.75 * 1.75;
    ck_assert_double_eq_tol(locus_row_number(&pooled, LOCUS_COLUMN_STANDARD_ERROR),
                            exp(1.75) * sqrt(variance / 39), 1e-6);
    locus_row_free(&a);
    locus_row_free(&b);
    locus_row_free(&pooled);
}
END_TEST

/* ---- SHA-256 ------------------------------------------------------------------------------ */

START_TEST(sha256_gives_the_standards_digests)
{
    static const struct {
        const char *text, *start; /* FIPS 180-4's examples, and lengths about a chunk's end */
    } cases[] = {
        {"", "e3b0c442"},
        {"abc", "ba7816bf"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
         "lmnopqrsmnopqrstnopqrstu",
         "cf5b16a7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t digest[32];
        char start[9];
        locus_sha256(cases[i].text, strlen(cases[i].text), digest);
        snprintf(start, sizeof start, "%02x%02x%02x%02x", digest[0], digest[1], digest[2],
                 digest[3]);
        ck_assert_str_eq(start, cases[i].start);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report");
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, rows_come_back_from_their_file);
    tcase_add_test(rows, texts_that_look_like_formulas_are_written_as_texts);
    tcase_add_test(rows, a_file_cut_anywhere_is_taken_up_again);
    tcase_add_test(rows, a_file_that_another_run_writes_is_left_alone);
    tcase_add_test(rows, a_file_of_something_else_is_not_resumed_and_stays);
    tcase_add_test(rows, results_are_not_overwritten_unless_that_is_asked_for);
    tcase_add_test(rows, a_file_that_takes_no_header_is_not_left);
    tcase_add_test(rows, a_file_of_other_columns_is_refused_in_one_line);
    tcase_add_test(rows, a_row_whose_result_can_be_none_is_not_resumed);
    tcase_add_test(rows, a_line_that_memory_lacks_is_no_fault_of_the_file);
    tcase_add_test(rows, a_row_whose_perplexity_is_not_its_loss_is_not_resumed);
    tcase_add_test(rows, a_row_without_the_result_of_what_it_counts_is_not_resumed);
    tcase_add_test(rows, a_file_with_lines_of_another_end_is_refused_by_that);
    tcase_add_test(rows, the_newest_row_wins_and_older_states_are_told_apart);
    tcase_add_test(rows, pooling_survives_huge_figures);
    tcase_add_test(rows, pooled_rows_average_over_all_tokens);
    tcase_add_test(rows, sha256_gives_the_standards_digests);
    suite_add_tcase(suite, rows);
    return testing_run(suite);
}
