/* locus inspect: one screen of text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands/inspect.h"
#include "cli/kit/log.h"
#include "cli/kit/page.h"
#include "position/spec.h"

/* "1,234,567" */
static const char *with_commas(int64_t number, char text[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRId64, number), used = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-') text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

static void append_token(struct locus_buffer *out, const char *label, int32_t token)
{
    locus_buffer_printf(out, token < 0 ? ", %s none" : ", %s %d", label, (int)token);
}

static void describe_check(const struct inspection *inspection, struct locus_buffer *out)
{
    const size_t n_tensors = locus_checkpoint_n_tensors(inspection->checkpoint);
    int64_t sum = 0;
    char number[32];
    for (size_t i = 0; i < n_tensors; i++)
        sum += inspect_n_values(locus_checkpoint_tensor_at(inspection->checkpoint, i));
    locus_buffer_printf(out, "checked          all %s values of %zu tensor%s are numbers\n",
                        with_commas(sum, number), n_tensors, locus_plural((int64_t)n_tensors));
}

static void describe_file(const struct inspection *inspection, struct locus_buffer *out)
{
    const locus_model_info *info = &inspection->info;
    const size_t n_tensors = locus_checkpoint_n_tensors(inspection->checkpoint);
    const size_t n_keys = locus_checkpoint_n_keys(inspection->checkpoint);
    char number[32], bytes[32];
    locus_buffer_printf(out, "file             ");
    locus_text_append(out, inspection->path);
    locus_buffer_printf(
        out, "\ncontainer        GGUF version %d, %s bytes, %zu tensor%s, %zu metadata key%s\n",
        locus_checkpoint_version(inspection->checkpoint),
        with_commas((int64_t)locus_checkpoint_file(inspection->checkpoint)->size, bytes), n_tensors,
        locus_plural((int64_t)n_tensors), n_keys, locus_plural((int64_t)n_keys));
    if (info->name && *info->name) {
        locus_buffer_printf(out, "name             ");
        locus_text_append(out, info->name);
        locus_buffer_append(out, "\n", 1);
    }
    locus_buffer_printf(out, "family           %s\n", info->family);
    locus_buffer_printf(out, "parameters       %s\n", with_commas(info->n_parameters, number));
    struct inspect_type_sum sums[INSPECT_MAX_TYPES];
    int n_types = inspect_sum_types(inspection->checkpoint, sums);
    for (int i = 0; i < n_types; i++)
        locus_buffer_printf(out, "%-16s %s: %" PRId64 " tensor%s, %s values, %s bytes\n",
                            i ? "" : "types", sums[i].name, sums[i].tensors,
                            locus_plural(sums[i].tensors), with_commas(sums[i].values, number),
                            with_commas(sums[i].bytes, bytes));
    if (inspection->options->check) describe_check(inspection, out);
}

const char *inspect_norm(enum locus_norm_kind norm)
{
    static const char *const words[] = {
        [LOCUS_LAYERNORM] = "LayerNorm", [LOCUS_RMSNORM] = "RMSNorm"};
    return words[norm];
}

const char *inspect_norm_place(enum locus_norm_position place)
{
    static const char *const words[] = {[LOCUS_NORM_INPUT] = "before each half",
                                        [LOCUS_NORM_SUM] = "after each sum",
                                        [LOCUS_NORM_OUTPUT] = "after each half"};
    return words[place];
}

const char *inspect_activation(enum locus_activation activation)
{
    static const char *const words[] = {[LOCUS_GELU_TANH] = "GELU (tanh)",
                                        [LOCUS_GELU_ERF] = "GELU (erf)",
                                        [LOCUS_RELU] = "ReLU",
                                        [LOCUS_SILU] = "SiLU",
                                        [LOCUS_RELU_SQUARED] = "squared ReLU",
                                        [LOCUS_CLIPPED_SWISH] = "clipped swish"};
    return words[activation];
}

/* ---- layers that differ ------------------------------------------------------------------- */

/* What may differ from layer to layer. */
struct layer_kind {
    int window, spec;
    const struct locus_layer_part *mixer;
    bool experts;
};

static struct layer_kind kind_of(const struct inspection *inspection, int layer)
{
    const struct locus_layer_config *config = &inspection->model->config.layers[layer];
    return (struct layer_kind){config->window, locus_layer_specs_at(&inspection->specs, layer),
                               config->mixer, config->mlp == &locus_experts_part};
}

static bool same_kind(const struct inspection *inspection, int left, int right)
{
    const struct layer_kind a = kind_of(inspection, left), b = kind_of(inspection, right);
    return a.window == b.window && a.spec == b.spec && a.mixer == b.mixer && a.experts == b.experts;
}

/* "0-4,6-10": the layers of the kind that layer `first` has. */
static void append_layers(const struct inspection *inspection, int first, struct locus_buffer *out)
{
    const int n_layer = inspection->info.n_layer;
    const char *comma = "";
    for (int i = first, end; i < n_layer; i = end) {
        for (end = i; end < n_layer && same_kind(inspection, first, end);)
            end++;
        if (end > i) locus_buffer_printf(out, end > i + 1 ? "%s%d-%d" : "%s%d", comma, i, end - 1);
        if (end > i) comma = ",";
        end += end == i;
    }
}

static void append_window(int window, struct locus_buffer *out)
{
    locus_buffer_printf(out, window ? "window %d" : "all positions seen", window);
}

/* A line for each kind of layer, if there is more than one. */
static void describe_layers(const struct inspection *inspection, struct locus_buffer *out)
{
    const struct locus_config *config = &inspection->model->config;
    bool differ = false, specs_differ = false, mixed = false, mixers_differ = false;
    for (int i = 1; i < config->n_layer; i++) {
        const struct layer_kind first = kind_of(inspection, 0), kind = kind_of(inspection, i);
        differ |= !same_kind(inspection, 0, i);
        specs_differ |= kind.spec != first.spec;
        mixed |= kind.experts != first.experts;
        mixers_differ |= kind.mixer != first.mixer;
    }
    for (int i = 0; differ && i < config->n_layer; i++) {
        const struct layer_kind kind = kind_of(inspection, i);
        bool told = false;
        for (int earlier = 0; earlier < i; earlier++)
            told |= same_kind(inspection, earlier, i);
        if (told) continue;
        locus_buffer_printf(out, "  layers ");
        append_layers(inspection, i, out);
        locus_buffer_append(out, ": ", 2);
        const bool attends = kind.mixer == &locus_attention_part;
        if (mixers_differ) locus_buffer_printf(out, attends ? "%s, " : "%s", kind.mixer->name);
        if (attends) append_window(kind.window, out);
        if (mixed) locus_buffer_printf(out, kind.experts ? ", experts" : ", no experts");
        if (specs_differ && attends) {
            locus_buffer_append(out, ", ", 2);
            locus_position_print(&inspection->specs.specs[kind.spec], out);
        }
        locus_buffer_append(out, "\n", 1);
    }
}

/* ---- the decoder -------------------------------------------------------------------------- */

/* Without attention there is no scale, and that is usual. */
static float usual_score_scale(const struct locus_config *config)
{
    return config->head_dim ? 1 / sqrtf((float)config->head_dim) : config->attention_scale;
}

static void describe_scales(const struct locus_config *config, struct locus_buffer *out)
{
    const struct {
        const char *what;
        float value, usual;
    } scales[] = {{"embeddings", config->embedding_scale, 1},
                  {"residuals", config->residual_scale, 1},
                  {"logits", config->logit_scale, 1},
                  {"scores", config->attention_scale, usual_score_scale(config)}};
    const struct {
        const char *what;
        float value;
    } limits[] = {{"scores softly capped at", config->score_cap},
                  {"logits softly capped at", config->logit_cap},
                  {"q, k and v clipped at", config->clip_qkv}};
    const char *before = "scales           ";
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (fabsf(scales[i].value - scales[i].usual) > 1e-6f * scales[i].usual) {
            locus_buffer_printf(out, "%s%s times %.6g", before, scales[i].what,
                                (double)scales[i].value);
            before = ", ";
        }
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value > 0) {
            locus_buffer_printf(out, "%s%s %.6g", before, limits[i].what, (double)limits[i].value);
            before = ", ";
        }
    if (*before == ',') locus_buffer_append(out, "\n", 1);
}

static void describe_attention(const struct inspection *inspection, int layer,
                               struct locus_buffer *out)
{
    const locus_model_info *info = &inspection->info;
    const struct locus_config *config = &inspection->model->config;
    const struct locus_attention_weights *attention = inspection->model->layers[layer].mixer;
    locus_buffer_printf(out, "attention        %d head%s of width %d, %d key and value head%s%s%s",
                        info->n_head, locus_plural(info->n_head), info->head_dim, info->n_head_kv,
                        locus_plural(info->n_head_kv),
                        attention->q_norm.weights.weight ? ", q and k normed" : "",
                        attention->sinks ? ", a sink a head" : "");
    bool same = true;
    for (int i = 1; i < config->n_layer; i++)
        same &= config->layers[i].window == config->layers[0].window;
    if (same && config->layers[0].window) {
        locus_buffer_append(out, ", ", 2);
        append_window(config->layers[0].window, out);
    }
    locus_buffer_append(out, "\n", 1);
}

static void describe_scan(const struct inspection *inspection, int layer, struct locus_buffer *out)
{
    const struct locus_ssm_config *ssm = &inspection->model->config.ssm;
    const struct locus_mamba_weights *weights = inspection->model->layers[layer].mixer;
    locus_buffer_printf(
        out, "mamba            %d channels of %d states, convolution over %d, rank %d%s\n",
        ssm->n_inner, ssm->n_state, ssm->n_conv, ssm->rank,
        weights->low_norm.weight ? ", steps normed" : "");
}

static void describe_heads(const struct inspection *inspection, int layer, struct locus_buffer *out)
{
    const struct locus_ssm_config *ssm = &inspection->model->config.ssm;
    (void)layer;
    locus_buffer_printf(out,
                        "mamba2           %d head%s of %d channels of %d states, %d group%s, "
                        "convolution over %d\n",
                        ssm->n_head, locus_plural(ssm->n_head), ssm->n_inner / ssm->n_head,
                        ssm->n_state, ssm->n_group, locus_plural(ssm->n_group), ssm->n_conv);
}

static void describe_retention(const struct inspection *inspection, int layer,
                               struct locus_buffer *out)
{
    const struct locus_retention_config *retention = &inspection->model->config.retention;
    (void)layer;
    locus_buffer_printf(out, "retention        %d head%s of width %d, values of %d\n",
                        retention->n_head, locus_plural(retention->n_head), retention->key_dim,
                        retention->value_dim);
}

static void describe_hyena(const struct inspection *inspection, int layer, struct locus_buffer *out)
{
    const struct locus_hyena_config *hyena = &inspection->model->config.hyena;
    (void)layer;
    locus_buffer_printf(out,
                        "hyena            convolutions over %d, and over all by a filter of length "
                        "%d: %d bands, %d layers of %d\n",
                        hyena->n_conv, hyena->length, hyena->n_band, hyena->n_layer, hyena->width);
}

/* A line for each kind of mixer that there is. */
static void describe_mixers(const struct inspection *inspection, struct locus_buffer *out)
{
    static const struct {
        const struct locus_layer_part *mixer;
        void (*describe)(const struct inspection *inspection, int layer, struct locus_buffer *out);
    } kinds[] = {{&locus_attention_part, describe_attention},
                 {&locus_mamba_part, describe_scan},
                 {&locus_mamba2_part, describe_heads},
                 {&locus_retention_part, describe_retention},
                 {&locus_hyena_part, describe_hyena}};
    const struct locus_config *config = &inspection->model->config;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int layer = 0;
        while (layer < config->n_layer && config->layers[layer].mixer != kinds[k].mixer)
            layer++;
        if (layer < config->n_layer) kinds[k].describe(inspection, layer, out);
    }
}

static void describe_decoder(const struct inspection *inspection, struct locus_buffer *out)
{
    const locus_model_info *info = &inspection->info;
    const struct locus_config *config = &inspection->model->config;
    const struct locus_layer *layer = inspection->model->layers;
    const bool before = config->norm_position == LOCUS_NORM_INPUT;
    locus_buffer_printf(out, "layers           %d of width %d, %s %s%s\n", info->n_layer,
                        info->n_embd, inspect_norm(config->norm),
                        before && layer->attn_post_norm.weight
                            ? "before and after each half"
                            : inspect_norm_place(config->norm_position),
                        config->parallel_residual ? ", attention and MLP in parallel" : "");
    describe_layers(inspection, out);
    describe_mixers(inspection, out);
    if (config->n_ff > 0)
        locus_buffer_printf(out, "MLP              width %d, %s%s\n", info->n_ff,
                            inspect_activation(config->activation), config->gated ? ", gated" : "");
    if (config->n_expert > 0)
        locus_buffer_printf(out, "experts          %d of width %d, %d a token%s\n",
                            config->n_expert, config->n_ff_expert, config->n_expert_used,
                            config->n_ff_shared ? " and a shared one" : "");
    describe_scales(config, out);
    locus_buffer_printf(out, "output           %d logits, %s\n", info->n_vocab,
                        inspection->model->head.weight.panels ? "a matrix of its own"
                                                              : "the token embedding's matrix");
}

static void describe_text(const struct inspection *inspection, struct locus_buffer *out)
{
    const locus_model_info *info = &inspection->info;
    if (inspection->tokenizer) {
        locus_buffer_printf(out, "tokenizer        %s, %d tokens",
                            locus_tokenizer_kind(inspection->tokenizer), info->n_tokens);
        append_token(out, "begin-of-text", info->bos_token);
        append_token(out, "end-of-text", info->eos_token);
        for (int32_t id = 0; id < info->n_vocab; id++)
            if (id != info->eos_token && locus_model_is_end(inspection->model, id))
                locus_buffer_printf(out, ", also %d", (int)id);
        locus_buffer_append(out, "\n", 1);
    } else
        locus_buffer_printf(out, "tokenizer        none\n");
    const char *template;
    size_t n_bytes;
    if (locus_checkpoint_string(inspection->checkpoint, "tokenizer.chat_template", &template,
                                &n_bytes))
        locus_buffer_printf(out, "chat template    %zu bytes, which locus doesn't run\n", n_bytes);
    locus_buffer_printf(out, "trained length   %d\n", info->trained_length);
    locus_buffer_printf(out, "position         %s\n", inspection->position.bytes);
}

static void describe_tensors(const struct inspection *inspection, struct locus_buffer *out)
{
    enum { NAME = 34 };
    locus_buffer_printf(out, "\n%-*s  %-6s  %-18s  %s\n", NAME, "tensor", "type", "shape", "bytes");
    for (size_t i = 0; i < locus_checkpoint_n_tensors(inspection->checkpoint); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(inspection->checkpoint, i);
        char shape[96];
        size_t used = 0;
        for (int d = tensor->n_dims - 1; d >= 0; d--)
            used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRId64,
                                     used ? ", " : "[", tensor->dims[d]);
        snprintf(shape + used, sizeof shape - used, "]");
        size_t start = out->length;
        locus_text_append(out, tensor->name);
        int length = (int)(out->length - start);
        locus_buffer_printf(out, "%*s  %-6s  %-18s  %zu\n", length < NAME ? NAME - length : 0, "",
                            locus_tensor_type_find((uint32_t)tensor->type)->name, shape,
                            tensor->n_bytes);
    }
}

int inspect_print_text(const struct inspection *inspection)
{
    struct locus_buffer out = {0};
    describe_file(inspection, &out);
    describe_decoder(inspection, &out);
    describe_text(inspection, &out);
    if (inspection->options->tensors) describe_tensors(inspection, &out);
    locus_page_fold(&out, 0, locus_page_columns(STDOUT_FILENO));
    return locus_stdout_finish(&out);
}
