/* Tables of text: see table.h. */
#include "cli/kit/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

void locus_table_add(struct locus_table *table, const char *format, ...)
{
    char cell[512];
    va_list args;
    va_start(args, format);
    int length = locus_print_args(cell, sizeof cell, format, args);
    va_end(args);
    if (length < 0) cell[0] = '\0';
    locus_text_tame(cell);
    locus_buffer_append(&table->text, cell, strlen(cell) + 1);
}

/* Columns on a terminal, a character a column: the bytes that start one. */
static int width_of(const char *cell)
{
    int width = 0;
    for (; *cell; cell++)
        width += ((unsigned char)*cell & 0xC0) != 0x80;
    return width;
}

static void print_cell(const struct locus_table *table, struct locus_buffer *out, const char *cell,
                       int column, int width)
{
    const int space = width - width_of(cell);
    const bool left = column < table->n_left, last = column == table->n_columns - 1;
    if (column > 0) locus_buffer_append(out, "  ", 2);
    if (left)
        locus_buffer_printf(out, "%s%*s", cell, last ? 0 : space, "");
    else
        locus_buffer_printf(out, "%*s%s", space, "", cell);
    if (last) locus_buffer_append(out, "\n", 1);
}

void locus_table_print(struct locus_table *table, struct locus_buffer *out)
{
    int *widths = calloc((size_t)table->n_columns, sizeof *widths);
    if (!widths || table->text.failed)
        out->failed = true;
    else {
        const char *end = table->text.bytes + table->text.length;
        int column = 0;
        for (const char *cell = table->text.bytes; cell < end; cell += strlen(cell) + 1) {
            if (width_of(cell) > widths[column]) widths[column] = width_of(cell);
            column = (column + 1) % table->n_columns;
        }
        for (const char *cell = table->text.bytes; cell < end; cell += strlen(cell) + 1) {
            print_cell(table, out, cell, column, widths[column]);
            column = (column + 1) % table->n_columns;
        }
    }
    free(widths);
    locus_buffer_free(&table->text);
}
