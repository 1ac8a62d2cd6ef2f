/* Names: a sorted index to find keys and tensors, and names made fit for messages. */
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint/internal.h"

static int compare(const void *a, const void *b)
{
    const struct locus_name *left = a, *right = b;
    return strcmp(left->name, right->name);
}

const char *locus_names_sort(struct locus_name *names, size_t n_names)
{
    if (n_names) qsort(names, n_names, sizeof *names, compare);
    for (size_t i = 1; i < n_names; i++)
        if (!compare(&names[i - 1], &names[i])) return names[i].name;
    return NULL;
}

const struct locus_name *locus_names_find(const struct locus_name *names, size_t n_names,
                                          const char *name)
{
    if (!n_names) return NULL;
    struct locus_name wanted = {.name = name};
    return bsearch(&wanted, names, n_names, sizeof *names, compare);
}

struct locus_quoted locus_name_quote(const char *name)
{
    enum { SHOWN = 48 };
    struct locus_quoted quoted;
    size_t n = strnlen(name, SHOWN + 1);
    if (n <= SHOWN) {
        snprintf(quoted.text, sizeof quoted.text, "'%s'", name);
        return quoted;
    }
    n = SHOWN;
    for (int i = 0; i < 3 && n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80; i++)
        n--;
    snprintf(quoted.text, sizeof quoted.text, "'%.*s...'", (int)n, name);
    return quoted;
}
