/* locus inspect, divided:
 *
 *     inspect.c           what is looked at; its JSON
 *     inspect_text.c      its text: one screen
 *     inspect_families.c  --families: the families that are known
 */
#ifndef LOCUS_CLI_INSPECT_H
#define LOCUS_CLI_INSPECT_H

#include "cli/kit/options.h"
#include "model/model.h"
#include "position/layers.h"
#include "tokenizer/tokenizer.h"

struct inspect_options {
    struct locus_common common; /* first, as in every command */
    bool tensors, check, families, json;
};

struct inspection {
    const struct inspect_options *options;
    char *path;
    locus_model *model;
    const struct locus_checkpoint *checkpoint;
    locus_model_info info;
    locus_tokenizer *tokenizer;     /* NULL: the checkpoint has none */
    struct locus_layer_specs specs; /* of its own position */
    struct locus_buffer position;   /* those as text */
};

/* Tensors of one element type. */
struct inspect_type_sum {
    const char *name;
    int64_t tensors, values, bytes;
};

enum { INSPECT_MAX_TYPES = 32 };

/* Sums by element type, in the order of their first tensor; returns how many. */
int inspect_sum_types(const struct locus_checkpoint *checkpoint,
                      struct inspect_type_sum sums[INSPECT_MAX_TYPES]);

int64_t inspect_n_values(const struct locus_tensor *tensor);

/* Words for what a decoder is made of. */
const char *inspect_norm(enum locus_norm_kind norm);
const char *inspect_norm_place(enum locus_norm_position place);
const char *inspect_activation(enum locus_activation activation);

/* Each gives the exit status. */
int inspect_print_text(const struct inspection *inspection);
int inspect_print_families(bool json);

#endif
