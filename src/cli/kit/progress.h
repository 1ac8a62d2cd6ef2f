/* How far a long job is, with the time left, on stderr: a bar on a terminal that can redraw a line,
 * nothing on one that can't (TERM=dumb), and into a file or pipe a line a minute. */
#ifndef LOCUS_CLI_PROGRESS_H
#define LOCUS_CLI_PROGRESS_H

#include <stdbool.h>

struct locus_progress {
    bool bar, lines;
    double interval; /* seconds between two drawings */
    double total, done, start, drawn;
    const char *label; /* what is being done, that which differs from the rest first */
};

void locus_progress_begin(struct locus_progress *progress, double total, bool quiet);
/* So much of the work is done. */
void locus_progress_advance(struct locus_progress *progress, double work);
/* Takes the bar off the terminal, before anything else is written there. */
void locus_progress_clear(struct locus_progress *progress);

#endif
