/* Pages: text folded to the width that it is read at. */
#ifndef LOCUS_CLI_PAGE_H
#define LOCUS_CLI_PAGE_H

#include "base/buffer.h"

enum { LOCUS_PAGE_USUAL = 80 /* columns, where no terminal says */ };

/* Columns of the terminal at that descriptor; 0: it is none, or doesn't say. */
int locus_page_columns(int descriptor);

/* Columns that a text takes, a character each. */
int locus_page_width(const char *text);

/* Folds the lines from byte `start` on that are longer than `columns`, at their blanks, or else
 * after a comma. A line goes on under its second column, what follows the first gap of two blanks
 * or more, or where it begins
 * (a usage, after that word). 0 columns: any width is fine. */
void locus_page_fold(struct locus_buffer *out, size_t start, int columns);

/* Folds help to the terminal that stdout is, else to 80 columns; writes and frees it. Returns the
 * exit status. */
int locus_page_finish(struct locus_buffer *out);

#endif
