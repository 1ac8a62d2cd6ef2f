/* Pages: see page.h. */
#include "cli/kit/page.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/kit/log.h"

enum { NARROWEST = 40 /* folds nothing further: hardly a word would fit */ };

int locus_page_columns(int descriptor)
{
    struct winsize size;
    if (!isatty(descriptor) || ioctl(descriptor, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return 0;
    return size.ws_col > NARROWEST ? size.ws_col : NARROWEST;
}

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xC0) != 0x80;
}

static int width_of(const char *text, size_t n_bytes)
{
    int width = 0;
    for (size_t i = 0; i < n_bytes; i++)
        width += begins_character(text[i]);
    return width;
}

int locus_page_width(const char *text)
{
    return width_of(text, strlen(text));
}

/* The byte at which a line's second column begins, or its text. */
static size_t second_column(const char *line, size_t n)
{
    static const char usage[] = "usage: ";
    if (strncmp(line, usage, sizeof usage - 1) == 0) return sizeof usage - 1;
    size_t text = 0;
    while (text < n && line[text] == ' ')
        text++;
    for (size_t i = text; i + 2 < n; i++) {
        if (line[i] != ' ' || line[i + 1] != ' ') continue;
        while (i < n && line[i] == ' ')
            i++;
        return i < n ? i : text;
    }
    return text;
}

/* Where a piece that starts at byte `from` ends: the last blank, or byte after a comma, up to which
 * it fits. Where nothing fits it is the next one. */
static size_t piece_end(const char *line, size_t n, size_t from, int columns)
{
    size_t blank = 0, comma = 0;
    int width = 0;
    for (size_t i = from; i < n; i++) {
        const bool at_blank = line[i] == ' ' && i > from && line[i - 1] != ' ';
        const bool after_comma = i > from && line[i - 1] == ',';
        if (width > columns && (blank || comma)) break;
        if (at_blank) blank = i;
        if (after_comma) comma = i;
        width += begins_character(line[i]);
    }
    if (width <= columns) return n;
    return blank ? blank : comma ? comma : n;
}

static void fold_line(struct locus_buffer *out, const char *line, size_t n, int columns)
{
    size_t indent = second_column(line, n);
    int left = columns, hanging = width_of(line, indent);
    if (hanging > columns / 2) hanging = columns / 4;
    for (size_t at = 0; at < n;) {
        /* The first piece isn't cut before its second column. */
        const size_t from = at < indent ? indent : at;
        if (at > 0) locus_buffer_printf(out, "\n%*s", hanging, "");
        left = columns - (at > 0 ? hanging : width_of(line, indent));
        size_t end = piece_end(line, n, from, left);
        locus_buffer_append(out, line + at, end - at);
        while (end < n && line[end] == ' ')
            end++;
        at = end;
    }
}

void locus_page_fold(struct locus_buffer *out, size_t start, int columns)
{
    struct locus_buffer folded = {0};
    if (columns == 0 || out->failed || out->length == start) return;
    for (const char *line = out->bytes + start; *line;) {
        const size_t n = strcspn(line, "\n");
        fold_line(&folded, line, n, columns);
        if (line[n]) locus_buffer_append(&folded, "\n", 1);
        line += n + (line[n] != '\0');
    }
    out->length = start;
    locus_buffer_append(out, folded.bytes, folded.length);
    out->failed |= folded.failed;
    locus_buffer_free(&folded);
}

int locus_page_finish(struct locus_buffer *out)
{
    const int columns = locus_page_columns(STDOUT_FILENO);
    locus_page_fold(out, 0, columns ? columns : LOCUS_PAGE_USUAL);
    return locus_stdout_finish(out);
}
