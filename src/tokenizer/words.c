/* Cutting a text into words: see words.h.
 *
 *     text -> runs of valid UTF-8 -> matches of the pattern's first pass, and what lies between
 *          -> each of these by the next pass -> words
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/words.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/patterns.h"

struct locus_words {
    const struct locus_pattern *pattern;
    const char *assumed; /* see locus_words_assumed */
    pcre2_code *codes[LOCUS_MAX_PASSES];
    int n_passes;
    pcre2_match_context *limits;
};

static const struct locus_pattern *find_pattern(const struct locus_checkpoint *checkpoint,
                                                const char **assumed, locus_error *error)
{
    static const char key[] = "tokenizer.ggml.pre";
    const char *path = locus_checkpoint_path(checkpoint), *nearest = NULL;
    struct locus_word name = {"gpt-2", 5};
    if (!locus_checkpoint_has(checkpoint, key)) {
        *assumed = "the file has no tokenizer.ggml.pre: words are cut as GPT-2 cuts them";
    } else if (!locus_checkpoint_string(checkpoint, key, &name.bytes, &name.n_bytes)) {
        locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not a string", path, key);
        return NULL;
    } else if (locus_word_is(name, "default")) {
        *assumed = "tokenizer.ggml.pre is \"default\", no model's own pattern: words are cut as "
                   "llama.cpp cuts them then";
    }
    const struct locus_pattern *pattern = locus_pattern_find(name, &nearest);
    if (!pattern)
        locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                   "%s: unknown %s \"%.*s\", the nearest known is \"%s\"", path, key,
                   locus_word_shown(name), name.bytes, nearest);
    return pattern;
}

static enum locus_status compile(struct locus_words *words, locus_error *error)
{
    words->limits = pcre2_match_context_create(NULL);
    if (!words->limits) return locus_fail_memory(error, sizeof(PCRE2_SIZE));
    pcre2_set_match_limit(words->limits, UINT32_MAX); /* blanks by the million backtrack a lot */
    for (const char *const *regex = words->pattern->passes; *regex; regex++) {
        int code;
        size_t offset;
        pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)*regex, PCRE2_ZERO_TERMINATED,
                                             PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
        if (!compiled)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "PCRE2 refuses the pattern \"%s\" with its error %d",
                              words->pattern->name, code);
        words->codes[words->n_passes++] = compiled;
        /* Where there is no JIT, pcre2_match does the same, slower. */
        (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    }
    return LOCUS_OK;
}

struct locus_words *locus_words_create(const struct locus_checkpoint *checkpoint,
                                       locus_error *error)
{
    struct locus_words *words = calloc(1, sizeof *words);
    if (!words) {
        locus_fail_memory(error, sizeof *words);
        return NULL;
    }
    words->pattern = find_pattern(checkpoint, &words->assumed, error);
    if (!words->pattern || compile(words, error)) {
        locus_words_free(words);
        return NULL;
    }
    return words;
}

void locus_words_free(struct locus_words *words)
{
    if (!words) return;
    pcre2_match_context_free(words->limits);
    for (int i = 0; i < words->n_passes; i++)
        pcre2_code_free(words->codes[i]);
    free(words);
}

bool locus_words_whole(const struct locus_words *words)
{
    return words->pattern->whole;
}

bool locus_words_begin(const struct locus_words *words)
{
    return words->pattern->begin;
}

const char *locus_words_assumed(const struct locus_words *words)
{
    return words->assumed;
}

struct cutter {
    const struct locus_words *words;
    pcre2_match_data *match;
    locus_word_visitor *visit;
    void *context;
    locus_error *error;
};

static enum locus_status cut(const struct cutter *cutter, int pass, const char *text,
                             size_t n_bytes);

/* What a pass leaves whole: the next one's text, or a word. */
static enum locus_status piece(const struct cutter *cutter, int pass, const char *text,
                               size_t n_bytes)
{
    if (n_bytes == 0) return LOCUS_OK;
    if (pass + 1 < cutter->words->n_passes) return cut(cutter, pass + 1, text, n_bytes);
    return cutter->visit(cutter->context, text, n_bytes, cutter->error);
}

/* The words of text that is valid UTF-8, from a pass on. */
static enum locus_status cut(const struct cutter *cutter, int pass, const char *text,
                             size_t n_bytes)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(cutter->match);
    for (size_t at = 0; at < n_bytes;) {
        size_t start = n_bytes, end = n_bytes;
        int found = pcre2_match(cutter->words->codes[pass], (PCRE2_SPTR)text, n_bytes, at,
                                PCRE2_NO_UTF_CHECK, cutter->match, cutter->words->limits);
        if (found > 0 && span[1] > span[0]) {
            start = span[0];
            end = span[1];
        } else if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
            return locus_fail(cutter->error, LOCUS_ERROR_UNSUPPORTED,
                              "PCRE2 stopped in the text with its error %d", found);
        }
        enum locus_status status = piece(cutter, pass, text + at, start - at);
        if (!status) status = piece(cutter, pass, text + start, end - start);
        if (status) return status;
        at = end;
    }
    return LOCUS_OK;
}

/* The length of the run that is all valid, or all invalid, as its beginning is. */
static size_t run_length(const char *text, size_t n_bytes, bool *valid)
{
    size_t at = 0;
    *valid = locus_utf8_scan(text, n_bytes) > 0;
    while (at < n_bytes) {
        int length = locus_utf8_scan(text + at, n_bytes - at < 4 ? n_bytes - at : 4);
        if ((length > 0) != *valid) break;
        at += length > 0 ? (size_t)length : 1;
    }
    return at;
}

enum locus_status locus_words_each(const struct locus_words *words, const char *text,
                                   size_t n_bytes, locus_word_visitor *visit, void *context,
                                   locus_error *error)
{
    struct cutter cutter = {words, pcre2_match_data_create(1, NULL), visit, context, error};
    if (!cutter.match) return locus_fail_memory(error, sizeof(PCRE2_SIZE));
    enum locus_status status = LOCUS_OK;
    for (size_t at = 0, length; at < n_bytes && !status; at += length) {
        bool valid;
        length = run_length(text + at, n_bytes - at, &valid);
        status =
            valid ? cut(&cutter, 0, text + at, length) : visit(context, text + at, length, error);
    }
    pcre2_match_data_free(cutter.match);
    return status;
}
