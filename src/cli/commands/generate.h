/* locus generate: its options, and a run of it. */
#ifndef LOCUS_CLI_GENERATE_H
#define LOCUS_CLI_GENERATE_H

#include "cli/kit/options.h"
#include "cli/kit/stream.h"
#include "locus.h"

struct locus_generate_options {
    struct locus_common common; /* first, as in every command */
    const char *prompt, *file, *begin, *samplers;
    struct locus_texts stops, stop_tokens, biases;
    int n_tokens; /* -1: until the end of the text or of the context */
    bool n_tokens_given;
    float temperature, top_p, min_p, typical_p;
    float repeat_penalty, presence_penalty, frequency_penalty;
    int top_k, repeat_last_n;
    bool given[LOCUS_STAGE_TEMPERATURE + 1]; /* an option of that stage */
    bool ignore_eos, no_prompt, special, json;
};

extern const struct locus_option locus_generate_table[];

/* Whether the options make sense by themselves: -1 to go on, or the exit status of wrong usage. */
int locus_generate_check(const struct locus_generate_options *options);

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
    int32_t begin;      /* the token before the text, -1: none */
    bool begins_itself; /* the prompt has it already */
    bool *stops;        /* [n_tokens]: tokens that --stop-token names */
    int n_context;
    struct locus_stream stream;
    struct locus_buffer tokens; /* int32_t, those generated */
    int n_generated;
    int n_evaluated;      /* generated tokens that went through the model */
    bool decay_told;      /* that positions go past the trained length */
    const char *finish;   /* "stop", "length", "end", "interrupt" */
    int32_t finish_token; /* the stop token or end of text that did it, -1: none did */
    double load_seconds, prompt_seconds, generation_seconds;
};

/* What a text begins and ends with: the prompt's tokens with the one before them, and the tokens
 * that --stop-token names. Both return false with run->status set. */
bool locus_generate_encode(struct locus_generate *run);
bool locus_generate_find_stops(struct locus_generate *run);
/* Notes of what was left out at the beginning, and of tokens that look like an end and aren't. */
void locus_generate_tell_text(const struct locus_generate *run);

/* The summary of a run, as one line on stderr or one object on stdout; the latter returns the exit
 * status. */
void locus_generate_summarise(const struct locus_generate *run);
int locus_generate_print_json(const struct locus_generate *run);

#endif
