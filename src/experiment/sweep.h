/* A sweep: models under SPECs, each measured at several lengths, on texts or on a task.
 *
 *     series (a model under a SPEC) x lengths -> points: what a session of that length is, if there
 *     is one
 *     points x texts, or x depths of a task -> cells: the rows of the CSV, but for their results
 *     cells that the CSV has -> the others measured, each added to it as it is done
 *
 *     fill in, locus_sweep_plan, (locus_sweep_resume,) locus_sweep_run, locus_sweep_free
 */
#ifndef LOCUS_EXPERIMENT_SWEEP_H
#define LOCUS_EXPERIMENT_SWEEP_H

#include <string.h>

#include "experiment/report.h"
#include "experiment/tasks.h"

/* A model under a SPEC: a line of the picture. The first two are the caller's to fill in. */
struct locus_series {
    int model;            /* its index */
    const char *position; /* SPEC; NULL: the model's own */
    char *label;          /* the full SPEC; a value that depends on the length: "2..16" */
    int refused_from;     /* the shortest length that it can't serve; 0: none */
    locus_error refusal;  /* why */
};

/* A series at a length. */
struct locus_point {
    bool served; /* there is such a session */
    struct locus_description session;
    struct locus_row row; /* the cells that it fills */
    int n_tokens;         /* that it is made for: the windows', or a task's longest text's */
    int same_as;          /* the first series that is the same at this length; -1: none before it */
};

enum locus_cell_kind {
    LOCUS_CELL_PLAN,     /* a length of the protocol */
    LOCUS_CELL_POSITION, /* a bucket by position, [first, length) of the point's windows */
    LOCUS_CELL_TRIALS    /* trials of a task */
};

enum locus_cell_state { LOCUS_CELL_PENDING, LOCUS_CELL_DONE, LOCUS_CELL_REFUSED };

/* A row to be: what is measured from the start, its results once it is done. */
struct locus_cell {
    enum locus_cell_kind kind;
    enum locus_cell_state state;
    int series, text; /* text n_texts: pooled */
    int length;       /* of windows, the bucket's end, or of the task */
    int first;        /* the bucket's start */
    int point;        /* index of the windows' length */
    int twin;         /* an earlier cell of which this one is a copy; -1: none */
    bool past;        /* the text fills no window that long: its row has no result */
    double depth;     /* passkey; else -1 */
    struct locus_row row;
};

enum { LOCUS_N_DEPTHS = 11 }; /* passkey's: 0, 0.1, ... 1 */

struct locus_sweep {
    /* What to measure. The caller fills it in; all of it stays the caller's. */
    const struct locus_opened_model *models; /* [n_models] */
    const struct locus_begin *begins;        /* [n_models], resolved */
    int n_models;
    struct locus_series *series; /* [n_series] */
    int n_series;
    const int *lengths; /* [n_lengths], descending */
    int n_lengths;
    locus_session_params params; /* position and n_context are passed over */
    int task;                    /* enum locus_task, or -1: perplexity */

    /* Perplexity: the protocol, and the texts as each model encodes them. */
    struct locus_plan plan; /* of no length; stride 0: the default of each */
    bool by_position;       /* also by position, in the longest windows that are filled */
    const struct locus_text_list *texts;
    const struct locus_corpus *corpora; /* [n_models, texts->n_items] */

    /* A task: texts a cell, and what draws them. */
    int n_trials;
    uint64_t seed;

    /* What becomes of it. */
    struct locus_point *points; /* [n_series, n_lengths] */
    struct locus_cell *cells;   /* [n_cells], in the order of the CSV: a series after another */
    int n_cells;
};

/* Lengths to measure where none are given: a quarter of the trained length to eight times it,
 * descending, as far as they are int. Returns how many. */
enum { LOCUS_DEFAULT_LENGTHS = 6 };
int locus_default_lengths(int trained_length, int lengths[LOCUS_DEFAULT_LENGTHS]);

/* Fills the series, the points and the cells. No session is made. A series that is refused at some
 * lengths says so (refused_from); one that is refused at all of them is an error. Release in any
 * case, but not the caller's. */
enum locus_status locus_sweep_plan(struct locus_sweep *sweep, locus_error *error);
void locus_sweep_free(struct locus_sweep *sweep);

/* What has changed since rows of a CSV were written, by name; NULL: nothing of the kind. */
struct locus_sweep_changes {
    const char *model, *text, *version;
    int n_cells; /* pending ones that have such a row */
};

/* Takes the cells that rows of the CSV answer. */
enum locus_status locus_sweep_resume(struct locus_sweep *sweep, const struct locus_csv *csv,
                                     struct locus_sweep_changes *changes, locus_error *error);

/* What a run asks and tells on its way; any member may be NULL. */
struct locus_sweep_watch {
    struct locus_watch watch; /* `stopped` and `advance`; its context is for all */
    void (*begin)(void *context, const struct locus_cell *cell);
    /* The cell can't be measured after all, and is left without a result. */
    void (*give_up)(void *context, const struct locus_cell *cell, const locus_error *error);
};

/* Measures the cells that are pending, each added to the CSV (NULL: none) as it is done, but copies
 * of others. *whole is false if the watch stopped it. A session is made for the cells that it
 * serves, from its point: one for lengths whose SPECs resolve to the same. */
enum locus_status locus_sweep_run(struct locus_sweep *sweep, struct locus_csv *csv,
                                  const struct locus_sweep_watch *watch, bool *whole,
                                  locus_error *error);

/* The work of all that is pending, as `advance` counts it. */
double locus_sweep_work(const struct locus_sweep *sweep);

/* The cell of that place, or NULL. */
const struct locus_cell *locus_sweep_cell(const struct locus_sweep *sweep,
                                          enum locus_cell_kind kind, int series, int text,
                                          int length, double depth);

/* The ends of the buckets by position for windows of `longest` tokens, ascending, into ends[]
 * (room for 32 or n_lengths); how many. */
int locus_sweep_buckets(const struct locus_sweep *sweep, int longest, int *ends);

/* Tokens of the longest window that every model's corpus of the text fills, at most the longest
 * length. */
int locus_sweep_longest(const struct locus_sweep *sweep, int text);

/* The protocol at a length, and that of buckets. */
struct locus_plan locus_sweep_plan_at(const struct locus_sweep *sweep, int length);
struct locus_plan locus_sweep_bucket_plan(const struct locus_sweep *sweep, int length);

static inline int locus_sweep_n_texts(const struct locus_sweep *sweep)
{
    return sweep->task < 0 ? sweep->texts->n_items : 0;
}

/* A series at lengths[index]. */
static inline struct locus_point *locus_sweep_point(const struct locus_sweep *sweep, int series,
                                                    int index)
{
    return &sweep->points[(size_t)series * (size_t)sweep->n_lengths + (size_t)index];
}

/* Whether both are served, by the same SPEC. */
static inline bool locus_points_agree(const struct locus_point *a, const struct locus_point *b)
{
    return a->served && b->served && strcmp(a->session.position, b->session.position) == 0;
}

/* The tokens of a text, as a series' model has them. */
static inline const struct locus_corpus *locus_sweep_corpus(const struct locus_sweep *sweep,
                                                            int series, int text)
{
    return &sweep->corpora[sweep->series[series].model * sweep->texts->n_items + text];
}

#endif
