/* Divergence of two models' predictions: see divergence.h. */
#include "experiment/divergence.h"

#include <math.h>
#include <stdlib.h>

#include "experiment/perplexity.h"
#include "forward/session.h"
#include "sample/stages.h"

enum locus_status locus_divergence_init(struct locus_divergence *divergence, int n_tokens,
                                        locus_error *error)
{
    const size_t n = (size_t)n_tokens, n_bytes = n * sizeof *divergence->predictions;
    *divergence = (struct locus_divergence){n_tokens, malloc(n_bytes)};
    if (!divergence->predictions) return locus_fail_memory(error, n_bytes);
    for (size_t i = 0; i < n; i++)
        divergence->predictions[i] = (struct locus_prediction){.kl = (double)NAN};
    return LOCUS_OK;
}

void locus_divergence_free(struct locus_divergence *divergence)
{
    free(divergence->predictions);
    *divergence = (struct locus_divergence){0};
}

/* ---- one prediction ----------------------------------------------------------------------- */

/* With e_i = e^(a_i - max a) of the reference's logits a, and b the model's,
 *     sum p ln(p / q) = sum e_i (a_i - b_i) / sum e_i - (ln sum e^a - ln sum e^b);
 * in double precision, for what F16 weights change is small: a ten-millionth of a nat. */
double locus_kl_divergence(const float *reference, const float *model, int n_vocab)
{
    if (n_vocab < 1) return (double)NAN;
    const double max = (double)reference[locus_likeliest(reference, n_vocab)];
    const double model_max = (double)model[locus_likeliest(model, n_vocab)];
    double sum = 0, model_sum = 0, gap = 0;
    for (int i = 0; i < n_vocab; i++) {
        const double share = exp((double)reference[i] - max);
        sum += share;
        model_sum += exp((double)model[i] - model_max);
        if (share > 0) gap += share * ((double)reference[i] - (double)model[i]);
    }
    const double kl = gap / sum - (max - model_max) - log(sum / model_sum);
    return kl < 0 ? 0 : kl; /* rounding; NaN stays */
}

/* Rows of both models' logits, to be compared. */
struct block {
    const locus_session *session, *reference;
    const float *logits, *reference_logits; /* [n, n_vocab] */
    const int32_t *targets;                 /* [n] */
    struct locus_prediction *predictions;   /* [n] */
    int n;
};

static void compare_share(void *context, int thread, int n_threads)
{
    const struct block *block = context;
    const int n_vocab = block->session->model->config.n_vocab;
    int first, end;
    locus_threads_share(block->n, thread, n_threads, &first, &end);
    for (int i = first; i < end; i++) {
        const float *p = block->reference_logits + (size_t)i * (size_t)n_vocab;
        const float *q = block->logits + (size_t)i * (size_t)n_vocab;
        if (block->targets[i] < 0) continue;
        block->predictions[i] = (struct locus_prediction){
            .kl = locus_kl_divergence(p, q, n_vocab),
            .nll = locus_session_loss(block->session, q, block->targets[i]),
            .reference_nll = locus_session_loss(block->reference, p, block->targets[i]),
            .same_top = locus_likeliest(p, n_vocab) == locus_likeliest(q, n_vocab),
        };
    }
}

/* One block of n <= LOCUS_SCORE_ROWS tokens, with room for as many rows of both models' logits. */
static enum locus_status score_block(locus_session *session, locus_session *reference,
                                     const int32_t *tokens, int n, const int32_t *targets,
                                     struct locus_prediction *predictions, float *logits,
                                     locus_error *error)
{
    const size_t n_vocab = (size_t)session->model->config.n_vocab;
    int from = 0;
    while (from < n && targets[from] < 0)
        from++;
    float *reference_logits = logits + (size_t)LOCUS_SCORE_ROWS * n_vocab;
    enum locus_status status =
        locus_session_eval(reference, tokens, n, reference_logits, n - from, error);
    if (!status) status = locus_session_eval(session, tokens, n, logits, n - from, error);
    if (status) return status;
    struct block block = {session,        reference,          logits,  reference_logits,
                          targets + from, predictions + from, n - from};
    locus_threads_run(session->setup.n_threads, compare_share, &block);
    return LOCUS_OK;
}

enum locus_status locus_predictions_score(locus_session *session, locus_session *reference,
                                          const int32_t *tokens, int n, const int32_t *targets,
                                          float *nll, struct locus_prediction *predictions,
                                          locus_error *error)
{
    const int n_vocab = session->model->config.n_vocab;
    const size_t row_bytes = (size_t)n_vocab * sizeof(float);
    enum locus_status status = LOCUS_OK;
    if (reference->model->config.n_vocab != n_vocab)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "a vocabulary of %d tokens, but the reference's has %d", n_vocab,
                          reference->model->config.n_vocab);
    for (int i = 0; i < n; i++)
        if (targets[i] >= n_vocab)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT, "target %d is %d, expected below %d", i,
                              (int)targets[i], n_vocab);
    float *logits = malloc(2 * LOCUS_SCORE_ROWS * row_bytes);
    if (!logits) return locus_fail_memory(error, 2 * LOCUS_SCORE_ROWS * row_bytes);
    for (int done = 0; done < n && !status; done += LOCUS_SCORE_ROWS) {
        const int block = n - done < LOCUS_SCORE_ROWS ? n - done : LOCUS_SCORE_ROWS;
        if (done && (status = locus_session_ask_stop(session, done, n, error))) break;
        status = score_block(session, reference, tokens + done, block, targets + done,
                             predictions + done, logits, error);
    }
    free(logits);
    for (int i = 0; i < n && !status; i++)
        nll[i] = targets[i] < 0 ? 0 : predictions[i].nll;
    return status;
}

/* ---- all of them -------------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double share)
{
    const double at = share * (double)(n - 1);
    const size_t below = (size_t)at, above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

/* A mean as values come. */
struct mean {
    double sum, squares;
};

static void add(struct mean *mean, double value)
{
    mean->sum += value;
    mean->squares += value * value;
}

enum locus_status locus_divergence_sum(const struct locus_divergence *divergences,
                                       int n_divergences, struct locus_divergence_summary *summary,
                                       locus_error *error)
{
    size_t n_max = 0, n = 0;
    for (int i = 0; i < n_divergences; i++)
        n_max += (size_t)divergences[i].n_tokens;
    double *values = malloc((n_max + 1) * sizeof *values), reference_nll = 0;
    if (!values) return locus_fail_memory(error, (n_max + 1) * sizeof *values);
    struct mean kl = {0}, same = {0}, difference = {0};
    for (int i = 0; i < n_divergences; i++)
        for (int j = 0; j < divergences[i].n_tokens; j++) {
            const struct locus_prediction *one = &divergences[i].predictions[j];
            if (isnan(one->kl)) continue;
            values[n++] = one->kl;
            add(&kl, one->kl);
            add(&same, one->same_top ? 1 : 0);
            add(&difference, (double)one->nll - (double)one->reference_nll);
            reference_nll += (double)one->reference_nll;
        }
    *summary = (struct locus_divergence_summary){.tokens = (int64_t)n};
    if (n > 0) {
        const double count = (double)n;
        qsort(values, n, sizeof *values, compare_doubles);
        *summary = (struct locus_divergence_summary){
            .tokens = (int64_t)n,
            .mean = kl.sum / count,
            .error = locus_standard_error(kl.sum, kl.squares, (int64_t)n),
            .median = quantile(values, n, 0.5),
            .quantile_99 = quantile(values, n, 0.99),
            .max = values[n - 1],
            .same_top = same.sum / count,
            .same_top_error = locus_standard_error(same.sum, same.squares, (int64_t)n),
            .reference_nll = reference_nll / count,
            .difference = difference.sum / count,
            .difference_error =
                locus_standard_error(difference.sum, difference.squares, (int64_t)n),
        };
    }
    free(values);
    return LOCUS_OK;
}
