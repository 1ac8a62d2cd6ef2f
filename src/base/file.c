/* Files: see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum locus_status locus_file_map(struct locus_mapped_file *file, const char *path,
                                 locus_error *error)
{
    *file = (struct locus_mapped_file){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) return locus_fail(error, LOCUS_ERROR_IO, "%s: %s", path, strerror(errno));
    enum locus_status status = LOCUS_OK;
    struct stat info;
    if (fstat(descriptor, &info))
        status = locus_fail(error, LOCUS_ERROR_IO, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        status = locus_fail(error, LOCUS_ERROR_IO, "%s: is a folder, expected a file", path);
    else if (!S_ISREG(info.st_mode))
        status = locus_fail(error, LOCUS_ERROR_IO, "%s: not a regular file", path);
    else if (info.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED)
            status = locus_fail(error, LOCUS_ERROR_IO, "%s: cannot be mapped: %s", path,
                                strerror(errno));
        else {
            file->bytes = bytes;
            file->size = (size_t)info.st_size;
        }
    }
    close(descriptor);
    return status;
}

void locus_file_unmap(struct locus_mapped_file *file)
{
    if (file->bytes) munmap((void *)(uintptr_t)file->bytes, file->size);
    *file = (struct locus_mapped_file){0};
}

void locus_file_drop(const struct locus_mapped_file *file, size_t offset, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t first = (offset + page - 1) / page * page, end = (offset + size) / page * page;
    if (file->bytes && first < end && end <= file->size)
        madvise((void *)(uintptr_t)(file->bytes + first), end - first, MADV_DONTNEED);
}

/* A device, a pipe, or a name of one (/dev/stdout): a rename would put a file in its place. */
static bool is_special(const char *path)
{
    struct stat info;
    if (lstat(path, &info)) return false;
    if (S_ISLNK(info.st_mode)) return strncmp(path, "/dev/", 5) == 0;
    return !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* A new file beside `path`; its name goes to `temporary`, and no other process or thread has it
 * open. Unlike mkstemp's, its mode follows the umask, which can't be asked for without setting it.
 * Returns the descriptor, or -1 with errno set. */
static int create_temporary(char *temporary, size_t size, const char *path)
{
    enum { MOST = 1000 };
    int descriptor = -1;
    for (int i = 0; i < MOST && descriptor < 0; i++) {
        snprintf(temporary, size, "%s.%ld-%d", path, (long)getpid(), i);
        descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != EEXIST) break;
    }
    return descriptor;
}

enum locus_status locus_output_begin(struct locus_output_file *output, const char *path,
                                     locus_error *error)
{
    enum { SUFFIX = 32 }; /* bytes that a temporary name is longer, its NUL included */
    size_t length = strlen(path);
    *output = (struct locus_output_file){
        .path = malloc(length + 1),
        .temporary = calloc(1, length + SUFFIX), /* "": nothing to remove */
    };
    if (!output->path || !output->temporary) {
        locus_output_abort(output);
        return locus_fail_memory(error, 2 * length);
    }
    memcpy(output->path, path, length + 1);
    struct stat info;
    int descriptor = -1;
    if (length == 0)
        errno = ENOENT; /* a temporary name would be one in the current folder */
    else if (!stat(path, &info) && S_ISDIR(info.st_mode))
        errno = EISDIR; /* better known before the work than at the rename */
    else
        descriptor = is_special(path) ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC)
                                      : create_temporary(output->temporary, length + SUFFIX, path);
    if (descriptor < 0) {
        int reason = errno;
        output->temporary[0] = '\0';
        locus_output_abort(output);
        return locus_fail(error, LOCUS_ERROR_IO, "%s: cannot be written: %s", path,
                          strerror(reason));
    }
    output->stream = fdopen(descriptor, "wb");
    if (!output->stream) {
        close(descriptor);
        locus_output_abort(output);
        return locus_fail_memory(error, BUFSIZ);
    }
    return LOCUS_OK;
}

enum locus_status locus_output_write(struct locus_output_file *output, const void *bytes,
                                     size_t n_bytes, locus_error *error)
{
    if (n_bytes && fwrite(bytes, 1, n_bytes, output->stream) != n_bytes)
        return locus_fail(error, LOCUS_ERROR_IO, "%s: write failed: %s", output->path,
                          strerror(errno));
    return LOCUS_OK;
}

static void release(struct locus_output_file *output)
{
    free(output->path);
    free(output->temporary);
    *output = (struct locus_output_file){0};
}

enum locus_status locus_output_commit(struct locus_output_file *output, locus_error *error)
{
    const bool renames = output->temporary && output->temporary[0];
    int failed = fflush(output->stream) ? errno : 0;
    if (!failed && renames && fsync(fileno(output->stream))) failed = errno;
    if (fclose(output->stream) && !failed) failed = errno;
    output->stream = NULL;
    if (!failed && renames && rename(output->temporary, output->path)) failed = errno;
    enum locus_status status = LOCUS_OK;
    if (failed) {
        if (renames) unlink(output->temporary);
        status = locus_fail(error, LOCUS_ERROR_IO, "%s: write failed: %s", output->path,
                            strerror(failed));
    }
    release(output);
    return status;
}

void locus_output_abort(struct locus_output_file *output)
{
    if (output->stream) fclose(output->stream);
    if (output->temporary && output->temporary[0]) unlink(output->temporary);
    release(output);
}

enum locus_status locus_output_save(const char *path, const void *bytes, size_t n_bytes,
                                    locus_error *error)
{
    struct locus_output_file output;
    enum locus_status status = locus_output_begin(&output, path, error);
    if (status) return status;
    status = locus_output_write(&output, bytes, n_bytes, error);
    if (!status) return locus_output_commit(&output, error);
    locus_output_abort(&output);
    return status;
}
