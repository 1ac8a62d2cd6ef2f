/* The position-scheme interface: what a scheme is made of, for those who write one of their own.
 *
 * A scheme is one const struct: a name, a table of parameters, and hooks that the forward pass
 * calls at fixed places (embed, rotate, bias). It never learns which scheme it runs. Hooks are
 * marked REQUIRED or OPTIONAL; an OPTIONAL one left NULL means nothing is to be done there.
 *
 *     text -> embed -> per layer: norm, q k v -> rotate -> cache -> scores -> bias -> softmax ...
 *
 * After init the state is read-only, but for scratch that init may allocate for embed, which one
 * thread at a time calls. Hooks allocate nothing, and rotate and bias run on several threads at
 * once, each on its own rows. Positions are absolute: tokens already in the session come first. All
 * arrays are row-major.
 */
#ifndef LOCUS_POSITION_H
#define LOCUS_POSITION_H

#include "locus.h"

#ifdef __cplusplus
extern "C" {
#endif

enum locus_position_param_type { LOCUS_PARAM_INT, LOCUS_PARAM_FLOAT, LOCUS_PARAM_CHOICE };

/* One parameter of a scheme. Parsing, validation, help and the canonical printer come from it. */
struct locus_position_param {
    const char *key;
    enum locus_position_param_type type;
    /* Default: a number, one of `choices`, or the model's own "head_dim" or "trained_length" (of
     * an INT or FLOAT). */
    const char *fallback;
    double min, max;     /* INT and FLOAT: inclusive range */
    const char *choices; /* CHOICE: "half|adjacent"; its value is the index, from 0. INT and FLOAT
                          * (min >= 0): words that may stand for a number, or NULL; the value of
                          * word i is -1 - i. */
    bool shown;          /* the canonical SPEC always names it; others only when not the default */
    const char *help;    /* one line */
};

enum { LOCUS_POSITION_MAX_PARAMS = 24 };

/* A SPEC, resolved: every parameter of the scheme has a value. A parameter `factor` that was the
 * word "auto" is what the scheme's hook auto_factor says or, where it has none, max(1, session
 * length / trained length), the latter its parameter `trained` where the scheme has one. */
struct locus_position_spec {
    const struct locus_position_scheme *scheme;
    double values[LOCUS_POSITION_MAX_PARAMS]; /* as `params` lists them; a CHOICE's is its index */
    uint32_t stated; /* bit i: a printed SPEC must name it, because values[i] is its default where
                      * the checkpoint's own SPEC has another, or isn't the model's */
};

/* The value of a parameter (a word's is negative), an int's cut to the range of int; `key` must be
 * one of the scheme's (another gives NaN, and 0). */
LOCUS_API double locus_position_number(const struct locus_position_spec *spec, const char *key);
LOCUS_API int locus_position_int(const struct locus_position_spec *spec, const char *key);

/* What a scheme may know of the model and the session. */
struct locus_position_env {
    int n_embd, n_layer, n_head, n_head_kv, head_dim;
    int trained_length;  /* tokens of the training texts */
    int session_length;  /* positions 0 .. session_length-1 may occur */
    float score_scale;   /* what q.k is multiplied by before bias */
    const char *kernels; /* the session's kernel set by name; NULL: the best this CPU has */
    const void *source;  /* for `tensor` */
    /* The checkpoint's tensor of that name as floats [rows, cols] (a vector is [1, cols]), or NULL.
     * Valid as long as the model. */
    const float *(*tensor)(const void *source, const char *name, int *rows, int *cols);
};

enum locus_position_rows { LOCUS_QUERY, LOCUS_KEY };

enum { LOCUS_POSITION_BLOCK = 64 };

struct locus_position_scheme {
    const char *name;                          /* REQUIRED: in a SPEC */
    const char *summary;                       /* REQUIRED: one line */
    const struct locus_position_param *params; /* OPTIONAL: ends with an entry whose key is NULL */
    /* OPTIONAL: the names of the checkpoint's tensors that are the scheme's own, "blk.N." standing
     * for each layer's; ends with NULL. A tensor that no part of the model and no scheme names is
     * refused; so that a model opens before its scheme is known, those of a scheme that is not in
     * the registry begin with "position_" or "blk.N.position_". */
    const char *const *tensors;

    /* OPTIONAL: what factor=auto is for a session of env->session_length positions; the other
     * values of `spec` are resolved. */
    double (*auto_factor)(const struct locus_position_env *env,
                          const struct locus_position_spec *spec);
    /* OPTIONAL: called at session creation. Precomputes tables (angles in double) into *state, and
     * refuses what it can't serve, saying what is missing. */
    enum locus_status (*init)(void **state, const struct locus_position_env *env,
                              const struct locus_position_spec *spec, locus_error *error);
    /* OPTIONAL: NULL ok; safe after a failed init. */
    void (*free)(void *state);
    /* OPTIONAL: positions the scheme has; 0: unbounded. */
    int (*max_positions)(const void *state);
    /* OPTIONAL: floats the scheme keeps a position beside keys and values; the session stores them,
     * and a rewind drops them. */
    int (*row_floats)(const void *state);
    /* OPTIONAL: adds to x[n, n_embd] the positions first_position .. first_position+n-1; called
     * once a chunk, in order, on one thread, after token lookup and embedding scale. kept[n,
     * row_floats] is the chunk's part of that store (NULL without one); the row before it is the
     * previous position's, zeros before the first. */
    void (*embed)(const void *state, const int32_t *tokens, float *x, int first_position, int n,
                  float *kept);
    /* OPTIONAL: changes rows[n, n_heads, head_dim] in place; positions[n]. `reader` is the position
     * of the query that reads these keys where per_row_keys says so, the block's origin with
     * relative_blocks, else -1. */
    void (*rotate)(const void *state, int layer, enum locus_position_rows which, float *rows,
                   int n_heads, const int *positions, int n, int reader);
    /* OPTIONAL: true if a key's rotation depends on the query row that reads it: keys are then
     * cached as projected, and rotated for each row. */
    bool (*per_row_keys)(const void *state);
    /* True: keys are rotated relative to an origin, a position that at most LOCUS_POSITION_BLOCK
     * neighbours share and none of them is before; queries, one head at a time, relative to that of
     * each block they read. So scales that grow with the position stay within a block's. */
    bool relative_blocks;
    /* True: bias needs all scores of a row at once (n_k is all the row sees), not a block. */
    bool whole_row;
    /* OPTIONAL: adds to scores[n_k] (scaled, before the softmax) of one query row q[head_dim] (as
     * rotate left it) the bias against keys at k_positions[n_k], or at k_first .. k_first+n_k-1
     * where k_positions is NULL. scratch holds scratch_floats(state, n_k) floats. */
    void (*bias)(const void *state, int layer, int head, const float *q, int q_position,
                 int k_first, const int *k_positions, int n_k, float *scores, float *scratch);
    /* OPTIONAL: floats of scratch that bias needs for n_k keys. */
    size_t (*scratch_floats)(const void *state, int n_k);
};

#ifdef __cplusplus
}
#endif
#endif
