/* Tiny random models of mixed layers: see mixed.h. */
#include "mixed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "golden.h"
#include "plain.h"
#include "reference.h"
#include "testing.h"
#include "tiny.h"

/* ---- models --------------------------------------------------------------------------------- */

/* centre +- spread; rows 0: a vector. */
static const struct tensor {
    const char *name; /* after "blk.N.", unless it is of all */
    const char *of;   /* letters: mixers, f of an MLP; none: of all */
    int rows, cols;
    float centre, spread;
} tensors[] = {
    {"token_embd.weight", "", MIXED_VOCAB, MIXED_EMBD, 0, 1},
    {"output_norm.weight", "", 0, MIXED_EMBD, 1, 0.2f},
    {"attn_norm.weight", "am2rh", 0, MIXED_EMBD, 1, 0.2f},
    {"attn_q.weight", "a", MIXED_EMBD, MIXED_EMBD, 0, 0.5f},
    {"attn_k.weight", "a", MIXED_EMBD, MIXED_EMBD, 0, 0.5f},
    {"attn_v.weight", "a", MIXED_EMBD, MIXED_EMBD, 0, 0.4f},
    {"attn_output.weight", "a", MIXED_EMBD, MIXED_EMBD, 0, 0.4f},
    {"ssm_in.weight", "m", 2 * MIXED_INNER, MIXED_EMBD, 0, 0.5f},
    {"ssm_conv1d.weight", "m", MIXED_INNER, MIXED_CONV, 0, 0.6f},
    {"ssm_conv1d.bias", "m", 0, MIXED_INNER, 0, 0.3f},
    {"ssm_x.weight", "m", MIXED_RANK + 2 * MIXED_STATE, MIXED_INNER, 0, 0.3f},
    {"ssm_dt.weight", "m", MIXED_INNER, MIXED_RANK, 0, 0.2f},
    {"ssm_dt.bias", "m", 0, MIXED_INNER, -3, 2}, /* steps of 0.01 to 0.3 */
    {"ssm_a", "m", MIXED_INNER, MIXED_STATE, -0.6f, 0.59f},
    {"ssm_d", "m", 0, MIXED_INNER, 1, 0.3f},
    {"ssm_out.weight", "m", MIXED_EMBD, MIXED_INNER, 0, 0.3f},
    {"ssm_in.weight", "2", MIXED_INNER + MIXED_CONVOLVED + MIXED_HEADS, MIXED_EMBD, 0, 0.4f},
    {"ssm_conv1d.weight", "2", MIXED_CONVOLVED, MIXED_CONV, 0, 0.6f},
    {"ssm_conv1d.bias", "2", 0, MIXED_CONVOLVED, 0, 0.3f},
    {"ssm_dt.bias", "2", 0, MIXED_HEADS, -3, 2},
    {"ssm_a", "2", MIXED_HEADS, 1, -0.6f, 0.59f},
    {"ssm_d", "2", MIXED_HEADS, 1, 1, 0.3f},
    {"ssm_norm.weight", "2", MIXED_GROUPS, MIXED_INNER / MIXED_GROUPS, 1, 0.2f},
    {"ssm_out.weight", "2", MIXED_EMBD, MIXED_INNER, 0, 0.3f},
    {"retention_q.weight", "r", MIXED_RETAINED *MIXED_KEY, MIXED_EMBD, 0, 0.4f},
    {"retention_k.weight", "r", MIXED_RETAINED *MIXED_KEY, MIXED_EMBD, 0, 0.4f},
    {"retention_v.weight", "r", MIXED_RETAINED *MIXED_VALUE, MIXED_EMBD, 0, 0.4f},
    {"retention_gate.weight", "r", MIXED_RETAINED *MIXED_VALUE, MIXED_EMBD, 0, 0.5f},
    {"retention_gate.bias", "r", 0, MIXED_RETAINED *MIXED_VALUE, 0, 0.3f},
    {"retention_output.weight", "r", MIXED_EMBD, MIXED_RETAINED *MIXED_VALUE, 0, 0.2f},
    {"hyena_in.weight", "h", 3 * MIXED_EMBD, MIXED_EMBD, 0, 0.4f},
    {"hyena_in.bias", "h", 0, 3 * MIXED_EMBD, 0, 0.3f},
    {"hyena_conv1d.weight", "h", 3 * MIXED_EMBD, MIXED_CONV, 0, 0.6f},
    {"hyena_conv1d.bias", "h", 0, 3 * MIXED_EMBD, 0, 0.3f},
    {"hyena_filter_0.weight", "h", MIXED_WIDTH, 1 + 2 * MIXED_BANDS, 0, 0.3f},
    {"hyena_filter_0.bias", "h", 0, MIXED_WIDTH, 0, 0.3f},
    {"hyena_filter_1.weight", "h", MIXED_WIDTH, MIXED_WIDTH, 0, 0.3f},
    {"hyena_filter_1.bias", "h", 0, MIXED_WIDTH, 0, 0.3f},
    {"hyena_filter_out.weight", "h", MIXED_EMBD, MIXED_WIDTH, 0, 0.1f},
    {"hyena_frequency", "h", 0, MIXED_WIDTH, 3, 2},
    {"hyena_decay", "h", 0, MIXED_EMBD, 0.2f, 0.2f}, /* felt past the text's end */
    {"hyena_skip", "h", 0, MIXED_EMBD, 0, 0.5f},
    {"hyena_out.weight", "h", MIXED_EMBD, MIXED_EMBD, 0, 0.3f},
    {"ffn_norm.weight", "f", 0, MIXED_EMBD, 1, 0.2f},
    {"ffn_up.weight", "f", MIXED_FF, MIXED_EMBD, 0, 0.3f},
    {"ffn_down.weight", "f", MIXED_EMBD, MIXED_FF, 0, 0.3f},
};

/* Mixers, each with the keys of its sizes. */
static const struct kind {
    char letter;
    const char *name;
    struct {
        const char *key;
        int value;
    } sizes[6]; /* up to one without a key */
} kinds[] = {
    {'a', "attention", {{"locus.attention.head_count", 4}}},
    {'m',
     "mamba",
     {{"locus.ssm.inner_size", MIXED_INNER},
      {"locus.ssm.state_size", MIXED_STATE},
      {"locus.ssm.conv_kernel", MIXED_CONV},
      {"locus.ssm.time_step_rank", MIXED_RANK}}},
    {'2',
     "mamba2",
     {{"locus.ssm.inner_size", MIXED_INNER},
      {"locus.ssm.state_size", MIXED_STATE},
      {"locus.ssm.conv_kernel", MIXED_CONV},
      {"locus.ssm.time_step_rank", MIXED_HEADS},
      {"locus.ssm.group_count", MIXED_GROUPS}}},
    {'r',
     "retention",
     {{"locus.retention.head_count", MIXED_RETAINED},
      {"locus.retention.key_length", MIXED_KEY},
      {"locus.retention.value_length", MIXED_VALUE}}},
    {'h',
     "hyena",
     {{"locus.hyena.conv_kernel", MIXED_CONV},
      {"locus.hyena.filter_bands", MIXED_BANDS},
      {"locus.hyena.filter_width", MIXED_WIDTH},
      {"locus.hyena.filter_layers", 2}}},
};

static const struct kind *kind_of(char letter)
{
    const struct kind *kind = kinds;
    while (kind->letter != letter)
        kind++;
    return kind;
}

static void write_keys(struct locus_checkpoint_writer *writer, const struct mixed *mixed)
{
    const char *names[MIXED_LAYERS];
    size_t lengths[MIXED_LAYERS];
    for (int l = 0; l < MIXED_LAYERS; l++) {
        names[l] = kind_of(mixed->mixers[l])->name;
        lengths[l] = strlen(names[l]);
    }
    locus_writer_string(writer, "general.architecture", "locus", 5);
    locus_writer_string(writer, "locus.norm", "rmsnorm", 7);
    locus_writer_strings(writer, "locus.mixer", names, lengths, MIXED_LAYERS);
    locus_writer_u32(writer, "locus.context_length", 64);
    locus_writer_u32(writer, "locus.embedding_length", MIXED_EMBD);
    locus_writer_u32(writer, "locus.block_count", MIXED_LAYERS);
    locus_writer_u32(writer, "locus.feed_forward_length", mixed->mlp ? MIXED_FF : 0);
    if (strchr(mixed->mixers, 'a')) locus_writer_string(writer, "locus.position", "rope", 4);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int i = 0; strchr(mixed->mixers, kinds[k].letter) && kinds[k].sizes[i].key; i++)
            locus_writer_u32(writer, kinds[k].sizes[i].key, (uint32_t)kinds[k].sizes[i].value);
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

/* Whether layer l has the tensor; -1: the model. */
static bool has(const struct mixed *mixed, const struct tensor *tensor, int l)
{
    if (l < 0 || !*tensor->of) return l < 0 && !*tensor->of;
    return strchr(tensor->of, mixed->mixers[l]) || (mixed->mlp && strchr(tensor->of, 'f'));
}

const char *mixed_write(const struct mixed *mixed)
{
    enum { MOST = 120 };
    const char *path = testing_temporary("mixed.gguf");
    locus_error error = {0};
    struct locus_checkpoint_writer *writer = locus_writer_create(&error);
    float *values[MOST];
    int n = 0;
    write_keys(writer, mixed);
    for (int l = -1; l < MIXED_LAYERS; l++)
        for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
            const struct tensor *tensor = &tensors[i];
            const int64_t dims[] = {tensor->cols, tensor->rows};
            char name[64];
            if (!has(mixed, tensor, l)) continue;
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

locus_model *mixed_open_path(const char *path)
{
    locus_error error = {0};
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model != NULL, "%s", error.message);
    return model;
}

locus_model *mixed_open(const struct mixed *mixed)
{
    return mixed_open_path(mixed_write(mixed));
}

locus_model *mixed_open_converted(const struct mixed *mixed, enum locus_tensor_type type)
{
    struct variant *variant = variant_begin(mixed_write(mixed));
    variant_convert(variant, type);
    return mixed_open_path(variant_finish(variant));
}

/* ---- sessions ------------------------------------------------------------------------------- */

int32_t mixed_tokens[MIXED_TEXT];

locus_session *mixed_session(const locus_model *model, int n_batch, int n_threads,
                             const char *kernels)
{
    const locus_session_params params = {
        .n_context = MIXED_TEXT, .n_batch = n_batch, .n_threads = n_threads, .kernels = kernels};
    locus_error error = {0};
    locus_session *session = locus_session_create(model, &params, &error);
    ck_assert_msg(session != NULL, "%s", error.message);
    for (int i = 0; i < MIXED_TEXT; i++)
        mixed_tokens[i] = tiny_token(i);
    return session;
}

void mixed_eval(locus_session *session, int first, int end, int step, float *logits)
{
    locus_error error = {0};
    for (int i = first; i < end; i += step) {
        const int n = end - i < step ? end - i : step;
        const enum locus_status status = locus_session_eval(
            session, mixed_tokens + i, n, logits + (size_t)i * MIXED_VOCAB, n, &error);
        ck_assert_msg(status == LOCUS_OK, "%s", error.message);
    }
}

float *mixed_logits(const locus_model *model, int n_batch, int step, int n_threads,
                    const char *kernels)
{
    float *logits = calloc((size_t)MIXED_TEXT * MIXED_VOCAB, sizeof *logits);
    locus_session *session = mixed_session(model, n_batch, n_threads, kernels);
    mixed_eval(session, 0, MIXED_TEXT, step, logits);
    locus_session_free(session);
    return logits;
}

void mixed_check_same(const float *logits, const float *expected, int first, int end,
                      const char *what)
{
    for (int i = first; i < end; i++)
        ck_assert_msg(!memcmp(logits + (size_t)i * MIXED_VOCAB, expected + (size_t)i * MIXED_VOCAB,
                              MIXED_VOCAB * sizeof *logits),
                      "%s: token %d", what, i);
}

/* ---- values --------------------------------------------------------------------------------- */

void mixed_check_quantised(const locus_model *quantised, const locus_model *floats)
{
    float *whole = mixed_logits(quantised, MIXED_TEXT, MIXED_TEXT, 2, NULL);
    float *cut = mixed_logits(quantised, 7, 5, 1, NULL);
    float *exact = mixed_logits(floats, MIXED_TEXT, MIXED_TEXT, 1, NULL);
    mixed_check_same(cut, whole, 0, MIXED_TEXT, "quantised");
    for (size_t row = 0; row < MIXED_TEXT; row++)
        ck_assert_float_lt(golden_row_difference(whole + row * MIXED_VOCAB,
                                                 exact + row * MIXED_VOCAB, MIXED_VOCAB),
                           0.2f);
    free(whole);
    free(cut);
    free(exact);
}

double mixed_off_plain(const locus_model *model)
{
    locus_session *session = mixed_session(model, 100, 2, NULL);
    float *logits = calloc(MIXED_TEXT * MIXED_VOCAB, sizeof *logits);
    double *plain = calloc(MIXED_TEXT * MIXED_VOCAB, sizeof *plain), worst = 0;
    const struct reference reference = {.model = model, .positions = &session->positions};
    mixed_eval(session, 0, MIXED_TEXT, MIXED_TEXT, logits);
    reference_logits(&reference, mixed_tokens, MIXED_TEXT, plain);
    for (int i = 0; i < MIXED_TEXT; i++) {
        const double off = plain_difference(logits + (size_t)i * MIXED_VOCAB,
                                            plain + (size_t)i * MIXED_VOCAB, MIXED_VOCAB);
        worst = off > worst ? off : worst;
    }
    free(logits);
    free(plain);
    locus_session_free(session);
    return worst;
}

/* ---- refusals ------------------------------------------------------------------------------- */

void mixed_refuse_session(const locus_model *model, const locus_session_params *params,
                          enum locus_status status, const char *says)
{
    locus_error error = {0};
    ck_assert_ptr_null(locus_session_create(model, params, &error));
    ck_assert_msg(strstr(error.message, says) != NULL, "no \"%s\": %s", says, error.message);
    ck_assert_int_eq(error.status, status);
}

void mixed_refuse_file(struct variant *variant, const char *says)
{
    locus_error error = {0};
    ck_assert_ptr_null(locus_model_open(variant_finish(variant), &error));
    ck_assert_msg(strstr(error.message, says) != NULL, "no \"%s\": %s", says, error.message);
}

void mixed_refuse_changed(const struct mixed *mixed, const char *key, int value, const char *says)
{
    struct variant *variant = variant_begin(mixed_write(mixed));
    variant_drop(variant, key);
    if (value >= 0) locus_writer_u32(variant_writer(variant), key, (uint32_t)value);
    mixed_refuse_file(variant, says);
}
