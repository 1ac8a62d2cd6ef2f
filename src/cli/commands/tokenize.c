/* locus tokenize: text to tokens and back, with a checkpoint's tokenizer alone. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/kit/interrupt.h"
#include "cli/kit/log.h"
#include "cli/kit/model_file.h"
#include "cli/kit/prompt.h"
#include "tokenizer/tokenizer.h"

struct tokenize_options {
    struct locus_common common; /* first, as in every command */
    const char *prompt, *file;
    bool ids, pieces, decode, special;
};

struct source {
    char *path;
    struct locus_checkpoint *checkpoint;
    locus_tokenizer *tokenizer;
};

/* ---- tokenizer ---------------------------------------------------------------------------- */

/* -1, or the exit status. A file that holds a vocabulary and no weights will do. */
static int open_source(struct source *source, const struct locus_common *common)
{
    int status = LOCUS_EXIT_FAILED;
    locus_error error;
    if (!(source->path = locus_model_file(common, &status))) return status;
    if ((source->checkpoint = locus_checkpoint_open(source->path, &error)) &&
        (source->tokenizer = locus_tokenizer_from_checkpoint(source->checkpoint, &error))) {
        locus_model_file_note(source->path, locus_tokenizer_assumed(source->tokenizer),
                              common->quiet);
        return -1;
    }
    return locus_log_error("%s", error.message);
}

static void close_source(struct source *source)
{
    locus_tokenizer_free(source->tokenizer);
    locus_checkpoint_free(source->checkpoint);
    free(source->path);
}

/* ---- text to tokens ----------------------------------------------------------------------- */

/* "Once\n", quotes within it as \". */
static void append_quoted(struct locus_buffer *out, const char *bytes, size_t n_bytes)
{
    locus_buffer_append(out, "\"", 1);
    for (const char *quote; n_bytes > 0 && (quote = memchr(bytes, '"', n_bytes));) {
        const size_t n = (size_t)(quote - bytes);
        locus_text_escape(out, bytes, n);
        locus_buffer_append(out, "\\\"", 2);
        bytes += n + 1;
        n_bytes -= n + 1;
    }
    locus_text_escape(out, bytes, n_bytes);
    locus_buffer_append(out, "\"\n", 2);
}

static int print_tokens(const struct tokenize_options *options, const struct source *source,
                        const int32_t *tokens, size_t n)
{
    struct locus_buffer out = {0};
    for (size_t i = 0; i < n; i++) {
        if (options->ids) {
            locus_buffer_printf(&out, "%s%d", i ? " " : "", (int)tokens[i]);
            continue;
        }
        /* As if in the middle of a text, so that a space before the first word is shown. */
        int32_t previous = tokens[i];
        size_t n_bytes;
        const char *piece =
            locus_token_piece(source->tokenizer, previous, tokens[i], LOCUS_TEXT_SPECIAL, &n_bytes);
        if (!options->pieces) locus_buffer_printf(&out, "%7d  ", (int)tokens[i]);
        append_quoted(&out, piece, n_bytes);
    }
    if (options->ids) locus_buffer_append(&out, "\n", 1);
    return locus_stdout_finish(&out);
}

static int encode(const struct tokenize_options *options, const struct locus_buffer *text)
{
    struct source source = {0};
    int status = open_source(&source, &options->common);
    int32_t *tokens = NULL;
    size_t n = 0;
    locus_error error;
    if (status < 0 && locus_encode(source.tokenizer, text->bytes ? text->bytes : "", text->length,
                                   options->special ? LOCUS_TEXT_SPECIAL : 0u, &tokens, &n, &error))
        status = locus_log_error("%s", error.message);
    if (status < 0) status = print_tokens(options, &source, tokens, n);
    free(tokens);
    close_source(&source);
    return status;
}

/* ---- tokens to text ----------------------------------------------------------------------- */

static int read_id(const char *text, struct locus_buffer *ids)
{
    int32_t id;
    int number;
    if (!locus_number_int(text, 0, INT_MAX, &number))
        return locus_log_usage("tokenize", "--decode: found '%s', expected a token's number", text);
    id = number;
    locus_buffer_append(ids, &id, sizeof id);
    return -1;
}

/* The ids of standard input, between spaces or commas; cuts the text into strings. */
static int read_ids(struct locus_buffer *text, struct locus_buffer *ids)
{
    static const char between[] = " \t\r\n,";
    locus_buffer_append(text, "", 1);
    if (text->failed) return locus_log_error("out of memory for the tokens");
    if (strlen(text->bytes) + 1 != text->length)
        return locus_log_usage("tokenize", "--decode: found a NUL byte among the tokens' numbers");
    int status = -1;
    char *rest = text->bytes;
    for (char *id; status < 0 && (id = strtok_r(rest, between, &rest));)
        status = read_id(id, ids);
    return status;
}

static int print_text(const struct tokenize_options *options, const struct source *source,
                      const struct locus_buffer *ids)
{
    struct locus_buffer out = {0};
    int32_t previous = -1, token;
    int n_tokens = locus_tokenizer_n_tokens(source->tokenizer);
    for (size_t at = 0; at < ids->length; at += sizeof token, previous = token) {
        memcpy(&token, ids->bytes + at, sizeof token);
        if (token >= n_tokens) {
            locus_buffer_free(&out);
            return locus_log_error("--decode: token %d, expected 0 to %d", (int)token,
                                   n_tokens - 1);
        }
        size_t n_bytes;
        const char *piece = locus_token_piece(source->tokenizer, previous, token,
                                              options->special ? LOCUS_TEXT_SPECIAL : 0u, &n_bytes);
        locus_buffer_append(&out, piece, n_bytes);
    }
    return locus_stdout_finish(&out);
}

static int decode(const struct tokenize_options *options, struct locus_buffer *text, int n_operands,
                  char **operands)
{
    struct locus_buffer ids = {0};
    struct source source = {0};
    int status = -1;
    for (int i = 0; i < n_operands && status < 0; i++)
        status = read_id(operands[i], &ids);
    if (status < 0 && n_operands == 0) status = read_ids(text, &ids);
    if (status < 0 && ids.failed) status = locus_log_error("out of memory for the tokens");
    if (status < 0) status = open_source(&source, &options->common);
    if (status < 0) status = print_text(options, &source, &ids);
    close_source(&source);
    locus_buffer_free(&ids);
    return status;
}

/* ---- command ------------------------------------------------------------------------------ */

static int check_options(const struct tokenize_options *options, int n_operands, char **operands)
{
    if (options->ids && options->pieces)
        return locus_log_usage("tokenize", "--ids or --pieces, not both");
    if (options->decode && (options->ids || options->pieces))
        return locus_log_usage("tokenize", "--decode prints text: it takes no --ids or --pieces");
    if (options->decode && options->prompt)
        return locus_log_usage("tokenize", "--decode takes tokens' numbers, not -p TEXT");
    if (!options->decode && n_operands > 0)
        return locus_options_stray(&locus_command_tokenize, operands[0]);
    if (n_operands > 0 && options->file)
        return locus_log_usage("tokenize", "tokens come as operands or from -f, not from both");
    return -1;
}

static int tokenize(void *values, int n_operands, char **operands)
{
    const struct tokenize_options *options = values;
    struct locus_buffer text = {0};
    locus_interrupt_watch();
    int status = check_options(options, n_operands, operands);
    if (status < 0 && n_operands == 0)
        status = locus_prompt_read("tokenize", options->prompt, options->file, &text);
    if (status < 0)
        status =
            options->decode ? decode(options, &text, n_operands, operands) : encode(options, &text);
    locus_buffer_free(&text);
    return status;
}

#define FIELD(member) offsetof(struct tokenize_options, member)

static const struct locus_option table[] = {
    {.name = "prompt",
     .letter = 'p',
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(prompt),
     .argument = "TEXT",
     .help = "the text, byte for byte"},
    {.name = "file",
     .letter = 'f',
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(file),
     .argument = "FILE",
     .help = "the text is this file; -: standard input, as when piped"},
    {.name = "ids",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(ids),
     .help = "print only the tokens' numbers, on one line"},
    {.name = "pieces",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(pieces),
     .help = "print only the tokens' texts, one a line"},
    {.name = "decode",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(decode),
     .help = "print the text of the tokens whose numbers follow (or are piped in)"},
    {.name = "special",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(special),
     .help = "parse special tokens (<|...|>) in the text, and print them in --decode"},
    {.name = NULL},
};

const struct locus_command locus_command_tokenize = {
    .name = "tokenize",
    .summary = "Turn text into tokens, or tokens into text.",
    .usage = "[-m FILE] [-p TEXT | -f FILE] [--ids | --pieces] [--special]\n[-m FILE] --decode "
             "ID... [--special]",
    .details =
        "Each token is printed as its number and its text; \\xHH stands for a byte that is no "
        "whole character, or part of one that does more than stand on a line.\n"
        "The begin-of-text token that generate may put first is not printed.",
    .options = table,
    .values_size = sizeof(struct tokenize_options),
    .takes_operands = true,
    .run = tokenize,
};
