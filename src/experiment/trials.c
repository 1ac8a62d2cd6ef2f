/* Character-level tasks: texts into tokens, and trials. See tasks.h. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "experiment/tasks.h"
#include "model/finite.h"
#include "sample/stages.h"

/* A trial's tokens: those from `first` on hold the answer. */
struct trial {
    int32_t *tokens;
    int n, first;
};

/* Numbers of a cell of their own: a seed's, moved on by what the cell is. */
static void seed_trials(struct locus_rng *rng, const struct locus_trials *trials)
{
    struct locus_rng mixed;
    locus_rng_seed(&mixed, trials->seed);
    uint64_t seed = locus_rng_next(&mixed) ^ (uint64_t)trials->task << 56 ^
                    (uint64_t)llround(trials->depth * 1e6) << 32 ^ (uint64_t)trials->length;
    locus_rng_seed(rng, seed);
}

/* [begin-of-text] + text as tokens. */
static enum locus_status encode(struct trial *trial, int32_t begin,
                                const locus_tokenizer *tokenizer, const struct locus_buffer *prompt,
                                const struct locus_buffer *answer, locus_error *error)
{
    struct locus_buffer text = {0};
    int32_t *tokens = NULL;
    size_t n = 0, at = 0, n_bytes;
    locus_buffer_append(&text, prompt->bytes, prompt->length);
    locus_buffer_append(&text, answer->bytes, answer->length);
    enum locus_status status =
        text.failed || prompt->failed || answer->failed
            ? locus_fail_memory(error, prompt->length)
            : locus_encode(tokenizer, text.bytes, text.length, 0, &tokens, &n, error);
    locus_buffer_free(&text);
    if (status) return status;
    *trial = (struct trial){.tokens = malloc((n + 1) * sizeof *tokens)};
    if (trial->tokens) {
        if (begin >= 0) trial->tokens[trial->n++] = begin;
        for (size_t i = 0; i < n; i++) {
            const int32_t previous = trial->n ? trial->tokens[trial->n - 1] : -1;
            (void)locus_token_piece(tokenizer, previous, tokens[i], 0, &n_bytes);
            at += n_bytes;
            if (at > prompt->length && trial->first == 0) trial->first = trial->n;
            trial->tokens[trial->n++] = tokens[i];
        }
    } else
        status = locus_fail_memory(error, (n + 1) * sizeof *tokens);
    free(tokens);
    return status;
}

/* What trials are of, and what encodes them. */
struct source {
    const struct locus_trials *trials;
    const locus_tokenizer *tokenizer;
};

/* The example of a length, and of the numbers that come next in `rng`, which stays where it is. */
static enum locus_status make_text(struct trial *trial, const struct source *source, int length,
                                   struct locus_rng rng, locus_error *error)
{
    struct locus_buffer prompt = {0}, answer = {0};
    free(trial->tokens);
    trial->tokens = NULL;
    locus_task_example(source->trials->task, length, source->trials->depth, &rng, &prompt, &answer);
    enum locus_status status =
        encode(trial, source->trials->begin, source->tokenizer, &prompt, &answer, error);
    locus_buffer_free(&prompt);
    locus_buffer_free(&answer);
    return status;
}

/* The next trial. A passkey text has `length` tokens or, where tokens are more than a byte, as many
 * as fit: the longest text is searched for. */
static enum locus_status make_trial(struct trial *trial, const struct source *source,
                                    struct locus_rng *rng, locus_error *error)
{
    enum { MAX_TOKEN = 32 }; /* bytes a token, and more than any filler has */
    const int n_tokens = source->trials->length;
    int low = n_tokens, high = n_tokens < INT_MAX / MAX_TOKEN ? MAX_TOKEN * n_tokens : INT_MAX;
    *trial = (struct trial){0};
    enum locus_status status = make_text(trial, source, low, *rng, error);
    if (source->trials->task == LOCUS_TASK_PASSKEY && !status && trial->n < n_tokens) {
        while (!status && high - low > 1) {
            const int middle = low + (high - low) / 2;
            status = make_text(trial, source, middle, *rng, error);
            if (trial->n <= n_tokens)
                low = middle;
            else
                high = middle;
        }
        if (!status) status = make_text(trial, source, low, *rng, error);
    }
    if (status) free(trial->tokens);
    /* However many numbers the example took. */
    locus_rng_seed(rng, locus_rng_next(rng));
    return status;
}

enum locus_status locus_trials_tokens(const struct locus_trials *trials,
                                      const locus_tokenizer *tokenizer, int *n_tokens,
                                      locus_error *error)
{
    const struct source source = {trials, tokenizer};
    struct locus_rng rng;
    *n_tokens = 0;
    seed_trials(&rng, trials);
    for (int i = 0; i < trials->n_trials; i++) {
        struct trial trial;
        enum locus_status status = make_trial(&trial, &source, &rng, error);
        if (status) return status;
        if (trial.n > *n_tokens) *n_tokens = trial.n;
        free(trial.tokens);
    }
    return LOCUS_OK;
}

/* Logits [n_rows, n_vocab] that are no numbers answer nothing. */
static enum locus_status check_logits(const locus_model *model, const float *logits, int n_rows,
                                      locus_error *error)
{
    const locus_model_info info = locus_model_info_get(model);
    for (size_t i = 0; i < (size_t)n_rows * (size_t)info.n_vocab; i++)
        if (!(logits[i] <= FLT_MAX))
            return locus_fail_numeric(model, error, "the logit of token %d is %s",
                                      (int)(i % (size_t)info.n_vocab),
                                      isnan(logits[i]) ? "not a number" : "infinite");
    return LOCUS_OK;
}

/* Whether greedy decoding gives the answer: as every token is compared, feeding the right one finds
 * the same. What the session holds of `before` stays as far as the texts agree. */
static enum locus_status run_trial(const struct trial *trial, const struct trial *before,
                                   const locus_model *model, locus_session *session, bool *right,
                                   locus_error *error)
{
    const locus_model_info info = locus_model_info_get(model);
    const int n_rows = trial->n - trial->first;
    int n_same = 0, most = trial->first - 1;
    if (before->n - 1 < most) most = before->n - 1;
    while (n_same < most && trial->tokens[n_same] == before->tokens[n_same])
        n_same++;
    float *logits = malloc((size_t)n_rows * (size_t)info.n_vocab * sizeof *logits);
    if (!logits)
        return locus_fail_memory(error, (size_t)n_rows * (size_t)info.n_vocab * sizeof *logits);
    /* A policy that drops keys may not reach back so far. */
    if (locus_session_rewind(session, n_same, NULL)) n_same = 0;
    enum locus_status status = n_same ? LOCUS_OK : locus_session_rewind(session, 0, error);
    if (!status)
        status = locus_session_eval(session, trial->tokens + n_same, trial->n - 1 - n_same, logits,
                                    n_rows, error);
    if (!status) status = check_logits(model, logits, n_rows, error);
    *right = !status;
    for (int i = 0; i < n_rows && *right; i++)
        *right = locus_likeliest(logits + (size_t)i * (size_t)info.n_vocab, info.n_tokens) ==
                 trial->tokens[trial->first + i];
    free(logits);
    return status;
}

enum locus_status locus_trials_run(const struct locus_trials *trials, const locus_model *model,
                                   const locus_tokenizer *tokenizer, locus_session *session,
                                   const struct locus_watch *watch, int *n_right, bool *whole,
                                   locus_error *error)
{
    const struct source source = {trials, tokenizer};
    struct locus_rng rng;
    struct trial before = {0};
    enum locus_status status = locus_session_rewind(session, 0, error);
    *n_right = 0;
    *whole = true;
    seed_trials(&rng, trials);
    for (int i = 0; i < trials->n_trials && !status; i++) {
        struct trial trial;
        bool right = false;
        if (watch && watch->stopped && watch->stopped(watch->context)) {
            *whole = false;
            break;
        }
        status = make_trial(&trial, &source, &rng, error);
        if (status) break;
        status = run_trial(&trial, &before, model, session, &right, error);
        *n_right += right;
        free(before.tokens);
        before = trial;
        if (watch && watch->advance) watch->advance(watch->context, trial.n);
    }
    free(before.tokens);
    return status;
}
