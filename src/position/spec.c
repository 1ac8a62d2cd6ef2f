/* SPECs: NAME[:key=value[,key=value]...], resolved against a scheme's table and the checkpoint's
 * own SPEC, and printed.
 *
 *     text, own -> scheme by NAME -> its defaults -> own's values -> the text's values -> spec
 */
#include "position/spec.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "position/registry.h"

const struct locus_param locus_common_params[] = {
    {"logn", LOCUS_PARAM_CHOICE, "none", 0, 0, "none|position", false,
     "position: the query at p times max(1, ln(p + 1) / ln(trained length)) (Su's log n scaling)"},
    {"temperature", LOCUS_PARAM_FLOAT, "1", 1e-6, 1e6, NULL, false,
     "divides scores, after the bias (YaRN's t)"},
    {0},
};

/* How a SPEC's text is read, beside all values. */
static const char nope_key[] = "nope_every", inherit_key[] = "inherit";
static const char *const reading_keys[] = {nope_key, inherit_key, NULL};

/* What one SPEC says. */
struct assignment {
    struct locus_spec_values of;
    bool inherit, inherit_given;
};

/* ---- scheme tables ------------------------------------------------------------------------ */

/* Of a SPEC: the scheme's, then those of any. */
static int count_params(const struct locus_position_scheme *scheme)
{
    return locus_params_count(scheme->params) + locus_params_count(locus_common_params);
}

static const struct locus_param *param_at(const struct locus_position_scheme *scheme, int i)
{
    const int n = locus_params_count(scheme->params);
    return i < n ? &scheme->params[i] : &locus_common_params[i - n];
}

const struct locus_param *locus_spec_param_at(const struct locus_position_spec *spec, int index)
{
    return index < count_params(spec->scheme) ? param_at(spec->scheme, index) : NULL;
}

static bool is_model_value(const char *fallback)
{
    return strcmp(fallback, "head_dim") == 0 || strcmp(fallback, "trained_length") == 0;
}

static bool parse_fallback(const struct locus_param *param, double *value)
{
    const struct locus_word text = {param->fallback, strlen(param->fallback)};
    return locus_param_parse(param, text, value);
}

static bool fallback_value(const struct locus_param *param, const struct locus_position_env *env,
                           double *value)
{
    if (param->type == LOCUS_PARAM_CHOICE || !is_model_value(param->fallback))
        return parse_fallback(param, value);
    *value = param->fallback[0] == 'h' ? env->head_dim : env->trained_length;
    return true;
}

/* A key that any SPEC may have can't be a scheme's own. */
static bool is_common(const char *key)
{
    const struct locus_word word = {key, strlen(key)};
    return !strcmp(key, nope_key) || !strcmp(key, inherit_key) ||
           locus_params_find(locus_common_params, word) >= 0;
}

/* A name that the grammar of SPECs can say. */
static bool is_word_text(const char *text)
{
    bool good = *text != '\0';
    for (; *text; text++)
        good &= *text > ' ' && *text < 0x7F && !strchr(":;,=", *text);
    return good;
}

/* What is wrong with parameter i of a scheme's table; NULL: nothing. */
static const char *param_fault(const struct locus_position_scheme *scheme, int i,
                               const struct locus_position_env *env, double *fallback)
{
    const struct locus_param *param = &scheme->params[i];
    const bool choice = param->type == LOCUS_PARAM_CHOICE;
    const bool number = param->type == LOCUS_PARAM_INT || param->type == LOCUS_PARAM_FLOAT;
    const struct locus_word key = {param->key, strlen(param->key)};
    if (!is_word_text(param->key) || is_common(param->key))
        return "has a key that no SPEC can give";
    if (locus_params_find(scheme->params, key) != i) return "is there twice";
    if (!choice && !number) return "has a type that is not one of enum locus_param_type";
    if (number && !(param->min <= param->max)) return "has a min that is not at most its max";
    if (choice ? !param->choices : param->choices && !(param->min >= 0))
        return "has no valid choices";
    if (!param->fallback || !fallback_value(param, env, fallback)) return "has no valid default";
    if (number && !is_model_value(param->fallback) && !locus_param_is_word(param, *fallback) &&
        !(*fallback >= param->min && *fallback <= param->max))
        return "has a default out of its range";
    return NULL;
}

/* Fills every value with its default; checks the table, since a user's scheme is new to us. */
static enum locus_status fill_defaults(struct locus_position_spec *spec,
                                       const struct locus_position_env *env, locus_error *error)
{
    const struct locus_position_scheme *scheme = spec->scheme;
    const int n = locus_params_count(scheme->params);
    if (n > LOCUS_MAX_PARAMS)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position %s: its table has more than %d parameters, or no end",
                          scheme->name, LOCUS_MAX_PARAMS);
    for (int i = 0; i < n; i++) {
        const char *fault = param_fault(scheme, i, env, &spec->values[i]);
        if (fault)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                              "position %s: parameter '%s' of its table %s", scheme->name,
                              scheme->params[i].key, fault);
    }
    for (int i = n; i < count_params(scheme); i++)
        parse_fallback(param_at(scheme, i), &spec->values[i]);
    return LOCUS_OK;
}

/* ---- reading ------------------------------------------------------------------------------ */

const struct locus_position_scheme *locus_spec_scheme(struct locus_word name,
                                                      const struct locus_position_scheme *users)
{
    if (users && locus_word_is(name, users->name)) return users;
    return locus_position_find(name.bytes, name.n_bytes);
}

static enum locus_status refuse_name(const struct locus_spec_source *source, struct locus_word name,
                                     const struct locus_position_scheme *users)
{
    const struct locus_position_alias *alias = locus_position_find_alias(name.bytes, name.n_bytes);
    if (alias)
        return locus_spec_refuse(source, "'%s' may be either: say %s", alias->alias, alias->preset);
    struct locus_suggestion suggestion = locus_suggestion_any(name);
    if (users) locus_suggestion_list(&suggestion, users->name);
    for (size_t i = 0; i < locus_position_count(); i++)
        locus_suggestion_list(&suggestion, locus_position_at(i)->name);
    for (alias = locus_position_aliases; alias->alias; alias++)
        if (alias->name) locus_suggestion_offer(&suggestion, alias->alias);
    return locus_spec_refuse_name(source, "scheme", &suggestion);
}

static enum locus_status read_inherit(struct assignment *assignment,
                                      const struct locus_spec_source *source, struct locus_word key,
                                      struct locus_word value)
{
    if (assignment->inherit_given) return locus_spec_refuse_twice(source, key);
    if (!locus_word_is(value, "0") && !locus_word_is(value, "1"))
        return locus_spec_refuse(source, "inherit is '%.*s'; expected 0 or 1",
                                 locus_word_shown(value), value.bytes);
    assignment->inherit_given = true;
    assignment->inherit = value.bytes[0] == '1';
    return LOCUS_OK;
}

static enum locus_status read_pair(struct assignment *assignment,
                                   const struct locus_spec_source *source,
                                   const struct locus_position_scheme *scheme,
                                   struct locus_word pair)
{
    const struct locus_spec_table table = {scheme->name, scheme->params, locus_common_params,
                                           reading_keys};
    struct locus_word key = {0}, value = {0};
    locus_spec_split(pair, &key, &value);
    if (value.n_bytes > 0 && locus_word_is(key, inherit_key))
        return read_inherit(assignment, source, key, value);
    if (value.n_bytes > 0 && locus_word_is(key, nope_key))
        return locus_spec_refuse(
            source, "%s says which layers have none; expected it before any ';'", nope_key);
    return locus_spec_read_pair(&assignment->of, source, &table, pair);
}

/* The key=value that a NAME stands for beside its scheme, or NULL. */
static const char *find_preset(struct locus_word name, const struct locus_position_scheme *scheme)
{
    const struct locus_position_alias *alias = locus_position_find_alias(name.bytes, name.n_bytes);
    return alias && !locus_word_is(name, scheme->name) ? alias->preset : NULL;
}

/* Reads what the NAME stands for, and what follows it. */
static enum locus_status read_pairs(struct assignment *assignment,
                                    const struct locus_spec_source *source,
                                    const struct locus_position_scheme *scheme)
{
    *assignment = (struct assignment){.inherit = true};
    const struct locus_word name = locus_spec_name(source->text);
    const char *preset = find_preset(name, scheme);
    if (preset) {
        struct locus_word pair = {preset, strlen(preset)};
        enum locus_status status = read_pair(assignment, source, scheme, pair);
        if (status) return status;
    }
    const char *rest = source->text + name.n_bytes;
    for (struct locus_word pair; locus_spec_next(&rest, &pair);) {
        enum locus_status status = read_pair(assignment, source, scheme, pair);
        if (status) return status;
    }
    return LOCUS_OK;
}

static void apply(struct locus_position_spec *spec, const struct assignment *assignment, int n)
{
    for (int i = 0; i < n; i++)
        if (assignment->of.given >> i & 1) spec->values[i] = assignment->of.values[i];
}

/* Reads the checkpoint's own SPEC, whose scheme is the text's. With inherit=0 a wrong one is as
 * good as none. */
static enum locus_status read_own(struct assignment *owns, const char *own, bool inherit,
                                  const struct locus_position_scheme *scheme, locus_error *error)
{
    struct locus_spec_source source = {.text = own,
                                       .origin = "the checkpoint's position",
                                       .status = LOCUS_ERROR_FORMAT,
                                       .error = inherit ? error : NULL};
    enum locus_status status = read_pairs(owns, &source, scheme);
    if (!status || inherit) return status;
    *owns = (struct assignment){0};
    return LOCUS_OK;
}

/* From defaults to values: own's, if they are inherited, then the text's. */
static void combine(struct locus_position_spec *spec, const struct assignment *owns,
                    const struct assignment *assignment)
{
    int n = count_params(spec->scheme);
    if (assignment->inherit) apply(spec, owns, n);
    apply(spec, assignment, n);
    spec->given = assignment->of.given | (assignment->inherit ? owns->of.given : 0);
}

/* What a parameter lacks to act beside the other values; NULL: nothing. */
static const char *lacks(const struct locus_position_spec *spec, int i)
{
    const struct locus_position_scheme *scheme = spec->scheme;
    return scheme->lacks ? scheme->lacks(spec, param_at(scheme, i)->key) : NULL;
}

/* Refuses what the text sets, to no effect, to another value than it would have. A checkpoint may
 * say it: its metadata has all values of a scaling by 1, too. */
static enum locus_status check_effects(const struct locus_position_spec *spec,
                                       const struct locus_position_spec *defaults,
                                       const struct assignment *owns,
                                       const struct assignment *assignment,
                                       const struct locus_spec_source *source)
{
    if (source->status == LOCUS_ERROR_FORMAT || source->unbound) return LOCUS_OK;
    for (int i = 0; i < count_params(spec->scheme); i++) {
        const bool owned = assignment->inherit && owns->of.given >> i & 1;
        const bool as_owned = owned && spec->values[i] == owns->of.values[i];
        if (!(assignment->of.given >> i & 1) || spec->values[i] == defaults->values[i] || as_owned)
            continue;
        const char *lacking = lacks(spec, i);
        if (lacking)
            return locus_spec_refuse(source,
                                     "'%s' has no effect beside the other values; expected %s",
                                     param_at(spec->scheme, i)->key, lacking);
    }
    return LOCUS_OK;
}

/* Refuses a shorthand that does nothing without a key that neither the text nor the checkpoint has.
 * The same spelled out is what a SPEC at such a value is printed as. */
static enum locus_status check_shorthand(const struct locus_position_spec *spec,
                                         const struct locus_spec_source *source)
{
    const struct locus_word name = locus_spec_name(source->text);
    const struct locus_position_alias *alias = locus_position_find_alias(name.bytes, name.n_bytes);
    if (source->status == LOCUS_ERROR_FORMAT || source->unbound || !alias || !alias->needs ||
        !find_preset(name, spec->scheme))
        return LOCUS_OK;
    for (int i = 0; i < count_params(spec->scheme); i++) {
        const char *text = param_at(spec->scheme, i)->key;
        const struct locus_word key = {text, strlen(text)};
        if (spec->given >> i & 1 && locus_choice_find(alias->needs, key) >= 0) return LOCUS_OK;
    }
    return locus_spec_refuse(source, "it has no effect alone; expected a factor, as in %s:%s",
                             alias->alias, alias->example);
}

/* What is to no effect is as if nobody had given it, so that a printed SPEC hasn't it. */
static void drop_idle(struct locus_position_spec *spec, const struct locus_position_spec *defaults,
                      struct assignment *owns)
{
    for (int i = 0; i < count_params(spec->scheme); i++) {
        if (!lacks(spec, i)) continue;
        spec->values[i] = defaults->values[i];
        spec->given &= ~((uint32_t)1 << i);
        owns->of.given &= ~((uint32_t)1 << i);
    }
}

/* Marks what a printed SPEC must name lest the checkpoint's own, or another model, change it. */
static void mark_stated(struct locus_position_spec *spec,
                        const struct locus_position_spec *defaults, const struct assignment *owns)
{
    int n = count_params(spec->scheme);
    for (int i = 0; i < n; i++) {
        bool is_default = spec->values[i] == defaults->values[i];
        bool owns_another = owns->of.given >> i & 1 && owns->of.values[i] != defaults->values[i];
        if (is_default ? owns_another : is_model_value(param_at(spec->scheme, i)->fallback))
            spec->stated |= (uint32_t)1 << i;
    }
}

/* Turns a factor=auto that the scheme hasn't settled into the number it stands for. */
static void resolve_factor(struct locus_position_spec *spec, const struct locus_position_env *env)
{
    const int i = locus_params_find(spec->scheme->params, (struct locus_word){"factor", 6});
    if (i < 0 || !locus_param_is_word(&spec->scheme->params[i], spec->values[i])) return;
    double trained = locus_position_number(spec, "trained");
    if (!(trained > 0)) trained = env->trained_length;
    double factor = trained > 0 ? env->session_length / trained : 1;
    spec->values[i] = factor > 1 ? factor : 1;
}

/* A scheme of the caller's. Its table is checked with its defaults. */
static enum locus_status check_scheme(const struct locus_position_scheme *scheme,
                                      locus_error *error)
{
    if (!scheme->name || !*scheme->name)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT, "position: the scheme given has no name");
    if (!is_word_text(scheme->name))
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position '%s': expected a name without spaces, ':', ';', ',' and '='",
                          scheme->name);
    if (scheme->abi != LOCUS_POSITION_ABI)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position %s: its abi is %d; expected %d (LOCUS_POSITION_ABI): build it "
                          "with this library's locus_position.h",
                          scheme->name, scheme->abi, LOCUS_POSITION_ABI);
    return LOCUS_OK;
}

enum locus_status locus_spec_choose(struct locus_spec_source *source, const char *text,
                                    const char *own, const struct locus_position_scheme *scheme,
                                    locus_error *error)
{
    *source = (struct locus_spec_source){
        .text = text, .origin = "position", .status = LOCUS_ERROR_ARGUMENT, .error = error};
    enum locus_status status = scheme ? check_scheme(scheme, error) : LOCUS_OK;
    if (status) return status;
    if (!text && scheme) source->text = scheme->name;
    if (!source->text) {
        source->text = own;
        source->origin = "the checkpoint's position";
        source->status = LOCUS_ERROR_FORMAT;
    }
    if (source->text) return LOCUS_OK;
    return locus_fail(error, LOCUS_ERROR_ARGUMENT, "position: no SPEC; expected a scheme");
}

enum locus_status locus_spec_resolve(struct locus_position_spec *spec,
                                     const struct locus_spec_source *source, const char *own,
                                     const struct locus_position_scheme *scheme,
                                     const struct locus_position_env *env)
{
    struct locus_word name = locus_spec_name(source->text);
    struct locus_position_spec resolved = {.scheme = locus_spec_scheme(name, scheme)};
    if (!*source->text)
        return locus_spec_refuse(source, "the SPEC is empty; expected NAME[:key=value,...]");
    if (!resolved.scheme) return refuse_name(source, name, scheme);
    enum locus_status status = fill_defaults(&resolved, env, source->error);
    if (status) return status;
    struct assignment assignment, owns = {0};
    status = read_pairs(&assignment, source, resolved.scheme);
    if (!status && own && own != source->text &&
        locus_spec_scheme(locus_spec_name(own), scheme) == resolved.scheme)
        status = read_own(&owns, own, assignment.inherit, resolved.scheme, source->error);
    if (status) return status;
    const struct locus_position_spec defaults = resolved;
    combine(&resolved, &owns, &assignment);
    status = check_effects(&resolved, &defaults, &owns, &assignment, source);
    if (!status) status = check_shorthand(&resolved, source);
    if (status) return status;
    if (resolved.scheme->settle) resolved.scheme->settle(&resolved, env);
    resolve_factor(&resolved, env);
    drop_idle(&resolved, &defaults, &owns);
    mark_stated(&resolved, &defaults, &owns);
    *spec = resolved;
    return LOCUS_OK;
}

/* ---- printing and getters ----------------------------------------------------------------- */

static bool is_printed(const struct locus_position_spec *spec, int i)
{
    const struct locus_param *param = param_at(spec->scheme, i);
    double fallback;
    if (param->shown || spec->stated >> i & 1) return true;
    if (param->type != LOCUS_PARAM_CHOICE && is_model_value(param->fallback)) return false;
    return !parse_fallback(param, &fallback) || spec->values[i] != fallback;
}

void locus_position_print_range(const struct locus_position_spec *from,
                                const struct locus_position_spec *to, struct locus_buffer *out)
{
    int n = count_params(to->scheme);
    char separator = ':';
    locus_buffer_append(out, to->scheme->name, strlen(to->scheme->name));
    for (int i = 0; i < n; i++) {
        if (!is_printed(to, i)) continue;
        const struct locus_param *param = param_at(to->scheme, i);
        locus_buffer_printf(out, "%c%s=", separator, param->key);
        if (from->scheme == to->scheme && from->values[i] != to->values[i]) {
            locus_param_print(param, from->values[i], out);
            locus_buffer_append(out, "..", 2);
        }
        locus_param_print(param, to->values[i], out);
        separator = ',';
    }
}

void locus_position_print(const struct locus_position_spec *spec, struct locus_buffer *out)
{
    locus_position_print_range(spec, spec, out);
}

double locus_position_reach(const struct locus_position_spec *spec, const char **formula)
{
    *formula = "";
    return spec->scheme->reach ? spec->scheme->reach(spec, formula) : 0;
}

static int find_key(const struct locus_position_spec *spec, const char *key)
{
    const struct locus_word word = {key, strlen(key)};
    const int own = locus_params_find(spec->scheme->params, word);
    const int common = locus_params_find(locus_common_params, word);
    return own < 0 && common >= 0 ? locus_params_count(spec->scheme->params) + common : own;
}

LOCUS_API double locus_position_number(const struct locus_position_spec *spec, const char *key)
{
    int i = find_key(spec, key);
    return i < 0 ? (double)NAN : spec->values[i];
}

LOCUS_API bool locus_position_given(const struct locus_position_spec *spec, const char *key)
{
    int i = find_key(spec, key);
    return i >= 0 && spec->given >> i & 1;
}

LOCUS_API void locus_position_set(struct locus_position_spec *spec, const char *key, double value)
{
    int i = find_key(spec, key);
    if (i >= 0) spec->values[i] = value;
}

LOCUS_API int locus_position_int(const struct locus_position_spec *spec, const char *key)
{
    double value = locus_position_number(spec, key);
    if (isnan(value)) return 0;
    if (value <= INT_MIN) return INT_MIN;
    return value >= INT_MAX ? INT_MAX : (int)value;
}
