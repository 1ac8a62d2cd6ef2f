/* A configuration, read from metadata. See model.h. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/keys.h"
#include "model/model.h"

/* locus.position, which stands for all that the family's own keys say of positions, or what those
 * keys come to. */
static enum locus_status read_position(struct locus_keys *keys, struct locus_config *config,
                                       const struct locus_architecture *architecture)
{
    const char *spec;
    size_t n_bytes;
    enum locus_status status = locus_family_position(keys, config, architecture);
    if (status || !locus_checkpoint_has(keys->checkpoint, "locus.position")) return status;
    if (!locus_checkpoint_string(keys->checkpoint, "locus.position", &spec, &n_bytes) ||
        n_bytes >= sizeof config->position || memchr(spec, '\0', n_bytes))
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                          "%s: locus.position is not a text of at most %zu bytes",
                          locus_checkpoint_path(keys->checkpoint), sizeof config->position - 1);
    memcpy(config->position, spec, n_bytes);
    config->position[n_bytes] = '\0';
    if (!strcmp(config->position, "none") || locus_config_has(config, &locus_attention_part))
        return LOCUS_OK;
    return locus_fail(keys->error, LOCUS_ERROR_UNSUPPORTED,
                      "%s: locus.position is \"%.40s\", but no layer attends to positions: "
                      "expected none",
                      locus_checkpoint_path(keys->checkpoint), config->position);
}

/* What only the generic family spells out. */
static enum locus_status read_spelled_out(struct locus_keys *keys, struct locus_config *config)
{
    static const char *const norms[] = {"layernorm", "rmsnorm"};
    static const char *const places[] = {"pre", "post", "output"};
    static const char *const activations[] = {"gelu_tanh", "gelu_erf",     "relu",
                                              "silu",      "relu_squared", "clipped_swish"};
    int norm = (int)config->norm, place = (int)config->norm_position;
    int activation = (int)config->activation;
    enum locus_status status;
    if ((status = locus_keys_choice(keys, "norm", norms, 2, &norm)) ||
        (status = locus_keys_choice(keys, "norm_position", places, 3, &place)) ||
        (status = locus_keys_choice(keys, "activation", activations, 6, &activation)) ||
        (status = locus_keys_bool(keys, "embedding_norm", &config->embedding_norm)) ||
        (status = locus_keys_bool(keys, "parallel_residual", &config->parallel_residual)) ||
        (status = locus_keys_bool(keys, "gated", &config->gated)))
        return status;
    config->norm = (enum locus_norm_kind)norm;
    config->norm_position = (enum locus_norm_position)place;
    config->activation = (enum locus_activation)activation;
    return LOCUS_OK;
}

enum { MAX_WIDTH = 1 << 20 };

static enum locus_status read_shape(struct locus_keys *keys, struct locus_config *config)
{
    enum { MAX_LAYERS = 4096 };
    enum locus_status status;
    if ((status = locus_keys_needed_int(keys, "embedding_length", MAX_WIDTH, &config->n_embd)) ||
        (status = locus_keys_needed_int(keys, "block_count", MAX_LAYERS, &config->n_layer)))
        return status;
    keys->n_layer = config->n_layer;
    return locus_keys_needed_int(keys, "context_length", INT_MAX, &config->trained_length);
}

/* The width of MLPs; 0: layers are a mixer alone, which all are where a family has one of its own.
 */
static enum locus_status read_mlp_width(struct locus_keys *keys, struct locus_config *config,
                                        const struct locus_architecture *architecture)
{
    static const char key[] = "feed_forward_length";
    if (architecture->mixer) return locus_keys_int(keys, key, 0, 0, &config->n_ff);
    return architecture->spelled_out && locus_keys_has(keys, key)
               ? locus_keys_int(keys, key, 0, 4 * MAX_WIDTH, &config->n_ff)
               : locus_keys_needed_int(keys, key, 4 * MAX_WIDTH, &config->n_ff);
}

/* The heads of attention, and how wide they are. */
static enum locus_status read_heads(struct locus_keys *keys, struct locus_config *config)
{
    enum { MAX_HEADS = 1 << 14 };
    enum locus_status status =
        locus_keys_needed_int(keys, "attention.head_count", MAX_HEADS, &config->n_head);
    if (status) return status;
    const bool counted = config->n_head_kv > 0; /* a layer at a time */
    if (!counted) config->n_head_kv = config->n_head;
    config->head_dim = config->n_embd / config->n_head;
    const bool has_width = locus_keys_has(keys, "attention.key_length");
    if (!counted)
        status = locus_keys_int(keys, "attention.head_count_kv", 1, MAX_HEADS, &config->n_head_kv);
    if (status ||
        (status = locus_keys_int(keys, "attention.key_length", 1, MAX_WIDTH, &config->head_dim)))
        return status;
    const char *path = locus_checkpoint_path(keys->checkpoint);
    if (!has_width && config->n_embd % config->n_head)
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                          "%s: %s.embedding_length %d is no multiple of the %d heads", path,
                          keys->family, config->n_embd, config->n_head);
    if ((int64_t)config->n_head * config->head_dim > 4 * MAX_WIDTH)
        return locus_fail(
            keys->error, LOCUS_ERROR_FORMAT,
            "%s: %s.attention.head_count and key_length make %d heads of %d, expected "
            "at most %d values",
            path, keys->family, config->n_head, config->head_dim, 4 * MAX_WIDTH);
    if (config->n_head % config->n_head_kv)
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                          "%s: %s.attention.head_count %d is no multiple of head_count_kv %d", path,
                          keys->family, config->n_head, config->n_head_kv);
    int value_length = config->head_dim;
    if ((status = locus_keys_int(keys, "attention.value_length", 1, MAX_WIDTH, &value_length)))
        return status;
    if (value_length != config->head_dim)
        return locus_fail(keys->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: %s.attention.value_length is %d, expected key_length %d", path,
                          keys->family, value_length, config->head_dim);
    return LOCUS_OK;
}

/* Widths of experts, of which a file without a count of them has none. */
static enum locus_status check_no_experts(struct locus_keys *keys)
{
    static const char *const widths[] = {"expert_feed_forward_length",
                                         "expert_shared_feed_forward_length"};
    int width = 0;
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < 2 && !status && !width; i++)
        status = locus_keys_int(keys, widths[i], 0, INT_MAX, &width);
    if (status || !width) return status;
    char with[sizeof keys->full];
    memcpy(with, keys->full, sizeof with);
    return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                      "%s: %s.expert_count is %s, beside %s %d: expected the number of experts",
                      locus_checkpoint_path(keys->checkpoint), keys->family,
                      locus_keys_has(keys, "expert_count") ? "0" : "missing", with, width);
}

/* expert_*: a mixture of experts in place of the MLP, in all layers but the first few. `lone`: one
 * expert is an MLP, and there are no more. */
static enum locus_status read_experts(struct locus_keys *keys, struct locus_config *config,
                                      bool lone)
{
    enum { MAX_EXPERTS = 1 << 12, WIDEST = 4 * MAX_WIDTH };
    int n_shared = 0;
    enum locus_status status;
    if ((status = locus_keys_int(keys, "expert_count", 0, MAX_EXPERTS, &config->n_expert)) ||
        (status =
             locus_keys_int(keys, "expert_used_count", 0, MAX_EXPERTS, &config->n_expert_used)) ||
        (status = locus_keys_int(keys, "expert_shared_count", 0, MAX_EXPERTS, &n_shared)))
        return status;
    if (lone && config->n_expert == 1) config->n_expert = config->n_expert_used = 0;
    if (!config->n_expert) return check_no_experts(keys);
    if (lone)
        return locus_fail(keys->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: %s.expert_count is %d, expected 1 at most: no key says which layers "
                          "have experts",
                          locus_checkpoint_path(keys->checkpoint), keys->family, config->n_expert);
    if (config->n_expert_used < 1 || config->n_expert_used > config->n_expert)
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                          "%s: %s.expert_used_count is %d, expected 1 to the %d experts",
                          locus_checkpoint_path(keys->checkpoint), keys->family,
                          config->n_expert_used, config->n_expert);
    config->n_ff_expert = config->n_ff;
    if ((status =
             locus_keys_int(keys, "expert_feed_forward_length", 1, WIDEST, &config->n_ff_expert)))
        return status;
    const int64_t shared = (int64_t)n_shared * config->n_ff_expert;
    const int64_t widest =
        config->n_ff_expert > config->n_embd ? config->n_ff_expert : config->n_embd;
    if (shared > WIDEST || config->n_expert * widest > INT_MAX)
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                          "%s: %s.expert_* make %d experts, and %d shared, of width %d: expected "
                          "at most %d rows in one matrix",
                          locus_checkpoint_path(keys->checkpoint), keys->family, config->n_expert,
                          n_shared, config->n_ff_expert, INT_MAX);
    config->n_ff_shared = (int)shared;
    if ((status = locus_keys_int(keys, "expert_shared_feed_forward_length", 0, WIDEST,
                                 &config->n_ff_shared)) ||
        (status = locus_keys_int(keys, "leading_dense_block_count", 0, config->n_layer,
                                 &config->n_dense)))
        return status;
    return locus_keys_bool(keys, "expert_weights_norm", &config->normed_experts);
}

static bool attends(const struct locus_config *config, int layer)
{
    return config->layers[layer].mixer == &locus_attention_part;
}

/* attention.window: of so many layers as window_every says the last one is local; 0 or 1: all. */
static enum locus_status read_own_window(struct locus_keys *keys, struct locus_config *config)
{
    int window = 0, every = 0;
    enum locus_status status = locus_keys_int(keys, "attention.window", 0, INT_MAX, &window);
    if (!status) status = locus_keys_int(keys, "attention.window_every", 0, INT_MAX, &every);
    for (int i = 0; i < config->n_layer && !status; i++)
        if ((every <= 1 || (i + 1) % every == 0) && attends(config, i))
            config->layers[i].window = window;
    return status;
}

/* attention.sliding_window, as other families have it. The pattern is a flag a layer, true for a
 * local one, or a count: of so many layers the last one is not local (0: all are, 1: none is). */
static enum locus_status read_window(struct locus_keys *keys, struct locus_config *config,
                                     const struct locus_architecture *architecture)
{
    static const char pattern[] = "attention.sliding_window_pattern";
    int window = architecture->window, every = architecture->window_every;
    bool *local = NULL;
    enum locus_status status =
        locus_keys_int(keys, "attention.sliding_window", 0, INT_MAX, &window);
    if (status) return status;
    const bool patterned = locus_keys_has(keys, pattern);
    const char *odd = patterned ? locus_keys_neither(keys) : NULL;
    if (odd)
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                          "%s: %s is %s, expected a count or a flag (true or false) a layer",
                          locus_checkpoint_path(keys->checkpoint), keys->full, odd);
    if (patterned && !locus_keys_is_number(keys))
        status = locus_keys_flags(keys, pattern, &local);
    else
        status = locus_keys_int(keys, pattern, 0, INT_MAX, &every);
    for (int i = 0; i < config->n_layer && !status; i++) {
        if (!(local ? local[i] : every == 0 || i % every < every - 1)) continue;
        config->layers[i].window = window;
        if (patterned && !locus_keys_has(keys, "attention.sliding_window"))
            status = locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                                "%s: %s is missing, beside a pattern by which layer %d is local",
                                locus_checkpoint_path(keys->checkpoint), keys->full, i);
    }
    free(local);
    return status;
}

/* Q and K rows in another order than the family's would have the right shape. */
static enum locus_status check_layout(struct locus_keys *keys,
                                      const struct locus_architecture *architecture)
{
    static const char *const usual[] = {"reference", "Meta AI original pth"};
    const char *const own[] = {architecture->layout};
    int layout;
    return architecture->layout ? locus_keys_choice(keys, "tensor_data_layout", own, 1, &layout)
                                : locus_keys_choice(keys, "tensor_data_layout", usual, 2, &layout);
}

/* A key that the family can't do without, and of which 0 would be the same as without. */
static enum locus_status check_needed_key(struct locus_keys *keys, const char *key)
{
    double value = 0;
    if (!locus_keys_has(keys, key))
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT, "%s: %s is missing",
                          locus_checkpoint_path(keys->checkpoint), keys->full);
    enum locus_status status = locus_keys_number(keys, key, 0, &value);
    if (status || value > 0) return status;
    return locus_fail(keys->error, LOCUS_ERROR_FORMAT, "%s: %s is 0, expected above 0",
                      locus_checkpoint_path(keys->checkpoint), keys->full);
}

/* The key of `epsilon_key` and those of `needed_keys`, words apart. */
static enum locus_status check_needed(struct locus_keys *keys,
                                      const struct locus_architecture *architecture)
{
    char key[64];
    const char *rest = architecture->needed_keys ? architecture->needed_keys : "";
    enum locus_status status = LOCUS_OK;
    if (!architecture->spelled_out && !locus_keys_has(keys, architecture->epsilon_key))
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT, "%s: %s is missing",
                          locus_checkpoint_path(keys->checkpoint), keys->full);
    for (; !status && *rest; rest += strspn(rest, " ")) {
        const size_t length = strcspn(rest, " ");
        snprintf(key, sizeof key, "%.*s", (int)length, rest);
        status = check_needed_key(keys, key);
        rest += length;
    }
    return status;
}

/* Both halves at once leave no place for a norm between or after them. */
static enum locus_status check_parallel(struct locus_keys *keys, const struct locus_config *config)
{
    if (config->norm_position == LOCUS_NORM_INPUT || !config->parallel_residual) return LOCUS_OK;
    return locus_fail(
        keys->error, LOCUS_ERROR_UNSUPPORTED,
        "%s: %s with halves in parallel, whose norms are of the %s: expected those of "
        "what they read",
        locus_checkpoint_path(keys->checkpoint), keys->family,
        config->norm_position == LOCUS_NORM_SUM ? "sum" : "output");
}

/* Scales of 0, by which files of other families mean that there is none. */
static void drop_zero_scales(struct locus_config *config)
{
    if (config->embedding_scale == 0) config->embedding_scale = 1;
    if (config->residual_scale == 0) config->residual_scale = 1;
    if (config->logit_scale == 0) config->logit_scale = 1;
}

/* What attention has, where a layer is of it. A file without may say that it has no heads. */
static enum locus_status read_attention(struct locus_keys *keys, struct locus_config *config,
                                        const struct locus_architecture *architecture)
{
    enum locus_status status;
    if (!locus_config_has(config, &locus_attention_part))
        return locus_keys_int(keys, "attention.head_count", 0, 0, &config->n_head);
    if ((status = read_heads(keys, config))) return status;
    float usual = (float)(1.0 / sqrt((double)config->head_dim));
    if (architecture->wide_scores_layers == config->n_layer)
        usual = (float)(1.0 / sqrt((double)config->n_embd / config->n_head));
    config->attention_scale = usual;
    if ((status = locus_keys_float(keys, "attn_logit_softcapping", 0, &config->score_cap)) ||
        (status = locus_keys_float(keys, "attention.scale", 0, &config->attention_scale)) ||
        (status = locus_keys_float(keys, "attention.clamp_kqv", 0, &config->clip_qkv)) ||
        (status = check_layout(keys, architecture)))
        return status;
    if (!architecture->spelled_out) {
        if (config->attention_scale == 0) config->attention_scale = usual;
        return read_window(keys, config, architecture);
    }
    status = locus_keys_float(keys, "attention.clip_qkv", 0, &config->clip_qkv);
    return status ? status : read_own_window(keys, config);
}

/* llama.cpp's converter writes some models' one epsilon for both kinds of norms. */
static enum locus_status read_epsilon(struct locus_keys *keys, struct locus_config *config,
                                      const struct locus_architecture *architecture)
{
    static const char *const names[] = {"attention.layer_norm_epsilon",
                                        "attention.layer_norm_rms_epsilon"};
    enum locus_status status =
        locus_keys_float(keys, architecture->epsilon_key, 0, &config->norm_epsilon);
    for (int i = 0; i < 2 && !status && !architecture->spelled_out; i++) {
        float other = config->norm_epsilon;
        status = locus_keys_float(keys, names[i], 0, &other);
        if (!status && other != config->norm_epsilon)
            status = locus_fail(keys->error, LOCUS_ERROR_FORMAT, "%s: %s is %g, expected %s's, %g",
                                locus_checkpoint_path(keys->checkpoint), keys->full, (double)other,
                                architecture->epsilon_key, (double)config->norm_epsilon);
    }
    return status;
}

static enum locus_status read_config(struct locus_keys *keys, struct locus_config *config,
                                     const struct locus_architecture *architecture)
{
    enum locus_status status;
    if ((status = read_shape(keys, config)) ||
        (status = locus_config_read_mixers(keys, config, architecture)) ||
        (status = read_mlp_width(keys, config, architecture)))
        return status;
    if (architecture->root_embedding_scale) config->embedding_scale = sqrtf((float)config->n_embd);
    if ((status = check_needed(keys, architecture)) ||
        (status = read_epsilon(keys, config, architecture)) ||
        (status = locus_keys_float(keys, "embedding_scale", 0, &config->embedding_scale)) ||
        (status = locus_keys_float(keys, "residual_scale", 0, &config->residual_scale)) ||
        (status = locus_keys_float(keys, "logit_scale", 0, &config->logit_scale)) ||
        (status = locus_keys_float(keys, "final_logit_softcapping", 0, &config->logit_cap)) ||
        (status = locus_keys_bool(keys, "use_parallel_residual", &config->parallel_residual)) ||
        (status = read_experts(keys, config, architecture->headless_scans)))
        return status;
    if (config->ssm.norm_epsilon < 0) config->ssm.norm_epsilon = config->norm_epsilon;
    if (!architecture->spelled_out) drop_zero_scales(config);
    if (architecture->divides_logits) config->logit_scale = 1 / config->logit_scale;
    if (architecture->spelled_out) status = read_spelled_out(keys, config);
    if (status || (status = check_parallel(keys, config)) ||
        (status = read_attention(keys, config, architecture)))
        return status;
    for (int i = 0; i < config->n_layer; i++)
        config->layers[i].mlp = locus_mlp_part(config, i);
    if ((status = read_position(keys, config, architecture))) return status;
    return locus_keys_check_rest(keys);
}

enum locus_status locus_config_read(struct locus_config *config,
                                    const struct locus_architecture *architecture,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    struct locus_keys keys;
    *config = architecture->defaults;
    config->norm_epsilon = 1e-5f;
    config->embedding_scale = config->residual_scale = config->logit_scale = 1;
    enum locus_status status = locus_keys_begin(&keys, checkpoint, architecture->name, error);
    if (!status) status = read_config(&keys, config, architecture);
    locus_keys_end(&keys);
    return status;
}
