/* The tokenizer: text to tokens and back.
 *
 *     text -> added tokens cut out (special and user-defined ones)
 *          -> each segment between them normalized, where the file says how; normalized tokens cut
 * out
 *          -> each segment left by the vocabulary's kind (bpe, sentencepiece, unigram, bytes)
 *
 * The pieces of a text's tokens, one after another, are the text, whatever its bytes are; but for
 * blanks that an added token takes along, for what a normalizer changes, and for a text that has
 * the space that would be put before it.
 */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/spec.h"
#include "base/text.h"
#include "model/model.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/keys.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/unigram.h"
#include "tokenizer/vocabulary.h"

#define ADD_SPACE_PREFIX "tokenizer.ggml.add_space_prefix"
#define PREFIX "locus.tokenizer.prefix"
#define NORMALIZER "locus.tokenizer.normalizer"
#define IGNORE_MERGES "locus.tokenizer.ignore_merges"
#define NO_MERGES "only byte-level BPE has merges to ignore"
#define MERGES "locus.tokenizer.merges"
#define NOT_BPE "it has no merges, as BPE has"
#define SUFFIX "locus.tokenizer.suffix"
#define NO_SUFFIX "words end with a space for llama alone"
#define SPLIT "locus.tokenizer.split"
#define NO_SPLIT "words are split for llama and t5 alone"

/* Which segments of a normalized text get a space, unless they begin with one. */
enum prefix { PREFIX_NONE, PREFIX_FIRST, PREFIX_EACH };

struct locus_tokenizer {
    struct locus_vocabulary vocabulary;
    const char *kind;
    struct locus_bpe *bpe; /* one of these three; none: bytes */
    struct locus_sentencepiece *sentencepiece;
    struct locus_unigram *unigram;
    struct locus_normalizer *normalizer; /* NULL: none */
    enum prefix prefix;
    /* Sentencepiece and unigram: a text is normalized, and gets `prefix`, as the file's own keys of
     * ours say, or for unigram llama.cpp's. */
    bool normalizes;
    struct locus_added *added;
    int32_t begin, end;      /* what LOCUS_TEXT_BEGIN and LOCUS_TEXT_END put, or -1 */
    bool add_begin, add_end; /* the kind's defaults, where the file doesn't say */
    /* SentencePiece BPE without a normalizer: a space before a text, and after a control token;
     * byte-level BPE: before every segment that doesn't begin with one. */
    bool space_prefix;
};

static enum locus_status create_bpe(struct locus_tokenizer *tokenizer,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    enum locus_status status =
        locus_vocabulary_read(&tokenizer->vocabulary, checkpoint, locus_bpe_piece, error);
    if (status) return status;
    tokenizer->bpe = locus_bpe_create(&tokenizer->vocabulary, checkpoint, error);
    if (!tokenizer->bpe) return LOCUS_ERROR_FORMAT;
    tokenizer->add_begin = locus_bpe_begin(tokenizer->bpe);
    status = locus_key_refuse(checkpoint, SPLIT, NO_SPLIT, error);
    if (!status) status = locus_key_refuse(checkpoint, SUFFIX, NO_SUFFIX, error);
    if (status) return status;
    return locus_key_flag(checkpoint, ADD_SPACE_PREFIX, &tokenizer->space_prefix, error);
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
    tokenizer->add_begin = tokenizer->space_prefix = true;
    status = locus_key_refuse(checkpoint, IGNORE_MERGES, NO_MERGES, error);
    if (status) return status;
    return locus_key_flag(checkpoint, ADD_SPACE_PREFIX, &tokenizer->space_prefix, error);
}

static enum locus_status create_unigram(struct locus_tokenizer *tokenizer,
                                        const struct locus_checkpoint *checkpoint,
                                        locus_error *error)
{
    enum locus_status status = locus_key_refuse(checkpoint, IGNORE_MERGES, NO_MERGES, error);
    if (!status) status = locus_key_refuse(checkpoint, MERGES, NOT_BPE, error);
    if (!status) status = locus_key_refuse(checkpoint, SUFFIX, NO_SUFFIX, error);
    if (!status)
        status = locus_vocabulary_read(&tokenizer->vocabulary, checkpoint,
                                       locus_sentencepiece_piece, error);
    if (status) return status;
    tokenizer->unigram = locus_unigram_create(&tokenizer->vocabulary, checkpoint, error);
    if (!tokenizer->unigram) return LOCUS_ERROR_FORMAT;
    tokenizer->add_end = true;
    return locus_key_flag(checkpoint, ADD_SPACE_PREFIX, &tokenizer->space_prefix, error);
}

static enum locus_status create_bytes(struct locus_tokenizer *tokenizer,
                                      const struct locus_checkpoint *checkpoint, locus_error *error)
{
    enum locus_status status = locus_key_refuse(checkpoint, IGNORE_MERGES, NO_MERGES, error);
    if (!status) status = locus_key_refuse(checkpoint, MERGES, NOT_BPE, error);
    if (!status) status = locus_key_refuse(checkpoint, SUFFIX, NO_SUFFIX, error);
    if (!status) status = locus_key_refuse(checkpoint, SPLIT, NO_SPLIT, error);
    if (!status)
        status = locus_key_refuse(checkpoint, ADD_SPACE_PREFIX, "bytes have no space before them",
                                  error);
    return status ? status : locus_vocabulary_read_bytes(&tokenizer->vocabulary, checkpoint, error);
}

/* tokenizer.ggml.model, and what it stands for. */
static const struct {
    const char *name, *kind;
    enum locus_status (*create)(struct locus_tokenizer *tokenizer,
                                const struct locus_checkpoint *checkpoint, locus_error *error);
} kinds[] = {
    {"gpt2", "byte-level BPE", create_bpe},
    {"llama", "SentencePiece BPE", create_sentencepiece},
    {"t5", "Unigram", create_unigram},
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
                      "%s: %s is \"%.*s\", expected gpt2, llama, t5 or bytes", path, key,
                      (int)(n_bytes < 24 ? n_bytes : 24), name);
}

static enum locus_status read_prefix(struct locus_tokenizer *tokenizer,
                                     const struct locus_checkpoint *checkpoint, locus_error *error)
{
    const char *name, *path = locus_checkpoint_path(checkpoint);
    size_t n_bytes;
    if (!locus_checkpoint_has(checkpoint, PREFIX)) return LOCUS_OK;
    if (!locus_checkpoint_string(checkpoint, PREFIX, &name, &n_bytes))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " PREFIX " is not a string", path);
    int index = locus_choice_find("none|first|each", (struct locus_word){name, n_bytes});
    if (index < 0)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: " PREFIX " is \"%.*s\", expected none, first or each", path,
                          (int)(n_bytes < 24 ? n_bytes : 24), name);
    if (!tokenizer->sentencepiece && !tokenizer->unigram)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: " PREFIX " is set; it is read for llama and t5 alone", path);
    tokenizer->prefix = (enum prefix)index;
    tokenizer->normalizes = true;
    return LOCUS_OK;
}

/* What is done to a text first. Keys of llama.cpp's for that count where our own is absent. */
static enum locus_status read_normalizer(struct locus_tokenizer *tokenizer,
                                         const struct locus_checkpoint *checkpoint,
                                         locus_error *error)
{
    static const char charsmap[] = "tokenizer.ggml.precompiled_charsmap";
    const char *path = locus_checkpoint_path(checkpoint);
    enum locus_status status = locus_normalizer_read(&tokenizer->normalizer, checkpoint, error);
    if (!status) status = read_prefix(tokenizer, checkpoint, error);
    if (status) return status;
    bool bytes = !tokenizer->bpe && !tokenizer->sentencepiece && !tokenizer->unigram;
    if (tokenizer->normalizer && bytes)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: " NORMALIZER " is set: bytes are taken as they are", path);
    tokenizer->normalizes |= tokenizer->normalizer && !tokenizer->bpe;
    if (tokenizer->normalizer || tokenizer->normalizes) return LOCUS_OK;
    tokenizer->normalizes = tokenizer->unigram;
    if (tokenizer->unigram)
        return locus_normalizer_sentencepiece(&tokenizer->normalizer, checkpoint,
                                              tokenizer->space_prefix, error);
    enum locus_value_type type;
    const char *text;
    size_t count = 1;
    bool empty = (locus_checkpoint_array(checkpoint, charsmap, &type, &count) ||
                  locus_checkpoint_string(checkpoint, charsmap, &text, &count)) &&
                 count == 0;
    if (locus_checkpoint_has(checkpoint, charsmap) && !empty)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: %s is set: of llama.cpp's files it is read for t5 alone", path,
                          charsmap);
    return locus_key_refuse(checkpoint, "tokenizer.ggml.remove_extra_whitespaces",
                            "blanks of a text are dropped for t5 alone", error);
}

/* The tokens that begin and end a text. */
static enum locus_status read_marks(struct locus_tokenizer *tokenizer,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    const struct {
        const char *key, *id_key;
        bool fallback;
        int32_t id, *mark;
    } marks[] = {
        {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", tokenizer->add_begin,
         tokenizer->vocabulary.bos, &tokenizer->begin},
        {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", tokenizer->add_end,
         tokenizer->vocabulary.eos, &tokenizer->end},
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        bool add = marks[i].fallback;
        enum locus_status status = locus_key_flag(checkpoint, marks[i].key, &add, error);
        if (status) return status;
        if (add && marks[i].id < 0 && locus_checkpoint_has(checkpoint, marks[i].key))
            return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is true, but %s is absent",
                              locus_checkpoint_path(checkpoint), marks[i].key, marks[i].id_key);
        *marks[i].mark = add ? marks[i].id : -1;
    }
    return LOCUS_OK;
}

locus_tokenizer *locus_tokenizer_from_checkpoint(const struct locus_checkpoint *checkpoint,
                                                 locus_error *error)
{
    locus_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer) {
        locus_fail_memory(error, sizeof *tokenizer);
        return NULL;
    }
    if (locus_keys_check(checkpoint, error) || create_kind(tokenizer, checkpoint, error) ||
        locus_keys_check_size(checkpoint, tokenizer->vocabulary.n_tokens, error) ||
        read_normalizer(tokenizer, checkpoint, error) || read_marks(tokenizer, checkpoint, error) ||
        !(tokenizer->added = locus_added_create(&tokenizer->vocabulary, checkpoint,
                                                tokenizer->normalizer, error))) {
        locus_tokenizer_free(tokenizer);
        return NULL;
    }
    return tokenizer;
}

locus_tokenizer *locus_tokenizer_create(const locus_model *model, locus_error *error)
{
    return model ? locus_tokenizer_from_checkpoint(locus_model_checkpoint(model), error) : NULL;
}

void locus_tokenizer_free(locus_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    locus_added_free(tokenizer->added);
    locus_bpe_free(tokenizer->bpe);
    locus_sentencepiece_free(tokenizer->sentencepiece);
    locus_unigram_free(tokenizer->unigram);
    locus_normalizer_free(tokenizer->normalizer);
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

int32_t locus_tokenizer_begin(const locus_tokenizer *tokenizer)
{
    return tokenizer->begin;
}

int32_t locus_tokenizer_end(const locus_tokenizer *tokenizer)
{
    return tokenizer->end;
}

const char *locus_tokenizer_assumed(const locus_tokenizer *tokenizer)
{
    return tokenizer->bpe ? locus_bpe_assumed(tokenizer->bpe) : NULL;
}

/* ---- text to tokens ----------------------------------------------------------------------- */

struct encoder {
    const locus_tokenizer *tokenizer;
    char *copy; /* of the text, with room for a space before it; NULL where none is put */
    struct locus_buffer normalized,
        spaced; /* a segment after the normalizer, and with its prefix */
    struct locus_ids ids;
    bool begun;   /* something of the text itself is encoded */
    int32_t last; /* the added token that the text so far ends with, or -1 */
};

static bool is_type(const locus_tokenizer *tokenizer, int32_t id, enum locus_token_type type)
{
    return id >= 0 && id < tokenizer->vocabulary.n_tokens &&
           tokenizer->vocabulary.types[id] == type;
}

/* Byte-level BPE with a space before a segment that doesn't begin with one. */
static enum locus_status encode_spaced(struct encoder *encoder, const char *text, size_t n_bytes,
                                       locus_error *error)
{
    char *spaced = malloc(n_bytes + 1);
    if (!spaced) return locus_fail_memory(error, n_bytes + 1);
    spaced[0] = ' ';
    memcpy(spaced + 1, text, n_bytes);
    enum locus_status status =
        locus_bpe_encode(encoder->tokenizer->bpe, spaced, n_bytes + 1, &encoder->ids, error);
    free(spaced);
    return status;
}

/* Adds the tokens of a segment of text without added ones. */
static enum locus_status encode_plain(struct encoder *encoder, const char *text, size_t n_bytes,
                                      locus_error *error)
{
    const locus_tokenizer *tokenizer = encoder->tokenizer;
    struct locus_ids *ids = &encoder->ids;
    if (n_bytes == 0) return LOCUS_OK;
    encoder->begun = true;
    encoder->last = -1;
    if (tokenizer->sentencepiece)
        return locus_sentencepiece_encode(tokenizer->sentencepiece, text, n_bytes, ids, error);
    if (tokenizer->unigram)
        return locus_unigram_encode(tokenizer->unigram, text, n_bytes, ids, error);
    if (tokenizer->bpe && tokenizer->space_prefix && *text != ' ')
        return encode_spaced(encoder, text, n_bytes, error);
    if (tokenizer->bpe) return locus_bpe_encode(tokenizer->bpe, text, n_bytes, ids, error);
    for (size_t i = 0; i < n_bytes; i++)
        locus_ids_add(ids, (unsigned char)text[i]);
    return LOCUS_OK;
}

/* The same of a segment that is normalized. SentencePiece's kinds have a space or a U+2581, which
 * stands for one, as the space of their vocabularies. */
static enum locus_status encode_normalized(struct encoder *encoder, const char *text,
                                           size_t n_bytes, bool first, locus_error *error)
{
    static const char mark[] = "\u2581";
    enum { MARK = sizeof mark - 1 };
    const locus_tokenizer *tokenizer = encoder->tokenizer;
    struct locus_buffer *spaced = &encoder->spaced;
    bool suffixes =
        tokenizer->sentencepiece && locus_sentencepiece_suffixes(tokenizer->sentencepiece);
    if (!tokenizer->normalizes || suffixes || n_bytes == 0)
        return encode_plain(encoder, text, n_bytes, error);
    bool has = *text == ' ' || (n_bytes >= MARK && !memcmp(text, mark, MARK));
    bool puts = tokenizer->prefix == PREFIX_EACH || (tokenizer->prefix == PREFIX_FIRST && first);
    spaced->length = 0;
    if (puts && !has) locus_buffer_append(spaced, " ", 1);
    for (size_t at = 0; at < n_bytes;) {
        const char *next = memmem(text + at, n_bytes - at, mark, MARK);
        size_t end = next ? (size_t)(next - text) : n_bytes;
        locus_buffer_append(spaced, text + at, end - at);
        if (next) locus_buffer_append(spaced, " ", 1);
        at = next ? end + MARK : n_bytes;
    }
    if (spaced->failed) return locus_fail_memory(error, n_bytes);
    return encode_plain(encoder, spaced->bytes, spaced->length, error);
}

/* Adds a token of the text's own; the begin-of-text token that was put stands for one that the text
 * begins with. */
static void add_own(struct encoder *encoder, int32_t id, bool begins)
{
    if (encoder->begun || !begins || id != encoder->tokenizer->begin)
        locus_ids_add(&encoder->ids, id);
    encoder->begun = true;
    encoder->last = id;
}

/* Encodes a segment between added tokens, the first of its text or not: with a normalizer, tokens
 * that are looked for after it are cut out of it. */
static enum locus_status encode_stretch(struct encoder *encoder, const char *text, size_t n_bytes,
                                        unsigned flags, bool first, locus_error *error)
{
    const locus_tokenizer *tokenizer = encoder->tokenizer;
    if (n_bytes == 0) return LOCUS_OK;
    if (!tokenizer->normalizer && !tokenizer->normalizes &&
        !locus_added_any_normalized(tokenizer->added))
        return encode_plain(encoder, text, n_bytes, error);
    struct locus_buffer *normalized = &encoder->normalized;
    enum locus_status status =
        locus_normalizer_apply(tokenizer->normalizer, text, n_bytes, normalized, error);
    if (status) return status;
    size_t from = 0;
    struct locus_added_search search;
    struct locus_added_match match;
    status = locus_added_begin(&search, tokenizer->added, 1, flags & LOCUS_TEXT_SPECIAL,
                               normalized->bytes, normalized->length, error);
    while (!status && locus_added_next(&search, from, &match)) {
        status = encode_normalized(encoder, normalized->bytes + from, match.start - from,
                                   first && from == 0, error);
        add_own(encoder, match.id, flags & LOCUS_TEXT_BEGIN);
        from = match.end;
    }
    locus_added_end(&search);
    if (status) return status;
    return encode_normalized(encoder, normalized->bytes + from, normalized->length - from,
                             first && from == 0, error);
}

/* Encodes a text. A space that is put before a part of it stands in the copy: before the text, or
 * over the last byte of the control token there; user-defined tokens are looked for with it, and it
 * is nothing by itself. */
static enum locus_status encode(struct encoder *encoder, const char *text, size_t n_bytes,
                                unsigned flags, locus_error *error)
{
    const locus_tokenizer *tokenizer = encoder->tokenizer;
    bool special = flags & LOCUS_TEXT_SPECIAL, spaced = encoder->copy;
    size_t from = 0;
    struct locus_added_search search;
    struct locus_added_match match;
    enum locus_status status =
        locus_added_begin(&search, tokenizer->added, 0, special, text, n_bytes, error);
    while (!status && locus_added_next(&search, from, &match)) {
        bool user = is_type(tokenizer, match.id, LOCUS_TOKEN_USER);
        size_t n = match.start - from;
        if (n > 1 || !spaced || user)
            status = encode_stretch(encoder, text + from, n, flags, from == 0, error);
        add_own(encoder, match.id, flags & LOCUS_TEXT_BEGIN);
        from = match.end;
        spaced = encoder->copy && is_type(tokenizer, match.id, LOCUS_TOKEN_CONTROL);
        if (!spaced) continue;
        encoder->copy[--from] = ' ';
        locus_added_put_space(&search, from);
    }
    locus_added_end(&search);
    if (status || n_bytes - from <= (spaced ? 1 : 0)) return status;
    return encode_stretch(encoder, text + from, n_bytes - from, flags, from == 0, error);
}

static enum locus_status encode_marked(struct encoder *encoder, const char *text, size_t n_bytes,
                                       unsigned flags, locus_error *error)
{
    const locus_tokenizer *tokenizer = encoder->tokenizer;
    char *copy = NULL;
    if (tokenizer->sentencepiece && tokenizer->space_prefix && !tokenizer->normalizes) {
        if (!(copy = malloc(n_bytes + 1))) return locus_fail_memory(error, n_bytes + 1);
        copy[0] = ' ';
        if (n_bytes) memcpy(copy + 1, text, n_bytes);
        text = encoder->copy = copy;
        n_bytes++;
    }
    if (flags & LOCUS_TEXT_BEGIN && tokenizer->begin >= 0)
        locus_ids_add(&encoder->ids, tokenizer->begin);
    enum locus_status status = encode(encoder, text, n_bytes, flags, error);
    if (!status && flags & LOCUS_TEXT_END && tokenizer->end >= 0 && encoder->last != tokenizer->end)
        locus_ids_add(&encoder->ids, tokenizer->end);
    if (!status && encoder->ids.failed)
        status = locus_fail_memory(error, n_bytes * sizeof *encoder->ids.values);
    free(copy);
    locus_buffer_free(&encoder->normalized);
    locus_buffer_free(&encoder->spaced);
    return status;
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
    struct encoder encoder = {.tokenizer = tokenizer, .last = -1};
    enum locus_status status = encode_marked(&encoder, text, n_bytes, flags, error);
    if (status || encoder.ids.length == 0) {
        free(encoder.ids.values);
        return status;
    }
    *tokens = encoder.ids.values;
    *n_tokens = encoder.ids.length;
    return LOCUS_OK;
}

/* ---- tokens to text ----------------------------------------------------------------------- */

/* Whether what follows this token (-1: none) begins with a space of its own, added when it was
 * encoded and dropped when it is decoded. */
static bool has_prefix(const locus_tokenizer *tokenizer, int32_t previous)
{
    bool first = previous < 0 || previous == tokenizer->vocabulary.bos;
    bool control = is_type(tokenizer, previous, LOCUS_TOKEN_CONTROL);
    if (!tokenizer->normalizes)
        return tokenizer->space_prefix && (first || (tokenizer->sentencepiece && control));
    if (locus_normalizer_puts_space(tokenizer->normalizer))
        return first || control || is_type(tokenizer, previous, LOCUS_TOKEN_USER);
    return tokenizer->prefix != PREFIX_NONE && first;
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
    /* Byte-level BPE matches a user-defined token before a space is put. */
    bool own = special || (tokenizer->bpe && type == LOCUS_TOKEN_USER);
    bool drop = *n_bytes > 0 && *piece == ' ' && !own && has_prefix(tokenizer, previous);
    *n_bytes -= drop;
    return piece + drop;
}
