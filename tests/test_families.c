/* Families of checkpoints whose position scheme follows from standard GGUF metadata: the SPEC that
 * is derived, and the bits of a checkpoint that spells the same decoder out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locus.h"
#include "model/model.h"
#include "testing.h"
#include "variant.h"

static void set_text(struct variant *variant, const char *key, const char *value)
{
    locus_writer_string(variant_writer(variant), key, value, strlen(value));
}

static void set_number(struct variant *variant, const char *key, double value)
{
    locus_writer_f32(variant_writer(variant), key, (float)value);
}

/* ---- SPECs -------------------------------------------------------------------------------- */

static const float factors[4] = {1, 1, 2, 4};

static void plain(struct variant *variant)
{
    (void)variant;
}

static void none(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.type", "none");
    set_number(variant, "llama.rope.scaling.factor", 4);
}

static void linear(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.type", "linear");
    set_number(variant, "llama.rope.scaling.factor", 4);
}

static void factor_alone(struct variant *variant)
{
    set_number(variant, "llama.rope.scale_linear", 2);
}

static void yarn(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.type", "yarn");
    set_number(variant, "llama.rope.scaling.factor", 4);
    locus_writer_u32(variant_writer(variant), "llama.rope.scaling.original_context_length", 32);
    set_number(variant, "llama.rope.scaling.yarn_beta_fast", 16);
}

/* The file's attn_factor multiplies the paper's 0.1 ln 4 + 1. */
static void yarn_factor(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.type", "yarn");
    set_number(variant, "llama.rope.scaling.factor", 4);
    set_number(variant, "llama.rope.scaling.attn_factor", 0.5);
}

static void yarn_by(struct variant *variant, const char *key, double value)
{
    set_text(variant, "llama.rope.scaling.type", "yarn");
    set_number(variant, "llama.rope.scaling.factor", 4);
    set_number(variant, key, value);
}

/* What transformers calls attention_factor stands in place of 0.1 ln 4 + 1. */
static void yarn_attention_factor(struct variant *variant)
{
    yarn_by(variant, "llama.rope.scaling.yarn_attn_factor", 0.5);
}

/* mscale_all_dim = mscale = 1: m / m. */
static void yarn_log_multiplier(struct variant *variant)
{
    yarn_by(variant, "llama.rope.scaling.yarn_log_multiplier", 1);
}

/* (0.1 ln 4 + 1) / (0.05 ln 4 + 1) */
static void yarn_half_multiplier(struct variant *variant)
{
    yarn_by(variant, "llama.rope.scaling.yarn_log_multiplier", 0.5);
}

/* The whole ramp is what YaRN is, and "not set" means it. */
static void yarn_extrapolation(struct variant *variant)
{
    yarn_by(variant, "llama.rope.scaling.yarn_ext_factor", 1);
}

static void yarn_no_extrapolation_said(struct variant *variant)
{
    yarn_by(variant, "llama.rope.scaling.yarn_ext_factor", -1);
}

/* One value a layer, all of them the same. */
static void yarn_by_layer(struct variant *variant)
{
    const float factors_by_layer[2] = {4, 4};
    set_text(variant, "llama.rope.scaling.type", "yarn");
    locus_writer_f32s(variant_writer(variant), "llama.rope.scaling.factor", factors_by_layer, 2);
}

static void longrope(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.type", "longrope");
    locus_writer_u32(variant_writer(variant), "llama.rope.scaling.original_context_length", 32);
    set_number(variant, "llama.rope.scaling.attn_factor", 1.25);
    variant_add(variant, "rope_factors_short.weight", LOCUS_F32, 0, 4, factors);
    variant_add(variant, "rope_factors_long.weight", LOCUS_F32, 0, 4, factors);
}

static const struct scaling {
    void (*change)(struct variant *variant);
    const char *position;
} scalings[] = {
    {plain, "rope:pairs=adjacent,dim=8,base=5000"},
    {none, "rope:pairs=adjacent,dim=8,base=5000"},
    {linear, "rope:pairs=adjacent,dim=8,base=5000,scaling=linear,factor=4"},
    {factor_alone, "rope:pairs=adjacent,dim=8,base=5000,scaling=linear,factor=2"},
    {yarn, "rope:pairs=adjacent,dim=8,base=5000,scaling=yarn,factor=4,trained=32,beta_fast=16"},
    {yarn_factor, "rope:pairs=adjacent,dim=8,base=5000,scaling=yarn,factor=4,trained=64,"
                  "attn_factor=0.569314718"},
    {yarn_attention_factor, "rope:pairs=adjacent,dim=8,base=5000,scaling=yarn,factor=4,trained=64,"
                            "attn_factor=0.5"},
    {yarn_log_multiplier, "rope:pairs=adjacent,dim=8,base=5000,scaling=yarn,factor=4,trained=64,"
                          "attn_factor=1"},
    {yarn_half_multiplier, "rope:pairs=adjacent,dim=8,base=5000,scaling=yarn,factor=4,trained=64,"
                           "attn_factor=1.06482163"},
    {yarn_extrapolation, "rope:pairs=adjacent,dim=8,base=5000,scaling=yarn,factor=4,trained=64"},
    {yarn_no_extrapolation_said,
     "rope:pairs=adjacent,dim=8,base=5000,scaling=yarn,factor=4,trained=64"},
    {yarn_by_layer, "rope:pairs=adjacent,dim=8,base=5000,scaling=yarn,factor=4,trained=64"},
    {longrope, "rope:pairs=adjacent,dim=8,base=5000,scaling=longrope,factor=2,trained=32,"
               "attn_factor=1.25"},
};

START_TEST(scalings_are_read_from_the_metadata)
{
    const struct scaling *scaling = &scalings[_i];
    struct variant *variant = variant_begin(testing_golden("llama-adjacent.gguf"));
    scaling->change(variant);
    locus_error error;
    locus_model *model = locus_model_open(variant_finish(variant), &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    ck_assert_str_eq(locus_model_info_get(model).position, scaling->position);
    locus_session *session = locus_session_create(model, NULL, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

static void longrope_alone(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.type", "longrope");
}

static void yarn_alone(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.type", "yarn");
}

static void linear_by_nothing(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.type", "linear");
    set_number(variant, "llama.rope.scaling.factor", 0);
}

static void dynamic(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.type", "dynamic");
}

static void half_a_ramp(struct variant *variant)
{
    yarn_by(variant, "llama.rope.scaling.yarn_ext_factor", 0.5);
}

static void linear_with_factor(struct variant *variant)
{
    linear(variant);
    set_number(variant, "llama.rope.scaling.attn_factor", 0.5);
}

static void linear_with_beta(struct variant *variant)
{
    linear(variant);
    set_number(variant, "llama.rope.scaling.yarn_beta_fast", 16);
}

static void none_with_multiplier(struct variant *variant)
{
    none(variant);
    set_number(variant, "llama.rope.scaling.yarn_log_multiplier", 1);
}

static void text_for_a_factor(struct variant *variant)
{
    set_text(variant, "llama.rope.scaling.factor", "4");
}

static void factors_that_differ(struct variant *variant)
{
    const float by_layer[2] = {4, 8};
    locus_writer_f32s(variant_writer(variant), "llama.rope.scaling.factor", by_layer, 2);
}

static void other_sections(struct variant *variant)
{
    const int32_t sections[3] = {1, 1, 2};
    locus_writer_i32s(variant_writer(variant), "llama.rope.dimension_sections", sections, 3);
}

static const struct refusal {
    void (*change)(struct variant *variant);
    const char *says;
} refusals[] = {
    {longrope_alone, "llama.rope.scaling.type is \"longrope\", expected none, linear or yarn, or "
                     "the tensor rope_factors_long.weight"},
    {yarn_alone, "rope.scaling.factor is missing beside rope.scaling.type yarn, expected a number"},
    {linear_by_nothing, "rope.scaling.factor is 0 beside rope.scaling.type linear, expected a num"},
    {dynamic, "llama.rope.scaling.type is \"dynamic\", expected one of none, linear, yarn"},
    {half_a_ramp, "rope.scaling.yarn_ext_factor is 0.5 beside scaling of type yarn, expected 1"},
    {linear_with_factor, "rope.scaling.attn_factor is 0.5 beside scaling of type linear"},
    {linear_with_beta, "rope.scaling.yarn_beta_fast is 16 beside scaling of type linear"},
    {none_with_multiplier, "rope.scaling.yarn_log_multiplier is 1 beside scaling of type none"},
    {text_for_a_factor, "llama.rope.scaling.factor is not a number"},
    {factors_that_differ, "llama.rope.scaling.factor is 4 in layer 0 and 8 in layer 1"},
    {other_sections, "llama.rope.dimension_sections is a key of the model that this version"},
};

START_TEST(scalings_that_cannot_be_served_are_refused)
{
    const struct refusal *refusal = &refusals[_i];
    struct variant *variant = variant_begin(testing_golden("llama-adjacent.gguf"));
    refusal->change(variant);
    locus_error error;
    ck_assert_ptr_null(locus_model_open(variant_finish(variant), &error));
    ck_assert_msg(strstr(error.message, refusal->says) != NULL, "%s", error.message);
}
END_TEST

/* ---- families ----------------------------------------------------------------------------- */

static void bloom(struct variant *variant)
{
    (void)variant;
}

static void mpt(struct variant *variant)
{
    set_number(variant, "mpt.attention.clamp_kqv", 1);
    set_number(variant, "mpt.attention.max_alibi_bias", 16);
}

static void gptneox(struct variant *variant)
{
    locus_writer_bool(variant_writer(variant), "gptneox.use_parallel_residual", true);
    locus_writer_u32(variant_writer(variant), "gptneox.rope.dimension_count", 4);
}

static const struct family {
    const char *name, *golden, *position;
    void (*change)(struct variant *variant);
    int n_embd, n_head, n_ff;
} families[] = {
    {"bloom", "bloom-alibi.gguf", "alibi:max_bias=8", bloom, 32, 4, 128},
    {"mpt", "mpt-alibi.gguf", "alibi:max_bias=16", mpt, 36, 6, 144},
    {"gptneox", "neox-parallel.gguf", "rope:pairs=half,dim=4,base=10000", gptneox, 32, 4, 96},
};

/* Those whose files are a Llama's but for the names of their keys. */
static const struct family llamas[] = {
    {"internlm2", "llama-adjacent.gguf", "rope:pairs=adjacent,dim=8,base=5000", NULL, 0, 0, 0},
    {"baichuan", "llama-adjacent.gguf", "rope:pairs=adjacent,dim=8,base=5000", NULL, 0, 0, 0},
    {"exaone", "qwen2-biases.gguf", "rope:pairs=half,dim=8,base=5000", NULL, 0, 0, 0},
};

enum { N_TOKENS = 20, N_VOCAB = 80 };

static void set_count(struct variant *variant, const char *family, const char *key, int value)
{
    char theirs[64];
    snprintf(theirs, sizeof theirs, "%s.%s", family, key);
    locus_writer_u32(variant_writer(variant), theirs, (uint32_t)value);
}

/* The model's logits [N_TOKENS, N_VOCAB]. */
static void run(const char *path, const char *position, float *logits)
{
    locus_error error;
    int32_t tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = 7 * i % N_VOCAB;
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    if (position) ck_assert_str_eq(locus_model_info_get(model).position, position);
    const struct locus_session_params params = {.n_threads = 1};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    ck_assert_int_eq(locus_session_eval(session, tokens, N_TOKENS, logits, N_TOKENS, &error),
                     LOCUS_OK);
    locus_session_free(session);
    locus_model_free(model);
}

/* The golden file of a family, spelled out by the generic one's keys, as the family's own. */
static struct variant *begin_family(const struct family *family)
{
    struct variant *variant = variant_begin(testing_golden(family->golden));
    char key[64];
    variant_drop(variant, "general.architecture");
    variant_drop_keys(variant, "locus.");
    set_text(variant, "general.architecture", family->name);
    set_count(variant, family->name, "context_length", 64);
    set_count(variant, family->name, "embedding_length", family->n_embd);
    set_count(variant, family->name, "block_count", 2);
    set_count(variant, family->name, "feed_forward_length", family->n_ff);
    set_count(variant, family->name, "attention.head_count", family->n_head);
    snprintf(key, sizeof key, "%s.attention.layer_norm_epsilon", family->name);
    set_number(variant, key, 1e-5);
    family->change(variant);
    return variant;
}

START_TEST(family_gives_the_bits_of_what_it_stands_for)
{
    const struct family *family = &families[_i];
    static float spelled_out[N_TOKENS * N_VOCAB], as_family[N_TOKENS * N_VOCAB];
    run(testing_golden(family->golden), NULL, spelled_out);
    run(variant_finish(begin_family(family)), family->position, as_family);
    ck_assert_msg(memcmp(spelled_out, as_family, sizeof as_family) == 0, "%s: the bits differ",
                  family->name);
}
END_TEST

/* A file of family `from`, as one of `to`. */
static struct variant *begin_other(const char *golden, const char *to, int n_head_kv)
{
    struct variant *variant = variant_begin(testing_golden(golden));
    static const struct {
        const char *key;
        int value;
    } counts[] = {{"context_length", 64},
                  {"embedding_length", 32},
                  {"block_count", 2},
                  {"feed_forward_length", 96},
                  {"attention.head_count", 4}};
    char key[64];
    variant_drop(variant, "general.architecture");
    variant_drop_keys(variant, strncmp(golden, "qwen2", 5) ? "llama." : "qwen2.");
    set_text(variant, "general.architecture", to);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        set_count(variant, to, counts[i].key, counts[i].value);
    set_count(variant, to, "attention.head_count_kv", n_head_kv);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", to);
    set_number(variant, key, 1e-5);
    snprintf(key, sizeof key, "%s.rope.freq_base", to);
    set_number(variant, key, 5000);
    return variant;
}

START_TEST(a_llama_by_another_name_has_its_bits)
{
    const struct family *family = &llamas[_i];
    static float llama[N_TOKENS * N_VOCAB], as_family[N_TOKENS * N_VOCAB];
    run(testing_golden(family->golden), family->position, llama);
    run(variant_finish(begin_other(family->golden, family->name, 2)), family->position, as_family);
    ck_assert_msg(memcmp(llama, as_family, sizeof llama) == 0, "%s: the bits differ", family->name);
}
END_TEST

/* Keys that any family may have, by the generic one's names for them. */
START_TEST(scales_and_windows_of_any_family_are_honoured)
{
    static float spelled_out[N_TOKENS * N_VOCAB], as_family[N_TOKENS * N_VOCAB];
    static float plain_logits[N_TOKENS * N_VOCAB];
    struct variant *variant = variant_begin(testing_golden("bloom-alibi.gguf"));
    run(testing_golden("bloom-alibi.gguf"), NULL, plain_logits);
    set_number(variant, "locus.attention.scale", 0.25);
    set_number(variant, "locus.embedding_scale", 2);
    locus_writer_u32(variant_writer(variant), "locus.attention.window", 5);
    run(variant_finish(variant), NULL, spelled_out);
    variant = begin_family(&families[0]);
    set_number(variant, "bloom.attention.scale", 0.25);
    set_number(variant, "bloom.embedding_scale", 2);
    locus_writer_u32(variant_writer(variant), "bloom.attention.sliding_window", 5);
    run(variant_finish(variant), NULL, as_family);
    ck_assert_mem_eq(spelled_out, as_family, sizeof as_family);
    ck_assert_mem_ne(spelled_out, plain_logits, sizeof plain_logits);
}
END_TEST

/* Gemma 2's files need not say its window: every second layer sees 4,096 positions. */
START_TEST(a_familys_own_window_is_known)
{
    struct variant *variant = variant_begin(testing_golden("gemma2-capped.gguf"));
    variant_drop(variant, "gemma2.attention.sliding_window");
    locus_error error;
    locus_model *model = locus_model_open(variant_finish(variant), &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    ck_assert_int_eq(model->config.layers[0].window, 4096);
    ck_assert_int_eq(model->config.layers[1].window, 0);
    locus_model_free(model);
}
END_TEST

static const struct layered {
    const char *golden, *dropped, *position;
} layered[] = {
    {"gemma3-local-bases", "gemma3.rope.freq_base_swa",
     "rope:pairs=half,dim=8,base=5000,scaling=linear,factor=4; layers 0::6,1,2,3,4 "
     "rope:base=10000,scaling=none,factor=1"},
    {"gemma3-local-bases", "gemma3.attention.sliding_window",
     "rope:pairs=half,dim=8,base=5000,scaling=linear,factor=4"},
    {"smollm3-unrotated", NULL, "rope:pairs=adjacent,dim=8,base=5000; layers 3 none"},
    {"cohere2-local", NULL, "rope:pairs=adjacent,dim=8,base=5000; layers 3 none"},
    {"exaone4-local", "exaone4.attention.sliding_window_pattern",
     "rope:pairs=half,dim=8,base=5000; layers 3 none"},
    {"olmo3-local", NULL,
     "rope:pairs=half,dim=8,base=5000,scaling=yarn,factor=4,trained=16,beta_fast=8,beta_slow=1; "
     "layers 0:3 rope:base=5000,scaling=none,factor=1"},
    {"gpt-oss-sinks", NULL,
     "rope:pairs=half,dim=8,base=5000,scaling=yarn,factor=4,trained=16,beta_fast=8,beta_slow=1,"
     "truncate=0"},
    {"baichuan-alibi", NULL, "alibi:max_bias=8"},
};

START_TEST(layers_that_differ_are_told_by_the_family)
{
    const struct layered *which = &layered[_i];
    char file[64];
    snprintf(file, sizeof file, "%s.gguf", which->golden);
    struct variant *variant = variant_begin(testing_golden(file));
    if (which->dropped) variant_drop(variant, which->dropped);
    locus_error error;
    locus_model *model = locus_model_open(variant_finish(variant), &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    ck_assert_str_eq(locus_model_info_get(model).position, which->position);
    locus_model_free(model);
}
END_TEST

static const struct needed {
    const char *golden, *dropped, *says;
} needed[] = {
    {"minicpm-scales", "minicpm.logit_scale", "minicpm.logit_scale is missing"},
    {"granite-scales", "granite.logit_scale", "granite.logit_scale is missing"},
    {"granite-experts", "granitemoe.logit_scale", "granitemoe.logit_scale is missing"},
    {"cohere-parallel", "command-r.logit_scale", "command-r.logit_scale is missing"},
    {"cohere2-local", "cohere2.logit_scale", "cohere2.logit_scale is missing"},
    {"cohere2-local", "cohere2.attention.sliding_window", "sliding_window is missing"},
    {"gpt-oss-sinks", "gpt-oss.attention.sliding_window", "sliding_window is missing"},
    {"gpt-oss-sinks", "gpt-oss.rope.scaling.factor",
     "rope.scaling.factor is missing beside rope.scaling.type yarn"},
    {"gpt-oss-sinks", "gpt-oss.rope.scaling.type",
     "rope.scaling.yarn_beta_fast is 8 beside scaling of type linear (rope.scaling.type is "
     "missing), expected 0"},
    {"olmo-bare", "olmo.attention.layer_norm_epsilon",
     "olmo.attention.layer_norm_epsilon is missing"},
    {"gpt-oss-sinks", "blk.1.attn_sinks.weight", "tensor blk.1.attn_sinks.weight is missing"},
    {"gpt-oss-sinks", "blk.0.post_attention_norm.weight",
     "tensor blk.0.ffn_norm.weight is missing"},
    {"glm4-output-norms", "blk.1.post_ffw_norm.weight", "tensor blk.1.post_ffw_norm.weight is"},
};

START_TEST(what_a_family_needs_is_named)
{
    const struct needed *which = &needed[_i];
    char file[64];
    snprintf(file, sizeof file, "%s.gguf", which->golden);
    struct variant *variant = variant_begin(testing_golden(file));
    variant_drop(variant, which->dropped);
    locus_error error;
    locus_model *model = locus_model_open(variant_finish(variant), &error);
    ck_assert_ptr_null(model);
    ck_assert_msg(strstr(error.message, which->says) != NULL, "%s", error.message);
}
END_TEST

static const struct {
    const char *golden, *key, *says;
    double value;
} beyond[] = {
    {"minicpm-scales", "minicpm.embedding_scale", "embedding_scale is 0, expected above 0", 0},
    {"minicpm-scales", "minicpm.residual_scale", "residual_scale is 0, expected above 0", 0},
    {"minicpm-scales", "minicpm.logit_scale", "logit_scale is 0, expected above 0", 0},
    {"granite-scales", "granite.logit_scale", "logit_scale is 0, expected above 0", 0},
    {"gpt-oss-sinks", "gpt-oss.attention.sliding_window", "sliding_window is 0, expected above 0",
     0},
    {"cohere2-local", "cohere2.rope.dimension_count", "is 1, expected 2 to 8", 1},
    {"cohere2-local", "cohere2.rope.dimension_count", "is 16, expected 2 to 8", 16},
};

START_TEST(what_is_out_of_a_familys_range_is_named)
{
    char file[64];
    snprintf(file, sizeof file, "%s.gguf", beyond[_i].golden);
    struct variant *variant = variant_begin(testing_golden(file));
    variant_drop(variant, beyond[_i].key);
    set_number(variant, beyond[_i].key, beyond[_i].value);
    locus_error error = {0};
    ck_assert_ptr_null(locus_model_open(variant_finish(variant), &error));
    ck_assert_msg(strstr(error.message, beyond[_i].key) != NULL, "%s", error.message);
    ck_assert_msg(strstr(error.message, beyond[_i].says) != NULL, "%s", error.message);
}
END_TEST

START_TEST(two_epsilons_are_one)
{
    struct variant *variant = variant_begin(testing_golden("nemotron-squares.gguf"));
    set_number(variant, "nemotron.attention.layer_norm_rms_epsilon", 0.5);
    locus_error error = {0};
    ck_assert_ptr_null(locus_model_open(variant_finish(variant), &error));
    ck_assert_msg(strstr(error.message, "nemotron.attention.layer_norm_rms_epsilon is 0.5, "
                                        "expected attention.layer_norm_epsilon's, 1e-05") != NULL,
                  "%s", error.message);
}
END_TEST

static const struct {
    const char *golden, *dropped;
} gaps[] = {
    {"gpt-oss-sinks", "blk.0.attn_q.bias"},       {"gpt-oss-sinks", "blk.1.attn_output.bias"},
    {"gpt-oss-sinks", "blk.0.ffn_gate_inp.bias"}, {"gpt-oss-sinks", "blk.1.ffn_gate_exps.bias"},
    {"gpt-oss-sinks", "blk.0.ffn_up_exps.bias"},  {"gpt-oss-sinks", "blk.0.ffn_down_exps.bias"},
    {"gpt2-learned", "blk.1.attn_norm.bias"},     {"gpt2-learned", "blk.0.attn_qkv.bias"},
    {"qwen2-biases", "blk.1.attn_k.bias"},        {"falcon-two-norms", "blk.1.attn_norm_2.weight"},
    {"mpt-qk-norms", "blk.0.attn_k_norm.weight"},
};

/* A tensor that a whole model may lack, missing from one layer alone. */
START_TEST(layers_have_the_same_biases_and_norms)
{
    char file[64];
    snprintf(file, sizeof file, "%s.gguf", gaps[_i].golden);
    struct variant *variant = variant_begin(testing_golden(file));
    variant_drop(variant, gaps[_i].dropped);
    locus_error error = {0};
    ck_assert_ptr_null(locus_model_open(variant_finish(variant), &error));
    char says[96];
    snprintf(says, sizeof says, "tensor %s is missing, but other layers have it", gaps[_i].dropped);
    ck_assert_msg(strstr(error.message, says) != NULL, "%s", error.message);
}
END_TEST

/* A sink that is no number would reach every score of its head. */
START_TEST(sinks_are_finite)
{
    static const struct {
        float value;
        const char *says;
    } odd[] = {{NAN, "is nan for head 2"}, {INFINITY, "is inf for head 2"}, {-INFINITY, "is -inf"}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        int rows, cols;
        struct variant *variant = variant_begin(testing_golden("gpt-oss-sinks.gguf"));
        float *sinks = variant_floats(variant, "blk.1.attn_sinks.weight", &rows, &cols);
        sinks[2] = odd[i].value;
        variant_drop(variant, "blk.1.attn_sinks.weight");
        variant_add(variant, "blk.1.attn_sinks.weight", LOCUS_F32, 0, cols, sinks);
        free(sinks);
        locus_error error;
        ck_assert_ptr_null(locus_model_open(variant_finish(variant), &error));
        ck_assert_msg(strstr(error.message, "blk.1.attn_sinks.weight is ") != NULL, "%s",
                      error.message);
        ck_assert_msg(strstr(error.message, odd[i].says) != NULL, "%s", error.message);
    }
}
END_TEST

START_TEST(alibi_of_no_slope_is_a_table_or_no_positions)
{
    static const float table[64 * 36];
    locus_error error;
    for (int has_table = 0; has_table < 2; has_table++) {
        struct variant *variant = begin_family(&families[1]);
        if (has_table) variant_add(variant, "position_embd.weight", LOCUS_F32, 64, 36, table);
        const char *path = variant_finish(variant);
        variant = variant_begin(path);
        variant_drop(variant, "mpt.attention.max_alibi_bias");
        locus_model *model = locus_model_open(variant_finish(variant), &error);
        ck_assert_msg(model != NULL, "%s", error.message);
        ck_assert_str_eq(locus_model_info_get(model).position, has_table ? "learned" : "none");
        locus_model_free(model);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("families");
    TCase *tests = tcase_create("metadata");
    tcase_add_loop_test(tests, scalings_are_read_from_the_metadata, 0,
                        sizeof scalings / sizeof *scalings);
    tcase_add_loop_test(tests, scalings_that_cannot_be_served_are_refused, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_loop_test(tests, family_gives_the_bits_of_what_it_stands_for, 0,
                        sizeof families / sizeof *families);
    tcase_add_loop_test(tests, a_llama_by_another_name_has_its_bits, 0,
                        sizeof llamas / sizeof *llamas);
    tcase_add_loop_test(tests, layers_that_differ_are_told_by_the_family, 0,
                        sizeof layered / sizeof *layered);
    tcase_add_loop_test(tests, what_a_family_needs_is_named, 0, sizeof needed / sizeof *needed);
    tcase_add_test(tests, scales_and_windows_of_any_family_are_honoured);
    tcase_add_test(tests, a_familys_own_window_is_known);
    tcase_add_loop_test(tests, what_is_out_of_a_familys_range_is_named, 0,
                        sizeof beyond / sizeof *beyond);
    tcase_add_test(tests, two_epsilons_are_one);
    tcase_add_loop_test(tests, layers_have_the_same_biases_and_norms, 0,
                        sizeof gaps / sizeof *gaps);
    tcase_add_test(tests, sinks_are_finite);
    tcase_add_test(tests, alibi_of_no_slope_is_a_table_or_no_positions);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
