/* Logits against those of transformers, for the tiny models that scripts/golden.py made (which also
 * documents NAME.logits): a prompt at once, then token by token, row by row.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locus.h"
#include "testing.h"

/* A row must be within TOLERANCE of the largest logit in it. */
#define TOLERANCE 1e-4f

static const struct golden_case {
    const char *name, *family, *scheme;
} cases[] = {
    {"gpt2-learned", "gpt2", "learned"},
    {"gpt1-postnorm", "locus", "learned"},
    {"gptneo-local", "locus", "learned"},
    {"opt-relu", "locus", "learned"},
    {"xglm-sinusoidal", "locus", "sinusoidal"},
    {"llama-half", "locus", "rope"},
    {"llama-adjacent", "llama", "rope"},
    {"llama-none", "locus", "none"},
    {"llama-sinusoidal", "locus", "sinusoidal"},
    {"neox-parallel", "locus", "rope"},
    {"gptj-parallel", "locus", "rope"},
    {"bloom-alibi", "locus", "alibi"},
    {"mpt-alibi", "locus", "alibi"},
};

enum { N_CASES = sizeof cases / sizeof *cases, MAGIC = 0x474C4F4C };

struct golden {
    char *bytes; /* the file */
    locus_model *model;
    int n_prompt, n_tokens, n_vocab;
    const int32_t *tokens; /* [n_tokens] */
    const float *logits;   /* [n_tokens, n_vocab] */
};

static struct golden golden_open(const struct golden_case *which)
{
    char name[64];
    struct golden golden;
    size_t n_bytes;
    int32_t header[4];
    locus_error error;
    snprintf(name, sizeof name, "%s.logits", which->name);
    golden.bytes = testing_read(testing_golden(name), &n_bytes);
    ck_assert_uint_ge(n_bytes, sizeof header);
    memcpy(header, golden.bytes, sizeof header);
    ck_assert_int_eq(header[0], MAGIC);
    golden.n_prompt = header[1], golden.n_tokens = header[2], golden.n_vocab = header[3];
    ck_assert_int_ge(golden.n_tokens - golden.n_prompt, 20);
    ck_assert_uint_eq(n_bytes,
                      sizeof header + 4 * (size_t)golden.n_tokens * (size_t)(1 + golden.n_vocab));
    golden.tokens = (const int32_t *)(const void *)(golden.bytes + sizeof header);
    golden.logits = (const float *)(const void *)(golden.tokens + golden.n_tokens);

    snprintf(name, sizeof name, "%s.gguf", which->name);
    golden.model = locus_model_open(testing_golden(name), &error);
    ck_assert_msg(golden.model != NULL, "%s: %s", which->name, error.message);
    ck_assert_int_eq(locus_model_info_get(golden.model).n_vocab, golden.n_vocab);
    return golden;
}

static void golden_close(struct golden *golden)
{
    locus_model_free(golden->model);
    free(golden->bytes);
}

/* A session with `position` (NULL: the checkpoint's own) and an f32 cache. */
static locus_session *open_session(const struct golden_case *which, const struct golden *golden,
                                   const char *position)
{
    locus_error error;
    locus_session_params params = {.position = position,
                                   .n_context = golden->n_tokens,
                                   .n_threads = 1,
                                   .cache_type = LOCUS_CACHE_F32};
    locus_session *session = locus_session_create(golden->model, &params, &error);
    ck_assert_msg(session != NULL, "%s: %s", which->name, error.message);
    return session;
}

static void eval(const struct golden_case *which, locus_session *session, const int32_t *tokens,
                 int n, float *logits)
{
    locus_error error;
    ck_assert_msg(locus_session_eval(session, tokens, n, logits, n, &error) == LOCUS_OK, "%s: %s",
                  which->name, error.message);
}

/* max|a - b| / max|b| of one row; a NaN anywhere makes it infinite. */
static float row_difference(const float *a, const float *b, int n)
{
    float difference = 0, largest = 0;
    for (int i = 0; i < n; i++) {
        float d = fabsf(a[i] - b[i]);
        if (!(d <= HUGE_VALF)) return HUGE_VALF;
        if (d > difference) difference = d;
        if (fabsf(b[i]) > largest) largest = fabsf(b[i]);
    }
    return difference / largest;
}

static float *new_rows(const struct golden *golden)
{
    float *rows = calloc((size_t)golden->n_tokens * (size_t)golden->n_vocab, sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    return rows;
}

static const float *row_of(const float *rows, const struct golden *golden, int row)
{
    return rows + (size_t)row * (size_t)golden->n_vocab;
}

/* Evaluates the prompt at once and the rest token by token into rows[n_tokens, n_vocab]. */
static void decode(const struct golden_case *which, const struct golden *golden,
                   const char *position, float *rows)
{
    locus_session *session = open_session(which, golden, position);
    eval(which, session, golden->tokens, golden->n_prompt, rows);
    for (int i = golden->n_prompt; i < golden->n_tokens; i++)
        eval(which, session, golden->tokens + i, 1, rows + (size_t)i * (size_t)golden->n_vocab);
    locus_session_free(session);
}

START_TEST(logits_match_transformers)
{
    const struct golden_case *which = &cases[_i];
    struct golden golden = golden_open(which);
    float *rows = new_rows(&golden);
    decode(which, &golden, NULL, rows);
    for (int i = 0; i < golden.n_tokens; i++) {
        float difference = row_difference(row_of(rows, &golden, i),
                                          row_of(golden.logits, &golden, i), golden.n_vocab);
        ck_assert_msg(difference <= TOLERANCE, "%s: row %d (%s) differs by %g", which->name, i,
                      i < golden.n_prompt ? "prompt" : "decoded", (double)difference);
    }
    free(rows);
    golden_close(&golden);
}
END_TEST

START_TEST(whole_text_gives_the_bits_of_token_by_token)
{
    const struct golden_case *which = &cases[_i];
    struct golden golden = golden_open(which);
    float *rows = new_rows(&golden), *whole = new_rows(&golden);
    decode(which, &golden, NULL, rows);
    locus_session *session = open_session(which, &golden, NULL);
    eval(which, session, golden.tokens, golden.n_tokens, whole);
    size_t n_bytes = (size_t)golden.n_tokens * (size_t)golden.n_vocab * sizeof *rows;
    ck_assert_msg(memcmp(rows, whole, n_bytes) == 0, "%s: the bits differ", which->name);
    locus_session_free(session);
    free(rows);
    free(whole);
    golden_close(&golden);
}
END_TEST

START_TEST(checkpoint_names_its_family_and_scheme)
{
    const struct golden_case *which = &cases[_i];
    struct golden golden = golden_open(which);
    locus_model_info info = locus_model_info_get(golden.model);
    ck_assert_str_eq(info.family, which->family);
    ck_assert_str_eq(info.weight_type, "F32");
    size_t length = strlen(which->scheme);
    ck_assert_msg(strncmp(info.position, which->scheme, length) == 0 &&
                      (info.position[length] == '\0' || info.position[length] == ':'),
                  "%s: position is %s", which->name, info.position);
    golden_close(&golden);
}
END_TEST

/* Guards the files themselves: a scheme that did nothing would be noticed. */
START_TEST(logits_depend_on_the_scheme)
{
    const struct golden_case *which = &cases[_i];
    struct golden golden = golden_open(which);
    float *rows = new_rows(&golden);
    int last = golden.n_tokens - 1;
    decode(which, &golden, strcmp(which->scheme, "none") == 0 ? "alibi" : "none", rows);
    ck_assert_float_gt(row_difference(row_of(rows, &golden, last),
                                      row_of(golden.logits, &golden, last), golden.n_vocab),
                       100 * TOLERANCE);
    free(rows);
    golden_close(&golden);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden");
    TCase *tests = tcase_create("transformers");
    tcase_add_loop_test(tests, logits_match_transformers, 0, N_CASES);
    tcase_add_loop_test(tests, whole_text_gives_the_bits_of_token_by_token, 0, N_CASES);
    tcase_add_loop_test(tests, checkpoint_names_its_family_and_scheme, 0, N_CASES);
    tcase_add_loop_test(tests, logits_depend_on_the_scheme, 0, N_CASES);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
