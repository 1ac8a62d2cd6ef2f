/* The model: a decoder's configuration and its packed weights, from a checkpoint. */
#ifndef LOCUS_MODEL_H
#define LOCUS_MODEL_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"

/* The checkpoint behind the model: metadata and tensor table (its data pages are dropped). */
const struct locus_checkpoint *locus_model_checkpoint(const locus_model *model);

#endif
