/* Perplexity of a text against what PyTorch computes from the same checkpoint
 * (scripts/golden_perplexity.py), and texts cut into documents. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/perplexity.h"
#include "testing.h"
#include "variant.h"

/* Of the perplexity, relative. */
#define TOLERANCE 1e-5

enum { END_OF_TEXT = 256, TRAINED = 32 };

static const struct locus_begin nowhere = {LOCUS_BEGIN_NONE, -1};

static enum locus_status encode(const struct testing_model *fixture, const char *text,
                                bool documents, struct locus_corpus *corpus, locus_error *error)
{
    const struct locus_corpus_options options = {documents, nowhere};
    *corpus = (struct locus_corpus){0};
    return locus_corpus_encode(corpus, fixture->model, fixture->tokenizer, text, strlen(text),
                               &options, error);
}

/* ---- PyTorch ------------------------------------------------------------------------------ */

struct golden_line {
    char protocol[16], position[64], begin[8];
    int length, stride, first, n_tokens;
    double nll;
};

/* protocol,length,stride,"position",begin,first,tokens,nll */
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
    ck_assert_int_eq(sscanf(quote, "\",%7[a-z],%d,%d,%lf", golden.begin, &golden.first,
                            &golden.n_tokens, &golden.nll),
                     4);
    return golden;
}

static void check_line(const struct testing_model *fixture, const char *text,
                       const struct golden_line *golden)
{
    struct locus_corpus corpus;
    struct locus_losses losses;
    locus_error error;
    bool whole;
    struct locus_plan plan = {LOCUS_WINDOWS, golden->length, golden->stride, golden->first == 1};
    struct locus_corpus_options options = {false, {LOCUS_BEGIN_NONE, -1}};
    while (strcmp(golden->protocol, locus_protocol_name(plan.protocol)) != 0)
        plan.protocol++;
    while (strcmp(golden->begin, locus_begin_name(options.begin.rule)) != 0)
        options.begin.rule++;
    if (options.begin.rule != LOCUS_BEGIN_NONE) options.begin.token = END_OF_TEXT;
    corpus = (struct locus_corpus){0};
    ck_assert_int_eq(locus_corpus_encode(&corpus, fixture->model, fixture->tokenizer, text,
                                         strlen(text), &options, &error),
                     LOCUS_OK);
    ck_assert_int_eq(locus_corpus_predictions(&corpus, &plan), golden->n_tokens);
    const locus_session_params params = {
        .position = *golden->position ? golden->position : NULL, .n_threads = 1, .n_batch = 24};
    locus_session *session =
        locus_session_for_text(fixture->model, &params, golden->length, golden->length, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_int_eq(locus_losses_init(&losses, &plan, &corpus, &error), LOCUS_OK);
    ck_assert_int_eq(locus_measure(session, &corpus, &losses, 1, NULL, &whole, &error), LOCUS_OK);
    struct locus_summary summary = locus_summary_of(&losses, &corpus);
    const double ratio = locus_summary_perplexity(&summary) / exp(golden->nll);
    ck_assert_int_eq(summary.tokens, golden->n_tokens);
    ck_assert_msg(fabs(ratio - 1) <= TOLERANCE, "%s %d %d %s %s: off by %g", golden->protocol,
                  golden->length, golden->stride, golden->position, golden->begin, ratio - 1);
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
    ck_assert_int_ge(n, 28);
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
    locus_session *session =
        locus_session_for_text(fixture->model, &params, length, length, &error);
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
    locus_session *session = locus_session_for_text(fixture.model, &params, 64, 64, NULL);
    ck_assert_ptr_nonnull(session);
    ck_assert_ptr_null(strstr(locus_session_position(session), "length=64"));
    locus_session_free(session);
    testing_close(&fixture);
}
END_TEST

/* Whatever factor=auto is, the last position of the windows has to be there. */
START_TEST(auto_factors_reach_the_windows_end)
{
    static const char *const specs[] = {"linear:factor=auto",     "ntk:factor=auto",
                                        "yarn:factor=auto",       "llama3:factor=auto",
                                        "sinusoidal:factor=auto", "alibi:factor=auto",
                                        "dynamic-ntk:factor=auto"};
    struct testing_model fixture = testing_open(testing_golden("perplexity.gguf"));
    char *text = testing_read(testing_golden("perplexity.txt"), NULL);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int length = TRAINED - 1; length <= 3 * TRAINED + 1; length += TRAINED + 1) {
            const locus_session_params params = {.position = specs[i], .n_threads = 1};
            int32_t tokens[4 * TRAINED];
            locus_error error;
            for (int j = 0; j < length; j++)
                tokens[j] = (unsigned char)text[j];
            locus_session *session =
                locus_session_for_text(fixture.model, &params, length, length, &error);
            ck_assert_msg(session != NULL, "%s: %s", specs[i], error.message);
            ck_assert_int_eq(locus_session_capacity(session), length);
            ck_assert_int_eq(locus_session_eval(session, tokens, length, NULL, 0, &error),
                             LOCUS_OK);
            locus_session_free(session);
        }
    free(text);
    testing_close(&fixture);
}
END_TEST

/* ---- begin- and end-of-text --------------------------------------------------------------- */

/* The golden model, whose tokenizer says what it wants; `token`: whether it has a begin-of-text. */
static struct testing_model open_variant(bool token, bool begin, bool end)
{
    struct variant *variant = variant_begin(testing_golden("perplexity.gguf"));
    if (!token) variant_drop(variant, "tokenizer.ggml.bos_token_id");
    if (begin) locus_writer_bool(variant_writer(variant), "tokenizer.ggml.add_bos_token", true);
    if (end) locus_writer_bool(variant_writer(variant), "tokenizer.ggml.add_eos_token", true);
    return testing_open(variant_finish(variant));
}

START_TEST(begin_of_text_is_what_the_tokenizer_and_the_protocol_want)
{
    static const struct {
        bool wanted;
        enum locus_begin_rule asked;
        enum locus_protocol protocol;
        enum locus_begin_rule expected; /* LOCUS_BEGIN_AUTO: refused */
    } cases[] = {
        {false, LOCUS_BEGIN_AUTO, LOCUS_WINDOWS, LOCUS_BEGIN_NONE},
        {true, LOCUS_BEGIN_AUTO, LOCUS_WINDOWS, LOCUS_BEGIN_FIRST},
        {true, LOCUS_BEGIN_AUTO, LOCUS_SLIDING, LOCUS_BEGIN_FIRST},
        {false, LOCUS_BEGIN_AUTO, LOCUS_HALF, LOCUS_BEGIN_NONE},
        {true, LOCUS_BEGIN_AUTO, LOCUS_HALF, LOCUS_BEGIN_EVERY},
        {true, LOCUS_BEGIN_NONE, LOCUS_WINDOWS, LOCUS_BEGIN_NONE},
        {true, LOCUS_BEGIN_NONE, LOCUS_HALF, LOCUS_BEGIN_NONE},
        {false, LOCUS_BEGIN_FIRST, LOCUS_WINDOWS, LOCUS_BEGIN_FIRST},
        {false, LOCUS_BEGIN_EVERY, LOCUS_SLIDING, LOCUS_BEGIN_EVERY},
        {false, LOCUS_BEGIN_EVERY, LOCUS_HALF, LOCUS_BEGIN_EVERY},
        {true, LOCUS_BEGIN_FIRST, LOCUS_HALF, LOCUS_BEGIN_AUTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct testing_model fixture = open_variant(true, cases[i].wanted, false);
        struct locus_begin begin;
        locus_error error;
        enum locus_status status = locus_begin_resolve(&begin, cases[i].asked, cases[i].protocol,
                                                       fixture.model, fixture.tokenizer, &error);
        if (cases[i].expected == LOCUS_BEGIN_AUTO) {
            ck_assert_int_eq(status, LOCUS_ERROR_ARGUMENT);
            ck_assert_ptr_nonnull(strstr(error.message, "expected every or none"));
        } else {
            ck_assert_int_eq(status, LOCUS_OK);
            ck_assert_int_eq(begin.rule, cases[i].expected);
            ck_assert_int_eq(begin.token, begin.rule == LOCUS_BEGIN_NONE ? -1 : END_OF_TEXT);
        }
        testing_close(&fixture);
    }
}
END_TEST

START_TEST(a_model_without_begin_of_text_puts_none)
{
    struct testing_model fixture = open_variant(false, false, false);
    struct locus_begin begin;
    locus_error error;
    for (int rule = LOCUS_BEGIN_AUTO; rule <= LOCUS_BEGIN_EVERY; rule++) {
        enum locus_status status =
            locus_begin_resolve(&begin, (enum locus_begin_rule)rule, LOCUS_WINDOWS, fixture.model,
                                fixture.tokenizer, &error);
        if (rule <= LOCUS_BEGIN_NONE) {
            ck_assert_int_eq(status, LOCUS_OK);
            ck_assert_int_eq(begin.rule, LOCUS_BEGIN_NONE);
        } else {
            ck_assert_int_eq(status, LOCUS_ERROR_ARGUMENT);
            ck_assert_msg(strstr(error.message, "names no begin-of-text token") != NULL, "%s",
                          error.message);
        }
    }
    testing_close(&fixture);
}
END_TEST

START_TEST(documents_begin_and_end_as_the_tokenizer_wants)
{
    struct testing_model fixture = open_variant(true, true, true);
    const struct locus_corpus_options options = {true, {LOCUS_BEGIN_FIRST, END_OF_TEXT}};
    const int32_t expected[] = {END_OF_TEXT, 'o', 'n', 'e', END_OF_TEXT,
                                END_OF_TEXT, 't', 'w', 'o', END_OF_TEXT};
    struct locus_corpus corpus = {0};
    const char *text = "one<|endoftext|>two";
    ck_assert_int_eq(locus_corpus_encode(&corpus, fixture.model, fixture.tokenizer, text,
                                         strlen(text), &options, NULL),
                     LOCUS_OK);
    ck_assert_int_eq(corpus.n_documents, 2);
    ck_assert_int_eq(corpus.n_tokens, 10);
    ck_assert_mem_eq(corpus.tokens, expected, sizeof expected);
    ck_assert_int_eq(corpus.n_bytes[4], 0); /* of the text, it stands for none */
    locus_corpus_free(&corpus);
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
    tcase_add_test(golden, auto_factors_reach_the_windows_end);
    tcase_add_test(documents, begin_of_text_is_what_the_tokenizer_and_the_protocol_want);
    tcase_add_test(documents, a_model_without_begin_of_text_puts_none);
    tcase_add_test(documents, documents_begin_and_end_as_the_tokenizer_wants);
    tcase_add_test(documents, texts_are_cut_at_marks_or_at_two_blank_lines);
    tcase_add_test(documents, without_documents_marks_are_text_and_counted);
    tcase_add_test(documents, a_text_that_predicts_nothing_is_refused);
    suite_add_tcase(suite, golden);
    suite_add_tcase(suite, documents);
    return testing_run(suite);
}
