/* Results: rows of cells, and the CSV file they are written to, a row at a time. */
#ifndef LOCUS_EXPERIMENT_REPORT_H
#define LOCUS_EXPERIMENT_REPORT_H

#include "base/buffer.h"
#include "base/error.h"
#include "experiment/inputs.h"
#include "experiment/perplexity.h"
#include "forward/describe.h"

enum locus_column {
    LOCUS_COLUMN_TASK,
    LOCUS_COLUMN_MODEL,
    LOCUS_COLUMN_MODEL_SHA, /* 8 digits of the file's SHA-256 */
    LOCUS_COLUMN_WEIGHT_TYPE,
    LOCUS_COLUMN_POSITION, /* full SPEC, as the session resolved it */
    LOCUS_COLUMN_ATTENTION,
    LOCUS_COLUMN_TRAINED_LENGTH,
    LOCUS_COLUMN_TEXT,
    LOCUS_COLUMN_LENGTH,
    LOCUS_COLUMN_PROTOCOL,
    LOCUS_COLUMN_STRIDE,
    LOCUS_COLUMN_BEGIN_OF_TEXT, /* "none", "before" each document, "over" a window's first token */
    LOCUS_COLUMN_DEPTH,
    LOCUS_COLUMN_TRIALS,
    LOCUS_COLUMN_TOKENS,
    LOCUS_COLUMN_NLL, /* nats a token */
    LOCUS_COLUMN_PERPLEXITY,
    LOCUS_COLUMN_STANDARD_ERROR, /* of the perplexity, or of the accuracy */
    LOCUS_COLUMN_BITS_PER_BYTE,
    LOCUS_COLUMN_ACCURACY,
    LOCUS_COLUMN_CACHE_TYPE,
    LOCUS_COLUMN_KERNELS,
    LOCUS_COLUMN_SEED,
    LOCUS_COLUMN_TEXT_SHA,       /* 16 digits of the text's SHA-256; pooled: of all their digests */
    LOCUS_COLUMN_BEGIN,          /* where begin-of-text goes: "none", "first", "every" */
    LOCUS_COLUMN_LONGEST_WINDOW, /* tokens that the longest window held */
    LOCUS_COLUMN_DOCUMENTS,      /* "whole": the text is one; "each": cut into documents */
    LOCUS_COLUMN_WINDOWS,        /* of a document: "all", or the "first" */
    LOCUS_COLUMN_VERSION,        /* of this program */
    LOCUS_COLUMN_THREADS,
    LOCUS_COLUMN_SECONDS,
    LOCUS_N_COLUMNS
};

const char *locus_column_name(enum locus_column column);
bool locus_column_is_text(enum locus_column column);

#define LOCUS_MOST_TOKENS 1e15 /* more than any result counts, and exact in a double */

/* A result. A cell is text; NULL is empty. Numbers are written once, so that whatever is made of a
 * row (a table, JSON, a picture, a pooled row) is the same after the row went through a file. */
struct locus_row {
    char *cells[LOCUS_N_COLUMNS];
};

/* Each replaces the cell; out of memory, it stays empty and `false` is returned. What a
 * terminal may not be shown becomes '?' (base/text.h). */
bool locus_row_set_text(struct locus_row *row, enum locus_column column, const char *text);
bool locus_row_set_int(struct locus_row *row, enum locus_column column, int64_t value);
bool locus_row_set_real(struct locus_row *row, enum locus_column column,
                        double value); /* NAN: empty */

/* The cells that say what ran: task, model, weights, position, attention, cache, kernels, version,
 * threads. */
bool locus_row_set_session(struct locus_row *row, const char *task,
                           const struct locus_opened_model *model,
                           const struct locus_description *session);
/* Those of a plan over a text of that name and hash, whose corpus says how it was read. */
bool locus_row_set_plan(struct locus_row *row, const char *text, const char *sha,
                        const struct locus_plan *plan, const struct locus_corpus *corpus);
/* Where begin-of-text went: `begin_of_text` and `begin`. */
bool locus_row_set_begin(struct locus_row *row, enum locus_begin_rule rule);

/* tokens, nll, perplexity, standard_error and bits_per_byte. */
bool locus_row_set_summary(struct locus_row *row, const struct locus_summary *summary);

double locus_row_number(const struct locus_row *row, enum locus_column column); /* NAN: none */
bool locus_row_copy(struct locus_row *to, const struct locus_row *from);
void locus_row_free(struct locus_row *row);

/* What several texts' rows of one setting pool to: averages over all their tokens. `pooled` gets
 * the first one's settings, the largest length and longest window, and the sum of their seconds. */
bool locus_row_pool(struct locus_row *pooled, const struct locus_row *const *rows, int n_rows,
                    const char *texts_sha);

/* Appends a line, its newline included. */
void locus_csv_header(struct locus_buffer *out);
void locus_csv_row(struct locus_buffer *out, const struct locus_row *row);
/* A cell of text, quoted where it must be; an apostrophe stands before what a spreadsheet would
 * take for a formula, "=1", "-x", "@y" or "'=1". */
void locus_csv_cell(struct locus_buffer *out, const char *text, size_t n_bytes);

/* A CSV file that rows are added to. */
struct locus_csv {
    char *path;
    int descriptor;
    bool is_file;           /* not a device, a pipe or standard output */
    struct locus_row *rows; /* [n_rows]: those found in it by `resume` */
    int n_rows;
};

enum locus_csv_mode {
    LOCUS_CSV_NEW,    /* refuses a file that holds anything */
    LOCUS_CSV_RESUME, /* with the rows it holds, a last line without its end cut off */
    LOCUS_CSV_REPLACE /* whatever it holds is dropped */
};

/* Opens the file for adding rows. Refuses to resume a file that is not such a CSV, or whose results
 * are no numbers that results can be, and one that another run is adding to. What is no file
 * (base/output.h) is only written. A file that wasn't there isn't there after a failure either. */
enum locus_status locus_csv_open(struct locus_csv *csv, const char *path, enum locus_csv_mode mode,
                                 locus_error *error);
/* Adds a row, at once and whole or not at all. */
enum locus_status locus_csv_add(struct locus_csv *csv, const struct locus_row *row,
                                locus_error *error);
/* The last row found in the file whose settings (all but results, threads and seconds) are those of
 * `row`; NULL: none. */
const struct locus_row *locus_csv_find(const struct locus_csv *csv, const struct locus_row *row);
/* Whether a row is of the same task, model, text, length and protocol by name, but in such a column
 * (model_sha, text_sha, version) has something else. */
bool locus_row_is_outdated(const struct locus_row *found, const struct locus_row *row,
                           enum locus_column column);
void locus_csv_close(struct locus_csv *csv);

#endif
