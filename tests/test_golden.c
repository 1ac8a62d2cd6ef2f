/* Logits against those of transformers, or of scripts/decoder.py where it has no such scheme, for
 * the tiny models that scripts/golden.py made (which also documents NAME.logits): a prompt at once,
 * then token by token, row by row.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "locus.h"
#include "model/model.h"
#include "position/position.h"
#include "testing.h"

/* A row must be within TOLERANCE of the largest logit in it. */
#define TOLERANCE 1e-4f

/* Models of transformers, each with a position scheme of its own. */
static const struct golden_model {
    const char *name, *family, *scheme;
} models[] = {
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
    {"codegen-parallel", "locus", "rope"},
    {"persimmon-squares", "locus", "rope"},
    {"falcon-alibi", "locus", "alibi"},
    {"bloom-alibi", "locus", "alibi"},
    {"mpt-alibi", "locus", "alibi"},
    {"qwen2-biases", "qwen2", "rope"},
    {"qwen3-head-norms", "qwen3", "rope"},
    {"gemma-scaled", "gemma", "rope"},
    {"gemma2-capped", "gemma2", "rope"},
    {"olmo2-output-norms", "olmo2", "rope"},
    {"cohere-parallel", "command-r", "rope"},
    {"granite-scales", "granite", "rope"},
    {"phi2-parallel", "phi2", "rope"},
    {"phi3-fused", "phi3", "rope"},
    {"starcoder2-window", "starcoder2", "rope"},
    {"starcoder-one-key", "starcoder", "learned"},
    {"stablelm-head-norms", "stablelm", "rope"},
    {"nemotron-squares", "nemotron", "rope"},
    {"mpt-qk-norms", "mpt", "alibi"},
    {"mixtral-experts", "llama", "rope"},
    {"qwen2-experts", "qwen2moe", "rope"},
    {"qwen3-experts", "qwen3moe", "rope"},
    {"phi3-longrope", "phi3", "rope"},
    {"olmo-bare", "olmo", "rope"},
    {"falcon-one-key", "falcon", "rope"},
    {"falcon-two-norms", "falcon", "rope"},
    {"glm-half-rotated", "chatglm", "rope"},
    {"glm4-output-norms", "glm4", "rope"},
    {"minicpm-scales", "minicpm", "rope"},
    {"baichuan-alibi", "baichuan", "alibi"},
    {"seed-biases", "seed_oss", "rope"},
    {"arcee-squares", "arcee", "rope"},
    {"ernie-adjacent", "ernie4_5", "rope"},
    {"gemma3-local-bases", "gemma3", "rope"},
    {"smollm3-unrotated", "smollm3", "rope"},
    {"cohere2-local", "cohere2", "rope"},
    {"exaone4-local", "exaone4", "rope"},
    {"olmo3-local", "olmo2", "rope"},
    {"olmoe-experts", "olmoe", "rope"},
    {"granite-experts", "granitemoe", "rope"},
    {"deepseek-experts", "deepseek", "rope"},
    {"gpt-oss-sinks", "gpt-oss", "rope"},
    {"mamba-scans", "mamba", "none"},
    {"falcon-mamba-norms", "mamba", "none"},
    {"mamba2-heads", "mamba2", "none"},
    {"jamba-mixed", "jamba", "none"},
};

/* Position schemes, by SPEC, of a checkpoint that they share. */
static const char *const schemes[] = {
    "none",
    "learned-clamp",
    "learned-wrap",
    "learned-interpolate",
    "learned-tile",
    "learned-resize",
    "learned-random",
    "sinusoidal-random",
    "sinusoidal-interleaved",
    "sinusoidal-concat",
    "sinusoidal-fairseq",
    "sinusoidal-grid",
    "sinusoidal-grid-concat",
    "rope-half",
    "rope-partial",
    "rope-nope-every",
    "rope-half-the-layers",
    "rope-two-bases",
    "rope-share",
    "rope-share-yarn",
    "rope-random",
    "rope-random-row",
    "rope-linear",
    "rope-ntk",
    "rope-dynamic-row",
    "rope-dynamic",
    "rope-yarn",
    "rope-yarn-exact",
    "rope-llama3",
    "rope-longrope-row",
    "rope-longrope",
    "rope-longrope-long",
    "rope-longrope-short",
    "xpos",
    "xpos-half",
    "xpos-random",
    "alibi-scaled",
    "alibi-factor",
    "alibi-three-heads",
    "alibi-some-heads",
    "alibi-slopes",
    "alibi-slopes-layers",
    "relative",
    "t5",
    "t5-own",
    "transformer-xl",
    "transformer-xl-clamp",
    "transformer-xl-layers",
    "kerple-log",
    "kerple-power",
    "kerple-layers",
    "fire",
    "fire-layers",
    "sandwich",
    "sandwich-first",
    "sandwich-three-heads",
    "cope",
    "cope-raw",
    "cope-layers",
    "fox",
    "fox-layers",
    "dape",
    "dape-alibi",
    "dape-fire",
    "dape-layers",
    "path",
    "path-layers",
    "recurrent",
    "rope-freqs",
    "rope-logn",
    "alibi-temperature",
    "transformer-xl-logn",
    "cope-temperature",
    /* Coordinates. */
    "rope-sections",
    "rope-sections-adjacent",
    "rope-axial",
    /* Cache policies. */
    "rope-window",
    "rope-sinks",
    "rope-self-extend",
    "rope-rerope",
    "rope-leaky-rerope",
    "rope-dual-chunk",
    "alibi-dual-chunk",
    "retention",
    "retention-mixed",
    "hyena",
};

enum {
    N_MODELS = sizeof models / sizeof *models,
    N_CASES = N_MODELS + sizeof schemes / sizeof *schemes,
};

static struct golden open_case(int index)
{
    return golden_open(index < N_MODELS ? models[index].name : schemes[index - N_MODELS]);
}

/* A session with `position` (NULL: the checkpoint's own) and, as weights are F32, an f32 cache. */
static locus_session *open_session(const struct golden *golden, const char *position)
{
    locus_error error;
    locus_session_params params = {.position = position,
                                   .attention = golden->attention,
                                   .n_context = golden->n_tokens,
                                   .n_threads = 1,
                                   .n_axes = golden->n_axes};
    locus_session *session = locus_session_create(golden->model, &params, &error);
    ck_assert_msg(session != NULL, "%s: %s", golden->name, error.message);
    return session;
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
static void decode(const struct golden *golden, const char *position, float *rows)
{
    locus_session *session = open_session(golden, position);
    golden_eval(golden, session, 0, golden->n_prompt, rows);
    for (int i = golden->n_prompt; i < golden->n_tokens; i++)
        golden_eval(golden, session, i, 1, rows + (size_t)i * (size_t)golden->n_vocab);
    locus_session_free(session);
}

START_TEST(logits_match)
{
    struct golden golden = open_case(_i);
    float *rows = new_rows(&golden);
    decode(&golden, golden.position, rows);
    for (int i = 0; i < golden.n_tokens; i++) {
        float difference = golden_row_difference(row_of(rows, &golden, i),
                                                 row_of(golden.logits, &golden, i), golden.n_vocab);
        ck_assert_msg(difference <= TOLERANCE, "%s: row %d (%s) differs by %g", golden.name, i,
                      i < golden.n_prompt ? "prompt" : "decoded", (double)difference);
    }
    free(rows);
    golden_close(&golden);
}
END_TEST

START_TEST(whole_text_gives_the_bits_of_token_by_token)
{
    struct golden golden = open_case(_i);
    float *rows = new_rows(&golden), *whole = new_rows(&golden);
    decode(&golden, golden.position, rows);
    locus_session *session = open_session(&golden, golden.position);
    golden_eval(&golden, session, 0, golden.n_tokens, whole);
    size_t n_bytes = (size_t)golden.n_tokens * (size_t)golden.n_vocab * sizeof *rows;
    ck_assert_msg(memcmp(rows, whole, n_bytes) == 0, "%s: the bits differ", golden.name);
    locus_session_free(session);
    free(rows);
    free(whole);
    golden_close(&golden);
}
END_TEST

START_TEST(checkpoint_names_its_family_and_scheme)
{
    const struct golden_model *which = &models[_i];
    struct golden golden = open_case(_i);
    locus_model_info info = locus_model_info_get(golden.model);
    ck_assert_str_eq(info.family, which->family);
    ck_assert_str_eq(info.weight_type, "F32");
    const char *name;
    size_t length = golden_scheme(&golden, &name);
    ck_assert_msg(length == strlen(which->scheme) && memcmp(name, which->scheme, length) == 0,
                  "%s: position is %s", which->name, info.position);
    golden_close(&golden);
}
END_TEST

/* Guards the files themselves: a scheme that did nothing would be noticed. Without attention there
 * is none to change. */
START_TEST(logits_depend_on_the_scheme)
{
    struct golden golden = open_case(_i);
    float *rows = new_rows(&golden);
    int last = golden.n_tokens - 1;
    const char *name;
    bool is_none = golden_scheme(&golden, &name) == 4 && memcmp(name, "none", 4) == 0;
    if (!locus_config_has(&golden.model->config, &locus_attention_part)) {
        free(rows);
        golden_close(&golden);
        return;
    }
    const char *other = is_none ? "alibi" : golden.n_axes > 0 ? golden.position : "none";
    golden.n_axes = 0; /* places as text has them */
    decode(&golden, other, rows);
    ck_assert_float_gt(golden_row_difference(row_of(rows, &golden, last),
                                             row_of(golden.logits, &golden, last), golden.n_vocab),
                       100 * TOLERANCE);
    free(rows);
    golden_close(&golden);
}
END_TEST

START_TEST(every_registered_scheme_has_golden_logits)
{
    const char *scheme = locus_position_at((size_t)_i)->name, *name;
    bool found = false;
    for (int i = 0; i < N_CASES && !found; i++) {
        struct golden golden = open_case(i);
        size_t length = golden_scheme(&golden, &name);
        found = length == strlen(scheme) && memcmp(name, scheme, length) == 0;
        golden_close(&golden);
    }
    ck_assert_msg(found, "no golden logits for scheme %s: see scripts/golden_schemes.py", scheme);
}
END_TEST

/* Families whose bits are those of another model here: see test_families.c. */
static bool stands_for_another(const char *family)
{
    static const char *const others[] = {"gptneox", "bloom", "internlm2", "exaone"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i], family)) return true;
    return false;
}

START_TEST(every_family_has_golden_logits)
{
    const struct locus_architecture *family;
    for (size_t i = 0; (family = locus_architecture_at(i)); i++) {
        bool found = stands_for_another(family->name);
        for (int m = 0; m < N_MODELS && !found; m++)
            found = !strcmp(models[m].family, family->name);
        ck_assert_msg(found, "no golden logits for family %s", family->name);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden");
    TCase *tests = tcase_create("independent implementations");
    tcase_add_loop_test(tests, logits_match, 0, N_CASES);
    tcase_add_loop_test(tests, whole_text_gives_the_bits_of_token_by_token, 0, N_CASES);
    tcase_add_loop_test(tests, checkpoint_names_its_family_and_scheme, 0, N_MODELS);
    tcase_add_loop_test(tests, logits_depend_on_the_scheme, 0, N_CASES);
    tcase_add_test(tests, every_family_has_golden_logits);
    tcase_add_loop_test(tests, every_registered_scheme_has_golden_logits, 0,
                        (int)locus_position_count());
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
