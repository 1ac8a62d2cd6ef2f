/* Added tokens: see added.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/added.h"

#include <pcre2.h>
#include <stdlib.h>

#include "tokenizer/keys.h"
#include "tokenizer/utf8.h"

enum { LSTRIP = 1, RSTRIP = 2, SINGLE_WORD = 4 };

struct locus_added {
    struct locus_matcher user, special; /* the user-defined ones, and all */
    uint8_t *flags;                     /* [n_tokens] */
    pcre2_code *word;                   /* a character of a word; NULL: nobody asks */
};

static const struct {
    const char *key;
    uint8_t flag;
} keys[] = {
    {"locus.tokenizer.lstrip", LSTRIP},
    {"locus.tokenizer.rstrip", RSTRIP},
    {"locus.tokenizer.single_word", SINGLE_WORD},
};

static enum locus_status read_flags(struct locus_added *added, int n_tokens,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    added->flags = calloc((size_t)n_tokens, sizeof *added->flags);
    if (!added->flags) return locus_fail_memory(error, (size_t)n_tokens);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        enum locus_status status =
            locus_key_ids(checkpoint, keys[i].key, added->flags, n_tokens, keys[i].flag, error);
        if (status) return status;
    }
    return LOCUS_OK;
}

/* Unicode's \w, with the marks and joiners that PCRE2's lacks. */
static enum locus_status compile_word(struct locus_added *added,
                                      const struct locus_checkpoint *checkpoint, locus_error *error)
{
    static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]";
    int code;
    size_t offset;
    if (!locus_checkpoint_has(checkpoint, keys[2].key)) return LOCUS_OK;
    added->word = pcre2_compile((PCRE2_SPTR)word, PCRE2_ZERO_TERMINATED,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &offset, NULL);
    if (added->word) return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                      "%s: %s: PCRE2 refuses the pattern of a word's characters with its error %d",
                      locus_checkpoint_path(checkpoint), keys[2].key, code);
}

struct locus_added *locus_added_create(const struct locus_vocabulary *vocabulary,
                                       const struct locus_checkpoint *checkpoint,
                                       locus_error *error)
{
    const unsigned user = 1u << LOCUS_TOKEN_USER;
    const unsigned special = user | 1u << LOCUS_TOKEN_CONTROL | 1u << LOCUS_TOKEN_UNKNOWN;
    struct locus_added *added = calloc(1, sizeof *added);
    if (!added) {
        locus_fail_memory(error, sizeof *added);
        return NULL;
    }
    if (locus_matcher_create(&added->user, vocabulary, user, error) ||
        locus_matcher_create(&added->special, vocabulary, special, error) ||
        read_flags(added, vocabulary->n_tokens, checkpoint, error) ||
        compile_word(added, checkpoint, error)) {
        locus_added_free(added);
        return NULL;
    }
    return added;
}

void locus_added_free(struct locus_added *added)
{
    if (!added) return;
    locus_matcher_free(&added->user);
    locus_matcher_free(&added->special);
    pcre2_code_free(added->word);
    free(added->flags);
    free(added);
}

/* Unicode's White_Space. */
static bool is_blank(uint32_t code)
{
    return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

/* Bytes of the character that text[0, n_bytes) ends with; 0 where none does. */
static size_t last_character(const char *text, size_t n_bytes)
{
    for (size_t length = 1; length <= 4 && length <= n_bytes; length++)
        if (locus_utf8_character(text + n_bytes - length, length) == length) return length;
    return 0;
}

static bool is_word(const struct locus_added *added, const char *character, size_t length)
{
    pcre2_match_data *match = length ? pcre2_match_data_create(1, NULL) : NULL;
    int found = match ? pcre2_match(added->word, (PCRE2_SPTR)character, length, 0,
                                    PCRE2_NO_UTF_CHECK, match, NULL)
                      : PCRE2_ERROR_NOMATCH;
    pcre2_match_data_free(match);
    return found > 0;
}

/* Whether a character of a word stands directly before the token, or after it. */
static bool within_word(const struct locus_added *added, const char *text, size_t n_bytes,
                        size_t start, size_t end)
{
    size_t before = last_character(text, start);
    size_t after = locus_utf8_character(text + end, n_bytes - end);
    return is_word(added, text + start - before, before) || is_word(added, text + end, after);
}

bool locus_added_next(const struct locus_added *added, bool special, const char *text,
                      size_t n_bytes, size_t from, struct locus_added_match *match)
{
    const struct locus_matcher *matcher = special ? &added->special : &added->user;
    if (matcher->n_entries == 0) return false;
    for (size_t at = from, length; at < n_bytes; at += length ? length : 1) {
        int32_t id;
        length = locus_matcher_find(matcher, text + at, n_bytes - at, &id);
        if (length == 0) continue;
        size_t start = at, end = at + length, blank;
        if (added->flags[id] & SINGLE_WORD && within_word(added, text, n_bytes, start, end))
            continue;
        while (added->flags[id] & LSTRIP && start > from &&
               (blank = last_character(text + from, start - from)) > 0 &&
               is_blank(locus_utf8_code(text + start - blank, (int)blank)))
            start -= blank;
        while (added->flags[id] & RSTRIP && end < n_bytes &&
               (blank = locus_utf8_character(text + end, n_bytes - end)) > 0 &&
               is_blank(locus_utf8_code(text + end, (int)blank)))
            end += blank;
        *match = (struct locus_added_match){start, end, id};
        return true;
    }
    return false;
}
