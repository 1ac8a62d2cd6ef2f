/* Names people type: see names.h. */
#include "cli/names.h"

#include <stdint.h>
#include <string.h>

enum { LONGEST = 40 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to insert, delete, change or swap with their neighbour to turn a into b. */
static size_t edit_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t rows[3][LONGEST + 1]; /* the last three rows of the table, in turn */
    for (size_t j = 0; j <= n_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            row[j] =
                smaller(above[j - 1] + (a[i - 1] != b[j - 1]), smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], before[j - 2] + 1);
        }
    }
    return rows[n_a % 3][n_b];
}

struct locus_nearest locus_nearest_begin(const char *name)
{
    /* A third of the letters may be wrong, at least one. */
    size_t length = strlen(name);
    return (struct locus_nearest){.name = name, .distance = (length < 3 ? 1 : length / 3) + 1};
}

void locus_nearest_offer(struct locus_nearest *nearest, const char *candidate)
{
    size_t n_name = strlen(nearest->name), n_candidate = strlen(candidate);
    if (n_name > LONGEST || n_candidate > LONGEST) return;
    size_t distance = edit_distance(nearest->name, n_name, candidate, n_candidate);
    if (distance >= nearest->distance || distance >= n_candidate) return;
    nearest->distance = distance;
    nearest->best = candidate;
}
