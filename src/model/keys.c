/* A family's metadata, read key by key: see keys.h. */
#include "model/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

enum locus_status locus_keys_begin(struct locus_keys *keys,
                                   const struct locus_checkpoint *checkpoint, const char *family,
                                   locus_error *error)
{
    const size_t n = locus_checkpoint_n_keys(checkpoint);
    *keys = (struct locus_keys){.checkpoint = checkpoint, .family = family, .error = error};
    keys->asked = calloc(n + 1, sizeof *keys->asked);
    return keys->asked ? LOCUS_OK : locus_fail_memory(error, n * sizeof *keys->asked);
}

void locus_keys_end(struct locus_keys *keys)
{
    free(keys->asked);
    keys->asked = NULL;
}

bool locus_keys_has(struct locus_keys *keys, const char *key)
{
    snprintf(keys->full, sizeof keys->full, "%s.%s", keys->family, key);
    const size_t index = locus_checkpoint_key_index(keys->checkpoint, keys->full);
    if (index == SIZE_MAX) return false;
    keys->asked[index] = true;
    return true;
}

static const char *path_of(const struct locus_keys *keys)
{
    return locus_checkpoint_path(keys->checkpoint);
}

/* ---- values -------------------------------------------------------------------------------- */

static enum locus_status fail_count(struct locus_keys *keys, size_t count)
{
    return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                      "%s: %s has %zu entries, expected one a layer (%d)", path_of(keys),
                      keys->full, count, keys->n_layer);
}

/* values[count] are one value a layer: *value becomes the one that all of them are. */
static enum locus_status same_in_all(struct locus_keys *keys, const double *values, size_t count,
                                     double *value)
{
    if (count == 0 || (keys->n_layer && count != (size_t)keys->n_layer))
        return fail_count(keys, count);
    for (size_t i = 1; i < count; i++)
        if (!(values[i] == values[0]))
            return locus_fail(keys->error, LOCUS_ERROR_UNSUPPORTED,
                              "%s: %s is %g in layer 0 and %g in layer %zu, expected one value for "
                              "all layers",
                              path_of(keys), keys->full, values[0], values[i], i);
    *value = values[0];
    return LOCUS_OK;
}

/* The number of a key that is there, or that of all entries of its array; *found false: it is
 * neither. `booleans`: true and false, as 1 and 0, else numbers. */
static enum locus_status load(struct locus_keys *keys, bool booleans, double *value, bool *found)
{
    enum locus_value_type type;
    size_t count;
    bool flag;
    *found = true;
    if (!locus_checkpoint_array(keys->checkpoint, keys->full, &type, &count)) {
        if (!booleans)
            *found = locus_checkpoint_float(keys->checkpoint, keys->full, value);
        else if ((*found = locus_checkpoint_bool(keys->checkpoint, keys->full, &flag)))
            *value = flag;
        return LOCUS_OK;
    }
    *found = keys->n_layer > 0 && type != LOCUS_VALUE_STRING && type != LOCUS_VALUE_ARRAY &&
             (type == LOCUS_VALUE_BOOL) == booleans;
    if (!*found) return LOCUS_OK;
    double *values = calloc(count + 1, sizeof *values);
    if (!values) return locus_fail_memory(keys->error, count * sizeof *values);
    locus_checkpoint_array_numbers(keys->checkpoint, keys->full, values);
    enum locus_status status = same_in_all(keys, values, count, value);
    free(values);
    return status;
}

static enum locus_status fail_kind(struct locus_keys *keys, const char *expected)
{
    return locus_fail(keys->error, LOCUS_ERROR_FORMAT, "%s: %s is not a %s", path_of(keys),
                      keys->full, expected);
}

bool locus_keys_is_number(const struct locus_keys *keys)
{
    enum locus_value_type type;
    size_t count;
    double number;
    return !locus_checkpoint_array(keys->checkpoint, keys->full, &type, &count) &&
           locus_checkpoint_float(keys->checkpoint, keys->full, &number);
}

const char *locus_keys_neither(const struct locus_keys *keys)
{
    enum locus_value_type type;
    size_t count;
    bool flag;
    if (locus_checkpoint_array(keys->checkpoint, keys->full, &type, &count))
        return type == LOCUS_VALUE_BOOL     ? NULL
               : type == LOCUS_VALUE_STRING ? "an array of texts"
               : type == LOCUS_VALUE_ARRAY  ? "an array of arrays"
                                            : "an array of numbers";
    return locus_keys_is_number(keys) || locus_checkpoint_bool(keys->checkpoint, keys->full, &flag)
               ? NULL
               : "a text";
}

enum locus_status locus_keys_int(struct locus_keys *keys, const char *key, int min, int max,
                                 int *value)
{
    const double most = 4611686018427387904.0; /* 2^62 */
    int64_t integer;
    double number;
    bool found;
    if (!locus_keys_has(keys, key)) return LOCUS_OK;
    if (!locus_checkpoint_int(keys->checkpoint, keys->full, &integer)) {
        enum locus_status status = load(keys, false, &number, &found);
        if (status) return status;
        if (!found || !(number >= -most && number <= most) ||
            (double)(integer = (int64_t)number) != number)
            return fail_kind(keys, "whole number");
    }
    if (integer < min || integer > max)
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT, "%s: %s is %lld, expected %d to %d",
                          path_of(keys), keys->full, (long long)integer, min, max);
    *value = (int)integer;
    return LOCUS_OK;
}

enum locus_status locus_keys_needed_int(struct locus_keys *keys, const char *key, int max,
                                        int *value)
{
    if (!locus_keys_has(keys, key))
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT, "%s: %s is missing", path_of(keys),
                          keys->full);
    return locus_keys_int(keys, key, 1, max, value);
}

enum locus_status locus_keys_number(struct locus_keys *keys, const char *key, double min,
                                    double *value)
{
    double number;
    bool found;
    if (!locus_keys_has(keys, key)) return LOCUS_OK;
    enum locus_status status = load(keys, false, &number, &found);
    if (status) return status;
    if (!found) return fail_kind(keys, "number");
    if (!(number >= min && number <= 1e30))
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                          "%s: %s is %g, expected a number from %g to 1e+30", path_of(keys),
                          keys->full, number, min);
    *value = number;
    return LOCUS_OK;
}

enum locus_status locus_keys_float(struct locus_keys *keys, const char *key, double min,
                                   float *value)
{
    double number = *value;
    enum locus_status status = locus_keys_number(keys, key, min, &number);
    *value = (float)number;
    return status;
}

enum locus_status locus_keys_bool(struct locus_keys *keys, const char *key, bool *value)
{
    double number;
    bool found;
    if (!locus_keys_has(keys, key)) return LOCUS_OK;
    enum locus_status status = load(keys, true, &number, &found);
    if (status) return status;
    if (!found) return fail_kind(keys, "true or false");
    *value = number != 0;
    return LOCUS_OK;
}

enum locus_status locus_keys_flags(struct locus_keys *keys, const char *key, bool **flags)
{
    enum locus_value_type type = LOCUS_VALUE_BOOL;
    size_t count = (size_t)keys->n_layer;
    bool same = false;
    if (!locus_keys_has(keys, key)) return LOCUS_OK;
    const bool array = locus_checkpoint_array(keys->checkpoint, keys->full, &type, &count);
    if (array ? type != LOCUS_VALUE_BOOL
              : !locus_checkpoint_bool(keys->checkpoint, keys->full, &same))
        return fail_kind(keys, "true or false");
    if (count != (size_t)keys->n_layer) return fail_count(keys, count);
    *flags = calloc(count, sizeof **flags);
    double *values = calloc(count, sizeof *values);
    if (*flags && values && array)
        locus_checkpoint_array_numbers(keys->checkpoint, keys->full, values);
    for (size_t i = 0; *flags && values && i < count; i++)
        (*flags)[i] = array ? values[i] != 0 : same;
    const bool whole = *flags && values;
    free(values);
    return whole ? LOCUS_OK : locus_fail_memory(keys->error, count * sizeof *values);
}

enum locus_status locus_keys_counts(struct locus_keys *keys, const char *key, int max, int *values)
{
    enum locus_value_type type;
    size_t count;
    const size_t n_layer = (size_t)keys->n_layer;
    if (!locus_keys_has(keys, key) ||
        !locus_checkpoint_array(keys->checkpoint, keys->full, &type, &count)) {
        enum locus_status status = locus_keys_needed_int(keys, key, max, &values[0]);
        for (size_t i = 1; i < n_layer; i++)
            values[i] = values[0];
        return status;
    }
    if (type == LOCUS_VALUE_STRING || type == LOCUS_VALUE_ARRAY || type == LOCUS_VALUE_BOOL)
        return fail_kind(keys, "count, or one a layer");
    if (count != n_layer) return fail_count(keys, count);
    double *numbers = calloc(count, sizeof *numbers);
    if (!numbers) return locus_fail_memory(keys->error, count * sizeof *numbers);
    locus_checkpoint_array_numbers(keys->checkpoint, keys->full, numbers);
    enum locus_status status = LOCUS_OK;
    for (size_t i = 0; i < count && !status; i++)
        if (numbers[i] >= 0 && numbers[i] <= max && numbers[i] == (int)numbers[i])
            values[i] = (int)numbers[i];
        else
            status = locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                                "%s: %s is %g for layer %zu, expected 0 to %d", path_of(keys),
                                keys->full, numbers[i], i, max);
    free(numbers);
    return status;
}

/* The index of a text among n_names words. */
static enum locus_status find_choice(struct locus_keys *keys, const char *found, size_t n_bytes,
                                     const char *const *names, int n_names, int *value)
{
    size_t length = 0;
    char known[96] = "";
    for (int i = 0; i < n_names; i++) {
        if (locus_text_is(found, n_bytes, names[i])) {
            *value = i;
            return LOCUS_OK;
        }
        if (length < sizeof known)
            length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "",
                                       names[i]);
    }
    return locus_fail(keys->error, LOCUS_ERROR_FORMAT, "%s: %s is \"%.*s\", expected one of %s",
                      path_of(keys), keys->full, (int)(n_bytes < 40 ? n_bytes : 40), found, known);
}

enum locus_status locus_keys_choice(struct locus_keys *keys, const char *key,
                                    const char *const *names, int n_names, int *value)
{
    const char *found;
    size_t n_bytes;
    if (!locus_keys_has(keys, key)) return LOCUS_OK;
    if (!locus_checkpoint_string(keys->checkpoint, keys->full, &found, &n_bytes))
        found = "", n_bytes = 0;
    return find_choice(keys, found, n_bytes, names, n_names, value);
}

enum locus_status locus_keys_choices(struct locus_keys *keys, const char *key,
                                     const char *const *names, int n_names, int *values)
{
    enum locus_value_type type;
    size_t count;
    enum locus_status status = LOCUS_OK;
    if (!locus_keys_has(keys, key)) return LOCUS_OK;
    if (!locus_checkpoint_array(keys->checkpoint, keys->full, &type, &count)) {
        status = locus_keys_choice(keys, key, names, n_names, values);
        for (int i = 1; i < keys->n_layer; i++)
            values[i] = values[0];
        return status;
    }
    if (type != LOCUS_VALUE_STRING) return fail_kind(keys, "text, or one a layer");
    if (count != (size_t)keys->n_layer) return fail_count(keys, count);
    const char **texts = calloc(count, sizeof *texts);
    size_t *lengths = calloc(count, sizeof *lengths);
    const bool whole = texts && lengths &&
                       locus_checkpoint_array_strings(keys->checkpoint, keys->full, texts, lengths);
    for (size_t i = 0; whole && i < count && !status; i++)
        status = find_choice(keys, texts[i], lengths[i], names, n_names, &values[i]);
    if (!whole) status = locus_fail_memory(keys->error, count * (sizeof *texts + sizeof *lengths));
    free(texts);
    free(lengths);
    return status;
}

/* ---- what is left -------------------------------------------------------------------------- */

/* What other decoders have and this one hasn't: of no effect at either of two values. */
static const struct absent {
    const char *key, *what;
    double off, also_off;
} absent[] = {
    {"attention.causal", "attention to later tokens", 1, 1},
    {"attention.output_scale", "scaling the attention's output", 1, 0},
    {"attention.temperature_scale", "scores whose temperature grows with the position", 0, 0},
    {"attention.shared_kv_layers", "layers that share keys", 0, 0},
    {"expert_gating_func", "experts by other probabilities than a softmax's", 1, 0},
    {"expert_weights_scale", "scaling the experts' shares", 1, 0},
    {"expert_group_count", "experts in groups", 0, 1},
    {"nextn_predict_layers", "layers that predict further tokens", 0, 0},
    {"rope.scaling.alpha", "a rotation's base scaled by alpha", 0, 1},
};

/* What describes a file or its making, and changes no result; the last ones are read elsewhere.
 * Those after "locus." stand beside any family's. */
static const char *const harmless[] = {"vocab_size", "rope.scaling.finetuned", "pooling_type",
                                       NULL};
static const char *const harmless_locus[] = {
    "task",          "task_length",      "training.",  "position",
    "end_token_ids", "ssm.norm_epsilon", "tokenizer.", NULL};

static bool is_among(const char *key, const char *const *names)
{
    for (; *names; names++) {
        const size_t length = strlen(*names);
        const bool prefix = (*names)[length - 1] == '.';
        if (prefix ? !strncmp(key, *names, length) : !strcmp(key, *names)) return true;
    }
    return false;
}

static enum locus_status check_absent(struct locus_keys *keys, const struct absent *row)
{
    double value = row->off;
    bool found;
    if (!locus_keys_has(keys, row->key)) return LOCUS_OK;
    enum locus_status status = load(keys, false, &value, &found);
    if (!status && !found) status = load(keys, true, &value, &found);
    if (status) return status;
    if (found && (value == row->off || value == row->also_off)) return LOCUS_OK;
    char is[40] = "no number";
    if (found) locus_print(is, sizeof is, "%g", value);
    return locus_fail(keys->error, LOCUS_ERROR_UNSUPPORTED,
                      "%s: %s is %s, expected %g: %s is not supported", path_of(keys), keys->full,
                      is, row->off, row->what);
}

enum locus_status locus_keys_check_rest(struct locus_keys *keys)
{
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        enum locus_status status = check_absent(keys, &absent[i]);
        if (status) return status;
    }
    const char *const families[] = {keys->family, "locus"};
    for (size_t i = 0; i < locus_checkpoint_n_keys(keys->checkpoint); i++) {
        const char *key = locus_checkpoint_key_at(keys->checkpoint, i);
        for (int j = strcmp(keys->family, "locus") == 0; j < 2 && !keys->asked[i]; j++) {
            const size_t length = strlen(families[j]);
            if (strncmp(key, families[j], length) || key[length] != '.') continue;
            if (is_among(key + length + 1, harmless) ||
                (j == 1 && is_among(key + length + 1, harmless_locus)))
                continue;
            return locus_fail(keys->error, LOCUS_ERROR_UNSUPPORTED,
                              "%s: %.60s is a key of the model that this version doesn't know; it "
                              "may change the result",
                              path_of(keys), key);
        }
    }
    return LOCUS_OK;
}
