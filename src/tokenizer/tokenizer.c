/* The tokenizer: text to tokens and back.
 *
 *     text -> special and user-defined tokens cut out (matcher, longest first)
 *          -> each stretch between them by the vocabulary's kind (bpe, sentencepiece, bytes)
 *
 * The pieces of a text's tokens, one after another, are the text, whatever its bytes are.
 */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "model/model.h"
#include "tokenizer/bpe.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/vocabulary.h"

struct locus_tokenizer {
    struct locus_vocabulary vocabulary;
    const char *kind;
    struct locus_bpe *bpe; /* one of these two; neither: bytes */
    struct locus_sentencepiece *sentencepiece;
    struct locus_matcher user;    /* user-defined tokens, matched in any text */
    struct locus_matcher special; /* those and special ones, for LOCUS_TEXT_SPECIAL */
    bool add_begin;               /* LOCUS_TEXT_BEGIN puts begin-of-text */
    bool space_prefix;            /* a space before the first word */
};

static bool read_flag(const struct locus_checkpoint *checkpoint, const char *key, bool fallback)
{
    (void)locus_checkpoint_bool(checkpoint, key, &fallback);
    return fallback;
}

static enum locus_status create_bpe(struct locus_tokenizer *tokenizer,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    enum locus_status status =
        locus_vocabulary_read(&tokenizer->vocabulary, checkpoint, locus_bpe_piece, error);
    if (status) return status;
    tokenizer->bpe = locus_bpe_create(&tokenizer->vocabulary, checkpoint, error);
    if (!tokenizer->bpe) return LOCUS_ERROR_FORMAT;
    tokenizer->add_begin = locus_bpe_begin(tokenizer->bpe);
    return LOCUS_OK;
}

static enum locus_status create_sentencepiece(struct locus_tokenizer *tokenizer,
                                              const struct locus_checkpoint *checkpoint,
                                              locus_error *error)
{
    enum locus_status status =
        locus_vocabulary_read(&tokenizer->vocabulary, checkpoint, locus_sentencepiece_piece, error);
    if (status) return status;
    tokenizer->sentencepiece =
        locus_sentencepiece_create(&tokenizer->vocabulary, checkpoint, error);
    if (!tokenizer->sentencepiece) return LOCUS_ERROR_FORMAT;
    tokenizer->add_begin = true;
    tokenizer->space_prefix = read_flag(checkpoint, "tokenizer.ggml.add_space_prefix", true);
    return LOCUS_OK;
}

static enum locus_status create_bytes(struct locus_tokenizer *tokenizer,
                                      const struct locus_checkpoint *checkpoint, locus_error *error)
{
    return locus_vocabulary_read_bytes(&tokenizer->vocabulary, checkpoint, error);
}

/* tokenizer.ggml.model, and what it stands for. */
static const struct {
    const char *name, *kind;
    enum locus_status (*create)(struct locus_tokenizer *tokenizer,
                                const struct locus_checkpoint *checkpoint, locus_error *error);
} kinds[] = {
    {"gpt2", "byte-level BPE", create_bpe},
    {"llama", "SentencePiece BPE", create_sentencepiece},
    {"bytes", "bytes", create_bytes},
};

static enum locus_status create_kind(struct locus_tokenizer *tokenizer,
                                     const struct locus_checkpoint *checkpoint, locus_error *error)
{
    static const char key[] = "tokenizer.ggml.model";
    const char *path = locus_checkpoint_path(checkpoint), *name;
    size_t n_bytes;
    if (!locus_checkpoint_has(checkpoint, key))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: holds no tokenizer (%s is absent)", path,
                          key);
    if (!locus_checkpoint_string(checkpoint, key, &name, &n_bytes))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not a string", path, key);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!locus_text_is(name, n_bytes, kinds[i].name)) continue;
        tokenizer->kind = kinds[i].kind;
        return kinds[i].create(tokenizer, checkpoint, error);
    }
    return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                      "%s: %s is \"%.*s\", expected gpt2, llama or bytes", path, key,
                      (int)(n_bytes < 24 ? n_bytes : 24), name);
}

locus_tokenizer *locus_tokenizer_from_checkpoint(const struct locus_checkpoint *checkpoint,
                                                 locus_error *error)
{
    locus_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) {
        locus_fail_memory(error, sizeof *tokenizer);
        return NULL;
    }
    const unsigned user = 1u << LOCUS_TOKEN_USER;
    const unsigned special = user | 1u << LOCUS_TOKEN_CONTROL | 1u << LOCUS_TOKEN_UNKNOWN;
    const struct locus_vocabulary *vocabulary = &tokenizer->vocabulary;
    if (create_kind(tokenizer, checkpoint, error) ||
        locus_matcher_create(&tokenizer->user, vocabulary, user, error) ||
        locus_matcher_create(&tokenizer->special, vocabulary, special, error)) {
        locus_tokenizer_free(tokenizer);
        return NULL;
    }
    tokenizer->add_begin =
        read_flag(checkpoint, "tokenizer.ggml.add_bos_token", tokenizer->add_begin) &&
        vocabulary->bos >= 0;
    return tokenizer;
}

locus_tokenizer *locus_tokenizer_create(const locus_model *model, locus_error *error)
{
    return model ? locus_tokenizer_from_checkpoint(locus_model_checkpoint(model), error) : NULL;
}

void locus_tokenizer_free(locus_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    locus_matcher_free(&tokenizer->user);
    locus_matcher_free(&tokenizer->special);
    locus_bpe_free(tokenizer->bpe);
    locus_sentencepiece_free(tokenizer->sentencepiece);
    locus_vocabulary_free(&tokenizer->vocabulary);
    free(tokenizer);
}

const char *locus_tokenizer_kind(const locus_tokenizer *tokenizer)
{
    return tokenizer->kind;
}

int locus_tokenizer_n_tokens(const locus_tokenizer *tokenizer)
{
    return tokenizer->vocabulary.n_tokens;
}

/* Whether a text that follows this token (-1: none) begins with a space of its own, added when it
 * is encoded and dropped when it is decoded. */
static bool has_prefix(const locus_tokenizer *tokenizer, int32_t previous)
{
    return tokenizer->space_prefix && (previous < 0 || previous == tokenizer->vocabulary.bos);
}

/* Adds the tokens of a stretch of text without special tokens. */
static enum locus_status encode_plain(const locus_tokenizer *tokenizer, const char *text,
                                      size_t n_bytes, struct locus_ids *ids, locus_error *error)
{
    if (tokenizer->bpe) return locus_bpe_encode(tokenizer->bpe, text, n_bytes, ids, error);
    if (tokenizer->sentencepiece) {
        int32_t previous = ids->length ? ids->values[ids->length - 1] : -1;
        return locus_sentencepiece_encode(tokenizer->sentencepiece, text, n_bytes,
                                          has_prefix(tokenizer, previous), ids, error);
    }
    for (size_t i = 0; i < n_bytes; i++)
        locus_ids_add(ids, (unsigned char)text[i]);
    return LOCUS_OK;
}

static enum locus_status encode(const locus_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                const struct locus_matcher *matcher, struct locus_ids *ids,
                                locus_error *error)
{
    size_t start = 0;
    for (size_t at = 0; at < n_bytes && matcher->n_entries > 0;) {
        int32_t id;
        size_t length = locus_matcher_find(matcher, text + at, n_bytes - at, &id);
        if (length > 0) {
            enum locus_status status =
                encode_plain(tokenizer, text + start, at - start, ids, error);
            if (status) return status;
            locus_ids_add(ids, id);
            start = at + length;
        }
        at += length ? length : 1;
    }
    return encode_plain(tokenizer, text + start, n_bytes - start, ids, error);
}

enum locus_status locus_encode(const locus_tokenizer *tokenizer, const char *text, size_t n_bytes,
                               unsigned flags, int32_t **tokens, size_t *n_tokens,
                               locus_error *error)
{
    *tokens = NULL;
    *n_tokens = 0;
    /* Symbols are numbered in 31 bits; a text may gain a space. */
    if (n_bytes >= INT32_MAX)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "a text of %zu bytes, at most %d can be encoded at once", n_bytes,
                          INT32_MAX - 1);
    struct locus_ids ids = {0};
    const struct locus_matcher *matcher =
        flags & LOCUS_TEXT_SPECIAL ? &tokenizer->special : &tokenizer->user;
    if (flags & LOCUS_TEXT_BEGIN && tokenizer->add_begin)
        locus_ids_add(&ids, tokenizer->vocabulary.bos);
    enum locus_status status = encode(tokenizer, text, n_bytes, matcher, &ids, error);
    if (!status && ids.failed) status = locus_fail_memory(error, n_bytes * sizeof *ids.values);
    if (status || ids.length == 0) {
        free(ids.values);
        return status;
    }
    *tokens = ids.values;
    *n_tokens = ids.length;
    return LOCUS_OK;
}

const char *locus_token_piece(const locus_tokenizer *tokenizer, int32_t previous, int32_t token,
                              unsigned flags, size_t *n_bytes)
{
    const struct locus_vocabulary *vocabulary = &tokenizer->vocabulary;
    *n_bytes = 0;
    if (token < 0 || token >= vocabulary->n_tokens) return "";
    uint8_t type = vocabulary->types[token];
    bool special = type == LOCUS_TOKEN_CONTROL || type == LOCUS_TOKEN_UNKNOWN;
    if (special && !(flags & LOCUS_TEXT_SPECIAL)) return "";
    const char *piece = locus_vocabulary_piece(vocabulary, token, n_bytes);
    bool drop = *n_bytes > 0 && *piece == ' ' && !special && type != LOCUS_TOKEN_USER &&
                has_prefix(tokenizer, previous);
    *n_bytes -= drop;
    return piece + drop;
}
