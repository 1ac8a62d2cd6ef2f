/* SentencePiece's BPE with keys of ours: merges that are listed, spaces before words or after them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "testing.h"
#include "tokenizer/tokenizer.h"
#include "variant.h"
#include "vocabularies.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED };

static const struct {
    const char *text;
    int type;
} tokens[] = {
    {"<unk>", UNKNOWN},   {"<s>", CONTROL},      {"</s>", CONTROL},        {"a", NORMAL},
    {"b", NORMAL},        {"c", NORMAL},         {"\u2581", NORMAL},       {"ab", NORMAL},
    {"bc", NORMAL},       {"abc", NORMAL},       {"\u2581ab", NORMAL},     {"c\u2581", NORMAL},
    {"bc\u2581", NORMAL}, {"abc\u2581", NORMAL}, {"\u2581\u2581", NORMAL}, {"b\u2581", NORMAL},
    {"CAB", USER},        {"ca", USER},
};
enum { N_TOKENS = sizeof tokens / sizeof *tokens };

/* Best first. "ab c" is none, so that "abc" is made of "a bc" alone. */
static const char *const merges[] = {"b c",           "\u2581 ab", "a b",        "a bc",
                                     "\u2581 \u2581", "b c\u2581", "a bc\u2581", "c a"};
enum { N_MERGES = sizeof merges / sizeof *merges };

static const char *write_pieces(void)
{
    const char *texts[N_TOKENS], *path = testing_temporary("pieces.gguf");
    size_t lengths[N_TOKENS], merge_lengths[N_MERGES];
    int32_t types[N_TOKENS];
    float scores[N_TOKENS];
    for (size_t i = 0; i < N_TOKENS; i++) {
        texts[i] = tokens[i].text;
        lengths[i] = strlen(texts[i]);
        types[i] = tokens[i].type;
        scores[i] = 0; /* say nothing beside the merges */
    }
    for (size_t i = 0; i < N_MERGES; i++)
        merge_lengths[i] = strlen(merges[i]);
    struct locus_checkpoint_writer *writer = locus_writer_create(NULL);
    locus_writer_string(writer, "general.architecture", "locus", 5);
    locus_writer_string(writer, "tokenizer.ggml.model", "llama", 5);
    locus_writer_strings(writer, "tokenizer.ggml.tokens", texts, lengths, N_TOKENS);
    locus_writer_i32s(writer, "tokenizer.ggml.token_type", types, N_TOKENS);
    locus_writer_f32s(writer, "tokenizer.ggml.scores", scores, N_TOKENS);
    locus_writer_strings(writer, "tokenizer.ggml.merges", merges, merge_lengths, N_MERGES);
    locus_writer_bool(writer, "locus.tokenizer.merges", true);
    locus_writer_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    ck_assert_int_eq(locus_writer_finish(writer, path, NULL), LOCUS_OK);
    locus_writer_free(writer);
    return path;
}

static const struct {
    const char *flag, *prefix, *normalizer[5], *text, *pieces;
} cases[] = {
    {NULL, "none", {NULL}, "abc", "abc"},
    {NULL, "none", {NULL}, "ab ab", "ab· ab"},
    {NULL, "none", {NULL}, "ab\u2581ab", "ab· ab"},
    {NULL, "each", {NULL}, "abab", " ab·ab"},
    {NULL, "none", {NULL}, "xyz", "<unk>"},
    {NULL, "none", {NULL}, "x yz", "<unk>· ·<unk>"},
    {NULL, "none", {"lowercase"}, "CAB", "CAB"},
    {NULL, "none", {"lowercase"}, "CaX", "ca·<unk>"}, /* a user-defined token, made by merges */
    {NULL, "none", {NULL}, "a  b", "a·  ·b"},
    {"locus.tokenizer.split", "none", {NULL}, "a  b", "a· · ·b"},
    {"locus.tokenizer.suffix", "none", {"bert-words"}, "abc, bc", "ab·c ·<unk>·bc "},
    {"locus.tokenizer.suffix", "none", {"bert-words"}, "xy b", "<unk>·<unk>·b "},
    {"locus.tokenizer.suffix", "none", {"bert-words"}, "b\u2581c", "b·<unk>·c "},
};

START_TEST(keys_say_what_merges)
{
    struct variant *variant = variant_begin(write_pieces());
    size_t lengths[5], n = 0;
    for (; cases[_i].normalizer[n]; n++)
        lengths[n] = strlen(cases[_i].normalizer[n]);
    if (n > 0)
        locus_writer_strings(variant_writer(variant), "locus.tokenizer.normalizer",
                             cases[_i].normalizer, lengths, n);
    if (cases[_i].flag) locus_writer_bool(variant_writer(variant), cases[_i].flag, true);
    locus_writer_string(variant_writer(variant), "locus.tokenizer.prefix", cases[_i].prefix,
                        strlen(cases[_i].prefix));
    struct vocabulary_file subject = vocabulary_open(variant_finish(variant));
    struct locus_buffer list = {0};
    int32_t *ids;
    ck_assert(!locus_encode(subject.tokenizer, cases[_i].text, strlen(cases[_i].text), 0, &ids, &n,
                            NULL));
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes;
        const char *piece =
            locus_token_piece(subject.tokenizer, 'a', ids[i], LOCUS_TEXT_SPECIAL, &n_bytes);
        if (i) locus_buffer_append(&list, "·", 2);
        locus_buffer_append(&list, piece, n_bytes);
    }
    ck_assert_str_eq(list.bytes, cases[_i].pieces);
    locus_buffer_free(&list);
    free(ids);
    vocabulary_close(&subject);
}
END_TEST

START_TEST(merges_that_are_none_are_refused)
{
    static const char *const lines[] = {"b c", "bc"};
    struct variant *variant = variant_begin(write_pieces());
    variant_drop(variant, "tokenizer.ggml.merges");
    locus_writer_strings(variant_writer(variant), "tokenizer.ggml.merges", lines,
                         (const size_t[]){3, 2}, 2);
    locus_error error = {0};
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(variant_finish(variant), &error);
    ck_assert_ptr_null(locus_tokenizer_from_checkpoint(checkpoint, &error));
    ck_assert_msg(strstr(error.message, "merges[1] is \"bc\"") != NULL, "%s", error.message);
    locus_checkpoint_free(checkpoint);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pieces");
    TCase *tests = tcase_create("pieces");
    tcase_add_loop_test(tests, keys_say_what_merges, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tests, merges_that_are_none_are_refused);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
