/* Trees of strings against strings compared one by one; strings made to be slow. */
#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "tokenizer/trie.h"

static uint64_t random_state = 1;

static unsigned draw(unsigned n)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(random_state >> 33) % n;
}

enum { N_PIECES = 40, LONGEST = 6, TEXT = 60 };

struct strings {
    char bytes[N_PIECES][LONGEST];
    struct locus_piece pieces[N_PIECES], sorted[N_PIECES];
    size_t n;
};

static void draw_bytes(char *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = " ab\xFF"[draw(4)];
}

static void draw_strings(struct strings *strings)
{
    strings->n = draw(N_PIECES + 1);
    for (size_t i = 0; i < strings->n; i++) {
        size_t length = 1 + draw(LONGEST);
        draw_bytes(strings->bytes[i], length);
        strings->pieces[i] = (struct locus_piece){strings->bytes[i], length, (int32_t)i};
    }
    memcpy(strings->sorted, strings->pieces, sizeof strings->pieces);
}

/* The first of the strings of that length that text[0, n_bytes) begins with, or -1. */
static int32_t naive(const struct strings *strings, size_t length, const char *text, size_t n_bytes)
{
    for (size_t i = 0; i < strings->n && length <= n_bytes; i++)
        if (strings->pieces[i].n_bytes == length && !memcmp(strings->bytes[i], text, length))
            return (int32_t)i;
    return -1;
}

START_TEST(walks_find_every_string_that_a_text_begins_with)
{
    for (int round = 0; round < 300; round++) {
        struct strings strings;
        struct locus_trie trie;
        char text[TEXT];
        draw_strings(&strings);
        draw_bytes(text, TEXT);
        ck_assert_int_eq(locus_trie_create(&trie, strings.sorted, strings.n, false, NULL),
                         LOCUS_OK);
        ck_assert_ptr_null(trie.links);
        for (size_t at = 0; at < TEXT; at++) {
            int32_t node = 0;
            for (size_t length = 1; length <= LONGEST && length <= TEXT - at; length++) {
                if (node >= 0)
                    node = locus_trie_child(&trie, node, (unsigned char)text[at + length - 1]);
                ck_assert_int_eq(node >= 0 ? trie.nodes[node].id : -1,
                                 naive(&strings, length, text + at, TEXT - at));
            }
        }
        locus_trie_free(&trie);
    }
}
END_TEST

/* What a state says begins at text[at], or would if that byte were a space. */
static void check_longest(const struct locus_trie *trie, const struct strings *strings,
                          const char *text, size_t n_bytes, int32_t state)
{
    int32_t node = trie->links[state].longest, id = -1;
    size_t length = LONGEST;
    while (length > 0 && (id = naive(strings, length, text, n_bytes)) < 0)
        length--;
    ck_assert_int_eq(node >= 0 ? trie->nodes[node].id : -1, id);
    ck_assert_int_eq(node >= 0 ? trie->links[node].depth : 0, (int)length);
}

START_TEST(scans_find_the_longest_string_at_every_place)
{
    for (int round = 0; round < 300; round++) {
        struct strings strings;
        struct locus_trie trie;
        char text[TEXT];
        int32_t states[TEXT + 1];
        draw_strings(&strings);
        draw_bytes(text, TEXT);
        ck_assert_int_eq(locus_trie_create(&trie, strings.sorted, strings.n, true, NULL), LOCUS_OK);
        locus_trie_scan(&trie, text, TEXT, states);
        for (size_t at = 0; at < TEXT; at++)
            check_longest(&trie, &strings, text + at, TEXT - at, states[at]);
        for (size_t at = 0; at < TEXT; at++) {
            char byte = text[at];
            text[at] = ' ';
            check_longest(&trie, &strings, text + at, TEXT - at, trie.links[states[at + 1]].space);
            text[at] = byte;
        }
        locus_trie_free(&trie);
    }
}
END_TEST

/* At every place of the text, nearly all of a string of 100,000 bytes begins. */
START_TEST(scans_of_beginnings_are_not_slow)
{
    enum { PIECE = 100000, N = 2000000 };
    char *piece = malloc(PIECE), *text = malloc(N);
    int32_t *states = malloc((N + 1) * sizeof *states);
    ck_assert(piece && text && states);
    memset(piece, 'a', PIECE);
    memset(text, 'a', N);
    piece[PIECE - 1] = 'b';
    struct locus_piece pieces[] = {{piece, PIECE, 0}, {"aa", 2, 1}};
    struct locus_trie trie;
    ck_assert_int_eq(locus_trie_create(&trie, pieces, 2, true, NULL), LOCUS_OK);
    locus_trie_scan(&trie, text, N, states);
    size_t n_found = 0;
    for (size_t i = 0; i + 1 < N; i++)
        n_found += trie.nodes[trie.links[states[i]].longest].id == 1;
    ck_assert_uint_eq(n_found, N - 1);
    ck_assert_int_eq(trie.links[states[N - 1]].longest, -1);
    locus_trie_free(&trie);
    free(piece);
    free(text);
    free(states);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trie");
    TCase *tests = tcase_create("trie");
    tcase_add_test(tests, walks_find_every_string_that_a_text_begins_with);
    tcase_add_test(tests, scans_find_the_longest_string_at_every_place);
    tcase_add_test(tests, scans_of_beginnings_are_not_slow);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
