/* The checkpoint's writer: what it wrote is what the reader reads, whole or not at all. */
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "checkpoint/checkpoint.h"
#include "testing.h"

static struct locus_checkpoint_writer *new_writer(void)
{
    struct locus_checkpoint_writer *writer = locus_writer_create(NULL);
    ck_assert_ptr_nonnull(writer);
    return writer;
}

static void finish(struct locus_checkpoint_writer *writer, const char *path)
{
    locus_error error = {0};
    ck_assert_msg(locus_writer_finish(writer, path, &error) == LOCUS_OK, "%s", error.message);
    locus_writer_free(writer);
}

static struct locus_checkpoint *reopen(const char *path)
{
    locus_error error = {0};
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(path, &error);
    ck_assert_msg(checkpoint != NULL, "%s", error.message);
    return checkpoint;
}

/* ---- metadata ------------------------------------------------------------------------------ */

static const char *const words[] = {"", "a", "two words", "nul\0inside", "\xF0\x9F\x98\x80"};
static const size_t word_lengths[] = {0, 1, 9, 10, 4};
static const int32_t integers[] = {0, -1, INT32_MAX, INT32_MIN};
static const float floats[] = {0, -0.0F, 1.5F, FLT_MIN, FLT_MAX, INFINITY};

static void write_metadata(const char *path)
{
    struct locus_checkpoint_writer *writer = new_writer();
    locus_writer_u32(writer, "an.integer", UINT32_MAX);
    locus_writer_f32(writer, "a.float", 0.1F);
    locus_writer_bool(writer, "yes", true);
    locus_writer_bool(writer, "no", false);
    locus_writer_string(writer, "text", "nul\0inside", 10);
    locus_writer_string(writer, "no.text", "", 0);
    locus_writer_strings(writer, "texts", words, word_lengths, 5);
    locus_writer_strings(writer, "no.texts", NULL, NULL, 0);
    locus_writer_i32s(writer, "integers", integers, 4);
    locus_writer_f32s(writer, "floats", floats, 6);
    locus_writer_f32s(writer, "no.floats", NULL, 0);
    finish(writer, path);
}

static void check_scalars(const struct locus_checkpoint *checkpoint)
{
    int64_t integer = 7;
    double number = 7;
    bool yes = false, no = true;
    const char *bytes;
    size_t n_bytes;
    ck_assert(locus_checkpoint_int(checkpoint, "an.integer", &integer));
    ck_assert_int_eq(integer, UINT32_MAX);
    ck_assert(locus_checkpoint_float(checkpoint, "an.integer", &number));
    ck_assert(number == UINT32_MAX);
    ck_assert(locus_checkpoint_float(checkpoint, "a.float", &number));
    ck_assert((float)number == 0.1F);
    ck_assert(locus_checkpoint_bool(checkpoint, "yes", &yes) && yes);
    ck_assert(locus_checkpoint_bool(checkpoint, "no", &no) && !no);
    ck_assert(locus_checkpoint_string(checkpoint, "text", &bytes, &n_bytes));
    ck_assert_uint_eq(n_bytes, 10);
    ck_assert_mem_eq(bytes, "nul\0inside", 10);
    ck_assert(locus_checkpoint_string(checkpoint, "no.text", &bytes, &n_bytes));
    ck_assert_uint_eq(n_bytes, 0);
}

static void check_arrays(const struct locus_checkpoint *checkpoint)
{
    enum locus_value_type type;
    size_t count, lengths[5];
    const char *bytes[5];
    double numbers[6];
    ck_assert(locus_checkpoint_array(checkpoint, "texts", &type, &count));
    ck_assert(type == LOCUS_VALUE_STRING && count == 5);
    ck_assert(locus_checkpoint_array_strings(checkpoint, "texts", bytes, lengths));
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(lengths[i], word_lengths[i]);
        ck_assert(!memcmp(bytes[i], words[i], lengths[i]));
    }
    ck_assert(locus_checkpoint_array(checkpoint, "no.texts", &type, &count) && count == 0);
    ck_assert(locus_checkpoint_array(checkpoint, "integers", &type, &count));
    ck_assert(type == LOCUS_VALUE_I32 && count == 4);
    ck_assert(locus_checkpoint_array_numbers(checkpoint, "integers", numbers));
    for (int i = 0; i < 4; i++)
        ck_assert(numbers[i] == integers[i]);
    ck_assert(locus_checkpoint_array(checkpoint, "floats", &type, &count) && count == 6);
    ck_assert(locus_checkpoint_array_numbers(checkpoint, "floats", numbers));
    for (int i = 0; i < 6; i++)
        ck_assert((float)numbers[i] == floats[i]);
    ck_assert(!locus_checkpoint_array_numbers(checkpoint, "texts", numbers));
    ck_assert(!locus_checkpoint_array_strings(checkpoint, "floats", bytes, lengths));
}

START_TEST(metadata_comes_back)
{
    const char *path = testing_temporary("x.gguf");
    write_metadata(path);
    struct locus_checkpoint *checkpoint = reopen(path);
    ck_assert_int_eq(locus_checkpoint_version(checkpoint), 3);
    ck_assert_uint_eq(locus_checkpoint_n_keys(checkpoint), 11);
    ck_assert_uint_eq(locus_checkpoint_n_tensors(checkpoint), 0);
    ck_assert_str_eq(locus_checkpoint_key_at(checkpoint, 0), "an.integer");
    check_scalars(checkpoint);
    check_arrays(checkpoint);
    locus_checkpoint_free(checkpoint);
}
END_TEST

START_TEST(getter_of_another_type_or_key_leaves_the_default)
{
    const char *path = testing_temporary("x.gguf");
    write_metadata(path);
    struct locus_checkpoint *checkpoint = reopen(path);
    int64_t integer = 7;
    double number = 7;
    bool flag = true;
    const char *bytes = "kept";
    size_t n_bytes = 4, count = 7;
    enum locus_value_type type = LOCUS_VALUE_F64;
    ck_assert(!locus_checkpoint_int(checkpoint, "a.float", &integer) && integer == 7);
    ck_assert(!locus_checkpoint_int(checkpoint, "text", &integer) && integer == 7);
    ck_assert(!locus_checkpoint_int(checkpoint, "absent", &integer) && integer == 7);
    ck_assert(!locus_checkpoint_float(checkpoint, "yes", &number) && number == 7);
    ck_assert(!locus_checkpoint_bool(checkpoint, "an.integer", &flag) && flag);
    ck_assert(!locus_checkpoint_string(checkpoint, "texts", &bytes, &n_bytes) && n_bytes == 4);
    ck_assert(!locus_checkpoint_array(checkpoint, "text", &type, &count) && count == 7);
    ck_assert(!locus_checkpoint_has(checkpoint, "integer"));
    locus_checkpoint_free(checkpoint);
}
END_TEST

/* Types that the writer has no function for, from a file made by hand. */
static void write_foreign_values(const char *path)
{
    struct locus_buffer out = {0};
    static const struct {
        const char *key;
        uint32_t type;
        const char *bytes;
        size_t n_bytes;
    } values[] = {
        {"u8", LOCUS_VALUE_U8, "\xFE", 1},
        {"i8", LOCUS_VALUE_I8, "\xFE", 1},
        {"u16", LOCUS_VALUE_U16, "\xFE\xFF", 2},
        {"i16", LOCUS_VALUE_I16, "\xFE\xFF", 2},
        {"i32", LOCUS_VALUE_I32, "\xFE\xFF\xFF\xFF", 4},
        {"u64", LOCUS_VALUE_U64, "\xFE\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 8},
        {"u64.large", LOCUS_VALUE_U64, "\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8},
        {"i64", LOCUS_VALUE_I64, "\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8},
        {"f64", LOCUS_VALUE_F64, "\0\0\0\0\0\0\xF8\x3F", 8},
        /* [[1, 2], []] of U8 */
        {"nested", LOCUS_VALUE_ARRAY,
         "\11\0\0\0\2\0\0\0\0\0\0\0"
         "\0\0\0\0\2\0\0\0\0\0\0\0\1\2"
         "\0\0\0\0\0\0\0\0\0\0\0\0",
         38},
        {"general.alignment", LOCUS_VALUE_U32, "\100\0\0\0", 4},
    };
    const uint64_t n = sizeof values / sizeof *values, no_tensors = 0;
    locus_buffer_append(&out, "GGUF\2\0\0\0", 8); /* version 2 differs in nothing that is read */
    locus_buffer_append(&out, &no_tensors, sizeof no_tensors);
    locus_buffer_append(&out, &n, sizeof n);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = strlen(values[i].key);
        locus_buffer_append(&out, &length, sizeof length);
        locus_buffer_append(&out, values[i].key, length);
        locus_buffer_append(&out, &values[i].type, sizeof values[i].type);
        locus_buffer_append(&out, values[i].bytes, values[i].n_bytes);
    }
    testing_write(path, out.bytes, out.length);
    locus_buffer_free(&out);
}

static void check_foreign_values(const struct locus_checkpoint *checkpoint)
{
    static const struct {
        const char *key;
        int64_t value;
    } wanted[] = {{"u8", 254}, {"i8", -2},  {"u16", 65534},
                  {"i16", -2}, {"i32", -2}, {"u64", INT64_MAX - 1},
                  {"i64", -2}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        int64_t value = 7;
        ck_assert_msg(locus_checkpoint_int(checkpoint, wanted[i].key, &value), "%s", wanted[i].key);
        ck_assert_int_eq(value, wanted[i].value);
    }
    int64_t integer = 7;
    double number = 7;
    enum locus_value_type type;
    size_t count;
    ck_assert(!locus_checkpoint_int(checkpoint, "u64.large", &integer) && integer == 7);
    ck_assert(locus_checkpoint_float(checkpoint, "u64.large", &number) && number > 1.8e19);
    ck_assert(locus_checkpoint_float(checkpoint, "f64", &number) && number == 1.5);
    ck_assert(locus_checkpoint_array(checkpoint, "nested", &type, &count));
    ck_assert(type == LOCUS_VALUE_ARRAY && count == 2);
    ck_assert(!locus_checkpoint_array_numbers(checkpoint, "nested", &number));
}

START_TEST(copied_keys_of_every_type_come_back)
{
    const char *path = testing_temporary("x.gguf"), *copy = testing_temporary("x.gguf");
    write_foreign_values(path);
    struct locus_checkpoint *checkpoint = reopen(path);
    ck_assert_int_eq(locus_checkpoint_version(checkpoint), 2);
    check_foreign_values(checkpoint);
    struct locus_checkpoint_writer *writer = new_writer();
    for (size_t i = 0; i < locus_checkpoint_n_keys(checkpoint); i++)
        locus_writer_copy(writer, checkpoint, locus_checkpoint_key_at(checkpoint, i));
    locus_writer_copy(writer, checkpoint, "absent");
    locus_checkpoint_free(checkpoint);
    finish(writer, copy);
    checkpoint = reopen(copy);
    check_foreign_values(checkpoint);
    ck_assert_uint_eq(locus_checkpoint_n_keys(checkpoint), 10);
    ck_assert(!locus_checkpoint_has(checkpoint, "general.alignment"));
    locus_checkpoint_free(checkpoint);
}
END_TEST

/* ---- tensors ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum locus_tensor_type type;
    int n_dims;
    int64_t dims[4];
    size_t n_bytes;
} shapes[] = {
    {"one", LOCUS_F32, 1, {1, 1, 1, 1}, 4},
    {"f32", LOCUS_F32, 2, {3, 5, 1, 1}, 60},
    {"f16", LOCUS_F16, 3, {3, 5, 7, 1}, 210},
    {"bf16", LOCUS_BF16, 4, {3, 2, 2, 3}, 72},
    {"q8_0", LOCUS_Q8_0, 2, {64, 3, 1, 1}, 204},
    {"q4_0", LOCUS_Q4_0, 1, {32, 1, 1, 1}, 18},
    {"a.name.of.sixty-four.bytes.which.is.the.most.that.names.can.have",
     LOCUS_F32,
     1,
     {2, 1, 1, 1},
     8},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static void write_tensors(const char *path, const unsigned char *data)
{
    struct locus_checkpoint_writer *writer = new_writer();
    for (int i = 0; i < N_SHAPES; i++)
        locus_writer_tensor(writer, shapes[i].name, shapes[i].type, shapes[i].n_dims,
                            shapes[i].dims, data + i);
    finish(writer, path);
}

START_TEST(tensors_come_back)
{
    const char *path = testing_temporary("x.gguf");
    unsigned char data[256 + N_SHAPES];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + 1);
    write_tensors(path, data);
    struct locus_checkpoint *checkpoint = reopen(path);
    ck_assert_uint_eq(locus_checkpoint_n_tensors(checkpoint), N_SHAPES);
    for (int i = 0; i < N_SHAPES; i++) {
        const struct locus_tensor *tensor = locus_checkpoint_tensor(checkpoint, shapes[i].name);
        ck_assert_ptr_eq(tensor, locus_checkpoint_tensor_at(checkpoint, (size_t)i));
        ck_assert_str_eq(tensor->name, shapes[i].name);
        ck_assert_int_eq(tensor->type, shapes[i].type);
        ck_assert_int_eq(tensor->n_dims, shapes[i].n_dims);
        ck_assert_mem_eq(tensor->dims, shapes[i].dims, sizeof shapes[i].dims);
        ck_assert_uint_eq(tensor->n_bytes, shapes[i].n_bytes);
        ck_assert_uint_eq((uintptr_t)tensor->data % 32, 0);
        ck_assert_mem_eq(tensor->data, data + i, tensor->n_bytes);
    }
    ck_assert_ptr_null(locus_checkpoint_tensor(checkpoint, "f3"));
    ck_assert_ptr_null(locus_checkpoint_tensor(checkpoint, ""));
    locus_checkpoint_free(checkpoint);
}
END_TEST

START_TEST(same_calls_write_the_same_bytes)
{
    const char *path[2] = {testing_temporary("x.gguf"), testing_temporary("x.gguf")};
    unsigned char data[256 + N_SHAPES] = {0};
    char *bytes[2];
    size_t n_bytes[2];
    for (int i = 0; i < 2; i++) {
        write_tensors(path[i], data);
        bytes[i] = testing_read(path[i], &n_bytes[i]);
    }
    ck_assert_uint_eq(n_bytes[0], n_bytes[1]);
    ck_assert(!memcmp(bytes[0], bytes[1], n_bytes[0]));
    free(bytes[0]);
    free(bytes[1]);
}
END_TEST

/* ---- refusals and failures ----------------------------------------------------------------- */

static void refuse(void (*fill)(struct locus_checkpoint_writer *writer), const char *says)
{
    const char *path = testing_temporary("x.gguf");
    struct locus_checkpoint_writer *writer = new_writer();
    locus_error error = {0};
    fill(writer);
    locus_writer_u32(writer, "later", 1); /* what comes after a refusal changes nothing */
    ck_assert_int_eq(locus_writer_finish(writer, path, &error), LOCUS_ERROR_ARGUMENT);
    ck_assert_msg(strstr(error.message, says) && strstr(error.message, "x.gguf"), "%s",
                  error.message);
    ck_assert_int_eq(testing_count_files(path), 0);
    locus_writer_free(writer);
}

static const int64_t one_dim[] = {32};

static void fill_key_twice(struct locus_checkpoint_writer *writer)
{
    locus_writer_u32(writer, "a.key", 1);
    locus_writer_u32(writer, "another", 1);
    locus_writer_string(writer, "a.key", "x", 1);
}

static void fill_empty_key(struct locus_checkpoint_writer *writer)
{
    locus_writer_u32(writer, "", 1);
}

static void fill_tensor_twice(struct locus_checkpoint_writer *writer)
{
    locus_writer_tensor(writer, "a.weight", LOCUS_Q4_0, 1, one_dim, "");
    locus_writer_tensor(writer, "a.weight", LOCUS_Q4_0, 1, one_dim, "");
}

static void fill_long_name(struct locus_checkpoint_writer *writer)
{
    locus_writer_tensor(writer, "a.name.of.sixty-five.bytes.which.is.one.more.than.a.name.can.have",
                        LOCUS_F32, 1, one_dim, "");
}

static void fill_no_dims(struct locus_checkpoint_writer *writer)
{
    locus_writer_tensor(writer, "a.weight", LOCUS_F32, 0, one_dim, "");
}

static void fill_negative_dim(struct locus_checkpoint_writer *writer)
{
    locus_writer_tensor(writer, "a.weight", LOCUS_F32, 1, (const int64_t[]){-1}, "");
}

static void fill_half_block(struct locus_checkpoint_writer *writer)
{
    locus_writer_tensor(writer, "a.weight", LOCUS_Q8_0, 1, (const int64_t[]){48}, "");
}

static void fill_unknown_type(struct locus_checkpoint_writer *writer)
{
    locus_writer_tensor(writer, "a.weight", (enum locus_tensor_type)9, 1, one_dim, "");
}

static void fill_alignment(struct locus_checkpoint_writer *writer)
{
    locus_writer_u32(writer, "general.alignment", 64);
}

START_TEST(refused_arguments_are_reported_by_finish)
{
    refuse(fill_key_twice, "key 'a.key' given twice");
    refuse(fill_empty_key, "0 bytes");
    refuse(fill_tensor_twice, "tensor 'a.weight' given twice");
    refuse(fill_long_name, "65 bytes, expected 1 to 64");
    refuse(fill_no_dims, "0 dimensions");
    refuse(fill_negative_dim, "dimension 0 is");
    refuse(fill_half_block, "rows of 48 values");
    refuse(fill_unknown_type, "type");
    refuse(fill_alignment, "is 64, expected 32");
}
END_TEST

static void fails_to_write(const char *path, const char *says)
{
    locus_error error = {0};
    static const float data[4096];
    struct locus_checkpoint_writer *writer = new_writer();
    locus_writer_tensor(writer, "a.weight", LOCUS_F32, 1, (const int64_t[]){4096}, data);
    ck_assert_int_eq(locus_writer_finish(writer, path, &error), LOCUS_ERROR_IO);
    ck_assert_msg(strstr(error.message, says) && strstr(error.message, path), "%s", error.message);
    ck_assert_int_eq(locus_writer_finish(writer, path, NULL), LOCUS_ERROR_IO);
    locus_writer_free(writer);
}

START_TEST(failed_write_leaves_nothing_behind)
{
    const char *path = testing_temporary("x.gguf");
    char missing[4096];
    snprintf(missing, sizeof missing, "%s/missing/x.gguf", path);
    fails_to_write(missing, "cannot be written");
    ck_assert_int_eq(testing_count_files(path), 0);

    ck_assert_int_eq(mkdir(path, 0700), 0); /* a folder is in the way */
    fails_to_write(path, "Is a directory");
    ck_assert_int_eq(testing_count_files(path), 1);
}
END_TEST

START_TEST(full_disk_leaves_the_old_file)
{
    const char *path = testing_temporary("x.gguf");
    testing_write(path, "old", 3);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){8192, 8192}), 0);
    fails_to_write(path, "write failed");
    size_t n_bytes;
    char *bytes = testing_read(path, &n_bytes);
    ck_assert_str_eq(bytes, "old");
    free(bytes);
    ck_assert_int_eq(testing_count_files(path), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("writer");
    TCase *tests = tcase_create("writer");
    tcase_add_test(tests, metadata_comes_back);
    tcase_add_test(tests, getter_of_another_type_or_key_leaves_the_default);
    tcase_add_test(tests, copied_keys_of_every_type_come_back);
    tcase_add_test(tests, tensors_come_back);
    tcase_add_test(tests, same_calls_write_the_same_bytes);
    tcase_add_test(tests, refused_arguments_are_reported_by_finish);
    tcase_add_test(tests, failed_write_leaves_nothing_behind);
    tcase_add_test(tests, full_disk_leaves_the_old_file);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
