/* Words as people and files give them: see text.h. */
#include "base/text.h"

#include <string.h>

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
