/* Files: see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *locus_file_shown(const char *path)
{
    return *path ? path : "''";
}

enum locus_status locus_file_map(struct locus_mapped_file *file, const char *path,
                                 locus_error *error)
{
    *file = (struct locus_mapped_file){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return locus_fail(error, LOCUS_ERROR_IO, "%s: %s", locus_file_shown(path), strerror(errno));
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
