/* Options: see options.h. The common table, parsing by getopt_long, and help. */
#include "cli/kit/options.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/spec.h"
#include "cli/kit/foreign.h"
#include "cli/kit/log.h"
#include "cli/kit/page.h"

#define FIELD(member) offsetof(struct locus_common, member)

/* Help for commands without a session stops after "help". */
const struct locus_option locus_common_options[] = {
    {.name = "model",
     .letter = 'm',
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(model),
     .argument = "FILE",
     .help = "GGUF checkpoint (default: $LOCUS_MODEL, else models/tales.gguf)"},
    {.name = "quiet",
     .letter = 'q',
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(quiet),
     .help = "only errors and warnings on stderr"},
    {.name = "verbose",
     .letter = 'v',
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(verbose),
     .help = "say more on stderr"},
    {.name = "help", .letter = 'h', .type = LOCUS_OPTION_HELP, .help = "print this, and end"},
    {.name = "position",
     .letter = 'P',
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(position),
     .argument = "SPEC",
     .help = "position scheme in place of the model's; see 'locus positions'"},
    {.name = "attention",
     .letter = 'A',
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(attention),
     .argument = "SPEC",
     .fallback = "full",
     .help = "which keys a token sees: full, window:size=W, sinks:keep=K,size=W, "
             "self-extend:group=G,window=W, rerope:window=W, leaky-rerope:window=W,k=K or "
             "dual-chunk:chunk=C,window=W"},
    {.name = "threads",
     .letter = 't',
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(n_threads),
     .argument = "N",
     .min = 1,
     .max = 4096,
     .help = "threads (default: the physical cores this process may use)"},
    {.name = "context",
     .letter = 'c',
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(n_context),
     .argument = "N",
     .min = 1,
     .max = INT_MAX,
     .help = "positions the session can hold (default: what the job needs)"},
    {.name = "batch",
     .letter = 'b',
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(n_batch),
     .argument = "N",
     .fallback = "512",
     .min = 1,
     .max = INT_MAX,
     .help = "tokens a forward pass; changes speed, never the result"},
    {.name = "cache-type",
     .type = LOCUS_OPTION_CHOICE,
     .offset = FIELD(cache_type),
     .argument = "TYPE",
     .choices = "f32|f16|q8_0",
     .help = "f32, f16 or q8_0 (default: f32 for F32 checkpoints, else f16)"},
    {.name = "kernels",
     .type = LOCUS_OPTION_CHOICE,
     .offset = FIELD(kernels),
     .argument = "NAME",
     .choices = "reference|avx2|avx512|avx512+vnni|avx512+vnni+bf16|avx512_bf16|neon|neon+dotprod",
     .help =
         "reference, avx2, avx512[+vnni[+bf16]] or neon[+dotprod] (default: the best there is)"},
    {.name = "seed",
     .type = LOCUS_OPTION_SEED,
     .offset = FIELD(seed),
     .given = FIELD(seed_given),
     .argument = "N",
     .help = "any 64-bit number; -1: a random one (default: drawn and printed)"},
    {.name = "ctx-size", .alias_of = "context"},
    {.name = "batch-size", .alias_of = "batch"},
    {.name = NULL},
};

enum { MAX_OPTIONS = 64, FIRST_LONG = 256 /* past every letter */ };

/* The tables of a command as getopt wants them. */
struct parser {
    const struct locus_command *command;
    const struct locus_option *options[MAX_OPTIONS]; /* aliases resolved */
    struct option longs[MAX_OPTIONS + 1];
    char letters[3 * MAX_OPTIONS];
    int n_options;
};

static const struct locus_option *find_in(const struct locus_option *table, const char *name)
{
    for (const struct locus_option *option = table; option && option->name; option++)
        if (strcmp(option->name, name) == 0) return option;
    return NULL;
}

/* Values of options without a letter count from `first_value`. Spellings of one option share its
 * value, so that getopt does not call their common beginning ambiguous. */
static void add_table(struct parser *parser, const struct locus_option *table, int first_value)
{
    for (const struct locus_option *row = table; row && row->name; row++) {
        if (parser->n_options == MAX_OPTIONS) return;
        const struct locus_option *option = row->alias_of ? find_in(table, row->alias_of) : row;
        int value = option->letter ? option->letter : first_value + (int)(option - table);
        bool takes = option->argument != NULL;
        parser->options[parser->n_options] = option;
        parser->longs[parser->n_options++] =
            (struct option){row->name, takes ? required_argument : no_argument, NULL, value};
        if (row->alias_of || !row->letter) continue;
        char *end = parser->letters + strlen(parser->letters);
        *end++ = (char)row->letter;
        if (takes) *end++ = ':';
        *end = '\0';
    }
}

static const struct locus_option *find_value(const struct parser *parser, int value)
{
    for (int i = 0; i < parser->n_options; i++)
        if (parser->longs[i].val == value) return parser->options[i];
    return NULL;
}

/* "-n (--tokens)" or "--top-k". */
static const char *spell(const struct locus_option *option, char out[64])
{
    if (option->letter)
        snprintf(out, 64, "-%c (--%s)", option->letter, option->name);
    else
        snprintf(out, 64, "--%s", option->name);
    return out;
}

static int refuse_number(const char *command, const struct locus_option *option, const char *text)
{
    char name[64];
    const char *kind = option->type == LOCUS_OPTION_INT ? "a whole number" : "a number";
    spell(option, name);
    if (option->type == LOCUS_OPTION_SEED)
        return locus_log_usage(command, "%s: found '%s', expected a whole number of 64 bits", name,
                               text);
    if (option->max >= INT_MAX && option->min <= INT_MIN)
        return locus_log_usage(command, "%s: found '%s', expected %s", name, text, kind);
    return locus_log_usage(command, "%s: found '%s', expected %s from %.10g to %.10g", name, text,
                           kind, option->min, option->max);
}

static int refuse_choice(const char *command, const struct locus_option *option, const char *text)
{
    char name[64], known[128];
    size_t n = 0;
    for (const char *c = option->choices; *c && n + 3 < sizeof known; c++) {
        if (*c == '|')
            known[n++] = ',', known[n++] = ' ';
        else
            known[n++] = *c;
    }
    known[n] = '\0';
    return locus_log_usage(command, "%s: found '%s', known: %s", spell(option, name), text, known);
}

static bool append_text(struct locus_texts *texts, const char *text)
{
    const char **items = realloc(texts->items, ((size_t)texts->n_items + 1) * sizeof *items);
    if (!items) return false;
    texts->items = items;
    texts->items[texts->n_items++] = text;
    return true;
}

static bool append_ordered(struct locus_ordered *ordered, int letter, const char *text)
{
    void *items = realloc(ordered->items, ((size_t)ordered->n_items + 1) * sizeof *ordered->items);
    if (!items) return false;
    ordered->items = items;
    ordered->items[ordered->n_items].letter = letter;
    ordered->items[ordered->n_items++].text = text;
    return true;
}

/* Choices are of small letters, and may be typed in others: Q8_0. */
static const char *as_choice(const struct locus_option *option, char *text)
{
    char small[64];
    size_t n = 0;
    for (; text[n] && n + 1 < sizeof small; n++)
        small[n] = (char)(text[n] >= 'A' && text[n] <= 'Z' ? text[n] - 'A' + 'a' : text[n]);
    if (!text[n] && locus_choice_find(option->choices, (struct locus_word){small, n}) >= 0)
        memcpy(text, small, n);
    return text;
}

/* A seed that is asked for and not named. */
static bool is_random(const char *text)
{
    return strcmp(text, "-1") == 0;
}

/* -1, or the exit status. */
static int set_value(const char *command, const struct locus_option *option, const char *text,
                     void *values)
{
    void *place = (char *)values + option->offset;
    if (option->argument && strncmp(option->argument, "FILE", 4) == 0 && !*text) {
        char name[64];
        return locus_log_usage(command, "%s: found '', expected %s", spell(option, name),
                               option->argument);
    }
    switch (option->type) {
    case LOCUS_OPTION_FLAG:
        *(bool *)place = true;
        break;
    case LOCUS_OPTION_TEXT:
        *(const char **)place = text;
        break;
    case LOCUS_OPTION_TEXTS:
        if (append_text((struct locus_texts *)place, text)) break;
        return locus_log_error("out of memory for the options");
    case LOCUS_OPTION_ORDERED:
        if (append_ordered((struct locus_ordered *)place, option->letter, text)) break;
        return locus_log_error("out of memory for the options");
    case LOCUS_OPTION_CHOICE:
        if (locus_choice_find(option->choices, (struct locus_word){text, strlen(text)}) < 0)
            return refuse_choice(command, option, text);
        *(const char **)place = text;
        break;
    case LOCUS_OPTION_INT:
        if (locus_number_int(text, (int)option->min, (int)option->max, (int *)place)) break;
        return refuse_number(command, option, text);
    case LOCUS_OPTION_FLOAT:
        if (locus_number_float(text, option->min, option->max, (float *)place)) break;
        return refuse_number(command, option, text);
    case LOCUS_OPTION_SEED:
        if (is_random(text)) {
            *(uint64_t *)place = locus_seed_draw();
            break;
        }
        if (locus_number_seed(text, (uint64_t *)place)) break;
        return refuse_number(command, option, text);
    case LOCUS_OPTION_HELP: /* see locus_options_parse */
        break;
    }
    return -1;
}

/* A long option that getopt_long did not take: several it may be the beginning of, one that takes
 * no value, or none at all. */
static int refuse_long(const struct parser *parser, const char *text)
{
    const char *command = parser->command->name;
    char name[128];
    int length = (int)strcspn(text + 2, "=");
    snprintf(name, sizeof name, "%.*s", length, text + 2);
    struct locus_buffer matches = {0};
    struct locus_suggestion suggestion = locus_suggestion_near(name);
    int n_matches = 0;
    for (int i = 0; i < parser->n_options; i++) {
        const char *known = parser->longs[i].name;
        if (strcmp(parser->options[i]->name, known) == 0)
            locus_suggestion_offer(&suggestion, known);
        if (strncmp(known, name, strlen(name)) != 0) continue;
        locus_buffer_printf(&matches, "%s--%s", n_matches++ ? ", " : "", known);
    }
    const char *hint = locus_foreign_hint(name);
    int status;
    if (hint)
        status = locus_log_usage(command, "unknown option '--%s': %s", name, hint);
    else if (n_matches > 1)
        status = locus_log_usage(command, "option '--%s' may mean %s", name, matches.bytes);
    else if (n_matches == 1)
        status = locus_log_usage(command, "%s takes no value, found '%s'", matches.bytes, text);
    else if (suggestion.nearest)
        status = locus_log_usage(command, "unknown option '--%s'; did you mean '--%s'?", name,
                                 suggestion.nearest);
    else
        status = locus_log_usage(command, "unknown option '--%s'", name);
    locus_buffer_free(&matches);
    return status;
}

/* A letter that getopt_long did not take. */
static int refuse_letter(const char *command, int letter)
{
    const char name[] = {(char)letter, '\0'};
    const bool digit = letter >= '0' && letter <= '9';
    const char *hint =
        digit ? "expected an option, or a number from 0 on" : locus_foreign_hint(name);
    return locus_log_usage(command, "unknown option '-%c'%s%s", letter, hint ? ": " : "",
                           hint ? hint : "");
}

/* "-ngl" is another program's, as "-n gl" can't be meant; -1: the argument is none of those. */
static int refuse_foreign_word(const struct parser *parser, const char *text)
{
    if (!text || text[0] != '-' || text[1] == '-' || strlen(text) < 3) return -1;
    const struct locus_option *option = find_value(parser, text[1]);
    const bool number =
        option && (option->type == LOCUS_OPTION_INT || option->type == LOCUS_OPTION_FLOAT);
    const char *hint = !option || number ? locus_foreign_hint(text + 1) : NULL;
    return hint ? locus_log_usage(parser->command->name, "unknown option '%s': %s", text, hint)
                : -1;
}

int locus_options_stray(const struct locus_command *command, const char *word)
{
    const char *dot = strrchr(word, '.');
    const struct locus_option *prompt = find_in(command->options, "prompt");
    if (dot && strcmp(dot, ".gguf") == 0)
        return locus_log_usage(command->name,
                               "'%s' belongs to no option; a model is named by -m %s", word, word);
    if (prompt && prompt->type == LOCUS_OPTION_TEXT)
        return locus_log_usage(command->name,
                               "'%s' belongs to no option; a text is given by -p '%s'", word, word);
    return locus_log_usage(command->name, "'%s' belongs to no option", word);
}

static int set_fallbacks(const struct parser *parser, void *values)
{
    for (int i = 0; i < parser->n_options; i++) {
        const struct locus_option *option = parser->options[i];
        if (!option->fallback) continue;
        int status = set_value(parser->command->name, option, option->fallback, values);
        if (status >= 0) return status;
    }
    return -1;
}

int locus_options_parse(const struct locus_command *command, int argc, char **argv, void *values,
                        int *first_operand)
{
    struct parser parser = {.command = command, .letters = ":"};
    const struct locus_option *const tables[] = {command->shared, command->options,
                                                 locus_common_options};
    for (int i = 0; i < 3; i++)
        add_table(&parser, tables[i], FIRST_LONG + i * MAX_OPTIONS);
    int status = set_fallbacks(&parser, values);
    opterr = 0;
    while (status < 0) {
        int at = optind; /* of the argument about to be read, unless operands lie before it */
        if ((status = refuse_foreign_word(&parser, argv[at])) >= 0) break;
        int value = getopt_long(argc, argv, parser.letters, parser.longs, NULL);
        if (value == -1) break;
        const struct locus_option *option = find_value(&parser, value);
        if (option && option->type == LOCUS_OPTION_HELP)
            status = locus_options_help(command);
        else if (option) {
            const bool choice = option->type == LOCUS_OPTION_CHOICE;
            status = set_value(command->name, option, choice ? as_choice(option, optarg) : optarg,
                               values);
            if (option->given)
                *(bool *)((char *)values + option->given) =
                    option->type != LOCUS_OPTION_SEED || !is_random(optarg);
        } else if (value == ':') {
            char name[64];
            option = find_value(&parser, optopt);
            status = locus_log_usage(command->name, "%s wants a value: %s", spell(option, name),
                                     option->argument);
        } else if (optind > at && strncmp(argv[optind - 1], "--", 2) == 0) {
            status = refuse_long(&parser, argv[optind - 1]);
        } else
            status = refuse_letter(command->name, optopt);
    }
    *first_operand = optind;
    if (status < 0 && optind < argc && !command->takes_operands)
        status = locus_options_stray(command, argv[optind]);
    return status;
}

static void release_values(const struct locus_option *table, void *values)
{
    for (const struct locus_option *option = table; option && option->name; option++) {
        char *place = (char *)values + option->offset;
        if (option->alias_of) continue;
        if (option->type == LOCUS_OPTION_TEXTS) {
            struct locus_texts *texts = (struct locus_texts *)place;
            free(texts->items);
            *texts = (struct locus_texts){0};
        } else if (option->type == LOCUS_OPTION_ORDERED) {
            struct locus_ordered *ordered = (struct locus_ordered *)place;
            free(ordered->items);
            *ordered = (struct locus_ordered){0};
        }
    }
}

void locus_options_release(const struct locus_command *command, void *values)
{
    release_values(command->shared, values);
    release_values(command->options, values);
}

void locus_options_describe(const struct locus_option *options, const char *last,
                            struct locus_buffer *out)
{
    for (const struct locus_option *option = options; option && option->name; option++) {
        if (!option->help) continue;
        char name[64], letter[8] = "   ";
        if (option->letter) snprintf(letter, sizeof letter, "-%c,", option->letter);
        snprintf(name, sizeof name, "%s --%s%s%s", letter, option->name,
                 option->argument ? " " : "", option->argument ? option->argument : "");
        locus_buffer_printf(out, "  %-26s  %s", name, option->help);
        if (option->fallback) locus_buffer_printf(out, " (default %s)", option->fallback);
        locus_buffer_append(out, "\n", 1);
        if (last && strcmp(option->name, last) == 0) return;
    }
}

/* ---- help --------------------------------------------------------------------------------- */

/* "usage: locus NAME ..." with the further lines under the first. */
static void append_usage(const struct locus_command *command, struct locus_buffer *out)
{
    const char *line = command->usage;
    for (bool first = true; line; first = false) {
        int length = (int)strcspn(line, "\n");
        locus_buffer_printf(out, "%s locus %s %.*s\n", first ? "usage:" : "      ", command->name,
                            length, line);
        line = line[length] ? line + length + 1 : NULL;
    }
}

int locus_options_help(const struct locus_command *command)
{
    struct locus_buffer out = {0};
    append_usage(command, &out);
    locus_buffer_printf(&out, "\n%s\n", command->summary);
    if (command->options) {
        locus_buffer_printf(&out, "\nOptions of %s:\n", command->name);
        locus_options_describe(command->shared, NULL, &out);
        locus_options_describe(command->options, NULL, &out);
    }
    locus_buffer_printf(&out, "\nOptions of every command:\n");
    locus_options_describe(locus_common_options, command->runs_session ? NULL : "help", &out);
    if (!command->runs_session)
        locus_buffer_printf(&out,
                            "  The options of generate's session (--threads and the like) are "
                            "accepted, and matter only where one is run.\n");
    if (command->details) locus_buffer_printf(&out, "\n%s\n", command->details);
    return locus_page_finish(&out);
}
