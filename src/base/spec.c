/* SPECs: see spec.h. */
#include "base/spec.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"

/* ---- pieces of a text --------------------------------------------------------------------- */

struct locus_word locus_spec_name(const char *text)
{
    return (struct locus_word){text, strcspn(text, ":")};
}

bool locus_spec_next(const char **rest, struct locus_word *pair)
{
    if (!**rest) return false;
    const char *first = *rest + 1; /* past the colon, or the comma between two pairs */
    *pair = (struct locus_word){first, strcspn(first, ",")};
    *rest = first + pair->n_bytes;
    return true;
}

bool locus_spec_split(struct locus_word pair, struct locus_word *key, struct locus_word *value)
{
    const char *equals = pair.n_bytes ? memchr(pair.bytes, '=', pair.n_bytes) : NULL;
    if (!equals || equals == pair.bytes) return false;
    *key = (struct locus_word){pair.bytes, (size_t)(equals - pair.bytes)};
    *value = (struct locus_word){equals + 1, pair.n_bytes - key->n_bytes - 1};
    return true;
}

int locus_choice_find(const char *choices, struct locus_word word)
{
    for (int i = 0; *choices; i++) {
        const size_t length = strcspn(choices, "|");
        if (length == word.n_bytes && memcmp(choices, word.bytes, length) == 0) return i;
        choices += length + (choices[length] == '|');
    }
    return -1;
}

/* The choice of an index that the list has. */
static struct locus_word choice_at(const char *choices, int index)
{
    for (; index > 0; index--)
        choices += strcspn(choices, "|") + 1;
    return (struct locus_word){choices, strcspn(choices, "|")};
}

/* ---- messages ----------------------------------------------------------------------------- */

/* A file's bytes may be anything: what isn't ASCII is shown as '?'. */
static void make_ascii(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80) *text = '?';
}

enum locus_status locus_spec_refuse(const struct locus_spec_source *source, const char *format, ...)
{
    char text[52], detail[220];
    va_list args;
    va_start(args, format);
    locus_print_args(detail, sizeof detail, format, args);
    va_end(args);
    snprintf(text, sizeof text, "%.48s%s", source->text, strlen(source->text) > 48 ? "..." : "");
    make_ascii(text);
    make_ascii(detail);
    return locus_fail(source->error, source->status, "%s '%s': %s", source->origin, text, detail);
}

enum locus_status locus_spec_refuse_name(const struct locus_spec_source *source, const char *what,
                                         const struct locus_suggestion *suggestion)
{
    return locus_spec_refuse(source, "no %s is named '%.*s'; the nearest is '%s', of: %s", what,
                             locus_word_shown(suggestion->word), suggestion->word.bytes,
                             suggestion->nearest, suggestion->list);
}

static void list_keys(struct locus_suggestion *suggestion, const struct locus_param *params)
{
    for (; params && params->key; params++)
        locus_suggestion_list(suggestion, params->key);
}

static enum locus_status refuse_key(const struct locus_spec_source *source,
                                    const struct locus_spec_table *table, struct locus_word key)
{
    struct locus_suggestion suggestion = locus_suggestion_any(key);
    list_keys(&suggestion, table->params);
    list_keys(&suggestion, table->common);
    for (const char *const *more = table->more; more && *more; more++)
        locus_suggestion_list(&suggestion, *more);
    if (!suggestion.nearest)
        return locus_spec_refuse(source, "%s has no parameters, found '%.*s'", table->name,
                                 locus_word_shown(key), key.bytes);
    return locus_spec_refuse(source, "%s has no parameter '%.*s'; the nearest is '%s', of: %s",
                             table->name, locus_word_shown(key), key.bytes, suggestion.nearest,
                             suggestion.list);
}

enum locus_status locus_spec_refuse_twice(const struct locus_spec_source *source,
                                          struct locus_word key)
{
    return locus_spec_refuse(source, "%.*s is given twice; expected once", locus_word_shown(key),
                             key.bytes);
}

/* ---- parameters --------------------------------------------------------------------------- */

int locus_params_count(const struct locus_param *params)
{
    int n = 0;
    while (params && n <= LOCUS_MAX_PARAMS && params[n].key)
        n++;
    return n;
}

int locus_params_find(const struct locus_param *params, struct locus_word key)
{
    const int n = locus_params_count(params);
    for (int i = 0; i < n; i++)
        if (locus_word_is(key, params[i].key)) return i;
    return -1;
}

bool locus_param_parse(const struct locus_param *param, struct locus_word text, double *value)
{
    const int index = param->choices ? locus_choice_find(param->choices, text) : -1;
    const bool number = param->type != LOCUS_PARAM_CHOICE;
    if (index >= 0)
        *value = number ? -1 - index : index;
    else if (number)
        return locus_number_parse(text.bytes, text.n_bytes, param->type == LOCUS_PARAM_INT, value);
    return index >= 0;
}

bool locus_param_is_word(const struct locus_param *param, double value)
{
    return param->type != LOCUS_PARAM_CHOICE && param->choices && value < 0;
}

void locus_param_print(const struct locus_param *param, double value, struct locus_buffer *out)
{
    if (param->type == LOCUS_PARAM_CHOICE || locus_param_is_word(param, value)) {
        const int index = (int)(value < 0 ? -1 - value : value);
        const struct locus_word choice = choice_at(param->choices, index);
        locus_buffer_append(out, choice.bytes, choice.n_bytes);
    } else {
        char number[LOCUS_NUMBER_TEXT];
        locus_number_format(value, number);
        locus_buffer_append(out, number, strlen(number));
    }
}

static void print_end(struct locus_buffer *out, const char *word, double end)
{
    char number[LOCUS_NUMBER_TEXT];
    locus_number_format(end, number);
    locus_buffer_printf(out, " %s %s", word, number);
}

void locus_param_print_range(const struct locus_param *param, struct locus_buffer *out)
{
    if (param->type == LOCUS_PARAM_CHOICE) {
        locus_buffer_printf(out, "one of %s", param->choices);
        return;
    }
    const bool whole = param->type == LOCUS_PARAM_INT;
    const bool ends = isfinite(param->max) && !(whole && param->max >= INT_MAX);
    locus_buffer_printf(out, whole ? "a whole number" : "a number");
    if (isfinite(param->min)) print_end(out, "from", param->min);
    if (ends)
        print_end(out, "to", param->max);
    else if (isfinite(param->min))
        locus_buffer_printf(out, " on");
    if (param->choices) locus_buffer_printf(out, ", or %s", param->choices);
}

/* ---- reading ------------------------------------------------------------------------------ */

static bool is_in_range(const struct locus_param *param, double value)
{
    if (param->type == LOCUS_PARAM_INT && !(value >= INT_MIN && value <= INT_MAX)) return false;
    return value >= param->min && value <= param->max;
}

static enum locus_status read_value(double *value, const struct locus_spec_source *source,
                                    const struct locus_param *param, struct locus_word text)
{
    const bool word = param->choices && locus_choice_find(param->choices, text) >= 0;
    if (locus_param_parse(param, text, value) && (word || is_in_range(param, *value)))
        return LOCUS_OK; /* -1 may be a word's value, but isn't a word */
    struct locus_buffer range = {0};
    locus_param_print_range(param, &range);
    enum locus_status status =
        range.failed ? locus_fail_memory(source->error, range.length)
                     : locus_spec_refuse(source, "%s is '%.*s'; expected %s", param->key,
                                         locus_word_shown(text), text.bytes, range.bytes);
    locus_buffer_free(&range);
    return status;
}

enum locus_status locus_spec_read_pair(struct locus_spec_values *values,
                                       const struct locus_spec_source *source,
                                       const struct locus_spec_table *table, struct locus_word pair)
{
    struct locus_word key, text;
    if (!locus_spec_split(pair, &key, &text) || text.n_bytes == 0)
        return locus_spec_refuse(source, "found '%.*s'; expected key=value", locus_word_shown(pair),
                                 pair.bytes);
    const int own = locus_params_find(table->params, key);
    const int common = locus_params_find(table->common, key);
    if (own < 0 && common < 0) return refuse_key(source, table, key);
    const int i = own >= 0 ? own : locus_params_count(table->params) + common;
    if (values->given >> i & 1) return locus_spec_refuse_twice(source, key);
    values->given |= (uint32_t)1 << i;
    return read_value(&values->values[i], source,
                      own >= 0 ? &table->params[own] : &table->common[common], text);
}
