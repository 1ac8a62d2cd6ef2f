/* Tables of text: see table.h. */
#include "cli/kit/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "cli/kit/page.h"

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

/* Columns [from, to) of a table, after those that every part has. */
struct part {
    int n_repeated, from, to;
};

static void print_cell(const struct locus_table *table, struct locus_buffer *out, const char *cell,
                       int column, int width, bool last)
{
    const int space = width - locus_page_width(cell);
    if (column > 0) locus_buffer_append(out, "  ", 2);
    if (column < table->n_left)
        locus_buffer_printf(out, "%s%*s", cell, last ? 0 : space, "");
    else
        locus_buffer_printf(out, "%*s%s", space, "", cell);
    if (last) locus_buffer_append(out, "\n", 1);
}

static void print_part(const struct locus_table *table, const int *widths, const struct part *part,
                       struct locus_buffer *out)
{
    const char *end = table->text.bytes + table->text.length;
    int column = 0;
    for (const char *cell = table->text.bytes; cell < end; cell += strlen(cell) + 1) {
        if (column < part->n_repeated || (column >= part->from && column < part->to))
            print_cell(table, out, cell, column, widths[column], column == part->to - 1);
        column = (column + 1) % table->n_columns;
    }
}

/* As many columns from `from` on as fit, one at least. */
static int part_end(const struct locus_table *table, const int *widths, int n_repeated, int from)
{
    int width = 0, column = 0;
    for (; column < n_repeated; column++)
        width += widths[column] + 2;
    for (column = from; column < table->n_columns; column++) {
        width += widths[column];
        if (table->width > 0 && width > table->width && column > from) break;
        width += 2;
    }
    return column;
}

static void measure(const struct locus_table *table, int *widths)
{
    const char *end = table->text.bytes + table->text.length;
    int column = 0;
    for (const char *cell = table->text.bytes; cell < end; cell += strlen(cell) + 1) {
        const int width = locus_page_width(cell);
        if (width > widths[column]) widths[column] = width;
        column = (column + 1) % table->n_columns;
    }
}

void locus_table_print(struct locus_table *table, struct locus_buffer *out)
{
    int *widths = calloc((size_t)table->n_columns, sizeof *widths);
    if (!widths || table->text.failed)
        out->failed = true;
    else {
        struct part part = {.n_repeated = table->n_left > 1 ? table->n_left : 1};
        if (part.n_repeated > table->n_columns - 1) part.n_repeated = table->n_columns - 1;
        measure(table, widths);
        for (part.from = part.n_repeated; part.from < table->n_columns; part.from = part.to) {
            if (part.from > part.n_repeated) locus_buffer_append(out, "\n", 1);
            part.to = part_end(table, widths, part.n_repeated, part.from);
            print_part(table, widths, &part, out);
        }
    }
    free(widths);
    locus_buffer_free(&table->text);
}
