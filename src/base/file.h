/* Files, mapped for reading. */
#ifndef LOCUS_BASE_FILE_H
#define LOCUS_BASE_FILE_H

#include <stddef.h>

#include "base/error.h"

struct locus_mapped_file {
    const unsigned char *bytes; /* read-only; NULL when the file is empty */
    size_t size;
};

/* A path as messages name it: an empty one in quotes. */
const char *locus_file_shown(const char *path);

/* Maps a regular file. A folder, a missing or unreadable file is an error that names it. */
enum locus_status locus_file_map(struct locus_mapped_file *file, const char *path,
                                 locus_error *error);
void locus_file_unmap(struct locus_mapped_file *file);

/* Tells the system that the pages of bytes [offset, offset + size) won't be read again soon. */
void locus_file_drop(const struct locus_mapped_file *file, size_t offset, size_t size);

#endif
