/* The checkpoint: what the writer wrote is what the reader reads, and whatever else a file holds is
 * refused in one line, or runs.
 */
#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "checkpoint/checkpoint.h"
#include "hostile.h"
#include "locus.h"
#include "testing.h"

/* ---- files made by hand -------------------------------------------------------------------- */

static void put_u32(struct locus_buffer *out, uint32_t value)
{
    locus_buffer_append(out, &value, sizeof value);
}

static void put_u64(struct locus_buffer *out, uint64_t value)
{
    locus_buffer_append(out, &value, sizeof value);
}

static void put_text(struct locus_buffer *out, const char *text)
{
    put_u64(out, strlen(text));
    locus_buffer_append(out, text, strlen(text));
}

static void put_header(struct locus_buffer *out, uint32_t version, uint64_t n_tensors,
                       uint64_t n_keys)
{
    locus_buffer_append(out, "GGUF", 4);
    put_u32(out, version);
    put_u64(out, n_tensors);
    put_u64(out, n_keys);
}

static void put_key(struct locus_buffer *out, const char *key, uint32_t type)
{
    put_text(out, key);
    put_u32(out, type);
}

static void put_u32_key(struct locus_buffer *out, const char *key, uint32_t value)
{
    put_key(out, key, LOCUS_VALUE_U32);
    put_u32(out, value);
}

/* A row of the tensor table, of one dimension. */
static void put_tensor(struct locus_buffer *out, const char *name, uint64_t n, uint32_t type,
                       uint64_t offset)
{
    put_text(out, name);
    put_u32(out, 1);
    put_u64(out, n);
    put_u32(out, type);
    put_u64(out, offset);
}

/* Zeros up to a multiple of `alignment`, and n_bytes more. */
static void put_data(struct locus_buffer *out, size_t alignment, size_t n_bytes)
{
    static const char zeros[4096];
    size_t n = (alignment - out->length % alignment) % alignment + n_bytes;
    ck_assert_uint_le(n, sizeof zeros);
    locus_buffer_append(out, zeros, n);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void make_nothing(struct locus_buffer *out)
{
    (void)out;
}

static void make_page(struct locus_buffer *out)
{
    locus_buffer_printf(out, "\n <!DOCTYPE html>\n<html><body>Not found</body></html>\n");
}

static void make_json(struct locus_buffer *out)
{
    locus_buffer_printf(out, "{\"model_type\": \"gpt2\"}");
}

static void make_zip(struct locus_buffer *out)
{
    locus_buffer_append(out, "PK\3\4\24\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 26);
}

static void make_safetensors(struct locus_buffer *out)
{
    put_u64(out, 64);
    locus_buffer_printf(out, "{\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\"");
}

static void make_pointer(struct locus_buffer *out)
{
    locus_buffer_printf(out, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
}

static void make_llama2c(struct locus_buffer *out)
{
    put_u32(out, 0x616B3432);
    put_u32(out, 1);
    for (int i = 0; i < 62; i++)
        put_u32(out, 8);
}

/* dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len, and the first weights. */
static void make_old_llama2c(struct locus_buffer *out)
{
    static const int32_t fields[7] = {8, 24, 1, 4, 2, -16, 32};
    for (int i = 0; i < 7 + 16 * 8; i++)
        put_u32(out, i < 7 ? (uint32_t)fields[i] : 0x3F000000);
}

/* The same fields with less behind them than a vocabulary. */
static void make_short_llama2c(struct locus_buffer *out)
{
    for (int i = 0; i < 7; i++)
        put_u32(out, 8);
}

static void make_noise(struct locus_buffer *out)
{
    locus_buffer_append(out, "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20", 16);
}

static void make_version_1(struct locus_buffer *out)
{
    put_header(out, 1, 0, 0);
}

static void make_big_endian(struct locus_buffer *out)
{
    put_header(out, 0x03000000, 0, 0);
}

static void make_foreign_magic(struct locus_buffer *out)
{
    locus_buffer_append(out, "FUGG\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
}

static void make_many_tensors(struct locus_buffer *out)
{
    put_header(out, 3, UINT64_MAX, 0);
}

static void make_many_keys(struct locus_buffer *out)
{
    put_header(out, 3, 0, UINT64_C(1) << 61);
}

static void make_empty_key(struct locus_buffer *out)
{
    put_header(out, 3, 0, 1);
    put_u32_key(out, "", 1);
    put_data(out, 32, 32);
}

static void make_key_twice(struct locus_buffer *out)
{
    put_header(out, 3, 0, 2);
    put_u32_key(out, "general.file_type", 1);
    put_u32_key(out, "general.file_type", 2);
}

static void make_nul_key(struct locus_buffer *out)
{
    put_header(out, 3, 0, 1);
    put_u64(out, 3);
    locus_buffer_append(out, "a\0b", 3);
    put_u32(out, LOCUS_VALUE_U32);
    put_u32(out, 1);
}

static void make_unknown_value(struct locus_buffer *out)
{
    put_header(out, 3, 0, 1);
    put_key(out, "general.name", 13);
    put_data(out, 32, 32);
}

static void make_odd_boolean(struct locus_buffer *out)
{
    put_header(out, 3, 0, 1);
    put_key(out, "tokenizer.ggml.add_bos_token", LOCUS_VALUE_BOOL);
    locus_buffer_append(out, "\2", 1);
}

static void make_long_array(struct locus_buffer *out)
{
    put_header(out, 3, 0, 1);
    put_key(out, "tokenizer.ggml.scores", LOCUS_VALUE_ARRAY);
    put_u32(out, LOCUS_VALUE_F32);
    put_u64(out, UINT64_C(1) << 62); /* times 4 is 0 in 64 bits */
}

static void make_deep_array(struct locus_buffer *out)
{
    put_header(out, 3, 0, 1);
    put_key(out, "deep", LOCUS_VALUE_ARRAY);
    for (int i = 0; i < 1000; i++) {
        put_u32(out, LOCUS_VALUE_ARRAY);
        put_u64(out, 1);
    }
}

static void make_odd_alignment(struct locus_buffer *out)
{
    put_header(out, 3, 0, 1);
    put_u32_key(out, "general.alignment", 48);
}

static void make_tensor_twice(struct locus_buffer *out)
{
    put_header(out, 3, 2, 0);
    put_tensor(out, "output.weight", 8, LOCUS_F32, 0);
    put_tensor(out, "output.weight", 8, LOCUS_F32, 32);
    put_data(out, 32, 64);
}

static void make_unnamed_tensor(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_tensor(out, "", 8, LOCUS_F32, 0);
    put_data(out, 32, 64);
}

static void make_five_dims(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_text(out, "output.weight");
    put_u32(out, 5);
    for (int i = 0; i < 5; i++)
        put_u64(out, 1);
    put_u32(out, LOCUS_F32);
    put_u64(out, 0);
    put_data(out, 32, 64);
}

static void make_zero_dim(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_tensor(out, "output.weight", 0, LOCUS_F32, 0);
    put_data(out, 32, 64);
}

static void make_overflowing_dims(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_text(out, "output.weight");
    put_u32(out, 4);
    for (int i = 0; i < 4; i++)
        put_u64(out, 1 << 16); /* the product is 2^64: 0 */
    put_u32(out, LOCUS_F32);
    put_u64(out, 0);
    put_data(out, 32, 64);
}

static void make_half_block(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_tensor(out, "output.weight", 33, LOCUS_Q8_0, 0);
    put_data(out, 32, 64);
}

static void make_foreign_type(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_tensor(out, "output.weight", 256, 16, 0);
    put_data(out, 32, 256);
}

static void make_unknown_type(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_tensor(out, "output.weight", 256, 4000000000U, 0);
    put_data(out, 32, 256);
}

static void make_overlap(struct locus_buffer *out)
{
    put_header(out, 3, 2, 0);
    put_tensor(out, "first.weight", 16, LOCUS_F32, 0);
    put_tensor(out, "second.weight", 8, LOCUS_F32, 32);
    put_data(out, 32, 96);
}

static void make_past_the_end(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_tensor(out, "output.weight", 8, LOCUS_F32, 64);
    put_data(out, 32, 64);
}

static void make_wrapped_end(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_tensor(out, "output.weight", 16, LOCUS_F32, UINT64_MAX - 31);
    put_data(out, 32, 64);
}

static void make_odd_offset(struct locus_buffer *out)
{
    put_header(out, 3, 1, 0);
    put_tensor(out, "output.weight", 8, LOCUS_F32, 4);
    put_data(out, 32, 64);
}

/* Each names the field, what was found and what was expected. */
static const struct refusal {
    void (*make)(struct locus_buffer *out);
    const char *says[3];
} refusals[] = {
    {make_nothing, {"empty file", "expected a GGUF file"}},
    {make_page, {"an HTML or XML page", "expected a GGUF file"}},
    {make_json, {"a JSON file", "expected a GGUF file"}},
    {make_zip, {"zip archive", "expected a GGUF file"}},
    {make_safetensors, {"safetensors", "convert_hf.py", "expected a GGUF file"}},
    {make_llama2c, {"a llama2.c model", "convert_llama2c.py", "expected a GGUF file"}},
    {make_old_llama2c, {"a llama2.c model", "convert_llama2c.py", "expected a GGUF file"}},
    {make_short_llama2c, {"magic is 08 00 00 00", "47 47 55 46"}},
    {make_pointer, {"Git LFS pointer", "expected a GGUF file"}},
    {make_noise, {"magic is 01 02 03 04", "47 47 55 46"}},
    {make_version_1, {"version is 1", "expected 2 or 3"}},
    {make_big_endian, {"big-endian", "expected a little-endian one"}},
    {make_foreign_magic, {"big-endian", "expected a GGUF file"}},
    {make_many_tensors, {"count of tensors is 18446744073709551615", "expected at most 0"}},
    {make_many_keys, {"count of keys is 2305843009213693952", "expected at most 0"}},
    {make_empty_key, {"key 1 of 1", "0 bytes", "expected 1 to"}},
    {make_key_twice, {"'general.file_type'", "occurs twice", "expected once"}},
    {make_nul_key, {"key 1 of 1", "NUL byte", "expected none"}},
    {make_unknown_value, {"'general.name'", "value type is 13", "expected 0 to 12"}},
    {make_odd_boolean, {"'tokenizer.ggml.add_bos_token'", "boolean is 2", "expected 0 or 1"}},
    {make_long_array, {"'tokenizer.ggml.scores'", "4611686018427387904 values", "the file has"}},
    {make_deep_array, {"'deep'", "nested", "expected fewer"}},
    {make_odd_alignment, {"'general.alignment'", "is 48", "expected a power of two"}},
    {make_tensor_twice, {"'output.weight'", "occurs twice", "expected once"}},
    {make_unnamed_tensor, {"tensor 1 of 1", "0 bytes", "expected 1 to 64"}},
    {make_five_dims, {"'output.weight'", "5 dimensions", "expected 1 to 4"}},
    {make_zero_dim, {"'output.weight'", "dimension 0 is 0", "expected 1 to"}},
    {make_overflowing_dims, {"'output.weight'", "product of its dimensions overflows"}},
    {make_half_block, {"'output.weight'", "rows of 33 values", "a multiple of 32"}},
    {make_foreign_type,
     {"'output.weight'", "type 16 (IQ2_XXS)", "locus reads F32, F16, BF16, F64"}},
    {make_unknown_type, {"'output.weight'", "type 4000000000 (unknown)", "locus reads F32"}},
    {make_overlap, {"'second.weight'", "overlaps tensor 'first.weight'", "expected 64 or more"}},
    {make_past_the_end, {"'output.weight'", "32 bytes at offset 64", "the file has 64"}},
    {make_wrapped_end, {"'output.weight'", "offset 18446744073709551584", "the file has 64"}},
    {make_odd_offset, {"'output.weight'", "offset is 4", "expected a multiple of 32"}},
};

static void check_refused(const char *path, const char *const says[3])
{
    locus_error error = {0};
    ck_assert_ptr_null(locus_checkpoint_open(path, &error));
    ck_assert_int_ne(error.status, LOCUS_OK);
    ck_assert_ptr_null(strpbrk(error.message, "\n\r\t"));
    ck_assert_msg(strstr(error.message, "x.gguf") != NULL, "no file name: %s", error.message);
    for (int i = 0; i < 3 && says[i]; i++)
        ck_assert_msg(strstr(error.message, says[i]) != NULL, "no \"%s\": %s", says[i],
                      error.message);
    ck_assert_ptr_null(locus_checkpoint_open(path, NULL));
}

START_TEST(refusal_names_file_field_found_and_expected)
{
    const char *path = testing_temporary("x.gguf");
    struct locus_buffer bytes = {0};
    refusals[_i].make(&bytes);
    ck_assert(!bytes.failed);
    testing_write(path, bytes.bytes, bytes.length);
    locus_buffer_free(&bytes);
    check_refused(path, refusals[_i].says);
}
END_TEST

START_TEST(folder_missing_file_and_no_regular_file_are_refused)
{
    const char *path = testing_temporary("x.gguf");
    check_refused(path, (const char *const[3]){"No such file"});
    ck_assert_int_eq(mkdir(path, 0700), 0);
    check_refused(path, (const char *const[3]){"is a folder", "expected a file"});
    char config[PATH_MAX + 16];
    snprintf(config, sizeof config, "%s/config.json", path);
    testing_write(config, "{}", 2);
    check_refused(path, (const char *const[3]){"a Hugging Face model folder", "expected a GGUF",
                                               "scripts/convert_hf.py"});
    const char *pipe = testing_temporary("x.gguf");
    ck_assert_int_eq(mkfifo(pipe, 0600), 0); /* opening one without a writer must not wait */
    check_refused(pipe, (const char *const[3]){"not a regular file"});
}
END_TEST

START_TEST(control_bytes_of_a_file_stay_out_of_the_message)
{
    const char *path = testing_temporary("x.gguf");
    struct locus_buffer bytes = {0};
    put_header(&bytes, 3, 0, 1);
    put_key(&bytes, "\033[2J\n\a", 99);
    testing_write(path, bytes.bytes, bytes.length);
    locus_buffer_free(&bytes);
    check_refused(path, (const char *const[3]){"?[2J??", "value type is 99"});
}
END_TEST

/* Arrays in arrays: four deep they are read, five deep refused. */
START_TEST(arrays_nest_as_deep_as_is_said)
{
    const char *path = testing_temporary("x.gguf");
    for (int depth = 4; depth <= 5; depth++) {
        struct locus_buffer bytes = {0};
        put_header(&bytes, 3, 0, 1);
        put_key(&bytes, "deep", LOCUS_VALUE_ARRAY);
        for (int i = 1; i < depth; i++) {
            put_u32(&bytes, LOCUS_VALUE_ARRAY);
            put_u64(&bytes, 1);
        }
        put_u32(&bytes, LOCUS_VALUE_U8);
        put_u64(&bytes, 0);
        testing_write(path, bytes.bytes, bytes.length);
        locus_buffer_free(&bytes);
        struct locus_checkpoint *checkpoint = locus_checkpoint_open(path, NULL);
        ck_assert_msg((checkpoint != NULL) == (depth == 4), "%d deep", depth);
        locus_checkpoint_free(checkpoint);
    }
}
END_TEST

START_TEST(long_names_are_cut_between_characters)
{
    const char *path = testing_temporary("x.gguf");
    for (size_t n = 46; n <= 48; n++) {
        char key[64] = "", shown[64];
        struct locus_buffer bytes = {0};
        memset(key, 'a', n);
        snprintf(shown, sizeof shown, "'%s%s...'", key, n == 46 ? "\u00E9" : "");
        strcat(key, "\u00E9 and more");
        put_header(&bytes, 3, 0, 1);
        put_key(&bytes, key, 99);
        testing_write(path, bytes.bytes, bytes.length);
        locus_buffer_free(&bytes);
        check_refused(path, (const char *const[3]){shown, "value type is 99"});
    }
}
END_TEST

START_TEST(long_paths_are_cut_between_characters)
{
    for (int shift = 0; shift < 2; shift++) {
        char name[220] = "";
        locus_error error;
        for (int i = 0; i < 100; i++)
            strcat(name, "\u00E9");
        if (shift) strcat(name, "a");
        const char *path = testing_temporary(name);
        testing_write(path, "GGUF", 4);
        ck_assert_ptr_null(locus_checkpoint_open(path, &error));
        const char *tail = strstr(error.message, "...");
        ck_assert_msg(tail && strncmp(tail + 3, "\u00E9", 2) == 0, "%s", error.message);
    }
}
END_TEST

START_TEST(message_of_a_long_path_still_says_what_is_wrong)
{
    char name[201];
    memset(name, 'a', sizeof name - 1);
    memcpy(name + sizeof name - 1 - strlen("x.gguf"), "x.gguf", sizeof "x.gguf");
    const char *path = testing_temporary(name);
    struct locus_buffer bytes = {0};
    make_odd_offset(&bytes);
    testing_write(path, bytes.bytes, bytes.length);
    locus_buffer_free(&bytes);
    check_refused(path, (const char *const[3]){"'output.weight'", "expected a multiple of 32"});
}
END_TEST

/* ---- hostile files ------------------------------------------------------------------------- */

/* A whole run on what opens: tokenizer, sampler, a few tokens. */
static void run_model(const locus_model *model, const char *what)
{
    locus_error error = {0};
    locus_session_params params = {.n_context = 8, .n_threads = 1};
    locus_session *session = locus_session_create(model, &params, &error);
    locus_tokenizer *tokenizer = locus_tokenizer_create(model, &error);
    locus_sampler *sampler = locus_sampler_create(model, NULL, &error);
    int32_t *tokens = NULL;
    size_t n_tokens = 0, n_bytes;
    if (tokenizer &&
        !locus_encode(tokenizer, "the \xFF", 5, LOCUS_TEXT_BEGIN, &tokens, &n_tokens, &error))
        for (size_t i = 0; i < n_tokens; i++)
            locus_token_piece(tokenizer, -1, tokens[i], LOCUS_TEXT_SPECIAL, &n_bytes);
    free(tokens);
    if (session) {
        int n_vocab = locus_model_info_get(model).n_vocab;
        int32_t two[] = {0, n_vocab - 1};
        ck_assert_msg(locus_session_eval(session, two, 2, NULL, 0, &error) == LOCUS_OK, "%s: %s",
                      what, error.message);
        if (sampler) locus_sampler_next(sampler, locus_session_logits(session), &error);
    } else
        ck_assert_msg(error.message[0] != '\0', "%s: no message", what);
    locus_sampler_free(sampler);
    locus_tokenizer_free(tokenizer);
    locus_session_free(session);
}

static void check_hostile(const char *path, const char *what, bool whole, void *data)
{
    size_t *n_opened = data;
    locus_error error = {0};
    locus_model *model = locus_model_open(path, &error);
    ck_assert_msg(model || !whole, "%s: %s", what, error.message);
    if (model) {
        (*n_opened)++;
        run_model(model, what);
    } else {
        ck_assert_msg(error.status && error.status != LOCUS_ERROR_MEMORY, "%s: status %d: %s", what,
                      error.status, error.message);
        ck_assert_msg(strstr(error.message, "hostile.gguf") != NULL, "%s: %s", what, error.message);
    }
    locus_model_free(model);
}

enum { MEMORY = 64 << 20 }; /* bytes, for a file of 150 KB */

START_TEST(every_cut_is_refused)
{
    size_t n_opened = 0;
    hostile_limit_memory(MEMORY);
    ck_assert_uint_gt(hostile_cuts(check_hostile, &n_opened), 4000);
    ck_assert_uint_eq(n_opened, 2); /* the whole file, and one byte more */
}
END_TEST

START_TEST(every_field_set_wrong_is_refused_or_runs)
{
    size_t n_opened = 0;
    hostile_limit_memory(MEMORY);
    ck_assert_uint_gt(hostile_fields(check_hostile, &n_opened), 4000);
    ck_assert_uint_gt(n_opened, 100);
}
END_TEST

/* ---- main ---------------------------------------------------------------------------------- */

int main(void)
{
    Suite *suite = suite_create("checkpoint");
    TCase *tests = tcase_create("refusals");
    tcase_add_loop_test(tests, refusal_names_file_field_found_and_expected, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(tests, folder_missing_file_and_no_regular_file_are_refused);
    tcase_add_test(tests, control_bytes_of_a_file_stay_out_of_the_message);
    tcase_add_test(tests, arrays_nest_as_deep_as_is_said);
    tcase_add_test(tests, long_names_are_cut_between_characters);
    tcase_add_test(tests, long_paths_are_cut_between_characters);
    tcase_add_test(tests, message_of_a_long_path_still_says_what_is_wrong);
    tcase_add_test(tests, every_cut_is_refused);
    tcase_add_test(tests, every_field_set_wrong_is_refused_or_runs);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
