/* The CSV file of results (RFC 4180, lines ended by a newline): see report.h. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/number.h"
#include "base/output.h"
#include "experiment/report.h"

/* ---- lines -------------------------------------------------------------------------------- */

/* Whether a spreadsheet would take the text, less the apostrophes before it, for a formula. A sign
 * alone is none. Text that is gets one apostrophe more, so that what is read loses just that. */
static bool is_formula(const char *text, size_t n_bytes)
{
    while (n_bytes > 0 && *text == '\'')
        text++, n_bytes--;
    return n_bytes > 1 && memchr("=+-@\t\r", *text, 6) != NULL;
}

void locus_csv_cell(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    bool quoted = false;
    for (size_t i = 0; i < n_bytes && !quoted; i++)
        quoted = memchr(",\"\r\n", text[i], 4) != NULL;
    if (quoted) locus_buffer_append(out, "\"", 1);
    if (is_formula(text, n_bytes)) locus_buffer_append(out, "'", 1);
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == '"') locus_buffer_append(out, "\"", 1);
        locus_buffer_append(out, text + i, 1);
    }
    if (quoted) locus_buffer_append(out, "\"", 1);
}

void locus_csv_header(struct locus_buffer *out)
{
    for (enum locus_column i = 0; i < LOCUS_N_COLUMNS; i++)
        locus_buffer_printf(out, "%s%s", i > 0 ? "," : "", locus_column_name(i));
    locus_buffer_append(out, "\n", 1);
}

void locus_csv_row(struct locus_buffer *out, const struct locus_row *row)
{
    for (enum locus_column i = 0; i < LOCUS_N_COLUMNS; i++) {
        const char *cell = row->cells[i];
        if (i > 0) locus_buffer_append(out, ",", 1);
        if (cell && locus_column_is_text(i))
            locus_csv_cell(out, cell, strlen(cell));
        else if (cell) /* a number, whose sign is no formula's */
            locus_buffer_append(out, cell, strlen(cell));
    }
    locus_buffer_append(out, "\n", 1);
}

/* Takes a cell off a line, unquoted, into cell[end - *line + 1]; false if it is none. */
static bool next_cell(const char **line, const char *end, char *cell)
{
    const char *at = *line;
    bool quoted = at < end && *at == '"';
    for (at += quoted; at < end; at++) {
        if (quoted && *at == '"') {
            at++;
            if (at == end || *at != '"') {
                quoted = false;
                break;
            }
        } else if (!quoted && *at == ',')
            break;
        *cell++ = *at;
    }
    *cell = '\0';
    *line = at;
    return !quoted && (at == end || *at == ',');
}

/* A row's texts without what keeps spreadsheets from calculating them. */
static void take_off_apostrophes(struct locus_row *row)
{
    for (enum locus_column i = 0; i < LOCUS_N_COLUMNS; i++) {
        char *cell = row->cells[i];
        if (!cell || !locus_column_is_text(i) || *cell != '\'') continue;
        const size_t n_bytes = strlen(cell);
        if (is_formula(cell, n_bytes)) memmove(cell, cell + 1, n_bytes);
    }
}

/* A row of [line, end); LOCUS_ERROR_FORMAT if it is none, LOCUS_ERROR_MEMORY. */
static enum locus_status parse_row(struct locus_row *row, const char *line, const char *end)
{
    enum locus_status status = LOCUS_OK;
    char *cell = malloc((size_t)(end - line) + 1);
    *row = (struct locus_row){{0}};
    if (!cell) return LOCUS_ERROR_MEMORY;
    for (int i = 0; i < LOCUS_N_COLUMNS && !status; i++) {
        if ((i > 0 && (line == end || *line++ != ',')) || !next_cell(&line, end, cell))
            status = LOCUS_ERROR_FORMAT;
        else if (*cell && !(row->cells[i] = strdup(cell)))
            status = LOCUS_ERROR_MEMORY;
    }
    if (!status && line != end) status = LOCUS_ERROR_FORMAT;
    if (status) locus_row_free(row);
    free(cell);
    return status;
}

/* ---- the file ----------------------------------------------------------------------------- */

static enum locus_status fail_write(const struct locus_csv *csv, int reason, locus_error *error)
{
    return locus_fail(error, LOCUS_ERROR_IO, "%s: write failed: %s", csv->path, strerror(reason));
}

/* All of the bytes, or the file as it was. */
static enum locus_status append(struct locus_csv *csv, struct locus_buffer *line,
                                locus_error *error)
{
    if (line->failed) return locus_fail_memory(error, line->length);
    struct stat before;
    int reason = fstat(csv->descriptor, &before) ? errno : 0;
    for (size_t done = 0; done < line->length && !reason;) {
        ssize_t n = write(csv->descriptor, line->bytes + done, line->length - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            reason = n == 0 ? EIO : errno;
    }
    if (!reason) return LOCUS_OK;
    if (csv->is_file && ftruncate(csv->descriptor, before.st_size)) reason = errno;
    return fail_write(csv, reason, error);
}

static enum locus_status add_found(struct locus_csv *csv, const struct locus_row *row,
                                   locus_error *error)
{
    size_t n_bytes = ((size_t)csv->n_rows + 1) * sizeof *csv->rows;
    struct locus_row *rows = realloc(csv->rows, n_bytes);
    if (!rows) return locus_fail_memory(error, n_bytes);
    csv->rows = rows;
    csv->rows[csv->n_rows++] = *row;
    return LOCUS_OK;
}

static bool is_setting(int column)
{
    switch (column) {
    case LOCUS_COLUMN_NLL:
    case LOCUS_COLUMN_PERPLEXITY:
    case LOCUS_COLUMN_STANDARD_ERROR:
    case LOCUS_COLUMN_BITS_PER_BYTE:
    case LOCUS_COLUMN_ACCURACY:
    case LOCUS_COLUMN_THREADS:
    case LOCUS_COLUMN_SECONDS:
        return false;
    default:
        return true;
    }
}

/* What a result can be. */
struct range {
    double min, max;
};

/* An average loss may be huge, and e^loss or its error infinite. */
static struct range range_of(enum locus_column column)
{
    switch (column) {
    case LOCUS_COLUMN_TOKENS:
        return (struct range){0, LOCUS_MOST_TOKENS};
    case LOCUS_COLUMN_ACCURACY:
        return (struct range){0, 1};
    case LOCUS_COLUMN_PERPLEXITY:
    case LOCUS_COLUMN_STANDARD_ERROR:
        return (struct range){0, (double)INFINITY};
    case LOCUS_COLUMN_NLL: /* a rounding below 0 */
    case LOCUS_COLUMN_BITS_PER_BYTE:
        return (struct range){-1e-3, 1e39};
    default:
        return (struct range){0, 1e12};
    }
}

/* Whether a cell is empty or, all of it, a number that fits its column, as JSON may have it: with a
 * digit on both sides of a point, and no needless 0 before it. */
static bool fits(const char *cell, enum locus_column column)
{
    if (!cell) return true;
    static const char digits[] = "0123456789";
    const struct range range = range_of(column);
    double value = (double)INFINITY;
    if (strcmp(cell, "inf") != 0) {
        const char *number = cell + (*cell == '-'), *point = strchr(cell, '.');
        const size_t n_whole = strspn(number, digits);
        if (!locus_number_parse(cell, strlen(cell), false, &value) || n_whole == 0 ||
            (*number == '0' && n_whole > 1) || (point && strspn(point + 1, digits) == 0))
            return false;
    }
    return value >= range.min && value <= range.max;
}

/* Whether perplexity is e^nll, as far as a table's digits tell; there are both, or neither. */
static bool agrees(const struct locus_row *row)
{
    if (!row->cells[LOCUS_COLUMN_NLL] || !row->cells[LOCUS_COLUMN_PERPLEXITY])
        return row->cells[LOCUS_COLUMN_NLL] == row->cells[LOCUS_COLUMN_PERPLEXITY];
    const double expected = exp(locus_row_number(row, LOCUS_COLUMN_NLL));
    const double found = locus_row_number(row, LOCUS_COLUMN_PERPLEXITY);
    return isinf(expected) ? isinf(found) : fabs(found - expected) <= 1e-3 * expected;
}

/* The first of a row's columns of results that holds no such number, or LOCUS_N_COLUMNS. Settings
 * are compared as text: one that is none fits no run. */
static enum locus_column find_misfit(const struct locus_row *row)
{
    enum locus_column i = 0;
    while (i < LOCUS_N_COLUMNS &&
           ((is_setting((int)i) && i != LOCUS_COLUMN_TOKENS) || fits(row->cells[i], i)))
        i++;
    return i;
}

/* Refuses a row that says what was counted and not what came of it, or the reverse. */
static enum locus_status check_counts(const struct locus_csv *csv, int number,
                                      const struct locus_row *row, locus_error *error)
{
    static const enum locus_column pairs[][2] = {{LOCUS_COLUMN_TOKENS, LOCUS_COLUMN_PERPLEXITY},
                                                 {LOCUS_COLUMN_TRIALS, LOCUS_COLUMN_ACCURACY}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const bool has_count = row->cells[pairs[i][0]] != NULL;
        if (has_count == (row->cells[pairs[i][1]] != NULL)) continue;
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: line %d: there is %s and no %s, expected both or neither", csv->path,
                          number, locus_column_name(pairs[i][!has_count]),
                          locus_column_name(pairs[i][has_count]));
    }
    return LOCUS_OK;
}

static enum locus_status check_row(const struct locus_csv *csv, int number,
                                   const struct locus_row *row, locus_error *error)
{
    const enum locus_column odd = find_misfit(row);
    if (odd < LOCUS_N_COLUMNS)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: line %d: %s is '%.40s', not a number that it can be", csv->path,
                          number, locus_column_name(odd), row->cells[odd]);
    if (agrees(row)) return check_counts(csv, number, row, error);
    const char *nll = row->cells[LOCUS_COLUMN_NLL], *found = row->cells[LOCUS_COLUMN_PERPLEXITY];
    return locus_fail(error, LOCUS_ERROR_FORMAT,
                      "%s: line %d: perplexity is '%.40s', expected e to the nll '%.40s'",
                      csv->path, number, found ? found : "", nll ? nll : "");
}

/* Reads the rows that bytes[n_bytes] hold after the header. */
static enum locus_status read_rows(struct locus_csv *csv, const char *bytes, size_t n_bytes,
                                   locus_error *error)
{
    int number = 2;
    for (const char *line = bytes, *end = bytes + n_bytes; line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        struct locus_row row;
        enum locus_status status = parse_row(&row, line, newline);
        if (status == LOCUS_ERROR_MEMORY) return locus_fail_memory(error, (size_t)(newline - line));
        if (status)
            return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: line %d is not a row of %d cells",
                              csv->path, number, LOCUS_N_COLUMNS);
        take_off_apostrophes(&row);
        status = check_row(csv, number, &row, error);
        if (!status) status = add_found(csv, &row, error);
        if (status) {
            locus_row_free(&row);
            return status;
        }
        line = newline + 1;
    }
    return LOCUS_OK;
}

/* A file that is none of results, or of another version's. */
static enum locus_status refuse_header(const char *path, const char *bytes, size_t n_bytes,
                                       locus_error *error)
{
    static const char start[] = "task,model,";
    const size_t n_start = sizeof start - 1;
    if (n_bytes < n_start || memcmp(bytes, start, n_start) != 0)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: can't be resumed: its first line is not the header of results",
                          path);
    int n = 1;
    size_t end = 0;
    for (; end < n_bytes && bytes[end] != '\n'; end++)
        n += bytes[end] == ',';
    if (end < n_bytes && bytes[end - 1] == '\r')
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: can't be resumed: its lines end in CR LF, expected LF alone", path);
    return locus_fail(
        error, LOCUS_ERROR_FORMAT,
        "%s: can't be resumed: its header has other columns, %d of them, expected the "
        "%d of locus " LOCUS_VERSION,
        path, n, LOCUS_N_COLUMNS);
}

/* Takes what is there; *n_whole is the length of its whole lines, 0 where there is no header. */
static enum locus_status read_file(struct locus_csv *csv, size_t *n_whole, locus_error *error)
{
    struct locus_mapped_file file;
    struct locus_buffer header = {0};
    *n_whole = 0;
    enum locus_status status = locus_file_map(&file, csv->path, error);
    if (status) return status;
    locus_csv_header(&header);
    const char *bytes = (const char *)file.bytes;
    size_t size = file.size;
    while (size > 0 && bytes[size - 1] != '\n')
        size--;
    if (header.failed)
        status = locus_fail_memory(error, header.length);
    else if (size >= header.length && memcmp(bytes, header.bytes, header.length) == 0) {
        status = read_rows(csv, bytes + header.length, size - header.length, error);
        *n_whole = size;
    } else if (file.size >= header.length ||
               (file.size > 0 && memcmp(bytes, header.bytes, file.size) != 0))
        status = refuse_header(csv->path, bytes, file.size, error);
    locus_buffer_free(&header);
    locus_file_unmap(&file);
    return status;
}

/* Takes what is there or drops it, and begins with a header where there is none. */
static enum locus_status start(struct locus_csv *csv, enum locus_csv_mode mode, locus_error *error)
{
    size_t n_whole = 0;
    enum locus_status status = LOCUS_OK;
    if (mode == LOCUS_CSV_RESUME && (status = read_file(csv, &n_whole, error))) return status;
    struct stat info;
    if (csv->is_file && mode == LOCUS_CSV_NEW && fstat(csv->descriptor, &info) == 0 &&
        info.st_size > 0)
        return locus_fail(error, LOCUS_ERROR_IO,
                          "%s is there already: expected --resume to go on with it, or --force to "
                          "replace it",
                          csv->path);
    if (csv->is_file && ftruncate(csv->descriptor, (off_t)n_whole))
        return fail_write(csv, errno, error);
    if (n_whole > 0) return LOCUS_OK;
    struct locus_buffer header = {0};
    locus_csv_header(&header);
    status = append(csv, &header, error);
    locus_buffer_free(&header);
    return status;
}

enum locus_status locus_csv_open(struct locus_csv *csv, const char *path, enum locus_csv_mode mode,
                                 locus_error *error)
{
    char *created;
    *csv = (struct locus_csv){.path = strdup(path), .descriptor = -1};
    if (!csv->path) return locus_fail_memory(error, strlen(path) + 1);
    enum locus_status status =
        locus_output_append(path, &csv->descriptor, &csv->is_file, &created, error);
    if (status) return status;
    if (csv->is_file && flock(csv->descriptor, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        status = locus_fail(error, LOCUS_ERROR_IO, "%s: another run is writing to it", path);
    else if ((status = start(csv, mode, error)) && created)
        unlink(created);
    free(created);
    return status;
}

enum locus_status locus_csv_add(struct locus_csv *csv, const struct locus_row *row,
                                locus_error *error)
{
    struct locus_buffer line = {0};
    locus_csv_row(&line, row);
    enum locus_status status = append(csv, &line, error);
    locus_buffer_free(&line);
    return status;
}

static bool same_cell(const struct locus_row *a, const struct locus_row *b, int column)
{
    const char *x = a->cells[column], *y = b->cells[column];
    return x && y ? strcmp(x, y) == 0 : x == y;
}

static bool same_setting(const struct locus_row *a, const struct locus_row *b)
{
    for (int i = 0; i < LOCUS_N_COLUMNS; i++)
        if (is_setting(i) && !same_cell(a, b, i)) return false;
    return true;
}

bool locus_row_is_outdated(const struct locus_row *found, const struct locus_row *row,
                           enum locus_column column)
{
    static const enum locus_column names[] = {LOCUS_COLUMN_TASK, LOCUS_COLUMN_MODEL,
                                              LOCUS_COLUMN_TEXT, LOCUS_COLUMN_LENGTH,
                                              LOCUS_COLUMN_PROTOCOL};
    bool same = true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        same &= same_cell(found, row, (int)names[i]);
    return same && !same_cell(found, row, (int)column);
}

const struct locus_row *locus_csv_find(const struct locus_csv *csv, const struct locus_row *row)
{
    for (int i = csv->n_rows - 1; i >= 0; i--)
        if (same_setting(&csv->rows[i], row)) return &csv->rows[i];
    return NULL;
}

void locus_csv_close(struct locus_csv *csv)
{
    if (csv->path && csv->descriptor >= 0) close(csv->descriptor);
    for (int i = 0; i < csv->n_rows; i++)
        locus_row_free(&csv->rows[i]);
    free(csv->rows);
    free(csv->path);
    *csv = (struct locus_csv){.descriptor = -1};
}
