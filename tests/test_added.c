/* Added tokens and the marks of a text: what a file says of them, as transformers and SentencePiece
 * do it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "testing.h"
#include "tokenizer/tokenizer.h"
#include "variant.h"
#include "vocabularies.h"

#define ADD_BEGIN "tokenizer.ggml.add_bos_token"
#define ADD_END "tokenizer.ggml.add_eos_token"
#define ADD_SPACE "tokenizer.ggml.add_space_prefix"

/* A vocabulary with booleans set; a NULL key ends them. */
static struct vocabulary_file open_with(const char *path, const char *const *keys, bool value)
{
    struct variant *variant = variant_begin(path);
    for (; *keys; keys++)
        locus_writer_bool(variant_writer(variant), *keys, value);
    return vocabulary_open(variant_finish(variant));
}

/* The pieces of a text's tokens, with dots between. */
static void check_pieces(const struct vocabulary_file *subject, const char *text, unsigned flags,
                         const char *wanted)
{
    locus_error error = {0};
    struct locus_buffer list = {0};
    int32_t *tokens;
    size_t n;
    ck_assert_int_eq(
        locus_encode(subject->tokenizer, text, strlen(text), flags, &tokens, &n, &error), LOCUS_OK);
    locus_buffer_append(&list, "", 0);
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes; /* after 'a', so that no space is dropped */
        const char *piece =
            locus_token_piece(subject->tokenizer, 'a', tokens[i], LOCUS_TEXT_SPECIAL, &n_bytes);
        if (i) locus_buffer_append(&list, "\u00B7", 2);
        locus_buffer_append(&list, piece, n_bytes);
    }
    ck_assert_msg(!strcmp(list.bytes, wanted), "'%s' gives '%s', expected '%s'", text, list.bytes,
                  wanted);
    locus_buffer_free(&list);
    free(tokens);
}

/* The text that its tokens come back as. */
static void check_text(const struct vocabulary_file *subject, const char *text, unsigned flags,
                       const char *wanted)
{
    locus_error error = {0};
    struct locus_buffer back = {0};
    int32_t *tokens;
    size_t n;
    ck_assert_int_eq(
        locus_encode(subject->tokenizer, text, strlen(text), flags, &tokens, &n, &error), LOCUS_OK);
    locus_buffer_append(&back, "", 0);
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes;
        const char *piece = locus_token_piece(subject->tokenizer, i ? tokens[i - 1] : -1, tokens[i],
                                              flags, &n_bytes);
        locus_buffer_append(&back, piece, n_bytes);
    }
    ck_assert_str_eq(back.bytes, wanted);
    locus_buffer_free(&back);
    free(tokens);
}

/* ---- byte-level BPE ------------------------------------------------------------------------ */

/* What tokenizers 0.23 gives, without add_prefix_space and with it. */
static const struct {
    const char *text, *pieces, *spaced;
} cases[] = {
    {"ab  <m>  ab", "ab·<m>· · ·ab", " ·ab·<m>· · ·ab"},
    {"<m>", "<m>", "<m>"},
    {"  <m>", "<m>", "<m>"},
    {" \t\n\u00a0\u3000<m>ab", "<m>·ab", "<m>· ·ab"},
    {"ab <r> \n ab", "ab· ·<r>·ab", " ·ab· ·<r>· ·ab"},
    {"<r>  ", "<r>", "<r>"},
    {"ab <b> <b> ab", "ab·<b>·<b>·ab", " ·ab·<b>·<b>· ·ab"},
    {"  <r> <m>ab", "  ·<r>·<m>·ab", "  ·<r>·<m>· ·ab"},
    {"dog", "dog", "dog"},
    {"a dog, dog", "a· ·dog·,· ·dog", " a· ·dog· ·,· ·dog"},
    {"dogs", "d·o·g·s", " ·d·o·g·s"},
    {"hotdog", "h·o·t·d·o·g", " ·h·o·t·d·o·g"},
    {"a_dog dog_", "a·_·d·o·g· ·d·o·g·_", " a·_·d·o·g· ·d·o·g·_"},
    {"1dog dog1", "1·d·o·g· ·d·o·g·1", " ·1·d·o·g· ·d·o·g·1"},
    {"édog", "é·d·o·g", " ·é·d·o·g"},
    {"dog\u200d dog", "d·o·g·\xE2·\x80·\x8D· ·dog", " ·d·o·g·\xE2·\x80·\x8D· ·dog"},
    {"dog-dog", "dog·-·dog", "dog· ·-·dog"},
    {"dogdog", "d·o·g·d·o·g", " ·d·o·g·d·o·g"},
    {"<m>dog<r>dog", "<m>·dog·<r>·dog", "<m>·dog·<r>·dog"},
    {"ab<think>hello<think> hello", "ab·<think>·hello·<think>· ·hello",
     " ·ab·<think>· ·hello·<think>· ·hello"},
    {"hello", "hello", " ·hello"},
    {"  hello", " · ·hello", " · ·hello"},
    {"", "", ""},
    {"\thello", "\t·hello", " ·\t·hello"},
};

START_TEST(blanks_and_words_beside_added_tokens)
{
    struct vocabulary_file plain = vocabulary_open(vocabulary_added());
    struct vocabulary_file spaced =
        open_with(vocabulary_added(), (const char *[]){ADD_SPACE, NULL}, true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_pieces(&plain, cases[i].text, LOCUS_TEXT_SPECIAL, cases[i].pieces);
        check_pieces(&spaced, cases[i].text, LOCUS_TEXT_SPECIAL, cases[i].spaced);
    }
    vocabulary_close(&plain);
    vocabulary_close(&spaced);
}
END_TEST

/* The first and last of Unicode's words, blocks of 256 and lengths of UTF-8, and their neighbours.
 */
START_TEST(characters_of_all_planes_make_words)
{
    static const struct {
        const char *character;
        bool word;
    } sides[] = {
        {"/", false},          {"0", true},           {"9", true},
        {":", false},          {"@", false},          {"Z", true},
        {"z", true},           {"{", false},          {"\x7F", false},
        {"\u00A9", false},     {"\u00AA", true},      {"\u00B2", false},
        {"\u00FF", true},      {"\u0100", true},      {"\u0300", true},
        {"\u0660", true},      {"\u07FF", false},     {"\u0800", true},
        {"\u200B", false},     {"\u200C", true},      {"\u200D", true},
        {"\u200E", false},     {"\u203F", true},      {"\u2160", true},
        {"\u24B6", true},      {"\u4E00", true},      {"\uD7FB", true},
        {"\uD7FF", false},     {"\uE000", false},     {"\uFF3F", true},
        {"\uFFFD", false},     {"\U00010000", true},  {"\U0001D7FF", true},
        {"\U0001F600", false}, {"\U000E00FF", false}, {"\U000E0100", true},
        {"\U0010FFFF", false}, {"\xC3", false},       {"\xED\xA0\x80", false},
    };
    struct vocabulary_file subject = vocabulary_open(vocabulary_added());
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (int after = 0; after < 2; after++) {
            char text[16];
            locus_error error = {0};
            int32_t *tokens;
            size_t n, n_found = 0, n_bytes;
            snprintf(text, sizeof text, after ? "dog%s" : "%sdog", sides[i].character);
            ck_assert_int_eq(
                locus_encode(subject.tokenizer, text, strlen(text), 0, &tokens, &n, &error),
                LOCUS_OK);
            for (size_t j = 0; j < n; j++) {
                const char *piece =
                    locus_token_piece(subject.tokenizer, 'a', tokens[j], 0, &n_bytes);
                n_found += n_bytes == 3 && memcmp(piece, "dog", 3) == 0;
            }
            ck_assert_msg(n_found == !sides[i].word, "'%s': %zu tokens", text, n_found);
            free(tokens);
        }
    vocabulary_close(&subject);
}
END_TEST

START_TEST(tokens_that_are_not_parsed_take_no_blanks)
{
    struct vocabulary_file subject = vocabulary_open(vocabulary_added());
    check_pieces(&subject, "a <m>", 0, "a· ·<·m·>");
    check_text(&subject, "ab  <m> dog dogs", 0, "ab  <m> dog dogs");
    check_text(&subject, "ab  <m> dog <r> dogs", LOCUS_TEXT_SPECIAL, "ab<m> dog <r>dogs");
    vocabulary_close(&subject);
}
END_TEST

START_TEST(space_that_was_put_is_dropped_again)
{
    struct vocabulary_file subject =
        open_with(vocabulary_added(), (const char *[]){ADD_SPACE, NULL}, true);
    check_text(&subject, "hello dog", 0, "hello dog");
    check_text(&subject, "<|endoftext|>hello", LOCUS_TEXT_SPECIAL, "<|endoftext|>hello");
    vocabulary_close(&subject);
}
END_TEST

/* llama-bpe takes a word that is a token whole, gpt-2 doesn't; a file's own word comes first. The
 * piece "hello" can't be merged without "hell o". */
START_TEST(words_are_taken_whole_if_the_file_says_so)
{
    static const char *const patterns[] = {"gpt-2", "llama-bpe"};
    for (int i = 0; i < 4; i++) {
        struct variant *variant = variant_begin(vocabulary_bpe(patterns[i / 2]));
        variant_drop(variant, "tokenizer.ggml.merges");
        locus_writer_strings(variant_writer(variant), "tokenizer.ggml.merges",
                             (const char *const[]){"h e"}, (const size_t[]){3}, 1);
        locus_writer_bool(variant_writer(variant), "locus.tokenizer.ignore_merges", i % 2);
        struct vocabulary_file subject = vocabulary_open(variant_finish(variant));
        check_pieces(&subject, "hello", 0, i % 2 ? "hello" : "he·l·l·o");
        vocabulary_close(&subject);
    }
}
END_TEST

/* ---- SentencePiece ------------------------------------------------------------------------- */

/* The space before a text is there before user-defined tokens are looked for. */
START_TEST(sentencepiece_prefix_stands_before_user_defined_tokens)
{
    static const struct {
        const char *text, *pieces;
    } texts[] = {
        {"<sep>", " ·<sep>"},
        {"<sep>ab", " ·<sep>·ab"},
        {"<sep><sep>", " ·<sep>·<sep>"},
        {"ab<sep>", " ab·<sep>"},
        {"ab<sep>ab<sep> ab", " ab·<sep>·ab·<sep>· ab"},
        {" <sep>", "  ·<sep>"},
        {"q", " q"},
        {" q", " · q"},
        {"aq q", " a·q· q"},
        {"", ""},
        {" ", "  "},
    };
    struct vocabulary_file subject = vocabulary_open(vocabulary_sentencepiece(1));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_pieces(&subject, texts[i].text, 0, texts[i].pieces);
        check_text(&subject, texts[i].text, 0, texts[i].text);
        check_text(&subject, texts[i].text, LOCUS_TEXT_SPECIAL, texts[i].text);
    }
    vocabulary_close(&subject);
    subject = open_with(vocabulary_sentencepiece(1), (const char *[]){ADD_SPACE, NULL}, false);
    check_pieces(&subject, "<sep>ab", 0, "<sep>·ab");
    check_pieces(&subject, "q q", 0, "q· q");
    vocabulary_close(&subject);
}
END_TEST

/* What follows a control token is a text of its own. */
START_TEST(sentencepiece_prefix_stands_after_control_tokens)
{
    static const struct {
        const char *text, *pieces;
    } texts[] = {
        {"<s>ab", "<s>· ab"},
        {"</s>", "</s>"},
        {"ab</s>", " ab·</s>"},
        {"ab</s><s>ab", " ab·</s>·<s>· ab"},
        {"<s> ab", "<s>· · ab"},
        {"</s><sep>ab", "</s>· ·<sep>·ab"},
        {"<s>q</s>q", "<s>· q·</s>· q"},
    };
    struct vocabulary_file subject = vocabulary_open(vocabulary_sentencepiece(1));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_pieces(&subject, texts[i].text, LOCUS_TEXT_SPECIAL, texts[i].pieces);
        check_text(&subject, texts[i].text, LOCUS_TEXT_SPECIAL, texts[i].text);
        check_text(&subject, texts[i].text, 0, texts[i].text);
    }
    vocabulary_close(&subject);
}
END_TEST

/* ---- begin and end of text ----------------------------------------------------------------- */

enum { B = LOCUS_TEXT_BEGIN, S = LOCUS_TEXT_SPECIAL, E = LOCUS_TEXT_END };

#define END_OF_TEXT "<|endoftext|>"

START_TEST(texts_begin_and_end_once)
{
    static const struct {
        const char *text, *pieces;
        unsigned flags;
    } texts[] = {
        {"x", "x", 0},
        {"x", END_OF_TEXT "·x", B},
        {"x", "x·" END_OF_TEXT, E},
        {"", END_OF_TEXT, B},
        {"", END_OF_TEXT "·" END_OF_TEXT, B | E},
        {END_OF_TEXT "x", END_OF_TEXT "·x", B | S},
        {END_OF_TEXT END_OF_TEXT "x", END_OF_TEXT "·" END_OF_TEXT "·x", B | S},
        {"x" END_OF_TEXT, END_OF_TEXT "·x·" END_OF_TEXT, B | S},
        {"x" END_OF_TEXT, "x·" END_OF_TEXT, E | S},
        {"x" END_OF_TEXT "y", "x·" END_OF_TEXT "·y·" END_OF_TEXT, E | S},
        {END_OF_TEXT, END_OF_TEXT, B | E | S},
        {"<think>", END_OF_TEXT "·<think>·" END_OF_TEXT, B | E | S},
        {"<|endof", END_OF_TEXT "·<·|·e·n·d·o·f", B},
    };
    struct vocabulary_file subject =
        open_with(vocabulary_bpe("gpt-2"), (const char *[]){ADD_BEGIN, ADD_END, NULL}, true);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_pieces(&subject, texts[i].text, texts[i].flags, texts[i].pieces);
    vocabulary_close(&subject);
    subject = open_with(vocabulary_sentencepiece(1), (const char *[]){ADD_END, NULL}, true);
    check_pieces(&subject, "ab", B | E, "<s>· ab·</s>");
    check_pieces(&subject, "<s>ab</s>", B | E | S, "<s>· ab·</s>");
    check_pieces(&subject, "<s><s>ab", B | S, "<s>·<s>· ab");
    check_pieces(&subject, "<sep>", B | S, "<s>· ·<sep>");
    vocabulary_close(&subject);
}
END_TEST

/* A byte that has the begin token's number is no begin token. */
START_TEST(first_byte_is_no_mark)
{
    struct variant *variant = variant_begin(vocabulary_bytes());
    locus_writer_u32(variant_writer(variant), "tokenizer.ggml.bos_token_id", 'x');
    locus_writer_bool(variant_writer(variant), ADD_BEGIN, true);
    struct vocabulary_file subject = vocabulary_open(variant_finish(variant));
    check_pieces(&subject, "xy", B | S, "x·x·y");
    vocabulary_close(&subject);
}
END_TEST

START_TEST(marks_are_what_the_file_asks_for)
{
    const int32_t end = VOCABULARY_FIRST_MERGE + (int32_t)vocabulary_n_merges;
    const char *const both[] = {ADD_BEGIN, ADD_END, NULL}, *const none[] = {NULL};
    const struct {
        const char *path;
        const char *const *keys;
        bool value;
        int32_t begin, end;
    } files[] = {
        {vocabulary_bpe("gpt-2"), none, false, -1, -1},
        {vocabulary_bpe("gpt-2"), both, true, end, end},
        {vocabulary_bpe("llama-bpe"), none, false, end, -1},
        {vocabulary_bpe("llama-bpe"), both, false, -1, -1},
        {vocabulary_sentencepiece(1), none, false, 1, -1},
        {vocabulary_sentencepiece(1), both, true, 1, 2},
        {vocabulary_bytes(), none, false, -1, -1},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct vocabulary_file subject = open_with(files[i].path, files[i].keys, files[i].value);
        ck_assert_int_eq(locus_tokenizer_begin(subject.tokenizer), files[i].begin);
        ck_assert_int_eq(locus_tokenizer_end(subject.tokenizer), files[i].end);
        vocabulary_close(&subject);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("added");
    TCase *tests = tcase_create("added");
    tcase_add_test(tests, blanks_and_words_beside_added_tokens);
    tcase_add_test(tests, characters_of_all_planes_make_words);
    tcase_add_test(tests, tokens_that_are_not_parsed_take_no_blanks);
    tcase_add_test(tests, space_that_was_put_is_dropped_again);
    tcase_add_test(tests, words_are_taken_whole_if_the_file_says_so);
    tcase_add_test(tests, sentencepiece_prefix_stands_before_user_defined_tokens);
    tcase_add_test(tests, sentencepiece_prefix_stands_after_control_tokens);
    tcase_add_test(tests, texts_begin_and_end_once);
    tcase_add_test(tests, first_byte_is_no_mark);
    tcase_add_test(tests, marks_are_what_the_file_asks_for);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
