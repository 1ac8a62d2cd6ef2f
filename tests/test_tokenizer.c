/* Tokenizers: the published cases, vocabularies of our own against the slowest possible merging,
 * any bytes there and back, and texts made to be slow.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/words.h"
#include "variant.h"
#include "vocabularies.h"

/* ---- helpers ------------------------------------------------------------------------------- */

static int32_t *encode(const struct vocabulary_file *subject, const char *text, size_t n_bytes,
                       unsigned flags, size_t *n_tokens)
{
    locus_error error = {0};
    int32_t *tokens;
    enum locus_status status =
        locus_encode(subject->tokenizer, text, n_bytes, flags, &tokens, n_tokens, &error);
    ck_assert_msg(status == LOCUS_OK, "%s", error.message);
    ck_assert((tokens == NULL) == (*n_tokens == 0));
    return tokens;
}

/* The pieces of the text's tokens are the text; special ones are shown only if they were parsed. */
static void check_round_trip(const struct vocabulary_file *subject, const char *text,
                             size_t n_bytes)
{
    for (unsigned flags = 0; flags <= LOCUS_TEXT_SPECIAL; flags++) {
        size_t n_tokens, at = 0;
        int32_t *tokens = encode(subject, text, n_bytes, flags, &n_tokens);
        for (size_t i = 0; i < n_tokens; i++) {
            size_t length;
            const char *piece = locus_token_piece(subject->tokenizer, i ? tokens[i - 1] : -1,
                                                  tokens[i], flags, &length);
            ck_assert_msg(length <= n_bytes - at && !memcmp(piece, text + at, length),
                          "flags %u: token %zu of %zu, %d, differs at byte %zu", flags, i, n_tokens,
                          (int)tokens[i], at);
            at += length;
        }
        ck_assert_uint_eq(at, n_bytes);
        free(tokens);
    }
}

static uint64_t random_state;

static unsigned draw(unsigned n)
{
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(random_state >> 33) % n;
}

/* ---- published cases ----------------------------------------------------------------------- */

static const char *const published[] = {"gpt-2", "llama-spm"};

static void check_case(const struct vocabulary_file *subject, const char *text, size_t n_bytes,
                       const char *line)
{
    size_t n_tokens, n = 0;
    int32_t *tokens = encode(subject, text, n_bytes, 0, &n_tokens);
    char *end;
    for (;; line = end, n++) {
        long id = strtol(line, &end, 10);
        if (end == line) break;
        ck_assert_msg(n < n_tokens && tokens[n] == id, "token %zu of '%.*s' is %d, expected %ld", n,
                      (int)n_bytes, text, n < n_tokens ? (int)tokens[n] : -1, id);
    }
    ck_assert_uint_eq(n, n_tokens);
    free(tokens);
    check_round_trip(subject, text, n_bytes);
}

START_TEST(published_cases_pass)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    char name[64];
    snprintf(name, sizeof name, "ggml-vocab-%s.gguf", published[_i]);
    const char *path = testing_data(name);
    if (!path) return;
    struct vocabulary_file subject = vocabulary_open(path);
    snprintf(name, sizeof name, "ggml-vocab-%s.gguf.inp", published[_i]);
    char *texts = testing_read(testing_data(name), NULL);
    snprintf(name, sizeof name, "ggml-vocab-%s.gguf.out", published[_i]);
    char *ids = testing_read(testing_data(name), NULL), *rest = ids;
    int n = 0;
    for (char *text = texts, *end; (end = strstr(text, mark)); text = end + strlen(mark), n++) {
        char *line = strsep(&rest, "\n");
        ck_assert_ptr_nonnull(line);
        check_case(&subject, text, (size_t)(end - text), line);
    }
    ck_assert_int_gt(n, 40);
    ck_assert_str_eq(rest, "");
    free(texts);
    free(ids);
    vocabulary_close(&subject);
}
END_TEST

/* ---- any bytes ----------------------------------------------------------------------------- */

/* Bytes that are often the trouble, and any others. */
static size_t random_text(char *text, size_t most)
{
    static const char *const bits[] = {
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "a",
        "abc",
        "'s",
        "'LL",
        "1234",
        "\xC3\xA9",
        "\xE2\x96\x81",
        "\xC3",
        "\xE2\x82",
        "\xA9",
        "\xFF",
        "<s>",
        "</s>",
        "<unk>",
        "<think>",
        "<|endoftext|>",
        "hell",
        "ABc",
        "\xF0\x9F\x98\x80",
        "\xF0\x9F\x98",
        "\xED\xA0\x80",
        "\xC0\x80",
        "\xD9\xA3",
        "!?",
        "caab",
        "\xC2\xA0",
        "\xE3\x80\x80",
        "<0x41>",
    };
    size_t n_bytes = 0;
    for (unsigned n = draw(24); n > 0; n--) {
        if (draw(4) == 0) {
            text[n_bytes++] = (char)(unsigned char)draw(256);
            continue;
        }
        const char *bit = bits[draw(sizeof bits / sizeof *bits)];
        size_t length = strlen(bit);
        ck_assert_uint_le(n_bytes + length, most);
        memcpy(text + n_bytes, bit, length);
        n_bytes += length;
    }
    return n_bytes;
}

static void check_random_texts(const char *path, int n)
{
    struct vocabulary_file subject = vocabulary_open(path);
    char text[512];
    random_state = 1;
    for (int i = 0; i < n; i++) {
        size_t n_bytes = random_text(text, sizeof text);
        /* Of its own size, so that a sanitizer sees a read past its end. */
        char *copy = malloc(n_bytes ? n_bytes : 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, text, n_bytes);
        check_round_trip(&subject, copy, n_bytes);
        free(copy);
    }
    vocabulary_close(&subject);
}

static const char *const patterns[] = {NULL,           "gpt-2",          "starcoder",   "llama-bpe",
                                       "qwen2",        "qwen35",         "gpt-4o",      "tekken",
                                       "bloom",        "viking",         "falcon",      "default",
                                       "deepseek-llm", "deepseek-coder", "deepseek-v3", "nanochat"};
enum { N_PATTERNS = sizeof patterns / sizeof *patterns };

START_TEST(any_bytes_come_back_from_byte_level_bpe)
{
    check_random_texts(vocabulary_bpe(patterns[_i]), 1000);
}
END_TEST

START_TEST(any_bytes_come_back_from_sentencepiece)
{
    check_random_texts(vocabulary_sentencepiece(1), 3000);
}
END_TEST

START_TEST(any_bytes_come_back_from_bytes)
{
    check_random_texts(vocabulary_bytes(), 300);
}
END_TEST

START_TEST(any_bytes_come_back_from_published_vocabularies)
{
    char name[64];
    snprintf(name, sizeof name, "ggml-vocab-%s.gguf", published[_i]);
    const char *path = testing_data(name);
    if (path) check_random_texts(path, 2000);
}
END_TEST

START_TEST(every_single_byte_and_pair_comes_back)
{
    struct vocabulary_file subjects[] = {vocabulary_open(vocabulary_bpe(NULL)),
                                         vocabulary_open(vocabulary_sentencepiece(1)),
                                         vocabulary_open(vocabulary_bytes())};
    for (int s = 0; s < 3; s++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[2] = {(char)(unsigned char)byte, (char)(unsigned char)(byte * 7)};
            check_round_trip(&subjects[s], text, 1);
            check_round_trip(&subjects[s], text, 2);
        }
        check_round_trip(&subjects[s], "", 0);
        vocabulary_close(&subjects[s]);
    }
}
END_TEST

/* ---- the order of merges ------------------------------------------------------------------- */

/* Symbols of a text, merged by looking at all of it each time. */
struct symbols {
    char texts[66][64];
    int n;
};

static void merge_at(struct symbols *symbols, int at)
{
    size_t length = strlen(symbols->texts[at]);
    memmove(symbols->texts[at] + length, symbols->texts[at + 1], sizeof *symbols->texts - length);
    symbols->n--;
    memmove(symbols->texts[at + 1], symbols->texts[at + 2],
            (size_t)(symbols->n - at - 1) * sizeof *symbols->texts);
}

/* What says which pairs merge: vocabulary_merges; the scores of vocabulary_pieces; or which of
 * vocabulary_merges' tokens they make, whatever that was made of. */
enum order { BY_RULES, BY_SCORES, BY_IDS };

static bool best_merge(const struct symbols *symbols, int *at, enum order order)
{
    const bool scored = order == BY_SCORES;
    double best = 1e9;
    for (int i = 0; i + 1 < symbols->n; i++) {
        const char *left = symbols->texts[i], *right = symbols->texts[i + 1];
        char both[128];
        snprintf(both, sizeof both, "%s%s", left, right);
        size_t n = scored ? vocabulary_n_pieces : vocabulary_n_merges;
        for (size_t m = 0; m < n; m++) {
            const struct merge_pair *pair = &vocabulary_merges[scored ? 0 : m];
            char made[128];
            snprintf(made, sizeof made, "%s%s", pair->left, pair->right);
            bool fits = scored ? !strcmp(both, vocabulary_pieces[m].text)
                        : order == BY_IDS
                            ? !strcmp(both, made)
                            : !strcmp(left, pair->left) && !strcmp(right, pair->right);
            double rank = scored ? -(double)vocabulary_pieces[m].score : (double)m;
            if (fits && rank < best) {
                best = rank;
                *at = i;
            }
        }
    }
    return best < 1e9;
}

static void check_merges(const struct vocabulary_file *subject, const char *text,
                         const char *prefix, enum order order)
{
    struct symbols symbols = {.n = 0};
    char whole[64];
    snprintf(whole, sizeof whole, "%s%s", prefix, text);
    for (const char *c = whole; *c; c++)
        snprintf(symbols.texts[symbols.n++], 64, "%c", *c);
    for (int at; best_merge(&symbols, &at, order);)
        merge_at(&symbols, at);
    size_t n_tokens;
    int32_t *tokens = encode(subject, text, strlen(text), 0, &n_tokens);
    ck_assert_uint_eq(n_tokens, (size_t)symbols.n);
    for (size_t i = 0; i < n_tokens; i++) {
        size_t length;
        const char *piece = locus_token_piece(subject->tokenizer, 'a', tokens[i], 0, &length);
        ck_assert_msg(length == strlen(symbols.texts[i]) &&
                          !memcmp(piece, symbols.texts[i], length),
                      "'%s': token %zu is '%.*s', expected '%s'", text, i, (int)length, piece,
                      symbols.texts[i]);
    }
    free(tokens);
}

START_TEST(merges_are_made_in_the_order_of_their_ranks)
{
    struct vocabulary_file subject = vocabulary_open(vocabulary_bpe("gpt-2"));
    random_state = 2;
    for (int i = 0; i < 2000; i++) {
        char text[32];
        size_t n = 1 + draw(30);
        for (size_t c = 0; c < n; c++)
            text[c] = "abcabchelo"[draw(10)];
        text[n] = '\0';
        check_merges(&subject, text, "", BY_RULES);
    }
    vocabulary_close(&subject);
}
END_TEST

START_TEST(without_rules_any_two_tokens_merge_that_make_one)
{
    struct variant *variant = variant_begin(vocabulary_bpe("gpt-2"));
    variant_drop(variant, "tokenizer.ggml.merges");
    locus_writer_bool(variant_writer(variant), "locus.tokenizer.merges", false);
    struct vocabulary_file subject = vocabulary_open(variant_finish(variant));
    random_state = 4;
    for (int i = 0; i < 2000; i++) {
        char text[32];
        size_t n = 1 + draw(30);
        for (size_t c = 0; c < n; c++)
            text[c] = "abcabcab"[draw(8)];
        text[n] = '\0';
        check_merges(&subject, text, "", BY_IDS);
    }
    vocabulary_close(&subject);
}
END_TEST

START_TEST(pieces_are_merged_in_the_order_of_their_scores)
{
    struct vocabulary_file subject = vocabulary_open(vocabulary_sentencepiece(1));
    random_state = 3;
    for (int i = 0; i < 2000; i++) {
        char text[32];
        size_t n = 1 + draw(30);
        for (size_t c = 0; c < n; c++)
            text[c] = "abcaabc "[draw(8)];
        text[n] = '\0';
        check_merges(&subject, text, " ", BY_SCORES);
    }
    vocabulary_close(&subject);
}
END_TEST

/* ---- texts made to be slow ----------------------------------------------------------------- */

/* Of each so much that what is quadratic in it does not end within the test's time. */
static const struct {
    const char *bit;
    size_t n_bytes;
} slow[] = {
    {"a", 1},
    {"ab", 2},
    {" ", 1},
    {"\n", 1},
    {" \n", 2},
    {"\xC3\xA9", 2},
    {"\xE4\xB8\xAD", 3},
    {"\xFF", 1},
    {"a\xFF", 2},
    {"1", 1},
    {"A", 1},
    {"Aa", 2},
    {"'", 1},
    {"'s", 2},
    {"!", 1},
    {"a ", 2},
    {"\0", 1},
    {"<", 1},
    {"<s>", 3},
    {"\xE2\x96\x81", 3},
    {"<|endoftext", 11},
    {"\xCC\x81", 2},
    {"\xC2\xA0", 2},
    {"hello hello", 11},
};
enum { N_SLOW = sizeof slow / sizeof *slow, SLOW_BYTES = 200000 };

static void check_slow(const char *path)
{
    struct vocabulary_file subject = vocabulary_open(path);
    char *text = malloc(SLOW_BYTES);
    ck_assert_ptr_nonnull(text);
    for (size_t s = 0; s < N_SLOW; s++) {
        for (size_t i = 0; i < SLOW_BYTES; i++)
            text[i] = slow[s].bit[i % slow[s].n_bytes];
        size_t n_tokens;
        free(encode(&subject, text, SLOW_BYTES, LOCUS_TEXT_SPECIAL, &n_tokens));
        ck_assert_uint_gt(n_tokens, 0);
    }
    free(text);
    vocabulary_close(&subject);
}

START_TEST(monotonous_texts_are_not_slow_for_byte_level_bpe)
{
    check_slow(vocabulary_bpe(patterns[_i]));
}
END_TEST

START_TEST(monotonous_texts_are_not_slow_for_sentencepiece)
{
    check_slow(vocabulary_sentencepiece(1));
}
END_TEST

/* ---- special tokens ------------------------------------------------------------------------ */

/* text -> ids, with these flags. */
static void check_ids(const struct vocabulary_file *subject, const char *text, unsigned flags,
                      const int32_t *wanted, size_t n_wanted)
{
    size_t n_tokens;
    int32_t *tokens = encode(subject, text, strlen(text), flags, &n_tokens);
    ck_assert_uint_eq(n_tokens, n_wanted);
    for (size_t i = 0; i < n_tokens; i++)
        ck_assert_int_eq(tokens[i], wanted[i]);
    free(tokens);
}

static bool holds(const struct vocabulary_file *subject, const char *text, unsigned flags,
                  int32_t id)
{
    size_t n_tokens, n = 0;
    int32_t *tokens = encode(subject, text, strlen(text), flags, &n_tokens);
    for (size_t i = 0; i < n_tokens; i++)
        n += tokens[i] == id;
    free(tokens);
    return n > 0;
}

START_TEST(special_tokens_are_text_without_the_flag)
{
    struct vocabulary_file subject = vocabulary_open(vocabulary_bpe(NULL));
    const int32_t end = VOCABULARY_FIRST_MERGE + (int32_t)vocabulary_n_merges, think = end + 1;
    size_t n_bytes;
    ck_assert(!holds(&subject, "a<|endoftext|>b", 0, end));
    check_ids(&subject, "x<|endoftext|>y", LOCUS_TEXT_SPECIAL, (const int32_t[]){'x', end, 'y'}, 3);
    check_ids(&subject, "<|endoftext|><|endoftext|>", LOCUS_TEXT_SPECIAL,
              (const int32_t[]){end, end}, 2);
    check_ids(&subject, "<|endoftext|", LOCUS_TEXT_SPECIAL,
              (const int32_t[]){'<', '|', 'e', 'n', 'd', 'o', 'f', 't', 'e', 'x', 't', '|'}, 12);
    /* A user-defined token is matched in any text. */
    check_ids(&subject, "x<think>y", 0, (const int32_t[]){'x', think, 'y'}, 3);
    locus_token_piece(subject.tokenizer, -1, end, 0, &n_bytes);
    ck_assert_uint_eq(n_bytes, 0);
    const char *piece = locus_token_piece(subject.tokenizer, -1, end, LOCUS_TEXT_SPECIAL, &n_bytes);
    ck_assert(n_bytes == 13 && !memcmp(piece, "<|endoftext|>", 13));
    vocabulary_close(&subject);
}
END_TEST

START_TEST(text_begins_as_the_vocabulary_wants)
{
    struct vocabulary_file sentencepiece = vocabulary_open(vocabulary_sentencepiece(1));
    struct vocabulary_file bpe = vocabulary_open(vocabulary_bpe("gpt-2"));
    struct vocabulary_file llama3 = vocabulary_open(vocabulary_bpe("llama-bpe"));
    const int32_t end = VOCABULARY_FIRST_MERGE + (int32_t)vocabulary_n_merges;
    check_ids(&sentencepiece, "", LOCUS_TEXT_BEGIN, (const int32_t[]){1}, 1);
    check_ids(&sentencepiece, "", 0, NULL, 0);
    check_ids(&bpe, "x", LOCUS_TEXT_BEGIN, (const int32_t[]){'x'}, 1);
    check_ids(&llama3, "x", LOCUS_TEXT_BEGIN, (const int32_t[]){end, 'x'}, 2);
    vocabulary_close(&sentencepiece);
    vocabulary_close(&bpe);
    vocabulary_close(&llama3);
}
END_TEST

/* The first word's space is the vocabulary's, not the text's. */
START_TEST(first_space_is_dropped_only_where_it_was_added)
{
    struct vocabulary_file subject = vocabulary_open(vocabulary_sentencepiece(1));
    size_t n_tokens, n_bytes;
    int32_t *tokens = encode(&subject, "abc", 3, LOCUS_TEXT_BEGIN, &n_tokens);
    ck_assert_uint_eq(n_tokens, 2);
    const char *piece = locus_token_piece(subject.tokenizer, 1, tokens[1], 0, &n_bytes);
    ck_assert(n_bytes == 3 && !memcmp(piece, "abc", 3));
    piece = locus_token_piece(subject.tokenizer, tokens[1], tokens[1], 0, &n_bytes);
    ck_assert(n_bytes == 4 && !memcmp(piece, " abc", 4));
    free(tokens);
    vocabulary_close(&subject);
}
END_TEST

START_TEST(bytes_without_a_token_are_unknown)
{
    struct vocabulary_file subject = vocabulary_open(vocabulary_sentencepiece(0));
    const int32_t a = 3 + 7; /* " a" */
    check_ids(&subject, "axyz\xFF", 0, (const int32_t[]){a, 0}, 2);
    check_ids(&subject, "axa", 0, (const int32_t[]){a, 0, 4}, 3);
    vocabulary_close(&subject);
}
END_TEST

/* The vocabulary of pieces with other types; the file names no unknown token. */
static struct vocabulary_file open_retyped(const int32_t *types)
{
    struct variant *variant = variant_begin(vocabulary_sentencepiece(1));
    variant_drop(variant, "tokenizer.ggml.unknown_token_id");
    variant_drop(variant, "tokenizer.ggml.token_type");
    locus_writer_i32s(variant_writer(variant), "tokenizer.ggml.token_type", types,
                      3 + 256 + vocabulary_n_pieces + 2);
    return vocabulary_open(variant_finish(variant));
}

/* One unknown token, the first that has the type, stands for a run of characters, which bytes end;
 * a user-defined token's own space is dropped where the one put before a text is. */
START_TEST(types_say_what_tokens_are_for)
{
    enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE, BYTES = 3, PIECES = BYTES + 256 };
    enum { SPACE_A = PIECES + 7, SPACE_ABC = PIECES + 15 };
    int32_t types[PIECES + 64] = {UNKNOWN, CONTROL, UNKNOWN};
    size_t n_bytes;
    for (size_t i = BYTES; i < PIECES + vocabulary_n_pieces + 2; i++)
        types[i] = i < PIECES ? BYTE : NORMAL;
    types[BYTES + 'y'] = UNUSED;
    types[SPACE_ABC] = USER;
    struct vocabulary_file subject = open_retyped(types);
    check_ids(&subject, "ayyxyx", 0, (const int32_t[]){SPACE_A, 0, BYTES + 'x', 0, BYTES + 'x'}, 5);
    (void)locus_token_piece(subject.tokenizer, -1, SPACE_A, 0, &n_bytes);
    ck_assert_uint_eq(n_bytes, 1);
    (void)locus_token_piece(subject.tokenizer, -1, SPACE_ABC, 0, &n_bytes);
    ck_assert_uint_eq(n_bytes, 3); /* the space is the one put before a text */
    (void)locus_token_piece(subject.tokenizer, SPACE_A, SPACE_ABC, 0, &n_bytes);
    ck_assert_uint_eq(n_bytes, 4);
    vocabulary_close(&subject);
}
END_TEST

/* A second token of a byte is never a text's. */
START_TEST(the_first_token_of_a_byte_stands_for_it)
{
    enum { BYTES = 3, BYTE = 6, N = BYTES + 256 + 64 };
    const char *path = vocabulary_sentencepiece(1), *texts[N];
    size_t lengths[N], n;
    enum locus_value_type type;
    double numbers[N];
    int32_t types[N];
    struct vocabulary_file plain = vocabulary_open(path);
    ck_assert(locus_checkpoint_array(plain.checkpoint, "tokenizer.ggml.tokens", &type, &n));
    ck_assert_uint_le(n, N);
    locus_checkpoint_array_strings(plain.checkpoint, "tokenizer.ggml.tokens", texts, lengths);
    locus_checkpoint_array_numbers(plain.checkpoint, "tokenizer.ggml.token_type", numbers);
    for (size_t i = 0; i < n; i++)
        types[i] = (int32_t)numbers[i];
    texts[n - 1] = "<0x78>", lengths[n - 1] = 6, types[n - 1] = BYTE;
    struct variant *variant = variant_begin(path);
    variant_drop(variant, "tokenizer.ggml.tokens");
    variant_drop(variant, "tokenizer.ggml.token_type");
    locus_writer_strings(variant_writer(variant), "tokenizer.ggml.tokens", texts, lengths, n);
    locus_writer_i32s(variant_writer(variant), "tokenizer.ggml.token_type", types, n);
    struct vocabulary_file twice = vocabulary_open(variant_finish(variant));
    check_ids(&twice, "ax", 0, (const int32_t[]){BYTES + 256 + 7, BYTES + 'x'}, 2);
    vocabulary_close(&twice);
    vocabulary_close(&plain);
}
END_TEST

static enum locus_status join(void *context, const char *word, size_t n_bytes, locus_error *error)
{
    (void)error;
    snprintf((char *)context + strlen(context), 32, "%.*s|", (int)n_bytes, word);
    return LOCUS_OK;
}

/* U+0085 and U+00A0 are white space, U+180E and U+200B are not. */
START_TEST(blanks_are_those_of_unicode)
{
    const char *const cases[][2] = {{" \xC2\x85x", " |\xC2\x85|x|"},
                                    {" \xC2\xA0x", " |\xC2\xA0|x|"},
                                    {" \xE1\xA0\x8Ex", " \xE1\xA0\x8E|x|"},
                                    {" \xE2\x80\x8Bx", " \xE2\x80\x8B|x|"}};
    struct vocabulary_file subject = vocabulary_open(vocabulary_bpe("gpt-2"));
    struct locus_words *words = locus_words_create(subject.checkpoint, NULL);
    ck_assert_ptr_nonnull(words);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char joined[64] = "";
        ck_assert_int_eq(
            locus_words_each(words, cases[i][0], strlen(cases[i][0]), join, joined, NULL),
            LOCUS_OK);
        ck_assert_str_eq(joined, cases[i][1]);
    }
    locus_words_free(words);
    vocabulary_close(&subject);
}
END_TEST

START_TEST(ids_outside_the_vocabulary_have_no_bytes)
{
    struct vocabulary_file subject = vocabulary_open(vocabulary_bytes());
    const int32_t ids[] = {-1, 257, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        size_t n_bytes = 7;
        ck_assert_ptr_nonnull(locus_token_piece(subject.tokenizer, -1, ids[i], 3, &n_bytes));
        ck_assert_uint_eq(n_bytes, 0);
    }
    vocabulary_close(&subject);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *tests = tcase_create("tokenizer");
    tcase_add_loop_test(tests, published_cases_pass, 0, 2);
    tcase_add_loop_test(tests, any_bytes_come_back_from_byte_level_bpe, 0, N_PATTERNS);
    tcase_add_test(tests, any_bytes_come_back_from_sentencepiece);
    tcase_add_test(tests, any_bytes_come_back_from_bytes);
    tcase_add_loop_test(tests, any_bytes_come_back_from_published_vocabularies, 0, 2);
    tcase_add_test(tests, every_single_byte_and_pair_comes_back);
    tcase_add_test(tests, merges_are_made_in_the_order_of_their_ranks);
    tcase_add_test(tests, without_rules_any_two_tokens_merge_that_make_one);
    tcase_add_test(tests, pieces_are_merged_in_the_order_of_their_scores);
    tcase_add_loop_test(tests, monotonous_texts_are_not_slow_for_byte_level_bpe, 0, N_PATTERNS);
    tcase_add_test(tests, monotonous_texts_are_not_slow_for_sentencepiece);
    tcase_add_test(tests, special_tokens_are_text_without_the_flag);
    tcase_add_test(tests, text_begins_as_the_vocabulary_wants);
    tcase_add_test(tests, first_space_is_dropped_only_where_it_was_added);
    tcase_add_test(tests, bytes_without_a_token_are_unknown);
    tcase_add_test(tests, types_say_what_tokens_are_for);
    tcase_add_test(tests, the_first_token_of_a_byte_stands_for_it);
    tcase_add_test(tests, blanks_are_those_of_unicode);
    tcase_add_test(tests, ids_outside_the_vocabulary_have_no_bytes);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
