/* The base room: errors cut on a character, buffers that grow, blocks that are aligned, files that
 * are mapped, work dealt out whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/tensor_type.h"
#include "base/threads.h"
#include "testing.h"

/* ---- errors -------------------------------------------------------------------------------- */

START_TEST(error_is_one_line_of_whole_characters)
{
    locus_error error = {0};
    ck_assert_int_eq(locus_fail(&error, LOCUS_ERROR_IO, "a\nb\t\x7F%d\033[0m", 7), LOCUS_ERROR_IO);
    ck_assert_str_eq(error.message, "a?b??7?[0m");
    ck_assert_int_eq(error.status, LOCUS_ERROR_IO);
    ck_assert_int_eq(locus_fail(NULL, LOCUS_ERROR_FORMAT, "%d", 1), LOCUS_ERROR_FORMAT);
    /* Cut anywhere, a character of several bytes goes whole. */
    char text[600];
    for (size_t lead = 0; lead < 5; lead++) {
        memset(text, 'x', lead);
        for (size_t i = lead; i + 4 < sizeof text; i += 4)
            memcpy(text + i, "\xF0\x9F\x98\x80", 5);
        locus_fail(&error, LOCUS_ERROR_IO, "%s", text);
        size_t n = strlen(error.message);
        ck_assert_uint_le(n, 255);
        ck_assert_uint_ge(n, 252);
        ck_assert_uint_eq((n - lead) % 4, 0);
    }
    ck_assert_int_eq(locus_fail_memory(&error, 42), LOCUS_ERROR_MEMORY);
    ck_assert_ptr_nonnull(strstr(error.message, "42 bytes"));
}
END_TEST

/* ---- memory -------------------------------------------------------------------------------- */

START_TEST(blocks_are_aligned_and_zero)
{
    for (size_t n = 0; n < 300; n += 7) {
        unsigned char *block = locus_aligned_zalloc(n, 3);
        ck_assert_ptr_nonnull(block);
        ck_assert_uint_eq((uintptr_t)block % 64, 0);
        for (size_t i = 0; i < 3 * n; i++)
            ck_assert(block[i] == 0);
        locus_aligned_free(block);
    }
    locus_aligned_free(NULL);
}
END_TEST

START_TEST(sizes_that_overflow_are_no_block)
{
    size_t product = 7;
    ck_assert(!locus_mul_size(SIZE_MAX, 2, &product) && product == 7);
    ck_assert(!locus_mul_size((size_t)1 << 32, (size_t)1 << 32, &product) && product == 7);
    ck_assert(locus_mul_size((size_t)1 << 31, (size_t)1 << 32, &product));
    ck_assert_uint_eq(product, (size_t)1 << 63);
    ck_assert_ptr_null(locus_aligned_zalloc((size_t)1 << 32, (size_t)1 << 32));
    ck_assert_ptr_null(locus_aligned_zalloc(SIZE_MAX, 1));
    ck_assert_ptr_null(locus_aligned_zalloc(SIZE_MAX - 64, 1));
    ck_assert_ptr_null(locus_aligned_zalloc((size_t)1 << 62, 4));
}
END_TEST

START_TEST(buffer_grows_and_remembers_a_failure)
{
    struct locus_buffer buffer = {0};
    locus_buffer_append(&buffer, "", 0);
    for (int i = 0; i < 10000; i++)
        locus_buffer_printf(&buffer, "%d,", i);
    locus_buffer_append(&buffer, "\0x", 2);
    ck_assert(!buffer.failed);
    ck_assert_uint_eq(buffer.length, 48890 + 2);
    ck_assert(!memcmp(buffer.bytes, "0,1,2,", 6) && buffer.bytes[buffer.length] == '\0');
    locus_buffer_append(&buffer, "", SIZE_MAX / 2); /* refused before a byte is read */
    ck_assert(buffer.failed);
    locus_buffer_append(&buffer, "x", 1);
    locus_buffer_printf(&buffer, "x");
    ck_assert_uint_eq(buffer.length, 48890 + 2);
    locus_buffer_free(&buffer);
    ck_assert(!buffer.bytes && !buffer.length && !buffer.failed);
}
END_TEST

/* ---- files --------------------------------------------------------------------------------- */

START_TEST(file_is_mapped_whole)
{
    const char *path = testing_temporary("x.txt");
    testing_write(path, "text", 4);
    struct locus_mapped_file file;
    ck_assert_int_eq(locus_file_map(&file, path, NULL), LOCUS_OK);
    ck_assert(file.size == 4 && !memcmp(file.bytes, "text", 4));
    locus_file_drop(&file, 0, 4);
    ck_assert(!memcmp(file.bytes, "text", 4));
    locus_file_unmap(&file);
}
END_TEST

START_TEST(empty_file_maps_to_nothing)
{
    const char *path = testing_temporary("x.txt");
    testing_write(path, "", 0);
    struct locus_mapped_file file;
    ck_assert_int_eq(locus_file_map(&file, path, NULL), LOCUS_OK);
    ck_assert(!file.bytes && file.size == 0);
    locus_file_drop(&file, 0, 0);
    locus_file_unmap(&file);
}
END_TEST

/* ---- threads and types --------------------------------------------------------------------- */

START_TEST(shares_are_all_the_work_once)
{
    const int counts[] = {0, 1, 2, 5, 1000, INT32_MAX};
    for (int c = 0; c < 6; c++)
        for (int n_threads = 1; n_threads <= LOCUS_MAX_THREADS; n_threads += 31) {
            int next = 0;
            for (int thread = 0; thread < n_threads; thread++) {
                int first, end;
                locus_threads_share(counts[c], thread, n_threads, &first, &end);
                ck_assert(first == next && end >= first);
                next = end;
            }
            ck_assert_int_eq(next, counts[c]);
        }
}
END_TEST

struct ring {
    struct locus_barrier barrier;
    int seen[8], sums[8];
};

/* What each thread writes before the barrier, all read after it. */
static void worker(void *context, int thread, int n_threads)
{
    struct ring *ring = context;
    ring->seen[thread] = thread + 1;
    locus_barrier_wait(&ring->barrier, n_threads);
    for (int i = 0; i < n_threads; i++)
        ring->sums[thread] += ring->seen[i];
}

/* A file `name` below the folder of `path`, made with its folders. */
static void write_below(const char *path, const char *name, const char *text)
{
    char file[4096];
    snprintf(file, sizeof file, "%s/%s", path, name);
    for (char *slash = file + strlen(path); (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        mkdir(file, 0777);
        *slash = '/';
    }
    testing_write(file, text, strlen(text));
}

START_TEST(quota_is_the_least_of_a_group_and_those_above)
{
    static const struct {
        const char *groups;
        int cpus;
    } cases[] = {
        {"0::/\n", 6},                                             /* rounded up */
        {"0::/a\n", 3},                                            /* its own */
        {"0::/a/b/c\n", 2},                                        /* the least is amid */
        {"0::/unseen/d\n", 6},                                     /* what can be seen of it */
        {"0::/a/free\n", 3},                                       /* "max" */
        {"9:name=systemd:/a\n4:cpuset:/v\n3:cpuacct,cpu:/v\n", 4}, /* version 1 */
        {"3:cpu:/\n", 0},                                          /* -1: none */
        {"3:cpuset:/v\n", 0},
        {"", 0},
        {"nonsense\n::\n:::\n0:\n", 0},
    };
    const char *mount = testing_temporary("cgroup");
    mkdir(mount, 0777);
    write_below(mount, "cpu.max", "510000 100000\n");
    write_below(mount, "a/cpu.max", "250000 100000\n");
    write_below(mount, "a/b/cpu.max", "100000 50000\n");
    write_below(mount, "a/b/c/cpu.max", "900000 100000\n");
    write_below(mount, "a/free/cpu.max", "max 100000\n");
    write_below(mount, "cpu/cpu.cfs_quota_us", "-1\n");
    write_below(mount, "cpu/cpu.cfs_period_us", "100000\n");
    write_below(mount, "cpu/v/cpu.cfs_quota_us", "40000\n");
    write_below(mount, "cpu/v/cpu.cfs_period_us", "10000\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *groups = testing_temporary("groups");
        testing_write(groups, cases[i].groups, strlen(cases[i].groups));
        int cpus = locus_cgroup_cpus(groups, mount);
        ck_assert_msg(cpus == cases[i].cpus, "%s: %d, expected %d", cases[i].groups, cpus,
                      cases[i].cpus);
    }
    ck_assert_int_eq(locus_cgroup_cpus(testing_temporary("none"), mount), 0);
}
END_TEST

/* A region of a second on four threads that was late for so many seconds in all. */
static int size_after(struct locus_crew *crew, double late)
{
    struct locus_barrier barrier = {.late = (unsigned long)(1e6 * late)};
    locus_crew_done(crew, &barrier, locus_crew_size(crew, 4), 1);
    ck_assert_uint_eq(barrier.late, 0);
    return locus_crew_size(crew, 4);
}

START_TEST(a_crew_shrinks_where_threads_wait_and_grows_again)
{
    struct locus_crew crew = {0};
    ck_assert_int_eq(locus_crew_size(&crew, 4), 4);
    ck_assert_int_eq(size_after(&crew, 1.1), 4);
    ck_assert_int_eq(size_after(&crew, 1.3), 2);
    ck_assert_int_eq(size_after(&crew, 0.5), 2);
    ck_assert_int_eq(size_after(&crew, 0.7), 1);
    ck_assert_int_eq(size_after(&crew, 4), 1); /* one thread waits for none */
    crew.until = 0;
    ck_assert_int_eq(locus_crew_size(&crew, 4), 2);
    crew.until = 0;
    ck_assert_int_eq(locus_crew_size(&crew, 4), 4);
    ck_assert_int_eq(locus_crew_size(&crew, 1), 1);
}
END_TEST

START_TEST(barrier_parts_writes_from_reads)
{
    ck_assert_int_ge(locus_threads_default(), 1);
    for (int round = 0; round < 20; round++) {
        struct ring ring = {0};
        locus_threads_run(4, worker, &ring);
        int n = 0, sum = 0;
        for (; n < 8 && ring.seen[n]; n++)
            sum += ring.seen[n];
        ck_assert(n >= 1 && n <= 4);
        for (int i = 0; i < n; i++)
            ck_assert_int_eq(ring.sums[i], sum);
    }
}
END_TEST

START_TEST(types_are_known_by_their_number)
{
    size_t n_known = 0;
    static const uint32_t known[] = {0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 28, 30, 39};
    for (uint32_t type = 0; type < 100; type++) {
        bool wanted = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            wanted |= known[i] == type;
        const struct locus_tensor_type_info *info = locus_tensor_type_find(type);
        ck_assert((info != NULL) == wanted);
        if (info) ck_assert_uint_eq(info->type, type);
        n_known += info != NULL;
    }
    for (size_t i = 0; i <= n_known; i++)
        ck_assert((locus_tensor_type_at(i) != NULL) == (i < n_known));
    ck_assert_ptr_null(locus_tensor_type_find(UINT32_MAX));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tests = tcase_create("base");
    tcase_add_test(tests, error_is_one_line_of_whole_characters);
    tcase_add_test(tests, blocks_are_aligned_and_zero);
    tcase_add_test(tests, sizes_that_overflow_are_no_block);
    tcase_add_test(tests, buffer_grows_and_remembers_a_failure);
    tcase_add_test(tests, file_is_mapped_whole);
    tcase_add_test(tests, empty_file_maps_to_nothing);
    tcase_add_test(tests, shares_are_all_the_work_once);
    tcase_add_test(tests, quota_is_the_least_of_a_group_and_those_above);
    tcase_add_test(tests, barrier_parts_writes_from_reads);
    tcase_add_test(tests, a_crew_shrinks_where_threads_wait_and_grows_again);
    tcase_add_test(tests, types_are_known_by_their_number);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
