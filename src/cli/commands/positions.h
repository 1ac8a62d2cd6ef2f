/* What the files of `locus positions` share. */
#ifndef LOCUS_CLI_POSITIONS_H
#define LOCUS_CLI_POSITIONS_H

#include "cli/kit/options.h"

struct positions_options {
    struct locus_common common;
    int length; /* 0: not given */
};

/* Prints which settings bring the scheme of that SPEC (NULL: the model's own) to options->length;
 * the exit status. */
int locus_positions_stretch(const struct positions_options *options, const char *text);

/* Appends a word of a command line, on the line that begins at *line if it fits there. */
void locus_positions_word(struct locus_buffer *out, size_t *line, const char *option,
                          const char *word);

#endif
