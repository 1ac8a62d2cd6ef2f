/* The nearest of some names: see suggest.h. */
#include "position/suggest.h"

#include <string.h>

enum { MAX_BYTES = 32 }; /* of either text that count */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, changes and swaps of neighbours that turn one into the other (optimal
 * string alignment). */
static int edit_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int d[MAX_BYTES + 1][MAX_BYTES + 1];
    if (n_a > MAX_BYTES) n_a = MAX_BYTES;
    if (n_b > MAX_BYTES) n_b = MAX_BYTES;
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
    int distance = edit_distance(suggestion->text, suggestion->n_bytes, name, strlen(name));
    if (suggestion->nearest && distance >= suggestion->distance) return;
    suggestion->nearest = name;
    suggestion->distance = distance;
}
