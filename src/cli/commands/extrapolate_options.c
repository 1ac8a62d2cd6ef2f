/* locus extrapolate: the table of its options, and what they say. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "cli/commands/extrapolate.h"
#include "cli/kit/log.h"
#include "cli/kit/session_options.h"

static const char command_name[] = "extrapolate";

#define FIELD(member) offsetof(struct locus_extrapolate_options, member)

const struct locus_option locus_extrapolate_table[] = {
    /* Before the common ones of these names, which list them in the help. */
    {.name = "model",
     .letter = 'm',
     .type = LOCUS_OPTION_ORDERED,
     .offset = FIELD(models),
     .argument = "FILE"},
    {.name = "position",
     .letter = 'P',
     .type = LOCUS_OPTION_ORDERED,
     .offset = FIELD(models),
     .argument = "SPEC"},
    {.name = "lengths",
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(lengths),
     .argument = "LIST",
     .help = "64,128,256, or 128:4096 for doublings (default: from a quarter of the trained length "
             "to eight times it; a task has "
             "its own)"},
    {.name = "task",
     .type = LOCUS_OPTION_CHOICE,
     .offset = FIELD(task),
     .argument = "NAME",
     .fallback = "perplexity",
     .choices = "perplexity|passkey|copy|reverse|addition",
     .help = "perplexity, passkey, copy, reverse or addition"},
    {.name = "trials",
     .type = LOCUS_OPTION_INT,
     .offset = FIELD(n_trials),
     .given = FIELD(trials_given),
     .argument = "N",
     .fallback = "50",
     .min = 1,
     .max = 1000000,
     .help = "texts a cell of a task; --seed (default 0) draws them"},
    {.name = "by-position",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(by_position),
     .help = "also the mean loss by position, in the longest windows"},
    {.name = "csv",
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(csv),
     .argument = "FILE",
     .help = "write a row a result, as soon as it is there"},
    {.name = "json",
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(json),
     .argument = "FILE",
     .help = "write an array of the same rows"},
    {.name = "png",
     .type = LOCUS_OPTION_TEXT,
     .offset = FIELD(png),
     .argument = "FILE",
     .help = "draw the results against length"},
    {.name = "resume",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(resume),
     .help = "keep the rows of --csv that match, and go on from there"},
    {.name = "force",
     .type = LOCUS_OPTION_FLAG,
     .offset = FIELD(force),
     .help = "write --csv anew, whatever the file holds"},
    {.name = NULL},
};

/* ---- lengths ------------------------------------------------------------------------------ */

static int compare_down(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x < y) - (x > y);
}

static bool add_length(struct locus_extrapolate *run, int length)
{
    int *lengths = realloc(run->lengths, ((size_t)run->sweep.n_lengths + 1) * sizeof *lengths);
    if (!lengths) return false;
    run->sweep.lengths = run->lengths = lengths;
    lengths[run->sweep.n_lengths++] = length;
    return true;
}

/* "N" or "FROM:TO" in [1, INT_MAX]. */
static bool read_range(const char *text, int *from, int *to)
{
    char first[16];
    const char *colon = strchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (length >= sizeof first) return false;
    memcpy(first, text, length);
    first[length] = '\0';
    if (!locus_number_int(first, 1, INT_MAX, from)) return false;
    *to = *from;
    return !colon || locus_number_int(colon + 1, 1, INT_MAX, to);
}

/* Adds what a list names; -1, or the exit status. */
static int read_lengths(struct locus_extrapolate *run, const char *list)
{
    enum { MOST = 1000 };
    for (const char *next = list; next; next = strchr(next, ',')) {
        next += next > list; /* past the comma */
        char item[40];
        const size_t length = strcspn(next, ",");
        int from, to;
        memcpy(item, next, length < sizeof item ? length : sizeof item - 1);
        item[length < sizeof item ? length : sizeof item - 1] = '\0';
        if (length >= sizeof item || !read_range(item, &from, &to))
            return locus_log_usage(command_name,
                                   "--lengths: found '%s', expected N or FROM:TO, and commas "
                                   "between several",
                                   item);
        if (to < from)
            return locus_log_usage(command_name, "--lengths: '%s' ends before it begins", item);
        if (run->sweep.n_lengths > MOST)
            return locus_log_usage(command_name, "--lengths: more than %d lengths", MOST);
        for (int64_t n = from; n <= to; n *= 2)
            if (!add_length(run, (int)n)) return locus_log_error("out of memory for the lengths");
    }
    qsort(run->lengths, (size_t)run->sweep.n_lengths, sizeof *run->lengths, compare_down);
    int n = 0; /* that differ */
    for (int i = 0; i < run->sweep.n_lengths; i++)
        if (n == 0 || run->lengths[n - 1] != run->lengths[i]) run->lengths[n++] = run->lengths[i];
    run->sweep.n_lengths = n;
    return -1;
}

/* Those of the options, or a task's own; the model's come later. */
static int choose_lengths(struct locus_extrapolate *run)
{
    const char *list = run->options->lengths;
    if (!list && run->sweep.task >= 0) list = locus_task_lengths((enum locus_task)run->sweep.task);
    int status = list ? read_lengths(run, list) : -1;
    if (status >= 0 || run->sweep.task < 0 || run->sweep.n_lengths == 0) return status;
    enum { LONGEST = 1 << 20 }; /* texts are made and tokenized before a session can refuse them */
    const int shortest = locus_task_shortest((enum locus_task)run->sweep.task);
    const char *task = locus_task_name((enum locus_task)run->sweep.task);
    if (run->lengths[run->sweep.n_lengths - 1] < shortest)
        return locus_log_usage(command_name, "--lengths: found %d, a %s text has %d or more",
                               run->lengths[run->sweep.n_lengths - 1], task, shortest);
    if (run->lengths[0] > LONGEST)
        return locus_log_usage(command_name, "--lengths: found %d, a %s text has %d or fewer",
                               run->lengths[0], task, LONGEST);
    return -1;
}

/* ---- task and protocol -------------------------------------------------------------------- */

static int refuse_misplaced(const struct locus_extrapolate_options *options, bool perplexity)
{
    const struct {
        const char *name;
        bool given, of_perplexity;
    } rows[] = {{"--protocol", options->text.protocol != NULL, true},
                {"--stride", options->text.stride > 0, true},
                {"--by-position", options->by_position, true},
                {"--documents", options->text.documents, true},
                {"--first", options->text.first, true},
                {"-f (--file)", options->text.files.n_items > 0, true},
                {"--trials", options->trials_given, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].given && rows[i].of_perplexity != perplexity)
            return locus_log_usage(command_name, "%s doesn't go with --task %s", rows[i].name,
                                   options->task);
    if (options->resume && options->force)
        return locus_log_usage(command_name, "--resume keeps what --force drops: expected one");
    if ((options->resume || options->force) && !options->csv)
        return locus_log_usage(command_name, "--%s a --csv FILE, none is given",
                               options->resume ? "resume takes up" : "force replaces");
    return -1;
}

static int read_task(struct locus_extrapolate *run)
{
    const struct locus_extrapolate_options *options = run->options;
    run->sweep.task = LOCUS_N_TASKS - 1;
    while (run->sweep.task >= 0 &&
           strcmp(options->task, locus_task_name((enum locus_task)run->sweep.task)) != 0)
        run->sweep.task--;
    int status = refuse_misplaced(options, run->sweep.task < 0);
    if (status >= 0 || run->sweep.task >= 0) return status;
    return locus_plan_option(&run->sweep.plan, command_name, &options->text);
}

/* ---- series ------------------------------------------------------------------------------- */

static bool add_series(struct locus_extrapolate *run, const char *model, const char *position)
{
    const size_t n = (size_t)run->sweep.n_series + 1;
    struct locus_series *series = realloc(run->series, n * sizeof *series);
    if (!series) return false;
    run->sweep.series = run->series = series;
    const char **models = realloc(run->model_options, n * sizeof *models);
    if (!models) return false;
    run->model_options = models;
    models[run->sweep.n_series] = model;
    series[run->sweep.n_series++] = (struct locus_series){.position = position};
    return true;
}

/* -P belongs to the -m before it; a model without one runs its own scheme. */
static int read_series(struct locus_extrapolate *run)
{
    const struct locus_ordered *given = &run->options->models;
    const char *model = NULL;
    bool open = false, fits = true; /* open: the last -m has had no -P yet */
    bool any_model = false;
    int status = -1;
    for (int i = 0; i < given->n_items; i++)
        any_model |= given->items[i].letter == 'm';
    for (int i = 0; i < given->n_items && fits; i++) {
        if (given->items[i].letter == 'm') {
            if (open) fits = add_series(run, model, NULL);
            model = given->items[i].text;
            open = true;
            continue;
        }
        status = locus_check_position(command_name, given->items[i].text);
        if (status >= 0) return status;
        if (any_model && !model)
            return locus_log_usage(command_name, "-P %s comes before the -m it belongs to",
                                   given->items[i].text);
        fits = add_series(run, model, given->items[i].text);
        open = false;
    }
    if (fits && (open || run->sweep.n_series == 0)) fits = add_series(run, model, NULL);
    return fits ? -1 : locus_log_error("out of memory for the options");
}

int locus_extrapolate_read_options(struct locus_extrapolate *run)
{
    int status = read_task(run);
    if (status < 0) status = choose_lengths(run);
    return status < 0 ? read_series(run) : status;
}
