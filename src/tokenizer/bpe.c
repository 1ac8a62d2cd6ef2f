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
    bool ruled;            /* by `rules`; else any two tokens that make one merge, by its id */
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

static enum locus_status read_merges(struct locus_bpe *bpe,
                                     const struct locus_checkpoint *checkpoint, locus_error *error)
{
    bpe->whole = locus_words_whole(bpe->words);
    bpe->ruled = true;
    enum locus_status status =
        locus_key_flag(checkpoint, "locus.tokenizer.ignore_merges", &bpe->whole, error);
    if (!status) status = locus_key_flag(checkpoint, "locus.tokenizer.merges", &bpe->ruled, error);
    if (status || !bpe->ruled) return status;
    return locus_rules_read(&bpe->rules, checkpoint, &bpe->pieces, locus_bpe_piece, error);
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
        read_merges(bpe, checkpoint, error)) {
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
    const char *word;
};

static bool merges(const void *context, const struct locus_symbol *left,
                   const struct locus_symbol *right, uint32_t *rank, int32_t *id)
{
    const struct encoding *encoding = context;
    const struct locus_bpe *bpe = encoding->bpe;
    if (bpe->ruled) return locus_rules_merge(&bpe->rules, left, right, rank, id);
    *id = locus_piece_map_find(&bpe->pieces, encoding->word + left->start,
                               left->length + right->length, NULL);
    *rank = (uint32_t)*id;
    return *id >= 0;
}

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
    encoding->word = word;
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
    if (!merge->failed) locus_merge_run(merge, merges, encoding);
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
