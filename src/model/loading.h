/* The loading of a model's weights: tensors found, checked against the configuration, packed.
 *
 *     weights.c   the model's own: embedding, output norm, head; how a tensor of a kind is loaded
 *     layers.c    what a layer may hold, a row a tensor
 *     extras.c    what is left: a position scheme's, or refused
 */
#ifndef LOCUS_MODEL_LOADING_H
#define LOCUS_MODEL_LOADING_H

#include "model/model.h"

struct locus_loading {
    struct locus_model *model;
    bool *claimed; /* [n_tensors]: those that have found their place */
    int n_threads;
    locus_error *error;
    size_t room_bytes, room_used; /* of model->panels */
};

const char *locus_loading_path(const struct locus_loading *loading);

/* The tensor of that name, unclaimed yet, or NULL. */
const struct locus_tensor *locus_loading_find(const struct locus_loading *loading,
                                              const char *name);

/* Finds and claims a tensor and checks that it is [rows, cols] (rows 0: a vector of cols values).
 * An absent one gives NULL: an error if it is needed. */
enum locus_status locus_load_claim(struct locus_loading *loading, const char *name, int rows,
                                   int cols, bool needed, const struct locus_tensor **found);

/* A tensor of [rows, cols] as floats. */
enum locus_status locus_load_floats(struct locus_loading *loading,
                                    const struct locus_tensor *tensor, float **values);
enum locus_status locus_load_vector(struct locus_loading *loading, const char *name, int n,
                                    bool needed, float **values);

/* prefix.weight [n] and, where there is one, prefix.bias. */
enum locus_status locus_load_norm(struct locus_loading *loading, const char *prefix, int n,
                                  bool needed, struct locus_norm_weights *norm);

/* Where some of a stored matrix's rows go. */
struct locus_rows {
    struct locus_linear *linear;
    int n;
};

/* prefix.weight, whose rows are those of parts[n_parts] one after another, each of cols values,
 * and, where there is one, prefix.bias. Absent and not needed, it leaves the parts as they are. */
enum locus_status locus_load_linear(struct locus_loading *loading, const char *prefix,
                                    const struct locus_rows *parts, int n_parts, int cols,
                                    bool needed);

/* The pages of a tensor that has been read won't be read again soon. */
void locus_loading_drop(const struct locus_loading *loading, const struct locus_tensor *tensor);

enum locus_status locus_load_layer(struct locus_loading *loading, int index);
void locus_layer_free(struct locus_layer *layer, int n_expert);

/* Whatever no part of the decoder has claimed is offered to the position scheme, as floats. */
enum locus_status locus_load_extras(struct locus_loading *loading);

void locus_linear_free(struct locus_linear *linear);
void locus_norm_free(struct locus_norm_weights *norm);

#endif
