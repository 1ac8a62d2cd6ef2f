/* locus positions [NAME]: the registry of position schemes, all of it made from their tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spec.h"
#include "cli/commands/commands.h"
#include "cli/commands/positions.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/page.h"
#include "cli/kit/session_options.h"
#include "forward/policy.h"
#include "position/layers.h"
#include "position/registry.h"
#include "position/spec.h"

/* ---- values ------------------------------------------------------------------------------- */

static const char *default_name(const struct locus_param *param)
{
    if (param->type == LOCUS_PARAM_CHOICE) return param->fallback;
    if (strcmp(param->fallback, "head_dim") == 0) return "the width of a head";
    if (strcmp(param->fallback, "trained_length") == 0) return "the model's trained length";
    return param->fallback;
}

/* One SPEC, of all layers. */
static bool resolve(struct locus_position_spec *spec, const char *text)
{
    struct locus_layer_specs specs;
    if (!locus_resolve_without_model(&specs, text, NULL)) return false;
    *spec = specs.specs[0];
    return true;
}

/* What a shorthand stands for: the scheme's name and the values that are not its defaults. */
static void append_meaning(struct locus_buffer *out, const struct locus_position_spec *spec)
{
    struct locus_position_spec plain;
    locus_buffer_printf(out, "%s", spec->scheme->name);
    if (!resolve(&plain, spec->scheme->name)) return;
    const struct locus_param *param;
    char separator = ':';
    for (int i = 0; (param = locus_spec_param_at(spec, i)); i++) {
        if (spec->values[i] == plain.values[i]) continue;
        locus_buffer_printf(out, "%c%s=", separator, param->key);
        locus_param_print(param, spec->values[i], out);
        separator = ',';
    }
}

/* ---- one scheme --------------------------------------------------------------------------- */

static void append_places(struct locus_buffer *out, const struct locus_position_scheme *scheme)
{
    const char *places[] = {scheme->embed ? "token embeddings" : NULL,
                            scheme->rotate ? "queries and keys" : NULL,
                            scheme->bias ? "attention scores" : NULL};
    const char *separator = "It acts on ";
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!places[i]) continue;
        locus_buffer_printf(out, "%s%s", separator, places[i]);
        separator = " and on ";
    }
    locus_buffer_printf(out, "%s.\n", *separator == 'I' ? "It acts on nothing" : "");
}

/* Help that begins "this, that: ..." is on those values of another parameter alone. */
static bool is_on_others(const char *help, const struct locus_param *choice, int index)
{
    for (;;) {
        const struct locus_word word = {help, strcspn(help, ",:")};
        const int found = locus_choice_find(choice->choices, word);
        help += word.n_bytes;
        if (found < 0 || found == index || !*help) return false;
        if (*help == ':') return true;
        help += 1 + strspn(help + 1, " ");
    }
}

/* The parameter that a shorthand sets, if it is a choice; NULL: there is none. */
static const struct locus_param *preset_choice(const char *text,
                                               const struct locus_position_spec *spec, int *index)
{
    const struct locus_position_alias *alias =
        locus_position_find_alias(text, strcspn(text, ":; "));
    const struct locus_param *params = spec->scheme->params;
    for (int i = 0; alias && alias->preset && params && params[i].key; i++) {
        size_t length = strlen(params[i].key);
        if (params[i].type != LOCUS_PARAM_CHOICE || alias->preset[length] != '=' ||
            strncmp(alias->preset, params[i].key, length) != 0)
            continue;
        *index = (int)spec->values[i];
        return &params[i];
    }
    return NULL;
}

static void append_param(struct locus_buffer *out, const struct locus_param *param)
{
    locus_buffer_printf(out, "  %-13s %s\n                ", param->key, param->help);
    locus_param_print_range(param, out);
    locus_buffer_printf(out, " (default: %s)\n", default_name(param));
}

/* All parameters, or those that matter to a shorthand. */
static void append_params(struct locus_buffer *out, const char *text,
                          const struct locus_position_spec *spec)
{
    const struct locus_param *params = spec->scheme->params;
    if (!params || !params->key) {
        locus_buffer_printf(out, "\nIt takes no parameters of its own.\n");
        return;
    }
    int index = -1;
    const struct locus_param *choice = preset_choice(text, spec, &index);
    locus_buffer_printf(out, choice ? "\nParameters that matter here:\n" : "\nParameters:\n");
    for (; params->key; params++) {
        if (choice && (params == choice || is_on_others(params->help, choice, index))) continue;
        append_param(out, params);
    }
}

/* What any scheme takes. */
static void append_common(struct locus_buffer *out)
{
    locus_buffer_printf(out, "\nAny scheme takes:\n");
    for (const struct locus_param *param = locus_common_params; param->key; param++)
        append_param(out, param);
}

/* Shorthands that stand for this scheme. */
static void append_shorthands(struct locus_buffer *out, const struct locus_position_scheme *scheme)
{
    bool first = true;
    struct locus_position_spec spec;
    for (size_t i = 0; locus_position_aliases[i].alias; i++) {
        const char *alias = locus_position_aliases[i].alias;
        if (!resolve(&spec, alias) || (scheme && spec.scheme != scheme)) continue;
        if (first) locus_buffer_printf(out, scheme ? "\nShort for it:\n" : "\nShorthands:\n");
        first = false;
        locus_buffer_printf(out, "  %-16s", alias);
        append_meaning(out, &spec);
        locus_buffer_append(out, "\n", 1);
    }
}

/* A SPEC to try: the text as it is typed, or a scheme with its first values of its own. */
static void append_example_spec(struct locus_buffer *out, const char *name,
                                const struct locus_position_spec *spec)
{
    enum { MOST = 2 };
    const struct locus_param *params = spec->scheme->params;
    const struct locus_position_alias *alias = locus_position_find_alias(name, strlen(name));
    char separator = ':';
    int n = 0;
    locus_buffer_printf(out, "%s", name);
    if (alias && alias->example) locus_buffer_printf(out, ":%s", alias->example);
    for (int i = 0; params && params[i].key && n < MOST; i++) {
        bool models = default_name(&params[i]) != params[i].fallback;
        if (strpbrk(name, ":;") || models || alias) continue;
        locus_buffer_printf(out, "%c%s=", separator, params[i].key);
        locus_param_print(&params[i], spec->values[i], out);
        separator = ',';
        n++;
    }
}

/* Whether the model there can be run with that SPEC. */
static bool runs(const char *path, const char *spec)
{
    const locus_session_params params = {.position = spec, .n_context = 8, .n_threads = 1};
    locus_model *model = path ? locus_model_open(path, NULL) : NULL;
    locus_session *session = model ? locus_session_create(model, &params, NULL) : NULL;
    const bool good = session != NULL;
    locus_session_free(session);
    locus_model_free(model);
    return good;
}

void locus_positions_word(struct locus_buffer *out, size_t *line, const char *option,
                          const char *word)
{
    enum { WIDTH = 80 - 2 /* and a backslash */ };
    const char *quote = strpbrk(word, "; ") ? "\"" : "";
    if (out->length - *line + strlen(option) + strlen(word) + 2 * strlen(quote) + 2 > WIDTH) {
        locus_buffer_printf(out, " \\\n   ");
        *line = out->length - 3;
    }
    locus_buffer_printf(out, " %s %s%s%s", option, quote, word, quote);
}

/* A command that works as it stands: with the default model where the SPEC runs on it, else with
 * the bundled one that was trained with the scheme. Where there is no such model, what is missing
 * has a place. */
static void append_example(struct locus_buffer *out, const char *name,
                           const struct locus_position_spec *spec)
{
    struct locus_buffer text = {0};
    append_example_spec(&text, name, spec);
    char *usual = locus_model_file_usual();
    char *own = locus_model_file_of(spec->scheme->name);
    const bool plain = !text.failed && runs(usual, text.bytes);
    const bool known = plain || (!text.failed && runs(own, text.bytes));
    locus_buffer_printf(out, known ? "\nExample:\n" : "\nExample, with a model that can do it:\n");
    size_t line = out->length;
    locus_buffer_printf(out, "  locus generate");
    if (!plain) locus_positions_word(out, &line, "-m", known ? own : "MODEL.gguf");
    locus_positions_word(out, &line, "-p", "Once upon a time");
    locus_positions_word(out, &line, "-P", text.failed ? "" : text.bytes);
    locus_buffer_append(out, "\n", 1);
    out->failed |= text.failed;
    locus_buffer_free(&text);
    free(usual);
    free(own);
}

/* How far the values carry a model, those of the example where the ones given do nothing. */
static void append_reach(struct locus_buffer *out, const char *name,
                         const struct locus_position_spec *spec)
{
    const struct locus_position_alias *alias = locus_position_find_alias(name, strlen(name));
    struct locus_position_spec example = *spec;
    const char *formula;
    char text[64];
    if (locus_position_reach(spec, &formula) == 0) return;
    if (alias && alias->example) {
        snprintf(text, sizeof text, "%s:%s", name, alias->example);
        if (!resolve(&example, text)) return;
    }
    locus_buffer_printf(out, "\n%s:\nan estimate. ", formula);
    locus_position_print(&example, out);
    locus_buffer_printf(out, "\nreaches about %.0f positions in a model trained to %d.\n",
                        locus_position_reach(&example, &formula), LOCUS_INVENTED_LENGTH);
}

/* What a scheme does and takes, before an example of it. */
static void append_scheme(struct locus_buffer *out, const char *text,
                          const struct locus_position_spec *spec)
{
    locus_buffer_printf(out, "%s: %s.\n", spec->scheme->name, spec->scheme->summary);
    append_places(out, spec->scheme);
    append_params(out, text, spec);
    if (!locus_position_find_alias(text, strcspn(text, ":; ")))
        append_shorthands(out, spec->scheme);
}

static void append_inheritance(struct locus_buffer *out, const struct locus_position_scheme *scheme)
{
    locus_buffer_printf(out,
                        "\nKeys that are not named keep the values of a checkpoint whose own "
                        "scheme is %s;\n%s:inherit=0,... starts from the defaults above.\n",
                        scheme->name, scheme->name);
}

/* The SPECs of layers that differ, each scheme explained unless one before has it. */
static void append_layers(struct locus_buffer *out, const struct locus_layer_specs *specs)
{
    for (int i = 1; i < specs->n; i++) {
        const struct locus_position_scheme *scheme = specs->specs[i].scheme;
        bool explained = false;
        for (int j = 0; j < i; j++)
            explained |= specs->specs[j].scheme == scheme;
        locus_buffer_printf(out, "\nLayers ");
        locus_layer_list_print(&specs->layers[i], out);
        locus_buffer_printf(out, ": ");
        locus_position_print(&specs->specs[i], out);
        locus_buffer_append(out, "\n", 1);
        if (explained) continue;
        locus_buffer_append(out, "\n", 1);
        append_scheme(out, scheme->name, &specs->specs[i]);
        append_inheritance(out, scheme);
    }
}

/* ---- policies ----------------------------------------------------------------------------- */

static const struct locus_policy_kind *find_policy(const char *text)
{
    const struct locus_policy_kind *kind;
    const struct locus_word name = {text, strcspn(text, ":")};
    for (int i = 0; (kind = locus_policy_kind_at(i)) && !locus_word_is(name, kind->name);)
        i++;
    return kind;
}

static int describe_policy(const struct locus_policy_kind *kind)
{
    struct locus_buffer out = {0};
    locus_buffer_printf(
        &out,
        "%s: %s.\nIt is for -A (--attention), beside any position scheme that can serve it.\n",
        kind->name, kind->summary);
    locus_buffer_printf(&out, kind->params ? "\nParameters:\n" : "\nIt takes no parameters.\n");
    for (const struct locus_param *param = kind->params; param && param->key; param++) {
        locus_buffer_printf(&out, "  %-13s %s\n", param->key, param->help);
        if (param->fallback)
            locus_buffer_printf(&out, "%16sa whole number from %.0f on (default: %s)\n", "",
                                param->min, param->fallback);
        else
            locus_buffer_printf(&out, "%16sa whole number from %.0f on, to be given\n", "",
                                param->min);
    }
    locus_buffer_printf(&out, "\nExample:\n  locus generate -p \"Once upon a time\" -A %s",
                        kind->name);
    char separator = ':';
    for (const struct locus_param *param = kind->params; param && param->key; param++) {
        locus_buffer_printf(&out, "%c%s=%s", separator, param->key,
                            param->fallback ? param->fallback : "64");
        separator = ',';
    }
    locus_buffer_append(&out, "\n", 1);
    return locus_page_finish(&out);
}

/* ---- one SPEC ----------------------------------------------------------------------------- */

static int describe_one(const char *text)
{
    struct locus_layer_specs specs;
    locus_error error;
    const struct locus_policy_kind *policy = find_policy(text);
    if (policy) return describe_policy(policy);
    if (!locus_resolve_without_model(&specs, text, &error))
        return locus_log_refusal("positions", &error);
    const struct locus_position_spec *spec = &specs.specs[0];
    struct locus_buffer out = {0};
    if (strncmp(text, spec->scheme->name, strcspn(text, ":; ")) != 0) {
        locus_buffer_printf(&out, "%.*s: short for ", (int)strcspn(text, ";"), text);
        append_meaning(&out, spec);
        locus_buffer_append(&out, "\n\n", 2);
    }
    append_scheme(&out, text, spec);
    append_common(&out);
    append_example(&out, text, spec);
    append_reach(&out, text, spec);
    append_inheritance(&out, spec->scheme);
    append_layers(&out, &specs);
    return locus_page_finish(&out);
}

/* ---- all ---------------------------------------------------------------------------------- */

/* The keys of a scheme, a line. */
static void append_keys(struct locus_buffer *out, const struct locus_param *params)
{
    if (!params || !params->key) return;
    locus_buffer_printf(out, "%*s", 17, "");
    for (; params->key; params++)
        locus_buffer_printf(out, " %s", params->key);
    locus_buffer_append(out, "\n", 1);
}

static void append_policies(struct locus_buffer *out)
{
    locus_buffer_printf(out,
                        "\nWith any scheme that can serve them, for -A NAME[:key=value,...]:\n");
    const struct locus_policy_kind *kind;
    for (int i = 0; (kind = locus_policy_kind_at(i)); i++) {
        locus_buffer_printf(out, "  %-16s%s\n", kind->name, kind->summary);
        for (const struct locus_param *param = kind->params; param && param->key; param++) {
            locus_buffer_printf(out, "%18s%s: %s", "", param->key, param->help);
            if (param->fallback) locus_buffer_printf(out, " (default: %s)", param->fallback);
            locus_buffer_append(out, "\n", 1);
        }
    }
}

static int describe_all(void)
{
    struct locus_buffer out = {0};
    locus_buffer_printf(&out, "Position schemes, for -P NAME[:key=value,...]:\n");
    for (size_t i = 0; i < locus_position_count(); i++) {
        const struct locus_position_scheme *scheme = locus_position_at(i);
        locus_buffer_printf(&out, "  %-16s%s\n", scheme->name, scheme->summary);
        append_keys(&out, scheme->params);
    }
    append_shorthands(&out, NULL);
    locus_buffer_printf(&out, "\nAny of them takes:\n");
    append_keys(&out, locus_common_params);
    locus_buffer_printf(&out, "\n%s\n", locus_layers_help);
    append_policies(&out);
    locus_buffer_printf(
        &out, "\n'locus positions NAME' explains a scheme or policy and its parameters.\n");
    return locus_page_finish(&out);
}

static int positions(void *values, int n_operands, char **operands)
{
    const struct positions_options *options = values;
    const char *name = n_operands ? operands[0] : NULL;
    if (n_operands > 1)
        return locus_log_usage("positions", "one scheme at a time, found also '%s'", operands[1]);
    if (options->length > 0) return locus_positions_stretch(options, name);
    if (options->common.model)
        return locus_log_usage("positions", "-m FILE is for --length N, which isn't given");
    return name ? describe_one(name) : describe_all();
}

static const struct locus_option table[] = {
    {.name = "length",
     .type = LOCUS_OPTION_INT,
     .offset = offsetof(struct positions_options, length),
     .argument = "N",
     .min = 1,
     .max = 1 << 30,
     .help = "which settings carry the scheme, or that of -m FILE, to N positions: a table"},
    {.name = NULL},
};

const struct locus_command locus_command_positions = {
    .name = "positions",
    .summary = "List position schemes and policies, or explain one.",
    .usage = "[NAME]\n[NAME] [-m FILE] --length N",
    .details =
        "NAME is a scheme, a policy, a shorthand, or a whole SPEC:\n"
        "  NAME[:key=value,...][; layers LIST SPEC]...\n"
        "A LIST is of layers, counted from 0, and ranges FIRST:END:STEP of them, END not among "
        "them: 3, or 0,7, or 3::4, or :6. Those layers have that SPEC in place of the first one; "
        "where its NAME is the same, keys that it doesn't name are as there, else as in the "
        "model's own SPEC.",
    .options = table,
    .values_size = sizeof(struct positions_options),
    .takes_operands = true,
    .run = positions,
};
