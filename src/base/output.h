/* Files in the writing. A file appears whole or not at all: what is written is a temporary file in
 * the same folder, which takes the file's name at the end. The file keeps its mode, and its owner
 * where that can be; a link is followed, and what it leads to is written.
 *
 * What is no file is written as it stands, never replaced: a device, a FIFO, a descriptor
 * ("/dev/stdout", "/dev/fd/N"), and standard output, which is also called "-".
 */
#ifndef LOCUS_BASE_OUTPUT_H
#define LOCUS_BASE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct locus_output_file {
    char *path;      /* as it was given, for messages; NULL: there is no output */
    char *target;    /* where its links lead */
    char *temporary; /* NULL: nothing to rename, nor to remove */
    int descriptor;
    char *waiting; /* what is still to be written: n_waiting bytes */
    size_t n_waiting;
};

/* begin refuses what can't be written: a folder, a read-only file, a FIFO that nobody reads. commit
 * flushes and renames; abort leaves all as it was, after any failure or instead of commit. Both
 * release; abort after commit does nothing. A write that a signal interrupts fails. */
enum locus_status locus_output_begin(struct locus_output_file *output, const char *path,
                                     locus_error *error);
enum locus_status locus_output_write(struct locus_output_file *output, const void *bytes,
                                     size_t n_bytes, locus_error *error);
enum locus_status locus_output_commit(struct locus_output_file *output, locus_error *error);
void locus_output_abort(struct locus_output_file *output);

/* A whole file at once. */
enum locus_status locus_output_save(const char *path, const void *bytes, size_t n_bytes,
                                    locus_error *error);

/* Whether there can be a begin at that path, before the work. Nothing is left there. *held is -1,
 * or a FIFO that is read, open for writing: its reader, who would take an end for the text's, waits
 * as long as it is not closed. With `held` NULL a FIFO is not opened, nor its reader looked for. */
enum locus_status locus_output_check(const char *path, int *held, locus_error *error);

/* For a file that grows in place: *descriptor appends to what is at the path, created where it is
 * missing; what is no file is opened as above. *created (NULL: never mind) is the path of a file
 * that was missing, its links followed, to be freed; else NULL. */
enum locus_status locus_output_append(const char *path, int *descriptor, bool *is_file,
                                      char **created, locus_error *error);

/* Whether what is written to one of these paths would be the other's file: one that is there, or
 * one that both would create, their links followed. */
bool locus_output_is_same(const char *one, const char *other);

/* Whether the path is one of standard output's: "-", "/dev/stdout", "/dev/fd/1". */
bool locus_output_is_stdout(const char *path);

/* False for what is there and is no file: a descriptor, a device, a FIFO, a folder. */
bool locus_output_is_file(const char *path);

#endif
