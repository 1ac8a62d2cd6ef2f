/* New text on its way out: what is held back, and for how long. */
#include "cli/kit/stream.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testing.h"

/* Puts a file in the place of a descriptor; returns what was there. */
static int redirect(int descriptor, const char *path)
{
    int saved = dup(descriptor), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(saved, 0);
    ck_assert_msg(file >= 0, "can't open %s", path);
    dup2(file, descriptor);
    close(file);
    return saved;
}

static void restore(int descriptor, int saved)
{
    dup2(saved, descriptor);
    close(saved);
}

/* What has been written after each piece; a piece that begins with '!' is not shown. */
static const struct streamed {
    const char *stops[3];
    struct {
        const char *piece, *written;
    } steps[6];
    const char *whole;
} streams[] = {
    {{NULL}, {{"a", "a"}, {"!<t>", "a"}, {"b", "ab"}}, "ab"},
    {{NULL}, {{"\xE2\x82", ""}, {"!<t>", ""}, {"\xAC.", "\xE2\x82\xAC."}}, "\xE2\x82\xAC."},
    {{NULL}, {{"a\xC3", "a"}}, "a\xC3"},
    {{"abc"}, {{"xa", "x"}, {"b", "x"}, {"d", "xabd"}}, "xabd"},
    {{"abc"}, {{"xab", "x"}, {"cd", "x"}, {"e", "x"}}, "x"},
    {{"aab"}, {{"a", ""}, {"a", ""}, {"a", "a"}, {"b", "a"}}, "a"},
    {{"b<t>"}, {{"ab", "a"}, {"!<t>", "a"}}, "a"},
    {{"b<t>"}, {{"ab", "a"}, {"!<u>", "a"}, {"!<t>", "a"}, {".", "ab."}}, "ab."},
    {{"<t>"}, {{"a<", "a"}, {"t", "a"}, {">", "a"}}, "a"},
    {{"<t>"}, {{"a<", "a"}, {"!t>", "a"}}, "a"},
    {{"<t>"}, {{"a", "a"}, {"!<t>x", "a"}, {"b", "ab"}}, "ab"},
    {{"ab", "b<t>c"}, {{"b", ""}, {"!<t>", ""}, {"a", "b"}, {"!<t>", "b"}, {"b", "b"}}, "b"},
    {{"\xAC"}, {{"\xE2\x82", ""}, {"\xAC", ""}}, "\xE2\x82"}, /* a stop may part a character */
};

START_TEST(stream_holds_back_what_may_become_a_stop_text)
{
    const struct streamed *streamed = &streams[_i];
    struct locus_texts stops = {.items = (const char **)streamed->stops};
    while (streamed->stops[stops.n_items])
        stops.n_items++;
    struct locus_stream stream = {.stops = &stops};
    const char *out = testing_temporary("out");
    int status = 0, saved = redirect(1, out);
    for (int i = 0; i < 6 && streamed->steps[i].piece; i++) {
        const char *piece = streamed->steps[i].piece;
        const bool shown = *piece != '!';
        bool added =
            locus_stream_add(&stream, piece + !shown, strlen(piece) - !shown, shown, &status);
        char *written = testing_read(out, NULL);
        ck_assert(added);
        ck_assert_msg(!strcmp(written, streamed->steps[i].written), "step %d: \"%s\"", i, written);
        free(written);
    }
    bool ended = locus_stream_end(&stream, &status);
    restore(1, saved);
    char *written = testing_read(out, NULL);
    ck_assert(ended && status == 0);
    ck_assert_str_eq(written, streamed->whole);
    ck_assert_uint_eq(stream.text.length, strlen(streamed->whole));
    free(written);
    locus_stream_free(&stream);
}
END_TEST

/* A model may say special tokens for ever: none is kept. */
START_TEST(stream_keeps_nothing_of_what_is_not_shown)
{
    const char *items[] = {"ab", "<u>"};
    const struct locus_texts stops = {items, 2};
    struct locus_stream stream = {.stops = &stops, .silent = true};
    int status = 0;
    for (int i = 0; i < 100; i++) {
        ck_assert(locus_stream_add(&stream, "<t>", 3, false, &status));
        ck_assert_uint_eq(stream.held.length, 0);
    }
    ck_assert(locus_stream_end(&stream, &status));
    ck_assert_uint_eq(stream.text.length, 0);
    locus_stream_free(&stream);
}
END_TEST

START_TEST(stream_that_failed_says_so_once)
{
    const struct locus_texts none = {0};
    struct locus_stream stream = {.stops = &none, .text = {.failed = true}};
    const char *err = testing_temporary("err");
    int status = 0, later = 7, saved = redirect(2, err);
    bool added = locus_stream_add(&stream, "a", 1, true, &status);
    bool again = locus_stream_add(&stream, "b", 1, true, &later);
    bool ended = locus_stream_end(&stream, &later);
    restore(2, saved);
    char *said = testing_read(err, NULL);
    ck_assert_str_eq(said, "locus: error: out of memory for the text\n");
    ck_assert(!added && !again && !ended);
    ck_assert_int_eq(status, 1);
    ck_assert_int_eq(later, 7);
    free(said);
    locus_stream_free(&stream);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream");
    TCase *tests = tcase_create("stream");
    tcase_add_loop_test(tests, stream_holds_back_what_may_become_a_stop_text, 0,
                        sizeof streams / sizeof *streams);
    tcase_add_test(tests, stream_keeps_nothing_of_what_is_not_shown);
    tcase_add_test(tests, stream_that_failed_says_so_once);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
