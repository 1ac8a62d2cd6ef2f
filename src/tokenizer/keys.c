/* Metadata keys that change what a tokenizer does: see keys.h. */
#include "tokenizer/keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum locus_status locus_key_flag(const struct locus_checkpoint *checkpoint, const char *key,
                                 bool *value, locus_error *error)
{
    if (!locus_checkpoint_has(checkpoint, key) || locus_checkpoint_bool(checkpoint, key, value))
        return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not true or false",
                      locus_checkpoint_path(checkpoint), key);
}

enum locus_status locus_key_ids(const struct locus_checkpoint *checkpoint, const char *key,
                                uint8_t *bits, int n_tokens, uint8_t bit, locus_error *error)
{
    const char *path = locus_checkpoint_path(checkpoint);
    enum locus_value_type type;
    size_t count;
    if (!locus_checkpoint_has(checkpoint, key)) return LOCUS_OK;
    if (!locus_checkpoint_array(checkpoint, key, &type, &count) || type == LOCUS_VALUE_STRING ||
        type == LOCUS_VALUE_BOOL)
        return locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not an array of token ids", path,
                          key);
    double *values = calloc(count + 1, sizeof *values);
    if (!values) return locus_fail_memory(error, count * sizeof *values);
    enum locus_status status = LOCUS_OK;
    if (!locus_checkpoint_array_numbers(checkpoint, key, values))
        status =
            locus_fail(error, LOCUS_ERROR_FORMAT, "%s: %s is not an array of token ids", path, key);
    for (size_t i = 0; i < count && !status; i++) {
        if (values[i] >= 0 && values[i] < n_tokens && floor(values[i]) == values[i])
            bits[(size_t)values[i]] |= bit;
        else
            status = locus_fail(error, LOCUS_ERROR_FORMAT,
                                "%s: %s[%zu] is %g, expected 0 to %d (the vocabulary's last id)",
                                path, key, i, values[i], n_tokens - 1);
    }
    free(values);
    return status;
}

/* ---- keys that are refused ---------------------------------------------------------------- */

enum locus_status locus_key_refuse(const struct locus_checkpoint *checkpoint, const char *key,
                                   const char *why, locus_error *error)
{
    bool set = false;
    enum locus_status status = locus_key_flag(checkpoint, key, &set, error);
    if (status || !set) return status;
    return locus_fail(error, LOCUS_ERROR_UNSUPPORTED, "%s: %s is true: %s",
                      locus_checkpoint_path(checkpoint), key, why);
}

static const struct {
    const char *key, *why;
} refused[] = {
    {"tokenizer.ggml.remove_extra_whitespaces", "blanks of a text are not dropped here"},
    {"tokenizer.ggml.add_sep_token", "no separator is put after a text here"},
    {"tokenizer.ggml.normalizer.lowercase", "texts are not put into lower case here"},
    {"tokenizer.ggml.normalizer.strip_accents", "accents of a text are not dropped here"},
};

/* A table of characters that are replaced in a text; SentencePiece's identity is an empty one. */
static enum locus_status check_charsmap(const struct locus_checkpoint *checkpoint,
                                        locus_error *error)
{
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    enum locus_value_type type;
    const char *bytes;
    size_t count = 1;
    if (!locus_checkpoint_has(checkpoint, key)) return LOCUS_OK;
    if ((locus_checkpoint_array(checkpoint, key, &type, &count) ||
         locus_checkpoint_string(checkpoint, key, &bytes, &count)) &&
        count == 0)
        return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                      "%s: %s is set: characters of a text are not replaced here",
                      locus_checkpoint_path(checkpoint), key);
}

/* Nobody else writes keys of ours: one that isn't known is one that would be passed over. */
static enum locus_status check_own(const struct locus_checkpoint *checkpoint, locus_error *error)
{
    static const char own[] = "locus.tokenizer.";
    static const char *const known[] = {"ignore_merges", "lstrip", "rstrip", "single_word"};
    for (size_t i = 0; i < locus_checkpoint_n_keys(checkpoint); i++) {
        const char *key = locus_checkpoint_key_at(checkpoint, i), *name = key + sizeof own - 1;
        if (strncmp(key, own, sizeof own - 1) != 0) continue;
        bool found = false;
        for (size_t j = 0; j < sizeof known / sizeof *known; j++)
            found |= !strcmp(name, known[j]);
        if (!found)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "%s: unknown %s, expected ignore_merges, lstrip, rstrip or "
                              "single_word after %s",
                              locus_checkpoint_path(checkpoint), key, own);
    }
    return LOCUS_OK;
}

enum locus_status locus_keys_check(const struct locus_checkpoint *checkpoint, locus_error *error)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        enum locus_status status =
            locus_key_refuse(checkpoint, refused[i].key, refused[i].why, error);
        if (status) return status;
    }
    enum locus_status status = check_charsmap(checkpoint, error);
    return status ? status : check_own(checkpoint, error);
}
