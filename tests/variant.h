/* Variants of a checkpoint: a copy without some keys or tensors, with others instead. */
#ifndef LOCUS_TESTS_VARIANT_H
#define LOCUS_TESTS_VARIANT_H

#include "checkpoint/checkpoint.h"

struct variant;

/* Starts a copy of the checkpoint at `path`; NULL: of hostile_write_checkpoint's. */
struct variant *variant_begin(const char *path);

/* Leaves out the key or tensor of that name, which must be there. */
void variant_drop(struct variant *variant, const char *name);

/* Leaves out every key that begins so; there must be one. */
void variant_drop_keys(struct variant *variant, const char *prefix);

/* For keys and tensors to add; a tensor's data must live until variant_finish. */
struct locus_checkpoint_writer *variant_writer(struct variant *variant);

/* The original's tensor as floats [rows, cols], for the caller to free(). */
float *variant_floats(const struct variant *variant, const char *name, int *rows, int *cols);

/* Adds a matrix (rows 0: a vector of cols values), copied, in that type. */
void variant_add(struct variant *variant, const char *name, enum locus_tensor_type type, int rows,
                 int cols, const float *values);

/* Drops every matrix and adds it in that type. */
void variant_convert(struct variant *variant, enum locus_tensor_type type);

/* Writes the file and frees the variant; the path is one of testing_temporary. */
const char *variant_finish(struct variant *variant);

#endif
