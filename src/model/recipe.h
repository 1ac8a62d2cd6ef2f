/* Recipes for quantising: which type each tensor of a checkpoint is to have. */
#ifndef LOCUS_MODEL_RECIPE_H
#define LOCUS_MODEL_RECIPE_H

#include "checkpoint/checkpoint.h"

struct locus_recipe {
    const char *name;
    enum locus_tensor_type type; /* of most matrices */
    bool mixed;                  /* what matters most has a wider one */
    int file_type;               /* GGUF's general.file_type */
};

/* All there are: the types that can be written, then mixtures. NULL past the last. */
const struct locus_recipe *locus_recipe_at(size_t index);

/* The one of that name, in any case; NULL: none. */
const struct locus_recipe *locus_recipe_find(const char *name);

/* What a recipe goes by, of a checkpoint. */
struct locus_recipe_facts {
    int n_layers, n_experts;
    bool own_head; /* there is a head of its own, not the embedding's matrix */
    bool falcon;
};

struct locus_recipe_facts locus_recipe_facts_of(const struct locus_checkpoint *checkpoint);

/* The type the tensor is to have: its own, if it is no matrix that products read. `pure`: the
 * recipe's for every matrix. *fallback says whether rows are no multiple of the block that the
 * recipe wants, so that the type is another. */
enum locus_tensor_type locus_recipe_type(const struct locus_recipe *recipe, bool pure,
                                         const struct locus_recipe_facts *facts,
                                         const struct locus_tensor *tensor, bool *fallback);

#endif
