/* Selective scans: the same bits however a text is cut, at any number of threads, in every kernel
 * set and after every rewind; alone, and beside attention in a model whose layers differ. Against
 * transformers they are test_golden.c's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/map.h"
#include "forward/running.h"
#include "golden.h"
#include "hostile.h"
#include "model/quantize.h"
#include "plain.h"
#include "reference.h"
#include "testing.h"
#include "tiny.h"
#include "variant.h"

/* ---- models --------------------------------------------------------------------------------- */

enum {
    N = 520, /* two intervals, and some */
    N_VOCAB = 40,
    N_EMBD = 32,
    N_LAYER = 4,
    N_FF = 48,
    N_INNER = 72, /* four panels and a half */
    N_STATE = 5,
    N_CONV = 4,
    RANK = 32, /* a block of quantised values */
};

enum { ATTENTION = 1, SCAN = 2, MLP = 4, ALL = 8 };

/* centre +- spread; rows 0: a vector. */
static const struct tensor {
    const char *name; /* after "blk.N.", unless it is of all */
    int of, rows, cols;
    float centre, spread;
} tensors[] = {
    {"token_embd.weight", ALL, N_VOCAB, N_EMBD, 0, 1},
    {"output_norm.weight", ALL, 0, N_EMBD, 1, 0.2f},
    {"attn_norm.weight", ATTENTION | SCAN, 0, N_EMBD, 1, 0.2f},
    {"attn_q.weight", ATTENTION, N_EMBD, N_EMBD, 0, 0.5f},
    {"attn_k.weight", ATTENTION, N_EMBD, N_EMBD, 0, 0.5f},
    {"attn_v.weight", ATTENTION, N_EMBD, N_EMBD, 0, 0.4f},
    {"attn_output.weight", ATTENTION, N_EMBD, N_EMBD, 0, 0.4f},
    {"ssm_in.weight", SCAN, 2 * N_INNER, N_EMBD, 0, 0.5f},
    {"ssm_conv1d.weight", SCAN, N_INNER, N_CONV, 0, 0.6f},
    {"ssm_conv1d.bias", SCAN, 0, N_INNER, 0, 0.3f},
    {"ssm_x.weight", SCAN, RANK + 2 * N_STATE, N_INNER, 0, 0.3f},
    {"ssm_dt.weight", SCAN, N_INNER, RANK, 0, 0.2f},
    {"ssm_dt.bias", SCAN, 0, N_INNER, -3, 2}, /* steps of 0.01 to 0.3 */
    {"ssm_a", SCAN, N_INNER, N_STATE, -0.6f, 0.59f},
    {"ssm_d", SCAN, 0, N_INNER, 1, 0.3f},
    {"ssm_out.weight", SCAN, N_EMBD, N_INNER, 0, 0.3f},
    {"ffn_norm.weight", MLP, 0, N_EMBD, 1, 0.2f},
    {"ffn_up.weight", MLP, N_FF, N_EMBD, 0, 0.3f},
    {"ffn_down.weight", MLP, N_EMBD, N_FF, 0, 0.3f},
};

/* What the layers are, a letter each: attention, m. */
static const struct model {
    const char *mixers;
    bool mlp;
} models[] = {{"mmmm", false}, {"mama", true}, {"ammm", false}, {"mmmm", true}};

enum { N_MODELS = sizeof models / sizeof *models };

static void write_keys(struct locus_checkpoint_writer *writer, const struct model *model)
{
    const struct {
        const char *key;
        int value;
    } counts[] = {{"locus.context_length", 64},
                  {"locus.embedding_length", N_EMBD},
                  {"locus.block_count", N_LAYER},
                  {"locus.feed_forward_length", model->mlp ? N_FF : 0},
                  {"locus.attention.head_count", strchr(model->mixers, 'a') ? 4 : 0},
                  {"locus.ssm.inner_size", N_INNER},
                  {"locus.ssm.state_size", N_STATE},
                  {"locus.ssm.conv_kernel", N_CONV},
                  {"locus.ssm.time_step_rank", RANK}};
    const char *names[N_LAYER];
    size_t lengths[N_LAYER];
    for (int l = 0; l < N_LAYER; l++) {
        names[l] = model->mixers[l] == 'm' ? "mamba" : "attention";
        lengths[l] = strlen(names[l]);
    }
    locus_writer_string(writer, "general.architecture", "locus", 5);
    locus_writer_string(writer, "locus.norm", "rmsnorm", 7);
    locus_writer_strings(writer, "locus.mixer", names, lengths, N_LAYER);
    if (strchr(model->mixers, 'a')) locus_writer_string(writer, "locus.position", "rope", 4);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        locus_writer_u32(writer, counts[i].key, (uint32_t)counts[i].value);
}

/* Values that follow from the name. */
static float *make_values(const struct tensor *tensor, const char *name)
{
    const int n = (tensor->rows ? tensor->rows : 1) * tensor->cols;
    float *values = malloc((size_t)n * sizeof *values);
    uint32_t state = 1;
    ck_assert_ptr_nonnull(values);
    for (const char *c = name; *c; c++)
        state = state * 31 + (unsigned char)*c;
    for (int i = 0; i < n; i++) {
        state = state * 1664525 + 1013904223;
        values[i] = tensor->centre + tensor->spread * ((float)(state >> 8) / 8388608.0f - 1);
    }
    return values;
}

/* Its layers' tensors have the name of the layer before. */
static const char *write_model(const struct model *model)
{
    enum { MOST = 80 };
    const char *path = testing_temporary("scans.gguf");
    locus_error error = {0};
    struct locus_checkpoint_writer *writer = locus_writer_create(&error);
    float *values[MOST];
    int n = 0;
    write_keys(writer, model);
    for (int l = -1; l < N_LAYER; l++)
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
            const struct tensor *tensor = &tensors[i];
            const int mixer = l >= 0 && model->mixers[l] == 'm' ? SCAN : ATTENTION;
            const int of = l < 0 ? ALL : mixer | (model->mlp ? MLP : 0);
            const int64_t dims[] = {tensor->cols, tensor->rows};
            char name[64];
            if (!(tensor->of & of)) continue;
            ck_assert_int_lt(n, MOST);
            if (l < 0)
                snprintf(name, sizeof name, "%s", tensor->name);
            else
                snprintf(name, sizeof name, "blk.%d.%s", l, tensor->name);
            values[n] = make_values(tensor, name);
            locus_writer_tensor(writer, name, LOCUS_F32, tensor->rows ? 2 : 1, dims, values[n++]);
        }
    ck_assert_msg(!locus_writer_finish(writer, path, &error), "%s", error.message);
    locus_writer_free(writer);
    while (n > 0)
        free(values[--n]);
    return path;
}

static locus_model *open_path(const char *path)
{
    locus_error error = {0};
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    return model;
}

static locus_model *open_model(int index)
{
    return open_path(write_model(&models[index]));
}

/* The same with matrices of another type. */
static locus_model *open_converted(int index, enum locus_tensor_type type)
{
    struct variant *variant = variant_begin(write_model(&models[index]));
    variant_convert(variant, type);
    return open_path(variant_finish(variant));
}

/* ---- sessions ------------------------------------------------------------------------------- */

static int32_t tokens[N];

static locus_session *open_session(const locus_model *model, int n_batch, int n_threads,
                                   const char *kernels)
{
    const locus_session_params params = {
        .n_context = N, .n_batch = n_batch, .n_threads = n_threads, .kernels = kernels};
    locus_error error = {0};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    for (int i = 0; i < N; i++)
        tokens[i] = tiny_token(i);
    return session;
}

/* Evaluates tokens [first, end), `step` a call. */
static void eval(locus_session *session, int first, int end, int step, float *logits)
{
    locus_error error = {0};
    for (int i = first; i < end; i += step) {
        const int n = end - i < step ? end - i : step;
        const enum locus_status status =
            locus_session_eval(session, tokens + i, n, logits + (size_t)i * N_VOCAB, n, &error);
        ck_assert_msg(status == LOCUS_OK, "%s", error.message);
    }
}

/* Logits [N, N_VOCAB] of the text, in chunks of n_batch. */
static float *logits_of(const locus_model *model, int n_batch, int step, int n_threads,
                        const char *kernels)
{
    float *logits = calloc((size_t)N * N_VOCAB, sizeof *logits);
    locus_session *session = open_session(model, n_batch, n_threads, kernels);
    eval(session, 0, N, step, logits);
    locus_session_free(session);
    return logits;
}

static void check_same(const float *logits, const float *expected, int first, int end,
                       const char *what)
{
    for (int i = first; i < end; i++)
        ck_assert_msg(!memcmp(logits + (size_t)i * N_VOCAB, expected + (size_t)i * N_VOCAB,
                              N_VOCAB * sizeof *logits),
                      "%s: token %d", what, i);
}

/* ---- bits ----------------------------------------------------------------------------------- */

START_TEST(a_text_has_the_same_bits_however_it_is_cut)
{
    static const struct {
        int n_batch, step, n_threads;
    } ways[] = {{N, N, 3}, {1, N, 1}, {7, 5, 1}, {256, 300, 2}, {N, 1, 1}, {100, N, 2}};
    static const enum locus_tensor_type types[] = {LOCUS_F32, LOCUS_F16};
    for (size_t t = 0; t < 2; t++) {
        locus_model *model = open_converted(_i, types[t]);
        float *expected = logits_of(model, N, N, 1, NULL);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            float *logits =
                logits_of(model, ways[i].n_batch, ways[i].step, ways[i].n_threads, NULL);
            check_same(logits, expected, 0, N, "cut");
            free(logits);
        }
        free(expected);
        locus_model_free(model);
    }
}
END_TEST

START_TEST(every_kernel_set_gives_the_same_bits)
{
    locus_model *model = open_model(_i);
    float *expected = logits_of(model, 64, N, 1, "reference");
    const char *name;
    for (int i = 0; (name = locus_kernels_name(i)); i++) {
        float *logits = logits_of(model, 64, N, 2, name);
        check_same(logits, expected, 0, N, name);
        free(logits);
    }
    free(expected);
    locus_model_free(model);
}
END_TEST

/* To every length, from the end and from a text that went on otherwise. */
START_TEST(after_a_rewind_a_text_goes_on_with_the_same_bits)
{
    locus_model *model = open_model(_i);
    float *expected = logits_of(model, N, N, 1, NULL),
          *logits = calloc(N * N_VOCAB, sizeof *logits);
    locus_session *session = open_session(model, 100, 1, NULL);
    eval(session, 0, N, N, logits);
    for (int n_keep = N; n_keep >= 0; n_keep--) {
        const int n = N - n_keep < 3 ? N - n_keep : 3;
        locus_error error = {0};
        ck_assert_msg(!locus_session_rewind(session, n_keep, &error), "%s", error.message);
        for (int i = 0; i < n; i++) {
            const int32_t other = (tokens[n_keep + i] + 1) % N_VOCAB;
            ck_assert(!locus_session_eval(session, &other, 1, NULL, 0, NULL));
        }
        ck_assert(!locus_session_rewind(session, n_keep, NULL));
        ck_assert_int_eq(locus_session_length(session), n_keep);
        eval(session, n_keep, n_keep + n, N, logits);
        check_same(logits, expected, n_keep, n_keep + n, "rewound");
    }
    locus_session_free(session);
    free(expected);
    free(logits);
    locus_model_free(model);
}
END_TEST

/* Guards the tests above: what is far back still counts. */
START_TEST(the_first_token_is_felt_at_the_last)
{
    locus_model *model = open_model(_i);
    float *expected = logits_of(model, N, N, 1, NULL),
          *logits = calloc(N * N_VOCAB, sizeof *logits);
    locus_session *session = open_session(model, N, 1, NULL);
    tokens[0] = (tokens[0] + 1) % N_VOCAB;
    eval(session, 0, N, N, logits);
    for (int i = 0; i < N; i++)
        ck_assert_msg(memcmp(logits + (size_t)i * N_VOCAB, expected + (size_t)i * N_VOCAB,
                             N_VOCAB * sizeof *logits) != 0,
                      "token %d", i);
    locus_session_free(session);
    free(expected);
    free(logits);
    locus_model_free(model);
}
END_TEST

/* ---- values --------------------------------------------------------------------------------- */

static double off_plain(const locus_model *model)
{
    locus_session *session = open_session(model, 100, 2, NULL);
    float *logits = calloc(N * N_VOCAB, sizeof *logits);
    double *plain = calloc(N * N_VOCAB, sizeof *plain), worst = 0;
    const struct reference reference = {.model = model, .positions = &session->positions};
    eval(session, 0, N, N, logits);
    reference_logits(&reference, tokens, N, plain);
    for (int i = 0; i < N; i++) {
        const double off =
            plain_difference(logits + (size_t)i * N_VOCAB, plain + (size_t)i * N_VOCAB, N_VOCAB);
        worst = off > worst ? off : worst;
    }
    free(logits);
    free(plain);
    locus_session_free(session);
    return worst;
}

START_TEST(logits_are_those_of_the_plain_pass)
{
    locus_model *model = open_model(_i);
    ck_assert_double_le(off_plain(model), 5e-5);
    locus_model_free(model);
}
END_TEST

/* As Falcon Mamba has it. */
START_TEST(normed_steps_are_those_of_the_plain_pass)
{
    struct variant *variant = variant_begin(write_model(&models[_i]));
    locus_writer_bool(variant_writer(variant), "locus.ssm.dt_b_c_rms", true);
    locus_writer_f32(variant_writer(variant), "locus.ssm.norm_epsilon", 0.01f);
    locus_model *model = open_path(variant_finish(variant));
    ck_assert_double_le(off_plain(model), 5e-5);
    locus_model_free(model);
}
END_TEST

/* As Jamba has them. */
START_TEST(norms_inside_a_scan_may_have_weights)
{
    static const struct {
        const char *name;
        int n;
    } norms[] = {{"ssm_dt_norm", RANK}, {"ssm_b_norm", N_STATE}, {"ssm_c_norm", N_STATE}};
    struct variant *variant = variant_begin(write_model(&models[0]));
    float weights[RANK];
    for (int i = 0; i < RANK; i++)
        weights[i] = 0.5f + 0.03f * (float)i;
    char names[3 * N_LAYER][64];
    for (int i = 0; i < 3 * N_LAYER; i++) {
        snprintf(names[i], sizeof names[i], "blk.%d.%s.weight", i / 3, norms[i % 3].name);
        variant_add(variant, names[i], LOCUS_F32, 0, norms[i % 3].n, weights);
    }
    locus_model *model = open_path(variant_finish(variant)), *without = open_model(0);
    ck_assert_double_le(off_plain(model), 5e-5);
    float *normed = logits_of(model, N, N, 1, NULL), *bare = logits_of(without, N, N, 1, NULL);
    ck_assert(memcmp(normed, bare, N * N_VOCAB * sizeof *bare) != 0);
    free(normed);
    free(bare);
    locus_model_free(model);
    locus_model_free(without);
}
END_TEST

/* Blocks of quantised values, where rows divide into them. The taps of the convolution are kept. */
START_TEST(quantised_weights_are_near_and_have_the_same_bits_however_a_text_is_cut)
{
    struct locus_quantize job = {.recipe = locus_recipe_find("q8_0"), .n_threads = 1};
    const char *path = testing_temporary("quantised.gguf");
    locus_error error = {0};
    ck_assert_msg(!locus_quantize(&job, write_model(&models[1]), path, &error), "%s",
                  error.message);
    locus_model *model = open_path(path), *floats = open_model(1);
    const struct locus_checkpoint *checkpoint = locus_model_checkpoint(model);
    ck_assert_int_eq(locus_checkpoint_tensor(checkpoint, "blk.0.ssm_in.weight")->type, LOCUS_Q8_0);
    ck_assert_int_eq(locus_checkpoint_tensor(checkpoint, "blk.0.ssm_conv1d.weight")->type,
                     LOCUS_F32);
    float *whole = logits_of(model, N, N, 2, NULL), *cut = logits_of(model, 7, 5, 1, NULL);
    float *exact = logits_of(floats, N, N, 1, NULL);
    check_same(cut, whole, 0, N, "quantised");
    for (int i = 0; i < N; i++)
        ck_assert_float_lt(golden_row_difference(whole + (size_t)i * N_VOCAB,
                                                 exact + (size_t)i * N_VOCAB, N_VOCAB),
                           0.2f);
    free(whole);
    free(cut);
    free(exact);
    locus_model_free(model);
    locus_model_free(floats);
}
END_TEST

/* ---- what a session keeps ------------------------------------------------------------------- */

START_TEST(copies_are_no_more_however_long_a_session_is)
{
    ck_assert_int_eq(locus_running_interval(1), 256);
    ck_assert_int_eq(locus_running_interval(16639), 256);
    for (int capacity = 1; capacity < 1 << 30; capacity = capacity * 3 + 1) {
        const int interval = locus_running_interval(capacity);
        ck_assert_int_le(capacity / interval, LOCUS_RUNNING_COPIES);
        ck_assert(interval == 256 || capacity / (interval / 2) > LOCUS_RUNNING_COPIES);
    }
}
END_TEST

START_TEST(only_layers_of_attention_have_keys_and_a_map)
{
    locus_model *model = open_model(1);
    locus_session *session = open_session(model, N, 1, NULL);
    float weights[9];
    locus_error error = {0};
    ck_assert_int_eq(locus_session_probe(session, tokens, 3, 1, 0, weights, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_session_probe(session, tokens, 3, 0, 0, weights, &error),
                     LOCUS_ERROR_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, "is mamba, expected attention") != NULL, "%s",
                  error.message);
    locus_session_free(session);
    locus_model_free(model);
}
END_TEST

static void refuse_session(const locus_model *model, const locus_session_params *params,
                           enum locus_status status, const char *says)
{
    locus_error error = {0};
    ck_assert_ptr_null(locus_session_create(model, params, &error));
    ck_assert_msg(strstr(error.message, says) != NULL, "no \"%s\": %s", says, error.message);
    ck_assert_int_eq(error.status, status);
}

START_TEST(states_that_cannot_be_had_are_refused)
{
    locus_model *model = open_model(0);
    hostile_limit_memory((size_t)4 << 30);
    const locus_session_params params = {.n_context = 1 << 30, .n_batch = 1 << 30, .n_threads = 1};
    refuse_session(model, &params, LOCUS_ERROR_MEMORY, "out of memory");
    locus_model_free(model);
}
END_TEST

static const struct {
    locus_session_params params;
    const char *says;
} idle[] = {
    {{.position = "rope"}, "position rope: the model's layers are mamba"},
    {{.position = "none; layers 0 alibi"}, "expected none"},
    {{.attention = "window:size=8"}, "attention window:size=8: the model's layers are mamba"},
    {{.attention = "sinks:keep=2,size=9"}, "expected full"},
    {{.cache_type = LOCUS_CACHE_Q8_0}, "cache type q8_0: the model's layers are mamba"},
    {{.n_axes = 2}, "2 coordinates a token: the model's layers are mamba"},
};

START_TEST(what_attention_alone_has_is_refused_in_a_model_without_it)
{
    locus_model *scans = open_model(0), *mixed = open_model(1);
    const locus_session_params plain = {.position = "none", .attention = "full"};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
        refuse_session(scans, &idle[i].params, LOCUS_ERROR_UNSUPPORTED, idle[i].says);
        locus_session *session = locus_session_create(mixed, &idle[i].params, NULL);
        ck_assert_msg(session || idle[i].params.n_axes, "%s", idle[i].says);
        locus_session_free(session);
    }
    locus_session *session = locus_session_create(scans, &plain, NULL);
    ck_assert_ptr_nonnull(session);
    locus_session_free(session);
    locus_model_free(scans);
    locus_model_free(mixed);
}
END_TEST

/* ---- files ---------------------------------------------------------------------------------- */

static void replace_u32(struct variant *variant, const char *key, uint32_t value)
{
    variant_drop(variant, key);
    locus_writer_u32(variant_writer(variant), key, value);
}

static void replace_mixer(struct variant *variant, const char *const *names, size_t n)
{
    size_t lengths[8];
    for (size_t i = 0; i < n; i++)
        lengths[i] = strlen(names[i]);
    variant_drop(variant, "locus.mixer");
    locus_writer_strings(variant_writer(variant), "locus.mixer", names, lengths, n);
}

static void no_state_size(struct variant *variant)
{
    variant_drop(variant, "locus.ssm.state_size");
}

static void other_rank(struct variant *variant)
{
    replace_u32(variant, "locus.ssm.time_step_rank", RANK - 1);
}

static void no_taps(struct variant *variant)
{
    replace_u32(variant, "locus.ssm.conv_kernel", 0);
}

static void no_skip(struct variant *variant)
{
    variant_drop(variant, "blk.2.ssm_d");
}

static void one_bias_less(struct variant *variant)
{
    variant_drop(variant, "blk.2.ssm_conv1d.bias");
}

static void logarithms(struct variant *variant)
{
    int rows, cols;
    float *values = variant_floats(variant, "blk.0.ssm_a", &rows, &cols);
    values[7] = 0.5f;
    variant_drop(variant, "blk.0.ssm_a");
    variant_add(variant, "blk.0.ssm_a", LOCUS_F32, rows, cols, values);
    free(values);
}

static void unknown_mixer(struct variant *variant)
{
    replace_mixer(variant, (const char *const[]){"mamba", "attention", "hyena", "mamba"}, 4);
}

static void three_mixers(struct variant *variant)
{
    replace_mixer(variant, (const char *const[]){"mamba", "attention", "mamba"}, 3);
}

static void all_attention(struct variant *variant)
{
    variant_drop(variant, "locus.mixer");
    locus_writer_string(variant_writer(variant), "locus.mixer", "attention", 9);
}

static void no_mlp(struct variant *variant)
{
    replace_u32(variant, "locus.feed_forward_length", 0);
}

static const struct {
    void (*change)(struct variant *variant);
    const char *says;
} wrong[] = {
    {no_state_size, "locus.ssm.state_size is missing"},
    {other_rank, "blk.0.ssm_x.weight is [42, 72], expected [41, 72]"},
    {no_taps, "locus.ssm.conv_kernel is 0, expected 1 to 256"},
    {no_skip, "tensor blk.2.ssm_d is missing"},
    {one_bias_less, "blk.2.ssm_conv1d.bias is missing, but other layers have it"},
    {logarithms, "blk.0.ssm_a is 0.5 for channel 1, state 2, expected -e^(A_log)"},
    {unknown_mixer, "locus.mixer is \"hyena\", expected one of attention, mamba"},
    {three_mixers, "locus.mixer has 3 entries, expected one a layer (4)"},
    {all_attention, "locus.ssm.inner_size is a key of the model"},
    {no_mlp, "ffn_norm.weight is used by no part of the model"},
};

static void refuse_file(struct variant *variant, const char *says)
{
    locus_error error = {0};
    ck_assert_ptr_null(locus_model_open(variant_finish(variant), &error));
    ck_assert_msg(strstr(error.message, says) != NULL, "no \"%s\": %s", says, error.message);
}

START_TEST(files_that_are_wrong_are_refused_by_name)
{
    struct variant *variant = variant_begin(write_model(&models[1]));
    wrong[_i].change(variant);
    refuse_file(variant, wrong[_i].says);
}
END_TEST

/* Which says by its name what has a key in others. */
static const struct {
    const char *key;
    uint32_t value;
    const char *says;
} of_the_family[] = {
    {"mamba.feed_forward_length", 64, "mamba.feed_forward_length is 64, expected 0 to 0"},
    {"mamba.attention.head_count", 4, "mamba.attention.head_count is 4, expected 0 to 0"},
    {"mamba.attention.sliding_window", 4, "mamba.attention.sliding_window is a key"},
    {"mamba.rope.freq_base", 4, "mamba.rope.freq_base is a key"},
};

START_TEST(the_family_has_no_mlp_and_no_heads)
{
    const char *key = of_the_family[_i].key;
    struct variant *variant = variant_begin(testing_golden("mamba-scans.gguf"));
    if (_i < 2) variant_drop(variant, key);
    locus_writer_u32(variant_writer(variant), key, of_the_family[_i].value);
    refuse_file(variant, of_the_family[_i].says);
}
END_TEST

START_TEST(a_file_without_attention_has_no_scheme)
{
    struct variant *variant = variant_begin(testing_golden("mamba-scans.gguf"));
    locus_writer_string(variant_writer(variant), "locus.position", "alibi", 5);
    refuse_file(variant, "locus.position is \"alibi\", but no layer attends");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mamba");
    TCase *tests = tcase_create("mamba");
    tcase_add_loop_test(tests, a_text_has_the_same_bits_however_it_is_cut, 0, N_MODELS);
    tcase_add_loop_test(tests, every_kernel_set_gives_the_same_bits, 0, N_MODELS);
    tcase_add_loop_test(tests, after_a_rewind_a_text_goes_on_with_the_same_bits, 0, 2);
    tcase_add_loop_test(tests, the_first_token_is_felt_at_the_last, 0, N_MODELS);
    tcase_add_loop_test(tests, logits_are_those_of_the_plain_pass, 0, N_MODELS);
    tcase_add_loop_test(tests, normed_steps_are_those_of_the_plain_pass, 0, N_MODELS);
    tcase_add_test(tests, norms_inside_a_scan_may_have_weights);
    tcase_add_test(tests, quantised_weights_are_near_and_have_the_same_bits_however_a_text_is_cut);
    tcase_add_test(tests, copies_are_no_more_however_long_a_session_is);
    tcase_add_test(tests, only_layers_of_attention_have_keys_and_a_map);
    tcase_add_test(tests, states_that_cannot_be_had_are_refused);
    tcase_add_test(tests, what_attention_alone_has_is_refused_in_a_model_without_it);
    tcase_add_loop_test(tests, files_that_are_wrong_are_refused_by_name, 0,
                        sizeof wrong / sizeof *wrong);
    tcase_add_loop_test(tests, the_family_has_no_mlp_and_no_heads, 0,
                        sizeof of_the_family / sizeof *of_the_family);
    tcase_add_test(tests, a_file_without_attention_has_no_scheme);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
