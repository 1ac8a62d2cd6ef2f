/* locus generate: from a prompt to more text, a token at a time.
 *
 *     options -> prompt -> model, session, sampler -> evaluate the prompt -> sample, write,
 *     evaluate, again -> summary
 *
 * Every step returns false when the run is over, with the exit status in run->status.
 */
#include "cli/commands/generate.h"

#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/prompt.h"
#include "cli/kit/session_options.h"
#include "model/finite.h"
#include "tokenizer/tokenizer.h"

static bool fail(struct locus_generate *run, const locus_error *error)
{
    run->status = locus_log_error("%s", error->message);
    return false;
}

/* ---- options ------------------------------------------------------------------------------ */

static bool check_options(struct locus_generate *run)
{
    const struct locus_generate_options *options = run->options;
    int status = locus_generate_check(options);
    if (status < 0) status = locus_check_position("generate", options->common.position);
    if (status < 0) status = locus_check_attention("generate", options->common.attention);
    if (status < 0) status = locus_generate_sampling(options, &run->sampling);
    if (status >= 0) run->status = status;
    run->sampling.seed = locus_seed_option(&options->common);
    run->stream.stops = &options->stops;
    run->stream.silent = options->json;
    return status < 0;
}

static bool read_prompt(struct locus_generate *run)
{
    const struct locus_generate_options *options = run->options;
    int status = locus_prompt_read("generate", options->prompt, options->file, &run->prompt);
    if (status >= 0) run->status = status;
    return status < 0;
}

/* ---- model -------------------------------------------------------------------------------- */

static bool open_model(struct locus_generate *run)
{
    locus_error error;
    run->model_path = locus_model_file(&run->options->common, &run->status);
    if (!run->model_path) return false;
    double start = locus_now();
    run->model = locus_model_open(run->model_path, &error);
    if (!run->model) return fail(run, &error);
    run->info = locus_model_info_get(run->model);
    run->tokenizer = locus_tokenizer_create(run->model, &error);
    if (!run->tokenizer) return fail(run, &error);
    locus_model_file_note(run->model_path, locus_tokenizer_assumed(run->tokenizer),
                          run->options->common.quiet);
    run->load_seconds = locus_now() - start;
    return true;
}

/* Positions the job needs (the last token is never evaluated), or those that -c allows it. */
static bool plan_context(struct locus_generate *run)
{
    const struct locus_generate_options *options = run->options;
    int given = options->common.n_context, n = options->n_tokens, n_prompt = run->n_prompt;
    int64_t needed = (int64_t)n_prompt + (n > 0 ? n - 1 : 0);
    int64_t context = given ? given : n < 0 ? run->info.trained_length : needed;
    if (n_prompt > context)
        run->status = locus_log_error(
            "the prompt is %d token%s, more than the %s of %d: %s, or shorten the prompt", n_prompt,
            locus_plural(n_prompt), given ? "context" : "trained length", (int)context,
            given ? "raise -c (--context)"
                  : "say with -c N (--context) or -n N (--tokens) how far to go on");
    else if (needed > context && n > 0 && options->n_tokens_given)
        run->status = locus_log_error(
            "a prompt of %d token%s and %d new need %lld positions, more than the context of "
            "%d: raise -c (--context) or lower -n (--tokens)",
            n_prompt, locus_plural(n_prompt), n, (long long)needed, (int)context);
    else if (context > INT_MAX)
        run->status =
            locus_log_error("a prompt of %d token%s and %d new need %lld positions, "
                            "more than %d",
                            n_prompt, locus_plural(n_prompt), n, (long long)context, INT_MAX);
    else {
        run->n_context = (int)context;
        return true;
    }
    return false;
}

static bool is_stopped(void *context)
{
    (void)context;
    return locus_interrupted();
}

static bool create_session(struct locus_generate *run)
{
    const struct locus_common *common = &run->options->common;
    locus_session_params params = locus_session_options(common);
    params.n_context = run->n_context;
    params.stop = is_stopped;
    locus_error error, second;
    double start = locus_now();
    run->session = locus_session_create(run->model, &params, &error);
    /* Nobody asked for the default number of tokens: a scheme that ends earlier ends the text. */
    if (!run->session && error.status == LOCUS_ERROR_POSITION && !run->options->n_tokens_given &&
        !common->n_context && run->info.trained_length >= run->n_prompt) {
        params.n_context = run->info.trained_length;
        run->session = locus_session_create(run->model, &params, &second);
    }
    if (!run->session) {
        run->status = locus_log_refusal("generate", &error);
        return false;
    }
    run->sampler = locus_sampler_create(run->model, &run->sampling, &error);
    run->load_seconds += locus_now() - start;
    return run->sampler ? true : fail(run, &error);
}

/* ---- messages ------------------------------------------------------------------------------ */

static void tell_decay(struct locus_generate *run, int n_positions)
{
    int reach = locus_session_reach(run->session);
    if (run->decay_told || run->options->common.quiet ||
        n_positions <= (reach ? reach : run->info.trained_length))
        return;
    run->decay_told = true;
    locus_log_note("note: %d positions, past the trained length of %d", n_positions,
                   run->info.trained_length);
}

static void tell_settings(struct locus_generate *run)
{
    const struct locus_common *common = &run->options->common;
    locus_tell_session(common, run->model_path, &run->info, run->session);
    if (common->quiet) return;
    int capacity = locus_session_capacity(run->session);
    if (capacity < run->n_context)
        locus_log_note("note: position %s has %d position%s: at most %d new token%s",
                       locus_session_position(run->session), capacity, locus_plural(capacity),
                       capacity - run->n_prompt + 1, locus_plural(capacity - run->n_prompt + 1));
    locus_generate_tell_text(run);
    if (!common->seed_given) locus_log_note("seed %llu", (unsigned long long)run->sampling.seed);
    if (run->options->n_tokens_given || run->n_prompt > run->info.trained_length)
        tell_decay(run, run->n_context);
}

/* ---- text --------------------------------------------------------------------------------- */

static bool echo_prompt(struct locus_generate *run)
{
    if (run->options->no_prompt || run->options->json) return true;
    return locus_stdout_write(run->prompt.bytes, run->prompt.length, &run->status);
}

/* SIGINT is heard between its batches, too. */
static bool evaluate_prompt(struct locus_generate *run)
{
    locus_error error;
    enum locus_status status = LOCUS_OK;
    double start = locus_now();
    if (!locus_interrupted())
        status =
            locus_session_eval(run->session, run->prompt_tokens, run->n_prompt, NULL, 0, &error);
    if (status && status != LOCUS_ERROR_STOPPED) return fail(run, &error);
    run->prompt_seconds = locus_now() - start;
    for (int i = 0; i < run->n_prompt; i++)
        locus_sampler_accept(run->sampler, run->prompt_tokens[i]);
    return true;
}

/* No token could be drawn: where the logits are at fault, the weights may say why. */
static bool fail_drawing(struct locus_generate *run, locus_error *error)
{
    const float *logits = locus_session_logits(run->session);
    const int n_vocab = locus_model_info_get(run->model).n_vocab;
    int i = 0;
    while (i < n_vocab && logits[i] <= FLT_MAX)
        i++;
    if (i < n_vocab) locus_fail_numeric(run->model, error, "%s", error->message);
    return fail(run, error);
}

/* Samples a token and writes what it says. */
static bool next_token(struct locus_generate *run, int32_t *token)
{
    locus_error error;
    int32_t previous = *token;
    *token = locus_sampler_next(run->sampler, locus_session_logits(run->session), &error);
    if (*token < 0) return fail_drawing(run, &error);
    locus_buffer_append(&run->tokens, token, sizeof *token);
    if (run->tokens.failed) {
        run->status = locus_log_error("out of memory for the tokens");
        return false;
    }
    run->n_generated++;
    size_t n_shown, n_bytes;
    (void)locus_token_piece(run->tokenizer, previous, *token,
                            run->options->special ? LOCUS_TEXT_SPECIAL : 0u, &n_shown);
    const char *piece =
        locus_token_piece(run->tokenizer, previous, *token, LOCUS_TEXT_SPECIAL, &n_bytes);
    return locus_stream_add(&run->stream, piece, n_bytes, n_shown > 0 && !run->stops[*token],
                            &run->status);
}

/* Why the text ends after this token, or NULL. */
static const char *find_finish(struct locus_generate *run, int32_t token)
{
    const bool stops = run->n_generated > 0 && run->stops[token];
    const bool ends = run->n_generated > 0 && locus_model_is_end(run->model, token);
    if (run->stream.stop) return "stop";
    if (stops || ends) {
        run->finish_token = token;
        return stops ? "stop" : "end";
    }
    if (run->n_generated == run->options->n_tokens) return "length";
    if (locus_interrupted()) return "interrupt";
    return NULL;
}

/* False, too, after the held back text was lost to an error; what can be written still is. */
static bool write_text(struct locus_generate *run)
{
    locus_error error;
    /* A text that begins here follows nothing, whatever token it was begun with. */
    int32_t token = run->prompt.length ? run->prompt_tokens[run->n_prompt - 1] : -1;
    bool going = true;
    double start = locus_now();
    run->finish = find_finish(run, token);
    while (!run->finish && (going = next_token(run, &token))) {
        run->finish = find_finish(run, token);
        if (run->finish) break;
        if (locus_session_length(run->session) == locus_session_capacity(run->session)) {
            run->finish = "length";
        } else if (locus_session_eval(run->session, &token, 1, NULL, 0, &error)) {
            going = fail(run, &error);
            break;
        } else
            run->n_evaluated++;
    }
    run->generation_seconds = locus_now() - start;
    int status = LOCUS_EXIT_DONE;
    const bool whole = locus_stream_end(&run->stream, &status);
    if (going)
        run->status = status;
    else if (!run->options->json)
        (void)locus_stdout_end_line(&status); /* what was held back came after the error */
    return going && whole;
}

/* What ends the result: with --json all of it. */
static bool end_text(struct locus_generate *run)
{
    if (!run->options->json) return locus_stdout_end_line(&run->status);
    run->status = locus_generate_print_json(run);
    return run->status == LOCUS_EXIT_DONE;
}

static bool finish(struct locus_generate *run)
{
    tell_decay(run, locus_session_length(run->session));
    if (!run->options->common.quiet) locus_generate_summarise(run);
    if (strcmp(run->finish, "interrupt") == 0) run->status = LOCUS_EXIT_INTERRUPTED;
    return true;
}

static void release(struct locus_generate *run)
{
    locus_sampler_free(run->sampler);
    locus_session_free(run->session);
    locus_tokenizer_free(run->tokenizer);
    locus_model_free(run->model);
    locus_stream_free(&run->stream);
    locus_buffer_free(&run->tokens);
    locus_buffer_free(&run->prompt);
    free((void *)run->sampling.logit_bias);
    free(run->prompt_tokens);
    free(run->stops);
    free(run->model_path);
}

static int generate(void *values, int n_operands, char **operands)
{
    (void)n_operands, (void)operands;
    struct locus_generate run = {.options = values, .begin = -1, .finish_token = -1};
    locus_interrupt_watch();
    bool ready = check_options(&run) && read_prompt(&run) && open_model(&run) &&
                 locus_generate_find_stops(&run) && locus_generate_encode(&run) &&
                 plan_context(&run) && create_session(&run);
    if (ready) {
        tell_settings(&run);
        (void)(echo_prompt(&run) && evaluate_prompt(&run) && write_text(&run) && end_text(&run) &&
               finish(&run));
    }
    release(&run);
    return run.status;
}

const struct locus_command locus_command_generate = {
    .name = "generate",
    .summary = "Write text: go on from a prompt.",
    .usage = "[-m FILE] [-p TEXT | -f FILE] [options]\n... | locus generate [options]",
    .details =
        "The prompt is taken byte for byte. Without -p and -f it is standard input, unless that "
        "is a terminal; an empty prompt starts from the model's begin-of-text token. The same "
        "--seed writes the same text, at any --threads and --batch. A newline ends the last line "
        "where the text doesn't; --json has the text alone.\n\n"
        "A text ends before a --stop text, before a --stop-token, or with a token that the "
        "model's file calls an end of text (locus inspect lists them). A stop text is looked for "
        "in the new text with its special tokens and in the text without, shown or not. A token "
        "is named by its id or by its exact text; what looks like a number is an id. A prompt "
        "that begins with the token --begin puts there isn't given a second one.\n\n"
        "--json: prompt (not with --no-prompt), text, tokens; finish_reason is \"stop\" with the "
        "stop text as finish_text or the stop token as finish_token, \"end\" with the end of "
        "text as finish_token, \"length\" or \"interrupt\"; settings, among them begin_token "
        "(null: none), stop and stop_tokens; timings.",
    .options = locus_generate_table,
    .values_size = sizeof(struct locus_generate_options),
    .runs_session = true,
    .run = generate,
};
