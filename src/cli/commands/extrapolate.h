/* locus extrapolate: its options, and the sweep that they ask for. */
#ifndef LOCUS_CLI_EXTRAPOLATE_H
#define LOCUS_CLI_EXTRAPOLATE_H

#include "cli/kit/progress.h"
#include "cli/kit/text_options.h"
#include "experiment/sweep.h"
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

struct locus_extrapolate {
    const struct locus_extrapolate_options *options;
    struct locus_sweep sweep;
    int *lengths; /* the sweep's */
    struct locus_series *series;
    const char **model_options;        /* [n_series]: as -m has it; NULL: the default model */
    struct locus_opened_model *models; /* [n_series] at most: each is opened once */
    struct locus_begin *begins;
    struct locus_text_list texts;
    struct locus_corpus *corpora; /* [n_models, texts.n_items] */
    struct locus_csv csv;
    bool has_csv;
    bool stdout_taken; /* by --csv, --json or --png: no table is printed */
    char **pictures;   /* [n_pictures], what --png writes: the curves, or a heat map a series */
    int n_pictures;
    struct locus_buffer held; /* FIFOs among the outputs */
    struct locus_progress progress;
    struct locus_buffer progress_label;
};

/* These return -1 to go on, or the exit status. */

/* Reads --lengths ("128:4096", "64,128,256"), --protocol, --task and the -m and -P. */
int locus_extrapolate_read_options(struct locus_extrapolate *run);

/* Fills run->pictures. */
int locus_extrapolate_name_pictures(struct locus_extrapolate *run);

/* The results that there are: a table on stdout, --json and --png. Returns the exit status. */
int locus_extrapolate_print(const struct locus_extrapolate *run);
int locus_extrapolate_write_json(const struct locus_extrapolate *run);
int locus_extrapolate_draw(const struct locus_extrapolate *run);

#endif
