/* Tables of text: columns as wide as they need to be. */
#ifndef LOCUS_CLI_TABLE_H
#define LOCUS_CLI_TABLE_H

#include "base/buffer.h"

/* Cells row by row, n_columns a row; zero-initialise but for n_columns. */
struct locus_table {
    int n_columns;
    int n_left; /* of the columns these first ones are aligned to the left, others to the right */
    int width;  /* what a page has (cli/kit/page.h); 0: any. A wider table comes in parts, one below
                 * the other, which repeat the columns at the left, or else the first one */
    struct locus_buffer text; /* the cells' bytes, a NUL after each */
};

/* What a terminal may not be shown becomes '?' (base/text.h). */
void locus_table_add(struct locus_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends the table and frees it. */
void locus_table_print(struct locus_table *table, struct locus_buffer *out);

#endif
