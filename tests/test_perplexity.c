/* Perplexity of a text against what PyTorch computes from the same checkpoint
 * (scripts/golden_perplexity.py), and texts cut into documents. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/perplexity.h"
#include "experiment/setting.h"
#include "testing.h"

/* Of the perplexity, relative. */
#define TOLERANCE 1e-4

enum { END_OF_TEXT = 256, TRAINED = 32 };

static enum locus_status encode(const struct testing_model *fixture, const char *text,
                                bool documents, struct locus_corpus *corpus, locus_error *error)
{
    *corpus = (struct locus_corpus){0};
    return locus_corpus_encode(corpus, fixture->model, fixture->tokenizer, text, strlen(text),
                               documents, error);
}

/* ---- PyTorch ------------------------------------------------------------------------------ */

struct golden_line {
    char protocol[16], position[64];
    int length, stride, over, n_tokens;
    double nll;
};

/* protocol,length,stride,"position",over,tokens,nll */
static struct golden_line parse(const char *line)
{
    struct golden_line golden = {.position = ""};
    int used = 0;
    ck_assert_int_eq(
        sscanf(line, "%15[a-z],%d,%d,\"%n", golden.protocol, &golden.length, &golden.stride, &used),
        3);
    const char *rest = line + used, *quote = strchr(rest, '"');
    ck_assert_ptr_nonnull(quote);
    memcpy(golden.position, rest, (size_t)(quote - rest));
    ck_assert_int_eq(sscanf(quote, "\",%d,%d,%lf", &golden.over, &golden.n_tokens, &golden.nll), 3);
    return golden;
}

static void check_line(const struct testing_model *fixture, const char *text,
                       const struct golden_line *golden)
{
    struct locus_corpus corpus;
    struct locus_losses losses;
    locus_error error;
    bool whole;
    struct locus_plan plan = {LOCUS_WINDOWS, golden->length, golden->stride};
    while (strcmp(golden->protocol, locus_protocol_name(plan.protocol)) != 0)
        plan.protocol++;
    ck_assert_int_eq(encode(fixture, text, false, &corpus, &error), LOCUS_OK);
    ck_assert_int_eq(corpus.begin, -1);
    if (golden->over) corpus.begin = END_OF_TEXT;
    const locus_session_params params = {
        .position = *golden->position ? golden->position : NULL, .n_threads = 1, .n_batch = 24};
    locus_session *session =
        locus_session_for_length(fixture->model, &params, golden->length, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_int_eq(locus_losses_init(&losses, &plan, &corpus, &error), LOCUS_OK);
    ck_assert_int_eq(locus_measure(session, &corpus, &losses, 1, NULL, &whole, &error), LOCUS_OK);
    struct locus_summary summary = locus_summary_of(&losses, &corpus);
    const double ratio = locus_summary_perplexity(&summary) / exp(golden->nll);
    ck_assert_int_eq(summary.tokens, golden->n_tokens);
    ck_assert_msg(fabs(ratio - 1) <= TOLERANCE, "%s %d %d %s: off by %g", golden->protocol,
                  golden->length, golden->stride, golden->position, ratio - 1);
    locus_losses_free(&losses);
    locus_session_free(session);
    locus_corpus_free(&corpus);
}

START_TEST(perplexity_is_that_of_pytorch)
{
    struct testing_model fixture = testing_open(testing_golden("perplexity.gguf"));
    char *text = testing_read(testing_golden("perplexity.txt"), NULL);
    char *lines = testing_read(testing_golden("perplexity.csv"), NULL), *rest = lines;
    int n = 0;
    (void)strtok_r(lines, "\n", &rest); /* the header */
    for (char *line; (line = strtok_r(NULL, "\n", &rest)); n++) {
        struct golden_line golden = parse(line);
        check_line(&fixture, text, &golden);
    }
    ck_assert_int_ge(n, 14);
    free(lines);
    free(text);
    testing_close(&fixture);
}
END_TEST

/* ---- sessions ----------------------------------------------------------------------------- */

static void check_spec(const struct testing_model *fixture, const char *position, int length,
                       const char *expected)
{
    const locus_session_params params = {.position = position, .n_threads = 1};
    locus_error error;
    locus_session *session = locus_session_for_length(fixture->model, &params, length, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_str_eq(locus_session_position(session), expected);
    ck_assert_int_eq(locus_session_capacity(session), length);
    locus_session_free(session);
}

START_TEST(schemes_that_depend_on_the_length_take_the_windows)
{
    struct testing_model fixture = testing_open(testing_golden("perplexity.gguf"));
    check_spec(&fixture, NULL, 64, "rope:pairs=half,dim=8,base=1000");
    check_spec(&fixture, "rope:scaling=dynamic", 64,
               "rope:pairs=half,dim=8,base=1000,scaling=dynamic,length=64");
    check_spec(&fixture, "dynamic-ntk", 48,
               "rope:pairs=half,dim=8,base=1000,scaling=dynamic,length=48");
    check_spec(&fixture, "rope:scaling=dynamic,length=20", 64,
               "rope:pairs=half,dim=8,base=1000,scaling=dynamic,length=20");
    check_spec(&fixture, "rope:scaling=linear,factor=auto", 4 * TRAINED,
               "rope:pairs=half,dim=8,base=1000,scaling=linear,factor=4");
    check_spec(&fixture, "rope:scaling=linear,factor=auto", TRAINED / 2,
               "rope:pairs=half,dim=8,base=1000,scaling=linear");
    /* By row if that is asked for, which needs no length. */
    const locus_session_params params = {.position = "rope:scaling=dynamic,length=row",
                                         .n_threads = 1};
    locus_session *session = locus_session_for_length(fixture.model, &params, 64, NULL);
    ck_assert_ptr_nonnull(session);
    ck_assert_ptr_null(strstr(locus_session_position(session), "length=64"));
    locus_session_free(session);
    testing_close(&fixture);
}
END_TEST

/* ---- documents ---------------------------------------------------------------------------- */

START_TEST(texts_are_cut_at_marks_or_at_two_blank_lines)
{
    static const struct {
        const char *text;
        int n, lengths[3]; /* bytes of each document */
    } cases[] = {
        {"one<|endoftext|>three<|endoftext|>", 2, {3, 5}},
        {"<|endoftext|>\none\n<|endoftext|>\n\n\nthree", 2, {3, 5}},
        {"one<|endoftext|>t\n\n\nhree", 2, {3, 8}}, /* marks win */
        {"one\n\n\nthree\n\n\n\n\nsix six", 3, {3, 5, 7}},
        {"one\r\n\r\n\r\nthree", 2, {3, 5}},
        {"one\n\nthree", 1, {10}}, /* one blank line is a paragraph's end */
        {"one<|endoftext|>x<|endoftext|>three", 2, {3, 5}}, /* a token alone predicts nothing */
    };
    struct testing_model fixture = testing_open(testing_golden("perplexity.gguf"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_corpus corpus;
        ck_assert_int_eq(encode(&fixture, cases[i].text, true, &corpus, NULL), LOCUS_OK);
        ck_assert_msg(corpus.n_documents == cases[i].n, "case %zu: %d documents", i,
                      corpus.n_documents);
        int first = 0;
        for (int j = 0; j < cases[i].n; j++) {
            ck_assert_int_eq(corpus.documents[j].first, first);
            ck_assert_int_eq(corpus.documents[j].n, cases[i].lengths[j]);
            first += corpus.documents[j].n;
        }
        ck_assert_int_eq(corpus.n_tokens, first);
        ck_assert_int_eq(corpus.n_marks, 0);
        locus_corpus_free(&corpus);
    }
    testing_close(&fixture);
}
END_TEST

START_TEST(without_documents_marks_are_text_and_counted)
{
    struct testing_model fixture = testing_open(testing_golden("perplexity.gguf"));
    struct locus_corpus corpus;
    const char *text = "one<|endoftext|>three<|endoftext|>";
    ck_assert_int_eq(encode(&fixture, text, false, &corpus, NULL), LOCUS_OK);
    ck_assert_int_eq(corpus.n_documents, 1);
    ck_assert_int_eq(corpus.n_tokens, (int)strlen(text));
    ck_assert_int_eq(corpus.n_marks, 2);
    locus_corpus_free(&corpus);
    testing_close(&fixture);
}
END_TEST

START_TEST(a_text_that_predicts_nothing_is_refused)
{
    static const char *const texts[] = {"", "x", "x<|endoftext|>y"};
    struct testing_model fixture = testing_open(testing_golden("perplexity.gguf"));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct locus_corpus corpus;
        locus_error error;
        ck_assert_int_eq(encode(&fixture, texts[i], true, &corpus, &error), LOCUS_ERROR_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(error.message, "nothing to predict"));
        locus_corpus_free(&corpus);
    }
    testing_close(&fixture);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("perplexity");
    TCase *golden = tcase_create("PyTorch"), *documents = tcase_create("documents");
    tcase_add_test(golden, perplexity_is_that_of_pytorch);
    tcase_add_test(golden, schemes_that_depend_on_the_length_take_the_windows);
    tcase_add_test(documents, texts_are_cut_at_marks_or_at_two_blank_lines);
    tcase_add_test(documents, without_documents_marks_are_text_and_counted);
    tcase_add_test(documents, a_text_that_predicts_nothing_is_refused);
    suite_add_tcase(suite, golden);
    suite_add_tcase(suite, documents);
    return testing_run(suite);
}
