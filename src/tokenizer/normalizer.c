/* What is done to a text before it is cut into tokens: see normalizer.h. */
#include "tokenizer/normalizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/forms.h"
#include "tokenizer/keys.h"

#define KEY "locus.tokenizer.normalizer"
#define SPACE_MARK "\u2581" /* what SentencePiece writes for a space */

struct step {
    const struct step_kind *kind;
    struct locus_word old, new; /* in the normalizer's `arguments` */
};

struct locus_normalizer {
    struct step *steps;
    size_t n_steps;
    char *arguments;
    struct locus_charsmap charsmap;
};

typedef void apply_plain(struct locus_buffer *out, const char *text, size_t n_bytes);
typedef void apply_words(struct locus_buffer *out, const struct step *step, const char *text,
                         size_t n_bytes);
typedef void apply_charsmap(const struct locus_charsmap *charsmap, struct locus_buffer *out,
                            const char *text, size_t n_bytes);

struct step_kind {
    const char *name;
    int n_arguments;
    apply_plain *plain; /* one of these three */
    apply_words *words;
    apply_charsmap *charsmap;
};

/* ---- the steps ---------------------------------------------------------------------------- */

static void nfc(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    locus_form_append(out, text, n_bytes, true, false);
}

static void nfd(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    locus_form_append(out, text, n_bytes, false, false);
}

static void nfkc(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    locus_form_append(out, text, n_bytes, true, true);
}

static void nfkd(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    locus_form_append(out, text, n_bytes, false, true);
}

/* Bytes of the white space character at text[0], or of none. */
static size_t blank_length(const char *text, size_t n_bytes)
{
    size_t length = locus_utf8_character(text, n_bytes);
    return length && locus_form_is_blank(locus_utf8_code(text, (int)length)) ? length : 0;
}

static void strip_left(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    size_t at = 0;
    for (size_t blank; (blank = blank_length(text + at, n_bytes - at)) > 0;)
        at += blank;
    locus_buffer_append(out, text + at, n_bytes - at);
}

static void strip_right(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    for (size_t length = 1; length <= 4 && length <= n_bytes; length++) {
        if (blank_length(text + n_bytes - length, length) != length) continue;
        n_bytes -= length;
        length = 0;
    }
    locus_buffer_append(out, text, n_bytes);
}

static void prepend(struct locus_buffer *out, const struct step *step, const char *text,
                    size_t n_bytes)
{
    if (n_bytes > 0) locus_buffer_append(out, step->new.bytes, step->new.n_bytes);
    locus_buffer_append(out, text, n_bytes);
}

/* How often `word` stands at text[0], one directly after another; up to `most` times. */
static size_t repeats(struct locus_word word, const char *text, size_t n_bytes, size_t most)
{
    size_t n = 0;
    while (n < most && (n + 1) * word.n_bytes <= n_bytes &&
           !memcmp(text + n * word.n_bytes, word.bytes, word.n_bytes))
        n++;
    return n;
}

/* Replaces runs of `least` of the old text or more: of just one it takes one. */
static void replace_runs(struct locus_buffer *out, const struct step *step, const char *text,
                         size_t n_bytes, size_t least)
{
    size_t most = least == 1 ? 1 : SIZE_MAX;
    for (size_t at = 0; at < n_bytes;) {
        const char *next = memmem(text + at, n_bytes - at, step->old.bytes, step->old.n_bytes);
        size_t start = next ? (size_t)(next - text) : n_bytes;
        locus_buffer_append(out, text + at, start - at);
        if (!next) return;
        size_t n = repeats(step->old, next, n_bytes - start, most);
        if (n >= least)
            locus_buffer_append(out, step->new.bytes, step->new.n_bytes);
        else
            locus_buffer_append(out, next, n * step->old.n_bytes);
        at = start + n * step->old.n_bytes;
    }
}

static void replace(struct locus_buffer *out, const struct step *step, const char *text,
                    size_t n_bytes)
{
    replace_runs(out, step, text, n_bytes, 1);
}

static void squeeze(struct locus_buffer *out, const struct step *step, const char *text,
                    size_t n_bytes)
{
    replace_runs(out, step, text, n_bytes, 2);
}

/* Words with a mark before each that doesn't begin with one. */
static void words(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    static const char mark[] = SPACE_MARK;
    enum { MARK = sizeof mark - 1 };
    bool inside = false;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        length = blank_length(text + at, n_bytes - at);
        if (length > 0) {
            inside = false;
            continue;
        }
        bool marked = n_bytes - at >= MARK && !memcmp(text + at, mark, MARK);
        if (!inside && !marked) locus_buffer_append(out, mark, MARK);
        inside = true;
        length = locus_utf8_character(text + at, n_bytes - at);
        if (length == 0) length = 1;
        locus_buffer_append(out, text + at, length);
    }
}

/* SentencePiece's remove_extra_whitespaces: spaces at the ends, and all but one of a run. */
static void single_spaces(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    while (n_bytes > 0 && text[n_bytes - 1] == ' ')
        n_bytes--;
    for (size_t at = 0; at < n_bytes; at++)
        if (text[at] != ' ' || (at > 0 && text[at - 1] != ' '))
            locus_buffer_append(out, text + at, 1);
}

static const struct step_kind kinds[] = {
    {"nfc", 0, .plain = nfc},
    {"nfd", 0, .plain = nfd},
    {"nfkc", 0, .plain = nfkc},
    {"nfkd", 0, .plain = nfkd},
    {"lowercase", 0, .plain = locus_form_lowercase},
    {"strip-accents", 0, .plain = locus_form_strip_marks},
    {"strip-left", 0, .plain = strip_left},
    {"strip-right", 0, .plain = strip_right},
    {"prepend", 1, .words = prepend},
    {"replace", 2, .words = replace},
    {"squeeze", 2, .words = squeeze},
    {"charsmap", 0, .charsmap = locus_charsmap_append_graphemes},
    {"words", 0, .plain = words},
    {"bert-clean", 0, .plain = locus_form_clean},
    {"bert-chinese", 0, .plain = locus_form_part_chinese},
    {"bert-accents", 0, .plain = locus_form_strip_accents},
    {"bert-words", 0, .plain = locus_form_words},
};

/* Steps that only keys of llama.cpp's stand for. */
static const struct step_kind longest = {"", 0, .charsmap = locus_charsmap_append};
static const struct step_kind single = {"", 0, .plain = single_spaces};
static const struct step_kind put_space = {"", 1, .words = prepend};

/* ---- the file's keys ---------------------------------------------------------------------- */

static struct locus_normalizer *create(size_t n_steps, size_t n_bytes, locus_error *error)
{
    struct locus_normalizer *normalizer = calloc(1, sizeof *normalizer);
    if (normalizer) {
        normalizer->steps = calloc(n_steps + 1, sizeof *normalizer->steps);
        normalizer->arguments = malloc(n_bytes + 1);
    }
    if (normalizer && normalizer->steps && normalizer->arguments) return normalizer;
    locus_fail_memory(error, sizeof *normalizer + n_steps * sizeof *normalizer->steps + n_bytes);
    locus_normalizer_free(normalizer);
    return NULL;
}

void locus_normalizer_free(struct locus_normalizer *normalizer)
{
    if (!normalizer) return;
    free(normalizer->steps);
    free(normalizer->arguments);
    locus_charsmap_free(&normalizer->charsmap);
    free(normalizer);
}

static const struct step_kind *find_kind(struct locus_word name, const char **nearest)
{
    struct locus_suggestion suggestion = locus_suggestion_any(name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (locus_word_is(name, kinds[i].name)) return &kinds[i];
        locus_suggestion_offer(&suggestion, kinds[i].name);
    }
    *nearest = suggestion.nearest;
    return NULL;
}

/* Reads the step that words[*at] begins with, and sets *at behind it. */
static enum locus_status read_step(struct locus_normalizer *normalizer, const char *path,
                                   const struct locus_word *words, size_t count, size_t *at,
                                   locus_error *error)
{
    const char *nearest;
    struct step *step = &normalizer->steps[normalizer->n_steps];
    const struct locus_word name = words[*at];
    step->kind = find_kind(name, &nearest);
    if (!step->kind)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: " KEY "[%zu] is \"%.*s\", no step that is known; the nearest is "
                          "\"%s\"",
                          path, *at, locus_word_shown(name), name.bytes, nearest);
    const size_t n = (size_t)step->kind->n_arguments;
    if (count - *at <= n)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: " KEY " ends after \"%s\", expected %zu more", path,
                          step->kind->name, n - (count - *at - 1));
    if (n > 0) step->new = words[*at + n];
    if (n > 1) step->old = words[*at + 1];
    if (n > 1 && step->old.n_bytes == 0)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " KEY "[%zu] is empty, expected a text",
                          path, *at + 1);
    if (step->kind->charsmap && !normalizer->charsmap.bytes)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: " KEY " has \"charsmap\", but "
                          "tokenizer.ggml.precompiled_charsmap is absent",
                          path);
    normalizer->n_steps++;
    *at += n + 1;
    return LOCUS_OK;
}

/* The key's strings, copied into the normalizer. */
static struct locus_normalizer *copy_words(const struct locus_checkpoint *checkpoint,
                                           struct locus_word *words, const char **texts,
                                           size_t *lengths, size_t count, locus_error *error)
{
    size_t n_bytes = 0;
    (void)locus_checkpoint_array_strings(checkpoint, KEY, texts, lengths);
    for (size_t i = 0; i < count; i++)
        n_bytes += lengths[i];
    struct locus_normalizer *normalizer = create(count, n_bytes, error);
    if (!normalizer) return NULL;
    char *next = normalizer->arguments;
    for (size_t i = 0; i < count; i++) {
        if (lengths[i]) memcpy(next, texts[i], lengths[i]);
        words[i] = (struct locus_word){next, lengths[i]};
        next += lengths[i];
    }
    return normalizer;
}

static enum locus_status read_steps(struct locus_normalizer **normalizer,
                                    const struct locus_checkpoint *checkpoint, size_t count,
                                    locus_error *error)
{
    struct locus_word *words = calloc(count + 1, sizeof *words);
    const char **texts = calloc(count + 1, sizeof *texts);
    size_t *lengths = calloc(count + 1, sizeof *lengths), at = 0;
    enum locus_status status = LOCUS_ERROR_MEMORY;
    if (words && texts && lengths)
        *normalizer = copy_words(checkpoint, words, texts, lengths, count, error);
    else
        locus_fail_memory(error, count * sizeof *words);
    if (*normalizer) status = locus_charsmap_read(&(*normalizer)->charsmap, checkpoint, error);
    while (!status && at < count)
        status =
            read_step(*normalizer, locus_checkpoint_path(checkpoint), words, count, &at, error);
    free(words);
    free(texts);
    free(lengths);
    if (!status) return LOCUS_OK;
    locus_normalizer_free(*normalizer);
    *normalizer = NULL;
    return status;
}

enum locus_status locus_normalizer_read(struct locus_normalizer **normalizer,
                                        const struct locus_checkpoint *checkpoint,
                                        locus_error *error)
{
    enum locus_value_type type;
    size_t count;
    *normalizer = NULL;
    if (!locus_checkpoint_has(checkpoint, KEY)) return LOCUS_OK;
    if (locus_checkpoint_array(checkpoint, KEY, &type, &count) && type == LOCUS_VALUE_STRING)
        return read_steps(normalizer, checkpoint, count, error);
    return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " KEY " is no array of strings",
                      locus_checkpoint_path(checkpoint));
}

enum locus_status locus_normalizer_sentencepiece(struct locus_normalizer **normalizer,
                                                 const struct locus_checkpoint *checkpoint,
                                                 bool space, locus_error *error)
{
    bool squeezed = false;
    enum locus_status status =
        locus_key_flag(checkpoint, "tokenizer.ggml.remove_extra_whitespaces", &squeezed, error);
    *normalizer = status ? NULL : create(3, 0, error);
    if (!*normalizer) return status ? status : LOCUS_ERROR_MEMORY;
    status = locus_charsmap_read(&(*normalizer)->charsmap, checkpoint, error);
    struct step *next = (*normalizer)->steps;
    if ((*normalizer)->charsmap.bytes) next++->kind = &longest;
    if (squeezed) next++->kind = &single;
    if (space) *next++ = (struct step){.kind = &put_space, .new = {SPACE_MARK, 3}};
    (*normalizer)->n_steps = (size_t)(next - (*normalizer)->steps);
    if (!status) return LOCUS_OK;
    locus_normalizer_free(*normalizer);
    *normalizer = NULL;
    return status;
}

bool locus_normalizer_puts_space(const struct locus_normalizer *normalizer)
{
    bool puts = false;
    for (size_t i = 0; normalizer && i < normalizer->n_steps; i++) {
        const struct step *step = &normalizer->steps[i];
        puts |= step->kind->plain == words;
        puts |= step->kind->words == prepend &&
                (locus_word_is(step->new, " ") || locus_word_is(step->new, SPACE_MARK));
    }
    return puts;
}

enum locus_status locus_normalizer_apply(const struct locus_normalizer *normalizer,
                                         const char *text, size_t n_bytes, struct locus_buffer *out,
                                         locus_error *error)
{
    struct locus_buffer before = {0};
    out->length = 0;
    locus_buffer_append(out, text, n_bytes);
    for (size_t i = 0; normalizer && i < normalizer->n_steps && !out->failed; i++) {
        struct locus_buffer other = before;
        before = *out;
        *out = other;
        out->length = 0;
        out->failed |= before.failed;
        locus_buffer_append(out, "", 0);
        const struct step *step = &normalizer->steps[i];
        const struct step_kind *kind = step->kind;
        if (kind->plain) kind->plain(out, before.bytes, before.length);
        if (kind->words) kind->words(out, step, before.bytes, before.length);
        if (kind->charsmap) kind->charsmap(&normalizer->charsmap, out, before.bytes, before.length);
    }
    locus_buffer_free(&before);
    if (out->failed) return locus_fail_memory(error, out->length);
    if (out->length < INT32_MAX) return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                      "a text of %zu bytes becomes one of %zu, at most %d can be encoded at once",
                      n_bytes, out->length, INT32_MAX - 1);
}
