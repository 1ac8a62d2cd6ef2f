/* SentencePiece's BPE: see sentencepiece.h.
 *
 * The vocabulary's U+2581 is turned into the space it stands for once, at creation; texts are then
 * encoded as they are. So a U+2581 in a text is not mistaken for a space: it is three byte tokens,
 * and decodes to itself.
 */
#include "tokenizer/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/keys.h"
#include "tokenizer/merge.h"
#include "tokenizer/rules.h"

struct locus_sentencepiece {
    const struct locus_vocabulary *vocabulary;
    struct locus_piece_map pieces;
    struct locus_rules rules; /* which tokens merge; none: any that make a token, by their ranks */
    uint32_t *ranks; /* [n_tokens]: 0 for the best score, equal for equal scores; NULL: rules */
    int32_t byte_ids[256]; /* -1: the vocabulary has no such token */
    bool joins_words;      /* a token holds a space after something else */
    bool split;            /* nothing merges across the beginning of a space */
    bool suffixes;         /* see locus_sentencepiece_suffixes; then each unknown has its token */
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "<0xAB>" stands for, or -1. */
static int byte_token(const char *text, size_t n_bytes)
{
    if (n_bytes != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

size_t locus_sentencepiece_piece(const char *text, size_t n_bytes, bool typed, char *out,
                                 uint8_t *type)
{
    int byte = byte_token(text, n_bytes);
    if (byte >= 0 && (*type == LOCUS_TOKEN_BYTE || (!typed && *type == LOCUS_TOKEN_NORMAL))) {
        *type = LOCUS_TOKEN_BYTE;
        *out = (char)(unsigned char)byte;
        return 1;
    }
    if (*type == LOCUS_TOKEN_BYTE) *type = LOCUS_TOKEN_UNUSED; /* of no known byte */
    bool verbatim = *type == LOCUS_TOKEN_CONTROL || *type == LOCUS_TOKEN_UNKNOWN;
    size_t n_out = 0;
    for (size_t at = 0; at < n_bytes;) {
        bool space = !verbatim && n_bytes - at >= 3 && !memcmp(text + at, "\u2581", 3);
        out[n_out++] = space ? ' ' : text[at];
        at += space ? 3 : 1;
    }
    return n_out;
}

struct scored {
    double score;
    int32_t id;
};

static int compare_scores(const void *left, const void *right)
{
    const struct scored *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static enum locus_status rank_tokens(struct locus_sentencepiece *sentencepiece,
                                     const double *scores, locus_error *error)
{
    size_t count = (size_t)sentencepiece->vocabulary->n_tokens;
    struct scored *sorted = calloc(count, sizeof *sorted);
    sentencepiece->ranks = calloc(count, sizeof *sentencepiece->ranks);
    if (!sorted || !sentencepiece->ranks) {
        free(sorted);
        return locus_fail_memory(error, count * sizeof *sorted);
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct scored){scores[i], (int32_t)i};
    qsort(sorted, count, sizeof *sorted, compare_scores);
    uint32_t rank = 0;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && sorted[i].score < sorted[i - 1].score) rank++;
        sentencepiece->ranks[sorted[i].id] = rank;
    }
    free(sorted);
    return LOCUS_OK;
}

/* Merges by locus.tokenizer.merges are the tokenizers library's, those by scores SentencePiece's.
 */
static enum locus_status read_merges(struct locus_sentencepiece *sentencepiece,
                                     const struct locus_checkpoint *checkpoint, bool merges,
                                     locus_error *error)
{
    if (merges)
        return locus_rules_read(&sentencepiece->rules, checkpoint, &sentencepiece->pieces,
                                locus_sentencepiece_piece, error);
    double *scores;
    enum locus_status status =
        locus_vocabulary_scores(sentencepiece->vocabulary, checkpoint, &scores, error);
    if (!status) status = rank_tokens(sentencepiece, scores, error);
    free(scores);
    return status;
}

static bool piece_joins_words(const char *piece, size_t n_bytes)
{
    for (size_t i = 1; i < n_bytes; i++)
        if (piece[i] == ' ' && piece[i - 1] != ' ') return true;
    return false;
}

struct locus_sentencepiece *locus_sentencepiece_create(const struct locus_vocabulary *vocabulary,
                                                       const struct locus_checkpoint *checkpoint,
                                                       locus_error *error)
{
    struct locus_sentencepiece *sentencepiece = calloc(1, sizeof *sentencepiece);
    if (!sentencepiece) {
        locus_fail_memory(error, sizeof *sentencepiece);
        return NULL;
    }
    sentencepiece->vocabulary = vocabulary;
    bool merges = false;
    unsigned types = 1u << LOCUS_TOKEN_NORMAL;
    if (locus_key_flag(checkpoint, "locus.tokenizer.merges", &merges, error)) {
        locus_sentencepiece_free(sentencepiece);
        return NULL;
    }
    /* Merges of the tokenizers library may lead to added tokens that a normalizer makes. */
    if (merges) types |= 1u << LOCUS_TOKEN_USER;
    if (locus_piece_map_create(&sentencepiece->pieces, vocabulary, types, error) ||
        read_merges(sentencepiece, checkpoint, merges, error) ||
        locus_key_flag(checkpoint, "locus.tokenizer.split", &sentencepiece->split, error) ||
        locus_key_flag(checkpoint, "locus.tokenizer.suffix", &sentencepiece->suffixes, error)) {
        locus_sentencepiece_free(sentencepiece);
        return NULL;
    }
    locus_vocabulary_bytes(vocabulary, sentencepiece->byte_ids);
    for (int id = 0; id < vocabulary->n_tokens; id++) {
        size_t n_bytes;
        const char *piece = locus_vocabulary_piece(vocabulary, id, &n_bytes);
        if (types >> vocabulary->types[id] & 1)
            sentencepiece->joins_words |= piece_joins_words(piece, n_bytes);
    }
    return sentencepiece;
}

void locus_sentencepiece_free(struct locus_sentencepiece *sentencepiece)
{
    if (!sentencepiece) return;
    locus_piece_map_free(&sentencepiece->pieces);
    locus_rules_free(&sentencepiece->rules);
    free(sentencepiece->ranks);
    free(sentencepiece);
}

bool locus_sentencepiece_suffixes(const struct locus_sentencepiece *sentencepiece)
{
    return sentencepiece->suffixes;
}

/* A segment of text in the encoding, [0, n_bytes); its symbols' starts count from its first byte.
 */
struct encoding {
    const struct locus_sentencepiece *sentencepiece;
    const char *text;
    struct locus_ids *ids;
    struct locus_merge merge;
    bool after_unknown; /* the last id is the unknown token */
};

static bool merges(const void *context, const struct locus_symbol *left,
                   const struct locus_symbol *right, uint32_t *rank, int32_t *id)
{
    const struct encoding *encoding = context;
    const struct locus_sentencepiece *sentencepiece = encoding->sentencepiece;
    if (!sentencepiece->ranks)
        return locus_rules_merge(&sentencepiece->rules, left, right, rank, id);
    *id = locus_piece_map_find(&sentencepiece->pieces, encoding->text + left->start,
                               (size_t)left->length + right->length, NULL);
    if (*id < 0) return false;
    *rank = sentencepiece->ranks[*id];
    return true;
}

/* Adds what a character without a token becomes: its bytes, or else one unknown token for it and
 * all its like after it. */
static enum locus_status add_bytes(struct encoding *encoding, const char *bytes, size_t n_bytes,
                                   locus_error *error)
{
    const struct locus_sentencepiece *sentencepiece = encoding->sentencepiece;
    int32_t unknown = sentencepiece->vocabulary->unknown;
    for (size_t i = 0; i < n_bytes; i++) {
        if (sentencepiece->byte_ids[(unsigned char)bytes[i]] >= 0) continue;
        if (unknown < 0)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "the vocabulary has no token for byte 0x%02X, and none for unknown",
                              (unsigned char)bytes[i]);
        if (!encoding->after_unknown) locus_ids_add(encoding->ids, unknown);
        encoding->after_unknown = !sentencepiece->suffixes;
        return LOCUS_OK;
    }
    for (size_t i = 0; i < n_bytes; i++)
        locus_ids_add(encoding->ids, sentencepiece->byte_ids[(unsigned char)bytes[i]]);
    encoding->after_unknown = false;
    return LOCUS_OK;
}

/* Encodes text[0, n_bytes), across whose ends nothing merges. */
static enum locus_status encode_run(struct encoding *encoding, size_t n_bytes, locus_error *error)
{
    struct locus_merge *merge = &encoding->merge;
    const char *text = encoding->text;
    locus_merge_begin(merge);
    for (size_t at = 0, length; at < n_bytes; at += length) {
        int scanned = locus_utf8_scan(text + at, n_bytes - at < 4 ? n_bytes - at : 4);
        length = scanned > 0 ? (size_t)scanned : 1;
        if (encoding->sentencepiece->suffixes && at + length < n_bytes && text[at + length] == ' ')
            length++;
        locus_merge_add(
            merge, at, length,
            locus_piece_map_find(&encoding->sentencepiece->pieces, text + at, length, NULL));
    }
    if (!merge->failed) locus_merge_run(merge, merges, encoding);
    if (merge->failed) return locus_fail_memory(error, n_bytes * sizeof *merge->symbols);
    enum locus_status status = LOCUS_OK;
    for (int32_t i = 0; i >= 0 && !status; i = merge->symbols[i].next) {
        const struct locus_symbol *symbol = &merge->symbols[i];
        if (symbol->id < 0) {
            status = add_bytes(encoding, text + symbol->start, symbol->length, error);
            continue;
        }
        locus_ids_add(encoding->ids, symbol->id);
        encoding->after_unknown = false;
    }
    return status;
}

/* Bytes of the segment that a text begins with which can be encoded by itself: where words are
 * split, up to the next space, or with the next that ends one; where no token joins words, up to
 * the next word, for the same tokens in less memory. */
static size_t stretch_length(const struct locus_sentencepiece *sentencepiece, const char *text,
                             size_t n_bytes)
{
    size_t at = 1;
    if (sentencepiece->suffixes) {
        const char *space = memchr(text, ' ', n_bytes);
        return space ? (size_t)(space - text) + 1 : n_bytes;
    }
    if (sentencepiece->joins_words && !sentencepiece->split) return n_bytes;
    while (at < n_bytes && (text[at] != ' ' || (text[at - 1] == ' ' && !sentencepiece->split)))
        at++;
    return at;
}

enum locus_status locus_sentencepiece_encode(const struct locus_sentencepiece *sentencepiece,
                                             const char *text, size_t n_bytes,
                                             struct locus_ids *ids, locus_error *error)
{
    struct encoding encoding = {.sentencepiece = sentencepiece, .ids = ids};
    enum locus_status status = LOCUS_OK;
    for (size_t at = 0, length; at < n_bytes && !status; at += length) {
        encoding.text = text + at;
        length = stretch_length(sentencepiece, text + at, n_bytes - at);
        if (sentencepiece->split) encoding.after_unknown = false;
        status = encode_run(&encoding, length, error);
    }
    locus_merge_free(&encoding.merge);
    return status;
}
