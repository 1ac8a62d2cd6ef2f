/* Words as people and files give them: see text.h. */
#include "base/text.h"

#include <stdio.h>
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

const char *locus_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- did you mean ------------------------------------------------------------------------- */

static int least(int a, int b)
{
    return a < b ? a : b;
}

enum { DISTANCE_BYTES = 32 };

/* Insertions, deletions, changes and swaps of neighbours that turn one word into the other (optimal
 * string alignment). Of either the first DISTANCE_BYTES count. */
static int edit_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int d[DISTANCE_BYTES + 1][DISTANCE_BYTES + 1];
    if (n_a > DISTANCE_BYTES) n_a = DISTANCE_BYTES;
    if (n_b > DISTANCE_BYTES) n_b = DISTANCE_BYTES;
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

struct locus_suggestion locus_suggestion_any(struct locus_word word)
{
    return (struct locus_suggestion){.word = word};
}

struct locus_suggestion locus_suggestion_near(const char *word)
{
    return (struct locus_suggestion){.word = {word, strlen(word)}, .near = true};
}

/* Near enough to have been meant. */
static bool is_near(struct locus_word word, size_t n_name, int distance)
{
    const size_t wrong = word.n_bytes < 3 ? 1 : word.n_bytes / 3;
    return word.n_bytes <= DISTANCE_BYTES && n_name <= DISTANCE_BYTES &&
           (size_t)distance <= wrong && (size_t)distance < n_name;
}

void locus_suggestion_offer(struct locus_suggestion *suggestion, const char *name)
{
    const struct locus_word word = suggestion->word;
    const int distance = edit_distance(word.bytes, word.n_bytes, name, strlen(name));
    if (suggestion->nearest && distance >= suggestion->distance) return;
    if (suggestion->near && !is_near(word, strlen(name), distance)) return;
    suggestion->nearest = name;
    suggestion->distance = distance;
}

void locus_suggestion_list(struct locus_suggestion *suggestion, const char *name)
{
    static const char cut[] = " ...";
    const size_t used = strlen(suggestion->list), size = sizeof suggestion->list;
    locus_suggestion_offer(suggestion, name);
    if (suggestion->cut) return;
    suggestion->cut = used + 1 + strlen(name) + sizeof cut > size;
    snprintf(suggestion->list + used, size - used, "%s%s", used && !suggestion->cut ? " " : "",
             suggestion->cut ? cut : name);
}
