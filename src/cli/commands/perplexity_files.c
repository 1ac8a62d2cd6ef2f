/* locus perplexity: the files of --logits and --per-token. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands/perplexity.h"

/* ---- logits ------------------------------------------------------------------------------- */

/* The header of a .npy file, version 1.0: magic, version, length, a Python dictionary, and spaces
 * so that the data is aligned to 64 bytes. */
enum locus_status locus_logits_begin(struct locus_perplexity *run, locus_error *error)
{
    enum { FIXED = 10, ALIGNED = 64 };
    const int64_t n_rows = locus_corpus_predictions(run->corpora, &run->plan);
    char header[4 * ALIGNED];
    memset(header, ' ', sizeof header);
    int length = snprintf(header + FIXED, sizeof header - FIXED,
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }",
                          (long long)n_rows, run->model.info.n_vocab);
    header[FIXED + length] = ' ';
    int size = (FIXED + length + 1 + ALIGNED - 1) / ALIGNED * ALIGNED;
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((size - FIXED) & 0xFF);
    header[9] = (char)((size - FIXED) >> 8);
    header[size - 1] = '\n';
    enum locus_status status = locus_output_begin(&run->logits, run->options->logits, error);
    return status ? status : locus_output_write(&run->logits, header, (size_t)size, error);
}

enum locus_status locus_logits_window(void *context, locus_session *session, const int32_t *tokens,
                                      struct locus_window window, locus_error *error)
{
    enum { BLOCK = 64 }; /* rows of logits held at a time */
    struct locus_perplexity *run = context;
    const size_t n_vocab = (size_t)run->model.info.n_vocab;
    float *logits = malloc(BLOCK * n_vocab * sizeof *logits);
    if (!logits) return locus_fail_memory(error, BLOCK * n_vocab * sizeof *logits);
    enum locus_status status = LOCUS_OK;
    if (window.from > 0) status = locus_session_eval(session, tokens, window.from, NULL, 0, error);
    for (int first = window.from; first < window.n && !status; first += BLOCK) {
        const int n = window.n - first < BLOCK ? window.n - first : BLOCK;
        status = locus_session_eval(session, tokens + first, n, logits, n, error);
        if (!status)
            status = locus_output_write(&run->logits, logits, (size_t)n * n_vocab * sizeof *logits,
                                        error);
    }
    free(logits);
    return status;
}

/* ---- per token ---------------------------------------------------------------------------- */

/* A piece on one line of UTF-8. */
static void append_piece(struct locus_buffer *out, const char *bytes, size_t n_bytes)
{
    struct locus_buffer shown = {0};
    locus_text_escape(&shown, bytes, n_bytes);
    out->failed |= shown.failed;
    if (shown.length) locus_csv_cell(out, shown.bytes, shown.length);
    locus_buffer_free(&shown);
}

static void append_token(const struct locus_perplexity *run, const struct locus_corpus *corpus,
                         const struct locus_losses *losses,
                         const struct locus_divergence *divergence, int index, int position,
                         struct locus_buffer *out)
{
    size_t n_bytes;
    const char *piece = locus_token_piece(run->model.tokenizer, corpus->tokens[index - 1],
                                          corpus->tokens[index], LOCUS_TEXT_SPECIAL, &n_bytes);
    locus_buffer_printf(out, "%d,%d,%d,", index, position, corpus->tokens[index]);
    append_piece(out, piece, n_bytes);
    locus_buffer_printf(out, ",%.9g", (double)losses->nll[index]);
    if (divergence) {
        const struct locus_prediction *both = &divergence->predictions[index];
        locus_buffer_printf(out, ",%.9g,%.9g,%d", (double)both->reference_nll, both->kl,
                            both->same_top);
    }
    locus_buffer_append(out, "\n", 1);
}

static void append_document(const struct locus_perplexity *run, const struct locus_corpus *corpus,
                            const struct locus_losses *losses,
                            const struct locus_divergence *divergence,
                            struct locus_document document, struct locus_buffer *out)
{
    const int n_windows = locus_plan_count(&losses->plan, document.n);
    for (int i = 0; i < n_windows; i++) {
        struct locus_window window = locus_plan_window(&losses->plan, document.n, i);
        for (int row = window.from; row < window.n; row++) {
            const int index = document.first + window.first + row + 1;
            if (!isnan(losses->nll[index]))
                append_token(run, corpus, losses, divergence, index, row + 1, out);
        }
    }
}

enum locus_status locus_per_token_write(const struct locus_perplexity *run,
                                        const struct locus_corpus *corpus,
                                        const struct locus_losses *losses,
                                        const struct locus_divergence *divergence,
                                        locus_error *error)
{
    struct locus_output_file file;
    struct locus_buffer out = {0};
    enum locus_status status = locus_output_begin(&file, run->options->per_token, error);
    if (status) return status;
    locus_buffer_printf(&out, "index,position,id,piece,nll%s\n",
                        divergence ? ",reference_nll,kl,same_top" : "");
    for (int i = 0; i < corpus->n_documents && !status; i++) {
        append_document(run, corpus, losses, divergence, corpus->documents[i], &out);
        status = out.failed ? locus_fail_memory(error, out.length)
                            : locus_output_write(&file, out.bytes, out.length, error);
        out.length = 0;
    }
    locus_buffer_free(&out);
    if (!status) return locus_output_commit(&file, error);
    locus_output_abort(&file);
    return status;
}
