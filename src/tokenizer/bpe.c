/* Byte-level BPE: see bpe.h. */
#include "tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/keys.h"
#include "tokenizer/merge.h"
#include "tokenizer/rules.h"
#include "tokenizer/words.h"

struct locus_bpe {
    const struct locus_vocabulary *vocabulary;
    struct locus_words *words;
    struct locus_piece_map pieces;
    struct locus_rules rules;
    int32_t byte_ids[256]; /* -1: the vocabulary has no such token */
    bool whole;            /* a word that is a token is never merged up from bytes */
};

/* GPT-2 writes bytes as characters: the printable ones of Latin-1 as themselves, the other 68, in
 * order, as U+0100 and up. The byte of a character, or -1. */
static int byte_of(uint32_t code)
{
    bool itself = (code >= 0x21 && code <= 0x7E) || (code >= 0xA1 && code <= 0xAC) ||
                  (code >= 0xAE && code <= 0xFF);
    if (itself) return (int)code;
    if (code < 0x100 || code > 0x143) return -1;
    int index = (int)code - 0x100;
    return index <= 0x20 ? index : index <= 0x42 ? index - 0x21 + 0x7F : 0xAD;
}

/* Bytes of a printable spelling; false if a character in it stands for none. */
static bool unspell(const char *text, size_t n_bytes, char *out, size_t *n_out)
{
    *n_out = 0;
    for (size_t at = 0; at < n_bytes;) {
        int length = locus_utf8_scan(text + at, n_bytes - at < 4 ? n_bytes - at : 4);
        int byte = length > 0 ? byte_of(locus_utf8_code(text + at, length)) : -1;
        if (byte < 0) return false;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the caller gives room for n_bytes */
        out[(*n_out)++] = (char)(unsigned char)byte;
        at += (size_t)length;
    }
    return true;
}

size_t locus_bpe_piece(const char *text, size_t n_bytes, bool typed, char *out, uint8_t *type)
{
    (void)typed;
    bool spelled =
        *type != LOCUS_TOKEN_CONTROL && *type != LOCUS_TOKEN_USER && *type != LOCUS_TOKEN_UNKNOWN;
    size_t n_out;
    if (spelled && unspell(text, n_bytes, out, &n_out)) return n_out;
    /* Spelled otherwise, no merging of bytes leads to it. */
    if (spelled) *type = LOCUS_TOKEN_UNUSED;
    if (n_bytes) memcpy(out, text, n_bytes);
    return n_bytes;
}

static bool merges(const void *context, const struct locus_symbol *left,
                   const struct locus_symbol *right, uint32_t *rank, int32_t *id)
{
    const struct locus_bpe *bpe = context;
    const struct locus_rule *rule = locus_rules_find(&bpe->rules, left->id, right->id, NULL);
    if (!rule) return false;
    *rank = rule->rank;
    *id = rule->id;
    return true;
}

/* Where the second piece of "left right" begins; NULL: the line is no two pieces. */
static const char *second_piece(const char *line, size_t n_bytes)
{
    const char *space = n_bytes > 1 ? memchr(line + 1, ' ', n_bytes - 1) : NULL;
    return space && space + 1 < line + n_bytes ? space + 1 : NULL;
}

static enum locus_status check_lines(const struct locus_checkpoint *checkpoint, const char *key,
                                     const char *const *lines, const size_t *lengths, size_t count,
                                     locus_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (!second_piece(lines[i], lengths[i]))
            return locus_fail(error, LOCUS_ERROR_FORMAT,
                              "%s: %s[%zu] is \"%.*s\", expected two pieces and a space between",
                              locus_checkpoint_path(checkpoint), key, i,
                              (int)(lengths[i] < 40 ? lengths[i] : 40), lines[i]);
    return LOCUS_OK;
}

/* Adds a line "left right"; one that names no tokens can never apply, and is left out. `scratch`
 * has room for it. */
static enum locus_status add_rule(struct locus_bpe *bpe, const char *line, size_t n_bytes,
                                  uint32_t rank, char *scratch, locus_error *error)
{
    const char *second = second_piece(line, n_bytes), *space = second ? second - 1 : NULL;
    size_t n_left, n_right;
    if (!space || !unspell(line, (size_t)(space - line), scratch, &n_left) ||
        !unspell(space + 1, (size_t)(line + n_bytes - space - 1), scratch + n_left, &n_right) ||
        n_right == 0)
        return LOCUS_OK;
    int32_t left = locus_piece_map_find(&bpe->pieces, scratch, n_left, NULL);
    int32_t right = locus_piece_map_find(&bpe->pieces, scratch + n_left, n_right, NULL);
    int32_t id = locus_piece_map_find(&bpe->pieces, scratch, n_left + n_right, NULL);
    if (left < 0 || right < 0 || id < 0) return LOCUS_OK;
    return locus_rules_add(&bpe->rules, (struct locus_rule){left, right, rank, id}, error);
}

static enum locus_status read_rules(struct locus_bpe *bpe,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    static const char key[] = "tokenizer.ggml.merges";
    enum locus_value_type type;
    size_t count;
    bool strings =
        locus_checkpoint_array(checkpoint, key, &type, &count) && type == LOCUS_VALUE_STRING;
    if (!strings)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is %s, expected strings",
                          locus_checkpoint_path(checkpoint), key,
                          locus_checkpoint_has(checkpoint, key) ? "something else" : "absent");
    if (count > UINT32_MAX / 4)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s has %zu entries, at most %u",
                          locus_checkpoint_path(checkpoint), key, count, UINT32_MAX / 4);
    size_t longest = 0;
    enum locus_status status = locus_rules_create(&bpe->rules, count, error);
    if (status) return status;
    const char **lines = calloc(count + 1, sizeof *lines);
    size_t *lengths = calloc(count + 1, sizeof *lengths);
    char *scratch = NULL;
    if (lines && lengths) {
        (void)locus_checkpoint_array_strings(checkpoint, key, lines, lengths);
        for (size_t i = 0; i < count; i++)
            longest = lengths[i] > longest ? lengths[i] : longest;
        scratch = malloc(longest + 1);
    }
    status = LOCUS_ERROR_MEMORY;
    if (scratch)
        status = check_lines(checkpoint, key, lines, lengths, count, error);
    else
        locus_fail_memory(error, count * sizeof *lines);
    for (size_t i = 0; !status && i < count; i++)
        status = add_rule(bpe, lines[i], lengths[i], (uint32_t)i, scratch, error);
    locus_rules_sort(&bpe->rules);
    free(lines);
    free(lengths);
    free(scratch);
    return status;
}

static enum locus_status read_whole(struct locus_bpe *bpe,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    bpe->whole = locus_words_whole(bpe->words);
    return locus_key_flag(checkpoint, "locus.tokenizer.ignore_merges", &bpe->whole, error);
}

struct locus_bpe *locus_bpe_create(const struct locus_vocabulary *vocabulary,
                                   const struct locus_checkpoint *checkpoint, locus_error *error)
{
    struct locus_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe) {
        locus_fail_memory(error, sizeof *bpe);
        return NULL;
    }
    bpe->vocabulary = vocabulary;
    /* A user-defined token may be a byte's, or what merges make, where it isn't cut out whole. */
    unsigned types = 1u << LOCUS_TOKEN_NORMAL | 1u << LOCUS_TOKEN_BYTE | 1u << LOCUS_TOKEN_USER;
    bpe->words = locus_words_create(checkpoint, error);
    if (!bpe->words || locus_piece_map_create(&bpe->pieces, vocabulary, types, error) ||
        read_rules(bpe, checkpoint, error) || read_whole(bpe, checkpoint, error)) {
        locus_bpe_free(bpe);
        return NULL;
    }
    for (int byte = 0; byte < 256; byte++) {
        char bytes[1] = {(char)(unsigned char)byte};
        bpe->byte_ids[byte] = locus_piece_map_find(&bpe->pieces, bytes, 1, NULL);
    }
    return bpe;
}

void locus_bpe_free(struct locus_bpe *bpe)
{
    if (!bpe) return;
    locus_words_free(bpe->words);
    locus_piece_map_free(&bpe->pieces);
    locus_rules_free(&bpe->rules);
    free(bpe);
}

bool locus_bpe_begin(const struct locus_bpe *bpe)
{
    return locus_words_begin(bpe->words);
}

const char *locus_bpe_assumed(const struct locus_bpe *bpe)
{
    return locus_words_assumed(bpe->words);
}

struct encoding {
    const struct locus_bpe *bpe;
    struct locus_ids *ids;
    struct locus_merge merge;
};

static enum locus_status encode_word(void *context, const char *word, size_t n_bytes,
                                     locus_error *error)
{
    struct encoding *encoding = context;
    const struct locus_bpe *bpe = encoding->bpe;
    struct locus_merge *merge = &encoding->merge;
    int32_t whole = -1;
    if (bpe->whole) whole = locus_piece_map_find(&bpe->pieces, word, n_bytes, NULL);
    if (whole >= 0 && bpe->vocabulary->types[whole] != LOCUS_TOKEN_USER) {
        locus_ids_add(encoding->ids, whole);
        return LOCUS_OK;
    }
    locus_merge_begin(merge);
    for (size_t i = 0; i < n_bytes; i++) {
        int32_t id = bpe->byte_ids[(unsigned char)word[i]];
        if (id < 0) id = bpe->vocabulary->unknown;
        if (id < 0)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "the vocabulary has no token for byte 0x%02X, and none for unknown",
                              (unsigned char)word[i]);
        locus_merge_add(merge, i, 1, id);
    }
    if (!merge->failed) locus_merge_run(merge, merges, bpe);
    if (merge->failed) return locus_fail_memory(error, n_bytes * sizeof *merge->symbols);
    for (int32_t i = 0; i >= 0; i = merge->symbols[i].next)
        locus_ids_add(encoding->ids, merge->symbols[i].id);
    return LOCUS_OK;
}

enum locus_status locus_bpe_encode(const struct locus_bpe *bpe, const char *text, size_t n_bytes,
                                   struct locus_ids *ids, locus_error *error)
{
    struct encoding encoding = {.bpe = bpe, .ids = ids};
    enum locus_status status =
        locus_words_each(bpe->words, text, n_bytes, encode_word, &encoding, error);
    locus_merge_free(&encoding.merge);
    return status;
}
