/* Normalizers: each step, Unicode's normal forms, tables of characters that are no tables. */
#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "tokenizer/normalizer.h"
#include "variant.h"
#include "vocabularies.h"

#define KEY "locus.tokenizer.normalizer"
#define CHARSMAP "tokenizer.ggml.precompiled_charsmap"

enum { MOST = 8 };

static void put_steps(struct variant *variant, const char *const *steps)
{
    size_t lengths[MOST], n = 0;
    for (; n < MOST && steps[n]; n++)
        lengths[n] = strlen(steps[n]);
    locus_writer_strings(variant_writer(variant), KEY, steps, lengths, n);
}

/* A table of two entries, "a" for "bc" and "ab" for nothing, as SentencePiece compiles one. */
enum { N_UNITS = 512, TABLE = 4 + 4 * N_UNITS + 4 };

static void put_unit(int32_t *table, uint32_t index, uint32_t unit)
{
    for (uint32_t i = 0; i < 4; i++)
        table[4 + 4 * index + i] = (int32_t)(unit >> 8 * i & 0xFF);
}

static void fill_table(int32_t *table)
{
    memset(table, 0, TABLE * sizeof *table);
    table[1] = 4 * N_UNITS >> 8;
    put_unit(table, 0, 256u << 10);                       /* children at 256 ^ byte */
    put_unit(table, 256 ^ 'a', 'a' | 1u << 8 | 1u << 10); /* at 352 ^ byte; its value at 352 */
    put_unit(table, 352, 1u << 31 | 0);
    put_unit(table, 352 ^ 'b', 'b' | 1u << 8 | 4u << 10); /* its value at 258 ^ 4 */
    put_unit(table, (352 ^ 'b') ^ 4, 1u << 31 | 2);
    table[TABLE - 4] = 'b', table[TABLE - 3] = 'c';
}

static struct locus_checkpoint *open_with(const char *const *steps, const int32_t *table,
                                          size_t n_table)
{
    struct variant *variant = variant_begin(vocabulary_sentencepiece(1));
    put_steps(variant, steps);
    if (table) locus_writer_i32s(variant_writer(variant), CHARSMAP, table, n_table);
    locus_error error = {0};
    struct locus_checkpoint *checkpoint = locus_checkpoint_open(variant_finish(variant), &error);
    ck_assert_msg(checkpoint != NULL, "%s", error.message);
    return checkpoint;
}

static void check(const char *const *steps, const char *text, const char *wanted)
{
    int32_t table[TABLE];
    fill_table(table);
    struct locus_checkpoint *checkpoint = open_with(steps, table, TABLE);
    struct locus_normalizer *normalizer;
    struct locus_buffer out = {0};
    locus_error error = {0};
    ck_assert_msg(!locus_normalizer_read(&normalizer, checkpoint, &error), "%s", error.message);
    ck_assert_int_eq(locus_normalizer_apply(normalizer, text, strlen(text), &out, &error),
                     LOCUS_OK);
    ck_assert_msg(!strcmp(out.bytes, wanted), "%s of '%s' is '%s', expected '%s'", steps[0], text,
                  out.bytes, wanted);
    locus_buffer_free(&out);
    locus_normalizer_free(normalizer);
    locus_checkpoint_free(checkpoint);
}

static const struct {
    const char *steps[MOST], *text, *wanted;
} cases[] = {
    {{"nfc"}, "", ""},
    {{"nfc"}, "plain", "plain"},
    {{"nfc"}, "e\u0301x", "\u00E9x"},
    {{"nfc"}, "a\u0302\u0323", "\u1EAD"},      /* the dot below comes first */
    {{"nfc"}, "\u1112\u1161\u11AB", "\uD55C"}, /* Hangul */
    {{"nfc"}, "\u0958", "\u0915\u093C"},       /* never composed */
    {{"nfc"}, "e\xFF\u0301", "e\xFF\u0301"},   /* nothing is joined across */
    {{"nfc"}, "\u0301e", "\u0301e"},
    {{"nfd"}, "\u00E9\uD55C", "e\u0301\u1112\u1161\u11AB"},
    {{"nfc"}, "\uFB01", "\uFB01"},
    {{"nfkc"}, "\uFB01\u00BD", "fi1\u20442"},
    {{"nfkd"}, "\u1E9B\u0323", "s\u0323\u0307"},
    {{"lowercase"}, "\u0130\u03A3A\xFF", "i\u0307\u03C3a\xFF"},
    {{"strip-accents"}, "e\u0301\u00E9\u20DD\u0903", "e\u00E9"},
    {{"strip-left"}, " \u3000\ta ", "a "},
    {{"strip-right"}, " a\u00A0\n \u2003", " a"},
    {{"strip-right"}, " \t", ""},
    {{"prepend", "xy"}, "a", "xya"},
    {{"prepend", "xy"}, "", ""},
    {{"replace", "aa", "b"}, "aaaaa aa", "bba b"},
    {{"replace", " ", "\u2581"}, " a  b", "\u2581a\u2581\u2581b"},
    {{"squeeze", " ", "\u2581"}, " a  b   c ", " a\u2581b\u2581c "},
    {{"words"}, " a\t b\u2581c \u2581d ", "\u2581a\u2581b\u2581c\u2581d"},
    {{"charsmap"}, "aabxa", "bcbcbxbc"},
    {{"charsmap"}, "a\u0301b", "bcb"}, /* a grapheme becomes what its beginning does */
    {{"bert-clean"}, "a\x01\t\u00A0\u200Bb\xFF", "a  b\xFF"},
    {{"bert-chinese"}, "a\u4E2D\u3042", "a \u4E2D \u3042"},
    {{"bert-accents"}, "\u00E9\u0903", "e\u0903"},
    {{"bert-words"}, " it's\n$5 \u00BFno", "it ' s $ 5 \u00BF no "},
    {{"nfd", "strip-accents", "replace", "e", "E"}, "\u00E9t\u00E9", "EtE"},
};

START_TEST(steps_do_what_they_are_called)
{
    check(cases[_i].steps, cases[_i].text, cases[_i].wanted);
}
END_TEST

/* Marks by the million, each of a lesser class than the one before it. */
START_TEST(marks_without_end_are_not_slow)
{
    enum { N = 400000 };
    char *text = malloc(2 * N + 1);
    ck_assert_ptr_nonnull(text);
    for (int i = 0; i < N; i++) /* U+0345, U+0301, U+0323: 240, 230, 220 */
        memcpy(text + 2 * i, i < N / 3 ? "\u0345" : i < N / 2 ? "\u0301" : "\u0323", 2);
    struct locus_checkpoint *checkpoint = open_with((const char *[]){"nfd", NULL}, NULL, 0);
    struct locus_normalizer *normalizer;
    struct locus_buffer out = {0};
    ck_assert_int_eq(locus_normalizer_read(&normalizer, checkpoint, NULL), LOCUS_OK);
    ck_assert_int_eq(locus_normalizer_apply(normalizer, text, 2 * N, &out, NULL), LOCUS_OK);
    ck_assert_uint_eq(out.length, 2 * N);
    ck_assert(!memcmp(out.bytes, "\u0323\u0323", 4));
    ck_assert(!memcmp(out.bytes + 2 * N - 4, "\u0345\u0345", 4));
    locus_buffer_free(&out);
    locus_normalizer_free(normalizer);
    locus_checkpoint_free(checkpoint);
    free(text);
}
END_TEST

/* ---- refusals ------------------------------------------------------------------------------ */

static const struct {
    const char *steps[MOST], *says;
    size_t cut;    /* bytes that the table lacks */
    int at, value; /* a byte of it that is another, if value isn't 0 */
} refusals[] = {
    {{"nfx"}, "normalizer[0] is \"nfx\", no step that is known; the nearest is \"nfc\"", 0, 0, 0},
    {{"nfc", "replace", "a"}, "ends after \"replace\", expected 1 more", 0, 0, 0},
    {{"prepend"}, "ends after \"prepend\", expected 1 more", 0, 0, 0},
    {{"replace", "", "a"}, "normalizer[1] is empty", 0, 0, 0},
    {{"charsmap"}, "precompiled_charsmap is absent", TABLE, 0, 0},
    {{"charsmap"}, "has 3 bytes and a trie of 0", TABLE - 3, 0, 0},
    {{"charsmap"}, "a trie of 2048, expected a multiple of 4 that fits", 5, 0, 0},
    {{"charsmap"}, "a trie of 2049", 0, 0, 1},
    {{"charsmap"}, "doesn't end with the NUL", 4, 0, 0},
    {{"charsmap"}, "doesn't end with the NUL", 0, TABLE - 1, 'x'},
    {{"charsmap"}, "charsmap[9] is 256, expected a byte", 0, 9, 256},
};

START_TEST(refusals_name_what_was_found)
{
    int32_t table[TABLE];
    fill_table(table);
    if (refusals[_i].value) table[refusals[_i].at] = refusals[_i].value;
    size_t left = TABLE - refusals[_i].cut;
    struct locus_checkpoint *checkpoint = open_with(refusals[_i].steps, left ? table : NULL, left);
    struct locus_normalizer *normalizer;
    locus_error error = {0};
    ck_assert_int_ne(locus_normalizer_read(&normalizer, checkpoint, NULL), LOCUS_OK);
    ck_assert_int_ne(locus_normalizer_read(&normalizer, checkpoint, &error), LOCUS_OK);
    ck_assert_ptr_null(normalizer);
    ck_assert_msg(strstr(error.message, refusals[_i].says) != NULL, "%s", error.message);
    ck_assert_msg(strstr(error.message, "variant.gguf") != NULL, "%s", error.message);
    locus_checkpoint_free(checkpoint);
}
END_TEST

/* Whatever units a table holds, texts are read through it, and nothing outside. */
START_TEST(units_that_lead_nowhere_are_no_entries)
{
    static const char *const steps[] = {"charsmap", NULL};
    uint64_t state = 1;
    for (int round = 0; round < 200; round++) {
        int32_t table[TABLE];
        fill_table(table);
        for (int i = 0; i < 40; i++) {
            state = state * 6364136223846793005U + 1442695040888963407U;
            uint32_t index = state >> 33 & 1 ? (uint32_t)(state >> 40) % N_UNITS : 256 ^ 'a';
            put_unit(table, i ? index : 0, (uint32_t)(state >> 13));
        }
        struct locus_checkpoint *checkpoint = open_with(steps, table, TABLE);
        struct locus_normalizer *normalizer;
        struct locus_buffer out = {0};
        ck_assert_int_eq(locus_normalizer_read(&normalizer, checkpoint, NULL), LOCUS_OK);
        for (int byte = 0; byte < 256; byte++) {
            char text[] = {(char)byte, 'a', 'b', 'a', (char)byte};
            ck_assert(!locus_normalizer_apply(normalizer, text, sizeof text, &out, NULL));
        }
        locus_buffer_free(&out);
        locus_normalizer_free(normalizer);
        locus_checkpoint_free(checkpoint);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("normalizer");
    TCase *tests = tcase_create("normalizer");
    tcase_add_loop_test(tests, steps_do_what_they_are_called, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tests, marks_without_end_are_not_slow);
    tcase_add_loop_test(tests, refusals_name_what_was_found, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(tests, units_that_lead_nowhere_are_no_entries);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
