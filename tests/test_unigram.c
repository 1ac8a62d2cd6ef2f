/* Unigram against the plainest search for the best pieces; what keys say of spaces; texts made to
 * be slow.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "testing.h"
#include "tokenizer/tokenizer.h"
#include "variant.h"
#include "vocabularies.h"

enum { UNKNOWN_ID = 0, FIRST_BYTE = 3, MOST = 64 };

static uint64_t random_state = 1;

static unsigned draw(unsigned n)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(random_state >> 33) % n;
}

/* ---- the best pieces ----------------------------------------------------------------------- */

/* The piece of these bytes, or -1. */
static int find_piece(const char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < vocabulary_n_pieces; i++)
        if (strlen(vocabulary_pieces[i].text) == n_bytes &&
            !memcmp(vocabulary_pieces[i].text, bytes, n_bytes))
            return (int)i;
    return -1;
}

/* The ids of a text, of which unknown[end] is set where a character without a piece ends. */
static size_t naive(const char *text, size_t n_bytes, int bytes, int32_t *ids)
{
    double best[MOST + 1] = {0};
    size_t from[MOST + 1] = {0}, ends[MOST], n_ends = 0, n = 0;
    for (size_t end = 1; end <= n_bytes; end++) {
        bool reached = false;
        for (size_t start = 0; start < end; start++) {
            bool whole = locus_utf8_character(text + start, n_bytes - start) == end - start;
            int piece = find_piece(text + start, end - start);
            if ((start > 0 && from[start] == SIZE_MAX) || (piece < 0 && !whole)) continue;
            double score = best[start] + (piece < 0 ? -30 - 10 : vocabulary_pieces[piece].score);
            if (reached && score <= best[end]) continue;
            best[end] = score;
            from[end] = start;
            reached = true;
        }
        if (!reached) from[end] = SIZE_MAX;
    }
    for (size_t end = n_bytes; end > 0; end = from[end])
        ends[n_ends++] = end;
    bool unknown = false;
    for (size_t start = 0; n_ends-- > 0; start = ends[n_ends]) {
        int piece = find_piece(text + start, ends[n_ends] - start);
        int32_t first = FIRST_BYTE + (bytes ? 256 : 0);
        for (size_t i = start; piece < 0 && bytes && i < ends[n_ends]; i++)
            ids[n++] = FIRST_BYTE + (unsigned char)text[i];
        if (piece < 0 && !bytes && !unknown) ids[n++] = UNKNOWN_ID;
        if (piece >= 0) ids[n++] = first + piece;
        unknown = piece < 0;
    }
    return n;
}

START_TEST(pieces_are_those_of_the_largest_sum)
{
    static const char *const bits[] = {"a",  "b",  "c",      "aab",          "caab", " ",
                                       "ab", "x",  "\u00E9", "\u20AC\u20AC", "\n",   " abc",
                                       "yz", "  ", "1",      "\U0001F600"};
    const int bytes = _i;
    struct vocabulary_file subject = vocabulary_open(vocabulary_unigram(bytes));
    for (int round = 0; round < 3000; round++) {
        char text[MOST] = "";
        for (unsigned n = 1 + draw(12); n > 0; n--)
            strcat(text, bits[draw(sizeof bits / sizeof *bits)]);
        int32_t wanted[4 * MOST], *tokens;
        size_t n_wanted = naive(text, strlen(text), bytes, wanted), n;
        ck_assert(!locus_encode(subject.tokenizer, text, strlen(text), 0, &tokens, &n, NULL));
        ck_assert_msg(n == n_wanted && !memcmp(tokens, wanted, n * sizeof *tokens),
                      "'%s' has other pieces", text);
        free(tokens);
    }
    vocabulary_close(&subject);
}
END_TEST

START_TEST(any_bytes_come_back)
{
    struct vocabulary_file subject = vocabulary_open(vocabulary_unigram(1));
    for (int round = 0; round < 2000; round++) {
        char text[24];
        size_t n_bytes = draw(sizeof text), n, at = 0, length;
        int32_t *tokens;
        for (size_t i = 0; i < n_bytes; i++)
            text[i] = draw(2) ? (char)draw(256) : " abc\xE2\x82\xAC"[draw(7)];
        ck_assert(!locus_encode(subject.tokenizer, text, n_bytes, 0, &tokens, &n, NULL));
        for (size_t i = 0; i < n; i++, at += length) {
            const char *piece =
                locus_token_piece(subject.tokenizer, i ? tokens[i - 1] : -1, tokens[i], 0, &length);
            /* A U+2581 is a space here, as everywhere but for BPE by scores. */
            ck_assert(length <= n_bytes - at && !memcmp(piece, text + at, length));
        }
        ck_assert_uint_eq(at, n_bytes);
        free(tokens);
    }
    vocabulary_close(&subject);
}
END_TEST

START_TEST(monotonous_texts_are_not_slow)
{
    enum { N = 400000 };
    static const char *const bits[] = {"a", " ", "ab", "x", "\xFF", "caab", "\xE2\x96\x81"};
    struct vocabulary_file subject = vocabulary_open(vocabulary_unigram(_i));
    char *text = malloc(N);
    ck_assert_ptr_nonnull(text);
    for (size_t b = 0; b < sizeof bits / sizeof *bits; b++) {
        int32_t *tokens;
        size_t n, length = strlen(bits[b]);
        for (size_t i = 0; i < N; i++)
            text[i] = bits[b][i % length];
        ck_assert(!locus_encode(subject.tokenizer, text, N, 0, &tokens, &n, NULL));
        ck_assert_uint_gt(n, 0);
        free(tokens);
    }
    free(text);
    vocabulary_close(&subject);
}
END_TEST

/* ---- spaces -------------------------------------------------------------------------------- */

#define ADD_SPACE "tokenizer.ggml.add_space_prefix"
#define SQUEEZE "tokenizer.ggml.remove_extra_whitespaces"
#define PREFIX "locus.tokenizer.prefix"
#define SPLIT "locus.tokenizer.split"

/* Where every piece is worth the same, the fewest are best. What keys make of texts then: the
 * pieces with dots between, and the text they come back as. "<s>" and
 * "<sep>" are tokens. */
static const struct {
    const char *flags[2], *prefix, *normalizer[5], *text, *pieces, *back;
} spaces[] = {
    {{NULL}, NULL, {NULL}, "ab", "ab", "ab"},
    {{NULL}, NULL, {NULL}, "", "", ""},
    {{NULL}, NULL, {NULL}, " ab  ab ", " ab· · ab· ", " ab  ab "},
    {{ADD_SPACE}, NULL, {NULL}, "ab", " ab", "ab"},
    {{ADD_SPACE}, NULL, {NULL}, " ab", " · ab", " ab"},
    {{ADD_SPACE}, NULL, {NULL}, "ab<sep>ab", " ab·<sep>· ab", "ab<sep>ab"},
    {{SQUEEZE}, NULL, {NULL}, "  ab   ab ", "ab· ab", "ab ab"},
    {{SQUEEZE, ADD_SPACE}, NULL, {NULL}, "  ab   ab ", " ab· ab", "ab ab"},
    {{NULL}, "none", {NULL}, "ab<sep>ab", "ab·<sep>·ab", "ab<sep>ab"},
    {{NULL}, "first", {NULL}, "ab<sep>ab", " ab·<sep>·ab", "ab<sep>ab"},
    {{NULL}, "first", {NULL}, "<sep>ab", "<sep>·ab", "<sep>ab"},
    {{NULL}, "first", {NULL}, " ab", " ab", "ab"},
    {{NULL}, "each", {NULL}, "ab<sep>ab</s> ab", " ab·<sep>· ab·</s>· ab", "ab<sep> ab</s> ab"},
    {{NULL}, "each", {NULL}, "\u2581ab", " ab", "ab"},
    {{NULL}, NULL, {"prepend", " "}, "ab<sep>ab", " ab·<sep>· ab", "ab<sep>ab"},
    {{NULL}, NULL, {"words"}, " ab\n ab ", " ab· ab", "ab ab"},
    {{NULL}, "each", {"squeeze", " ", " "}, "ab    ab", " ab· ab", "ab ab"},
    {{NULL}, "each", {NULL}, "aaaa    a", " ·aaaa·    ·a", "aaaa    a"},
    {{SPLIT}, "each", {NULL}, "aaaa    a", " ·aaaa· · · · a", "aaaa    a"},
    {{SPLIT}, NULL, {NULL}, "x yx  y", "x· ·yx· · ·y", "x yx  y"},
};

static struct vocabulary_file open_spaces(int i)
{
    struct variant *variant = variant_begin(vocabulary_unigram(1));
    size_t lengths[5], n = 0;
    enum { N_TOKENS = FIRST_BYTE + 256 + 25 };
    float scores[N_TOKENS];
    for (int id = 0; id < N_TOKENS; id++)
        scores[id] = -1;
    variant_drop(variant, "tokenizer.ggml.scores");
    locus_writer_f32s(variant_writer(variant), "tokenizer.ggml.scores", scores, N_TOKENS);
    for (int f = 0; f < 2 && spaces[i].flags[f]; f++)
        locus_writer_bool(variant_writer(variant), spaces[i].flags[f], true);
    for (; spaces[i].normalizer[n]; n++)
        lengths[n] = strlen(spaces[i].normalizer[n]);
    if (n > 0)
        locus_writer_strings(variant_writer(variant), "locus.tokenizer.normalizer",
                             spaces[i].normalizer, lengths, n);
    if (spaces[i].prefix)
        locus_writer_string(variant_writer(variant), PREFIX, spaces[i].prefix,
                            strlen(spaces[i].prefix));
    return vocabulary_open(variant_finish(variant));
}

START_TEST(keys_say_where_spaces_are_put)
{
    struct vocabulary_file subject = open_spaces(_i);
    struct locus_buffer pieces = {0}, back = {0};
    int32_t *tokens;
    size_t n, n_bytes;
    bool known = true; /* of what has no piece, bytes are not shown one by one */
    const char *text = spaces[_i].text;
    ck_assert(!locus_encode(subject.tokenizer, text, strlen(text), LOCUS_TEXT_SPECIAL, &tokens, &n,
                            NULL));
    locus_buffer_append(&pieces, "", 0);
    locus_buffer_append(&back, "", 0);
    for (size_t i = 0; i < n; i++) {
        const char *piece =
            locus_token_piece(subject.tokenizer, 'a', tokens[i], LOCUS_TEXT_SPECIAL, &n_bytes);
        bool byte = tokens[i] >= FIRST_BYTE && tokens[i] < FIRST_BYTE + 256;
        if (i && (known || !byte)) locus_buffer_append(&pieces, "·", 2);
        locus_buffer_append(&pieces, piece, n_bytes);
        known = !byte;
        piece = locus_token_piece(subject.tokenizer, i ? tokens[i - 1] : -1, tokens[i],
                                  LOCUS_TEXT_SPECIAL, &n_bytes);
        locus_buffer_append(&back, piece, n_bytes);
    }
    ck_assert_str_eq(pieces.bytes, spaces[_i].pieces);
    ck_assert_str_eq(back.bytes, spaces[_i].back);
    locus_buffer_free(&pieces);
    locus_buffer_free(&back);
    free(tokens);
    vocabulary_close(&subject);
}
END_TEST

/* A text ends with end-of-text unless the file says otherwise, and doesn't begin with a token. */
START_TEST(texts_end_with_end_of_text)
{
    struct vocabulary_file subject = vocabulary_open(vocabulary_unigram(1));
    ck_assert_int_eq(locus_tokenizer_begin(subject.tokenizer), -1);
    ck_assert_int_eq(locus_tokenizer_end(subject.tokenizer), 2);
    vocabulary_close(&subject);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unigram");
    TCase *tests = tcase_create("unigram");
    tcase_add_loop_test(tests, pieces_are_those_of_the_largest_sum, 0, 2);
    tcase_add_test(tests, any_bytes_come_back);
    tcase_add_loop_test(tests, monotonous_texts_are_not_slow, 0, 2);
    tcase_add_loop_test(tests, keys_say_where_spaces_are_put, 0, sizeof spaces / sizeof *spaces);
    tcase_add_test(tests, texts_end_with_end_of_text);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
