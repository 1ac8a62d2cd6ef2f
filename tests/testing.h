/* What the test programs share: a main, files of LOCUS_TEST_DATA, temporary files. */
#ifndef LOCUS_TESTS_TESTING_H
#define LOCUS_TESTS_TESTING_H

#include <check.h>
#include <locus.h>
#include <stddef.h>

/* Runs one suite; the exit status for main. Honours CK_VERBOSITY and CK_FORK. */
int testing_run(Suite *suite);

/* The path of a file in $LOCUS_TEST_DATA, or NULL when the variable is not set: the test then
 * returns, and a line "skipped: ..." says so. With LOCUS_TEST_NO_SKIP=1 a skip is a failure. The
 * string is valid until the second-next call. */
const char *testing_data(const char *name);

/* Says that this CPU can't run what the test is about, which then returns. */
void testing_skip_cpu(const char *what);

/* A fresh path in a temporary folder that is removed when the process ends. */
const char *testing_temporary(const char *name);

/* The path of a file in tests/data. */
const char *testing_golden(const char *name);

/* A whole file, NUL-terminated after *n_bytes; fails the test if it can't be read. free() it. */
char *testing_read(const char *path, size_t *n_bytes);
void testing_write(const char *path, const void *bytes, size_t n_bytes);

/* Files in the folder of `path`. */
int testing_count_files(const char *path);

/* A checkpoint and its tokenizer, for the caller to free; fails the test if there is neither. */
struct testing_model {
    locus_model *model;
    locus_tokenizer *tokenizer;
};
struct testing_model testing_open(const char *path);
void testing_close(struct testing_model *opened);

#endif
