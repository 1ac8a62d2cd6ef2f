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
    const int32_t *tokens;  /* [n_tokens] */
    const float *logits;    /* [n_tokens, n_vocab] */
    int n_axes;             /* of coordinates; 0: none */
    const int *coordinates; /* [n_tokens, n_axes] */
};

/* Fails the test if they are not there; `name` must live as long as the result. */
struct golden golden_open(const char *name);
void golden_close(struct golden *golden);

/* The logits of tokens [first, first + n) in a session that holds those before; fails the test if
 * they can't be had. */
void golden_eval(const struct golden *golden, locus_session *session, int first, int n,
                 float *logits);

/* The name of the scheme that it runs, with its length; not NUL-terminated there. */
size_t golden_scheme(const struct golden *golden, const char **name);

/* max|a - b| / max|b| of one row [n]; a NaN anywhere makes it infinite. */
float golden_row_difference(const float *a, const float *b, int n);

#endif
