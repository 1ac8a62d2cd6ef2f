/* A checkpoint rewritten with its matrices in another type. */
#ifndef LOCUS_MODEL_QUANTIZE_H
#define LOCUS_MODEL_QUANTIZE_H

#include "base/error.h"
#include "base/tensor_type.h"

struct locus_quantize {
    enum locus_tensor_type type; /* one that locus_quantize_type knows */
    bool pure;                   /* the embedding and the head in `type`, too: see below */
    int n_threads;               /* 0: the default */
    bool (*stopped)(void);       /* asked between tensors: ends the job, an error; NULL: never */
    /* Filled in: the sizes of all tensors, and how many matrices have rows that are not a multiple
     * of the type's block and were written as F16. */
    size_t bytes_before, bytes_after;
    int n_fallbacks;
};

/* Writes the checkpoint at `in` to `out` (which may be the same file). Every matrix
 * [rows > 1, cols] is converted but those of position schemes; vectors stay as they are. With a
 * type of less than 8 bits a value the embedding and the head become Q8_0, which costs little and
 * matters most, unless `pure`.
 * Refuses values that are not finite, or that a half can't hold where one is needed, naming the
 * tensor. The file appears whole or not at all. */
enum locus_status locus_quantize(struct locus_quantize *job, const char *in, const char *out,
                                 locus_error *error);

/* The types that can be written; NULL past the last. */
const struct locus_tensor_type_info *locus_quantize_type(size_t index);

#endif
