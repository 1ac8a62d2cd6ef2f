/* A bar on stderr, with the time left, while a long job runs. */
#ifndef LOCUS_CLI_PROGRESS_H
#define LOCUS_CLI_PROGRESS_H

#include <stdbool.h>

struct locus_progress {
    bool shown; /* only on a terminal */
    double total, done, start, drawn;
    const char *label;
};

void locus_progress_begin(struct locus_progress *progress, double total, bool quiet);
/* So much of the work is done. */
void locus_progress_advance(struct locus_progress *progress, double work);
/* Takes the bar off the terminal, before anything else is written there. */
void locus_progress_clear(struct locus_progress *progress);

#endif
