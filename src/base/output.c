/* Files in the writing: see output.h.
 *
 *     path -> links followed -> a descriptor duplicated | a device or FIFO opened
 *                             | a temporary file in the same folder -> renamed
 */
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { WAITING = 1 << 16 }; /* bytes that are gathered before they are written */

/* ---- what a path names -------------------------------------------------------------------- */

/* The descriptor that a path is a name of, or -1. To open one by its name would start a file anew,
 * and fails for a socket. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0) return STDERR_FILENO;
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(folders[i]);
        if (strncmp(path, folders[i], n) != 0) continue;
        const size_t n_digits = strspn(path + n, "0123456789");
        if (n_digits > 0 && n_digits < 6 && !path[n + n_digits]) return atoi(path + n);
    }
    return -1;
}

bool locus_output_is_stdout(const char *path)
{
    return descriptor_of(path) == STDOUT_FILENO;
}

/* `link`, read in the folder of the path `from`; to be freed. */
static char *beside(const char *from, const char *link)
{
    const char *slash = *link == '/' ? NULL : strrchr(from, '/');
    const size_t n_folder = slash ? (size_t)(slash - from) + 1 : 0, n_link = strlen(link);
    char *path = malloc(n_folder + n_link + 1);
    if (!path) return NULL;
    memcpy(path, from, n_folder);
    memcpy(path + n_folder, link, n_link + 1);
    return path;
}

/* Where the links of a path's last part lead, though nothing be there; to be freed. NULL with errno
 * set. */
static char *follow(const char *path)
{
    enum { MOST_LINKS = 40, MOST_BYTES = 4096 };
    char *at = strdup(path);
    for (int i = 0; at; i++) {
        char link[MOST_BYTES];
        struct stat info;
        if (descriptor_of(at) >= 0 || lstat(at, &info) || !S_ISLNK(info.st_mode)) break;
        ssize_t n = readlink(at, link, sizeof link - 1);
        if (i == MOST_LINKS) errno = ELOOP;
        char *next = NULL;
        if (n >= 0 && i < MOST_LINKS) {
            link[n] = '\0';
            next = beside(at, link);
        }
        int reason = errno;
        free(at);
        errno = reason;
        at = next;
    }
    return at;
}

/* A file that is there, or will be, as opposed to what is written as it stands. */
struct place {
    char *target;     /* to be freed */
    bool is_file;     /* or may be made one */
    bool exists;      /* of a file */
    struct stat info; /* of what exists */
};

/* False with errno set if nothing can be written there. */
static bool find_place(struct place *place, const char *path)
{
    struct stat info;
    *place = (struct place){.target = follow(path)};
    if (!place->target) return false;
    if (descriptor_of(place->target) >= 0) return true;
    if (stat(place->target, &info)) {
        place->is_file = true;
        return errno == ENOENT && *path;
    }
    place->info = info;
    if (S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return false;
    }
    place->is_file = place->exists = S_ISREG(info.st_mode);
    return true;
}

bool locus_output_is_file(const char *path)
{
    struct place place;
    find_place(&place, path);
    const bool is_other = place.target && !place.is_file;
    free(place.target);
    return !is_other;
}

/* Whether two files that are not there yet would be one: by their folders and names. */
static bool same_place(const char *one, const char *other)
{
    const char *const paths[] = {one, other};
    const char *names[2];
    struct stat folders[2];
    for (int i = 0; i < 2; i++) {
        const char *slash = strrchr(paths[i], '/');
        names[i] = slash ? slash + 1 : paths[i];
        char *folder = slash ? strndup(paths[i], (size_t)(slash - paths[i]) + 1) : strdup(".");
        const bool there = folder && stat(folder, &folders[i]) == 0;
        free(folder);
        if (!there) return false;
    }
    return strcmp(names[0], names[1]) == 0 && folders[0].st_dev == folders[1].st_dev &&
           folders[0].st_ino == folders[1].st_ino;
}

bool locus_output_is_same(const char *one, const char *other)
{
    struct stat a, b;
    const bool has_one = stat(one, &a) == 0, has_other = stat(other, &b) == 0;
    if (has_one || has_other)
        return has_one && has_other && S_ISREG(a.st_mode) && a.st_dev == b.st_dev &&
               a.st_ino == b.st_ino;
    char *first = follow(one), *second = follow(other);
    const bool same = first && second && same_place(first, second);
    free(first);
    free(second);
    return same;
}

/* Whether the descriptor is open for writing; false with errno set. */
static bool is_writable(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) errno = EBADF;
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

/* What is no file, opened for writing; -1 with errno set. A FIFO is opened only if somebody reads
 * it: to wait for one could be for ever. */
static int open_stream(const char *target)
{
    int descriptor = descriptor_of(target);
    if (descriptor >= 0 && !is_writable(descriptor)) return -1;
    if (descriptor >= 0) return fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    descriptor = open(target, O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return -1;
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0 && fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) == 0) return descriptor;
    close(descriptor);
    return -1;
}

/* Of a long path the end, so that a message has room for its reason. */
static const char *shown(const char *path, const char **dots)
{
    enum { MOST = 160 };
    const size_t length = strlen(path);
    *dots = length > MOST ? "..." : "";
    if (length > MOST) path += length - MOST;
    while (((unsigned char)*path & 0xC0) == 0x80) /* within a character */
        path++;
    return locus_file_shown(path);
}

static enum locus_status fail_open(const struct place *place, const char *path, int reason,
                                   locus_error *error)
{
    const char *dots, *tail = shown(path, &dots);
    if (reason == ENOMEM) return locus_fail_memory(error, WAITING);
    const bool unread = reason == ENXIO && S_ISFIFO(place->info.st_mode);
    return locus_fail(error, LOCUS_ERROR_IO, "%s%s: cannot be written: %s", dots, tail,
                      unread ? "nobody reads from this pipe" : strerror(reason));
}

/* ---- the temporary file ------------------------------------------------------------------- */

/* A new file in the target's folder; its name goes to *temporary, to be freed, and no other process
 * or thread has it open. Unlike mkstemp's, its mode follows the umask, which can't be asked for
 * without setting it. Returns the descriptor, or -1 with errno set. */
static int create_temporary(char **temporary, const char *target, mode_t mode)
{
    enum { MOST = 1000 };
    int descriptor = -1;
    *temporary = NULL;
    for (int i = 0; i < MOST && descriptor < 0; i++) {
        char name[40]; /* short, whatever the file is called */
        snprintf(name, sizeof name, ".locus-%ld-%d", (long)getpid(), i);
        free(*temporary);
        if (!(*temporary = beside(target, name))) return -1;
        descriptor = open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (descriptor < 0 && errno != EEXIST) break;
    }
    if (descriptor >= 0) return descriptor;
    int reason = errno;
    free(*temporary);
    *temporary = NULL;
    errno = reason;
    return -1;
}

/* Owner and mode as the old file has them, while nothing is written yet. Where the group can't be
 * kept, another one may do no more than everybody. */
static bool take_over(int descriptor, const struct stat *old)
{
    struct stat made;
    mode_t mode = old->st_mode & 07777;
    if (fstat(descriptor, &made)) return false;
    if (made.st_uid != old->st_uid && fchown(descriptor, old->st_uid, (gid_t)-1))
        mode &= ~(mode_t)(S_ISUID | S_ISGID);
    if (made.st_gid != old->st_gid && fchown(descriptor, (uid_t)-1, old->st_gid))
        mode &= ~(mode_t)(S_ISUID | S_ISGID | S_IRWXG) | (mode & S_IRWXO) << 3;
    return fchmod(descriptor, mode) == 0;
}

/* Whether the file may be opened for writing: the folder alone would let it be replaced. */
static bool may_write(const char *target)
{
    int descriptor = open(target, O_WRONLY | O_CLOEXEC);
    if (descriptor >= 0) close(descriptor);
    return descriptor >= 0;
}

static int open_file(const struct place *place, char **temporary)
{
    if (!place->exists) return create_temporary(temporary, place->target, 0666);
    if (!may_write(place->target)) return -1;
    int descriptor = create_temporary(temporary, place->target, 0600);
    if (descriptor < 0 || take_over(descriptor, &place->info)) return descriptor;
    int reason = errno;
    close(descriptor);
    unlink(*temporary);
    free(*temporary);
    *temporary = NULL;
    errno = reason;
    return -1;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void release(struct locus_output_file *output)
{
    free(output->path);
    free(output->target);
    free(output->temporary);
    free(output->waiting);
    *output = (struct locus_output_file){0};
}

enum locus_status locus_output_begin(struct locus_output_file *output, const char *path,
                                     locus_error *error)
{
    struct place place;
    *output = (struct locus_output_file){.path = strdup(path), .waiting = malloc(WAITING)};
    if (!output->path || !output->waiting) {
        release(output);
        locus_fail_memory(error, WAITING);
        return LOCUS_ERROR_MEMORY;
    }
    output->descriptor = -1;
    if (find_place(&place, path))
        output->descriptor =
            place.is_file ? open_file(&place, &output->temporary) : open_stream(place.target);
    output->target = place.target;
    if (output->descriptor >= 0) return LOCUS_OK;
    int reason = errno;
    release(output);
    fail_open(&place, path, reason, error);
    return reason == ENOMEM ? LOCUS_ERROR_MEMORY : LOCUS_ERROR_IO;
}

static enum locus_status fail_write(const struct locus_output_file *output, int reason,
                                    locus_error *error)
{
    const char *dots, *tail = shown(output->path, &dots);
    return locus_fail(error, LOCUS_ERROR_IO, "%s%s: write failed: %s", dots, tail,
                      strerror(reason));
}

/* 0, or why not all could be written. A pipe takes PIPE_BUF bytes whole or not at all: when a
 * signal comes while more are waiting for a reader, that would look like a success. */
static int write_out(const struct locus_output_file *output, const char *bytes, size_t n_bytes)
{
    while (n_bytes > 0) {
        const bool whole = output->temporary || n_bytes < PIPE_BUF;
        ssize_t n = write(output->descriptor, bytes, whole ? n_bytes : PIPE_BUF);
        if (n <= 0) return n ? errno : EIO;
        bytes += n;
        n_bytes -= (size_t)n;
    }
    return 0;
}

static int flush(struct locus_output_file *output)
{
    const size_t n_waiting = output->n_waiting;
    output->n_waiting = 0;
    return write_out(output, output->waiting, n_waiting);
}

enum locus_status locus_output_write(struct locus_output_file *output, const void *bytes,
                                     size_t n_bytes, locus_error *error)
{
    int reason = n_bytes > WAITING - output->n_waiting ? flush(output) : 0;
    if (!reason && n_bytes > WAITING)
        reason = write_out(output, bytes, n_bytes);
    else if (!reason && n_bytes > 0) {
        memcpy(output->waiting + output->n_waiting, bytes, n_bytes);
        output->n_waiting += n_bytes;
    }
    return reason ? fail_write(output, reason, error) : LOCUS_OK;
}

enum locus_status locus_output_commit(struct locus_output_file *output, locus_error *error)
{
    int reason = flush(output);
    if (!reason && output->temporary && fsync(output->descriptor)) reason = errno;
    if (close(output->descriptor) && !reason) reason = errno;
    if (!reason && output->temporary && rename(output->temporary, output->target)) reason = errno;
    if (reason && output->temporary) unlink(output->temporary);
    enum locus_status status = reason ? fail_write(output, reason, error) : LOCUS_OK;
    release(output);
    return status;
}

void locus_output_abort(struct locus_output_file *output)
{
    if (!output->path) return;
    close(output->descriptor);
    if (output->temporary) unlink(output->temporary);
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

enum locus_status locus_output_check(const char *path, int *held, locus_error *error)
{
    struct place place;
    if (held) *held = -1;
    bool found = find_place(&place, path);
    if (found && place.is_file) {
        struct locus_output_file output;
        free(place.target);
        enum locus_status status = locus_output_begin(&output, path, error);
        if (!status) locus_output_abort(&output);
        return status;
    }
    const int descriptor = found ? descriptor_of(place.target) : -1;
    if (descriptor >= 0)
        found = is_writable(descriptor);
    else if (found && held && S_ISFIFO(place.info.st_mode))
        found = (*held = open_stream(place.target)) >= 0;
    else if (found)
        found = access(place.target, W_OK) == 0;
    int reason = errno;
    free(place.target);
    return found ? LOCUS_OK : fail_open(&place, path, reason, error);
}

enum locus_status locus_output_append(const char *path, int *descriptor, bool *is_file,
                                      char **created, locus_error *error)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC };
    struct place place;
    bool is_new = false;
    *descriptor = -1;
    if (find_place(&place, path)) {
        *descriptor =
            place.is_file ? open(place.target, FLAGS | O_EXCL, 0666) : open_stream(place.target);
        is_new = place.is_file && *descriptor >= 0;
        if (place.is_file && *descriptor < 0 && errno == EEXIST)
            *descriptor = open(place.target, FLAGS, 0666);
    }
    int reason = errno;
    if (created) *created = is_new ? place.target : NULL;
    if (!created || !is_new) free(place.target);
    *is_file = place.is_file;
    return *descriptor >= 0 ? LOCUS_OK : fail_open(&place, path, reason, error);
}
