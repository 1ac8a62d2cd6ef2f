/* Results as rows: see report.h. */
#include "experiment/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "forward/cache.h"

enum kind { TEXT, NUMBER };

static const struct {
    const char *name;
    enum kind kind;
} columns[LOCUS_N_COLUMNS] = {
    [LOCUS_COLUMN_TASK] = {"task", TEXT},
    [LOCUS_COLUMN_MODEL] = {"model", TEXT},
    [LOCUS_COLUMN_MODEL_SHA] = {"model_sha", TEXT},
    [LOCUS_COLUMN_WEIGHT_TYPE] = {"weight_type", TEXT},
    [LOCUS_COLUMN_POSITION] = {"position", TEXT},
    [LOCUS_COLUMN_ATTENTION] = {"attention", TEXT},
    [LOCUS_COLUMN_TRAINED_LENGTH] = {"trained_length", NUMBER},
    [LOCUS_COLUMN_TEXT] = {"text", TEXT},
    [LOCUS_COLUMN_LENGTH] = {"length", NUMBER},
    [LOCUS_COLUMN_PROTOCOL] = {"protocol", TEXT},
    [LOCUS_COLUMN_STRIDE] = {"stride", NUMBER},
    [LOCUS_COLUMN_BEGIN_OF_TEXT] = {"begin_of_text", TEXT},
    [LOCUS_COLUMN_DEPTH] = {"depth", NUMBER},
    [LOCUS_COLUMN_TRIALS] = {"trials", NUMBER},
    [LOCUS_COLUMN_TOKENS] = {"tokens", NUMBER},
    [LOCUS_COLUMN_NLL] = {"nll", NUMBER},
    [LOCUS_COLUMN_PERPLEXITY] = {"perplexity", NUMBER},
    [LOCUS_COLUMN_STANDARD_ERROR] = {"standard_error", NUMBER},
    [LOCUS_COLUMN_BITS_PER_BYTE] = {"bits_per_byte", NUMBER},
    [LOCUS_COLUMN_ACCURACY] = {"accuracy", NUMBER},
    [LOCUS_COLUMN_CACHE_TYPE] = {"cache_type", TEXT},
    [LOCUS_COLUMN_KERNELS] = {"kernels", TEXT},
    [LOCUS_COLUMN_SEED] = {"seed", NUMBER},
    [LOCUS_COLUMN_TEXT_SHA] = {"text_sha", TEXT},
    [LOCUS_COLUMN_BEGIN] = {"begin", TEXT},
    [LOCUS_COLUMN_LONGEST_WINDOW] = {"longest_window", NUMBER},
    [LOCUS_COLUMN_DOCUMENTS] = {"documents", TEXT},
    [LOCUS_COLUMN_WINDOWS] = {"windows", TEXT},
    [LOCUS_COLUMN_VERSION] = {"version", TEXT},
    [LOCUS_COLUMN_THREADS] = {"threads", NUMBER},
    [LOCUS_COLUMN_SECONDS] = {"seconds", NUMBER},
};

const char *locus_column_name(enum locus_column column)
{
    return columns[column].name;
}

bool locus_column_is_text(enum locus_column column)
{
    return columns[column].kind == TEXT;
}

/* ---- cells -------------------------------------------------------------------------------- */

bool locus_row_set_text(struct locus_row *row, enum locus_column column, const char *text)
{
    free(row->cells[column]);
    char *copy = row->cells[column] = strdup(text);
    if (copy) locus_text_tame(copy);
    return copy != NULL;
}

bool locus_row_set_int(struct locus_row *row, enum locus_column column, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return locus_row_set_text(row, column, text);
}

bool locus_row_set_real(struct locus_row *row, enum locus_column column, double value)
{
    char text[32];
    if (isnan(value)) {
        free(row->cells[column]);
        row->cells[column] = NULL;
        return true;
    }
    locus_print(text, sizeof text, column == LOCUS_COLUMN_SECONDS ? "%.3f" : "%.9g", value);
    return locus_row_set_text(row, column, text);
}

bool locus_row_set_summary(struct locus_row *row, const struct locus_summary *summary)
{
    bool set = locus_row_set_int(row, LOCUS_COLUMN_TOKENS, summary->tokens);
    set &= locus_row_set_real(row, LOCUS_COLUMN_NLL, locus_summary_nll(summary));
    set &= locus_row_set_real(row, LOCUS_COLUMN_PERPLEXITY, locus_summary_perplexity(summary));
    set &= locus_row_set_real(row, LOCUS_COLUMN_STANDARD_ERROR, locus_summary_error(summary));
    return set & locus_row_set_real(row, LOCUS_COLUMN_BITS_PER_BYTE,
                                    locus_summary_bits_per_byte(summary));
}

bool locus_row_set_session(struct locus_row *row, const char *task,
                           const struct locus_opened_model *model,
                           const struct locus_description *session)
{
    const struct {
        enum locus_column column;
        const char *text;
    } cells[] = {
        {LOCUS_COLUMN_TASK, task},
        {LOCUS_COLUMN_MODEL, model->name},
        {LOCUS_COLUMN_MODEL_SHA, model->sha},
        {LOCUS_COLUMN_WEIGHT_TYPE, model->info.weight_type},
        {LOCUS_COLUMN_POSITION, session->position},
        {LOCUS_COLUMN_ATTENTION, session->attention},
        {LOCUS_COLUMN_CACHE_TYPE, locus_cache_type_name(session->cache_type)},
        {LOCUS_COLUMN_KERNELS, session->kernels.name},
        {LOCUS_COLUMN_VERSION, LOCUS_VERSION},
    };
    bool set = true;
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
        set &= locus_row_set_text(row, cells[i].column, cells[i].text);
    set &= locus_row_set_int(row, LOCUS_COLUMN_TRAINED_LENGTH, model->info.trained_length);
    return set & locus_row_set_int(row, LOCUS_COLUMN_THREADS, session->n_threads);
}

bool locus_row_set_begin(struct locus_row *row, enum locus_begin_rule rule)
{
    static const char *const places[] = {[LOCUS_BEGIN_AUTO] = "none",
                                         [LOCUS_BEGIN_NONE] = "none",
                                         [LOCUS_BEGIN_FIRST] = "before",
                                         [LOCUS_BEGIN_EVERY] = "over"};
    bool set = locus_row_set_text(row, LOCUS_COLUMN_BEGIN_OF_TEXT, places[rule]);
    return set & locus_row_set_text(row, LOCUS_COLUMN_BEGIN, locus_begin_name(rule));
}

bool locus_row_set_plan(struct locus_row *row, const char *text, const char *sha,
                        const struct locus_plan *plan, const struct locus_corpus *corpus)
{
    bool set = locus_row_set_text(row, LOCUS_COLUMN_TEXT, text);
    set &= locus_row_set_text(row, LOCUS_COLUMN_TEXT_SHA, sha);
    set &= locus_row_set_int(row, LOCUS_COLUMN_LENGTH, plan->length);
    set &= locus_row_set_text(row, LOCUS_COLUMN_PROTOCOL, locus_protocol_name(plan->protocol));
    if (plan->protocol == LOCUS_SLIDING)
        set &= locus_row_set_int(row, LOCUS_COLUMN_STRIDE, plan->stride);
    set &= locus_row_set_int(row, LOCUS_COLUMN_LONGEST_WINDOW, locus_corpus_longest(corpus, plan));
    set &= locus_row_set_text(row, LOCUS_COLUMN_DOCUMENTS, corpus->cut ? "each" : "whole");
    set &= locus_row_set_text(row, LOCUS_COLUMN_WINDOWS, plan->first ? "first" : "all");
    return set & locus_row_set_begin(row, corpus->begin.rule);
}

double locus_row_number(const struct locus_row *row, enum locus_column column)
{
    return row->cells[column] ? locus_number_read(row->cells[column], NULL) : (double)NAN;
}

bool locus_row_copy(struct locus_row *to, const struct locus_row *from)
{
    bool copied = true;
    *to = (struct locus_row){{0}};
    for (int i = 0; i < LOCUS_N_COLUMNS; i++)
        if (from->cells[i]) copied &= (to->cells[i] = strdup(from->cells[i])) != NULL;
    return copied;
}

void locus_row_free(struct locus_row *row)
{
    for (int i = 0; i < LOCUS_N_COLUMNS; i++)
        free(row->cells[i]);
    *row = (struct locus_row){{0}};
}

/* ---- pooling ------------------------------------------------------------------------------ */

/* A count that a row's digits tell, whatever they are. */
static int64_t count_of(double value)
{
    if (!(value > 0)) return 0;
    return value < LOCUS_MOST_TOKENS ? llround(value) : (int64_t)LOCUS_MOST_TOKENS;
}

/* The sums behind a row, as far as its digits tell them. */
static struct locus_summary summary_of(const struct locus_row *row)
{
    const double tokens = locus_row_number(row, LOCUS_COLUMN_TOKENS);
    const double nll = locus_row_number(row, LOCUS_COLUMN_NLL);
    const double relative = locus_row_number(row, LOCUS_COLUMN_STANDARD_ERROR) /
                            locus_row_number(row, LOCUS_COLUMN_PERPLEXITY);
    const double bits = locus_row_number(row, LOCUS_COLUMN_BITS_PER_BYTE);
    struct locus_summary summary = {.tokens = count_of(tokens), .sum = nll * tokens};
    if (bits > 0) summary.bytes = count_of(summary.sum / log(2) / bits);
    const double variance = isfinite(relative) ? relative * relative * (tokens - 1) : 0;
    summary.squares = (variance + nll * nll) * tokens;
    return summary;
}

bool locus_row_pool(struct locus_row *pooled, const struct locus_row *const *rows, int n_rows,
                    const char *texts_sha)
{
    static const enum locus_column largest[] = {LOCUS_COLUMN_LENGTH, LOCUS_COLUMN_LONGEST_WINDOW};
    struct locus_summary sum = {0};
    double seconds = 0;
    for (int i = 0; i < n_rows; i++) {
        struct locus_summary one = summary_of(rows[i]);
        sum.tokens += one.tokens;
        sum.bytes += one.bytes;
        sum.sum += one.sum;
        sum.squares += one.squares;
        seconds += locus_row_number(rows[i], LOCUS_COLUMN_SECONDS);
    }
    bool set = locus_row_copy(pooled, rows[0]);
    set &= locus_row_set_text(pooled, LOCUS_COLUMN_TEXT, "pooled");
    set &= locus_row_set_text(pooled, LOCUS_COLUMN_TEXT_SHA, texts_sha);
    for (int i = 1; i < n_rows; i++)
        for (int j = 0; j < 2; j++)
            if (locus_row_number(rows[i], largest[j]) > locus_row_number(pooled, largest[j]))
                set &= locus_row_set_text(pooled, largest[j], rows[i]->cells[largest[j]]);
    set &= locus_row_set_summary(pooled, &sum);
    return set & locus_row_set_real(pooled, LOCUS_COLUMN_SECONDS, seconds);
}
