/* Weights that are no numbers: found, and named where they made a result none. */
#ifndef LOCUS_MODEL_FINITE_H
#define LOCUS_MODEL_FINITE_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "locus.h"

/* A stored value that is NaN or infinite. */
struct locus_odd_value {
    const char *tensor;
    int64_t row, column;
    float value;
};

/* The first one in the file's order; false if there is none. Reads every tensor. `stopped` is asked
 * on the way, and ends it (NULL: never): what is found is true either way. */
bool locus_checkpoint_find_odd(const struct locus_checkpoint *checkpoint, bool (*stopped)(void),
                               struct locus_odd_value *odd);

/* Fails with LOCUS_ERROR_NUMERIC: that line of what came out as no number, and what is known of
 * why: the first odd value of the model's tensors, or that they have none. */
enum locus_status locus_fail_numeric(const locus_model *model, locus_error *error,
                                     const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
