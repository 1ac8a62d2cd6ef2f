/* What the common options say to a session: see session_options.h. */
#include "cli/kit/session_options.h"

#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "base/threads.h"
#include "cli/kit/log.h"
#include "forward/session.h"
#include "position/layers.h"

struct locus_position_env locus_invented_env(void)
{
    return (struct locus_position_env){.n_embd = 64,
                                       .n_layer = 1 << 16, /* as many as any */
                                       .n_head = 1,
                                       .n_head_kv = 1,
                                       .head_dim = 64,
                                       .trained_length = LOCUS_INVENTED_LENGTH,
                                       .session_length = LOCUS_INVENTED_LENGTH,
                                       .score_scale = 1,
                                       .block_length = LOCUS_KV_BLOCK};
}

bool locus_resolve_without_model(struct locus_layer_specs *specs, const char *text,
                                 locus_error *error)
{
    const struct locus_position_env env = locus_invented_env();
    return locus_layer_specs_read(specs, text, &env, error) == LOCUS_OK;
}

int locus_check_position(const char *command, const char *spec)
{
    struct locus_layer_specs resolved;
    locus_error error;
    if (!spec || locus_resolve_without_model(&resolved, spec, &error)) return -1;
    return locus_log_refusal(command, &error);
}

int locus_check_attention(const char *command, const char *spec)
{
    struct locus_policy policy;
    locus_error error;
    if (locus_policy_parse(&policy, spec, &error) == LOCUS_OK) return -1;
    return locus_log_refusal(command, &error);
}

static enum locus_cache_type find_cache_type(const char *name)
{
    enum locus_cache_type type = LOCUS_CACHE_Q8_0;
    while (type > LOCUS_CACHE_AUTO && strcmp(locus_cache_type_name(type), name) != 0)
        type--;
    return type;
}

locus_session_params locus_session_options(const struct locus_common *common)
{
    return (locus_session_params){
        .position = common->position,
        .attention = common->attention,
        .n_context = common->n_context,
        .n_batch = common->n_batch,
        .n_threads = common->n_threads,
        .cache_type = common->cache_type ? find_cache_type(common->cache_type) : LOCUS_CACHE_AUTO,
        .kernels = common->kernels,
    };
}

uint64_t locus_seed_option(const struct locus_common *common)
{
    return common->seed_given ? common->seed : locus_seed_draw();
}

void locus_tell_session(const struct locus_common *common, const char *model_path,
                        const locus_model_info *info, const locus_session *session)
{
    int usual = locus_threads_default();
    if (common->n_threads > usual)
        locus_log_note("warning: %d threads where %d can run at once: often many times slower "
                       "than -t %d",
                       common->n_threads, usual, usual);
    if (common->quiet) return;
    if (common->verbose) {
        locus_log_note("model %s: %s, %s, %lld parameters", model_path, info->family,
                       info->weight_type, (long long)info->n_parameters);
        locus_log_note("position %s, attention %s, context %d, %d thread%s, kernels %s, cache %s",
                       locus_session_position(session), locus_session_attention(session),
                       locus_session_capacity(session), locus_session_n_threads(session),
                       locus_plural(locus_session_n_threads(session)),
                       locus_session_kernels(session), locus_session_cache_name(session));
    }
    if (common->position)
        locus_log_note("note: position %s; the model was trained with %s",
                       locus_session_position(session), info->position);
    const double reach = locus_positions_reach(&session->positions);
    if (reach > 0)
        locus_log_note("note: position %s reaches about %.0f positions, an estimate",
                       locus_session_position(session), reach);
    const int reached = locus_session_reach(session);
    if (reached > 0 && reached < INT_MAX)
        locus_log_note("note: attention %s reaches %d positions, the model was trained to %d",
                       locus_session_attention(session), reached, info->trained_length);
}

int locus_log_refusal(const char *command, const locus_error *error)
{
    static const char *const specs[] = {"position ", "attention "}; /* messages of them begin so */
    if (error->status != LOCUS_ERROR_ARGUMENT) return locus_log_error("%s", error->message);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        if (strncmp(error->message, specs[i], strlen(specs[i])) == 0)
            return locus_log_spec("%s", error->message);
    return locus_log_usage(command, "%s", error->message);
}
