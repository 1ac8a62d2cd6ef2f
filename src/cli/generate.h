/* locus generate: its options, and a run in the making. */
#ifndef LOCUS_CLI_GENERATE_H
#define LOCUS_CLI_GENERATE_H

#include "cli/options.h"
#include "cli/stream.h"
#include "locus.h"

struct locus_generate_options {
    struct locus_common common; /* first, as in every command */
    const char *prompt, *file, *samplers;
    struct locus_texts stops, biases;
    int n_tokens; /* -1: until the end of the text or of the context */
    bool n_tokens_given;
    float temperature, top_p, min_p, typical_p;
    float repeat_penalty, presence_penalty, frequency_penalty;
    int top_k, repeat_last_n;
    bool ignore_eos, no_prompt, special, json;
};

extern const struct locus_option locus_generate_table[];

/* The sampler's parameters from the options; logit_bias is to be freed. Returns -1 to go on, or the
 * exit status of wrong usage. */
int locus_generate_sampling(const struct locus_generate_options *options,
                            locus_sampler_params *params);

struct locus_generate {
    const struct locus_generate_options *options;
    int status;
    char *model_path;
    locus_model *model;
    locus_model_info info;
    locus_tokenizer *tokenizer;
    locus_session *session;
    locus_sampler *sampler;
    locus_sampler_params sampling;
    struct locus_buffer prompt;
    int32_t *prompt_tokens;
    int n_prompt;
    int n_context;
    struct locus_stream stream;
    struct locus_buffer tokens; /* int32_t, those generated */
    int n_generated;
    int n_evaluated;    /* generated tokens that went through the model */
    bool decay_told;    /* that positions go past the trained length */
    const char *finish; /* "stop", "length", "end", "interrupt" */
    double load_seconds, prompt_seconds, generation_seconds;
};

/* The summary of a run, as one line on stderr or one object on stdout; the latter returns the exit
 * status. */
void locus_generate_summarise(const struct locus_generate *run);
int locus_generate_print_json(const struct locus_generate *run);

#endif
