/* The shared half of every test program: see testing.h. */
#include "testing.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path that stays valid until the process ends. */
struct kept_path {
    struct kept_path *next;
    char path[];
};

static char root[PATH_MAX];      /* the temporary folder, "" before the first use */
static pid_t root_owner;         /* the process that removes it; forked tests only use it */
static struct kept_path *kept;   /* what testing_temporary returned */
static pid_t skip_reporter = -1; /* the process that has said "skipped:", which is a test's own */

/* Check gives a test 4 seconds, too few under a sanitizer on a busy machine, and reads the variable
 * when a test case is made, so before testing_run. */
__attribute__((constructor)) static void set_default_timeout(void)
{
    setenv("CK_DEFAULT_TIMEOUT", "120", 0);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)where;
    if (type == FTW_DP || type == FTW_D) return rmdir(path) && errno != ENOENT;
    return unlink(path) && errno != ENOENT;
}

static void remove_root(void)
{
    if (root[0] == '\0' || root_owner != getpid()) return;
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    root[0] = '\0';
}

static void release_kept(void)
{
    while (kept) {
        struct kept_path *next = kept->next;
        free(kept);
        kept = next;
    }
}

/* False when there is nowhere to put temporary files. */
static bool make_root(void)
{
    if (root[0] != '\0') return true;
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    if (snprintf(root, sizeof root, "%s/locus-test-XXXXXX", folder) >= (int)sizeof root ||
        !mkdtemp(root)) {
        root[0] = '\0';
        return false;
    }
    root_owner = getpid();
    atexit(remove_root);
    return true;
}

int testing_run(Suite *suite)
{
    /* Made before the tests fork, so that it is removed even if one of them dies. */
    if (!make_root()) {
        fprintf(stderr, "testing: can't make a temporary folder: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_run = srunner_ntests_run(runner);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    release_kept();
    if (n_run == 0) fprintf(stderr, "testing: no test ran\n");
    return n_failed == 0 && n_run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

const char *testing_data(const char *name)
{
    static char paths[2][PATH_MAX];
    static unsigned turn;
    const char *folder = getenv("LOCUS_TEST_DATA");
    if (!folder || !*folder) {
        const char *strict = getenv("LOCUS_TEST_NO_SKIP");
        if (strict && strcmp(strict, "1") == 0)
            ck_abort_msg("needs the test data file %s: set LOCUS_TEST_DATA", name);
        if (skip_reporter != getpid()) printf("skipped: %s (set LOCUS_TEST_DATA)\n", name);
        fflush(stdout);
        skip_reporter = getpid();
        return NULL;
    }
    char *path = paths[turn++ % 2];
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    ck_assert_msg(length < PATH_MAX, "LOCUS_TEST_DATA is too long a path");
    ck_assert_msg(access(path, R_OK) == 0, "can't read %s: %s", path, strerror(errno));
    return path;
}

void testing_skip_cpu(const char *what)
{
    printf("skipped: %s (not on this CPU)\n", what);
    fflush(stdout);
}

const char *testing_temporary(const char *name)
{
    ck_assert_msg(make_root(), "can't make a temporary folder: %s", strerror(errno));
    size_t size = strlen(root) + strlen("/XXXXXX/") + strlen(name) + 1;
    struct kept_path *entry = malloc(sizeof *entry + size);
    ck_assert_ptr_nonnull(entry);
    /* A folder of its own a call: two files of one name don't meet, and what a failed write leaves
     * beside the file can be looked for. */
    snprintf(entry->path, size, "%s/XXXXXX", root);
    ck_assert_msg(mkdtemp(entry->path) != NULL, "can't make a folder in %s: %s", root,
                  strerror(errno));
    size_t length = strlen(entry->path);
    snprintf(entry->path + length, size - length, "/%s", name);
    entry->next = kept;
    kept = entry;
    return entry->path;
}

const char *testing_golden(const char *name)
{
    static char paths[2][PATH_MAX];
    static unsigned turn;
    const char *folder = getenv("LOCUS_TESTS_DIR");
    if (!folder || !*folder) folder = "tests";
    char *path = paths[turn++ % 2];
    int length = snprintf(path, PATH_MAX, "%s/data/%s", folder, name);
    ck_assert_msg(length < PATH_MAX, "LOCUS_TESTS_DIR is too long a path");
    return path;
}

char *testing_read(const char *path, size_t *n_bytes)
{
    FILE *stream = fopen(path, "rb");
    ck_assert_msg(stream != NULL, "can't open %s: %s", path, strerror(errno));
    char *bytes = NULL;
    size_t length = 0, capacity = 0;
    for (;;) {
        if (capacity - length < 2) {
            capacity = capacity ? capacity * 2 : 65536;
            bytes = realloc(bytes, capacity);
            ck_assert_msg(bytes != NULL, "no memory for %s", path);
        }
        size_t n_read = fread(bytes + length, 1, capacity - length - 1, stream);
        if (n_read == 0) break;
        length += n_read;
    }
    ck_assert_msg(!ferror(stream), "can't read %s: %s", path, strerror(errno));
    fclose(stream);
    bytes[length] = '\0';
    if (n_bytes) *n_bytes = length;
    return bytes;
}

void testing_write(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *stream = fopen(path, "wb");
    ck_assert_msg(stream != NULL, "can't create %s: %s", path, strerror(errno));
    bool written = n_bytes == 0 || fwrite(bytes, 1, n_bytes, stream) == n_bytes;
    bool closed = fclose(stream) == 0;
    ck_assert_msg(written && closed, "can't write %s: %s", path, strerror(errno));
}

int testing_count_files(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "%s", path);
    DIR *folder = opendir(dirname(copy));
    ck_assert_ptr_nonnull(folder);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return n;
}

struct testing_model testing_open(const char *path)
{
    locus_error error;
    struct testing_model opened = {.model = locus_model_open(path, &error)};
    ck_assert_msg(opened.model != NULL, "%s", error.message);
    opened.tokenizer = locus_tokenizer_create(opened.model, &error);
    ck_assert_msg(opened.tokenizer != NULL, "%s", error.message);
    return opened;
}

void testing_close(struct testing_model *opened)
{
    locus_tokenizer_free(opened->tokenizer);
    locus_model_free(opened->model);
}
