/* locus extrapolate: its options, and a sweep in the making. */
#ifndef LOCUS_CLI_EXTRAPOLATE_H
#define LOCUS_CLI_EXTRAPOLATE_H

#include "cli/kit/progress.h"
#include "cli/kit/text_options.h"
#include "experiment/report.h"
#include "experiment/tasks.h"

struct locus_extrapolate_options {
    struct locus_common common; /* first, as in every command */
    struct locus_text_options text;
    struct locus_ordered models; /* -m and -P as they came */
    const char *lengths, *task, *csv, *json, *png;
    int n_trials;
    bool by_position, resume, force, trials_given;
};

extern const struct locus_option locus_extrapolate_table[];

/* A model under a SPEC: a line of the picture. */
struct locus_contender {
    const char *model;    /* as -m has it; NULL: the default model */
    const char *position; /* as -P has it; NULL: the model's own */
    int subject;
    char *label; /* the SPEC that legends show */
};

/* What a contender is at a length: the cells of a row that its session fills, or why there is no
 * such session. */
struct locus_setting {
    char *spec; /* full SPEC; NULL: refused */
    struct locus_row row;
    int n_tokens; /* that a session is made for: the windows', or a task's longest text's */
};

enum locus_cell_kind {
    LOCUS_CELL_PLAN,     /* a length of --protocol */
    LOCUS_CELL_POSITION, /* a bucket of --by-position, [first, length) of the setting's windows */
    LOCUS_CELL_TRIALS    /* trials of a task */
};

enum locus_cell_state { LOCUS_CELL_PENDING, LOCUS_CELL_DONE, LOCUS_CELL_REFUSED };

/* A row to be: its settings from the start, its results once it is done. */
struct locus_cell {
    enum locus_cell_kind kind;
    enum locus_cell_state state;
    int contender, text; /* text n_texts: pooled */
    int length;          /* of windows, the bucket's end, or of the task */
    int first;           /* the bucket's start */
    int setting;         /* index into the contender's settings */
    bool past;           /* the text fills no window that long: its row has no result */
    double depth;        /* passkey; else -1 */
    struct locus_row row;
};

struct locus_extrapolate {
    const struct locus_extrapolate_options *options;
    int status;
    int task;               /* enum locus_task, or -1: perplexity */
    struct locus_plan plan; /* of no length yet; stride 0: the default of each */
    int *lengths;           /* [n_lengths], descending */
    int n_lengths;
    struct locus_contender *contenders;
    int n_contenders;
    struct locus_opened_model *subjects; /* [n_contenders] at most; a model each */
    int n_subjects;
    struct locus_begin *begins; /* [n_subjects] */
    struct locus_text_list texts;
    struct locus_corpus *corpora;   /* [n_subjects, texts.n_items] */
    struct locus_setting *settings; /* [n_contenders, n_lengths] */
    struct locus_cell *cells;       /* in the order of the CSV */
    int n_cells;
    struct locus_csv csv;
    bool has_csv;
    bool stdout_taken; /* by --csv, --json or --png: no table is printed */
    char **pictures;   /* [n_pictures], what --png writes: the curves, or a heat map a contender */
    int n_pictures;
    struct locus_progress progress;
};

/* Reads --lengths ("128:4096", "64,128,256"), --protocol, --task and the -m and -P into the run.
 * Returns -1 to go on, or the exit status of wrong usage. */
int locus_extrapolate_read_options(struct locus_extrapolate *run);

/* Fills run->settings and run->cells; false with run->status set. */
bool locus_extrapolate_plan(struct locus_extrapolate *run);

/* Fills run->pictures; false if memory ran out. */
bool locus_extrapolate_name_pictures(struct locus_extrapolate *run);

/* The results that there are: a table on stdout, --json and --png. Returns the exit status. */
int locus_extrapolate_print(const struct locus_extrapolate *run);
int locus_extrapolate_write_json(const struct locus_extrapolate *run);
int locus_extrapolate_draw(const struct locus_extrapolate *run);

/* The cell of that place, or NULL. */
const struct locus_cell *locus_extrapolate_cell(const struct locus_extrapolate *run,
                                                enum locus_cell_kind kind, int contender, int text,
                                                int length, double depth);

/* A contender's setting at a length, one's corpus of a text. */
static inline struct locus_setting *locus_extrapolate_setting(const struct locus_extrapolate *run,
                                                              int contender, int setting)
{
    return &run->settings[(size_t)contender * (size_t)run->n_lengths + (size_t)setting];
}

static inline struct locus_corpus *locus_extrapolate_corpus(const struct locus_extrapolate *run,
                                                            int contender, int text)
{
    return &run->corpora[run->contenders[contender].subject * run->texts.n_items + text];
}

/* The protocol at a length. */
static inline struct locus_plan locus_extrapolate_plan_at(const struct locus_extrapolate *run,
                                                          int length)
{
    return locus_plan_at(run->plan, length);
}

/* That of --by-position. */
static inline struct locus_plan locus_extrapolate_bucket_plan(const struct locus_extrapolate *run,
                                                              int length)
{
    return (struct locus_plan){LOCUS_WINDOWS, length, 0, run->plan.first};
}

/* The text that speaks for all: the pooled one of several. */
static inline int locus_extrapolate_main_text(const struct locus_extrapolate *run)
{
    return run->texts.n_items > 1 ? run->texts.n_items : 0;
}

/* The ends of --by-position's buckets for windows of `longest` tokens, ascending, into ends[]
 * (room for 32 or n_lengths); how many. */
int locus_extrapolate_buckets(const struct locus_extrapolate *run, int longest, int *ends);

enum { LOCUS_N_DEPTHS = 11 }; /* passkey's: 0, 0.1, ... 1 */

#endif
