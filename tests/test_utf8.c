/* UTF-8: what is whole, held back or hopeless, against the list of all characters. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "locus.h"
#include "testing.h"

/* The character's bytes, by RFC 3629's table. */
static int put_character(unsigned char bytes[4], uint32_t code)
{
    if (code < 0x80) {
        bytes[0] = (unsigned char)code;
        return 1;
    }
    int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code >>= 6)
        bytes[i] = (unsigned char)(0x80 | (code & 0x3F));
    bytes[0] = (unsigned char)(code | (length == 2 ? 0xC0U : length == 3 ? 0xE0U : 0xF0U));
    return length;
}

enum { CUT = 1, WHOLE = 2 };

/* What each sequence of 1, 2 and 3 bytes is, most significant first: kinds[n][bytes]. */
static unsigned char *kinds[4];

static void list_characters(void)
{
    for (int n = 1; n < 4; n++) {
        kinds[n] = calloc((size_t)1 << 8 * n, 1);
        ck_assert_ptr_nonnull(kinds[n]);
    }
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        if (code >= 0xD800 && code <= 0xDFFF) continue; /* surrogates are no characters */
        unsigned char bytes[4];
        int length = put_character(bytes, code);
        uint32_t number = 0;
        for (int n = 1; n < 4 && n <= length; n++) {
            number = number << 8 | bytes[n - 1];
            kinds[n][number] = n < length ? CUT : WHOLE;
        }
        ck_assert_int_eq(locus_utf8_scan((const char *)bytes, (size_t)length), length);
        ck_assert_uint_eq(locus_utf8_code((const char *)bytes, length), code);
    }
}

/* The bytes at the end, 0 to 3, that are the beginning of a character. */
static size_t held_back(const unsigned char *bytes, int n)
{
    for (int back = 1; back <= 3 && back <= n; back++) {
        uint32_t number = 0;
        for (int i = n - back; i < n; i++)
            number = number << 8 | bytes[i];
        if (kinds[back][number] == CUT) return (size_t)back;
    }
    return 0;
}

START_TEST(only_the_beginning_of_a_character_is_held_back)
{
    list_characters();
    for (int n = 1; n < 4; n++)
        for (uint32_t number = 0; number < 1U << 8 * n; number++) {
            unsigned char bytes[3];
            for (int i = 0; i < n; i++)
                bytes[i] = (unsigned char)(number >> 8 * (n - 1 - i));
            size_t whole = locus_utf8_whole((const char *)bytes, (size_t)n);
            if (whole != (size_t)n - held_back(bytes, n))
                ck_abort_msg("%zu of the %d bytes %06x are whole", whole, n, number);
            int length = locus_utf8_scan((const char *)bytes, (size_t)n);
            if ((length == -n) != (kinds[n][number] == CUT) ||
                (length == n) != (kinds[n][number] == WHOLE))
                ck_abort_msg("the %d bytes %06x are %d", n, number, length);
        }
    for (int n = 1; n < 4; n++)
        free(kinds[n]);
}
END_TEST

START_TEST(nothing_is_held_back_of_whole_text_or_none)
{
    ck_assert_uint_eq(locus_utf8_whole("", 0), 0);
    ck_assert_uint_eq(locus_utf8_whole("a\xF0\x9F\x98\x80", 5), 5);
    ck_assert_uint_eq(locus_utf8_whole("a\xF0\x9F\x98", 4), 1);
    ck_assert_uint_eq(locus_utf8_whole("\x80\x80\x80\x80", 4), 4);
    ck_assert_uint_eq(locus_utf8_whole("\xF0\x9F\x98\x80\xE2\x82", 6), 4);
    ck_assert_uint_eq(locus_utf8_whole("a\0\xC3", 3), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("utf8");
    TCase *tests = tcase_create("utf8");
    tcase_add_test(tests, only_the_beginning_of_a_character_is_held_back);
    tcase_add_test(tests, nothing_is_held_back_of_whole_text_or_none);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
