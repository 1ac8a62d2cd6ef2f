/* The vocabulary as the checkpoint's metadata has it: see vocabulary.h.
 *
 * Whatever the metadata holds, what comes out is whole: n_tokens pieces and types, and special ids
 * that are -1 or below n_tokens.
 */
#include "tokenizer/vocabulary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

#define TOKENS "tokenizer.ggml.tokens"
#define TYPES "tokenizer.ggml.token_type"

/* The texts and types as they stand in the file. */
struct raw_tokens {
    size_t count;
    const char **texts; /* [count] */
    size_t *lengths;    /* [count] */
    double *types;      /* [count], or NULL when the file has none */
};

static void raw_free(struct raw_tokens *raw)
{
    free(raw->texts);
    free(raw->lengths);
    free(raw->types);
}

static enum locus_status raw_read_types(struct raw_tokens *raw,
                                        const struct locus_checkpoint *checkpoint,
                                        locus_error *error)
{
    const char *path = locus_checkpoint_path(checkpoint);
    enum locus_value_type type;
    size_t count;
    if (!locus_checkpoint_has(checkpoint, TYPES)) return LOCUS_OK;
    if (!locus_checkpoint_array(checkpoint, TYPES, &type, &count) || type == LOCUS_VALUE_STRING)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " TYPES " is not an array of numbers",
                          path);
    if (count != raw->count)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: " TYPES " has %zu entries, expected %zu as " TOKENS, path, count,
                          raw->count);
    raw->types = calloc(count + 1, sizeof *raw->types);
    if (!raw->types) return locus_fail_memory(error, count * sizeof *raw->types);
    if (!locus_checkpoint_array_numbers(checkpoint, TYPES, raw->types))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " TYPES " is not an array of numbers",
                          path);
    for (size_t i = 0; i < count; i++)
        if (!(raw->types[i] >= LOCUS_TOKEN_NORMAL && raw->types[i] <= LOCUS_TOKEN_BYTE &&
              floor(raw->types[i]) == raw->types[i]))
            return locus_fail(error, LOCUS_ERROR_FORMAT,
                              "%s: " TYPES "[%zu] is %g, expected 1 to 6", path, i, raw->types[i]);
    return LOCUS_OK;
}

static enum locus_status raw_read(struct raw_tokens *raw, const struct locus_checkpoint *checkpoint,
                                  locus_error *error)
{
    const char *path = locus_checkpoint_path(checkpoint);
    enum locus_value_type type;
    if (!locus_checkpoint_array(checkpoint, TOKENS, &type, &raw->count) ||
        type != LOCUS_VALUE_STRING)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " TOKENS " is %s, expected strings", path,
                          locus_checkpoint_has(checkpoint, TOKENS) ? "something else" : "absent");
    if (raw->count > INT32_MAX - 1)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " TOKENS " has %zu entries, at most %d",
                          path, raw->count, INT32_MAX - 1);
    raw->texts = calloc(raw->count + 1, sizeof *raw->texts);
    raw->lengths = calloc(raw->count + 1, sizeof *raw->lengths);
    if (!raw->texts || !raw->lengths)
        return locus_fail_memory(error, raw->count * sizeof *raw->texts);
    if (!locus_checkpoint_array_strings(checkpoint, TOKENS, raw->texts, raw->lengths))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " TOKENS " is not an array of strings",
                          path);
    return raw_read_types(raw, checkpoint, error);
}

/* A special token's id: -1 when the key is absent. */
static enum locus_status read_id(int32_t *id, const struct locus_checkpoint *checkpoint,
                                 const char *key, int n_tokens, locus_error *error)
{
    const char *path = locus_checkpoint_path(checkpoint);
    int64_t value = -1;
    *id = -1;
    if (!locus_checkpoint_has(checkpoint, key)) return LOCUS_OK;
    if (!locus_checkpoint_int(checkpoint, key, &value))
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not an integer", path, key);
    if (value < 0 || value >= n_tokens)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: %s is %lld, expected 0 to %d (the vocabulary's last id)", path, key,
                          (long long)value, n_tokens - 1);
    *id = (int32_t)value;
    return LOCUS_OK;
}

static enum locus_status read_special_ids(struct locus_vocabulary *vocabulary,
                                          const struct locus_checkpoint *checkpoint,
                                          locus_error *error)
{
    const struct {
        const char *key;
        int32_t *id;
    } keys[] = {{"tokenizer.ggml.bos_token_id", &vocabulary->bos},
                {"tokenizer.ggml.eos_token_id", &vocabulary->eos},
                {"tokenizer.ggml.unknown_token_id", &vocabulary->unknown}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        enum locus_status status =
            read_id(keys[i].id, checkpoint, keys[i].key, vocabulary->n_tokens, error);
        if (status) return status;
    }
    return LOCUS_OK;
}

static enum locus_status reserve(struct locus_vocabulary *vocabulary, size_t n_tokens,
                                 size_t n_bytes, locus_error *error)
{
    vocabulary->n_tokens = (int)n_tokens;
    vocabulary->bytes = malloc(n_bytes + 1);
    vocabulary->offsets = calloc(n_tokens + 1, sizeof *vocabulary->offsets);
    vocabulary->types = calloc(n_tokens + 1, sizeof *vocabulary->types);
    if (vocabulary->bytes && vocabulary->offsets && vocabulary->types) return LOCUS_OK;
    return locus_fail_memory(error, n_bytes + n_tokens * sizeof *vocabulary->offsets);
}

static size_t total_length(const struct raw_tokens *raw, size_t first)
{
    /* The texts lie in the file, one after another: their sum can't overflow. */
    size_t n_bytes = 0;
    for (size_t i = first; i < raw->count; i++)
        n_bytes += raw->lengths[i];
    return n_bytes;
}

static uint8_t raw_type(const struct raw_tokens *raw, size_t index, uint8_t fallback)
{
    return raw->types ? (uint8_t)raw->types[index] : fallback;
}

/* Types for a file without them: what the special ids say. */
static void type_specials(struct locus_vocabulary *vocabulary)
{
    if (vocabulary->bos >= 0) vocabulary->types[vocabulary->bos] = LOCUS_TOKEN_CONTROL;
    if (vocabulary->eos >= 0) vocabulary->types[vocabulary->eos] = LOCUS_TOKEN_CONTROL;
    if (vocabulary->unknown >= 0 && vocabulary->types[vocabulary->unknown] == LOCUS_TOKEN_NORMAL)
        vocabulary->types[vocabulary->unknown] = LOCUS_TOKEN_UNKNOWN;
}

static enum locus_status fill(struct locus_vocabulary *vocabulary, const struct raw_tokens *raw,
                              const struct locus_checkpoint *checkpoint,
                              locus_piece_decoder *decode, locus_error *error)
{
    if (raw->count == 0)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: " TOKENS " is empty",
                          locus_checkpoint_path(checkpoint));
    enum locus_status status = reserve(vocabulary, raw->count, total_length(raw, 0), error);
    if (!status) status = read_special_ids(vocabulary, checkpoint, error);
    if (status) return status;
    for (size_t i = 0; i < raw->count; i++)
        vocabulary->types[i] = raw_type(raw, i, LOCUS_TOKEN_NORMAL);
    if (!raw->types) type_specials(vocabulary);
    size_t end = 0;
    for (size_t i = 0; i < raw->count; i++) {
        end += decode(raw->texts[i], raw->lengths[i], raw->types != NULL, vocabulary->bytes + end,
                      &vocabulary->types[i]);
        vocabulary->offsets[i + 1] = end;
    }
    for (size_t i = 0; i < raw->count && vocabulary->unknown < 0; i++)
        if (vocabulary->types[i] == LOCUS_TOKEN_UNKNOWN) vocabulary->unknown = (int32_t)i;
    return LOCUS_OK;
}

enum locus_status locus_vocabulary_read(struct locus_vocabulary *vocabulary,
                                        const struct locus_checkpoint *checkpoint,
                                        locus_piece_decoder *decode, locus_error *error)
{
    *vocabulary = (struct locus_vocabulary){.bos = -1, .eos = -1, .unknown = -1};
    struct raw_tokens raw = {0};
    enum locus_status status = raw_read(&raw, checkpoint, error);
    if (!status) status = fill(vocabulary, &raw, checkpoint, decode, error);
    raw_free(&raw);
    if (status) locus_vocabulary_free(vocabulary);
    return status;
}

/* How many ids a vocabulary of bytes has when the file doesn't list them. */
static size_t byte_ids_without_names(const struct locus_checkpoint *checkpoint)
{
    const struct locus_tensor *embedding = locus_checkpoint_tensor(checkpoint, "token_embd.weight");
    bool fits = embedding && embedding->dims[1] > 256 && embedding->dims[1] < INT32_MAX;
    return fits ? (size_t)embedding->dims[1] : 256;
}

static enum locus_status fill_bytes(struct locus_vocabulary *vocabulary,
                                    const struct raw_tokens *raw,
                                    const struct locus_checkpoint *checkpoint, locus_error *error)
{
    if (raw->texts && raw->count < 256)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: " TOKENS " has %zu entries, expected at least 256 for bytes",
                          locus_checkpoint_path(checkpoint), raw->count);
    size_t n_tokens = raw->texts ? raw->count : byte_ids_without_names(checkpoint);
    enum locus_status status = reserve(vocabulary, n_tokens, 256 + total_length(raw, 256), error);
    if (!status) status = read_special_ids(vocabulary, checkpoint, error);
    if (status) return status;
    size_t end = 0;
    for (size_t i = 0; i < n_tokens; i++) {
        vocabulary->types[i] = i < 256 ? LOCUS_TOKEN_NORMAL : raw_type(raw, i, LOCUS_TOKEN_CONTROL);
        if (i < 256) {
            vocabulary->bytes[end++] = (char)(unsigned char)i;
        } else if (raw->texts) {
            memcpy(vocabulary->bytes + end, raw->texts[i], raw->lengths[i]);
            end += raw->lengths[i];
        }
        vocabulary->offsets[i + 1] = end;
    }
    return LOCUS_OK;
}

enum locus_status locus_vocabulary_read_bytes(struct locus_vocabulary *vocabulary,
                                              const struct locus_checkpoint *checkpoint,
                                              locus_error *error)
{
    *vocabulary = (struct locus_vocabulary){.bos = -1, .eos = -1, .unknown = -1};
    struct raw_tokens raw = {0};
    enum locus_status status = LOCUS_OK;
    if (locus_checkpoint_has(checkpoint, TOKENS)) status = raw_read(&raw, checkpoint, error);
    if (!status) status = fill_bytes(vocabulary, &raw, checkpoint, error);
    raw_free(&raw);
    if (status) locus_vocabulary_free(vocabulary);
    return status;
}

void locus_vocabulary_free(struct locus_vocabulary *vocabulary)
{
    free(vocabulary->bytes);
    free(vocabulary->offsets);
    free(vocabulary->types);
    *vocabulary = (struct locus_vocabulary){.bos = -1, .eos = -1, .unknown = -1};
}

/* ---- what some kinds have besides --------------------------------------------------------- */

enum locus_status locus_vocabulary_scores(const struct locus_vocabulary *vocabulary,
                                          const struct locus_checkpoint *checkpoint,
                                          double **scores, locus_error *error)
{
    static const char plain[] = "tokenizer.ggml.scores", exact[] = "locus.tokenizer.scores";
    const char *key = locus_checkpoint_has(checkpoint, exact) ? exact : plain;
    const char *path = locus_checkpoint_path(checkpoint);
    size_t n_tokens = (size_t)vocabulary->n_tokens, count;
    enum locus_value_type type;
    *scores = NULL;
    if (!locus_checkpoint_array(checkpoint, key, &type, &count) || type == LOCUS_VALUE_STRING)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is %s, expected numbers", path, key,
                          locus_checkpoint_has(checkpoint, key) ? "something else" : "absent");
    if (count != n_tokens)
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "%s: %s has %zu entries, expected %zu as " TOKENS, path, key, count,
                          n_tokens);
    double *values = calloc(count, sizeof *values);
    if (!values) return locus_fail_memory(error, count * sizeof *values);
    enum locus_status status = LOCUS_OK;
    if (!locus_checkpoint_array_numbers(checkpoint, key, values))
        status = locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is something else, expected numbers",
                            path, key);
    for (size_t i = 0; i < count && !status; i++)
        if (!isfinite(values[i]))
            status =
                locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s[%zu] is %g, expected a finite number",
                           path, key, i, values[i]);
    if (status)
        free(values);
    else
        *scores = values;
    return status;
}

void locus_vocabulary_bytes(const struct locus_vocabulary *vocabulary, int32_t *ids)
{
    for (int byte = 0; byte < 256; byte++)
        ids[byte] = -1;
    for (int id = vocabulary->n_tokens - 1; id >= 0; id--) {
        size_t n_bytes;
        const char *piece = locus_vocabulary_piece(vocabulary, id, &n_bytes);
        if (vocabulary->types[id] == LOCUS_TOKEN_BYTE && n_bytes == 1)
            ids[(unsigned char)*piece] = id;
    }
}
