/* Position schemes: how to write one of your own.
 *
 * A scheme is one const struct: a name and hooks. The forward pass calls the hooks at fixed places
 * and never learns which scheme it runs:
 *
 *     tokens -> embed -> per layer: norm, q k v -> rotate -> cache -> scores -> bias -> softmax ...
 *
 * Most schemes need one hook:
 *
 *     embed    adds to the tokens' vectors      (learned, sinusoidal)
 *     rotate   changes queries and keys         (RoPE)
 *     bias     adds to the scores               (ALiBi, T5)
 *
 * A hook that is NULL does nothing. Each takes one struct, so that a later version may add members.
 *
 * Rules:
 *  - init makes the state. After it hooks only read the state, and allocate nothing. Two may write
 *    to what init allocated, since one thread at a time calls them: fill, and embed to scratch.
 *  - rotate and bias run on several threads at once, each on its own rows.
 *  - Positions are absolute: tokens already in the session come first.
 *  - Arrays are row-major.
 */
#ifndef LOCUS_POSITION_H
#define LOCUS_POSITION_H

#include "locus.h"

#ifdef __cplusplus
extern "C" {
#endif

enum locus_param_type { LOCUS_PARAM_INT, LOCUS_PARAM_FLOAT, LOCUS_PARAM_CHOICE };

/* One parameter of a scheme. Parsing, validation, help and the canonical printer come from it. */
struct locus_param {
    const char *key; /* not "inherit" or "nope_every", which any SPEC may have */
    enum locus_param_type type;
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

enum { LOCUS_MAX_PARAMS = 24 };

/* A SPEC, resolved: every parameter of the scheme has a value. A parameter `factor` that is still
 * the word "auto" after `settle` becomes max(1, session length / trained length), the latter its
 * parameter `trained` where the scheme has one. */
struct locus_position_spec {
    const struct locus_position_scheme *scheme;
    double values[LOCUS_MAX_PARAMS]; /* as `params` lists them; a CHOICE's is its index */
    uint32_t stated; /* bit i: a printed SPEC must name it, because values[i] is its default where
                      * the checkpoint's own SPEC has another, or isn't the model's */
    uint32_t given;  /* bit i: the SPEC, or the checkpoint's own, names it */
};

/* The value of a parameter (a word's is negative), an int's cut to the range of int; `key` must be
 * one of the scheme's (another gives NaN, and 0). */
LOCUS_API double locus_position_number(const struct locus_position_spec *spec, const char *key);
LOCUS_API int locus_position_int(const struct locus_position_spec *spec, const char *key);

/* Whether the SPEC, or the checkpoint's own, names a parameter; and a value of it for `settle`. */
LOCUS_API bool locus_position_given(const struct locus_position_spec *spec, const char *key);
LOCUS_API void locus_position_set(struct locus_position_spec *spec, const char *key, double value);

/* What a scheme may know of the model and the session. */
struct locus_position_env {
    int n_embd, n_layer, n_head, n_head_kv, head_dim;
    int trained_length;  /* tokens of the training texts */
    int session_length;  /* positions 0 .. session_length-1 may occur, */
    int first_position;  /* those before this one as coordinates, or where a policy moves tokens */
    int text_length;     /* tokens of the texts to come, where that is known; else 0 */
    float score_scale;   /* what q.k is multiplied by before bias */
    int block_length;    /* LOCUS_FRAME_BLOCK: a key is less than this past its origin */
    const char *kernels; /* the session's kernel set by name; NULL: the best this CPU has */
    const void *source;  /* for `tensor` */
    /* The checkpoint's tensor of that name as floats [rows, cols] (a vector is [1, cols]), or NULL.
     * Valid as long as the model. */
    const float *(*tensor)(const void *source, const char *name, int *rows, int *cols);
};

/* ---- what the hooks are given --------------------------------------------------------------- */

/* Tokens first_position .. first_position+n-1, after token lookup and embedding scale. */
struct locus_embed_op {
    const int32_t *tokens; /* [n] */
    float *x;              /* [n, n_embd]: what the positions are added to */
    int first_position, n;
    float *token_states;    /* [n, embed_floats]: see that hook; NULL without it */
    int n_axes;             /* of coordinates: see takes_axes */
    const int *coordinates; /* [n, n_axes]; NULL: none */
};

/* What a layer's attention reads, of tokens first_position .. first_position+n-1. */
struct locus_observe_op {
    int layer;
    const float *x; /* [n, n_embd]: as the projections of q, k and v read it, normed where it is */
    int first_position, n;
    float *token_states; /* [n, layer_floats]: to be filled; see the hook */
};

enum locus_position_rows { LOCUS_QUERY, LOCUS_KEY };

/* Queries or keys, as projected. */
struct locus_rotate_op {
    int layer;
    enum locus_position_rows which;
    float *rows;                /* [n, n_heads, head_dim], changed in place */
    int n, n_heads, first_head; /* all heads, but for queries in LOCUS_FRAME_BLOCK */
    const int *positions;       /* [n] */
    int origin;                 /* of the frame: see enum locus_frame */
    const float *token_states; /* [n, layer_floats]: what observe kept of them; in LOCUS_FRAME_QUERY
                                * the rows go on, for keys, to the query's */
    int n_axes;                /* of coordinates: see takes_axes */
    const int *coordinates;    /* [n, n_axes]; NULL: none */
};

/* One query and a run of its keys, in the order of positions. */
struct locus_bias_op {
    int layer, head;
    const float *q; /* [head_dim]: as rotate left it */
    int q_position, n_k;
    int k_first;            /* keys are at k_first .. k_first+n_k-1, */
    const int *k_positions; /* or at k_positions[n_k], where that isn't NULL */
    float *scores;          /* [n_k]: scaled, before the softmax; the bias is added to them */
    float *scratch;         /* [scratch_floats(state, n_k)] */
    /* What observe kept of the query [layer_floats], and of the keys [n_k, layer_floats]; NULL
     * without it. */
    const float *q_token_state, *k_token_states;
    int n_axes;                               /* of coordinates: see takes_axes */
    const int *q_coordinates, *k_coordinates; /* [n_axes], [n_k, n_axes]; NULL: none */
};

/* What the rotation of a cached key is relative to. */
enum locus_frame {
    /* Nothing: its own position says all. Keys are cached as rotate leaves them. origin is 0. */
    LOCUS_FRAME_ABSOLUTE,
    /* An origin that neighbouring keys share: none is before it, nor as much as env->block_length
     * past it. A query is rotated anew, some heads at a time, for each block it reads, with the
     * block's origin. So no factor that grows with the position ever gets large. */
    LOCUS_FRAME_BLOCK,
    /* The query that reads it: origin is that query's position. Keys are cached as projected, and
     * rotated for each query. (Queries are rotated as in LOCUS_FRAME_ABSOLUTE.) */
    LOCUS_FRAME_QUERY
};

/* ---- a scheme ------------------------------------------------------------------------------ */

enum { LOCUS_POSITION_ABI = 1 }; /* the version of what this header says */

struct locus_position_scheme {
    int abi; /* REQUIRED: LOCUS_POSITION_ABI */
    /* REQUIRED: in a SPEC, ASCII without spaces, ':', ';', ',' and '='. One that a scheme of the
     * library has is yours in the session's SPEC, and takes over nothing of the checkpoint's own.
     */
    const char *name;
    const char *summary;              /* REQUIRED: one line */
    const struct locus_param *params; /* OPTIONAL: ends with an entry whose key is NULL */
    /* OPTIONAL: the names of the checkpoint's tensors that are the scheme's own, "blk.N." standing
     * for each layer's; ends with NULL. A tensor that no part of the model and no scheme names is
     * refused; so that a model opens before its scheme is known, those of a scheme that is not in
     * the registry begin with "position_" or "blk.N.position_". */
    const char *const *tensors;

    /* OPTIONAL: called at session creation: for a few positions, to see what it refuses, then for
     * all. Puts tables into *state (angles in double), and refuses what it can't serve, saying in
     * *error (never NULL) what is missing. */
    enum locus_status (*init)(void **state, const struct locus_position_env *env,
                              const struct locus_position_spec *spec, locus_error *error);
    /* OPTIONAL: NULL ok; safe after a failed init. */
    void (*free)(void *state);

    /* OPTIONAL: adds positions to tokens. Called once a chunk, in order, on one thread. */
    void (*embed)(const void *state, const struct locus_embed_op *op);
    /* OPTIONAL: changes queries and keys. */
    void (*rotate)(const void *state, const struct locus_rotate_op *op);
    /* OPTIONAL: adds to scores. */
    void (*bias)(const void *state, const struct locus_bias_op *op);

    /* ADVANCED, all OPTIONAL. */

    /* Fills tables that init made, for positions below n_positions (at most env->session_length).
     * Called on one thread before a chunk in which they may occur; n_positions never falls. So
     * tables cost what the text needs, not what the session may hold. */
    void (*fill)(void *state, int n_positions);
    /* Puts numbers in the place of words: factor=auto, or a length=row that env->text_length may
     * replace. Called when a SPEC is resolved, all values in place; a word's is negative. */
    void (*settle)(struct locus_position_spec *spec, const struct locus_position_env *env);
    /* What a parameter lacks to have any effect beside the other values, such as "scaling=yarn";
     * NULL: nothing. No hook: each has an effect. A SPEC that changes one that has none is refused
     * with this text. One that is inherited from the checkpoint is dropped. */
    const char *(*lacks)(const struct locus_position_spec *spec, const char *key);
    /* An estimate of the position up to which these values carry a model; 0: none. *formula becomes
     * a sentence on where it comes from. */
    double (*reach)(const struct locus_position_spec *spec, const char **formula);
    /* Positions the scheme has; 0, or no hook: as many as you like. */
    int (*max_positions)(const void *state);
    /* Floats of scratch that bias needs for n_k keys. */
    size_t (*scratch_floats)(const void *state, int n_k);
    /* Floats that embed keeps a position, for what depends on all tokens before it. The session
     * holds them, and a rewind drops them. The row before op->token_states is the previous
     * position's; zeros before the first. */
    int (*embed_floats)(const void *state);
    /* Looks at what a layer's attention reads, and keeps layer_floats of each token: they reach
     * rotate and bias (gates, data-dependent decays). Called once a layer and chunk, in order, on
     * one thread, before that layer's rotate. The session holds op->token_states, and a rewind
     * drops it; the row before it is the previous token's, zeros before the first. */
    void (*observe)(const void *state, const struct locus_observe_op *op);
    int (*layer_floats)(const void *state);
    /* Whether each token's place may be n_axes coordinates that the caller of eval gives (a
     * picture's rows and columns), 0 to session_length-1, in place of its position. Positions still
     * say the order. Without the hook: no, and such a session is refused. */
    bool (*takes_axes)(const void *state, int n_axes);
    /* What rotated keys are relative to; LOCUS_FRAME_ABSOLUTE without the hook. */
    enum locus_frame (*frame)(const void *state);
    /* True: bias needs all scores of a row at once (n_k is all the row sees), not a part. */
    bool whole_row;
};

#ifdef __cplusplus
}
#endif
#endif
