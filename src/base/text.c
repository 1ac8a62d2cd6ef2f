/* Words as people and files give them: see text.h. */
#include "base/text.h"

#include <string.h>

#include "base/utf8.h"

bool locus_text_is(const char *text, size_t n_bytes, const char *name)
{
    return strlen(name) == n_bytes && memcmp(name, text, n_bytes) == 0;
}

bool locus_word_is(struct locus_word word, const char *name)
{
    return locus_text_is(word.bytes, word.n_bytes, name);
}

int locus_word_shown(struct locus_word word)
{
    return word.n_bytes < 40 ? (int)word.n_bytes : 40;
}

struct locus_word locus_spec_name(const char *text)
{
    return (struct locus_word){text, strcspn(text, ":")};
}

bool locus_spec_next(const char **rest, struct locus_word *pair)
{
    if (!**rest) return false;
    const char *first = *rest + 1; /* past the colon, or the comma between two pairs */
    *pair = (struct locus_word){first, strcspn(first, ",")};
    *rest = first + pair->n_bytes;
    return true;
}

bool locus_spec_split(struct locus_word pair, struct locus_word *key, struct locus_word *value)
{
    const char *equals = pair.n_bytes ? memchr(pair.bytes, '=', pair.n_bytes) : NULL;
    if (!equals || equals == pair.bytes) return false;
    *key = (struct locus_word){pair.bytes, (size_t)(equals - pair.bytes)};
    *value = (struct locus_word){equals + 1, pair.n_bytes - key->n_bytes - 1};
    return true;
}

/* ---- on a terminal ------------------------------------------------------------------------ */

size_t locus_text_character(const char *bytes, size_t n_bytes)
{
    const size_t length = locus_utf8_character(bytes, n_bytes);
    if (length == 0) return 0;
    const uint32_t code = locus_utf8_code(bytes, (int)length);
    const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    /* Line and paragraph separators, embeddings and overrides; isolates. */
    const bool moves = (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    return control || moves ? 0 : length;
}

void locus_text_tame(char *text)
{
    const char *end = text + strlen(text);
    char *out = text;
    for (const char *next = text; next < end;) {
        const size_t left = (size_t)(end - next), length = locus_text_character(next, left);
        const size_t whole = locus_utf8_character(next, left);
        if (length > 0)
            memmove(out, next, length);
        else
            *out = '?';
        out += length ? length : 1;
        next += whole ? whole : 1;
    }
    *out = '\0';
}

void locus_text_append(struct locus_buffer *out, const char *text)
{
    const size_t start = out->length;
    locus_buffer_printf(out, "%s", text);
    if (out->failed) return;
    locus_text_tame(out->bytes + start);
    out->length = start + strlen(out->bytes + start);
}

void locus_text_escape(struct locus_buffer *out, const char *bytes, size_t n_bytes)
{
    static const char named[] = "\n\t\r\\", letters[] = "ntr\\";
    for (size_t i = 0; i < n_bytes;) {
        const size_t length = locus_text_character(bytes + i, n_bytes - i);
        const char *name = bytes[i] ? strchr(named, bytes[i]) : NULL;
        if (name)
            locus_buffer_printf(out, "\\%c", letters[name - named]);
        else if (length == 0)
            locus_buffer_printf(out, "\\x%02x", (unsigned char)bytes[i]);
        else
            locus_buffer_append(out, bytes + i, length);
        i += length ? length : 1;
    }
}

/* ---- choices ------------------------------------------------------------------------------ */

int locus_choice_find(const char *choices, const char *text, size_t n_bytes)
{
    for (int i = 0; *choices; i++) {
        size_t length = strcspn(choices, "|");
        if (length == n_bytes && memcmp(choices, text, n_bytes) == 0) return i;
        choices += length + (choices[length] == '|');
    }
    return -1;
}

const char *locus_choice_at(const char *choices, int index, size_t *n_bytes)
{
    for (; index > 0; index--)
        choices += strcspn(choices, "|") + 1;
    *n_bytes = strcspn(choices, "|");
    return choices;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int locus_edit_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int d[LOCUS_DISTANCE_BYTES + 1][LOCUS_DISTANCE_BYTES + 1];
    if (n_a > LOCUS_DISTANCE_BYTES) n_a = LOCUS_DISTANCE_BYTES;
    if (n_b > LOCUS_DISTANCE_BYTES) n_b = LOCUS_DISTANCE_BYTES;
    for (size_t i = 0; i <= n_a; i++)
        d[i][0] = (int)i;
    for (size_t j = 0; j <= n_b; j++)
        d[0][j] = (int)j;
    for (size_t i = 1; i <= n_a; i++) {
        for (size_t j = 1; j <= n_b; j++) {
            int change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(change, least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n_a][n_b];
}

void locus_suggestion_offer(struct locus_suggestion *suggestion, const char *name)
{
    int distance = locus_edit_distance(suggestion->text, suggestion->n_bytes, name, strlen(name));
    if (suggestion->nearest && distance >= suggestion->distance) return;
    suggestion->nearest = name;
    suggestion->distance = distance;
}
