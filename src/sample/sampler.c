/* The sampler: logits to the next token.
 *
 *     logits [n_vocab] -> without padding, banned and impossible tokens, with biases
 *                      -> the stages, in the caller's order -> one draw -> remembered
 *
 * A temperature of 0 is the likeliest token even where the list of stages lacks temperature; any
 * other stage that isn't listed doesn't act. Each token drawn takes one number from the generator,
 * whatever the stages, and a temperature of 0 none.
 */
#include "sample/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/rng.h"
#include "sample/stages.h"

enum { N_STAGES = 6, MAX_LAST_N = 1 << 24 };

struct locus_sampler {
    locus_sampler_params params; /* its logit_bias is this sampler's own copy */
    int n_vocab, n_tokens;
    int32_t *ends; /* [n_ends]: with ignore_end, the tokens never drawn */
    int n_ends;
    struct locus_rng rng;
    int *counts; /* [n_vocab]: how often each token is among those looked back on */
    int32_t
        *history; /* [repeat_last_n]: a ring, the oldest at n_history % repeat_last_n when full */
    size_t n_history;
    struct locus_candidate *candidates; /* [n_tokens] */
};

static const enum locus_sampler_stage default_stages[] = {
    LOCUS_STAGE_PENALTIES, LOCUS_STAGE_TOP_K, LOCUS_STAGE_TYPICAL_P,
    LOCUS_STAGE_TOP_P,     LOCUS_STAGE_MIN_P, LOCUS_STAGE_TEMPERATURE};

LOCUS_API locus_sampler_params locus_sampler_defaults(void)
{
    return (locus_sampler_params){.temperature = 0.8f,
                                  .top_k = 40,
                                  .top_p = 0.95f,
                                  .min_p = 0.05f,
                                  .typical_p = 1,
                                  .repeat_penalty = 1,
                                  .repeat_last_n = 64};
}

/* ---- checking the parameters -------------------------------------------------------------- */

static enum locus_status check_numbers(const locus_sampler_params *params, locus_error *error)
{
    const struct {
        const char *name;
        float value, min, max;
        const char *expected;
    } numbers[] = {
        {"temperature", params->temperature, 0, FLT_MAX, "0 or more"},
        {"top_p", params->top_p, 0, FLT_MAX, "0 to 1"},
        {"min_p", params->min_p, 0, 1, "0 to 1"},
        {"typical_p", params->typical_p, 0, FLT_MAX, "0 to 1"},
        {"repeat_penalty", params->repeat_penalty, FLT_MIN, FLT_MAX, "a number above 0"},
        {"presence_penalty", params->presence_penalty, -FLT_MAX, FLT_MAX, "a number"},
        {"frequency_penalty", params->frequency_penalty, -FLT_MAX, FLT_MAX, "a number"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i].value >= numbers[i].min && numbers[i].value <= numbers[i].max))
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "sampler: %s is %g; expected %s",
                              numbers[i].name, (double)numbers[i].value, numbers[i].expected);
    if (params->repeat_last_n < -1 || params->repeat_last_n > MAX_LAST_N)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "sampler: repeat_last_n is %d; expected -1 (all) or 0 to %d",
                          params->repeat_last_n, MAX_LAST_N);
    return LOCUS_OK;
}

static enum locus_status check_stages(const locus_sampler_params *params, locus_error *error)
{
    unsigned seen = 0;
    size_t n = sizeof params->stages / sizeof *params->stages;
    for (size_t i = 0; i < n && params->stages[i] != LOCUS_STAGE_END; i++) {
        int stage = (int)params->stages[i];
        if (stage < 1 || stage > N_STAGES)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                              "sampler: stages[%zu] is %d; expected a stage from 1 to %d", i, stage,
                              N_STAGES);
        if (seen >> stage & 1)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                              "sampler: stage %d is listed twice; expected each at most once",
                              stage);
        seen |= 1u << stage;
    }
    return LOCUS_OK;
}

static enum locus_status check_bias(const locus_sampler_params *params, int n_tokens,
                                    locus_error *error)
{
    if (params->n_logit_bias < 0 || (params->n_logit_bias > 0 && !params->logit_bias))
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "sampler: n_logit_bias is %d with%s a list; expected its length",
                          params->n_logit_bias, params->logit_bias ? "" : "out");
    for (int i = 0; i < params->n_logit_bias; i++) {
        locus_logit_bias bias = params->logit_bias[i];
        if (bias.token < 0 || bias.token >= n_tokens)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                              "sampler: logit bias for token %d; expected an id from 0 to %d",
                              (int)bias.token, n_tokens - 1);
        if (!(bias.bias <= FLT_MAX))
            return locus_fail(
                error, LOCUS_ERROR_ARGUMENT,
                "sampler: the logit bias of token %d is %g; expected a number or -inf",
                (int)bias.token, (double)bias.bias);
    }
    return LOCUS_OK;
}

/* ---- life --------------------------------------------------------------------------------- */

static enum locus_status copy_bias(locus_sampler *sampler, locus_error *error)
{
    size_t n_bytes = (size_t)sampler->params.n_logit_bias * sizeof(locus_logit_bias);
    locus_logit_bias *copy = NULL;
    if (n_bytes) {
        copy = malloc(n_bytes);
        if (copy) memcpy(copy, sampler->params.logit_bias, n_bytes);
    }
    sampler->params.logit_bias = copy;
    return copy || !n_bytes ? LOCUS_OK : locus_fail_memory(error, n_bytes);
}

static enum locus_status list_ends(locus_sampler *sampler,
                                   const struct locus_sampler_vocabulary *vocabulary,
                                   locus_error *error)
{
    if (!sampler->params.ignore_end || !vocabulary->is_end) return LOCUS_OK;
    size_t n_bytes = (size_t)sampler->n_tokens * sizeof *sampler->ends;
    sampler->ends = malloc(n_bytes);
    if (!sampler->ends) return locus_fail_memory(error, n_bytes);
    for (int32_t id = 0; id < sampler->n_tokens; id++)
        if (vocabulary->is_end(vocabulary->source, id)) sampler->ends[sampler->n_ends++] = id;
    return LOCUS_OK;
}

static enum locus_status make_memory(locus_sampler *sampler, locus_error *error)
{
    int last_n = sampler->params.repeat_last_n;
    size_t n_history = last_n > 0 ? (size_t)last_n : 1;
    size_t n_tokens = (size_t)sampler->n_tokens, n_vocab = (size_t)sampler->n_vocab;
    sampler->candidates = locus_aligned_zalloc(n_tokens, sizeof *sampler->candidates);
    sampler->counts = locus_aligned_zalloc(n_vocab, sizeof *sampler->counts);
    sampler->history = locus_aligned_zalloc(n_history, sizeof *sampler->history);
    if (sampler->candidates && sampler->counts && sampler->history) return LOCUS_OK;
    return locus_fail_memory(error, n_tokens * sizeof *sampler->candidates +
                                        n_vocab * sizeof *sampler->counts +
                                        n_history * sizeof *sampler->history);
}

locus_sampler *locus_sampler_create_for(const struct locus_sampler_vocabulary *vocabulary,
                                        const locus_sampler_params *params, locus_error *error)
{
    const locus_sampler_params defaults = locus_sampler_defaults();
    if (!params) params = &defaults;
    int n_vocab = vocabulary->n_vocab, n_tokens = vocabulary->n_tokens;
    if (n_tokens < 1 || n_tokens > n_vocab) {
        locus_fail(error, LOCUS_ERROR_ARGUMENT,
                   "sampler: %d tokens of %d can be drawn; expected 1 to %d", n_tokens, n_vocab,
                   n_vocab);
        return NULL;
    }
    if (check_numbers(params, error) || check_stages(params, error) ||
        check_bias(params, n_tokens, error))
        return NULL;
    locus_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler) {
        locus_fail_memory(error, sizeof *sampler);
        return NULL;
    }
    sampler->params = *params;
    sampler->n_vocab = n_vocab;
    sampler->n_tokens = n_tokens;
    if (params->stages[0] == LOCUS_STAGE_END)
        memcpy(sampler->params.stages, default_stages, sizeof default_stages);
    locus_rng_seed(&sampler->rng, params->seed);
    if (copy_bias(sampler, error) || list_ends(sampler, vocabulary, error) ||
        make_memory(sampler, error)) {
        locus_sampler_free(sampler);
        return NULL;
    }
    return sampler;
}

static bool is_model_end(const void *model, int32_t token)
{
    return locus_model_is_end(model, token);
}

LOCUS_API locus_sampler *locus_sampler_create(const locus_model *model,
                                              const locus_sampler_params *params,
                                              locus_error *error)
{
    if (!model) return NULL;
    locus_model_info info = locus_model_info_get(model);
    return locus_sampler_create_for(
        &(struct locus_sampler_vocabulary){info.n_vocab, info.n_tokens, is_model_end, model},
        params, error);
}

LOCUS_API void locus_sampler_free(locus_sampler *sampler)
{
    if (!sampler) return;
    free((locus_logit_bias *)sampler->params.logit_bias);
    free(sampler->ends);
    locus_aligned_free(sampler->history);
    locus_aligned_free(sampler->counts);
    locus_aligned_free(sampler->candidates);
    free(sampler);
}

/* ---- drawing ------------------------------------------------------------------------------ */

/* The logits of the ids that mean something, biased; a ban wins over everything. at[id] is id's. */
static void fill_candidates(locus_sampler *sampler, const float *logits)
{
    struct locus_candidate *at = sampler->candidates;
    for (int32_t id = 0; id < sampler->n_tokens; id++)
        at[id] = (struct locus_candidate){.logit = (double)logits[id], .id = id};
    for (int i = 0; i < sampler->params.n_logit_bias; i++) {
        locus_logit_bias bias = sampler->params.logit_bias[i];
        if (isinf(bias.bias))
            at[bias.token].logit = -INFINITY;
        else
            at[bias.token].logit += (double)bias.bias;
    }
    for (int i = 0; i < sampler->n_ends; i++)
        at[sampler->ends[i]].logit = -INFINITY;
}

/* Leaves the tokens that can be drawn: not those at -infinity. */
static struct locus_candidates drop_impossible(locus_sampler *sampler)
{
    struct locus_candidates candidates = {.at = sampler->candidates};
    for (int i = 0; i < sampler->n_tokens; i++)
        if (sampler->candidates[i].logit > (double)-INFINITY)
            candidates.at[candidates.n++] = sampler->candidates[i];
    return candidates;
}

static void run_stage(const locus_sampler *sampler, enum locus_sampler_stage stage,
                      struct locus_candidates *candidates)
{
    const locus_sampler_params *params = &sampler->params;
    switch (stage) {
    case LOCUS_STAGE_PENALTIES:
        locus_stage_penalties(candidates,
                              &(struct locus_penalties){(double)params->repeat_penalty,
                                                        (double)params->presence_penalty,
                                                        (double)params->frequency_penalty},
                              sampler->counts);
        break;
    case LOCUS_STAGE_TOP_K:
        locus_stage_top_k(candidates, params->top_k);
        break;
    case LOCUS_STAGE_TYPICAL_P:
        locus_stage_typical_p(candidates, (double)params->typical_p);
        break;
    case LOCUS_STAGE_TOP_P:
        locus_stage_top_p(candidates, (double)params->top_p);
        break;
    case LOCUS_STAGE_MIN_P:
        locus_stage_min_p(candidates, (double)params->min_p);
        break;
    case LOCUS_STAGE_TEMPERATURE:
        locus_stage_temperature(candidates, (double)params->temperature);
        break;
    case LOCUS_STAGE_END:
        break;
    }
}

/* One candidate, each with the probability its logit gives it. */
static int32_t draw(locus_sampler *sampler, struct locus_candidates *candidates)
{
    if (sampler->params.temperature == 0)
        locus_stage_temperature(candidates, 0);
    else {
        double total = locus_candidates_weigh(candidates);
        double left = locus_rng_double(&sampler->rng) * total;
        size_t last = 0;
        for (size_t i = 0; i < candidates->n; i++) {
            if (candidates->at[i].weight == 0) continue;
            last = i; /* where rounding leaves a rest, the last one has it */
            left -= candidates->at[i].weight;
            if (left < 0) break;
        }
        return candidates->at[last].id;
    }
    return candidates->at[0].id;
}

LOCUS_API int32_t locus_sampler_next(locus_sampler *sampler, const float *logits,
                                     locus_error *error)
{
    for (int id = 0; id < sampler->n_vocab; id++) {
        if (!(logits[id] <= FLT_MAX)) {
            locus_fail(error, LOCUS_ERROR_NUMERIC,
                       "sampler: the logit of token %d is %s; expected numbers", id,
                       isnan(logits[id]) ? "NaN" : "+inf");
            return -1;
        }
    }
    fill_candidates(sampler, logits);
    struct locus_candidates candidates = drop_impossible(sampler);
    if (candidates.n == 0) {
        locus_fail(error, LOCUS_ERROR_NUMERIC,
                   "sampler: no token can be drawn: every logit is -inf or banned");
        return -1;
    }
    for (size_t i = 0; i < sizeof sampler->params.stages / sizeof *sampler->params.stages; i++) {
        if (sampler->params.stages[i] == LOCUS_STAGE_END) break;
        run_stage(sampler, sampler->params.stages[i], &candidates);
    }
    int32_t token = draw(sampler, &candidates);
    locus_sampler_accept(sampler, token);
    return token;
}

LOCUS_API void locus_sampler_accept(locus_sampler *sampler, int32_t token)
{
    int last_n = sampler->params.repeat_last_n;
    if (last_n == 0 || token < 0 || token >= sampler->n_vocab) return;
    if (last_n > 0) {
        size_t slot = sampler->n_history % (size_t)last_n;
        if (sampler->n_history >= (size_t)last_n) sampler->counts[sampler->history[slot]]--;
        sampler->history[slot] = token;
        sampler->n_history++;
    }
    sampler->counts[token]++;
}
