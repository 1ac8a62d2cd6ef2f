/* Tiny random models whose layers mix tokens by attention or otherwise, and a text for them. */
#ifndef LOCUS_TESTS_MIXED_H
#define LOCUS_TESTS_MIXED_H

#include <stdbool.h>

#include "forward/session.h"
#include "variant.h"

enum {
    MIXED_TEXT = 520, /* two intervals, and some */
    MIXED_VOCAB = 40,
    MIXED_EMBD = 32,
    MIXED_LAYERS = 4,
    MIXED_FF = 48,
    MIXED_INNER = 72, /* channels of a scan: four panels and a half */
    MIXED_STATE = 5,
    MIXED_CONV = 4,
    MIXED_HEADS = 6, /* of mamba2: less than a panel each, in two groups */
    MIXED_GROUPS = 2,
    MIXED_CONVOLVED = MIXED_INNER + 2 * MIXED_GROUPS * MIXED_STATE,
    MIXED_RANK = 32,    /* a block of quantised values */
    MIXED_RETAINED = 3, /* heads of retention, the width of their keys, and of their values: more
                         * than a panel */
    MIXED_KEY = 6,
    MIXED_VALUE = 20,
    MIXED_BANDS = 3,  /* of Hyena's filters, */
    MIXED_WIDTH = 24, /* of the network that makes them */
};

/* What the layers are, a letter each: attention, mamba, mamba2 (2), retention, hyena; and whether
 * they have an MLP. */
struct mixed {
    const char *mixers;
    bool mlp;
};

/* Writes it as architecture `locus`; the path is one of testing_temporary. */
const char *mixed_write(const struct mixed *mixed);

locus_model *mixed_open_path(const char *path);
locus_model *mixed_open(const struct mixed *mixed);
/* With matrices of another type. */
locus_model *mixed_open_converted(const struct mixed *mixed, enum locus_tensor_type type);

/* The text, as mixed_session leaves it. */
extern int32_t mixed_tokens[MIXED_TEXT];

locus_session *mixed_session(const locus_model *model, int n_batch, int n_threads,
                             const char *kernels);

/* Evaluates tokens [first, end), `step` a call, into rows of logits[MIXED_TEXT, MIXED_VOCAB]. */
void mixed_eval(locus_session *session, int first, int end, int step, float *logits);

/* Logits of the text, in chunks of n_batch; free() them. */
float *mixed_logits(const locus_model *model, int n_batch, int step, int n_threads,
                    const char *kernels);

/* Rows [first, end) have the same bits. */
void mixed_check_same(const float *logits, const float *expected, int first, int end,
                      const char *what);

/* A model quantised: its bits are the same however the text is cut, and its logits near those of
 * the model in floats. */
void mixed_check_quantised(const locus_model *quantised, const locus_model *floats);

/* How far the worst row is from that of the plain pass in double (reference.h). */
double mixed_off_plain(const locus_model *model);

/* Refused, with a message that says so. */
void mixed_refuse_session(const locus_model *model, const locus_session_params *params,
                          enum locus_status status, const char *says);
void mixed_refuse_file(struct variant *variant, const char *says);
/* With a key of another value or, where that is negative, without it; a tensor may go, too. */
void mixed_refuse_changed(const struct mixed *mixed, const char *key, int value, const char *says);

#endif
