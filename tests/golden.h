/* Golden logits: tests/data/NAME.logits, which scripts/golden.py makes and documents. */
#ifndef LOCUS_TESTS_GOLDEN_H
#define LOCUS_TESTS_GOLDEN_H

#include <stdint.h>

#include "locus.h"

struct golden {
    const char *name;
    char *bytes;           /* the file */
    const char *position;  /* what to run the model with; NULL: its own scheme */
    const char *attention; /* NULL: full */
    locus_model *model;
    int n_prompt, n_tokens, n_vocab;
    const int32_t *tokens; /* [n_tokens] */
    const float *logits;   /* [n_tokens, n_vocab] */
};

/* Fails the test if they are not there; `name` must live as long as the result. */
struct golden golden_open(const char *name);
void golden_close(struct golden *golden);

/* The name of the scheme that it runs, with its length; not NUL-terminated there. */
size_t golden_scheme(const struct golden *golden, const char **name);

/* max|a - b| / max|b| of one row [n]; a NaN anywhere makes it infinite. */
float golden_row_difference(const float *a, const float *b, int n);

#endif
