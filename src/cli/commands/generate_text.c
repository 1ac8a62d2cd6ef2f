/* locus generate: what a text begins and ends with.
 *
 * A token is named by its id or by its text; a text that looks like a number is an id. What a text
 * begins with is the file's to say unless --begin does, and so is what ends it: tokens that have
 * the name of an end, in a file that doesn't call them one, are spoken of, and end nothing.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "cli/commands/generate.h"
#include "cli/kit/log.h"
#include "model/model.h"

/* ---- tokens by name ----------------------------------------------------------------------- */

static bool looks_like_a_number(const char *text)
{
    text += *text == '-' || *text == '+';
    return *text && text[strspn(text, "0123456789")] == '\0';
}

/* The first token from `from` on that has exactly this text, or -1. After itself a token has all of
 * its bytes. */
static int32_t find_text(const struct locus_generate *run, const char *text, int32_t from)
{
    for (int32_t id = from; id < run->info.n_tokens; id++) {
        size_t n_bytes;
        const char *piece = locus_token_piece(run->tokenizer, id, id, LOCUS_TEXT_SPECIAL, &n_bytes);
        if (locus_text_is(piece, n_bytes, text)) return id;
    }
    return -1;
}

/* The first token that `text` names: -1, with the status of the error, if there is none. */
static int32_t find_token(struct locus_generate *run, const char *option, const char *text)
{
    int id = -1;
    if (!looks_like_a_number(text))
        id = find_text(run, text, 0);
    else if (!locus_number_int(text, 0, run->info.n_tokens - 1, &id))
        id = -1;
    if (id < 0)
        run->status = locus_log_error("%s: found '%s', expected an id from 0 to %d or the text of "
                                      "one token",
                                      option, text, run->info.n_tokens - 1);
    return id;
}

static bool is_special(const struct locus_generate *run, int32_t id)
{
    size_t n_shown, n_bytes;
    (void)locus_token_piece(run->tokenizer, id, id, 0, &n_shown);
    (void)locus_token_piece(run->tokenizer, id, id, LOCUS_TEXT_SPECIAL, &n_bytes);
    return n_shown == 0 && n_bytes > 0;
}

/* ---- stop tokens -------------------------------------------------------------------------- */

static bool add_stop(struct locus_generate *run, int32_t id)
{
    run->stops[id] = true;
    if (!run->options->ignore_eos || !locus_model_is_end(run->model, id)) return true;
    run->status = locus_log_usage("generate",
                                  "--stop-token: token %d is an end of text, which --ignore-eos "
                                  "keeps from coming",
                                  (int)id);
    return false;
}

bool locus_generate_find_stops(struct locus_generate *run)
{
    const struct locus_texts *texts = &run->options->stop_tokens;
    run->stops = calloc((size_t)run->info.n_tokens, sizeof *run->stops);
    if (!run->stops) {
        run->status = locus_log_error("out of memory for the stop tokens");
        return false;
    }
    for (int i = 0; i < texts->n_items; i++) {
        const char *text = texts->items[i];
        int32_t id = find_token(run, "--stop-token", text);
        if (id < 0) return false;
        /* Where several tokens have the text (a letter, and its byte), it is the text of each. */
        for (; id >= 0; id = looks_like_a_number(text) ? -1 : find_text(run, text, id + 1))
            if (!add_stop(run, id)) return false;
    }
    return true;
}

/* ---- the beginning ------------------------------------------------------------------------ */

/* The token before the text: what the file's tokenizer puts there, none, or the one named. */
static bool find_begin(struct locus_generate *run)
{
    const char *text = run->options->begin;
    if (strcmp(text, "none") == 0) return true;
    if (strcmp(text, "auto") == 0) {
        locus_error error;
        int32_t *tokens;
        size_t n;
        if (locus_encode(run->tokenizer, "", 0, LOCUS_TEXT_BEGIN, &tokens, &n, &error)) {
            run->status = locus_log_error("%s", error.message);
            return false;
        }
        if (n > 0)
            run->begin = tokens[0];
        else if (run->prompt.length == 0)
            run->begin = run->info.bos_token;
        free(tokens);
        return true;
    }
    run->begin = find_token(run, "--begin", text);
    if (run->begin < 0) return false;
    int32_t second = looks_like_a_number(text) ? -1 : find_text(run, text, run->begin + 1);
    if (second < 0) return true;
    run->status = locus_log_error("--begin: '%s' is the text of token %d and of token %d, expected "
                                  "one of their ids",
                                  text, (int)run->begin, (int)second);
    return false;
}

/* Puts the token before the prompt's n, unless it is there. */
static bool put_begin(struct locus_generate *run, size_t n)
{
    run->begins_itself = n > 0 && run->prompt_tokens[0] == run->begin;
    if (run->begin >= 0 && !run->begins_itself) {
        int32_t *tokens = realloc(run->prompt_tokens, (n + 1) * sizeof *tokens);
        if (!tokens) {
            run->status = locus_log_error("out of memory for the prompt");
            return false;
        }
        memmove(tokens + 1, tokens, n * sizeof *tokens);
        tokens[0] = run->begin;
        run->prompt_tokens = tokens;
        n++;
    }
    if (n > INT_MAX)
        run->status = locus_log_error("the prompt is %zu tokens, more than %d", n, INT_MAX);
    else if (n == 0)
        run->status = locus_log_error(
            strcmp(run->options->begin, "none") == 0
                ? "the prompt is empty, and --begin none leaves no token to start from: give one "
                  "with -p TEXT"
                : "the prompt is empty, and the model has no begin-of-text token to start from: "
                  "give one with -p TEXT");
    else
        run->n_prompt = (int)n;
    return run->n_prompt > 0;
}

bool locus_generate_encode(struct locus_generate *run)
{
    locus_error error;
    size_t n = 0;
    const unsigned flags = run->options->special ? LOCUS_TEXT_SPECIAL : 0u;
    if (!find_begin(run)) return false;
    if (run->prompt.length > 0 &&
        locus_encode(run->tokenizer, run->prompt.bytes, run->prompt.length, flags,
                     &run->prompt_tokens, &n, &error)) {
        run->status = locus_log_error("%s", error.message);
        return false;
    }
    return put_begin(run, n);
}

/* ---- notes -------------------------------------------------------------------------------- */

static bool is_stop_text(const struct locus_generate *run, const char *text)
{
    const struct locus_texts *stops = &run->options->stops;
    for (int i = 0; i < stops->n_items; i++)
        if (strcmp(stops->items[i], text) == 0) return true;
    return false;
}

/* Special tokens that models end a text, a turn or a message with. */
static const char *const likely_ends[] = {
    "</s>",          "<eos>",           "<|eos|>",
    "<|endoftext|>", "<|end_of_text|>", "<EOT>",
    "_<EOT>",        "<|EOT|>",         "<|eot|>",
    "<|eot_id|>",    "<|im_end|>",      "<|end|>",
    "<|eom_id|>",    "<end_of_turn>",   "<|end_of_turn|>",
    "<|return|>",    "<|eod|>",         "<|END_OF_TURN_TOKEN|>",
};

static bool looks_like_an_end(const struct locus_generate *run, int32_t id, const char **name)
{
    size_t n_bytes;
    const char *piece = locus_token_piece(run->tokenizer, id, id, LOCUS_TEXT_SPECIAL, &n_bytes);
    for (size_t i = 0; i < sizeof likely_ends / sizeof *likely_ends; i++)
        if (locus_text_is(piece, n_bytes, likely_ends[i])) {
            *name = likely_ends[i];
            return is_special(run, id);
        }
    return false;
}

static void tell_likely_ends(const struct locus_generate *run)
{
    const char *name;
    for (int32_t id = 0; id < run->info.n_tokens; id++) {
        if (!looks_like_an_end(run, id, &name) || locus_model_is_end(run->model, id) ||
            run->stops[id] || is_stop_text(run, name))
            continue;
        if (run->options->ignore_eos)
            locus_log_note("note: %s looks like an end of text, and the file doesn't say so: "
                           "--logit-bias %d=-inf keeps it from coming",
                           name, (int)id);
        else
            locus_log_note("note: %s looks like an end of text, and the file doesn't say so: "
                           "--stop-token '%s' stops there",
                           name, name);
    }
}

void locus_generate_tell_text(const struct locus_generate *run)
{
    bool end_wanted = false;
    if (run->begins_itself)
        locus_log_note("note: the prompt begins with token %d itself, so no other is put before it",
                       (int)run->begin);
    (void)locus_checkpoint_bool(locus_model_checkpoint(run->model), "tokenizer.ggml.add_eos_token",
                                &end_wanted);
    if (end_wanted && run->info.eos_token >= 0)
        locus_log_note(
            "note: the file wants token %d after a text; a prompt goes on, and gets none",
            (int)run->info.eos_token);
    tell_likely_ends(run);
}
