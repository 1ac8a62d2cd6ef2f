/* Metadata keys that change what a tokenizer does: see keys.h. */
#include "tokenizer/keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

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
    {"tokenizer.ggml.add_sep_token", "no separator is put after a text here"},
    {"tokenizer.ggml.normalizer.lowercase", "texts are not put into lower case here"},
    {"tokenizer.ggml.normalizer.strip_accents", "accents of a text are not dropped here"},
};

/* What keys of tokenizer.ggml. and locus.tokenizer. may be called: those that are read somewhere,
 * and those that no text's tokens depend on. One that isn't known is one that would be passed over.
 */
static const char *const ggml[] = {"model",
                                   "pre",
                                   "tokens",
                                   "token_type",
                                   "token_type_count",
                                   "scores",
                                   "merges",
                                   "bos_token_id",
                                   "eos_token_id",
                                   "eot_token_id",
                                   "eom_token_id",
                                   "unknown_token_id",
                                   "seperator_token_id",
                                   "separator_token_id",
                                   "padding_token_id",
                                   "cls_token_id",
                                   "mask_token_id",
                                   "add_bos_token",
                                   "add_eos_token",
                                   "add_sep_token",
                                   "add_space_prefix",
                                   "remove_extra_whitespaces",
                                   "precompiled_charsmap",
                                   "normalizer.lowercase",
                                   "normalizer.strip_accents",
                                   "prefix_token_id",
                                   "suffix_token_id",
                                   "middle_token_id",
                                   "fim_pre_token_id",
                                   "fim_suf_token_id",
                                   "fim_mid_token_id",
                                   "fim_pad_token_id",
                                   "fim_rep_token_id",
                                   "fim_sep_token_id"};
static const char *const own[] = {"ignore_merges", "lstrip",     "rstrip", "single_word",
                                  "normalized",    "normalizer", "merges", "scores",
                                  "prefix",        "split",      "suffix"};

static enum locus_status check_names(const struct locus_checkpoint *checkpoint, const char *prefix,
                                     const char *const *known, size_t n_known, locus_error *error)
{
    for (size_t i = 0; i < locus_checkpoint_n_keys(checkpoint); i++) {
        const char *key = locus_checkpoint_key_at(checkpoint, i), *name = key + strlen(prefix);
        if (strncmp(key, prefix, strlen(prefix)) != 0) continue;
        struct locus_suggestion suggestion =
            locus_suggestion_any((struct locus_word){name, strlen(name)});
        bool found = false;
        for (size_t j = 0; j < n_known; j++) {
            found |= !strcmp(name, known[j]);
            locus_suggestion_offer(&suggestion, known[j]);
        }
        if (!found)
            return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                              "%s: unknown %s, the nearest known is %s%s",
                              locus_checkpoint_path(checkpoint), key, prefix, suggestion.nearest);
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
    enum locus_status status =
        check_names(checkpoint, "tokenizer.ggml.", ggml, sizeof ggml / sizeof *ggml, error);
    return status
               ? status
               : check_names(checkpoint, "locus.tokenizer.", own, sizeof own / sizeof *own, error);
}

enum locus_status locus_keys_check_size(const struct locus_checkpoint *checkpoint, int n_tokens,
                                        locus_error *error)
{
    const char *architecture;
    size_t n_bytes;
    char key[96];
    int64_t n_rows = n_tokens;
    if (!locus_checkpoint_string(checkpoint, "general.architecture", &architecture, &n_bytes))
        return LOCUS_OK;
    (void)snprintf(key, sizeof key, "%.*s.vocab_size", (int)(n_bytes < 64 ? n_bytes : 64),
                   architecture);
    (void)locus_checkpoint_int(checkpoint, key, &n_rows);
    if (n_rows >= n_tokens) return LOCUS_OK; /* rows without a token pad it */
    return locus_fail(error, LOCUS_ERROR_FORMAT,
                      "%s: tokenizer.ggml.tokens has %d entries, expected no more than %s, %lld",
                      locus_checkpoint_path(checkpoint), n_tokens, key, (long long)n_rows);
}
