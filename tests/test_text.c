/* What a terminal is shown of strings that files and people give. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "testing.h"

/* The bytes of U+0000 to U+FFFF but the surrogates. */
static size_t put_character(char text[4], unsigned code)
{
    if (code < 0x80) return (size_t)snprintf(text, 4, "%c", (char)code);
    if (code < 0x800)
        return (size_t)snprintf(text, 4, "%c%c", (char)(0xC0 | code >> 6),
                                (char)(0x80 | (code & 0x3F)));
    return (size_t)snprintf(text, 4, "%c%c%c", (char)(0xE0 | code >> 12),
                            (char)(0x80 | (code >> 6 & 0x3F)), (char)(0x80 | (code & 0x3F)));
}

static bool within(unsigned code, unsigned first, unsigned last)
{
    return code >= first && code <= last;
}

START_TEST(characters_that_do_more_than_stand_there_are_not_shown)
{
    for (unsigned code = 0; code < 0x10000; code++) {
        if (within(code, 0xD800, 0xDFFF)) continue;
        char text[4];
        const size_t length = put_character(text, code);
        const bool hidden = code < 0x20 || within(code, 0x7F, 0x9F) ||
                            within(code, 0x2028, 0x202E) || within(code, 0x2066, 0x2069);
        ck_assert_msg(locus_text_character(text, length) == (hidden ? 0 : length), "U+%04X", code);
    }
    ck_assert_uint_eq(locus_text_character("\xF0\x9F\x98\x80", 4), 4);
    ck_assert_uint_eq(locus_text_character("\xF0\x9F\x98\x80", 3), 0); /* cut off */
    ck_assert_uint_eq(locus_text_character("\x9B[2J", 4), 0); /* CSI of an 8-bit terminal */
    ck_assert_uint_eq(locus_text_character("", 0), 0);
}
END_TEST

static const struct {
    const char *text, *tame, *escaped;
} cases[] = {
    {"", "", ""},
    {"plain text", "plain text", "plain text"},
    {"caf\xC3\xA9 \xE4\xBD\x8D", "caf\xC3\xA9 \xE4\xBD\x8D", "caf\xC3\xA9 \xE4\xBD\x8D"},
    {"a\n\033[31m\x7F", "a??[31m?", "a\\n\\x1b[31m\\x7f"},
    {"\t\r\\", "??\\", "\\t\\r\\\\"},
    {"x\xC2\x9B"
     "2J",
     "x?2J", "x\\xc2\\x9b2J"},
    {"\xE2\x80\xAEgpj.\xE2\x81\xA9", "?gpj.?", "\\xe2\\x80\\xaegpj.\\xe2\\x81\\xa9"},
    {"\xFF\x9B\xE4\xBD.", "????.", "\\xff\\x9b\\xe4\\xbd."},
};

START_TEST(a_text_is_tamed_to_one_line)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        struct locus_buffer out = {0};
        snprintf(text, sizeof text, "%s", cases[i].text);
        locus_text_tame(text);
        ck_assert_str_eq(text, cases[i].tame);
        locus_buffer_append(&out, "\n", 1); /* what is there stays as it is */
        locus_text_append(&out, cases[i].text);
        ck_assert_str_eq(out.bytes + 1, cases[i].tame);
        ck_assert_uint_eq(out.length, 1 + strlen(cases[i].tame));
        ck_assert_int_eq(out.bytes[0], '\n');
        locus_buffer_free(&out);
    }
}
END_TEST

START_TEST(a_text_is_escaped_without_loss)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct locus_buffer out = {0};
        locus_text_escape(&out, cases[i].text, strlen(cases[i].text));
        ck_assert_str_eq(out.bytes ? out.bytes : "", cases[i].escaped);
        locus_buffer_free(&out);
    }
    struct locus_buffer out = {0};
    locus_text_escape(&out, "a\0b", 3);
    ck_assert_str_eq(out.bytes, "a\\x00b");
    locus_buffer_free(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tests = tcase_create("text");
    tcase_add_test(tests, characters_that_do_more_than_stand_there_are_not_shown);
    tcase_add_test(tests, a_text_is_tamed_to_one_line);
    tcase_add_test(tests, a_text_is_escaped_without_loss);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
