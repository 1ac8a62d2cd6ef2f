/* The options of commands that measure texts: see text_options.h. */
#include "cli/kit/text_options.h"

#include <limits.h>
#include <string.h>

#include "cli/kit/log.h"
#include "cli/kit/prompt.h"

#define FIELD(member) offsetof(struct locus_text_command, text.member)

const struct locus_option locus_text_option_table[] = {
    {.name = "file",
     .letter = 'f',
     .type = LOCUS_OPTION_TEXTS,
     .offset = FIELD(files),
     .argument = "FILE",
     .help = "a text to predict; -: standard input (repeats)"},
    {.name = "protocol",
     .type = LOCUS_OPTION_CHOICE,
     .offset = FIELD(protocol),
     .argument = "NAME",
     .choices = "windows|sliding|half",
     .help = "windows (default), sliding or half; see 'locus help perplexity'"},
    {.name = "stride",
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(stride),
     .argument = "S",
     .min = 1,
     .max = INT_MAX,
     .help = "tokens that sliding windows step by (default 256, or half a window below 512)"},
    {.name = "documents",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(documents),
     .help = "let no window cross an end-of-text mark or, without any, two blank lines"},
    {.name = "first",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(first),
     .help = "only a document's first window, so that all lengths start with the same text"},
    {.name = "begin",
     .type = LOCUS_OPTION_CHOICE,
     .offset = FIELD(begin),
     .argument = "WHERE",
     .choices = "every|first|none",
     .help = "begin-of-text: over the first token of every window, before each document's first, "
             "or none (default: as the tokenizer has it)"},
    {.name = NULL},
};

static int read_text(struct locus_text_list *list, const char *command, const char *path)
{
    struct locus_text *text = locus_text_list_add(list, path);
    if (!text) return locus_log_error("out of memory for the texts");
    static const char magic[] = "GGUF"; /* a model that was meant for -m */
    const int status = locus_prompt_read(command, NULL, path, &text->bytes);
    if (status >= 0 || text->bytes.length < sizeof magic ||
        memcmp(text->bytes.bytes, magic, sizeof magic - 1) != 0)
        return status;
    return locus_log_usage(command, "%s is a GGUF file, expected a text; a model is named by -m %s",
                           path, path);
}

int locus_text_list_read(struct locus_text_list *list, const char *command,
                         const struct locus_texts *files, int n_operands, char **operands)
{
    int status = -1;
    for (int i = 0; i < files->n_items && status < 0; i++)
        status = read_text(list, command, files->items[i]);
    for (int i = 0; i < n_operands && status < 0; i++)
        status = read_text(list, command, operands[i]);
    if (status < 0 && list->n_items == 0)
        return locus_log_usage(command, "no text: give one with -f FILE");
    return status;
}

int locus_plan_option(struct locus_plan *plan, const char *command,
                      const struct locus_text_options *options)
{
    const char *asked = options->protocol;
    *plan = (struct locus_plan){
        .protocol = LOCUS_WINDOWS, .stride = options->stride, .first = options->first};
    while (asked && strcmp(asked, locus_protocol_name(plan->protocol)) != 0)
        plan->protocol++;
    if (plan->protocol == LOCUS_SLIDING)
        return plan->first
                   ? locus_log_usage(command, "--first takes one window a document, and sliding "
                                              "needs several: expected --protocol windows or half")
                   : -1;
    return plan->stride
               ? locus_log_usage(command, "--stride belongs to --protocol sliding, found %s",
                                 locus_protocol_name(plan->protocol))
               : -1;
}

int locus_plan_refuse(const struct locus_plan *plan, const char *command)
{
    locus_error error;
    return locus_plan_check(plan, &error) ? locus_log_usage(command, "%s", error.message) : -1;
}

int locus_begin_option(struct locus_begin *begin, const char *command, const char *rule,
                       enum locus_protocol protocol, const struct locus_opened_model *model)
{
    enum locus_begin_rule asked = LOCUS_BEGIN_AUTO;
    locus_error error;
    while (rule && strcmp(rule, locus_begin_name(asked)) != 0)
        asked++;
    if (!locus_begin_resolve(begin, asked, protocol, model->model, model->tokenizer, &error))
        return -1;
    if (asked == LOCUS_BEGIN_FIRST && protocol == LOCUS_HALF)
        return locus_log_usage(command, "--begin: %s", error.message);
    return locus_log_error("%s: --begin: %s", model->path, error.message);
}

int locus_text_encode(struct locus_corpus *corpus, const struct locus_opened_model *model,
                      const struct locus_text *text, const struct locus_corpus_options *options,
                      bool quiet)
{
    locus_error error;
    if (locus_corpus_encode(corpus, model->model, model->tokenizer, text->bytes.bytes,
                            text->bytes.length, options, &error))
        return locus_log_error("%s: %s", text->path, error.message);
    if (corpus->n_marks > 0 && !quiet)
        locus_log_note(
            "note: %s: end-of-text marks read as plain text: %d; --documents cuts at them",
            text->name, corpus->n_marks);
    return -1;
}
