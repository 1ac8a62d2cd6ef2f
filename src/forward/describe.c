/* What a session is to be: see describe.h.
 *
 *     params -> counts checked -> kernels, threads, cache type -> policy -> SPEC resolved
 *            -> schemes ready for a few positions -> capacity -> do they go together
 */
#include "forward/describe.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "forward/session.h"

enum { DEFAULT_BATCH = 512 };

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

struct locus_position_env locus_model_env(const struct locus_model *model, int session_length)
{
    const struct locus_config *config = &model->config;
    return (struct locus_position_env){
        .n_embd = config->n_embd,
        .n_layer = config->n_layer,
        .n_head = config->n_head,
        .n_head_kv = config->n_head_kv,
        .head_dim = config->head_dim,
        .trained_length = config->trained_length,
        .session_length = session_length,
        .score_scale = config->attention_scale,
        .block_length = LOCUS_KV_BLOCK,
        .source = model,
        .tensor = locus_model_extra,
    };
}

struct locus_position_env locus_description_env(const struct locus_description *description,
                                                const struct locus_model *model, int n_positions)
{
    struct locus_position_env env =
        locus_model_env(model, description->first_position + n_positions);
    env.first_position = description->first_position;
    env.kernels = description->kernels.name;
    return env;
}

/* ---- counts ------------------------------------------------------------------------------- */

static enum locus_status check_params(const struct locus_session_params *params, locus_error *error)
{
    const struct {
        const char *name;
        int value;
    } counts[] = {{"n_context", params->n_context},
                  {"n_batch", params->n_batch},
                  {"n_threads", params->n_threads},
                  {"first_position", params->first_position},
                  {"n_axes", params->n_axes}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < 0)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "%s is %d, expected 0 or more",
                              counts[i].name, counts[i].value);
    /* The thread library ends the process when it can't make as many as asked. */
    if (params->n_threads > LOCUS_MAX_THREADS)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT, "n_threads is %d, expected 0 to %d",
                          params->n_threads, LOCUS_MAX_THREADS);
    if ((int)params->cache_type < LOCUS_CACHE_AUTO || params->cache_type > LOCUS_CACHE_Q8_0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT, "cache_type is %d, expected %d to %d",
                          (int)params->cache_type, LOCUS_CACHE_AUTO, LOCUS_CACHE_Q8_0);
    return LOCUS_OK;
}

/* ---- models whose layers don't attend ------------------------------------------------------- */

enum locus_status locus_model_check_position(const struct locus_model *model, const char *position,
                                             locus_error *error)
{
    if (!position || !strcmp(position, "none") ||
        locus_config_has(&model->config, &locus_attention_part))
        return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                      "position %.60s: the model's layers are %s, which has no use for positions; "
                      "expected none",
                      position, model->config.layers[0].mixer->name);
}

/* A scheme, a policy and a cache of keys are attention's: in a model without it the caller's would
 * do nothing. */
static enum locus_status check_no_attention(const struct locus_model *model,
                                            const struct locus_session_params *params,
                                            locus_error *error)
{
    if (locus_config_has(&model->config, &locus_attention_part)) return LOCUS_OK;
    const char *mixer = model->config.layers[0].mixer->name;
    const char *own = params->scheme && !params->position ? params->scheme->name : params->position;
    enum locus_status status = locus_model_check_position(model, own, error);
    if (status) return status;
    if (params->n_axes)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "%d coordinates a token: the model's layers are %s, which has no use for "
                          "positions; expected none",
                          params->n_axes, mixer);
    if (params->attention && strcmp(params->attention, "full") != 0)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "attention %.60s: the model's layers are %s, which sees all tokens by "
                          "its state; expected full",
                          params->attention, mixer);
    if (params->cache_type != LOCUS_CACHE_AUTO)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "cache type %s: the model's layers are %s, which has no cache of keys; "
                          "expected none given",
                          locus_cache_type_name(params->cache_type), mixer);
    return LOCUS_OK;
}

static enum locus_cache_type choose_cache_type(const struct locus_model *model,
                                               enum locus_cache_type asked)
{
    if (asked != LOCUS_CACHE_AUTO) return asked;
    return strcmp(locus_model_info_get(model).weight_type, "F32") ? LOCUS_CACHE_F16
                                                                  : LOCUS_CACHE_F32;
}

static enum locus_status set_counts(struct locus_description *description,
                                    const struct locus_model *model,
                                    const struct locus_session_params *params, locus_error *error)
{
    description->cache_type = choose_cache_type(model, params->cache_type);
    description->n_threads = params->n_threads ? params->n_threads : locus_threads_default();
    description->threads_given = params->n_threads > 0;
    description->first_position = params->first_position;
    description->n_axes = params->n_axes;
    description->capacity = params->n_context ? params->n_context : model->config.trained_length;
    description->n_batch = params->n_batch ? params->n_batch : DEFAULT_BATCH;
    if (description->capacity > INT_MAX - LOCUS_KV_BLOCK - description->first_position)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "a session of %d positions from %d on, expected an end below %d",
                          description->capacity, description->first_position,
                          INT_MAX - LOCUS_KV_BLOCK);
    return LOCUS_OK;
}

/* ---- models of which some layers attend ----------------------------------------------------- */

static bool attends(const struct locus_model *model, int layer)
{
    return model->config.layers[layer].mixer == &locus_attention_part;
}

/* The layers that attend, the first few. */
static void list_attending(const struct locus_model *model, struct locus_buffer *out)
{
    enum { MOST = 8 };
    int n = 0;
    for (int layer = 0; layer < model->config.n_layer; layer++) {
        if (!attends(model, layer)) continue;
        if (n == MOST) locus_buffer_printf(out, ",...");
        if (n++ < MOST) locus_buffer_printf(out, "%s%d", n > 1 ? "," : "", layer);
    }
}

static enum locus_status refuse_layers(const struct locus_model *model, const char *position,
                                       const char *what, const char *layers, locus_error *error)
{
    struct locus_buffer attending = {0};
    list_attending(model, &attending);
    const enum locus_status status =
        locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                   "position '%.80s': %s %.40s don't attend, and have no use for positions; those "
                   "that do: %s",
                   position, what, layers, attending.failed ? "others" : attending.bytes);
    locus_buffer_free(&attending);
    return status;
}

/* Whether an attending layer is among those of SPEC `index`. */
static bool reaches(const struct locus_layer_specs *specs, const struct locus_model *model,
                    int index)
{
    for (int layer = 0; layer < model->config.n_layer; layer++)
        if (attends(model, layer) && locus_layer_specs_at(specs, layer) == index) return true;
    return false;
}

/* A layer that is named by its number. */
static int scan_named(const struct locus_layer_list *list, const struct locus_model *model)
{
    for (int i = 0; i < list->n; i++) {
        const struct locus_layer_range *range = &list->ranges[i];
        if (range->end == range->first + 1 && !attends(model, range->first)) return range->first;
    }
    return -1;
}

/* Refuses a list of layers that don't attend, or one that names such a layer by its number. */
static enum locus_status check_list(const struct locus_layer_specs *specs, int index,
                                    const struct locus_model *model, const char *position,
                                    locus_error *error)
{
    struct locus_buffer list = {0};
    const int scan = scan_named(&specs->layers[index], model);
    if (scan < 0 && reaches(specs, model, index)) return LOCUS_OK;
    if (scan >= 0)
        locus_buffer_printf(&list, "%d", scan);
    else
        locus_layer_list_print(&specs->layers[index], &list);
    const enum locus_status status =
        list.failed ? locus_fail_memory(error, list.length)
                    : refuse_layers(model, position, "layers", list.bytes, error);
    locus_buffer_free(&list);
    return status;
}

/* The caller's SPECs are to do something: none may be for layers alone that don't attend. What he
 * says of values alone leaves the checkpoint's lists as they are. */
static enum locus_status check_layers(const struct locus_layer_specs *specs,
                                      const struct locus_model *model, const char *position,
                                      locus_error *error)
{
    enum locus_status status = LOCUS_OK;
    bool all = true;
    if (!position || !specs->says_layers) return LOCUS_OK;
    for (int layer = 0; layer < model->config.n_layer; layer++)
        all &= attends(model, layer);
    if (all) return LOCUS_OK;
    for (int i = 1; i < specs->n && !status; i++)
        status = check_list(specs, i, model, position, error);
    const struct locus_position_scheme *first = specs->specs[0].scheme;
    const bool idle = (first->rotate || first->bias) && !first->embed && !reaches(specs, model, 0);
    return !status && idle ? refuse_layers(model, position, "those of", first->name, error)
                           : status;
}

/* ---- policy and SPEC ---------------------------------------------------------------------- */

static enum locus_status set_policy(struct locus_description *description, const char *attention,
                                    locus_error *error)
{
    enum locus_status status = locus_policy_parse(&description->policy, attention, error);
    if (status) return status;
    struct locus_buffer printed = {0};
    locus_policy_print(&description->policy, &printed);
    description->attention = printed.bytes;
    if (printed.failed) return locus_fail_memory(error, printed.length);
    description->policy.first_position = description->first_position;
    return LOCUS_OK;
}

static enum locus_status resolve(struct locus_description *description,
                                 const struct locus_model *model,
                                 const struct locus_session_params *params, int text_length,
                                 locus_error *error)
{
    struct locus_position_env env =
        locus_description_env(description, model, description->capacity);
    if (text_length > 0) {
        const int first = description->first_position;
        env.text_length = text_length;
        env.session_length = text_length < INT_MAX - first ? first + text_length : INT_MAX;
    }
    enum locus_status status = locus_layer_specs_resolve(
        &description->specs, params->position, model->config.position, params->scheme, &env, error);
    if (!status) status = check_layers(&description->specs, model, params->position, error);
    if (status) return status;
    struct locus_buffer printed = {0};
    locus_layer_specs_print(&description->specs, &printed);
    description->position = printed.bytes;
    return printed.failed ? locus_fail_memory(error, printed.length) : LOCUS_OK;
}

/* A session longer than its schemes is refused if it was asked for, else cut. */
static enum locus_status limit_capacity(struct locus_description *description, int max, bool asked,
                                        locus_error *error)
{
    const int first = description->first_position;
    if (max == 0 || description->capacity <= max - first) return LOCUS_OK;
    if (asked || max <= first)
        return locus_fail(error, LOCUS_ERROR_POSITION,
                          "position %s has %d position%s, the session needs %lld; 'locus "
                          "positions' tells which go on",
                          description->position, max, max == 1 ? "" : "s",
                          (long long)first + description->capacity);
    description->capacity = max - first;
    return LOCUS_OK;
}

/* What only schemes that are ready can tell. */
static enum locus_status try_schemes(struct locus_description *description,
                                     const struct locus_model *model,
                                     const struct locus_session_params *params, locus_error *error)
{
    enum { FEW = 16 };
    struct locus_positions positions;
    const struct locus_position_env env =
        locus_description_env(description, model, min_int(description->capacity, FEW));
    enum locus_status status = locus_positions_init(&positions, &description->specs, &env, error);
    if (!status)
        status = limit_capacity(description, locus_positions_max(&positions),
                                params->n_context != 0, error);
    if (!status)
        status = locus_policy_admit(&description->policy, &positions, description->capacity, error);
    if (!status) status = locus_coordinates_admit(description, &positions, error);
    locus_positions_close(&positions);
    return status;
}

static enum locus_status set_position(struct locus_description *description,
                                      const struct locus_model *model,
                                      const struct locus_session_params *params, int text_length,
                                      locus_error *error)
{
    enum locus_status status = locus_model_check_extras(model, params->scheme, error);
    if (!status) status = resolve(description, model, params, text_length, error);
    if (!status) status = try_schemes(description, model, params, error);
    if (status == LOCUS_ERROR_ARGUMENT && !params->position && !params->scheme) {
        /* What the checkpoint itself asks for isn't the caller's mistake. */
        if (error) error->status = LOCUS_ERROR_FORMAT;
        return LOCUS_ERROR_FORMAT;
    }
    return status;
}

/* ---- all of it ---------------------------------------------------------------------------- */

enum locus_status locus_session_describe(struct locus_description *description,
                                         const locus_model *model,
                                         const locus_session_params *params, int text_length,
                                         locus_error *error)
{
    *description = (struct locus_description){0};
    enum locus_status status = check_params(params, error);
    if (status || (status = check_no_attention(model, params, error)) ||
        (status = locus_kernels_init(&description->kernels, params->kernels, error)) ||
        (status = set_counts(description, model, params, error)) ||
        (status = set_policy(description, params->attention, error)) ||
        (status = set_position(description, model, params, text_length, error)))
        return status;
    description->n_batch = min_int(description->n_batch, description->capacity);
    return LOCUS_OK;
}

void locus_description_free(struct locus_description *description)
{
    free(description->position);
    free(description->attention);
    description->position = description->attention = NULL;
}
