/* The MLP of a layer: one const struct a kind. The forward pass calls it and never learns which it
 * is. A new one: its tensors (struct locus_layer_part, model/model.h), a struct, a row in mlp.c.
 */
#ifndef LOCUS_FORWARD_MLP_H
#define LOCUS_FORWARD_MLP_H

#include "forward/arena.h"
#include "model/model.h"

struct pass;

struct locus_mlp_kind {
    const struct locus_layer_part *tensors; /* by which a layer names it */
    /* Runs the MLP of those weights on in[n, n_embd], complete on every thread: x += its output,
     * normed by post_norm where there is one. x is complete when it returns. */
    void (*run)(const struct pass *pass, const void *weights,
                const struct locus_norm_weights *post_norm, const float *in);
};

extern const struct locus_mlp_kind locus_mlp_dense, locus_mlp_gated, locus_mlp_experts;

/* The kind with those tensors; NULL: there is none. */
const struct locus_mlp_kind *locus_mlp_find(const struct locus_layer_part *tensors);

/* Scratch of one chunk of n tokens. */
struct locus_mlp_scratch {
    float *gate, *up;  /* [n, n_ff], the widest of the model; gate: gated only */
    float *shares;     /* [n, n_expert]: of each expert in a row */
    bool *taken;       /* [n, n_expert] */
    int *expert_rows;  /* [n * n_expert_used]: rows by the experts that they take */
    int *expert_first; /* [n_expert + 1]: where each expert's rows begin */
    float *gathered;   /* [n, n_embd]: the input of those rows */
    float *expert_out; /* [n, n_embd]: their output */
};

/* The widest hidden layer of a model. */
int locus_mlp_width(const struct locus_config *config);
void locus_mlp_lay_out(struct locus_mlp_scratch *scratch, const struct locus_config *config,
                       size_t n, struct locus_arena *arena);

/* The hidden layer of n rows, as the input of mlp's down; this thread's share of the work. */
struct locus_activations locus_mlp_hidden(const struct pass *pass, const struct locus_mlp *mlp,
                                          const float *in, int n);

#endif
