/* Added tokens: see added.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/added.h"

#include <pcre2.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/forms.h"
#include "tokenizer/keys.h"

enum { LSTRIP = 1, RSTRIP = 2, SINGLE_WORD = 4, NORMALIZED = 8 };

enum { N_CODES = 0x110000, BLOCK = 1 << 8 }; /* Unicode's code points, looked at in blocks */

struct locus_added {
    struct {
        struct locus_trie user, special; /* the user-defined ones, and all; backwards */
    } passes[2];    /* over a text as it is, and over what it becomes by the normalizer */
    uint8_t *flags; /* [n_tokens] */
    uint8_t *word; /* [N_CODES / 8], a bit a code point: a character of a word; NULL: nobody asks */
};

static const struct {
    const char *key;
    uint8_t flag;
} keys[] = {
    {"locus.tokenizer.lstrip", LSTRIP},
    {"locus.tokenizer.rstrip", RSTRIP},
    {"locus.tokenizer.single_word", SINGLE_WORD},
    {"locus.tokenizer.normalized", NORMALIZED},
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

/* The UTF-8 of a code point that is no surrogate; returns its length. */
static size_t spell(char *out, uint32_t code)
{
    static const uint8_t leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3F));
    out[0] = (char)(leads[length] | code);
    return length;
}

/* Marks those of BLOCK code points that the pattern takes. Returns 0, or PCRE2's error. */
static int mark_block(uint8_t *word, uint32_t first, const pcre2_code *pattern,
                      pcre2_match_data *match)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(match);
    char text[4 * BLOCK];
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < BLOCK; i++)
        n_bytes += spell(text + n_bytes, first + i);
    for (size_t at = 0; at < n_bytes; at = span[1]) {
        int found =
            pcre2_match(pattern, (PCRE2_SPTR)text, n_bytes, at, PCRE2_NO_UTF_CHECK, match, NULL);
        if (found <= 0) return found == PCRE2_ERROR_NOMATCH ? 0 : found;
        for (size_t i = span[0], length; i < span[1]; i += length) {
            length = locus_utf8_character(text + i, span[1] - i);
            const uint32_t code = locus_utf8_code(text + i, (int)length);
            word[code / 8] |= (uint8_t)(1u << code % 8);
        }
    }
    return 0;
}

/* Unicode's \w, with the marks and joiners that PCRE2's lacks: found out once, so that to encode
 * takes no memory for it. Returns 0, or PCRE2's error. */
static int mark_words(uint8_t *word)
{
    static const char characters[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]+";
    int code;
    size_t offset;
    pcre2_code *pattern = pcre2_compile((PCRE2_SPTR)characters, PCRE2_ZERO_TERMINATED,
                                        PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    if (!pattern) return code == PCRE2_ERROR_HEAP_FAILED ? PCRE2_ERROR_NOMEMORY : code;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    code = match ? 0 : PCRE2_ERROR_NOMEMORY;
    for (uint32_t first = 0; first < N_CODES && !code; first += BLOCK)
        if (first < 0xD800 || first > 0xDFFF) code = mark_block(word, first, pattern, match);
    pcre2_match_data_free(match);
    pcre2_code_free(pattern);
    return code;
}

static enum locus_status find_words(struct locus_added *added,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    if (!locus_checkpoint_has(checkpoint, keys[2].key)) return LOCUS_OK;
    added->word = calloc(N_CODES / 8, 1);
    const int code = added->word ? mark_words(added->word) : PCRE2_ERROR_NOMEMORY;
    if (code == 0) return LOCUS_OK;
    if (code == PCRE2_ERROR_NOMEMORY) return locus_fail_memory(error, N_CODES / 8);
    return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                      "%s: %s: PCRE2 refuses the pattern of a word's characters with its error %d",
                      locus_checkpoint_path(checkpoint), keys[2].key, code);
}

/* Drops the pieces of the other pass, and puts those of the second as the normalizer makes them
 * into `texts`, to which they then point. */
static enum locus_status choose(const struct locus_added *added, struct locus_piece *pieces,
                                size_t *count, int pass, const struct locus_normalizer *normalizer,
                                struct locus_buffer *texts, locus_error *error)
{
    struct locus_buffer text = {0};
    enum locus_status status = LOCUS_OK;
    size_t n = 0;
    for (size_t i = 0; i < *count; i++)
        if (!(added->flags[pieces[i].id] & NORMALIZED) == (pass == 0)) pieces[n++] = pieces[i];
    *count = n;
    if (pass == 0) return LOCUS_OK;
    for (size_t i = 0; i < n && !status; i++) {
        status =
            locus_normalizer_apply(normalizer, pieces[i].bytes, pieces[i].n_bytes, &text, error);
        pieces[i].n_bytes = text.length;
        if (!status) locus_buffer_append(texts, text.bytes, text.length);
    }
    locus_buffer_free(&text);
    if (!status && texts->failed) status = locus_fail_memory(error, texts->length);
    const char *next = texts->bytes;
    size_t n_left = 0;
    for (size_t i = 0; i < n && !status; i++) {
        pieces[i].bytes = next;
        next += pieces[i].n_bytes;
        if (pieces[i].n_bytes > 0) pieces[n_left++] = pieces[i]; /* of nothing: never found */
    }
    *count = n_left;
    return status;
}

static enum locus_status create_trie(const struct locus_added *added, struct locus_trie *trie,
                                     const struct locus_vocabulary *vocabulary, unsigned types,
                                     int pass, const struct locus_normalizer *normalizer,
                                     locus_error *error)
{
    size_t count;
    struct locus_buffer texts = {0};
    struct locus_piece *pieces = locus_pieces_collect(vocabulary, types, &count);
    if (!pieces) return locus_fail_memory(error, count * sizeof *pieces);
    enum locus_status status = choose(added, pieces, &count, pass, normalizer, &texts, error);
    if (!status) status = locus_trie_create(trie, pieces, count, true, error);
    locus_buffer_free(&texts);
    free(pieces);
    return status;
}

static enum locus_status create_tries(struct locus_added *added,
                                      const struct locus_vocabulary *vocabulary,
                                      const struct locus_normalizer *normalizer, locus_error *error)
{
    const unsigned user = 1u << LOCUS_TOKEN_USER;
    const unsigned special = user | 1u << LOCUS_TOKEN_CONTROL | 1u << LOCUS_TOKEN_UNKNOWN;
    enum locus_status status = LOCUS_OK;
    for (int pass = 0; pass < 2 && !status; pass++) {
        status = create_trie(added, &added->passes[pass].user, vocabulary, user, pass, normalizer,
                             error);
        if (!status)
            status = create_trie(added, &added->passes[pass].special, vocabulary, special, pass,
                                 normalizer, error);
    }
    return status;
}

struct locus_added *locus_added_create(const struct locus_vocabulary *vocabulary,
                                       const struct locus_checkpoint *checkpoint,
                                       const struct locus_normalizer *normalizer,
                                       locus_error *error)
{
    struct locus_added *added = calloc(1, sizeof *added);
    if (!added) {
        locus_fail_memory(error, sizeof *added);
        return NULL;
    }
    if (read_flags(added, vocabulary->n_tokens, checkpoint, error) ||
        create_tries(added, vocabulary, normalizer, error) ||
        find_words(added, checkpoint, error)) {
        locus_added_free(added);
        return NULL;
    }
    return added;
}

void locus_added_free(struct locus_added *added)
{
    if (!added) return;
    for (int pass = 0; pass < 2; pass++) {
        locus_trie_free(&added->passes[pass].user);
        locus_trie_free(&added->passes[pass].special);
    }
    free(added->word);
    free(added->flags);
    free(added);
}

bool locus_added_any_normalized(const struct locus_added *added)
{
    return added->passes[1].special.n_nodes > 1; /* more than the root */
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
    if (length == 0) return false;
    const uint32_t code = locus_utf8_code(character, (int)length);
    return added->word[code / 8] >> code % 8 & 1;
}

/* Whether a character of a word stands directly before the token, or after it. */
static bool within_word(const struct locus_added *added, const char *text, size_t n_bytes,
                        size_t start, size_t end)
{
    size_t before = last_character(text, start);
    size_t after = locus_utf8_character(text + end, n_bytes - end);
    return is_word(added, text + start - before, before) || is_word(added, text + end, after);
}

enum locus_status locus_added_begin(struct locus_added_search *search,
                                    const struct locus_added *added, int pass, bool special,
                                    const char *text, size_t n_bytes, locus_error *error)
{
    const struct locus_trie *trie =
        special ? &added->passes[pass].special : &added->passes[pass].user;
    *search = (struct locus_added_search){added, trie, text, n_bytes, NULL};
    if (trie->n_nodes == 1) return LOCUS_OK; /* the root: no token */
    search->states = calloc(n_bytes + 1, sizeof *search->states);
    if (!search->states) return locus_fail_memory(error, n_bytes * sizeof *search->states);
    locus_trie_scan(trie, text, n_bytes, search->states);
    return LOCUS_OK;
}

void locus_added_end(struct locus_added_search *search)
{
    free(search->states);
    search->states = NULL;
}

void locus_added_put_space(struct locus_added_search *search, size_t at)
{
    if (search->states) search->states[at] = search->trie->links[search->states[at + 1]].space;
}

bool locus_added_next(const struct locus_added_search *search, size_t from,
                      struct locus_added_match *match)
{
    const struct locus_added *added = search->added;
    const char *text = search->text;
    const size_t n_bytes = search->n_bytes;
    if (!search->states) return false;
    for (size_t at = from, length; at < n_bytes; at += length) {
        const int32_t node = search->trie->links[search->states[at]].longest;
        length = 1;
        if (node < 0) continue;
        length = (size_t)search->trie->links[node].depth;
        const int32_t id = search->trie->nodes[node].id;
        size_t start = at, end = at + length, blank;
        if (added->flags[id] & SINGLE_WORD && within_word(added, text, n_bytes, start, end))
            continue;
        while (added->flags[id] & LSTRIP && start > from &&
               (blank = last_character(text + from, start - from)) > 0 &&
               locus_form_is_blank(locus_utf8_code(text + start - blank, (int)blank)))
            start -= blank;
        while (added->flags[id] & RSTRIP && end < n_bytes &&
               (blank = locus_utf8_character(text + end, n_bytes - end)) > 0 &&
               locus_form_is_blank(locus_utf8_code(text + end, (int)blank)))
            end += blank;
        *match = (struct locus_added_match){start, end, id};
        return true;
    }
    return false;
}
