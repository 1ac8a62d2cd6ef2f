/* Unigram: see unigram.h (Kudo 2018, Subword Regularization, section 3.2).
 *
 *     for each place in the text, from left to right:
 *         the best way to it, and each piece that begins there -> a way to where the piece ends
 *     from the text's end, back along the best ways -> its pieces
 */
#include "tokenizer/unigram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/keys.h"
#include "tokenizer/trie.h"

enum { UNKNOWN = -1 }; /* of a way's last piece: a character without a token */

struct locus_unigram {
    const struct locus_vocabulary *vocabulary;
    struct locus_trie trie; /* of the pieces that a text may have */
    double *scores;         /* [n_tokens] */
    double unknown;         /* the score of a character without a token */
    int32_t byte_ids[256];  /* -1: the vocabulary has no such token */
    bool split;             /* nothing but a space begins a piece that has one */
};

/* A character without a token is worth 10 less than the worst piece (SentencePiece's
 * kUnkPenalty). Tokens of bytes and control tokens have scores that say nothing. */
static enum locus_status rate_unknown(struct locus_unigram *unigram, const char *path,
                                      locus_error *error)
{
    const struct locus_vocabulary *vocabulary = unigram->vocabulary;
    double least = (double)INFINITY;
    for (int id = 0; id < vocabulary->n_tokens; id++)
        if (vocabulary->types[id] == LOCUS_TOKEN_NORMAL && unigram->scores[id] < least)
            least = unigram->scores[id];
    if (isinf(least))
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: tokenizer.ggml.token_type has no piece of type 1 (normal), expected "
                          "one or more for Unigram",
                          path);
    unigram->unknown = least - 10;
    return LOCUS_OK;
}

/* The pieces that a text may have, sorted and each there once, into the tree. */
static enum locus_status plant(struct locus_unigram *unigram, const char *path, locus_error *error)
{
    size_t count;
    const unsigned types = 1u << LOCUS_TOKEN_NORMAL | 1u << LOCUS_TOKEN_USER;
    struct locus_piece *pieces = locus_pieces_collect(unigram->vocabulary, types, &count);
    if (!pieces) return locus_fail_memory(error, count * sizeof *pieces);
    enum locus_status status = locus_trie_create(&unigram->trie, pieces, count, false, error);
    for (size_t i = 1; i < count && !status; i++)
        if (pieces[i].n_bytes == pieces[i - 1].n_bytes &&
            !memcmp(pieces[i].bytes, pieces[i - 1].bytes, pieces[i].n_bytes))
            status = locus_fail(error, LOCUS_ERROR_FORMAT,
                                "%s: tokenizer.ggml.tokens[%d] and [%d] are the same piece, "
                                "expected each once for Unigram",
                                path, (int)pieces[i - 1].id, (int)pieces[i].id);
    free(pieces);
    return status;
}

/* Whether every text has tokens, and no piece is empty. */
static enum locus_status check_pieces(const struct locus_unigram *unigram, const char *path,
                                      locus_error *error)
{
    const struct locus_vocabulary *vocabulary = unigram->vocabulary;
    for (int id = 0; id < vocabulary->n_tokens; id++)
        if (vocabulary->types[id] == LOCUS_TOKEN_NORMAL &&
            vocabulary->offsets[id] == vocabulary->offsets[id + 1])
            return locus_fail(error, LOCUS_ERROR_FORMAT,
                              "%s: tokenizer.ggml.tokens[%d] is empty, expected a piece", path, id);
    for (int byte = 0; byte < 256 && vocabulary->unknown < 0; byte++)
        if (unigram->byte_ids[byte] < 0)
            return locus_fail(error, LOCUS_ERROR_FORMAT,
                              "%s: tokenizer.ggml.unknown_token_id is absent, and no token stands "
                              "for byte 0x%02X",
                              path, byte);
    return LOCUS_OK;
}

struct locus_unigram *locus_unigram_create(const struct locus_vocabulary *vocabulary,
                                           const struct locus_checkpoint *checkpoint,
                                           locus_error *error)
{
    const char *path = locus_checkpoint_path(checkpoint);
    struct locus_unigram *unigram = calloc(1, sizeof *unigram);
    if (!unigram) {
        locus_fail_memory(error, sizeof *unigram);
        return NULL;
    }
    unigram->vocabulary = vocabulary;
    locus_vocabulary_bytes(vocabulary, unigram->byte_ids);
    if (locus_vocabulary_scores(vocabulary, checkpoint, &unigram->scores, error) ||
        rate_unknown(unigram, path, error) || check_pieces(unigram, path, error) ||
        plant(unigram, path, error) ||
        locus_key_flag(checkpoint, "locus.tokenizer.split", &unigram->split, error)) {
        locus_unigram_free(unigram);
        return NULL;
    }
    return unigram;
}

void locus_unigram_free(struct locus_unigram *unigram)
{
    if (!unigram) return;
    locus_trie_free(&unigram->trie);
    free(unigram->scores);
    free(unigram);
}

/* The best way to a place in the text. */
struct way {
    double score;
    int32_t from; /* where its last piece begins; -1: there is no way yet */
    int32_t id;   /* that piece, or UNKNOWN */
};

struct encoding {
    const struct locus_unigram *unigram;
    struct locus_ids *ids;
    struct way *ways; /* [capacity], one more than a segment has bytes */
    size_t capacity;
};

/* Of ways with one score the first found stays: the one whose last piece is the longest, as in
 * SentencePiece's EncodeOptimized and in the tokenizers library. */
static void offer(struct way *way, double score, size_t from, int32_t id)
{
    if (way->from < 0 || score > way->score) *way = (struct way){score, (int32_t)from, id};
}

/* Finds the best way to every place that one leads to. */
static void find_ways(const struct encoding *encoding, const char *text, size_t n_bytes)
{
    const struct locus_unigram *unigram = encoding->unigram;
    const struct locus_trie *trie = &unigram->trie;
    struct way *ways = encoding->ways;
    for (size_t at = 0, length; at < n_bytes; at += length) {
        bool single = false;
        length = locus_utf8_character(text + at, n_bytes - at);
        if (length == 0) length = 1;
        int32_t node = 0;
        for (size_t end = at; end < n_bytes;) {
            node = locus_trie_child(trie, node, (unsigned char)text[end++]);
            if (node < 0) break;
            const int32_t id = trie->nodes[node].id;
            if (id < 0) continue;
            offer(&ways[end], ways[at].score + unigram->scores[id], at, id);
            single |= end == at + length;
        }
        if (!single) offer(&ways[at + length], ways[at].score + unigram->unknown, at, UNKNOWN);
    }
}

/* Adds what a run of characters without tokens becomes: their bytes, or one unknown token. */
static enum locus_status add_unknown(const struct encoding *encoding, const char *bytes,
                                     size_t n_bytes, locus_error *error)
{
    const struct locus_unigram *unigram = encoding->unigram;
    const int32_t unknown = unigram->vocabulary->unknown;
    for (size_t i = 0; i < n_bytes; i++) {
        if (unigram->byte_ids[(unsigned char)bytes[i]] >= 0) continue;
        if (unknown < 0)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "the vocabulary has no token for byte 0x%02X, and none for unknown",
                              (unsigned char)bytes[i]);
        locus_ids_add(encoding->ids, unknown);
        return LOCUS_OK;
    }
    for (size_t i = 0; i < n_bytes; i++)
        locus_ids_add(encoding->ids, unigram->byte_ids[(unsigned char)bytes[i]]);
    return LOCUS_OK;
}

/* Turns the best way to the end around: each place on it then says where its next piece ends. */
static void turn_around(struct way *ways, size_t n_bytes)
{
    int32_t at = (int32_t)n_bytes, next = -1, id = UNKNOWN;
    while (at >= 0) {
        const struct way way = ways[at];
        ways[at].from = next;
        ways[at].id = id;
        next = at;
        id = way.id;
        at = at > 0 ? way.from : -1;
    }
}

static enum locus_status encode_stretch(struct encoding *encoding, const char *text, size_t n_bytes,
                                        locus_error *error)
{
    enum locus_status status = LOCUS_OK;
    struct way *ways = encoding->ways;
    ways[0] = (struct way){0};
    for (size_t i = 1; i <= n_bytes; i++)
        ways[i] = (struct way){.from = -1};
    find_ways(encoding, text, n_bytes);
    turn_around(ways, n_bytes);
    for (size_t at = 0, end; at < n_bytes && !status; at = end) {
        const int32_t id = ways[at].id;
        end = (size_t)ways[at].from;
        if (id != UNKNOWN) {
            locus_ids_add(encoding->ids, id);
            continue;
        }
        while (end < n_bytes && ways[end].id == UNKNOWN)
            end = (size_t)ways[end].from;
        status = add_unknown(encoding, text + at, end - at, error);
    }
    return status;
}

enum locus_status locus_unigram_encode(const struct locus_unigram *unigram, const char *text,
                                       size_t n_bytes, struct locus_ids *ids, locus_error *error)
{
    struct encoding encoding = {.unigram = unigram, .ids = ids};
    enum locus_status status = LOCUS_OK;
    for (size_t at = 0, length; at < n_bytes && !status; at += length) {
        const char *space = NULL;
        length = n_bytes - at;
        if (unigram->split && length > 1) space = memchr(text + at + 1, ' ', length - 1);
        if (space) length = (size_t)(space - text) - at;
        if (length >= encoding.capacity) {
            free(encoding.ways);
            encoding.capacity = length < n_bytes / 2 ? 2 * length : length + 1;
            encoding.ways = calloc(encoding.capacity, sizeof *encoding.ways);
        }
        if (!encoding.ways) return locus_fail_memory(error, length * sizeof *encoding.ways);
        status = encode_stretch(&encoding, text + at, length, error);
    }
    free(encoding.ways);
    return status;
}
