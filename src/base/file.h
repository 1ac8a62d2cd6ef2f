/* Files: mapped for reading, written beside their final name and renamed when whole. */
#ifndef LOCUS_BASE_FILE_H
#define LOCUS_BASE_FILE_H

#include <stdio.h>

#include "base/error.h"

struct locus_mapped_file {
    const unsigned char *bytes; /* read-only; NULL when the file is empty */
    size_t size;
};

/* Maps a regular file. A folder, a missing or unreadable file is an error that names it. */
enum locus_status locus_file_map(struct locus_mapped_file *file, const char *path,
                                 locus_error *error);
void locus_file_unmap(struct locus_mapped_file *file);

/* Tells the system that the pages of bytes [offset, offset + size) won't be read again soon. */
void locus_file_drop(const struct locus_mapped_file *file, size_t offset, size_t size);

/* A file in the writing. begin creates a temporary file in the same folder; commit flushes and
 * renames it to `path` (a device or a pipe is written as it stands); abort removes it, after any
 * failure or instead of commit. commit and abort both release; abort after commit does nothing. */
struct locus_output_file {
    FILE *stream;
    char *path, *temporary;
};

enum locus_status locus_output_begin(struct locus_output_file *output, const char *path,
                                     locus_error *error);
enum locus_status locus_output_write(struct locus_output_file *output, const void *bytes,
                                     size_t n_bytes, locus_error *error);
enum locus_status locus_output_commit(struct locus_output_file *output, locus_error *error);
void locus_output_abort(struct locus_output_file *output);

/* A whole file at once. */
enum locus_status locus_output_save(const char *path, const void *bytes, size_t n_bytes,
                                    locus_error *error);

#endif
