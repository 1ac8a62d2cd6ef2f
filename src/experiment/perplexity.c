/* Perplexity: see perplexity.h.
 *
 *     plan -> window -> session (rewound, fed a batch at a time) -> loss a row -> nll[token]
 */
#include "experiment/perplexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/session.h"
#include "model/finite.h"

/* ---- sessions ----------------------------------------------------------------------------- */

/* A text shorter than the windows needs no more than its own positions. */
static locus_session_params fit(const locus_session_params *params, int length, int n_positions)
{
    locus_session_params fitted = *params;
    fitted.n_context = n_positions < length ? n_positions : length;
    return fitted;
}

enum locus_status locus_describe_for_text(struct locus_description *description,
                                          const locus_model *model,
                                          const locus_session_params *params, int length,
                                          int n_positions, locus_error *error)
{
    const locus_session_params fitted = fit(params, length, n_positions);
    return locus_session_describe(description, model, &fitted, length, error);
}

locus_session *locus_session_for_text(const locus_model *model, const locus_session_params *params,
                                      int length, int n_positions, locus_error *error)
{
    const locus_session_params fitted = fit(params, length, n_positions);
    const struct locus_session_extras extras = {.text_length = length};
    return locus_session_create_with(model, &fitted, &extras, error);
}

/* ---- losses ------------------------------------------------------------------------------- */

enum locus_status locus_losses_init(struct locus_losses *losses, const struct locus_plan *plan,
                                    const struct locus_corpus *corpus, locus_error *error)
{
    size_t n = (size_t)corpus->n_tokens;
    *losses = (struct locus_losses){*plan, malloc(n * sizeof *losses->nll)};
    if (!losses->nll) return locus_fail_memory(error, n * sizeof *losses->nll);
    for (size_t i = 0; i < n; i++)
        losses->nll[i] = NAN;
    return LOCUS_OK;
}

void locus_losses_free(struct locus_losses *losses)
{
    free(losses->nll);
    losses->nll = NULL;
}

/* ---- running ------------------------------------------------------------------------------ */

/* A plan being run. */
struct run {
    locus_session *session;
    locus_session *reference;            /* or NULL */
    struct locus_divergence *divergence; /* with a reference */
    const struct locus_corpus *corpus;
    struct locus_losses *losses;
    int n_losses;
    const struct locus_watch *watch;
    int32_t *fed;     /* [length]: a window's tokens */
    int32_t *targets; /* [length]: what its rows predict; -1: nothing asks for it */
    float *nll;       /* [length] */
    int n_advanced;   /* rows of the window that the watch has been told of */
};

/* Tokens times layers for the first n rows of a window: the projections of a layer are about
 * 12 n_embd^2 multiply-adds a row, its attention 2 n_embd for each row before. */
static double window_work(int n, int n_embd)
{
    return n + (double)n * n / (12.0 * n_embd);
}

static bool is_stopped(const struct locus_watch *watch)
{
    return watch && watch->stopped && watch->stopped(watch->context);
}

/* What rows of a window at `first` of a document are asked for, by any plan. */
static void ask(struct run *run, struct locus_document document, struct locus_window window)
{
    for (int i = 0; i < window.n; i++)
        run->targets[i] = -1;
    for (int k = 0; k < run->n_losses; k++) {
        struct locus_window other;
        const struct locus_plan *plan = &run->losses[k].plan;
        if (!locus_plan_find(plan, document.n, window.first, &other) || other.n > window.n)
            continue;
        for (int i = other.from; i < other.n; i++)
            run->targets[i] = run->corpus->tokens[document.first + window.first + i + 1];
    }
}

static void store(struct run *run, struct locus_document document, struct locus_window window)
{
    for (int k = 0; k < run->n_losses; k++) {
        struct locus_window other;
        const struct locus_plan *plan = &run->losses[k].plan;
        if (!locus_plan_find(plan, document.n, window.first, &other) || other.n > window.n)
            continue;
        float *nll = run->losses[k].nll + document.first + window.first + 1;
        memcpy(nll + other.from, run->nll + other.from,
               (size_t)(other.n - other.from) * sizeof *nll);
    }
}

/* Tells the watch of the rows that are done. */
static void advance(struct run *run)
{
    const int n_embd = run->session->model->config.n_embd, n = locus_session_length(run->session);
    if (run->watch && run->watch->advance)
        run->watch->advance(run->watch->context,
                            window_work(n, n_embd) - window_work(run->n_advanced, n_embd));
    run->n_advanced = n;
}

/* Between the chunks of a window. */
static bool is_stopped_within(void *context)
{
    struct run *run = context;
    advance(run);
    return is_stopped(run->watch);
}

static enum locus_status score_window(struct run *run, int index, int n, locus_error *error)
{
    if (!run->reference)
        return locus_session_score(run->session, run->fed, n, run->targets, run->nll, error);
    return locus_predictions_score(run->session, run->reference, run->fed, n, run->targets,
                                   run->nll, run->divergence->predictions + index, error);
}

/* Feeds a window of n tokens, whose row 0 predicts token `index`; *whole false if it was stopped.
 */
static enum locus_status feed(struct run *run, int index, int n, bool *whole, locus_error *error)
{
    locus_session *session = run->session;
    bool (*const stop)(void *) = session->stop;
    void *const stop_context = session->stop_context;
    enum locus_status status = locus_session_rewind(session, 0, error);
    if (!status && run->reference) status = locus_session_rewind(run->reference, 0, error);
    if (status) return status;
    if (is_stopped(run->watch)) {
        *whole = false;
        return LOCUS_OK;
    }
    run->n_advanced = 0;
    session->stop = is_stopped_within;
    session->stop_context = run;
    status = score_window(run, index, n, error);
    session->stop = stop;
    session->stop_context = stop_context;
    if (status == LOCUS_ERROR_STOPPED) {
        *whole = false;
        return LOCUS_OK;
    }
    if (!status) advance(run);
    return status;
}

/* A window that was not fed to its end, or that gave no numbers, leaves no predictions. */
static void forget(struct run *run, int index, int n)
{
    for (int i = 0; run->reference && i < n; i++)
        if (run->targets[i] >= 0) run->divergence->predictions[index + i].kl = (double)NAN;
}

static enum locus_status check_losses(const struct run *run, struct locus_document document,
                                      struct locus_window window, locus_error *error)
{
    const int index = document.first + window.first + 1;
    for (int i = 0; i < window.n; i++) {
        if (run->targets[i] < 0) continue;
        const float theirs =
            run->reference ? run->divergence->predictions[index + i].reference_nll : 0;
        const float nll = isfinite(run->nll[i]) ? theirs : run->nll[i];
        if (isfinite(nll)) continue;
        const bool theirs_is_none = run->reference && isfinite(run->nll[i]);
        return locus_fail_numeric((theirs_is_none ? run->reference : run->session)->model, error,
                                  "the loss of token %d, at position %d of its window, is %s%s",
                                  index + i, i + 1, isnan(nll) ? "not a number" : "infinite",
                                  theirs_is_none ? " under the reference" : "");
    }
    return LOCUS_OK;
}

static enum locus_status run_window(struct run *run, struct locus_document document,
                                    struct locus_window window, bool *whole, locus_error *error)
{
    const struct locus_corpus *corpus = run->corpus;
    const int first = document.first + window.first;
    memcpy(run->fed, corpus->tokens + first, (size_t)window.n * sizeof *run->fed);
    if (corpus->begin.rule == LOCUS_BEGIN_EVERY) run->fed[0] = corpus->begin.token;
    ask(run, document, window);
    enum locus_status status = feed(run, first + 1, window.n, whole, error);
    if (!status && *whole) status = check_losses(run, document, window, error);
    if (status || !*whole) {
        forget(run, first + 1, window.n);
        return status;
    }
    store(run, document, window);
    if (!run->watch || !run->watch->window) return LOCUS_OK;
    status = locus_session_rewind(run->session, 0, error);
    return status ? status
                  : run->watch->window(run->watch->context, run->session, run->fed, window, error);
}

static enum locus_status run_document(struct run *run, struct locus_document document, bool *whole,
                                      locus_error *error)
{
    const struct locus_plan *plan = &run->losses->plan;
    const int n_windows = locus_plan_count(plan, document.n);
    for (int i = 0; i < n_windows && *whole; i++) {
        struct locus_window window = locus_plan_window(plan, document.n, i);
        const int target = document.first + window.first + window.from + 1;
        if (!isnan(run->losses->nll[target])) {
            if (run->watch && run->watch->advance)
                run->watch->advance(run->watch->context,
                                    window_work(window.n, run->session->model->config.n_embd));
            continue;
        }
        enum locus_status status = run_window(run, document, window, whole, error);
        if (status) return status;
    }
    return LOCUS_OK;
}

static enum locus_status run_corpus(struct run *run, bool *whole, locus_error *error)
{
    const struct locus_corpus *corpus = run->corpus;
    const int length =
        run->losses->plan.length < corpus->n_tokens ? run->losses->plan.length : corpus->n_tokens;
    const size_t n = (size_t)length;
    enum locus_status status = LOCUS_OK;
    *whole = true;
    run->fed = malloc(n * sizeof *run->fed);
    run->targets = malloc(n * sizeof *run->targets);
    run->nll = malloc(n * sizeof *run->nll);
    if (!run->fed || !run->targets || !run->nll)
        status = locus_fail_memory(error, n * sizeof *run->nll);
    for (int i = 0; i < corpus->n_documents && !status && *whole; i++)
        status = run_document(run, corpus->documents[i], whole, error);
    free(run->fed);
    free(run->targets);
    free(run->nll);
    return status;
}

enum locus_status locus_measure(locus_session *session, const struct locus_corpus *corpus,
                                struct locus_losses *losses, int n_losses,
                                const struct locus_watch *watch, bool *whole, locus_error *error)
{
    struct run run = {.session = session,
                      .corpus = corpus,
                      .losses = losses,
                      .n_losses = n_losses,
                      .watch = watch};
    return run_corpus(&run, whole, error);
}

enum locus_status locus_measure_against(locus_session *session, locus_session *reference,
                                        const struct locus_corpus *corpus,
                                        struct locus_losses *losses,
                                        struct locus_divergence *divergence,
                                        const struct locus_watch *watch, bool *whole,
                                        locus_error *error)
{
    struct run run = {.session = session,
                      .reference = reference,
                      .divergence = divergence,
                      .corpus = corpus,
                      .losses = losses,
                      .n_losses = 1,
                      .watch = watch};
    return run_corpus(&run, whole, error);
}

double locus_plan_work(const struct locus_plan *plan, const struct locus_corpus *corpus, int n_embd)
{
    double work = 0;
    for (int i = 0; i < corpus->n_documents; i++) {
        const int n_windows = locus_plan_count(plan, corpus->documents[i].n);
        for (int j = 0; j < n_windows; j++)
            work += window_work(locus_plan_window(plan, corpus->documents[i].n, j).n, n_embd);
    }
    return work;
}

int64_t locus_corpus_predictions(const struct locus_corpus *corpus, const struct locus_plan *plan)
{
    int64_t n = 0;
    for (int i = 0; i < corpus->n_documents; i++)
        n += locus_plan_tokens(plan, corpus->documents[i].n);
    return n;
}

int locus_corpus_longest(const struct locus_corpus *corpus, const struct locus_plan *plan)
{
    return locus_plan_longest(plan, locus_corpora_longest(corpus, 1));
}

/* ---- summing up --------------------------------------------------------------------------- */

void locus_summary_add(struct locus_summary *summary, double nll, int n_bytes)
{
    summary->tokens++;
    summary->bytes += n_bytes;
    summary->sum += nll;
    summary->squares += nll * nll;
}

struct locus_summary locus_summary_of(const struct locus_losses *losses,
                                      const struct locus_corpus *corpus)
{
    struct locus_summary summary = {0};
    for (int i = 0; i < corpus->n_tokens; i++)
        if (!isnan(losses->nll[i])) locus_summary_add(&summary, losses->nll[i], corpus->n_bytes[i]);
    return summary;
}

struct locus_summary locus_summary_of_rows(const struct locus_losses *losses,
                                           const struct locus_corpus *corpus, int first, int end)
{
    struct locus_summary summary = {0};
    for (int i = 0; i < corpus->n_documents; i++)
        for (int j = 1; j < corpus->documents[i].n; j++) {
            const int row = (j - 1) % losses->plan.length, token = corpus->documents[i].first + j;
            if (row >= first && row < end && !isnan(losses->nll[token]))
                locus_summary_add(&summary, losses->nll[token], corpus->n_bytes[token]);
        }
    return summary;
}

static int clamp(int x, int max)
{
    return x < 0 ? 0 : x < max ? x : max;
}

int64_t locus_corpus_rows(const struct locus_corpus *corpus, const struct locus_plan *plan,
                          int first, int end)
{
    const int length = plan->length;
    int64_t n = 0;
    if (end > length) end = length;
    for (int i = 0; i < corpus->n_documents && first < end; i++) {
        int n_rows = corpus->documents[i].n - 1;
        if (plan->first && n_rows > length) n_rows = length;
        n += (int64_t)(n_rows / length) * (end - first) +
             clamp(n_rows % length - first, end - first);
    }
    return n;
}

double locus_summary_nll(const struct locus_summary *summary)
{
    return summary->tokens ? summary->sum / (double)summary->tokens : (double)NAN;
}

double locus_summary_perplexity(const struct locus_summary *summary)
{
    return exp(locus_summary_nll(summary));
}

double locus_standard_error(double sum, double squares, int64_t n)
{
    if (n < 2) return (double)NAN;
    const double mean = sum / (double)n;
    double variance = squares / (double)n - mean * mean;
    if (variance < 0) variance = 0; /* rounding */
    return sqrt(variance / (double)(n - 1));
}

double locus_summary_error(const struct locus_summary *summary)
{
    return locus_summary_perplexity(summary) *
           locus_standard_error(summary->sum, summary->squares, summary->tokens);
}

double locus_summary_bits_per_byte(const struct locus_summary *summary)
{
    return summary->bytes ? summary->sum / log(2) / (double)summary->bytes : (double)NAN;
}
