/* What the program says: results on stdout, messages on stderr, and the exit status. */
#ifndef LOCUS_CLI_LOG_H
#define LOCUS_CLI_LOG_H

#include "base/buffer.h"
#include "base/error.h"

enum {
    LOCUS_EXIT_DONE = 0,
    LOCUS_EXIT_FAILED = 1,
    LOCUS_EXIT_USAGE = 2,
    LOCUS_EXIT_INTERRUPTED = 130
};

/* One line "locus: error: ..." on stderr; returns LOCUS_EXIT_FAILED. What a terminal may not
 * be shown becomes '?' (base/text.h). A
 * line that a text left unfinished on stdout is ended first. */
int locus_log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for wrong usage, with a line saying where to find help on `command` (NULL: on the whole
 * program); returns LOCUS_EXIT_USAGE. */
int locus_log_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for a wrong SPEC, which 'locus positions' explains. */
int locus_log_spec(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line "locus: ..." on stderr. Callers ask --quiet first. */
void locus_log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes all bytes to stdout at once, past any buffer. Where that fails, returns false with the
 * exit status to end with in *status: a broken pipe ends quietly, anything else has been said. */
bool locus_stdout_write(const void *bytes, size_t n_bytes, int *status);

/* Ends the line that the text is within, if any. As locus_stdout_write. */
bool locus_stdout_end_line(int *status);

/* Writes and frees the buffer, a command's whole result; returns the exit status. */
int locus_stdout_finish(struct locus_buffer *buffer);

#endif
