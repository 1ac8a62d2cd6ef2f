/* The vocabulary: every id's bytes and type, and ways to find ids by bytes. */
#ifndef LOCUS_TOKENIZER_VOCABULARY_H
#define LOCUS_TOKENIZER_VOCABULARY_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"

/* Numbered as tokenizer.ggml.token_type does. */
enum locus_token_type {
    LOCUS_TOKEN_NORMAL = 1,
    LOCUS_TOKEN_UNKNOWN = 2,
    LOCUS_TOKEN_CONTROL = 3,
    LOCUS_TOKEN_USER = 4,   /* matched in a text before anything else */
    LOCUS_TOKEN_UNUSED = 5, /* has bytes, is never the result of encoding */
    LOCUS_TOKEN_BYTE = 6    /* one byte, where no other token fits */
};

struct locus_vocabulary {
    int n_tokens;
    char *bytes;               /* all pieces, one after another */
    size_t *offsets;           /* [n_tokens + 1]: piece i is bytes[offsets[i], offsets[i+1]) */
    uint8_t *types;            /* [n_tokens], enum locus_token_type */
    int32_t bos, eos, unknown; /* -1: none */
};

/* Turns a token's text into the bytes that it stands for (n_bytes of room in `out`; returns how
 * many), and may correct its type. `typed` is false if the checkpoint has no token types. */
typedef size_t locus_piece_decoder(const char *text, size_t n_bytes, bool typed, char *out,
                                   uint8_t *type);

/* Reads tokenizer.ggml.tokens, token_type and the ids of special tokens. */
enum locus_status locus_vocabulary_read(struct locus_vocabulary *vocabulary,
                                        const struct locus_checkpoint *checkpoint,
                                        locus_piece_decoder *decode, locus_error *error);

/* The vocabulary of raw bytes: ids 0 to 255, and as many more as tokenizer.ggml.tokens names or
 * the embedding has rows for. */
enum locus_status locus_vocabulary_read_bytes(struct locus_vocabulary *vocabulary,
                                              const struct locus_checkpoint *checkpoint,
                                              locus_error *error);
void locus_vocabulary_free(struct locus_vocabulary *vocabulary);

/* *scores[n_tokens] of tokenizer.ggml.scores, or of locus.tokenizer.scores where that is there: the
 * same with more digits. Finite, to be freed; NULL after a failure. */
enum locus_status locus_vocabulary_scores(const struct locus_vocabulary *vocabulary,
                                          const struct locus_checkpoint *checkpoint,
                                          double **scores, locus_error *error);

/* ids[256] become the first tokens of type byte for each byte; -1: there is none. */
void locus_vocabulary_bytes(const struct locus_vocabulary *vocabulary, int32_t *ids);

static inline const char *locus_vocabulary_piece(const struct locus_vocabulary *vocabulary,
                                                 int32_t id, size_t *n_bytes)
{
    *n_bytes = vocabulary->offsets[id + 1] - vocabulary->offsets[id];
    return vocabulary->bytes + vocabulary->offsets[id];
}

/* ---- ids by bytes ------------------------------------------------------------------------- */

struct locus_piece {
    const char *bytes;
    size_t n_bytes;
    int32_t id;
};

/* The tokens whose type t has its bit in `types`, but for empty ones, in the order of their ids; to
 * be freed, with room for one more. NULL: no memory. */
struct locus_piece *locus_pieces_collect(const struct locus_vocabulary *vocabulary, unsigned types,
                                         size_t *count);

/* The tokens of some types, to be found by their bytes; of equal ones the first. As in rules.h,
 * what finds no room in the hash table within LOCUS_PROBES slots is in a sorted list. */
struct locus_piece_map {
    const struct locus_vocabulary *vocabulary;
    int32_t *slots; /* id + 1, or 0 */
    size_t mask;
    struct locus_piece *others; /* [n_others] */
    size_t n_others;
    size_t longest; /* bytes of the longest piece in it */
};

/* Bit t of `types` takes tokens of type t in; empty pieces never are. The vocabulary must outlive
 * it. */
enum locus_status locus_piece_map_create(struct locus_piece_map *map,
                                         const struct locus_vocabulary *vocabulary, unsigned types,
                                         locus_error *error);
void locus_piece_map_free(struct locus_piece_map *map);

/* The id, or -1. *n_compared, nullable, grows by the pieces looked at: at most LOCUS_PROBES and
 * 1 + log2 of how many there are. */
int32_t locus_piece_map_find(const struct locus_piece_map *map, const char *bytes, size_t n_bytes,
                             size_t *n_compared);

/* ---- a growing list of ids ---------------------------------------------------------------- */

/* Zero-initialise; after a failed allocation `failed` stays set and nothing is added. */
struct locus_ids {
    int32_t *values;
    size_t length, capacity;
    bool failed;
};

void locus_ids_grow(struct locus_ids *ids);

static inline void locus_ids_add(struct locus_ids *ids, int32_t id)
{
    if (ids->length == ids->capacity) locus_ids_grow(ids);
    if (!ids->failed) ids->values[ids->length++] = id;
}

#endif
