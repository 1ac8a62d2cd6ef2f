/* The loading of a model's weights: tensors found, checked against the configuration, packed.
 *
 *     weights.c   the model's own: embedding, output norm, head; how a tensor of a kind is loaded
 *     layers.c    a layer: its norms, and its parts by their tables
 *     attention.c, mamba.c, mamba2.c, retention.c, hyena.c, mlp.c    the tables of parts, a row a
 * tensor panels.c    channels side by side extras.c    what is left: a position scheme's, or
 * refused
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

/* Panels of a tensor [n_channels, n] (n 0: a vector of n_channels values), [n][LOCUS_CHANNELS]
 * each; zeros, where it is absent and not needed. */
enum locus_status locus_load_panels(struct locus_loading *loading, const char *name, int n_channels,
                                    int n, bool needed, float **panels);

/* n ones, for norms without weights. */
enum locus_status locus_load_ones(const struct locus_loading *loading, int n, float **values);

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

/* ---- layers: "blk.N." before each name ------------------------------------------------------ */

/* Sizes that a tensor's shape is made of. */
enum locus_extent {
    LOCUS_NO_ROWS,
    LOCUS_EMBD,
    LOCUS_QUERIES,
    LOCUS_KEYS_WIDTH,
    LOCUS_FF,
    LOCUS_EXPERT_FF,
    LOCUS_SHARED_FF,
    LOCUS_EXPERTS,
    LOCUS_INNER, /* of a scan, as the next two */
    LOCUS_STATE,
    LOCUS_RANK,
    LOCUS_SCAN_HEADS, /* of Mamba 2, as the next */
    LOCUS_CONVOLVED,
    LOCUS_THREE_EMBD,
    LOCUS_RETENTION_KEYS, /* of all heads */
    LOCUS_RETENTION_VALUES,
    LOCUS_ONE
};

int locus_extent_of(enum locus_extent extent, const struct locus_config *config);

enum { LOCUS_MAX_FUSED = 3 };

/* A projection; a fused one has its parts' rows one after another. A part that is there already was
 * in a fused one: then the row is passed over. */
struct locus_linear_row {
    const char *name;
    enum locus_extent cols;
    struct {
        size_t offset; /* of a struct locus_linear in the weights */
        enum locus_extent rows;
    } parts[LOCUS_MAX_FUSED];
    /* NULL: always; else the row is passed over where it says no. */
    bool (*applies)(const struct locus_loading *loading, int layer);
    bool optional; /* unless the family needs it */
};

/* "blk.N.", a name, and a suffix. */
enum { LOCUS_TENSOR_NAME = 80 };
void locus_layer_name(char name[LOCUS_TENSOR_NAME], int layer, const char *row, const char *suffix);

/* Whether the family can't do without a tensor that is optional elsewhere. */
bool locus_family_needs(const struct locus_loading *loading, const char *name);

enum locus_status locus_load_layer(struct locus_loading *loading, int layer);
/* Once all layers are loaded: refuses a bias, a norm or the like that some layers have and others
 * of the same parts lack. */
enum locus_status locus_check_layers_agree(const struct locus_loading *loading);
void locus_layer_free(struct locus_layer *layer, const struct locus_layer_config *config);

/* Whatever no part of the decoder has claimed is offered to the position scheme, as floats. */
enum locus_status locus_load_extras(struct locus_loading *loading);

void locus_linear_free(struct locus_linear *linear);
void locus_norm_free(struct locus_norm_weights *norm);

#endif
