/* Opening a checkpoint: map, check header, metadata and tensor table, in the file's order. */
#include <stdlib.h>

#include "checkpoint/internal.h"

/* The least a key (name of one byte, value of one byte) and a tensor of one dimension take: what a
 * count is held against before anything is read by it. */
enum { MIN_ENTRY_BYTES = 8 + 1 + 4 + 1, MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8 };

static bool check_version(struct locus_cursor *cursor, int *version)
{
    uint32_t found;
    if (!locus_cursor_u32(cursor, "the version", &found)) return false;
    if (found && !(found & 0xFFFFFF))
        return locus_cursor_refuse(cursor, LOCUS_ERROR_UNSUPPORTED,
                                   "a big-endian GGUF file, expected a little-endian one");
    if (found != 2 && found != 3)
        return locus_cursor_refuse(cursor, LOCUS_ERROR_UNSUPPORTED,
                                   "GGUF version is %u, expected 2 or 3", found);
    *version = (int)found;
    return true;
}

static bool check_count(const struct locus_cursor *cursor, const char *what, uint64_t n,
                        size_t min_bytes)
{
    size_t left = locus_cursor_left(cursor);
    return n <= left / min_bytes ||
           locus_cursor_refuse(cursor, LOCUS_ERROR_FORMAT,
                               "the count of %s is %llu, expected at most %zu in the %zu bytes "
                               "that follow: truncated or damaged",
                               what, (unsigned long long)n, left / min_bytes, left);
}

static bool read_file(struct locus_checkpoint *checkpoint, struct locus_cursor *cursor)
{
    uint64_t n_tensors, n_entries;
    return locus_magic_check(cursor) && check_version(cursor, &checkpoint->version) &&
           locus_cursor_u64(cursor, "the count of tensors", &n_tensors) &&
           locus_cursor_u64(cursor, "the count of keys", &n_entries) &&
           check_count(cursor, "tensors", n_tensors, MIN_TENSOR_BYTES) &&
           check_count(cursor, "keys", n_entries, MIN_ENTRY_BYTES) &&
           locus_metadata_read(checkpoint, cursor, n_entries) &&
           locus_tensors_read(checkpoint, cursor, n_tensors);
}

struct locus_checkpoint *locus_checkpoint_open(const char *path, locus_error *error)
{
    struct locus_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    if (checkpoint) checkpoint->path = strdup(path);
    if (!checkpoint || !checkpoint->path) {
        locus_fail_memory(error, sizeof *checkpoint + strlen(path) + 1);
        locus_checkpoint_free(checkpoint);
        return NULL;
    }
    struct locus_cursor cursor;
    if (locus_file_map(&checkpoint->file, path, error) == LOCUS_OK) {
        locus_cursor_init(&cursor, &checkpoint->file, path, error);
        if (read_file(checkpoint, &cursor)) return checkpoint;
    }
    locus_checkpoint_free(checkpoint);
    return NULL;
}

void locus_checkpoint_free(struct locus_checkpoint *checkpoint)
{
    if (!checkpoint) return;
    locus_metadata_free(checkpoint);
    locus_tensors_free(checkpoint);
    locus_file_unmap(&checkpoint->file);
    free(checkpoint->path);
    free(checkpoint);
}

const char *locus_checkpoint_path(const struct locus_checkpoint *checkpoint)
{
    return checkpoint->path;
}

const struct locus_mapped_file *locus_checkpoint_file(const struct locus_checkpoint *checkpoint)
{
    return &checkpoint->file;
}

int locus_checkpoint_version(const struct locus_checkpoint *checkpoint)
{
    return checkpoint->version;
}
