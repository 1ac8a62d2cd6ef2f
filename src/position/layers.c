/* SPECs of models whose layers differ: see layers.h.
 *
 *     text -> cut at its semicolons -> lists of layers, and SPECs, each resolved by spec.c
 */
#include "position/layers.h"

#include <limits.h>
#include <string.h>

#include "base/number.h"
#include "position/registry.h"
#include "position/spec.h"

static const char nope_key[] = "nope_every", inherit_off[] = "inherit=0";

const char locus_layers_help[] =
    "Layers, counted from 0, may have schemes of their own: -P \"rope; layers 3::4 none\", "
    "or, in short, -P rope:nope_every=4.";

/* A text, cut. */
struct cut {
    struct locus_buffer copy;             /* of it, ended at each semicolon */
    struct locus_buffer first;            /* the first SPEC, without nope_every */
    const char *specs[LOCUS_MAX_SCHEMES]; /* they lie in those two */
    struct locus_layer_list layers[LOCUS_MAX_SCHEMES];
    int n;
    bool says_layers; /* which layers differ, if any */
    bool inherits;
    struct locus_spec_source source; /* of all of it */
};

/* ---- lists of layers ---------------------------------------------------------------------- */

static bool has(const struct locus_layer_list *list, int layer)
{
    for (int i = 0; i < list->n; i++) {
        const struct locus_layer_range *range = &list->ranges[i];
        if (layer >= range->first && layer < range->end &&
            (layer - range->first) % range->step == 0)
            return true;
    }
    return false;
}

/* A number of a range, or its default where there is nothing. */
static bool read_bound(struct locus_word word, int fallback, int least, int *bound)
{
    double value = fallback;
    bool valid = word.n_bytes == 0 || (locus_number_parse(word.bytes, word.n_bytes, true, &value) &&
                                       value >= least && value < INT_MAX);
    if (valid) *bound = (int)value;
    return valid;
}

/* "3", "3:", ":6", "3:9:2" */
static bool read_range(struct locus_word word, struct locus_layer_range *range)
{
    struct locus_word bounds[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    const char *at = word.bytes, *end = word.bytes + word.n_bytes;
    int n = 0;
    for (;; at++) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        const char *stop = colon ? colon : end;
        if (n == 3) return false;
        bounds[n++] = (struct locus_word){at, (size_t)(stop - at)};
        at = stop;
        if (!colon) break;
    }
    if (!read_bound(bounds[0], 0, 0, &range->first) ||
        !read_bound(bounds[1], INT_MAX, 1, &range->end) ||
        !read_bound(bounds[2], 1, 1, &range->step))
        return false;
    if (n == 1) range->end = range->first + 1;
    return word.n_bytes > 0 && range->end > range->first;
}

static enum locus_status read_list(struct locus_layer_list *list, struct locus_word text,
                                   const struct locus_spec_source *source)
{
    const char *at = text.bytes, *end = text.bytes + text.n_bytes;
    for (list->n = 0;; at++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const struct locus_word word = {at, (size_t)((comma ? comma : end) - at)};
        if (list->n == LOCUS_LAYER_RANGES)
            return locus_spec_refuse(source, "more than %d ranges of layers", LOCUS_LAYER_RANGES);
        if (!read_range(word, &list->ranges[list->n++]))
            return locus_spec_refuse(source,
                                     "layers '%.*s'; expected numbers and ranges FIRST:END:STEP, "
                                     "such as 0,3::4",
                                     locus_word_shown(word), word.bytes);
        if (!comma) return LOCUS_OK;
        at = comma;
    }
}

void locus_layer_list_print(const struct locus_layer_list *list, struct locus_buffer *out)
{
    for (int i = 0; i < list->n; i++) {
        const struct locus_layer_range *range = &list->ranges[i];
        if (i > 0) locus_buffer_append(out, ",", 1);
        if (range->first > 0 || range->end == 1) locus_buffer_printf(out, "%d", range->first);
        if (range->end == range->first + 1) continue;
        locus_buffer_append(out, ":", 1);
        if (range->end < INT_MAX) locus_buffer_printf(out, "%d", range->end);
        if (range->step > 1) locus_buffer_printf(out, ":%d", range->step);
    }
}

/* ---- cutting ------------------------------------------------------------------------------ */

/* The first SPEC less nope_every, which becomes a SPEC of layers. */
static enum locus_status cut_first(struct cut *cut, const char *text, int n_layer)
{
    enum { MOST = 1 << 20 };
    const char *rest = text + strcspn(text, ":");
    char separator = ':';
    locus_buffer_append(&cut->first, text, (size_t)(rest - text));
    for (struct locus_word pair, key, value; locus_spec_next(&rest, &pair);) {
        double every;
        if (!locus_spec_split(pair, &key, &value) || !locus_word_is(key, nope_key)) {
            if (locus_word_is(pair, inherit_off)) cut->inherits = false;
            locus_buffer_append(&cut->first, &separator, 1);
            locus_buffer_append(&cut->first, pair.bytes, pair.n_bytes);
            separator = ',';
            continue;
        }
        if (cut->says_layers)
            return locus_spec_refuse(&cut->source, "%s is given twice; expected once", nope_key);
        if (!locus_number_parse(value.bytes, value.n_bytes, true, &every) || every < 0 ||
            every > MOST)
            return locus_spec_refuse(&cut->source,
                                     "%s is '%.*s'; expected a whole number from 0 to %d", nope_key,
                                     locus_word_shown(value), value.bytes, MOST);
        cut->says_layers = true;
        if (every < 1) continue;
        /* A file may be of few layers, of which the rule takes none. */
        if (every > n_layer && cut->source.status == LOCUS_ERROR_ARGUMENT)
            return locus_spec_refuse(&cut->source,
                                     "%s is %.0f, and the model has %d layers; expected at most "
                                     "that many, or 0",
                                     nope_key, every, n_layer);
        if (every > n_layer) continue;
        cut->layers[1].ranges[0] = (struct locus_layer_range){(int)every - 1, INT_MAX, (int)every};
        cut->layers[1].n = 1;
        cut->specs[1] = locus_scheme_none.name;
        cut->n = 2;
    }
    cut->specs[0] = cut->first.bytes;
    return cut->first.failed ? locus_fail_memory(cut->source.error, cut->first.length) : LOCUS_OK;
}

/* Whether what follows a list begins with more of one: "3 ::4 none", "0, 3 none". */
static bool goes_on(struct locus_word list, const char *next)
{
    static const char of_lists[] = "0123456789:,";
    const size_t length = strspn(next, of_lists);
    const bool open = list.n_bytes > 0 && list.bytes[list.n_bytes - 1] == ',';
    const bool more = next[length] == ' ' && next[length + strspn(next + length, " ")];
    return length > 0 && (open || more || next[0] == ':' || next[0] == ',');
}

/* "layers LIST SPEC" */
static enum locus_status cut_part(struct cut *cut, char *part)
{
    static const char word[] = "layers";
    char *list = part + strspn(part, " ");
    if (strncmp(list, word, sizeof word - 1) != 0 || list[sizeof word - 1] != ' ')
        return locus_spec_refuse(&cut->source, "found '%.40s' after ';'; expected layers LIST SPEC",
                                 list);
    list += sizeof word - 1;
    list += strspn(list, " ");
    char *spec = list + strcspn(list, " ");
    const struct locus_word text = {list, (size_t)(spec - list)};
    spec += strspn(spec, " ");
    if (goes_on(text, spec))
        return locus_spec_refuse(&cut->source,
                                 "layers '%.40s'; expected a list without spaces, "
                                 "such as 0,3::4",
                                 list);
    if (cut->n == LOCUS_MAX_SCHEMES)
        return locus_spec_refuse(&cut->source, "more than %d schemes", LOCUS_MAX_SCHEMES);
    if (!*spec)
        return locus_spec_refuse(&cut->source, "no SPEC after 'layers %.*s'",
                                 locus_word_shown(text), text.bytes);
    cut->specs[cut->n] = spec;
    return read_list(&cut->layers[cut->n++], text, &cut->source);
}

/* Ends a text at its last byte that isn't a space. */
static void trim(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == ' ')
        n--;
    text[n] = '\0';
}

static void free_cut(struct cut *cut)
{
    locus_buffer_free(&cut->copy);
    locus_buffer_free(&cut->first);
}

/* free_cut is the caller's, in any case. */
static enum locus_status cut_text(struct cut *cut, const struct locus_spec_source *source,
                                  int n_layer)
{
    *cut = (struct cut){.n = 1, .inherits = true, .source = *source};
    locus_buffer_printf(&cut->copy, "%s", source->text);
    if (cut->copy.failed) return locus_fail_memory(source->error, strlen(source->text));
    char *part = strchr(cut->copy.bytes, ';');
    if (part) {
        *part++ = '\0';
        trim(cut->copy.bytes);
    }
    enum locus_status status = cut_first(cut, cut->copy.bytes, n_layer);
    if (!status && part && cut->says_layers)
        return locus_spec_refuse(
            source, "both %s and layers of other schemes; expected one of them", nope_key);
    cut->says_layers |= part != NULL;
    while (!status && part) {
        char *next = strchr(part, ';');
        if (next) *next++ = '\0';
        trim(part);
        status = cut_part(cut, part);
        part = next;
    }
    return status;
}

/* ---- resolving ---------------------------------------------------------------------------- */

/* No layer may be named twice, and every number and range of a list names one. */
static enum locus_status check_list(const struct locus_layer_specs *specs, int index,
                                    const struct locus_spec_source *source, int n_layer)
{
    for (int i = 0; i < specs->layers[index].n; i++)
        if (specs->layers[index].ranges[i].first >= n_layer)
            return locus_spec_refuse(source, "'layers' names layer %d; the model's are 0 to %d",
                                     specs->layers[index].ranges[i].first, n_layer - 1);
    for (int layer = 0; layer < n_layer; layer++) {
        if (!has(&specs->layers[index], layer)) continue;
        for (int other = 1; other < index; other++)
            if (has(&specs->layers[other], layer))
                return locus_spec_refuse(source, "layer %d has two schemes; expected one", layer);
    }
    return LOCUS_OK;
}

static const struct locus_position_scheme *first_scheme(const char *text,
                                                        const struct locus_position_scheme *users)
{
    struct locus_word name = {text, strcspn(text, ":;")};
    while (name.n_bytes > 0 && text[name.n_bytes - 1] == ' ')
        name.n_bytes--;
    return locus_spec_scheme(name, users);
}

/* The caller's scheme, where the checkpoint's own SPEC may mean it: a name that the registry has is
 * the registry's there. */
static const struct locus_position_scheme *scheme_of_own(const struct locus_position_scheme *scheme)
{
    if (scheme && locus_position_find(scheme->name, strlen(scheme->name))) return NULL;
    return scheme;
}

/* Those of the layers that differ. What they don't name is as in the first, or else in `own` (NULL:
 * nothing), whichever has their NAME. */
static enum locus_status resolve_parts(struct locus_layer_specs *specs, const struct cut *cut,
                                       const char *own, const struct locus_position_scheme *scheme,
                                       const struct locus_position_env *env)
{
    struct locus_buffer first = {0};
    enum locus_status status = LOCUS_OK;
    locus_position_print(&specs->specs[0], &first);
    if (first.failed) status = locus_fail_memory(cut->source.error, first.length);
    for (int i = 1; i < cut->n && !status; i++) {
        struct locus_spec_source source = cut->source;
        source.text = cut->specs[i];
        const struct locus_position_scheme *named = first_scheme(source.text, scheme);
        const bool as_own = own && first_scheme(own, scheme_of_own(scheme)) == named;
        const char *rest = named == specs->specs[0].scheme ? first.bytes : as_own ? own : NULL;
        specs->layers[i] = cut->layers[i];
        status = locus_spec_resolve(&specs->specs[i], &source, rest, scheme, env);
        if (!status && specs->specs[i].scheme->embed)
            status = locus_spec_refuse(&source,
                                       "%s adds to the tokens, before any layer; expected "
                                       "it as the first scheme",
                                       specs->specs[i].scheme->name);
        if (!status) status = check_list(specs, i, &cut->source, env->n_layer);
        specs->n++;
    }
    locus_buffer_free(&first);
    return status;
}

/* `text` and what it takes over from own (n 0: nothing), whose first scheme may be the `same`. */
static enum locus_status resolve_cuts(struct locus_layer_specs *specs, const struct cut *text,
                                      const struct cut *own, bool same,
                                      const struct locus_position_scheme *scheme,
                                      const struct locus_position_env *env)
{
    struct locus_spec_source source = text->source;
    source.text = text->specs[0];
    const char *first = own->n ? own->specs[0] : NULL;
    enum locus_status status =
        locus_spec_resolve(&specs->specs[0], &source, same ? first : NULL, scheme, env);
    if (status) return status;
    const bool takes_over = same && own->n > 1 && text->inherits && !text->says_layers;
    specs->n = 1;
    status = takes_over ? resolve_parts(specs, own, NULL, scheme_of_own(scheme), env)
                        : resolve_parts(specs, text, text->inherits ? first : NULL, scheme, env);
    specs->says_layers = text->says_layers;
    specs->alone = same && own->n > 1 && specs->n == 1;
    return status;
}

static enum locus_status resolve(struct locus_layer_specs *specs,
                                 const struct locus_spec_source *source, const char *own,
                                 const struct locus_position_scheme *scheme,
                                 const struct locus_position_env *env)
{
    struct cut cut = {0}, own_cut = {0};
    struct locus_layer_specs resolved = {0};
    enum locus_status status = cut_text(&cut, source, env->n_layer);
    const bool other = own && own != source->text;
    const bool same =
        other && first_scheme(own, scheme_of_own(scheme)) == first_scheme(source->text, scheme);
    if (!status && other && (same || cut.n > 1)) {
        /* With inherit=0, or another NAME, a wrong one is as good as none. */
        const bool matters = cut.inherits && same;
        const struct locus_spec_source own_source = {.text = own,
                                                     .origin = "the checkpoint's position",
                                                     .status = LOCUS_ERROR_FORMAT,
                                                     .error = matters ? source->error : NULL};
        status = cut_text(&own_cut, &own_source, env->n_layer);
        if (status && !matters) status = LOCUS_OK, own_cut.n = 0;
    }
    if (!status) status = resolve_cuts(&resolved, &cut, &own_cut, same, scheme, env);
    free_cut(&cut);
    free_cut(&own_cut);
    if (!status) *specs = resolved;
    return status;
}

enum locus_status locus_layer_specs_resolve(struct locus_layer_specs *specs, const char *text,
                                            const char *own,
                                            const struct locus_position_scheme *scheme,
                                            const struct locus_position_env *env,
                                            locus_error *error)
{
    struct locus_spec_source source;
    enum locus_status status = locus_spec_choose(&source, text, own, scheme, error);
    return status ? status : resolve(specs, &source, own, scheme, env);
}

enum locus_status locus_layer_specs_read(struct locus_layer_specs *specs, const char *text,
                                         const struct locus_position_env *env, locus_error *error)
{
    struct locus_spec_source source;
    enum locus_status status = locus_spec_choose(&source, text, NULL, NULL, error);
    source.unbound = true;
    return status ? status : resolve(specs, &source, NULL, NULL, env);
}

/* ---- use ---------------------------------------------------------------------------------- */

void locus_layer_specs_print_range(const struct locus_layer_specs *from,
                                   const struct locus_layer_specs *to, struct locus_buffer *out)
{
    const size_t start = out->length;
    locus_position_print_range(&from->specs[0], &to->specs[0], out);
    if (to->alone && !out->failed)
        locus_buffer_printf(out, "%c%s=0", strchr(out->bytes + start, ':') ? ',' : ':', nope_key);
    for (int i = 1; i < to->n; i++) {
        const struct locus_position_spec *spec = &to->specs[i];
        locus_buffer_printf(out, "; layers ");
        locus_layer_list_print(&to->layers[i], out);
        locus_buffer_append(out, " ", 1);
        locus_position_print_range(i < from->n ? &from->specs[i] : spec, spec, out);
    }
}

void locus_layer_specs_print(const struct locus_layer_specs *specs, struct locus_buffer *out)
{
    locus_layer_specs_print_range(specs, specs, out);
}

int locus_layer_specs_at(const struct locus_layer_specs *specs, int layer)
{
    for (int i = 1; i < specs->n; i++)
        if (has(&specs->layers[i], layer)) return i;
    return 0;
}
