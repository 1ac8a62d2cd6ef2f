/* A checkpoint rewritten with its matrices in another type. */
#ifndef LOCUS_MODEL_QUANTIZE_H
#define LOCUS_MODEL_QUANTIZE_H

#include "base/error.h"
#include "model/recipe.h"

struct locus_quantize {
    const struct locus_recipe *recipe;
    bool pure;             /* every matrix in the recipe's own type */
    int n_threads;         /* 0: the default */
    bool (*stopped)(void); /* asked between tensors: ends the job, an error; NULL: never */
    /* Filled in: the sizes of all tensors, and how many matrices of a type have it because their
     * rows are no multiple of the block that the recipe wants. */
    size_t bytes_before, bytes_after;
    int n_fallbacks[LOCUS_N_TENSOR_TYPES];
};

/* Writes the checkpoint at `in` to `out` (which may be the same file). Every matrix
 * [rows > 1, cols] is converted but those of position schemes; vectors stay as they are. With a
 * type of less than 8 bits a value the embedding and the head become Q8_0, or, beside types of
 * blocks of 256, the head (and the embedding that is it) Q6_K: it matters most. Not so if `pure`.
 * Refuses values that are not finite, or that a half can't hold where one is needed, naming the
 * tensor. The file appears whole or not at all. */
enum locus_status locus_quantize(struct locus_quantize *job, const char *in, const char *out,
                                 locus_error *error);

#endif
