/* Cutting a text into words: see words.h.
 *
 *     text -> runs of valid UTF-8 -> matches of the pattern, and what lies between them
 *
 * No group in a pattern is repeated, so that a word of any length needs no stack to match.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/words.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/text.h"
#include "tokenizer/utf8.h"

/* White space, inside a class: Unicode's White_Space. PCRE2's \s holds U+180E besides. */
#define SPACE "\\p{Z}\\t-\\r\\x{85}"
/* The last blank of a run belongs to the word after it. */
#define BLANKS "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define SUFFIXES "'s|'t|'re|'ve|'m|'ll|'d"
#define OTHERS " ?[^" SPACE "\\p{L}\\p{N}]+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define LINES "[" SPACE "]*[\\r\\n]+|" BLANKS

static const char gpt2[] = SUFFIXES "| ?\\p{L}+| ?\\p{N}+|" OTHERS "|" BLANKS;

/* Every digit is cut out first, then GPT-2's pattern runs on what lies between: a run of blanks
 * before a digit ends its piece, and stays whole. */
static const char single_digits[] =
    SUFFIXES "| ?\\p{L}+|\\p{N}|" OTHERS "|[" SPACE "]++(?=\\p{N})|" BLANKS;

static const char llama3[] =
    "(?i:" SUFFIXES ")|" LEAD "\\p{L}+|\\p{N}{1,3}|" OTHERS "[\\r\\n]*|" LINES;

static const char qwen2[] = "(?i:" SUFFIXES ")|" LEAD "\\p{L}+|\\p{N}|" OTHERS "[\\r\\n]*|" LINES;

static const char gpt4o[] =
    LEAD UPPER "*" LOWER "+(?i:" SUFFIXES ")?|" LEAD UPPER "+" LOWER "*(?i:" SUFFIXES
               ")?|\\p{N}{1,3}|" OTHERS "[\\r\\n/]*|" LINES;

static const char bloom[] = " ?[^(" SPACE "|.,!?…。，、।۔،)]+";

/* tokenizer.ggml.pre, and what it stands for. */
static const struct pattern {
    const char *name;
    const char *regex;
    bool whole, begin; /* see locus_words_whole, locus_words_begin */
} patterns[] = {
    {"gpt-2", gpt2, false, false},
    {"default", gpt2, false, false},
    {"mpt", gpt2, false, false},
    {"olmo", gpt2, false, false},
    {"phi-2", gpt2, false, false},
    {"jais", gpt2, false, false},
    {"starcoder", single_digits, false, false},
    {"refact", single_digits, false, false},
    {"codeshell", single_digits, false, false},
    {"command-r", single_digits, false, false},
    {"smollm", single_digits, false, false},
    {"llama-bpe", llama3, true, true},
    {"llama3", llama3, true, true},
    {"llama-v3", llama3, true, true},
    {"dbrx", llama3, false, false},
    {"smaug-bpe", llama3, false, false},
    {"qwen2", qwen2, false, false},
    {"stablelm2", qwen2, false, false},
    {"gpt-4o", gpt4o, false, false},
    {"bloom", bloom, false, false},
};

enum { N_PATTERNS = sizeof patterns / sizeof patterns[0] };

struct locus_words {
    const struct pattern *pattern;
    pcre2_code *code;
    pcre2_match_context *limits;
};

static const struct pattern *find_pattern(const struct locus_checkpoint *checkpoint,
                                          locus_error *error)
{
    static const char key[] = "tokenizer.ggml.pre";
    const char *name = "default";
    size_t n_bytes = strlen(name);
    if (locus_checkpoint_has(checkpoint, key) &&
        !locus_checkpoint_string(checkpoint, key, &name, &n_bytes)) {
        locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not a string",
                   locus_checkpoint_path(checkpoint), key);
        return NULL;
    }
    for (size_t i = 0; i < N_PATTERNS; i++)
        if (locus_text_is(name, n_bytes, patterns[i].name)) return &patterns[i];
    struct locus_buffer known = {0};
    for (size_t i = 0; i < N_PATTERNS; i++)
        locus_buffer_printf(&known, "%s%s", i ? ", " : "", patterns[i].name);
    locus_fail(error, LOCUS_ERROR_UNSUPPORTED, "%s: unknown %s \"%.*s\", known are %s",
               locus_checkpoint_path(checkpoint), key, (int)(n_bytes < 24 ? n_bytes : 24), name,
               known.bytes ? known.bytes : "");
    locus_buffer_free(&known);
    return NULL;
}

struct locus_words *locus_words_create(const struct locus_checkpoint *checkpoint,
                                       locus_error *error)
{
    const struct pattern *pattern = find_pattern(checkpoint, error);
    if (!pattern) return NULL;
    struct locus_words *words = calloc(1, sizeof *words);
    if (!words) {
        locus_fail_memory(error, sizeof *words);
        return NULL;
    }
    int code;
    size_t offset;
    words->pattern = pattern;
    words->code = pcre2_compile((PCRE2_SPTR)pattern->regex, PCRE2_ZERO_TERMINATED,
                                PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    words->limits = pcre2_match_context_create(NULL);
    if (!words->code || !words->limits) {
        locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                   "PCRE2 refuses the pattern \"%s\" with its error %d", pattern->name,
                   words->code ? PCRE2_ERROR_NOMEMORY : code);
        locus_words_free(words);
        return NULL;
    }
    pcre2_set_match_limit(words->limits, UINT32_MAX); /* blanks by the million backtrack a lot */
    /* Where there is no JIT, pcre2_match does the same, slower. */
    (void)pcre2_jit_compile(words->code, PCRE2_JIT_COMPLETE);
    return words;
}

void locus_words_free(struct locus_words *words)
{
    if (!words) return;
    pcre2_match_context_free(words->limits);
    pcre2_code_free(words->code);
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

struct pass {
    const struct locus_words *words;
    pcre2_match_data *match;
    locus_word_visitor *visit;
    void *context;
    locus_error *error;
};

/* The words of text that is valid UTF-8. */
static enum locus_status each_match(const struct pass *pass, const char *text, size_t n_bytes)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(pass->match);
    for (size_t at = 0; at < n_bytes;) {
        size_t start = n_bytes, end = n_bytes;
        int found = pcre2_match(pass->words->code, (PCRE2_SPTR)text, n_bytes, at,
                                PCRE2_NO_UTF_CHECK, pass->match, pass->words->limits);
        if (found > 0 && span[1] > span[0]) {
            start = span[0];
            end = span[1];
        } else if (found < 0 && found != PCRE2_ERROR_NOMATCH) {
            return locus_fail(pass->error, LOCUS_ERROR_UNSUPPORTED,
                              "PCRE2 stopped in the text with its error %d", found);
        }
        enum locus_status status = LOCUS_OK;
        if (start > at) status = pass->visit(pass->context, text + at, start - at, pass->error);
        if (!status && end > start)
            status = pass->visit(pass->context, text + start, end - start, pass->error);
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
    struct pass pass = {words, pcre2_match_data_create(1, NULL), visit, context, error};
    if (!pass.match) return locus_fail_memory(error, sizeof(PCRE2_SIZE));
    enum locus_status status = LOCUS_OK;
    for (size_t at = 0, length; at < n_bytes && !status; at += length) {
        bool valid;
        length = run_length(text + at, n_bytes - at, &valid);
        status =
            valid ? each_match(&pass, text + at, length) : visit(context, text + at, length, error);
    }
    pcre2_match_data_free(pass.match);
    return status;
}
