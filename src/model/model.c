/* The model: opened, described, closed. See model.h. */
#include "model/model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A token id of the metadata: absent ones give -1. */
static enum locus_status read_token(const struct locus_model *model, const char *key,
                                    int32_t *token, locus_error *error)
{
    int64_t found = -1;
    *token = -1;
    if (!locus_checkpoint_has(model->checkpoint, key)) return LOCUS_OK;
    if (!locus_checkpoint_int(model->checkpoint, key, &found))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not a whole number",
                          locus_checkpoint_path(model->checkpoint), key);
    if (found < 0 || found >= model->config.n_vocab)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is %lld, expected 0 to %d",
                          locus_checkpoint_path(model->checkpoint), key, (long long)found,
                          model->config.n_vocab - 1);
    *token = (int32_t)found;
    return LOCUS_OK;
}

/* <family>.vocab_size: the embedding's rows, or fewer, where the last ones only round their number
 * up; but no fewer than the tokens that have names. Absent, *size stays. */
static enum locus_status read_vocab_size(const struct locus_model *model, int n_named, int *size,
                                         locus_error *error)
{
    const struct locus_checkpoint *checkpoint = model->checkpoint;
    const char *path = locus_checkpoint_path(checkpoint);
    const int n_rows = model->config.n_vocab;
    char key[64];
    int64_t found;
    snprintf(key, sizeof key, "%s.vocab_size", model->architecture->name);
    if (!locus_checkpoint_has(checkpoint, key)) return LOCUS_OK;
    if (!locus_checkpoint_int(checkpoint, key, &found))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not a whole number", path, key);
    if (found < n_named || found > n_rows)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: %s is %lld, expected %d%s to %d (the rows of token_embd.weight)",
                          path, key, (long long)found, n_named,
                          n_named > 1 ? " (the tokens of tokenizer.ggml.tokens)" : "", n_rows);
    *size = (int)found;
    return LOCUS_OK;
}

/* Ids that mean something: the tokenizer's, less a run of unused ones (type 5) at the end. */
static enum locus_status count_tokens(struct locus_model *model, locus_error *error)
{
    enum { UNUSED = 5 };
    enum locus_value_type type;
    size_t count, n_types;
    const struct locus_checkpoint *checkpoint = model->checkpoint;
    model->n_tokens = model->config.n_vocab;
    if (!locus_checkpoint_array(checkpoint, "tokenizer.ggml.tokens", &type, &count))
        return read_vocab_size(model, 1, &model->n_tokens, error);
    if (count == 0 || count > (size_t)model->config.n_vocab)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: tokenizer.ggml.tokens has %zu entries, expected 1 to %d (the rows "
                          "of token_embd.weight)",
                          locus_checkpoint_path(checkpoint), count, model->config.n_vocab);
    enum locus_status status = read_vocab_size(model, (int)count, &model->n_tokens, error);
    if (status) return status;
    model->n_tokens = (int)count;
    if (!locus_checkpoint_array(checkpoint, "tokenizer.ggml.token_type", &type, &n_types) ||
        n_types != count)
        return LOCUS_OK;
    double *types = malloc(count * sizeof *types);
    if (!types) return locus_fail_memory(error, count * sizeof *types);
    if (locus_checkpoint_array_numbers(checkpoint, "tokenizer.ggml.token_type", types))
        while (model->n_tokens > 1 && types[model->n_tokens - 1] == UNUSED)
            model->n_tokens--;
    free(types);
    return LOCUS_OK;
}

static bool is_whole(enum locus_value_type type)
{
    return type <= LOCUS_VALUE_I32 || type == LOCUS_VALUE_U64 || type == LOCUS_VALUE_I64;
}

/* A list of further tokens that end a text; absent or empty, it adds none. */
static enum locus_status read_end_list(struct locus_model *model, locus_error *error)
{
    static const char key[] = "locus.end_token_ids";
    const struct locus_checkpoint *checkpoint = model->checkpoint;
    const char *path = locus_checkpoint_path(checkpoint);
    enum locus_value_type type;
    size_t count;
    enum locus_status status = LOCUS_OK;
    if (!locus_checkpoint_has(checkpoint, key)) return LOCUS_OK;
    if (!locus_checkpoint_array(checkpoint, key, &type, &count) || !is_whole(type))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not an array of whole numbers",
                          path, key);
    double *ids = malloc((count + 1) * sizeof *ids);
    if (!ids) return locus_fail_memory(error, (count + 1) * sizeof *ids);
    (void)locus_checkpoint_array_numbers(checkpoint, key, ids);
    for (size_t i = 0; i < count && !status; i++) {
        if (ids[i] < 0 || ids[i] >= model->config.n_vocab)
            status = locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s[%zu] is %.0f, expected 0 to %d",
                                path, key, i, ids[i], model->config.n_vocab - 1);
        else
            model->ends[(size_t)ids[i]] = true;
    }
    free(ids);
    return status;
}

static enum locus_status read_ends(struct locus_model *model, locus_error *error)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const size_t n_vocab = (size_t)model->config.n_vocab;
    model->ends = calloc(n_vocab, sizeof *model->ends);
    if (!model->ends) return locus_fail_memory(error, n_vocab * sizeof *model->ends);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int32_t token;
        enum locus_status status = read_token(model, keys[i], &token, error);
        if (status) return status;
        if (token >= 0) model->ends[token] = true;
        if (i == 0) model->eos_token = token;
    }
    return read_end_list(model, error);
}

static enum locus_status read_vocabulary(struct locus_model *model, locus_error *error)
{
    enum locus_status status;
    if ((status = count_tokens(model, error)) ||
        (status = read_token(model, "tokenizer.ggml.bos_token_id", &model->bos_token, error)))
        return status;
    return read_ends(model, error);
}

static void read_name(struct locus_model *model)
{
    const char *name;
    size_t n_bytes;
    if (!locus_checkpoint_string(model->checkpoint, "general.name", &name, &n_bytes)) return;
    if (n_bytes >= sizeof model->name) n_bytes = sizeof model->name - 1;
    memcpy(model->name, name, n_bytes);
}

static enum locus_status open_model(struct locus_model *model, const char *path, locus_error *error)
{
    enum locus_status status;
    if (!(model->checkpoint = locus_checkpoint_open(path, error))) return LOCUS_ERROR_FORMAT;
    if ((status = locus_model_check_kind(model->checkpoint, error))) return status;
    model->architecture = locus_architecture_find(model->checkpoint, error);
    if (!model->architecture) return LOCUS_ERROR_UNSUPPORTED;
    if ((status =
             locus_config_read(&model->config, model->architecture, model->checkpoint, error)) ||
        (status = locus_model_load_weights(model, error)) ||
        (status = read_vocabulary(model, error)))
        return status;
    read_name(model);
    return LOCUS_OK;
}

locus_model *locus_model_open(const char *path, locus_error *error)
{
    if (!path) {
        locus_fail(error, LOCUS_ERROR_ARGUMENT, "no path of a checkpoint was given");
        return NULL;
    }
    struct locus_model *model = calloc(1, sizeof *model);
    if (!model) {
        locus_fail_memory(error, sizeof *model);
        return NULL;
    }
    if (open_model(model, path, error)) {
        locus_model_free(model);
        return NULL;
    }
    return model;
}

void locus_model_free(locus_model *model)
{
    if (!model) return;
    locus_model_free_weights(model);
    locus_checkpoint_free(model->checkpoint);
    free(model->config.layers);
    free(model->ends);
    free(model);
}

const struct locus_checkpoint *locus_model_checkpoint(const locus_model *model)
{
    return model->checkpoint;
}

static int64_t n_values(const struct locus_tensor *tensor)
{
    return tensor->dims[0] * tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
}

/* The type that most of the file's values have. */
static const char *main_type(const struct locus_model *model, int64_t *n_parameters)
{
    const struct locus_tensor_type_info *info;
    const char *name = NULL;
    int64_t most = -1;
    *n_parameters = 0;
    for (size_t t = 0; (info = locus_tensor_type_at(t)); t++) {
        int64_t n = 0;
        for (size_t i = 0; i < locus_checkpoint_n_tensors(model->checkpoint); i++) {
            const struct locus_tensor *tensor = locus_checkpoint_tensor_at(model->checkpoint, i);
            if (tensor->type == info->type) n += n_values(tensor);
        }
        *n_parameters += n;
        if (n > most) name = info->name, most = n;
    }
    return name;
}

locus_model_info locus_model_info_get(const locus_model *model)
{
    const struct locus_config *config = &model->config;
    locus_model_info info = {
        .name = model->name,
        .family = model->architecture->name,
        .position = config->position,
        .n_vocab = config->n_vocab,
        .n_tokens = model->n_tokens,
        .n_embd = config->n_embd,
        .n_layer = config->n_layer,
        .n_head = config->n_head,
        .n_head_kv = config->n_head_kv,
        .head_dim = config->head_dim,
        .n_ff = config->n_ff,
        .trained_length = config->trained_length,
        .bos_token = model->bos_token >= 0 ? model->bos_token : model->eos_token,
        .eos_token = model->eos_token,
    };
    info.weight_type = main_type(model, &info.n_parameters);
    return info;
}

bool locus_model_is_end(const locus_model *model, int32_t token)
{
    return token >= 0 && token < model->config.n_vocab && model->ends[token];
}

const float *locus_model_extra(const void *source, const char *name, int *rows, int *cols)
{
    const struct locus_extra_tensor *extra = locus_model_find_extra(source, name);
    if (!extra) return NULL;
    *rows = extra->rows;
    *cols = extra->cols;
    return extra->values;
}
