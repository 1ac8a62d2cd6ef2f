/* What commands write beside, or in place of, their results: files, and standard output ("-"). */
#ifndef LOCUS_CLI_OUTPUTS_H
#define LOCUS_CLI_OUTPUTS_H

#include <stdbool.h>

#include "base/error.h"
#include "experiment/inputs.h"

/* An output as it was asked for. */
struct locus_output_request {
    const char *option; /* "--csv" */
    const char *path;   /* NULL: not asked for */
    bool binary;        /* nothing for a terminal */
};

/* Whether one of them is standard output, which then carries nothing else: *taken. Two are refused,
 * and what is binary where standard output is a terminal. Returns -1 to go on, or the exit status.
 */
int locus_outputs_stdout(const char *command, const struct locus_output_request *requests,
                         int n_requests, bool *taken);

/* Refuses an output that is `other`, a file that is read or another output; NULL: none. The outputs
 * with one another and with the texts, likewise. The same returns. */
int locus_output_apart(const char *command, const char *output, const char *other);
int locus_outputs_apart(const char *command, const char *const *outputs, int n_outputs,
                        const struct locus_text_list *texts);

/* Whether files can be written at these paths (NULL: none), before a long run; nothing is left
 * there. FIFOs that are read are held open, so that their readers wait, until they are released,
 * which is to be done in any case. The same returns. */
int locus_outputs_check(const char *const *paths, int n_paths, struct locus_buffer *held);
void locus_outputs_release(struct locus_buffer *held);

/* Says, unless `quiet`, that a picture's font lacked characters that were to be drawn. */
void locus_picture_note(bool is_ascii, bool quiet);

/* The exit status of a command that failed so, after a line that says it; without one where a
 * signal, or who read standard output, ended the writing. */
int locus_output_failed(const locus_error *error);

#endif
