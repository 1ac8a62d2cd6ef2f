/* Small vocabularies of our own: see vocabularies.h. */
#include "vocabularies.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "checkpoint/checkpoint.h"
#include "testing.h"

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, BYTE = 6 };
enum { MAX_TOKENS = 400 };

struct list {
    char *texts[MAX_TOKENS];
    size_t lengths[MAX_TOKENS];
    int32_t types[MAX_TOKENS];
    float scores[MAX_TOKENS];
    int n;
};

static void add(struct list *list, const char *text, size_t length, int type, float score)
{
    ck_assert_int_lt(list->n, MAX_TOKENS);
    char *copy = malloc(length + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, length);
    list->texts[list->n] = copy;
    list->lengths[list->n] = length;
    list->types[list->n] = type;
    list->scores[list->n++] = score;
}

static struct locus_checkpoint_writer *begin(const char *model)
{
    struct locus_checkpoint_writer *writer = locus_writer_create(NULL);
    ck_assert_ptr_nonnull(writer);
    locus_writer_string(writer, "general.architecture", "locus", 5);
    locus_writer_string(writer, "tokenizer.ggml.model", model, strlen(model));
    return writer;
}

static const char *finish(struct locus_checkpoint_writer *writer, struct list *list)
{
    locus_error error = {0};
    const char *path = testing_temporary("vocabulary.gguf");
    locus_writer_strings(writer, "tokenizer.ggml.tokens", (const char *const *)list->texts,
                         list->lengths, (size_t)list->n);
    locus_writer_i32s(writer, "tokenizer.ggml.token_type", list->types, (size_t)list->n);
    ck_assert_msg(locus_writer_finish(writer, path, &error) == LOCUS_OK, "%s", error.message);
    locus_writer_free(writer);
    for (int i = 0; i < list->n; i++)
        free(list->texts[i]);
    return path;
}

/* ---- byte-level BPE ------------------------------------------------------------------------ */

const struct merge_pair vocabulary_merges[] = {
    {"a", "b"},   {"b", "c"},   {"ab", "c"},      {"a", "a"},    {"aa", "aa"},   {"h", "e"},
    {"l", "l"},   {"he", "ll"}, {"hell", "o"},    {" ", "hell"}, {" hell", "o"}, {" ", " "},
    {"  ", "  "}, {"1", "2"},   {"\xC3", "\xA9"}, {"c", "ab"},   {"b", "b"},     {"abc", "abc"},
    {"'", "s"},   {"\n", "\n"}, {" ", "a"},       {"b", "a"},    {"ba", "ba"},   {"c", "a"},
};
const size_t vocabulary_n_merges = sizeof vocabulary_merges / sizeof *vocabulary_merges;

/* GPT-2's printable spelling: printable bytes of Latin-1 are themselves, the others are numbered
 * from U+0100 on. */
static void spell(struct locus_buffer *out, const char *bytes)
{
    for (const unsigned char *at = (const unsigned char *)bytes; *at; at++) {
        unsigned code = 0x100;
        for (unsigned b = 0; b < *at; b++)
            code += !((b > 32 && b < 127) || (b > 160 && b != 173));
        if ((*at > 32 && *at < 127) || (*at > 160 && *at != 173)) code = *at;
        if (code < 0x80)
            locus_buffer_printf(out, "%c", (int)code);
        else
            locus_buffer_printf(out, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 63)));
    }
}

static void add_spelled(struct list *list, const char *left, const char *right)
{
    struct locus_buffer text = {0};
    spell(&text, left);
    spell(&text, right);
    add(list, text.bytes, text.length, NORMAL, 0);
    locus_buffer_free(&text);
}

/* Tokens of vocabulary_added, with what is said of them. */
static const struct {
    const char *text;
    int type, lstrip, rstrip, single_word;
} added[] = {
    {"<m>", CONTROL, 1, 0, 0},
    {"<r>", CONTROL, 0, 1, 0},
    {"<b>", CONTROL, 1, 1, 0},
    {"dog", USER, 0, 0, 1},
};
enum { N_ADDED = sizeof added / sizeof *added };

static void add_added(struct list *list, struct locus_checkpoint_writer *writer)
{
    int32_t ids[3][N_ADDED];
    size_t n[3] = {0};
    static const char *const keys[] = {"locus.tokenizer.lstrip", "locus.tokenizer.rstrip",
                                       "locus.tokenizer.single_word"};
    for (size_t i = 0; i < N_ADDED; i++) {
        const int flags[] = {added[i].lstrip, added[i].rstrip, added[i].single_word};
        for (int k = 0; k < 3; k++)
            if (flags[k]) ids[k][n[k]++] = list->n;
        add(list, added[i].text, strlen(added[i].text), added[i].type, 0);
    }
    for (int k = 0; k < 3; k++)
        locus_writer_i32s(writer, keys[k], ids[k], n[k]);
}

static const char *write_bpe(const char *pre, bool more)
{
    struct list list = {.n = 0};
    struct locus_buffer lines[64] = {{0}};
    const char *texts[64];
    size_t lengths[64];
    add(&list, "\xC4\x80", 2, NORMAL, 0); /* byte 0 is U+0100 */
    for (int byte = 1; byte < 256; byte++)
        add_spelled(&list, (const char[]){(char)byte, '\0'}, "");
    for (size_t i = 0; i < vocabulary_n_merges; i++) {
        add_spelled(&list, vocabulary_merges[i].left, vocabulary_merges[i].right);
        spell(&lines[i], vocabulary_merges[i].left);
        locus_buffer_append(&lines[i], " ", 1);
        spell(&lines[i], vocabulary_merges[i].right);
        texts[i] = lines[i].bytes;
        lengths[i] = lines[i].length;
    }
    struct locus_checkpoint_writer *writer = begin("gpt2");
    locus_writer_strings(writer, "tokenizer.ggml.merges", texts, lengths, vocabulary_n_merges);
    if (pre) locus_writer_string(writer, "tokenizer.ggml.pre", pre, strlen(pre));
    locus_writer_u32(writer, "tokenizer.ggml.bos_token_id", (uint32_t)list.n);
    locus_writer_u32(writer, "tokenizer.ggml.eos_token_id", (uint32_t)list.n);
    add(&list, "<|endoftext|>", 13, CONTROL, 0);
    add(&list, "<think>", 7, USER, 0);
    if (more) add_added(&list, writer);
    for (size_t i = 0; i < vocabulary_n_merges; i++)
        locus_buffer_free(&lines[i]);
    return finish(writer, &list);
}

const char *vocabulary_bpe(const char *pre)
{
    return write_bpe(pre, false);
}

const char *vocabulary_added(void)
{
    return write_bpe("gpt-2", true);
}

/* ---- SentencePiece and bytes --------------------------------------------------------------- */

const struct scored_piece vocabulary_pieces[] = {
    {" ", -1},
    {"a", -20},
    {"b", -21},
    {"c", -22},
    {"ab", -5},
    {"bc", -3},
    {"abc", -9},
    {" a", -4},
    {" ab", -7},
    {"aa", -6},
    {"aaaa", -8},
    {"ca", -3},
    {"\n", -23},
    {"bb", -5},
    {"ba", -5},
    {" abc", -2},
    {"caab", -1},
    {"  ", -10},
    {"    ", -9},
    {"\xC3\xA9", -12},
    {"aab", -2},
    {"1", -30},
    {"\xE2\x82\xAC", -12},
};
const size_t vocabulary_n_pieces = sizeof vocabulary_pieces / sizeof *vocabulary_pieces;

static const char *write_pieces(const char *model, int bytes)
{
    struct list list = {.n = 0};
    add(&list, "<unk>", 5, UNKNOWN, 0);
    add(&list, "<s>", 3, CONTROL, 0);
    add(&list, "</s>", 4, CONTROL, 0);
    for (int byte = 0; byte < 256 && bytes; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", byte);
        add(&list, name, 6, BYTE, 0);
    }
    for (size_t i = 0; i < vocabulary_n_pieces; i++) {
        struct locus_buffer text = {0};
        for (const char *at = vocabulary_pieces[i].text; *at; at++)
            locus_buffer_append(&text, *at == ' ' ? "\xE2\x96\x81" : at, *at == ' ' ? 3 : 1);
        add(&list, text.bytes, text.length, NORMAL, vocabulary_pieces[i].score);
        locus_buffer_free(&text);
    }
    add(&list, "<sep>", 5, USER, 0);
    add(&list, "\xE2\x96\x81q", 4, USER, 0);
    struct locus_checkpoint_writer *writer = begin(model);
    locus_writer_f32s(writer, "tokenizer.ggml.scores", list.scores, (size_t)list.n);
    locus_writer_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    locus_writer_u32(writer, "tokenizer.ggml.eos_token_id", 2);
    locus_writer_u32(writer, "tokenizer.ggml.unknown_token_id", 0);
    return finish(writer, &list);
}

const char *vocabulary_sentencepiece(int bytes)
{
    return write_pieces("llama", bytes);
}

const char *vocabulary_unigram(int bytes)
{
    return write_pieces("t5", bytes);
}

const char *vocabulary_bytes(void)
{
    struct list list = {.n = 0};
    for (int byte = 0; byte < 256; byte++)
        add(&list, "?", 1, NORMAL, 0);
    add(&list, "<|endoftext|>", 13, CONTROL, 0);
    struct locus_checkpoint_writer *writer = begin("bytes");
    locus_writer_u32(writer, "tokenizer.ggml.eos_token_id", 256);
    return finish(writer, &list);
}

struct vocabulary_file vocabulary_open(const char *path)
{
    locus_error error = {0};
    struct vocabulary_file file = {.checkpoint = locus_checkpoint_open(path, &error)};
    ck_assert_msg(file.checkpoint != NULL, "%s", error.message);
    file.tokenizer = locus_tokenizer_from_checkpoint(file.checkpoint, &error);
    ck_assert_msg(file.tokenizer != NULL, "%s", error.message);
    return file;
}

void vocabulary_close(struct vocabulary_file *file)
{
    locus_tokenizer_free(file->tokenizer);
    locus_checkpoint_free(file->checkpoint);
}
