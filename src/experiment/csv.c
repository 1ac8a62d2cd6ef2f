/* The CSV file of results (RFC 4180, lines ended by a newline): see report.h. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "experiment/report.h"

/* ---- lines -------------------------------------------------------------------------------- */

void locus_csv_cell(struct locus_buffer *out, const char *text, size_t n_bytes)
{
    bool quoted = false;
    for (size_t i = 0; i < n_bytes && !quoted; i++)
        quoted = memchr(",\"\r\n", text[i], 4) != NULL;
    if (!quoted) {
        locus_buffer_append(out, text, n_bytes);
        return;
    }
    locus_buffer_append(out, "\"", 1);
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == '"') locus_buffer_append(out, "\"", 1);
        locus_buffer_append(out, text + i, 1);
    }
    locus_buffer_append(out, "\"", 1);
}

void locus_csv_header(struct locus_buffer *out)
{
    for (enum locus_column i = 0; i < LOCUS_N_COLUMNS; i++)
        locus_buffer_printf(out, "%s%s", i > 0 ? "," : "", locus_column_name(i));
    locus_buffer_append(out, "\n", 1);
}

void locus_csv_row(struct locus_buffer *out, const struct locus_row *row)
{
    for (int i = 0; i < LOCUS_N_COLUMNS; i++) {
        if (i > 0) locus_buffer_append(out, ",", 1);
        if (row->cells[i]) locus_csv_cell(out, row->cells[i], strlen(row->cells[i]));
    }
    locus_buffer_append(out, "\n", 1);
}

/* Takes a cell off a line, unquoted; NULL if memory ran out or it is no cell. */
static char *next_cell(const char **line, const char *end)
{
    const char *at = *line;
    char *cell = malloc((size_t)(end - at) + 1), *out = cell;
    if (!cell) return NULL;
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
        *out++ = *at;
    }
    *out = '\0';
    if (quoted || (at < end && *at != ',')) {
        free(cell);
        return NULL;
    }
    *line = at;
    return cell;
}

/* False unless [line, end) is a row. */
static bool parse_row(struct locus_row *row, const char *line, const char *end)
{
    *row = (struct locus_row){{0}};
    for (int i = 0; i < LOCUS_N_COLUMNS; i++) {
        if (i > 0 && (line == end || *line++ != ',')) break;
        if (!(row->cells[i] = next_cell(&line, end))) break;
        if (i == LOCUS_N_COLUMNS - 1 && line == end) {
            for (int j = 0; j < LOCUS_N_COLUMNS; j++)
                if (!*row->cells[j]) free(row->cells[j]), row->cells[j] = NULL;
            return true;
        }
    }
    locus_row_free(row);
    return false;
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
    if (S_ISREG(before.st_mode) && ftruncate(csv->descriptor, before.st_size)) reason = errno;
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

/* Whether a cell is empty or, all of it, a number. */
static bool is_number(const char *cell)
{
    if (!cell) return true;
    char *end;
    double value = strtod(cell, &end);
    return *end == '\0' && !isnan(value);
}

/* The first of a row's columns of results that holds no number, or LOCUS_N_COLUMNS. Settings are
 * compared as text: one that is none fits no run. */
static enum locus_column find_no_number(const struct locus_row *row)
{
    enum locus_column i = 0;
    while (i < LOCUS_N_COLUMNS && (is_setting((int)i) || is_number(row->cells[i])))
        i++;
    return i;
}

/* Reads the rows that bytes[n_bytes] hold after the header. */
static enum locus_status read_rows(struct locus_csv *csv, const char *bytes, size_t n_bytes,
                                   locus_error *error)
{
    int number = 2;
    for (const char *line = bytes, *end = bytes + n_bytes; line < end; number++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        struct locus_row row;
        if (!parse_row(&row, line, newline))
            return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: line %d is not a row of %d cells",
                              csv->path, number, LOCUS_N_COLUMNS);
        enum locus_column odd = find_no_number(&row);
        enum locus_status status =
            odd == LOCUS_N_COLUMNS
                ? add_found(csv, &row, error)
                : locus_fail(error, LOCUS_ERROR_FORMAT, "%s: line %d: %s is '%.40s', no number",
                             csv->path, number, locus_column_name(odd), row.cells[odd]);
        if (status) {
            locus_row_free(&row);
            return status;
        }
        line = newline + 1;
    }
    return LOCUS_OK;
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
        status = locus_fail(error, LOCUS_ERROR_FORMAT,
                            "%s: can't be resumed: its first line is not the header of results",
                            csv->path);
    locus_buffer_free(&header);
    locus_file_unmap(&file);
    return status;
}

enum locus_status locus_csv_open(struct locus_csv *csv, const char *path, bool resume,
                                 locus_error *error)
{
    size_t n_whole = 0;
    *csv = (struct locus_csv){.path = strdup(path), .descriptor = -1};
    if (!csv->path) return locus_fail_memory(error, strlen(path) + 1);
    csv->descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (csv->descriptor < 0)
        return locus_fail(error, LOCUS_ERROR_IO, "%s: cannot be written: %s", path,
                          strerror(errno));
    struct stat info;
    if (flock(csv->descriptor, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return locus_fail(error, LOCUS_ERROR_IO, "%s: another run is writing to it", path);
    enum locus_status status = resume ? read_file(csv, &n_whole, error) : LOCUS_OK;
    if (status) return status;
    if (fstat(csv->descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
        ftruncate(csv->descriptor, (off_t)n_whole))
        return fail_write(csv, errno, error);
    if (n_whole > 0) return LOCUS_OK;
    struct locus_buffer header = {0};
    locus_csv_header(&header);
    status = append(csv, &header, error);
    locus_buffer_free(&header);
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

static bool same_setting(const struct locus_row *a, const struct locus_row *b)
{
    for (int i = 0; i < LOCUS_N_COLUMNS; i++) {
        const char *x = a->cells[i], *y = b->cells[i];
        if (!is_setting(i)) continue;
        if (x && y ? strcmp(x, y) != 0 : x != y) return false;
    }
    return true;
}

const struct locus_row *locus_csv_find(const struct locus_csv *csv, const struct locus_row *row)
{
    for (int i = 0; i < csv->n_rows; i++)
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
