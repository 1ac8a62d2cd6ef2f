/* The text that a plot reads, and how its tokens are written beside a map. */
#ifndef LOCUS_CLI_PLOT_TEXT_H
#define LOCUS_CLI_PLOT_TEXT_H

#include <stdint.h>

#include "locus.h"

enum { LOCUS_PLOT_MAX_MATRIX = 4096 }; /* rows of a matrix, so tokens of a text too */

struct locus_plot_text {
    int32_t *tokens;     /* [n_tokens]; NULL: there is no text */
    const char **pieces; /* [n_tokens]: control characters escaped, spaces alone in quotes */
    int n_tokens;
    const char *assumed; /* locus_tokenizer_assumed */
};

/* The tokens of a prompt (NULL: no text). Returns -1 to go on, or the exit status; release in any
 * case. */
int locus_plot_text_read(struct locus_plot_text *text, const locus_model *model,
                         const char *prompt);
void locus_plot_text_free(struct locus_plot_text *text);

#endif
