/* Files in the writing: whole or not at all, with the mode, owner and links of what was there; and
 * what is no file, written as it stands.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/output.h"
#include "testing.h"

/* ---- what the tests look at ---------------------------------------------------------------- */

static void save(const char *path, const char *text)
{
    locus_error error = {0};
    ck_assert_msg(locus_output_save(path, text, strlen(text), &error) == LOCUS_OK, "%s",
                  error.message);
}

static void holds(const char *path, const char *text)
{
    size_t n;
    char *bytes = testing_read(path, &n);
    ck_assert_str_eq(bytes, text);
    free(bytes);
}

static void refuses(const char *path, const char *says)
{
    locus_error error = {0};
    ck_assert_int_eq(locus_output_check(path, NULL, &error), LOCUS_ERROR_IO);
    ck_assert_int_eq(locus_output_save(path, "x", 1, &error), LOCUS_ERROR_IO);
    ck_assert_msg(strstr(error.message, says) != NULL, "no \"%s\": %s", says, error.message);
}

static mode_t mode_of(const char *path)
{
    struct stat info;
    ck_assert_int_eq(lstat(path, &info), 0);
    return info.st_mode & (S_IFMT | 07777);
}

/* A name beside `path`; valid until the second-next call. */
static const char *beside(const char *path, const char *name)
{
    static char paths[2][4096];
    static int next;
    char *at = paths[next++ % 2];
    snprintf(at, sizeof paths[0], "%.*s%s", (int)(strrchr(path, '/') - path) + 1, path, name);
    return at;
}

/* The mode of the one file in the folder of `path` that is not `path`: the temporary one. */
static mode_t mode_of_temporary(const char *path)
{
    mode_t mode = 0;
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    DIR *files = opendir(folder);
    ck_assert_ptr_nonnull(files);
    for (struct dirent *file; (file = readdir(files));) {
        if (!strcmp(file->d_name, strrchr(path, '/') + 1) ||
            file->d_name[strspn(file->d_name, ".")] == '\0')
            continue;
        ck_assert_uint_eq(mode, 0);
        mode = mode_of(beside(path, file->d_name));
    }
    closedir(files);
    return mode & 07777;
}

/* ---- files --------------------------------------------------------------------------------- */

START_TEST(output_appears_whole)
{
    const char *path = testing_temporary("x.txt");
    struct locus_output_file output;
    umask(027);
    ck_assert_int_eq(locus_output_begin(&output, path, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_output_write(&output, "text", 4, NULL), LOCUS_OK);
    ck_assert_int_ne(access(path, F_OK), 0); /* not yet */
    ck_assert_int_eq(locus_output_commit(&output, NULL), LOCUS_OK);
    locus_output_abort(&output); /* after commit does nothing */
    ck_assert_uint_eq(mode_of(path), S_IFREG | 0640);
    holds(path, "text");
    ck_assert_int_eq(testing_count_files(path), 1);
}
END_TEST

START_TEST(aborted_output_leaves_what_was_there)
{
    const char *path = testing_temporary("x.txt");
    struct locus_output_file output;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(locus_output_begin(&output, path, NULL), LOCUS_OK);
        ck_assert_int_eq(locus_output_write(&output, "text", 4, NULL), LOCUS_OK);
        locus_output_abort(&output);
        ck_assert_int_eq(locus_output_check(path, NULL, NULL), LOCUS_OK);
        ck_assert_int_eq(testing_count_files(path), i);
        if (i) holds(path, "old");
        testing_write(path, "old", 3);
    }
}
END_TEST

/* Of a private file nobody else may read the new contents either, not even while they are written.
 */
START_TEST(a_file_keeps_its_mode)
{
    const char *path = testing_temporary("x.txt");
    const mode_t modes[] = {0600, 0644, 0666, 0640, 0755};
    umask(022);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct locus_output_file output;
        testing_write(path, "old", 3);
        ck_assert_int_eq(chmod(path, modes[i]), 0);
        ck_assert_int_eq(locus_output_begin(&output, path, NULL), LOCUS_OK);
        ck_assert_uint_eq(mode_of_temporary(path), modes[i]);
        ck_assert_int_eq(locus_output_write(&output, "new", 3, NULL), LOCUS_OK);
        ck_assert_int_eq(locus_output_commit(&output, NULL), LOCUS_OK);
        ck_assert_uint_eq(mode_of(path), S_IFREG | modes[i]);
        holds(path, "new");
    }
}
END_TEST

START_TEST(root_keeps_the_owner)
{
    const char *path = testing_temporary("x.txt");
    struct stat info;
    if (geteuid() != 0) {
        puts("skipped: test_output: owners can only be changed by root");
        return;
    }
    testing_write(path, "old", 3);
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(chown(path, 1234, 2345), 0);
    save(path, "new");
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_uint_eq(info.st_uid, 1234);
    ck_assert_uint_eq(info.st_gid, 2345);
    ck_assert_uint_eq(info.st_mode & 07777, 0640);
}
END_TEST

/* Runs the check in a process of an ordinary user, whoever runs the tests. */
static void as_user(void (*run)(const char *path), const char *path)
{
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) || setuid(65534))) _exit(9);
        run(path);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static void is_refused(const char *path)
{
    locus_error error = {0};
    if (locus_output_save(path, "new", 3, &error) != LOCUS_ERROR_IO) _exit(1);
    if (!strstr(error.message, "cannot be written: Permission denied")) _exit(2);
    if (locus_output_check(path, NULL, NULL) != LOCUS_ERROR_IO) _exit(3);
}

/* A folder that may be written would let any file in it be replaced. */
START_TEST(a_read_only_file_stays)
{
    const char *path = testing_temporary("x.txt");
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    testing_write(path, "old", 3);
    ck_assert_int_eq(chmod(path, 0444), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    as_user(is_refused, path);
    holds(path, "old");
    ck_assert_int_eq(testing_count_files(path), 1);
}
END_TEST

START_TEST(links_are_followed)
{
    const char *path = testing_temporary("x.txt");
    char folder[4096], target[4096], first[4096], second[4096];
    snprintf(folder, sizeof folder, "%s", beside(path, "sub"));
    snprintf(target, sizeof target, "%s", beside(path, "sub/real"));
    snprintf(first, sizeof first, "%s", beside(path, "sub/link"));
    snprintf(second, sizeof second, "%s", beside(path, "link"));
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    ck_assert_int_eq(symlink("real", first), 0);      /* in its own folder */
    ck_assert_int_eq(symlink("sub/link", second), 0); /* from another one */
    save(second, "made");                             /* the chain led to nothing */
    holds(target, "made");
    ck_assert_int_eq(chmod(target, 0600), 0);
    save(second, "again");
    holds(target, "again");
    ck_assert_uint_eq(mode_of(target), S_IFREG | 0600);
    ck_assert(S_ISLNK(mode_of(first)) && S_ISLNK(mode_of(second)));
    ck_assert_int_eq(testing_count_files(target), 2);
    ck_assert_int_eq(unlink(first), 0);
    ck_assert_int_eq(symlink(target, first), 0); /* by its whole path */
    save(second, "absolute");
    holds(target, "absolute");
    ck_assert_int_eq(unlink(first), 0);
    ck_assert_int_eq(symlink("../link", first), 0);
    refuses(second, "symbolic links");
    ck_assert_int_eq(unlink(first), 0);
    ck_assert_int_eq(symlink("none/file", first), 0);
    refuses(second, "No such file");
}
END_TEST

START_TEST(long_names_are_taken)
{
    char name[300];
    for (size_t n = 240; n <= 256; n += n < 254 ? 14 : 1) {
        memset(name, 'x', n);
        name[n] = '\0';
        const char *path = beside(testing_temporary("x.txt"), name);
        if (n <= 255) {
            save(path, "text");
            ck_assert_int_eq(testing_count_files(path), 1);
        } else {
            refuses(path, "cannot be written: File name too long");
            ck_assert_int_eq(testing_count_files(path), 0);
        }
    }
}
END_TEST

START_TEST(what_can_not_be_a_file_is_refused)
{
    const char *path = testing_temporary("x.txt");
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    refuses("", "No such file");
    refuses(folder, "Is a directory");
    refuses(beside(path, "none/x.txt"), "No such file");
    testing_write(path, "old", 3);
    char below[4096];
    snprintf(below, sizeof below, "%s/x", path);
    refuses(below, "Not a directory");
    ck_assert_int_eq(testing_count_files(path), 1);
}
END_TEST

/* ---- what is no file ----------------------------------------------------------------------- */

START_TEST(a_fifo_is_written_to_its_reader)
{
    const char *path = testing_temporary("fifo");
    ck_assert_int_eq(mkfifo(path, 0666), 0);
    locus_error error = {0};
    ck_assert_int_eq(locus_output_check(path, NULL, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_output_save(path, "x", 1, &error), LOCUS_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "nobody reads from this pipe"));
    int held = 0;
    ck_assert_int_eq(locus_output_check(path, &held, &error), LOCUS_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "nobody reads from this pipe"));
    ck_assert_int_eq(held, -1);
    int reader = open(path, O_RDONLY | O_NONBLOCK), descriptor;
    ck_assert_int_ge(reader, 0);
    ck_assert_int_eq(locus_output_check(path, &held, &error), LOCUS_OK);
    ck_assert_int_gt(held, 2);
    ck_assert_int_eq(read(reader, &descriptor, 1), -1); /* no end: somebody may write yet */
    ck_assert_int_eq(errno, EAGAIN);
    close(held);
    ck_assert_int_eq(locus_output_check(path, NULL, NULL), LOCUS_OK);
    save(path, "text");
    char text[8] = "";
    ck_assert_int_eq(read(reader, text, sizeof text), 4);
    ck_assert_str_eq(text, "text");
    bool is_file = true;
    ck_assert_int_eq(locus_output_append(path, &descriptor, &is_file, NULL, NULL), LOCUS_OK);
    ck_assert(!is_file && descriptor > 2);
    ck_assert_int_eq(fcntl(descriptor, F_GETFL) & O_NONBLOCK, 0);
    close(descriptor);
    close(reader);
    ck_assert(S_ISFIFO(mode_of(path)));
    ck_assert_int_eq(testing_count_files(path), 1);
}
END_TEST

START_TEST(two_names_of_one_file_are_the_same)
{
    const char *path = testing_temporary("one");
    char *file = strdup(path), *other = strdup(beside(path, "other"));
    char *first = strdup(beside(path, "first")), *second = strdup(beside(path, "second"));
    char *third = strdup(beside(path, "third"));
    ck_assert_int_eq(symlink("one", first), 0);
    ck_assert_int_eq(symlink(file, second), 0);
    ck_assert_int_eq(symlink("first", third), 0);
    for (int there = 0; there < 2; there++) { /* not at first */
        const char *const names[] = {file, first, second, third};
        for (int i = 0; i < 4; i++) {
            ck_assert(locus_output_is_same(names[i], names[(i + 1) % 4]));
            ck_assert(!locus_output_is_same(names[i], other));
            ck_assert(!locus_output_is_same(other, names[i]));
        }
        save(file, "text");
    }
    ck_assert(!locus_output_is_same("/dev/null", "/dev/null")); /* it is no file */
    free(file);
    free(other);
    free(first);
    free(second);
    free(third);
}
END_TEST

START_TEST(a_device_stays_one)
{
    const char *path = testing_temporary("null");
    if (mknod(path, S_IFCHR | 0666, makedev(1, 3))) {
        puts("skipped: test_output: device nodes can only be made by root");
        return;
    }
    save(path, "text");
    ck_assert(S_ISCHR(mode_of(path)));
    char *link = strdup(beside(path, "link"));
    ck_assert_int_eq(symlink("null", link), 0);
    save(link, "text");
    ck_assert(S_ISCHR(mode_of(path)) && S_ISLNK(mode_of(link)));
    ck_assert_int_eq(testing_count_files(path), 2);
    free(link);
}
END_TEST

/* By any of its names, a descriptor is written where it stands, though it be of a file. */
START_TEST(a_descriptor_is_written_where_it_stands)
{
    const char *path = testing_temporary("x.txt");
    char by_number[32], *link = strdup(beside(path, "link"));
    int descriptor = open(path, O_RDWR | O_CREAT, 0666), out = dup(STDOUT_FILENO);
    snprintf(by_number, sizeof by_number, "/dev/fd/%d", descriptor);
    ck_assert_int_eq(symlink(by_number, link), 0);
    ck_assert_int_eq(write(descriptor, "a", 1), 1);
    save(by_number, "b");
    save(link, "c");
    fflush(stdout);
    dup2(descriptor, STDOUT_FILENO);
    locus_output_save("-", "d", 1, NULL);
    locus_output_save("/dev/stdout", "e", 1, NULL);
    bool is_file = true;
    int appended;
    locus_output_append("-", &appended, &is_file, NULL, NULL);
    dup2(out, STDOUT_FILENO);
    ck_assert(!is_file);
    ck_assert_int_eq(write(appended, "f", 1), 1);
    holds(path, "abcdef");
    ck_assert_int_eq(testing_count_files(path), 2);
    refuses("/dev/fd/99999", "Bad file descriptor");
    ck_assert(locus_output_is_stdout("-") && locus_output_is_stdout("/dev/fd/1"));
    ck_assert(!locus_output_is_stdout("./-") && !locus_output_is_stdout("/dev/fd/2"));
    ck_assert(!locus_output_is_file("-") && !locus_output_is_file("/dev/null"));
    ck_assert(!locus_output_is_file("/") && locus_output_is_file(testing_temporary("new")));
    close(appended);
    close(out);
    close(descriptor);
    free(link);
}
END_TEST

START_TEST(a_file_that_grows_is_created_and_followed)
{
    const char *path = testing_temporary("x.txt");
    char *link = strdup(beside(path, "link"));
    ck_assert_int_eq(symlink("x.txt", link), 0);
    for (int i = 0; i < 2; i++) {
        bool is_file = false;
        int descriptor;
        char *created;
        ck_assert_int_eq(locus_output_append(link, &descriptor, &is_file, &created, NULL),
                         LOCUS_OK);
        ck_assert(is_file);
        ck_assert_pstr_eq(created, i == 0 ? path : NULL);
        free(created);
        ck_assert_int_eq(write(descriptor, "x", 1), 1);
        close(descriptor);
    }
    holds(path, "xx");
    ck_assert(S_ISLNK(mode_of(link)));
    free(link);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("output");
    TCase *tests = tcase_create("output");
    tcase_add_test(tests, output_appears_whole);
    tcase_add_test(tests, aborted_output_leaves_what_was_there);
    tcase_add_test(tests, a_file_keeps_its_mode);
    tcase_add_test(tests, root_keeps_the_owner);
    tcase_add_test(tests, a_read_only_file_stays);
    tcase_add_test(tests, links_are_followed);
    tcase_add_test(tests, long_names_are_taken);
    tcase_add_test(tests, what_can_not_be_a_file_is_refused);
    tcase_add_test(tests, a_fifo_is_written_to_its_reader);
    tcase_add_test(tests, two_names_of_one_file_are_the_same);
    tcase_add_test(tests, a_device_stays_one);
    tcase_add_test(tests, a_descriptor_is_written_where_it_stands);
    tcase_add_test(tests, a_file_that_grows_is_created_and_followed);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
