/* A text to be measured on: see corpus.h. */
#include "experiment/corpus.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "tokenizer/tokenizer.h"

/* ---- begin-of-text ------------------------------------------------------------------------ */

const char *locus_begin_name(enum locus_begin_rule rule)
{
    static const char *const names[] = {[LOCUS_BEGIN_AUTO] = "auto",
                                        [LOCUS_BEGIN_NONE] = "none",
                                        [LOCUS_BEGIN_FIRST] = "first",
                                        [LOCUS_BEGIN_EVERY] = "every"};
    return names[rule];
}

enum locus_status locus_begin_resolve(struct locus_begin *begin, enum locus_begin_rule rule,
                                      enum locus_protocol protocol, const locus_model *model,
                                      const locus_tokenizer *tokenizer, locus_error *error)
{
    const int32_t token = locus_tokenizer_begin(tokenizer);
    const bool half = protocol == LOCUS_HALF;
    if (rule == LOCUS_BEGIN_AUTO) {
        const enum locus_begin_rule usual = half ? LOCUS_BEGIN_EVERY : LOCUS_BEGIN_FIRST;
        rule = token < 0 ? LOCUS_BEGIN_NONE : usual;
    }
    *begin = (struct locus_begin){rule, -1};
    if (rule == LOCUS_BEGIN_NONE) return LOCUS_OK;
    if (rule == LOCUS_BEGIN_FIRST && half)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "protocol half puts begin-of-text over the first token of every window, "
                          "found 'first', expected every or none");
    begin->token = token >= 0 ? token : model->bos_token;
    if (begin->token >= 0) return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                      "the model names no begin-of-text token (tokenizer.ggml.bos_token_id), that "
                      "'%s' could put",
                      locus_begin_name(rule));
}

/* ---- documents ---------------------------------------------------------------------------- */

/* Bytes of a text. */
struct span {
    const char *bytes;
    size_t n_bytes;
};

enum { MAX_MARKS = 2 };

/* A text being cut. */
struct cutter {
    struct span rest;
    struct span marks[MAX_MARKS]; /* empty ones match nothing */
    bool by_marks;
};

static struct span end_mark(const locus_model *model, const locus_tokenizer *tokenizer)
{
    struct span mark = {"", 0};
    int32_t end = locus_model_info_get(model).eos_token;
    if (end < 0) return mark;
    mark.bytes = locus_token_piece(tokenizer, -1, end, LOCUS_TEXT_SPECIAL, &mark.n_bytes);
    bool bracketed =
        mark.n_bytes > 2 && mark.bytes[0] == '<' && mark.bytes[mark.n_bytes - 1] == '>';
    return bracketed ? mark : (struct span){"", 0};
}

static bool begins_with(struct span text, struct span mark)
{
    return mark.n_bytes > 0 && text.n_bytes >= mark.n_bytes &&
           memcmp(text.bytes, mark.bytes, mark.n_bytes) == 0;
}

/* Length of the mark that `text` begins with; 0: none. */
static size_t mark_length(const struct cutter *cutter, struct span text)
{
    for (int i = 0; i < MAX_MARKS; i++)
        if (begins_with(text, cutter->marks[i])) return cutter->marks[i].n_bytes;
    return 0;
}

/* Length of the end of a line and two or more blank lines after it; 0: none. */
static size_t gap_length(struct span text)
{
    size_t length = 0;
    int n_ends = 0;
    if (text.n_bytes == 0 || *text.bytes != '\n') return 0;
    for (size_t i = 0; i < text.n_bytes; i++) {
        if (text.bytes[i] == '\n')
            n_ends++, length = i + 1;
        else if (text.bytes[i] != '\r')
            break;
    }
    return n_ends >= 3 ? length : 0;
}

static int count_marks(const struct cutter *cutter)
{
    int n = 0;
    for (struct span rest = cutter->rest; rest.n_bytes > 0;) {
        size_t length = mark_length(cutter, rest);
        n += length > 0 && n < INT_MAX;
        length += length == 0;
        rest.bytes += length;
        rest.n_bytes -= length;
    }
    return n;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static struct span trim(struct span text)
{
    while (text.n_bytes > 0 && is_space(text.bytes[text.n_bytes - 1]))
        text.n_bytes--;
    while (text.n_bytes > 0 && is_space(*text.bytes))
        text.bytes++, text.n_bytes--;
    return text;
}

/* Takes the next document off the rest; false at the end. */
static bool next_document(struct cutter *cutter, struct span *document)
{
    struct span rest = cutter->rest;
    if (rest.n_bytes == 0) return false;
    size_t at = 0, cut = 0;
    for (; at < rest.n_bytes; at++) {
        struct span here = {rest.bytes + at, rest.n_bytes - at};
        cut = cutter->by_marks ? mark_length(cutter, here) : gap_length(here);
        if (cut > 0) break;
    }
    *document = trim((struct span){rest.bytes, at});
    cutter->rest = (struct span){rest.bytes + at + cut, rest.n_bytes - at - cut};
    return true;
}

/* [begin-of-text] + the text's tokens + [end-of-text], to be freed. */
static enum locus_status encode_document(const struct locus_corpus *corpus,
                                         const locus_tokenizer *tokenizer, struct span text,
                                         int32_t **framed, size_t *n_framed, locus_error *error)
{
    int32_t *tokens, *all;
    size_t n, at = 0;
    enum locus_status status =
        locus_encode(tokenizer, text.bytes, text.n_bytes, LOCUS_TEXT_END, &tokens, &n, error);
    *n_framed = 0;
    *framed = all = status ? NULL : malloc((n + 1) * sizeof *all);
    if (all) {
        if (corpus->begin.token >= 0) all[at++] = corpus->begin.token;
        if (n > 0) memcpy(all + at, tokens, n * sizeof *all);
        *n_framed = at + n;
    }
    free(tokens);
    if (status) return status;
    return all ? LOCUS_OK : locus_fail_memory(error, (n + 1) * sizeof *all);
}

static enum locus_status add_document(struct locus_corpus *corpus, const locus_tokenizer *tokenizer,
                                      struct span text, locus_error *error)
{
    int32_t *tokens;
    size_t n;
    enum locus_status status = encode_document(corpus, tokenizer, text, &tokens, &n, error);
    if (status || n < 2) { /* one token predicts nothing */
        free(tokens);
        return status;
    }
    size_t total = (size_t)corpus->n_tokens + n;
    size_t n_documents = (size_t)corpus->n_documents + 1;
    if (total >= INT_MAX) {
        free(tokens);
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "the text is %zu tokens or more, expected fewer than %d", total, INT_MAX);
    }
    int32_t *all = realloc(corpus->tokens, total * sizeof *all);
    if (all) corpus->tokens = all;
    struct locus_document *documents =
        all ? realloc(corpus->documents, n_documents * sizeof *documents) : NULL;
    if (documents) {
        corpus->documents = documents;
        memcpy(all + corpus->n_tokens, tokens, n * sizeof *tokens);
        documents[corpus->n_documents++] = (struct locus_document){corpus->n_tokens, (int)n};
        corpus->n_tokens = (int)total;
    }
    free(tokens);
    return documents ? LOCUS_OK : locus_fail_memory(error, total * sizeof *all);
}

/* How many bytes each token stands for. */
static enum locus_status measure_tokens(struct locus_corpus *corpus,
                                        const locus_tokenizer *tokenizer, locus_error *error)
{
    size_t n_tokens = (size_t)corpus->n_tokens;
    corpus->n_bytes = malloc(n_tokens * sizeof *corpus->n_bytes);
    if (!corpus->n_bytes) return locus_fail_memory(error, n_tokens * sizeof *corpus->n_bytes);
    for (int i = 0; i < corpus->n_documents; i++) {
        struct locus_document document = corpus->documents[i];
        int32_t previous = -1;
        for (int j = document.first; j < document.first + document.n; j++) {
            size_t n;
            (void)locus_token_piece(tokenizer, previous, corpus->tokens[j], 0, &n);
            corpus->n_bytes[j] = (int32_t)n;
            previous = corpus->tokens[j];
        }
    }
    return LOCUS_OK;
}

enum locus_status locus_corpus_encode(struct locus_corpus *corpus, const locus_model *model,
                                      const locus_tokenizer *tokenizer, const char *text,
                                      size_t n_bytes, const struct locus_corpus_options *options,
                                      locus_error *error)
{
    const bool documents = corpus->cut = options->documents;
    struct span whole = {text ? text : "", n_bytes};
    struct cutter cutter = {.rest = whole,
                            .marks = {{"<|endoftext|>", 13}, end_mark(model, tokenizer)}};
    enum locus_status status = LOCUS_OK;
    corpus->begin = options->begin;
    int n_marks = count_marks(&cutter);
    cutter.by_marks = n_marks > 0;
    if (!documents) corpus->n_marks = n_marks;
    struct span document;
    if (!documents) status = add_document(corpus, tokenizer, whole, error);
    while (documents && !status && next_document(&cutter, &document))
        status = add_document(corpus, tokenizer, document, error);
    if (status) return status;
    if (corpus->n_documents == 0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "nothing to predict: %zu bytes give fewer than 2 tokens", n_bytes);
    return measure_tokens(corpus, tokenizer, error);
}

int locus_corpora_longest(const struct locus_corpus *corpora, int n_corpora)
{
    int longest = 0;
    for (int i = 0; i < n_corpora; i++)
        for (int j = 0; j < corpora[i].n_documents; j++)
            if (corpora[i].documents[j].n > longest) longest = corpora[i].documents[j].n;
    return longest;
}

void locus_corpus_free(struct locus_corpus *corpus)
{
    free(corpus->tokens);
    free(corpus->n_bytes);
    free(corpus->documents);
    *corpus = (struct locus_corpus){0};
}
