/* locus perplexity --reference: a second model beside the first, and how far their predictions are
 * apart. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "base/text.h"
#include "cli/commands/perplexity.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/page.h"
#include "cli/kit/session_options.h"
#include "cli/kit/table.h"
#include "forward/session.h"
#include "tokenizer/tokenizer.h"

/* ---- making ready ------------------------------------------------------------------------- */

/* Whether every id stands for the same bytes; *id is the first that doesn't. */
static bool same_vocabulary(const struct locus_opened_model *a, const struct locus_opened_model *b,
                            int *id)
{
    int n_a = locus_tokenizer_n_tokens(a->tokenizer), n_b = locus_tokenizer_n_tokens(b->tokenizer);
    const int n = n_a > n_b ? n_a : n_b;
    for (*id = 0; *id < n; ++*id) {
        size_t length_a, length_b;
        const char *piece_a =
            locus_token_piece(a->tokenizer, -1, *id, LOCUS_TEXT_SPECIAL, &length_a);
        const char *piece_b =
            locus_token_piece(b->tokenizer, -1, *id, LOCUS_TEXT_SPECIAL, &length_b);
        if (length_a != length_b || memcmp(piece_a, piece_b, length_a) != 0) return false;
    }
    return true;
}

int locus_reference_open(struct locus_perplexity *run)
{
    struct locus_opened_model *reference = &run->reference.model;
    struct locus_common common = run->options->common;
    int id;
    if (!run->options->reference) return -1;
    common.model = run->options->reference;
    int status = locus_model_option(reference, &common);
    if (status < 0 && run->options->json) status = locus_model_hash_option(reference);
    if (status >= 0) return status;
    if (reference->info.n_vocab != run->model.info.n_vocab)
        return locus_log_error("%s has %d tokens, but %s has %d: expected one vocabulary",
                               reference->path, reference->info.n_vocab, run->model.path,
                               run->model.info.n_vocab);
    if (!same_vocabulary(reference, &run->model, &id))
        return locus_log_error("token %d of %s is another in %s: expected one vocabulary", id,
                               reference->path, run->model.path);
    run->reference.divergences =
        calloc((size_t)run->texts.n_items, sizeof *run->reference.divergences);
    return run->reference.divergences ? -1 : locus_log_error("out of memory for the results");
}

int locus_reference_encode(struct locus_perplexity *run, int index)
{
    const struct locus_corpus *corpus = &run->corpora[index];
    struct locus_corpus other = {0};
    struct locus_corpus_options corpus_options = run->corpus_options;
    if (!run->options->reference) return -1;
    int status = locus_begin_option(&corpus_options.begin, "perplexity", run->options->text.begin,
                                    run->plan.protocol, &run->reference.model);
    if (status < 0)
        status = locus_text_encode(&other, &run->reference.model, &run->texts.items[index],
                                   &corpus_options, true);
    const size_t n_bytes = (size_t)corpus->n_tokens * sizeof *corpus->tokens;
    if (status < 0 &&
        (other.n_tokens != corpus->n_tokens || other.begin.rule != corpus->begin.rule ||
         other.begin.token != corpus->begin.token ||
         memcmp(other.tokens, corpus->tokens, n_bytes) != 0))
        status = locus_log_error("%s reads %s as %d tokens, %s as %d, not the same: expected one "
                                 "tokenizer",
                                 run->reference.model.path, run->texts.items[index].path,
                                 other.n_tokens, run->model.path, corpus->n_tokens);
    locus_corpus_free(&other);
    return status;
}

int locus_reference_session(struct locus_perplexity *run)
{
    const locus_session_params params = locus_session_options(&run->options->common);
    locus_error error;
    if (!run->options->reference) return -1;
    run->reference.session =
        locus_session_for_text(run->reference.model.model, &params, run->plan.length,
                               locus_corpora_longest(run->corpora, run->texts.n_items), &error);
    if (run->reference.session) return -1;
    return locus_log_error("%s: %s", run->reference.model.path, error.message);
}

/* ---- the result --------------------------------------------------------------------------- */

enum locus_status locus_reference_sum(const struct locus_perplexity *run,
                                      struct locus_divergence_summary **summaries,
                                      locus_error *error)
{
    const struct locus_divergence *divergences = run->reference.divergences;
    const size_t n_bytes = (size_t)run->n_rows * sizeof **summaries;
    const int last = run->n_rows - 1;
    enum locus_status status = LOCUS_OK;
    *summaries = malloc(n_bytes);
    if (!*summaries) return locus_fail_memory(error, n_bytes);
    for (int i = 0; i < last && !status; i++)
        status = locus_divergence_sum(divergences + i, 1, &(*summaries)[i], error);
    if (!status)
        status = locus_divergence_sum(divergences, last ? last : 1, &(*summaries)[last], error);
    if (!status) return LOCUS_OK;
    free(*summaries);
    *summaries = NULL;
    return status;
}

static void number(struct locus_json *json, const char *key, double value)
{
    char text[32];
    locus_print(text, sizeof text, "%.9g", value);
    locus_json_number(json, key, isfinite(value) ? text : NULL);
}

void locus_reference_json(const struct locus_perplexity *run,
                          const struct locus_divergence_summary *summary, struct locus_json *json)
{
    const struct locus_reference *reference = &run->reference;
    locus_json_open(json, "reference", '{');
    locus_json_text(json, "model", reference->model.name);
    locus_json_text(json, "model_sha", reference->model.sha);
    locus_json_text(json, "weight_type", reference->model.info.weight_type);
    locus_json_text(json, "position", locus_session_position(reference->session));
    locus_json_text(json, "cache_type", locus_session_cache_name(reference->session));
    number(json, "nll", summary->reference_nll);
    number(json, "perplexity", exp(summary->reference_nll));
    number(json, "nll_difference", summary->difference);
    number(json, "nll_difference_error", summary->difference_error);
    number(json, "kl", summary->mean);
    number(json, "kl_error", summary->error);
    number(json, "kl_median", summary->median);
    number(json, "kl_99", summary->quantile_99);
    number(json, "kl_max", summary->max);
    number(json, "same_top", summary->same_top);
    number(json, "same_top_error", summary->same_top_error);
    locus_json_close(json, '}');
}

/* A standard error, which one token alone has none of. */
static void add_error(struct locus_table *lines, double error)
{
    if (isnan(error))
        locus_table_add(lines, "-");
    else
        locus_table_add(lines, "%.2g", error);
}

static void add_row(struct locus_table *lines, const char *text,
                    const struct locus_divergence_summary *summary)
{
    locus_table_add(lines, "%s", text);
    locus_table_add(lines, "%.4f", exp(summary->reference_nll));
    locus_table_add(lines, "%.4g", summary->mean);
    add_error(lines, summary->error);
    locus_table_add(lines, "%.4g", summary->median);
    locus_table_add(lines, "%.4g", summary->quantile_99);
    locus_table_add(lines, "%.4g", summary->max);
    locus_table_add(lines, "%.3f", 100 * summary->same_top);
    add_error(lines, 100 * summary->same_top_error);
}

void locus_reference_table(const struct locus_perplexity *run,
                           const struct locus_divergence_summary *summaries,
                           struct locus_buffer *out)
{
    static const char *const head[] = {"text", "its perplexity", "mean KL", "+-", "median", "99 %",
                                       "max",  "same top %",     "+-"};
    struct locus_table lines = {.n_columns = sizeof head / sizeof *head,
                                .n_left = 1,
                                .width = locus_page_columns(STDOUT_FILENO)};
    locus_buffer_append(out, "\nagainst ", 9);
    locus_text_append(out, run->reference.model.name);
    locus_buffer_printf(out, " (%s)\n", run->reference.model.info.weight_type);
    for (int i = 0; i < lines.n_columns; i++)
        locus_table_add(&lines, "%s", head[i]);
    for (int i = 0; i < run->n_rows; i++)
        add_row(&lines, run->rows[i].cells[LOCUS_COLUMN_TEXT], &summaries[i]);
    locus_table_print(&lines, out);
}

void locus_reference_release(struct locus_perplexity *run)
{
    for (int i = 0; run->reference.divergences && i < run->texts.n_items; i++)
        locus_divergence_free(&run->reference.divergences[i]);
    free(run->reference.divergences);
    locus_session_free(run->reference.session);
    locus_opened_model_close(&run->reference.model);
}
