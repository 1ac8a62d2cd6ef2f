/* locus inspect: what a checkpoint is.
 *
 * The model is opened as for a run, so that a file that inspect describes is one that runs.
 */
#include "cli/commands/inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/json.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "forward/session.h"
#include "model/finite.h"

/* ---- looking ------------------------------------------------------------------------------ */

/* Makes the checkpoint's own scheme ready as a session does, for a few positions: what its tables
 * need is the same for one as for many. */
static enum locus_status try_position(const struct inspection *inspection, locus_error *error)
{
    enum { FEW = 16 };
    const struct locus_position_env env = locus_model_env(inspection->model, FEW);
    struct locus_positions positions;
    enum locus_status status =
        locus_positions_open(&positions, NULL, inspection->info.position, NULL, &env, error);
    locus_positions_close(&positions);
    return status;
}

/* The checkpoint's own SPEC with every value that it leaves to its scheme's defaults. */
static int resolve_position(struct inspection *inspection)
{
    const locus_model_info *info = &inspection->info;
    const struct locus_position_env env = locus_model_env(inspection->model, info->trained_length);
    struct locus_layer_specs *specs = &inspection->specs;
    locus_error error;
    if (locus_layer_specs_resolve(specs, NULL, info->position, NULL, &env, &error) ||
        try_position(inspection, &error))
        return locus_log_error("%s: %s", inspection->path, error.message);
    locus_layer_specs_print(specs, &inspection->position);
    return inspection->position.failed ? locus_log_error("out of memory for the position") : -1;
}

/* --check: every value of every tensor is to be a number. */
static int check_values(const struct inspection *inspection)
{
    struct locus_odd_value odd;
    locus_interrupt_watch();
    if (locus_checkpoint_find_odd(inspection->checkpoint, locus_interrupted, &odd))
        return locus_log_error(
            "%s: %s holds %f in row %" PRId64 ", column %" PRId64 ", expected numbers",
            inspection->path, odd.tensor, (double)odd.value, odd.row, odd.column);
    return locus_interrupted() ? LOCUS_EXIT_INTERRUPTED : -1;
}

static int look(struct inspection *inspection)
{
    int status = LOCUS_EXIT_FAILED;
    locus_error error;
    if (!(inspection->path = locus_model_file(&inspection->options->common, &status)))
        return status;
    if (!(inspection->model = locus_model_open(inspection->path, &error)))
        return locus_log_error("%s", error.message);
    if (locus_model_check_extras(inspection->model, NULL, &error))
        return locus_log_error("%s", error.message);
    inspection->checkpoint = locus_model_checkpoint(inspection->model);
    inspection->info = locus_model_info_get(inspection->model);
    if (locus_checkpoint_has(inspection->checkpoint, "tokenizer.ggml.model") &&
        !(inspection->tokenizer = locus_tokenizer_create(inspection->model, &error)))
        return locus_log_error("%s", error.message);
    if (inspection->tokenizer)
        locus_model_file_note(inspection->path, locus_tokenizer_assumed(inspection->tokenizer),
                              inspection->options->common.quiet);
    if ((status = resolve_position(inspection)) < 0 && inspection->options->check)
        status = check_values(inspection);
    return status;
}

int64_t inspect_n_values(const struct locus_tensor *tensor)
{
    return tensor->dims[0] * tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
}

static const char *type_name(const struct locus_tensor *tensor)
{
    return locus_tensor_type_find((uint32_t)tensor->type)->name;
}

int inspect_sum_types(const struct locus_checkpoint *checkpoint,
                      struct inspect_type_sum sums[INSPECT_MAX_TYPES])
{
    int n = 0;
    for (size_t i = 0; i < locus_checkpoint_n_tensors(checkpoint); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(checkpoint, i);
        const char *name = type_name(tensor);
        int at = 0;
        while (at < n && strcmp(sums[at].name, name) != 0)
            at++;
        if (at == INSPECT_MAX_TYPES) continue;
        if (at == n) sums[n++] = (struct inspect_type_sum){.name = name};
        sums[at].tensors++;
        sums[at].values += inspect_n_values(tensor);
        sums[at].bytes += (int64_t)tensor->n_bytes;
    }
    return n;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void add_types(struct locus_json *json, const struct inspection *inspection)
{
    struct inspect_type_sum sums[INSPECT_MAX_TYPES];
    int n_types = inspect_sum_types(inspection->checkpoint, sums);
    locus_json_open(json, "types", '[');
    for (int i = 0; i < n_types; i++) {
        locus_json_open(json, NULL, '{');
        locus_json_text(json, "type", sums[i].name);
        locus_json_int(json, "tensors", sums[i].tensors);
        locus_json_int(json, "values", sums[i].values);
        locus_json_int(json, "bytes", sums[i].bytes);
        locus_json_close(json, '}');
    }
    locus_json_close(json, ']');
}

static void add_sizes(struct locus_json *json, const struct inspection *inspection)
{
    static const char *const norms[] = {
        [LOCUS_LAYERNORM] = "layernorm", [LOCUS_RMSNORM] = "rmsnorm"};
    static const char *const norm_places[] = {
        [LOCUS_NORM_INPUT] = "pre", [LOCUS_NORM_SUM] = "post", [LOCUS_NORM_OUTPUT] = "output"};
    static const char *const activations[] = {[LOCUS_GELU_TANH] = "gelu_tanh",
                                              [LOCUS_GELU_ERF] = "gelu_erf",
                                              [LOCUS_RELU] = "relu",
                                              [LOCUS_SILU] = "silu",
                                              [LOCUS_RELU_SQUARED] = "relu_squared",
                                              [LOCUS_CLIPPED_SWISH] = "clipped_swish"};
    const locus_model_info *info = &inspection->info;
    const struct locus_config *config = &inspection->model->config;
    const struct {
        const char *key;
        int value;
    } sizes[] = {
        {"n_vocab", info->n_vocab},     {"n_tokens", info->n_tokens},
        {"n_embd", info->n_embd},       {"n_layer", info->n_layer},
        {"n_head", info->n_head},       {"n_head_kv", info->n_head_kv},
        {"head_dim", info->head_dim},   {"n_ff", info->n_ff},
        {"n_expert", config->n_expert}, {"n_expert_used", config->n_expert_used},
        {"bos_token", info->bos_token}, {"eos_token", info->eos_token},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        locus_json_int(json, sizes[i].key, sizes[i].value);
    locus_json_open(json, "end_tokens", '[');
    for (int32_t id = 0; id < info->n_vocab; id++)
        if (locus_model_is_end(inspection->model, id)) locus_json_int(json, NULL, id);
    locus_json_close(json, ']');
    locus_json_text(json, "norm", norms[config->norm]);
    locus_json_text(json, "norm_position", norm_places[config->norm_position]);
    locus_json_open(json, "mixers", '[');
    for (int i = 0; i < config->n_layer; i++)
        locus_json_text(json, NULL, config->layers[i].mixer->name);
    locus_json_close(json, ']');
    locus_json_open(json, "windows", '[');
    for (int i = 0; i < config->n_layer; i++)
        locus_json_int(json, NULL, config->layers[i].window);
    locus_json_close(json, ']');
    locus_json_open(json, "positions", '[');
    for (int i = 0; i < config->n_layer; i++) {
        struct locus_buffer spec = {0};
        locus_position_print(&inspection->specs.specs[locus_layer_specs_at(&inspection->specs, i)],
                             &spec);
        locus_json_text(json, NULL, spec.failed ? "" : spec.bytes);
        locus_buffer_free(&spec);
    }
    locus_json_close(json, ']');
    locus_json_text(json, "activation", activations[config->activation]);
    locus_json_bool(json, "gated", config->gated);
    locus_json_bool(json, "parallel_residual", config->parallel_residual);
    locus_json_bool(json, "tied_head", !inspection->model->head.weight.panels);
}

static void add_tensors(struct locus_json *json, const struct inspection *inspection)
{
    locus_json_open(json, "tensors", '[');
    for (size_t i = 0; i < locus_checkpoint_n_tensors(inspection->checkpoint); i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor_at(inspection->checkpoint, i);
        locus_json_open(json, NULL, '{');
        locus_json_text(json, "name", tensor->name);
        locus_json_text(json, "type", type_name(tensor));
        locus_json_open(json, "shape", '[');
        for (int d = tensor->n_dims - 1; d >= 0; d--)
            locus_json_int(json, NULL, tensor->dims[d]);
        locus_json_close(json, ']');
        locus_json_unsigned(json, "bytes", tensor->n_bytes);
        locus_json_close(json, '}');
    }
    locus_json_close(json, ']');
}

static int print_json(const struct inspection *inspection)
{
    const locus_model_info *info = &inspection->info;
    struct locus_buffer out = {0};
    struct locus_json json = {.out = &out};
    locus_json_open(&json, NULL, '{');
    locus_json_text(&json, "file", inspection->path);
    locus_json_unsigned(&json, "bytes", locus_checkpoint_file(inspection->checkpoint)->size);
    locus_json_int(&json, "gguf_version", locus_checkpoint_version(inspection->checkpoint));
    locus_json_text(&json, "name", info->name);
    locus_json_text(&json, "family", info->family);
    locus_json_int(&json, "parameters", info->n_parameters);
    locus_json_text(&json, "weight_type", info->weight_type);
    add_types(&json, inspection);
    add_sizes(&json, inspection);
    locus_json_text(&json, "tokenizer",
                    inspection->tokenizer ? locus_tokenizer_kind(inspection->tokenizer) : "none");
    locus_json_bool(&json, "chat_template",
                    locus_checkpoint_has(inspection->checkpoint, "tokenizer.chat_template"));
    locus_json_int(&json, "trained_length", info->trained_length);
    locus_json_text(&json, "position", inspection->position.bytes);
    if (inspection->options->check) locus_json_bool(&json, "finite", true);
    if (inspection->options->tensors) add_tensors(&json, inspection);
    locus_json_close(&json, '}');
    locus_buffer_append(&out, "\n", 1);
    return locus_stdout_finish(&out);
}

/* ---- command ------------------------------------------------------------------------------ */

/* What is about one file doesn't go with a list of what there may be. */
static int check_families(const struct inspect_options *options)
{
    const char *other = options->common.model ? "-m (--model)"
                        : options->tensors    ? "--tensors"
                        : options->check      ? "--check"
                                              : NULL;
    return other ? locus_log_usage("inspect", "--families is about no file: %s doesn't go with it",
                                   other)
                 : -1;
}

static int inspect(void *values, int n_operands, char **operands)
{
    (void)n_operands, (void)operands;
    struct inspection inspection = {.options = values};
    int status = -1;
    if (inspection.options->families) {
        status = check_families(inspection.options);
        return status < 0 ? inspect_print_families(inspection.options->json) : status;
    }
    status = look(&inspection);
    if (status < 0 && inspection.model)
        status =
            inspection.options->json ? print_json(&inspection) : inspect_print_text(&inspection);
    locus_tokenizer_free(inspection.tokenizer);
    locus_model_free(inspection.model);
    locus_buffer_free(&inspection.position);
    free(inspection.path);
    return status;
}

static const struct locus_option table[] = {
    {.name = "tensors",
     .type = LOCUS_OPTION_FLAG,
     .offset = offsetof(struct inspect_options, tensors),
     .help = "list every tensor: type, shape [rows, cols], bytes"},
    {.name = "check",
     .type = LOCUS_OPTION_FLAG,
     .offset = offsetof(struct inspect_options, check),
     .help = "read every tensor, and fail if a value is not a number or infinite"},
    {.name = "families",
     .type = LOCUS_OPTION_FLAG,
     .offset = offsetof(struct inspect_options, families),
     .help = "list the families of checkpoints that are known, and what is special of each"},
    {.name = "json",
     .type = LOCUS_OPTION_FLAG,
     .offset = offsetof(struct inspect_options, json),
     .help = "one object; of families an array of them"},
    {.name = NULL},
};

const struct locus_command locus_command_inspect = {
    .name = "inspect",
    .summary = "Say what a checkpoint is: family, sizes, types, tokenizer, position scheme.",
    .usage = "[-m FILE] [--tensors] [--check] [--families] [--json]",
    .options = table,
    .values_size = sizeof(struct inspect_options),
    .run = inspect,
};
