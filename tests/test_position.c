/* Properties of every scheme in the registry, in every cache policy that admits it: the same bits
 * however a text is cut, what a shift of all positions changes, what is refused; and how far the
 * golden models of the scheme are from transformers and PyTorch. A row of the table is printed for
 * each scheme.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
#include "golden.h"
#include "specs.h"
#include "testing.h"
#include "tiny.h"

enum { N = 90, SHIFT = 12, ROW_BYTES = TINY_VOCAB * sizeof(float) };

/* SHIFT is a multiple of the group: only then may self-extend not notice it. */
static const char *const policies[] = {"full",
                                       "window:size=20",
                                       "sinks:keep=3,size=20",
                                       "self-extend:group=3,window=10",
                                       "rerope:window=10",
                                       "leaky-rerope:window=10,k=3",
                                       "dual-chunk:chunk=16,window=10"};

enum { N_POLICIES = sizeof policies / sizeof *policies };

/* ---- sessions ----------------------------------------------------------------------------- */

struct setting {
    const char *position, *attention, *kernels;
    enum locus_cache_type cache_type;
    int first_position, n_batch, n_threads;
};

static locus_session *try_session(const locus_model *model, const struct setting *setting,
                                  locus_error *error)
{
    locus_session_params params = {.position = setting->position,
                                   .attention = setting->attention,
                                   .n_context = N,
                                   .n_batch = setting->n_batch,
                                   .n_threads = setting->n_threads ? setting->n_threads : 1,
                                   .first_position = setting->first_position,
                                   .cache_type = setting->cache_type,
                                   .kernels = setting->kernels};
    return locus_session_create(model, &params, error);
}

static locus_session *open_session(const locus_model *model, const struct setting *setting)
{
    locus_error error;
    locus_session *session = try_session(model, setting, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    return session;
}

/* Evaluates the text from where the session is up to `end`, all logits into their rows. */
static void eval(locus_session *session, int end, float *logits)
{
    locus_error error;
    int32_t tokens[N];
    int first = locus_session_length(session);
    for (int i = first; i < end; i++)
        tokens[i - first] = tiny_token(i);
    ck_assert_msg(locus_session_eval(session, tokens, end - first, logits + first * TINY_VOCAB,
                                     end - first, &error) == LOCUS_OK,
                  "%s", error.message);
}

/* The whole text at once. */
static void eval_whole(const locus_model *model, const struct setting *setting, float *logits)
{
    locus_session *session = open_session(model, setting);
    eval(session, N, logits);
    locus_session_free(session);
}

static void check_same(const float *a, const float *b, int n, const struct setting *setting,
                       const char *what)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(memcmp(a + i * TINY_VOCAB, b + i * TINY_VOCAB, ROW_BYTES) == 0,
                      "%s, attention %s, cache type %d: row %d differs %s", setting->position,
                      setting->attention, (int)setting->cache_type, i, what);
}

/* ---- the same bits however the text is cut ------------------------------------------------ */

static void check_cuts(const locus_model *model, const struct setting *setting)
{
    static float whole[N * TINY_VOCAB], other[N * TINY_VOCAB];
    eval_whole(model, setting, whole);
    for (int i = 0; i < N * TINY_VOCAB; i++)
        ck_assert_msg(isfinite(whole[i]), "%s: logits are not finite", setting->position);

    locus_session *session = open_session(model, setting);
    for (int i = 0; i < N; i++)
        eval(session, i + 1, other);
    check_same(whole, other, N, setting, "token by token");

    ck_assert_int_eq(locus_session_rewind(session, N - 23, NULL), LOCUS_OK);
    memset(other + (N - 23) * TINY_VOCAB, 0, 23 * ROW_BYTES);
    eval(session, N, other);
    check_same(whole, other, N, setting, "after a rewind");

    /* Another text in between leaves nothing behind. */
    int32_t others[] = {3, 1, 4, 1, 5, 9, 2, 6};
    ck_assert_int_eq(locus_session_rewind(session, 0, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_session_eval(session, others, 8, NULL, 0, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_session_rewind(session, 0, NULL), LOCUS_OK);
    memset(other, 0, sizeof other);
    for (int end = 5; end < N; end += end)
        eval(session, end, other);
    eval(session, N, other);
    check_same(whole, other, N, setting, "in runs of 5, 10, 20, ...");
    locus_session_free(session);

    struct setting small = *setting;
    small.n_batch = 7;
    eval_whole(model, &small, other);
    check_same(whole, other, N, setting, "in batches of 7");
}

static void check_threads(const locus_model *model, const struct setting *setting)
{
    static float one[N * TINY_VOCAB], two[N * TINY_VOCAB];
    struct setting threads = *setting;
    threads.n_threads = 2;
    eval_whole(model, setting, one);
    locus_session *session = open_session(model, &threads);
    eval(session, N - 1, two);
    eval(session, N, two);
    check_same(one, two, N, setting, "on two threads");
    locus_session_free(session);
}

/* In every kernel set that this CPU can run. */
static void check_kernels(const locus_model *model, const struct setting *setting)
{
    static float best[N * TINY_VOCAB], other[N * TINY_VOCAB];
    struct setting forced = *setting;
    eval_whole(model, setting, best);
    for (int i = 0; (forced.kernels = locus_kernels_name(i)); i++) {
        eval_whole(model, &forced, other);
        check_same(best, other, N, setting, forced.kernels);
    }
}

/* ---- a shift of all positions ------------------------------------------------------------- */

/* max|a - b| / max|b| of a row, the largest of n_rows rows. */
static double difference(const float *a, const float *b, int n_rows, int n)
{
    double worst = 0;
    for (int i = 0; i < n_rows; i++, a += n, b += n)
        worst = fmax(worst, (double)golden_row_difference(a, b, n));
    return worst;
}

/* What a shift may do, by the hooks: a scheme that adds to the tokens by position must notice it;
 * one that only biases scores must not, to the bit; a rotation rounds. */
static const char *check_shift(const locus_model *model, const struct setting *setting)
{
    static float here[N * TINY_VOCAB], there[N * TINY_VOCAB];
    locus_session *session = open_session(model, setting);
    const struct locus_position_scheme *first = session->positions.schemes[0].spec.scheme;
    const bool adds = first->embed && !first->embed_floats;
    bool by_length = false, rotates = false; /* or the draw is another, of more positions */
    for (int i = 0; i < session->positions.n; i++) {
        by_length |= session->positions.schemes[i].frame == LOCUS_FRAME_QUERY ||
                     session->positions.schemes[i].log_trained > 0 ||
                     locus_position_number(&session->positions.schemes[i].spec, "random") > 0;
        rotates |= session->positions.schemes[i].spec.scheme->rotate != NULL;
    }
    struct setting shifted = *setting;
    shifted.first_position = SHIFT;
    eval(session, N, here);
    locus_session_free(session);
    eval_whole(model, &shifted, there);
    double apart = difference(there, here, N, TINY_VOCAB);
    if (by_length || adds) {
        ck_assert_msg(apart > 1e-3, "%s: a shift changes only %g", setting->position, apart);
        return by_length ? "by length" : "differs";
    }
    if (rotates) {
        ck_assert_msg(apart <= 1e-5, "%s, attention %s: a shift changes %g", setting->position,
                      setting->attention, apart);
        return "within 1e-5";
    }
    check_same(here, there, N, setting, "after a shift");
    return "same bits";
}

/* ---- refusals ----------------------------------------------------------------------------- */

/* Every parameter out of its range, and a key that isn't there. */
static int check_parameters(const locus_model *model, const struct locus_position_scheme *scheme)
{
    int n = 0;
    char spec[128];
    locus_error error;
    struct setting setting = {.position = spec, .attention = "full"};
    for (const struct locus_param *param = scheme->params; param && param->key; param++) {
        const char *const wrong[] = {"", "x", "1e999", "-1e30", "0x1"};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++, n++) {
            snprintf(spec, sizeof spec, "%s:%s=%s", scheme->name, param->key, wrong[i]);
            ck_assert_msg(!try_session(model, &setting, &error), "%s is accepted", spec);
            const char *after = strstr(error.message, spec); /* the SPEC itself holds the key */
            ck_assert_msg(after && strstr(after + strlen(spec), param->key), "%s: %s", spec,
                          error.message);
        }
    }
    snprintf(spec, sizeof spec, "%s:no-such-key=1", scheme->name);
    ck_assert_msg(!try_session(model, &setting, &error), "%s is accepted", spec);
    ck_assert_ptr_nonnull(strstr(error.message, "no-such-key"));
    return n + 1;
}

/* Whether the scheme serves the policy, as its hooks have it; a refusal names both. */
static bool check_admission(const locus_model *model, const struct setting *setting)
{
    locus_error error;
    struct setting in_full = *setting;
    in_full.attention = "full";
    locus_session *session = open_session(model, &in_full);
    bool hides = strncmp(setting->attention, "full", 4) != 0;
    bool moves = hides && strncmp(setting->attention, "window", 6) != 0;
    const bool fractions = strncmp(setting->attention, "leaky", 5) == 0;
    const struct locus_position_scheme *refused = NULL; /* the first that can't be served */
    for (int i = 0; i < session->positions.n && !refused; i++) {
        const struct locus_position *position = &session->positions.schemes[i];
        const struct locus_position_scheme *scheme = position->spec.scheme;
        if ((moves && (scheme->embed || position->frame == LOCUS_FRAME_QUERY)) ||
            (fractions && !locus_position_takes_fractions(position)) ||
            (hides && scheme->whole_row))
            refused = scheme;
    }
    const bool admitted = !refused;
    locus_session_free(session);
    session = try_session(model, setting, &error);
    ck_assert_msg((session != NULL) == admitted, "%s, attention %s: %s", setting->position,
                  setting->attention, session ? "is accepted" : error.message);
    if (!session) {
        ck_assert_int_eq(error.status, LOCUS_ERROR_UNSUPPORTED);
        ck_assert_msg(refused && strstr(error.message, refused->name) &&
                          strncmp(error.message + strlen("attention "), setting->attention,
                                  strcspn(setting->attention, ":")) == 0,
                      "%s", error.message);
    }
    locus_session_free(session);
    return admitted;
}

/* A session no longer than what the policy leaves alone is any scheme's. */
static void check_short_session(const locus_model *model, const struct setting *setting)
{
    const int n = 10;
    float full[10 * TINY_VOCAB], other[10 * TINY_VOCAB];
    locus_session_params params = {.position = setting->position, .n_context = n, .n_threads = 1};
    for (int i = 0; i < N_POLICIES; i++) {
        locus_error error;
        params.attention = policies[i];
        locus_session *session = locus_session_create(model, &params, &error);
        ck_assert_msg(session != NULL, "%s", error.message);
        eval(session, n, i ? other : full);
        locus_session_free(session);
        if (i) check_same(full, other, n, setting, "in a short session");
    }
}

/* ---- golden models ------------------------------------------------------------------------ */

struct parity {
    int n;
    double prompt, decode; /* the largest difference of a row */
};

/* Adds what a golden's session differs by. */
static void add_golden(struct parity *parity, const struct golden *golden)
{
    const int n = golden->n_tokens, n_prompt = golden->n_prompt, n_vocab = golden->n_vocab;
    locus_error error;
    float *logits = calloc((size_t)n * (size_t)n_vocab, sizeof *logits);
    locus_session_params params = {.position = golden->position,
                                   .attention = golden->attention,
                                   .n_context = n,
                                   .n_threads = 1,
                                   .n_axes = golden->n_axes,
                                   .cache_type = LOCUS_CACHE_F32};
    locus_session *session = locus_session_create(golden->model, &params, &error);
    ck_assert_msg(session != NULL, "%s: %s", golden->name, error.message);
    golden_eval(golden, session, 0, n_prompt, logits);
    for (int i = n_prompt; i < n; i++)
        golden_eval(golden, session, i, 1, logits + i * n_vocab);
    const int first = n_prompt * n_vocab;
    double prompt = difference(logits, golden->logits, n_prompt, n_vocab);
    double decode = difference(logits + first, golden->logits + first, n - n_prompt, n_vocab);
    ck_assert_msg(prompt <= 1e-4 && decode <= 1e-4, "%s: prompt %g, decoded %g", golden->name,
                  prompt, decode);
    parity->n++;
    parity->prompt = fmax(parity->prompt, prompt);
    parity->decode = fmax(parity->decode, decode);
    locus_session_free(session);
    free(logits);
}

/* Each golden model's, if it is the scheme's, or the policy's. */
typedef bool belongs(const struct golden *golden, const char *name);

static bool of_scheme(const struct golden *golden, const char *name)
{
    const char *scheme;
    const size_t length = golden_scheme(golden, &scheme);
    const bool attends = golden->model->config.layers[0].mixer == &locus_attention_part;
    return attends && length == strlen(name) && memcmp(scheme, name, length) == 0;
}

static bool of_policy(const struct golden *golden, const char *name)
{
    const char *attention = golden->attention ? golden->attention : "full";
    const size_t length = strcspn(attention, ":");
    return length == strlen(name) && memcmp(attention, name, length) == 0 &&
           locus_config_has(&golden->model->config, &locus_attention_part);
}

static struct parity check_golden(belongs *counts, const char *name)
{
    struct parity parity = {0};
    DIR *folder = opendir(testing_golden(""));
    ck_assert_ptr_nonnull(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char *dot = strrchr(entry->d_name, '.');
        if (!dot || strcmp(dot, ".logits") != 0) continue;
        *dot = '\0';
        struct golden golden = golden_open(entry->d_name);
        if (counts(&golden, name)) add_golden(&parity, &golden);
        golden_close(&golden);
    }
    closedir(folder);
    ck_assert_msg(parity.n > 0, "no golden logits for %s", name);
    return parity;
}

/* ---- the table ---------------------------------------------------------------------------- */

/* All of it for one SPEC; returns how many texts were compared, and what a shift does. */
static int check_spec(const locus_model *model, const char *spec, const char **shift,
                      char refused[96])
{
    int n = 0;
    for (int i = 0; i < N_POLICIES; i++) {
        struct setting setting = {.position = spec, .attention = policies[i]};
        if (!check_admission(model, &setting)) {
            char name[24];
            snprintf(name, sizeof name, " %.*s", (int)strcspn(policies[i], ":"), policies[i]);
            if (!strstr(refused, name)) strncat(refused, name, 95 - strlen(refused));
            continue;
        }
        for (int type = LOCUS_CACHE_F32; type <= LOCUS_CACHE_Q8_0; type++, n += 4) {
            setting.cache_type = (enum locus_cache_type)type;
            check_cuts(model, &setting);
        }
        setting.cache_type = LOCUS_CACHE_F32;
        if (i == 0) check_threads(model, &setting); /* threads that wait cost much time */
        if (i == 0) check_kernels(model, &setting);
        const char *found = check_shift(model, &setting);
        if (!*shift) *shift = found;
    }
    check_short_session(model, &(struct setting){.position = spec, .attention = "full"});
    return n;
}

static bool is_of(const char *spec, const char *name)
{
    size_t n = strlen(name);
    return strncmp(spec, name, n) == 0 && (spec[n] == ':' || spec[n] == ';');
}

START_TEST(scheme_keeps_its_properties)
{
    const struct locus_position_scheme *scheme = locus_position_at((size_t)_i);
    const char *shift = NULL, *variant_shift = NULL;
    char refused[96] = "";
    locus_model *model = tiny_model(0, 0);
    int n = check_spec(model, scheme->name, &shift, refused);
    for (int i = 0; i < spec_count(); i++)
        if (is_of(spec_at(i), scheme->name))
            n += check_spec(model, spec_at(i), &variant_shift, refused);
    int n_refused = check_parameters(model, scheme);
    const struct parity parity = check_golden(of_scheme, scheme->name);
    printf("%-15s %-14.1e %-14.1e %4d same  %-12s %3d SPECs%s%s\n", scheme->name, parity.prompt,
           parity.decode, n, shift, n_refused, *refused ? "," : "", refused);
    fflush(stdout);
    locus_model_free(model);
}
END_TEST

/* Local layers and chunks: a layer's own window under every policy. */
START_TEST(local_layers_keep_the_bits_too)
{
    locus_model *model = tiny_model(17, 2);
    for (int i = 0; i < N_POLICIES; i++)
        check_cuts(model, &(struct setting){.position = "rope", .attention = policies[i]});
    locus_model_free(model);
}
END_TEST

/* ---- policies ----------------------------------------------------------------------------- */

/* The schemes that can't serve it, by their names. */
static void list_refused(const locus_model *model, const char *policy, struct locus_buffer *names)
{
    for (size_t i = 0; i < locus_position_count(); i++) {
        const char *scheme = locus_position_at(i)->name;
        const struct setting setting = {.position = scheme, .attention = policy};
        if (!check_admission(model, &setting)) locus_buffer_printf(names, " %s", scheme);
    }
}

/* What check_spec leaves to the first policy; a row of the table is printed for each. */
START_TEST(policy_keeps_its_properties)
{
    const struct setting setting = {.position = "rope", .attention = policies[_i]};
    struct locus_buffer refused = {0};
    locus_model *model = tiny_model(0, 0);
    char name[24];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(policies[_i], ":"), policies[_i]);
    check_cuts(model, &setting);
    check_threads(model, &setting);
    check_kernels(model, &setting);
    const char *shift = check_shift(model, &setting);
    list_refused(model, policies[_i], &refused);
    const struct parity parity = check_golden(of_policy, name);
    printf("%-15s %-14.1e %-14.1e %4d same  %-12s%s\n", name, parity.prompt, parity.decode, 4,
           shift, refused.length ? refused.bytes : " none");
    fflush(stdout);
    locus_buffer_free(&refused);
    locus_model_free(model);
}
END_TEST

/* Each kind is in the list above. */
START_TEST(every_policy_is_tried)
{
    const struct locus_policy_kind *kind;
    for (int i = 0; (kind = locus_policy_kind_at(i)); i++) {
        bool found = false;
        for (int p = 0; p < N_POLICIES; p++)
            found |= strncmp(policies[p], kind->name, strcspn(policies[p], ":")) == 0 &&
                     strlen(kind->name) == strcspn(policies[p], ":");
        ck_assert_msg(found, "%s", kind->name);
    }
}
END_TEST

int main(void)
{
    printf("%-15s %-14s %-14s %-10s %-12s %s\n", "scheme", "prompt parity", "decode parity",
           "chunks", "shift", "refused");
    fflush(stdout);
    Suite *suite = suite_create("position");
    TCase *tests = tcase_create("properties");
    tcase_add_loop_test(tests, scheme_keeps_its_properties, 0, (int)locus_position_count());
    tcase_add_test(tests, local_layers_keep_the_bits_too);
    tcase_add_test(tests, every_policy_is_tried);
    tcase_add_loop_test(tests, policy_keeps_its_properties, 0, N_POLICIES);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
