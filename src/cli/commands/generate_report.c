/* locus generate: the summary of a run. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "cli/commands/generate.h"
#include "cli/kit/json.h"
#include "cli/kit/log.h"
#include "cli/kit/session_options.h"
#include "forward/session.h"

static double rate(int count, double seconds)
{
    return count > 0 && seconds > 0 ? count / seconds : 0;
}

/* Prompt tokens the session took: all, unless the run was interrupted on the way. */
static int n_prompt_taken(const struct locus_generate *run)
{
    return locus_session_length(run->session) - run->n_evaluated;
}

void locus_generate_summarise(const struct locus_generate *run)
{
    const char *finish = run->finish;
    const char *reason = strcmp(finish, "end") == 0      ? "end of text"
                         : run->finish_token >= 0        ? "stop token"
                         : strcmp(finish, "stop") == 0   ? "stop text"
                         : strcmp(finish, "length") == 0 ? "length reached"
                                                         : "interrupted";
    char speed[48] = ""; /* of the tokens that went through the model: one alone didn't */
    if (run->n_evaluated > 0)
        locus_print(speed, sizeof speed, ", %.1f tokens/s",
                    rate(run->n_evaluated, run->generation_seconds));
    locus_log_note("prompt %d token%s, %.1f tokens/s; generated %d token%s%s; %s", run->n_prompt,
                   locus_plural(run->n_prompt), rate(n_prompt_taken(run), run->prompt_seconds),
                   run->n_generated, locus_plural(run->n_generated), speed, reason);
}

static void add_sampling(struct locus_json *json, const struct locus_generate *run)
{
    static const char *const names[] = {
        [LOCUS_STAGE_PENALTIES] = "penalties", [LOCUS_STAGE_TOP_K] = "top-k",
        [LOCUS_STAGE_TYPICAL_P] = "typical-p", [LOCUS_STAGE_TOP_P] = "top-p",
        [LOCUS_STAGE_MIN_P] = "min-p",         [LOCUS_STAGE_TEMPERATURE] = "temperature",
    };
    const locus_sampler_params *sampling = &run->sampling;
    locus_json_unsigned(json, "seed", sampling->seed);
    locus_json_float(json, "temperature", sampling->temperature);
    locus_json_int(json, "top_k", sampling->top_k);
    locus_json_float(json, "top_p", sampling->top_p);
    locus_json_float(json, "min_p", sampling->min_p);
    locus_json_float(json, "typical_p", sampling->typical_p);
    locus_json_float(json, "repeat_penalty", sampling->repeat_penalty);
    locus_json_int(json, "repeat_last_n", sampling->repeat_last_n);
    locus_json_float(json, "presence_penalty", sampling->presence_penalty);
    locus_json_float(json, "frequency_penalty", sampling->frequency_penalty);
    locus_json_open(json, "logit_bias", '[');
    for (int i = 0; i < sampling->n_logit_bias; i++) {
        locus_json_open(json, NULL, '{');
        locus_json_int(json, "token", sampling->logit_bias[i].token);
        locus_json_float(json, "bias", sampling->logit_bias[i].bias); /* null: banned */
        locus_json_close(json, '}');
    }
    locus_json_close(json, ']');
    locus_json_open(json, "samplers", '[');
    for (int i = 0; sampling->stages[i] != LOCUS_STAGE_END; i++)
        locus_json_text(json, NULL, names[sampling->stages[i]]);
    locus_json_close(json, ']');
}

static void add_token(struct locus_json *json, const char *key, int32_t token)
{
    if (token < 0)
        locus_json_number(json, key, NULL);
    else
        locus_json_int(json, key, token);
}

static void add_settings(struct locus_json *json, const struct locus_generate *run)
{
    const struct locus_generate_options *options = run->options;
    locus_json_open(json, "settings", '{');
    locus_json_text(json, "model", run->model_path);
    locus_json_text(json, "position", locus_session_position(run->session));
    locus_json_text(json, "attention", locus_session_attention(run->session));
    locus_json_int(json, "n_tokens", options->n_tokens);
    locus_json_int(json, "context", locus_session_capacity(run->session));
    locus_json_int(json, "batch", options->common.n_batch);
    locus_json_int(json, "threads", locus_session_n_threads(run->session));
    locus_json_text(json, "cache_type", locus_session_cache_name(run->session));
    locus_json_text(json, "kernels", locus_session_kernels(run->session));
    add_token(json, "begin_token", run->begin);
    add_sampling(json, run);
    locus_json_open(json, "stop", '[');
    for (int i = 0; i < options->stops.n_items; i++)
        locus_json_text(json, NULL, options->stops.items[i]);
    locus_json_close(json, ']');
    locus_json_open(json, "stop_tokens", '[');
    for (int32_t id = 0; id < run->info.n_tokens; id++)
        if (run->stops[id]) locus_json_int(json, NULL, id);
    locus_json_close(json, ']');
    locus_json_bool(json, "ignore_eos", options->ignore_eos);
    locus_json_bool(json, "special", options->special);
    locus_json_close(json, '}');
}

static void add_timings(struct locus_json *json, const struct locus_generate *run)
{
    locus_json_open(json, "timings", '{');
    locus_json_measure(json, "load_ms", run->load_seconds * 1e3);
    locus_json_int(json, "prompt_tokens", run->n_prompt);
    locus_json_measure(json, "prompt_tokens_per_second",
                       rate(n_prompt_taken(run), run->prompt_seconds));
    locus_json_int(json, "generated_tokens", run->n_generated);
    locus_json_measure(json, "generation_tokens_per_second",
                       rate(run->n_evaluated, run->generation_seconds));
    locus_json_close(json, '}');
}

int locus_generate_print_json(const struct locus_generate *run)
{
    struct locus_buffer out = {0};
    struct locus_json json = {.out = &out};
    locus_json_open(&json, NULL, '{');
    if (!run->options->no_prompt)
        locus_json_bytes(&json, "prompt", run->prompt.bytes, run->prompt.length);
    locus_json_bytes(&json, "text", run->stream.text.bytes, run->stream.text.length);
    locus_json_open(&json, "tokens", '[');
    for (int i = 0; i < run->n_generated; i++) {
        int32_t token;
        memcpy(&token, run->tokens.bytes + (size_t)i * sizeof token, sizeof token);
        locus_json_int(&json, NULL, token);
    }
    locus_json_close(&json, ']');
    locus_json_text(&json, "finish_reason", run->finish);
    if (run->stream.stop)
        locus_json_text(&json, "finish_text", run->stream.stop);
    else
        locus_json_number(&json, "finish_text", NULL);
    add_token(&json, "finish_token", run->finish_token);
    add_settings(&json, run);
    add_timings(&json, run);
    locus_json_close(&json, '}');
    locus_buffer_append(&out, "\n", 1);
    return locus_stdout_finish(&out);
}
