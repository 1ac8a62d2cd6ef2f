/* Which mixer each layer has, and the sizes of those that aren't attention. See model.h. */
#include <limits.h>
#include <stdlib.h>

#include "model/keys.h"
#include "model/model.h"

bool locus_config_has(const struct locus_config *config, const struct locus_layer_part *part)
{
    for (int i = 0; i < config->n_layer; i++)
        if (config->layers[i].mixer == part || config->layers[i].mlp == part) return true;
    return false;
}

/* That of norms inside a scan, such as Falcon Mamba's, for which llama.cpp has no key. */
static enum locus_status read_own_epsilon(struct locus_keys *keys, struct locus_ssm_config *ssm)
{
    static const char key[] = "locus.ssm.norm_epsilon";
    double epsilon = -1; /* as other norms', which isn't read yet */
    if (locus_checkpoint_has(keys->checkpoint, key) &&
        !(locus_checkpoint_float(keys->checkpoint, key, &epsilon) && epsilon >= 0 &&
          epsilon <= 1e30))
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT, "%s: %s is not a number from 0 to 1e+30",
                          locus_checkpoint_path(keys->checkpoint), key);
    ssm->norm_epsilon = (float)epsilon;
    return LOCUS_OK;
}

static enum locus_status refuse_share(struct locus_keys *keys, const char *what, int n,
                                      const char *of, int n_of)
{
    return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                      "%s: %s.ssm.%s is %d, expected a divisor of %s, %d",
                      locus_checkpoint_path(keys->checkpoint), keys->family, what, n, of, n_of);
}

/* Mamba 2's heads, whose number llama.cpp calls the rank, in groups. */
static enum locus_status read_scan_heads(struct locus_keys *keys, struct locus_ssm_config *ssm)
{
    enum { MAX_GROUPS = 1 << 8 };
    enum locus_status status;
    ssm->n_group = 1;
    if ((status = locus_keys_needed_int(keys, "ssm.time_step_rank", ssm->n_inner, &ssm->n_head)) ||
        (status = locus_keys_int(keys, "ssm.group_count", 1, MAX_GROUPS, &ssm->n_group)))
        return status;
    if (ssm->n_inner % ssm->n_head)
        return refuse_share(keys, "time_step_rank", ssm->n_head, "inner_size", ssm->n_inner);
    if (ssm->n_head % ssm->n_group)
        return refuse_share(keys, "group_count", ssm->n_group, "time_step_rank", ssm->n_head);
    return LOCUS_OK;
}

static enum locus_status read_scan_rank(struct locus_keys *keys, struct locus_ssm_config *ssm)
{
    enum { MAX_RANK = 1 << 20 };
    enum locus_status status =
        locus_keys_needed_int(keys, "ssm.time_step_rank", MAX_RANK, &ssm->rank);
    return status ? status : locus_keys_bool(keys, "ssm.dt_b_c_rms", &ssm->normed);
}

/* ssm.*: of a selective scan, as llama.cpp writes them. */
static enum locus_status read_scan(struct locus_keys *keys, struct locus_config *config)
{
    enum { MAX_INNER = 1 << 22, MAX_STATE = 1 << 12, MAX_CONV = 1 << 8 };
    struct locus_ssm_config *ssm = &config->ssm;
    const bool has_heads = locus_config_has(config, &locus_mamba2_part);
    enum locus_status status;
    if (has_heads && locus_config_has(config, &locus_mamba_part))
        return locus_fail(keys->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: layers of mamba beside others of mamba2, whose sizes have the same "
                          "keys, %s.ssm.*",
                          locus_checkpoint_path(keys->checkpoint), keys->family);
    if ((status = locus_keys_needed_int(keys, "ssm.inner_size", MAX_INNER, &ssm->n_inner)) ||
        (status = locus_keys_needed_int(keys, "ssm.state_size", MAX_STATE, &ssm->n_state)) ||
        (status = locus_keys_needed_int(keys, "ssm.conv_kernel", MAX_CONV, &ssm->n_conv)))
        return status;
    status = has_heads ? read_scan_heads(keys, ssm) : read_scan_rank(keys, ssm);
    return status ? status : read_own_epsilon(keys, ssm);
}

/* A head's memory is of 2^(5 + its index) tokens: past the last of these a float can't hold. */
static enum locus_status read_retention(struct locus_keys *keys, struct locus_config *config)
{
    enum { MAX_HEADS = 20, MAX_DIM = 1 << 16 };
    struct locus_retention_config *retention = &config->retention;
    enum locus_status status;
    if ((status =
             locus_keys_needed_int(keys, "retention.head_count", MAX_HEADS, &retention->n_head)) ||
        (status = locus_keys_needed_int(keys, "retention.value_length", MAX_DIM,
                                        &retention->value_dim)) ||
        (status =
             locus_keys_needed_int(keys, "retention.key_length", MAX_DIM, &retention->key_dim)))
        return status;
    if (retention->key_dim % 2 == 0) return LOCUS_OK;
    return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                      "%s: %s is %d, expected an even number, whose pairs can be turned",
                      locus_checkpoint_path(keys->checkpoint), keys->full, retention->key_dim);
}

static enum locus_status read_hyena(struct locus_keys *keys, struct locus_config *config)
{
    enum { MAX_CONV = 1 << 8, MAX_BANDS = (LOCUS_HYENA_WIDTH - 1) / 2 };
    struct locus_hyena_config *hyena = &config->hyena;
    enum locus_status status;
    hyena->length = config->trained_length;
    if ((status = locus_keys_needed_int(keys, "hyena.conv_kernel", MAX_CONV, &hyena->n_conv)) ||
        (status = locus_keys_int(keys, "hyena.filter_length", 1, INT_MAX, &hyena->length)) ||
        (status = locus_keys_needed_int(keys, "hyena.filter_bands", MAX_BANDS, &hyena->n_band)) ||
        (status =
             locus_keys_needed_int(keys, "hyena.filter_width", LOCUS_HYENA_WIDTH, &hyena->width)) ||
        (status = locus_keys_needed_int(keys, "hyena.filter_layers", LOCUS_HYENA_LAYERS,
                                        &hyena->n_layer)))
        return status;
    return locus_keys_float(keys, "hyena.filter_shift", 0, &hyena->shift);
}

/* Scans where there are no heads of keys and values; of those there are as many elsewhere. */
static enum locus_status read_headless(struct locus_keys *keys, struct locus_config *config,
                                       int *counts)
{
    enum { MAX_HEADS = 1 << 14 };
    enum locus_status status =
        locus_keys_counts(keys, "attention.head_count_kv", MAX_HEADS, counts);
    for (int i = 0; i < config->n_layer && !status; i++) {
        config->layers[i].mixer = counts[i] ? &locus_attention_part : &locus_mamba_part;
        if (!config->n_head_kv) config->n_head_kv = counts[i];
        if (counts[i] && counts[i] != config->n_head_kv)
            status = locus_fail(keys->error, LOCUS_ERROR_UNSUPPORTED,
                                "%s: %s is %d, but %d for layer %d; expected the same in all "
                                "layers that attend",
                                locus_checkpoint_path(keys->checkpoint), keys->full,
                                config->n_head_kv, counts[i], i);
    }
    return status;
}

/* A name each, or one of all layers: only the generic family has others than its own. */
static enum locus_status name_mixers(struct locus_keys *keys, struct locus_config *config,
                                     const struct locus_architecture *architecture)
{
    static const struct locus_layer_part *const parts[] = {
        &locus_attention_part, &locus_mamba_part, &locus_mamba2_part, &locus_retention_part,
        &locus_hyena_part};
    enum { N_PARTS = sizeof parts / sizeof *parts };
    const char *names[N_PARTS];
    const size_t n_layer = (size_t)config->n_layer;
    int *choices = calloc(n_layer, sizeof *choices);
    if (!choices) return locus_fail_memory(keys->error, n_layer * sizeof *choices);
    enum locus_status status = LOCUS_OK;
    for (int i = 0; i < N_PARTS; i++)
        names[i] = parts[i]->name;
    if (architecture->headless_scans) {
        status = read_headless(keys, config, choices);
    } else {
        if (architecture->spelled_out)
            status = locus_keys_choices(keys, "mixer", names, N_PARTS, choices);
        for (size_t i = 0; i < n_layer; i++)
            config->layers[i].mixer = architecture->mixer ? architecture->mixer : parts[choices[i]];
    }
    free(choices);
    return status;
}

enum locus_status locus_config_read_mixers(struct locus_keys *keys, struct locus_config *config,
                                           const struct locus_architecture *architecture)
{
    const size_t n_layer = (size_t)config->n_layer;
    config->layers = calloc(n_layer, sizeof *config->layers);
    if (!config->layers) return locus_fail_memory(keys->error, n_layer * sizeof *config->layers);
    enum locus_status status = name_mixers(keys, config, architecture);
    if (!status && (locus_config_has(config, &locus_mamba_part) ||
                    locus_config_has(config, &locus_mamba2_part)))
        status = read_scan(keys, config);
    if (!status && locus_config_has(config, &locus_retention_part))
        status = read_retention(keys, config);
    if (!status && locus_config_has(config, &locus_hyena_part)) status = read_hyena(keys, config);
    return status;
}
