/* Families: one table row each, and the reading of a configuration from metadata. See model.h. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/model.h"

/* ---- the table ---------------------------------------------------------------------------- */

static const struct locus_architecture table[] = {
    {
        .name = "gpt2",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_GELU_TANH},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = locus_family_learned,
    },
    {
        /* q and k rows are permuted so that adjacent pairs rotate. */
        .name = "llama",
        .defaults = {.norm = LOCUS_RMSNORM, .activation = LOCUS_SILU, .gated = true},
        .epsilon_key = "attention.layer_norm_rms_epsilon",
        .position = locus_family_rope_adjacent,
    },
    {
        .name = "gptneox",
        .defaults = {.norm = LOCUS_LAYERNORM,
                     .activation = LOCUS_GELU_ERF,
                     .parallel_residual = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = locus_family_rope_half,
    },
    {
        .name = "bloom",
        .defaults = {.norm = LOCUS_LAYERNORM,
                     .activation = LOCUS_GELU_TANH,
                     .embedding_norm = true},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = locus_family_alibi,
    },
    {
        .name = "mpt",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_GELU_ERF},
        .epsilon_key = "attention.layer_norm_epsilon",
        .position = locus_family_alibi_or_learned,
    },
    {
        .name = "locus",
        .defaults = {.norm = LOCUS_LAYERNORM, .activation = LOCUS_GELU_TANH},
        .epsilon_key = "norm_epsilon",
        .spelled_out = true,
        .position = locus_family_none,
    },
};

enum { N_ARCHITECTURES = sizeof table / sizeof *table };

const struct locus_architecture *locus_architecture_find(const struct locus_checkpoint *checkpoint,
                                                         locus_error *error)
{
    const char *name;
    size_t n_bytes;
    const char *path = locus_checkpoint_path(checkpoint);
    if (!locus_checkpoint_string(checkpoint, "general.architecture", &name, &n_bytes)) {
        locus_fail(error, LOCUS_ERROR_FORMAT, "%s: general.architecture is missing", path);
        return NULL;
    }
    char known[128] = "";
    size_t length = 0;
    for (int i = 0; i < N_ARCHITECTURES; i++) {
        if (locus_text_is(name, n_bytes, table[i].name)) return &table[i];
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "",
                                   table[i].name);
    }
    locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
               "%s: general.architecture is \"%.*s\", expected one of %s", path,
               (int)(n_bytes < 40 ? n_bytes : 40), name, known);
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------------ */

struct reader {
    const struct locus_checkpoint *checkpoint;
    const char *family;
    locus_error *error;
    char key[96];
};

static const char *full_key(struct reader *reader, const char *key)
{
    snprintf(reader->key, sizeof reader->key, "%s.%s", reader->family, key);
    return reader->key;
}

/* An integer of [min, max]; absent keys keep *value. */
static enum locus_status read_int(struct reader *reader, const char *key, int min, int max,
                                  int *value)
{
    int64_t found;
    full_key(reader, key);
    if (!locus_checkpoint_has(reader->checkpoint, reader->key)) return LOCUS_OK;
    if (!locus_checkpoint_int(reader->checkpoint, reader->key, &found))
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT, "%s: %s is not a whole number",
                          locus_checkpoint_path(reader->checkpoint), reader->key);
    if (found < min || found > max)
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT, "%s: %s is %lld, expected %d to %d",
                          locus_checkpoint_path(reader->checkpoint), reader->key, (long long)found,
                          min, max);
    *value = (int)found;
    return LOCUS_OK;
}

static enum locus_status read_needed_int(struct reader *reader, const char *key, int max,
                                         int *value)
{
    if (!locus_checkpoint_has(reader->checkpoint, full_key(reader, key)))
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT, "%s: %s is missing",
                          locus_checkpoint_path(reader->checkpoint), reader->key);
    return read_int(reader, key, 1, max, value);
}

/* A number from min to 1e30; absent keys keep *value. */
static enum locus_status read_float(struct reader *reader, const char *key, double min,
                                    float *value)
{
    double found;
    full_key(reader, key);
    if (!locus_checkpoint_has(reader->checkpoint, reader->key)) return LOCUS_OK;
    if (!locus_checkpoint_float(reader->checkpoint, reader->key, &found))
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT, "%s: %s is not a number",
                          locus_checkpoint_path(reader->checkpoint), reader->key);
    if (!(found >= min && found <= 1e30))
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT,
                          "%s: %s is %g, expected a number from %g to 1e+30",
                          locus_checkpoint_path(reader->checkpoint), reader->key, found, min);
    *value = (float)found;
    return LOCUS_OK;
}

static enum locus_status read_bool(struct reader *reader, const char *key, bool *value)
{
    full_key(reader, key);
    if (locus_checkpoint_has(reader->checkpoint, reader->key) &&
        !locus_checkpoint_bool(reader->checkpoint, reader->key, value))
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT, "%s: %s is not a true or false",
                          locus_checkpoint_path(reader->checkpoint), reader->key);
    return LOCUS_OK;
}

/* One of n_names words; its index becomes *value. Absent keys keep *value. */
static enum locus_status read_choice(struct reader *reader, const char *key,
                                     const char *const *names, int n_names, int *value)
{
    const char *found;
    size_t n_bytes;
    full_key(reader, key);
    if (!locus_checkpoint_has(reader->checkpoint, reader->key)) return LOCUS_OK;
    char known[96] = "";
    size_t length = 0;
    if (!locus_checkpoint_string(reader->checkpoint, reader->key, &found, &n_bytes))
        found = "", n_bytes = 0;
    for (int i = 0; i < n_names; i++) {
        if (locus_text_is(found, n_bytes, names[i])) {
            *value = i;
            return LOCUS_OK;
        }
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "",
                                   names[i]);
    }
    return locus_fail(reader->error, LOCUS_ERROR_FORMAT, "%s: %s is \"%.*s\", expected one of %s",
                      locus_checkpoint_path(reader->checkpoint), reader->key,
                      (int)(n_bytes < 40 ? n_bytes : 40), found, known);
}

static enum locus_status read_position(struct reader *reader, struct locus_config *config,
                                       const struct locus_architecture *architecture)
{
    const char *spec;
    size_t n_bytes;
    if (!locus_checkpoint_has(reader->checkpoint, "locus.position"))
        return architecture->position(reader->checkpoint, reader->family, config, reader->error);
    if (!locus_checkpoint_string(reader->checkpoint, "locus.position", &spec, &n_bytes) ||
        n_bytes >= sizeof config->position || memchr(spec, '\0', n_bytes))
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT,
                          "%s: locus.position is not a text of at most %zu bytes",
                          locus_checkpoint_path(reader->checkpoint), sizeof config->position - 1);
    memcpy(config->position, spec, n_bytes);
    config->position[n_bytes] = '\0';
    return LOCUS_OK;
}

/* What only the generic family spells out. */
static enum locus_status read_spelled_out(struct reader *reader, struct locus_config *config)
{
    static const char *const norms[] = {"layernorm", "rmsnorm"};
    static const char *const places[] = {"pre", "post"};
    static const char *const activations[] = {"gelu_tanh", "gelu_erf", "relu", "silu"};
    int norm = (int)config->norm, place = (int)config->norm_position;
    int activation = (int)config->activation;
    enum locus_status status;
    if ((status = read_choice(reader, "norm", norms, 2, &norm)) ||
        (status = read_choice(reader, "norm_position", places, 2, &place)) ||
        (status = read_choice(reader, "activation", activations, 4, &activation)) ||
        (status = read_bool(reader, "embedding_norm", &config->embedding_norm)) ||
        (status = read_bool(reader, "parallel_residual", &config->parallel_residual)) ||
        (status = read_bool(reader, "gated", &config->gated)) ||
        (status = read_float(reader, "embedding_scale", 0, &config->embedding_scale)) ||
        (status = read_float(reader, "attention.scale", 0, &config->attention_scale)) ||
        (status = read_float(reader, "attention.clip_qkv", 0, &config->clip_qkv)) ||
        (status = read_int(reader, "attention.window", 0, INT_MAX, &config->window)) ||
        (status = read_int(reader, "attention.window_every", 0, INT_MAX, &config->window_every)))
        return status;
    config->norm = (enum locus_norm_kind)norm;
    config->norm_position = (enum locus_norm_position)place;
    config->activation = (enum locus_activation)activation;
    if (config->norm_position == LOCUS_NORM_POST && config->parallel_residual)
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT,
                          "%s: locus.parallel_residual is true, expected false with "
                          "locus.norm_position \"post\"",
                          locus_checkpoint_path(reader->checkpoint));
    return LOCUS_OK;
}

static enum locus_status read_shape(struct reader *reader, struct locus_config *config)
{
    enum { MAX_WIDTH = 1 << 20, MAX_LAYERS = 4096, MAX_HEADS = 1 << 14 };
    enum locus_status status;
    if ((status = read_needed_int(reader, "embedding_length", MAX_WIDTH, &config->n_embd)) ||
        (status = read_needed_int(reader, "block_count", MAX_LAYERS, &config->n_layer)) ||
        (status = read_needed_int(reader, "feed_forward_length", 4 * MAX_WIDTH, &config->n_ff)) ||
        (status = read_needed_int(reader, "attention.head_count", MAX_HEADS, &config->n_head)) ||
        (status = read_needed_int(reader, "context_length", INT_MAX, &config->trained_length)))
        return status;
    config->n_head_kv = config->n_head;
    config->head_dim = config->n_embd / config->n_head;
    bool has_width =
        locus_checkpoint_has(reader->checkpoint, full_key(reader, "attention.key_length"));
    if ((status = read_int(reader, "attention.head_count_kv", 1, MAX_HEADS, &config->n_head_kv)) ||
        (status = read_int(reader, "attention.key_length", 1, MAX_WIDTH, &config->head_dim)))
        return status;
    const char *path = locus_checkpoint_path(reader->checkpoint);
    if (!has_width && config->n_embd % config->n_head)
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT,
                          "%s: %s.embedding_length %d is no multiple of the %d heads", path,
                          reader->family, config->n_embd, config->n_head);
    if ((int64_t)config->n_head * config->head_dim > 4 * MAX_WIDTH)
        return locus_fail(
            reader->error, LOCUS_ERROR_FORMAT,
            "%s: %s.attention.head_count and key_length make %d heads of %d, expected "
            "at most %d values",
            path, reader->family, config->n_head, config->head_dim, 4 * MAX_WIDTH);
    if (config->n_head % config->n_head_kv)
        return locus_fail(reader->error, LOCUS_ERROR_FORMAT,
                          "%s: %s.attention.head_count %d is no multiple of head_count_kv %d", path,
                          reader->family, config->n_head, config->n_head_kv);
    int value_length = config->head_dim;
    if ((status = read_int(reader, "attention.value_length", 1, MAX_WIDTH, &value_length)))
        return status;
    if (value_length != config->head_dim)
        return locus_fail(reader->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: %s.attention.value_length is %d, expected key_length %d", path,
                          reader->family, value_length, config->head_dim);
    return LOCUS_OK;
}

enum locus_status locus_config_read(struct locus_config *config,
                                    const struct locus_architecture *architecture,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    struct reader reader = {checkpoint, architecture->name, error, ""};
    *config = architecture->defaults;
    config->norm_epsilon = 1e-5f;
    config->embedding_scale = 1;
    enum locus_status status = read_shape(&reader, config);
    if (status) return status;
    config->attention_scale = (float)(1.0 / sqrt((double)config->head_dim));
    if ((status = read_float(&reader, architecture->epsilon_key, 0, &config->norm_epsilon)) ||
        (status = read_float(&reader, "attention.clamp_kqv", 0, &config->clip_qkv)) ||
        (status = read_bool(&reader, "use_parallel_residual", &config->parallel_residual)))
        return status;
    if (architecture->spelled_out && (status = read_spelled_out(&reader, config))) return status;
    return read_position(&reader, config, architecture);
}
