/* Properties of every mixer but attention, on the golden models that have it: how far they are from
 * transformers and PyTorch, the same bits however a text is cut, on threads and in every kernel
 * set, what a shift of all positions changes, what is refused. A row of test_position's table is
 * printed for each.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
#include "golden.h"
#include "model/model.h"
#include "testing.h"

enum { SHIFT = 12, MOST = 16 };

/* ---- mixers --------------------------------------------------------------------------------- */

/* The mixer of some layer that isn't attention; NULL: all of them are. */
static const char *mixer_of(const locus_model *model)
{
    for (int layer = 0; layer < model->config.n_layer; layer++)
        if (model->config.layers[layer].mixer != &locus_attention_part)
            return model->config.layers[layer].mixer->name;
    return NULL;
}

/* Calls `each` for every golden; how many there are. */
static int each_golden(void (*each)(struct golden *golden, void *context), void *context)
{
    DIR *folder = opendir(testing_golden(""));
    int n = 0;
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".logits") != 0) continue;
        *dot = '\0';
        struct golden golden = golden_open(entry->d_name);
        each(&golden, context);
        golden_close(&golden);
        n++;
    }
    closedir(folder);
    return n;
}

struct mixers {
    char names[MOST][24];
    int n;
};

static void list(struct golden *golden, void *context)
{
    struct mixers *mixers = context;
    const char *name = mixer_of(golden->model);
    if (!name) return;
    for (int i = 0; i < mixers->n; i++)
        if (!strcmp(mixers->names[i], name)) return;
    ck_assert_int_lt(mixers->n, MOST);
    snprintf(mixers->names[mixers->n++], sizeof *mixers->names, "%s", name);
}

/* ---- sessions ------------------------------------------------------------------------------- */

struct setting {
    const char *kernels;
    int n_batch, n_threads, first_position;
};

static locus_session *open_session(const struct golden *golden, struct setting setting)
{
    locus_error error;
    const locus_session_params params = {.position = golden->position,
                                         .attention = golden->attention,
                                         .n_context = golden->n_tokens,
                                         .n_batch = setting.n_batch,
                                         .n_threads = setting.n_threads ? setting.n_threads : 1,
                                         .n_axes = golden->n_axes,
                                         .first_position = setting.first_position,
                                         .kernels = setting.kernels};
    locus_session *session = locus_session_create(golden->model, &params, &error);
    ck_assert_msg(session != NULL, "%s: %s", golden->name, error.message);
    return session;
}

static float *rows_of(const struct golden *golden)
{
    float *rows = calloc((size_t)golden->n_tokens * (size_t)golden->n_vocab, sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    return rows;
}

/* The whole text at once, to be freed. */
static float *whole(const struct golden *golden, struct setting setting)
{
    float *rows = rows_of(golden);
    locus_session *session = open_session(golden, setting);
    golden_eval(golden, session, 0, golden->n_tokens, rows);
    locus_session_free(session);
    return rows;
}

/* max|a - b| / max|b| of rows [first, end), the largest of them. */
static double difference(const struct golden *golden, const float *a, const float *b, int first,
                         int end)
{
    double worst = 0;
    for (int i = first; i < end; i++) {
        const size_t at = (size_t)i * (size_t)golden->n_vocab;
        worst = fmax(worst, (double)golden_row_difference(a + at, b + at, golden->n_vocab));
    }
    return worst;
}

/* ---- a row of the table --------------------------------------------------------------------- */

struct row {
    const char *mixer;
    int n_same, n_refused;
    double prompt, decode, shift;
};

static void check_same(const struct golden *golden, struct row *row, const float *expected,
                       float *found, const char *what)
{
    const size_t n_bytes = (size_t)golden->n_tokens * (size_t)golden->n_vocab * sizeof *expected;
    ck_assert_msg(!memcmp(expected, found, n_bytes), "%s: the bits differ %s", golden->name, what);
    free(found);
    row->n_same++;
}

/* Token by token, and after a rewind the second half again. */
static float *by_token(const struct golden *golden)
{
    const int n = golden->n_tokens, half = n / 2, n_vocab = golden->n_vocab;
    float *rows = rows_of(golden);
    locus_session *session = open_session(golden, (struct setting){0});
    for (int i = 0; i < n; i++)
        golden_eval(golden, session, i, 1, rows + (ptrdiff_t)i * n_vocab);
    ck_assert_int_eq(locus_session_rewind(session, half, NULL), LOCUS_OK);
    memset(rows + (ptrdiff_t)half * n_vocab, 0,
           (size_t)(n - half) * (size_t)n_vocab * sizeof *rows);
    golden_eval(golden, session, half, n - half, rows + (ptrdiff_t)half * n_vocab);
    locus_session_free(session);
    return rows;
}

static void check_bits(const struct golden *golden, struct row *row, const float *expected)
{
    const char *name;
    check_same(golden, row, expected, by_token(golden), "token by token, or after a rewind");
    check_same(golden, row, expected, whole(golden, (struct setting){.n_batch = 7}),
               "in batches of 7");
    check_same(golden, row, expected, whole(golden, (struct setting){.n_threads = 2}),
               "on two threads");
    for (int i = 0; (name = locus_kernels_name(i)); i++)
        check_same(golden, row, expected, whole(golden, (struct setting){.kernels = name}), name);
}

static void refuse(const struct golden *golden, struct row *row, const char *position,
                   const char *attention)
{
    locus_error error = {0};
    const locus_session_params params = {.position = position, .attention = attention};
    locus_session *session = locus_session_create(golden->model, &params, &error);
    ck_assert_msg(!session, "%s runs with position %s, attention %s", golden->name,
                  position ? position : "its own", attention ? attention : "full");
    ck_assert_int_eq(error.status, LOCUS_ERROR_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, "expected") || strstr(error.message, "don't attend"), "%s",
                  error.message);
    row->n_refused++;
}

/* What would do nothing: for layers that don't attend, or in a model of no others. */
static void check_refusals(const struct golden *golden, struct row *row)
{
    char spec[48];
    for (int layer = 0; layer < golden->model->config.n_layer; layer++) {
        if (golden->model->config.layers[layer].mixer == &locus_attention_part) continue;
        snprintf(spec, sizeof spec, "none; layers %d alibi", layer);
        refuse(golden, row, spec, NULL);
    }
    if (locus_config_has(&golden->model->config, &locus_attention_part)) return;
    refuse(golden, row, "rope", NULL);
    refuse(golden, row, NULL, "window:size=8");
}

static void check_golden(struct golden *golden, void *context)
{
    struct row *row = context;
    const char *mixer = mixer_of(golden->model);
    if (!mixer || strcmp(mixer, row->mixer) != 0) return;
    float *expected = whole(golden, (struct setting){0});
    float *shifted = whole(golden, (struct setting){.first_position = SHIFT});
    const int n = golden->n_tokens, n_prompt = golden->n_prompt;
    const double apart = difference(golden, shifted, expected, 0, n);
    row->prompt = fmax(row->prompt, difference(golden, expected, golden->logits, 0, n_prompt));
    row->decode = fmax(row->decode, difference(golden, expected, golden->logits, n_prompt, n));
    row->shift = fmax(row->shift, apart);
    check_bits(golden, row, expected);
    check_refusals(golden, row);
    free(expected);
    free(shifted);
}

START_TEST(mixers_keep_their_properties)
{
    struct mixers mixers = {0};
    ck_assert_int_gt(each_golden(list, &mixers), 0);
    ck_assert_int_gt(mixers.n, 0);
    for (int i = 0; i < mixers.n; i++) {
        struct row row = {.mixer = mixers.names[i]};
        each_golden(check_golden, &row);
        ck_assert_msg(row.prompt <= 1e-4 && row.decode <= 1e-4, "%s: prompt %g, decoded %g",
                      row.mixer, row.prompt, row.decode);
        ck_assert_msg(row.shift <= 1e-5, "%s: a shift changes %g", row.mixer, row.shift);
        printf("%-15s %-14.1e %-14.1e %4d same  %-12s %3d SPECs\n", row.mixer, row.prompt,
               row.decode, row.n_same, row.shift > 0 ? "within 1e-5" : "same bits", row.n_refused);
    }
    fflush(stdout);
}
END_TEST

int main(void)
{
    printf("%-15s %-14s %-14s %-10s %-12s %s\n", "mixer", "prompt parity", "decode parity",
           "chunks", "shift", "refused");
    fflush(stdout);
    Suite *suite = suite_create("mixer properties");
    TCase *tests = tcase_create("properties");
    tcase_add_test(tests, mixers_keep_their_properties);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
