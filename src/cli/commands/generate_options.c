/* locus generate: the table of its options, and what they say to the sampler. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "cli/commands/generate.h"
#include "cli/kit/log.h"

#define FIELD(member) offsetof(struct locus_generate_options, member)
#define FLOAT_OPTION(NAME, MEMBER, STAGE, FALLBACK, MIN, MAX, HELP)                                \
    {                                                                                              \
        .name = NAME, .type = LOCUS_OPTION_FLOAT, .offset = FIELD(MEMBER),                         \
        .given = FIELD(given[STAGE]), .argument = "X", .fallback = FALLBACK, .min = MIN,           \
        .max = MAX, .help = HELP                                                                   \
    }

const struct locus_option locus_generate_table[] = {
    {.name = "prompt",
     .letter = 'p',
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(prompt),
     .argument = "TEXT",
     .help = "what to go on from; \"\" starts a text of its own"},
    {.name = "file",
     .letter = 'f',
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(file),
     .argument = "FILE",
     .help = "the prompt is this file; -: standard input, as when piped"},
    {.name = "begin",
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(begin),
     .argument = "TOKEN",
     .fallback = "auto",
     .help = "before the prompt: auto (what the file says), none, or a token"},
    {.name = "tokens",
     .letter = 'n',
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(n_tokens),
     .given = FIELD(n_tokens_given),
     .argument = "N",
     .fallback = "256",
     .min = -1,
     .max = INT_MAX,
     .help = "how many at most; -1: until the end of the text or of the context"},
    FLOAT_OPTION("temperature", temperature, LOCUS_STAGE_TEMPERATURE, "0.8", 0, 1e6,
                 "0: always the likeliest token"),
    {.name = "top-k",
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(top_k),
     .given = FIELD(given[LOCUS_STAGE_TOP_K]),
     .argument = "N",
     .fallback = "40",
     .min = INT_MIN,
     .max = INT_MAX,
     .help = "the N likeliest; 0 or less: all"},
    FLOAT_OPTION("top-p", top_p, LOCUS_STAGE_TOP_P, "0.95", 0, 1,
                 "the likeliest with this share of the mass; 1: all"),
    FLOAT_OPTION("min-p", min_p, LOCUS_STAGE_MIN_P, "0.05", 0, 1,
                 "those with this share of the likeliest's; 0: all"),
    FLOAT_OPTION("typical-p", typical_p, LOCUS_STAGE_TYPICAL_P, "1", 0, 1,
                 "the most typical with this mass; 1: all"),
    FLOAT_OPTION("repeat-penalty", repeat_penalty, LOCUS_STAGE_PENALTIES, "1", 1e-3, 1e3,
                 "makes repeats rarer; 1: off"),
    {.name = "repeat-last-n",
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(repeat_last_n),
     .given = FIELD(given[LOCUS_STAGE_PENALTIES]),
     .argument = "N",
     .fallback = "64",
     .min = -1,
     .max = INT_MAX,
     .help = "how far back penalties look; -1: all the way"},
    FLOAT_OPTION("presence-penalty", presence_penalty, LOCUS_STAGE_PENALTIES, "0", -1e3, 1e3,
                 "off the logit of what occurred"),
    FLOAT_OPTION("frequency-penalty", frequency_penalty, LOCUS_STAGE_PENALTIES, "0", -1e3, 1e3,
                 "the same, as often as it occurred"),
    {.name = "logit-bias",
     .type = LOCUS_OPTION_TEXTS,
     .offset = FIELD(biases),
     .argument = "ID=B",
     .help = "adds B to a token's logit; -inf bans it (repeats)"},
    {.name = "samplers",
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(samplers),
     .argument = "LIST",
     .help = "the order, by default penalties,top-k,typical-p,top-p,min-p,temperature"},
    {.name = "stop",
     .type = LOCUS_OPTION_TEXTS,
     .offset = FIELD(stops),
     .argument = "TEXT",
     .help = "end before this text, be it a special token's (repeats)"},
    {.name = "stop-token",
     .type = LOCUS_OPTION_TEXTS,
     .offset = FIELD(stop_tokens),
     .argument = "TOKEN",
     .help = "end before this token, named by its id or its text (repeats)"},
    {.name = "ignore-eos",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(ignore_eos),
     .help = "never sample an end of text"},
    {.name = "no-prompt",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(no_prompt),
     .help = "print only what is new"},
    {.name = "special",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(special),
     .help = "show special tokens (<|...|>), and parse them in the prompt"},
    {.name = "json",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(json),
     .help = "one object: prompt, text, tokens, how it ended, settings, timings"},
    {.name = "temp", .alias_of = "temperature"},
    {.name = "n-predict", .alias_of = "tokens"},
    {.name = "predict", .alias_of = "tokens"},
    {.name = NULL},
};

static const struct {
    const char *name;
    enum locus_sampler_stage stage;
} stages[] = {
    {"penalties", LOCUS_STAGE_PENALTIES}, {"top-k", LOCUS_STAGE_TOP_K},
    {"typical-p", LOCUS_STAGE_TYPICAL_P}, {"top-p", LOCUS_STAGE_TOP_P},
    {"min-p", LOCUS_STAGE_MIN_P},         {"temperature", LOCUS_STAGE_TEMPERATURE},
};
enum { N_STAGES = sizeof stages / sizeof *stages };

static int refuse_stage(const char *name)
{
    struct locus_suggestion suggestion = locus_suggestion_near(name);
    for (int i = 0; i < N_STAGES; i++)
        locus_suggestion_offer(&suggestion, stages[i].name);
    if (suggestion.nearest)
        return locus_log_usage("generate", "--samplers: found '%s'; did you mean '%s'?", name,
                               suggestion.nearest);
    return locus_log_usage("generate",
                           "--samplers: found '%s', known: penalties, top-k, typical-p, top-p, "
                           "min-p, temperature",
                           name);
}

static int read_stages(const char *list, locus_sampler_params *params)
{
    int n = 0;
    for (const char *next = list; next; next = strchr(next, ',')) {
        next += n > 0;
        char name[64];
        size_t length = strcspn(next, ",");
        if (length >= sizeof name) length = sizeof name - 1;
        memcpy(name, next, length);
        name[length] = '\0';
        int found = 0;
        while (found < N_STAGES && strcmp(stages[found].name, name) != 0)
            found++;
        if (found == N_STAGES) return refuse_stage(name);
        for (int i = 0; i < n; i++)
            if (params->stages[i] == stages[found].stage)
                return locus_log_usage("generate", "--samplers: '%s' is there twice", name);
        params->stages[n++] = stages[found].stage;
    }
    params->stages[n] = LOCUS_STAGE_END;
    return -1;
}

static int read_biases(const struct locus_texts *texts, locus_sampler_params *params)
{
    if (texts->n_items == 0) return -1;
    locus_logit_bias *biases = calloc((size_t)texts->n_items, sizeof *biases);
    if (!biases) return locus_log_error("out of memory for the options");
    for (int i = 0; i < texts->n_items; i++) {
        char id[24];
        const char *text = texts->items[i], *equals = strchr(text, '=');
        size_t length = equals ? (size_t)(equals - text) : sizeof id;
        if (length < sizeof id) {
            memcpy(id, text, length);
            id[length] = '\0';
            if (locus_number_int(id, 0, INT_MAX, &biases[i].token) &&
                locus_number_float(equals + 1, -(double)INFINITY, 1e6, &biases[i].bias))
                continue;
        }
        free(biases);
        return locus_log_usage("generate", "--logit-bias: found '%s', expected ID=NUMBER", text);
    }
    params->logit_bias = biases;
    params->n_logit_bias = texts->n_items;
    return -1;
}

static int check_texts(const char *option, const struct locus_texts *texts, const char *expected)
{
    for (int i = 0; i < texts->n_items; i++)
        if (!*texts->items[i])
            return locus_log_usage("generate", "--%s: found '', expected %s", option, expected);
    return -1;
}

int locus_generate_check(const struct locus_generate_options *options)
{
    static const char named[] = "a token's id or text";
    int status = check_texts("stop", &options->stops, "a text");
    if (status < 0) status = check_texts("stop-token", &options->stop_tokens, named);
    if (status < 0 && !*options->begin)
        status =
            locus_log_usage("generate", "--begin: found '', expected auto, none, or %s", named);
    return status;
}

/* A number for a stage that doesn't run would say nothing. */
static int check_unlisted(const struct locus_generate_options *options,
                          const locus_sampler_params *params)
{
    for (int i = 0; i < N_STAGES; i++) {
        bool listed = false;
        for (int j = 0; params->stages[j] != LOCUS_STAGE_END; j++)
            listed |= params->stages[j] == stages[i].stage;
        if (listed || !options->given[stages[i].stage]) continue;
        if (stages[i].stage == LOCUS_STAGE_TEMPERATURE && options->temperature == 0) continue;
        return locus_log_usage("generate",
                               "--samplers %s leaves out %s, for which an option was given",
                               options->samplers, stages[i].name);
    }
    return -1;
}

int locus_generate_sampling(const struct locus_generate_options *options,
                            locus_sampler_params *params)
{
    *params = locus_sampler_defaults();
    params->temperature = options->temperature;
    params->top_k = options->top_k;
    params->top_p = options->top_p;
    params->min_p = options->min_p;
    params->typical_p = options->typical_p;
    params->repeat_penalty = options->repeat_penalty;
    params->presence_penalty = options->presence_penalty;
    params->frequency_penalty = options->frequency_penalty;
    params->repeat_last_n = options->repeat_last_n;
    params->ignore_end = options->ignore_eos;
    for (int i = 0; i < N_STAGES; i++)
        params->stages[i] = stages[i].stage;
    params->stages[N_STAGES] = LOCUS_STAGE_END;
    int status = options->samplers ? read_stages(options->samplers, params) : -1;
    if (status < 0) status = check_unlisted(options, params);
    return status < 0 ? read_biases(&options->biases, params) : status;
}
