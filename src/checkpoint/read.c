/* Opening a checkpoint: map, check header, metadata and tensor table, in the file's order. */
#include <stdlib.h>
#include <sys/stat.h>

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

/* False for a folder as Hugging Face has them; the others are no different from other wrong paths.
 */
static bool check_folder(const char *path, locus_error *error)
{
    static const char config[] = "/config.json";
    struct stat info;
    struct locus_buffer inside = {0};
    if (stat(path, &info) || !S_ISDIR(info.st_mode)) return true;
    locus_buffer_printf(&inside, "%s%s", path, config);
    const bool found = !inside.failed && !stat(inside.bytes, &info);
    locus_buffer_free(&inside);
    if (!found) return true;
    locus_fail(error, LOCUS_ERROR_FORMAT,
               "%s: is a Hugging Face model folder, expected a GGUF file (scripts/convert_hf.py "
               "makes one of it)",
               path);
    return false;
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
    if (check_folder(path, error) && locus_file_map(&checkpoint->file, path, error) == LOCUS_OK) {
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
