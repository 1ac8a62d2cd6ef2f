/* Position schemes: how to write one of your own.
 *
 * A scheme is one const struct: a name and hooks. The forward pass calls the hooks at fixed places,
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
 *  - init makes the state. Other hooks read it, and allocate nothing. Two of them may write to
 *    memory that it points to, fill and embed: one thread at a time calls these.
 *  - Several threads call rotate and bias at once, each for rows of its own.
 *  - Positions are absolute: the tokens that the session already holds come first.
 *  - Arrays are row-major: the last index runs fastest.
 */
#ifndef LOCUS_POSITION_H
#define LOCUS_POSITION_H

#include "locus.h"

#ifdef __cplusplus
extern "C" {
#endif

enum locus_param_type { LOCUS_PARAM_INT, LOCUS_PARAM_FLOAT, LOCUS_PARAM_CHOICE };

/* One parameter of a scheme. SPECs are read, checked, explained and printed by it. */
struct locus_param {
    const char *key; /* not one that any SPEC may have: see locus_position_spec */
    enum locus_param_type type;
    /* The default: a number, or one of `choices`. An INT or FLOAT may have "head_dim" or
     * "trained_length": the model's own value. */
    const char *fallback;
    double min, max; /* INT and FLOAT: both are allowed values */
    /* CHOICE: the choices, "half|adjacent". The value is the index, from 0.
     * INT and FLOAT: words that may stand in place of a number, "auto", or NULL. The value of word
     * i is -1 - i, so min must be 0 or more. */
    const char *choices;
    bool shown;       /* true: a printed SPEC always has it; false: unless it is the default */
    const char *help; /* one line */
};

/* Those of a scheme; those of a SPEC, the keys that any SPEC may have among them. */
enum { LOCUS_MAX_PARAMS = 24, LOCUS_MAX_VALUES = 32 };

/* A SPEC, resolved: every parameter has a value.
 *
 * Any SPEC may have these keys, too, which act outside the scheme ("inherit" and "nope_every",
 * which say how the text is read, aren't values):
 *
 *     logn         position: the projected query at position p is multiplied by
 *                  max(1, ln(p + 1) / ln(trained length))
 *     temperature  divides scores, after the bias
 *
 * A parameter `factor` whose value is still a word after the hook `settle` becomes
 * session_length / trained length, at least 1. The trained length is the parameter `trained`, where
 * there is one, else the model's. */
struct locus_position_spec {
    const struct locus_position_scheme *scheme;
    /* In the order of scheme->params, then those of any SPEC; a CHOICE's is its index. */
    double values[LOCUS_MAX_VALUES];
    uint32_t given;  /* bit i: the SPEC, or the checkpoint's, names parameter i */
    uint32_t stated; /* bit i: printing must name parameter i, though its value is the default:
                      * the checkpoint's SPEC, or another model, would give it another */
};

/* The value of a parameter. A word's is negative. NaN (and 0): the scheme has no such key.
 * locus_position_int cuts it to the range of int. */
LOCUS_API double locus_position_number(const struct locus_position_spec *spec, const char *key);
LOCUS_API int locus_position_int(const struct locus_position_spec *spec, const char *key);

/* Whether the SPEC, or the checkpoint's, names a parameter. */
LOCUS_API bool locus_position_given(const struct locus_position_spec *spec, const char *key);

/* Sets a parameter, in the hook `settle`. */
LOCUS_API void locus_position_set(struct locus_position_spec *spec, const char *key, double value);

/* What a scheme may know of the model and the session. */
struct locus_position_env {
    int n_embd, n_layer, n_head, n_head_kv, head_dim;
    int trained_length;  /* tokens of the texts that the model was trained on */
    int session_length;  /* positions are below this */
    int first_position;  /* of the session's first token. Smaller ones occur as coordinates, and
                          * where a cache policy moves tokens */
    int text_length;     /* tokens of the text to come; 0: not known */
    float score_scale;   /* q.k is multiplied by it, before bias */
    int block_length;    /* LOCUS_FRAME_BLOCK: a key's position - origin is below this */
    const char *kernels; /* name of the session's kernel set; NULL: the best this CPU has */
    const void *source;  /* for `tensor` */
    /* The checkpoint's tensor of that name as floats [rows, cols], or NULL. A vector is [1, cols].
     * Valid as long as the model. */
    const float *(*tensor)(const void *source, const char *name, int *rows, int *cols);
};

/* ---- what the hooks are given --------------------------------------------------------------- */

/* Some tokens on their way into the model: the token's vector has been looked up and scaled. */
struct locus_embed_op {
    const int32_t *tokens;  /* [n] */
    float *x;               /* [n, n_embd]: add the positions to it */
    int first_position, n;  /* token i is at first_position + i */
    float *token_states;    /* [n, embed_floats(state)]: see that hook; NULL without it */
    int n_axes;             /* of coordinates */
    const int *coordinates; /* [n, n_axes]: see the hook takes_axes; NULL: none */
};

/* Some tokens at the beginning of a layer's attention. */
struct locus_observe_op {
    int layer;
    const float *x;        /* [n, n_embd]: what q, k and v are projected from */
    int first_position, n; /* token i is at first_position + i */
    float *token_states;   /* [n, layer_floats(state)]: fill it in; see the hook */
};

enum locus_position_rows { LOCUS_QUERY, LOCUS_KEY };

/* Some queries, or some keys, as projected. */
struct locus_rotate_op {
    int layer;
    enum locus_position_rows which;
    float *rows;             /* [n, n_heads, head_dim]: change it in place */
    int n;                   /* tokens */
    int n_heads, first_head; /* first_head > 0: queries in LOCUS_FRAME_BLOCK alone */
    const int *positions;    /* [n] */
    int divisor;             /* above 1: the positions are as many times their value, see the hook
                              * takes_fractions */
    int origin;              /* see enum locus_frame */
    /* [n, layer_floats(state)]: what `observe` kept of these tokens. Keys in LOCUS_FRAME_QUERY: the
     * rows after them go on to the query's. NULL without that hook. In LOCUS_FRAME_ABSOLUTE, where
     * keys come once, rotate may write to theirs, for bias. */
    float *token_states;
    int n_axes;             /* of coordinates */
    const int *coordinates; /* [n, n_axes]; NULL: none */
};

/* One query, and some of the keys that it sees, in the order of positions. With `all_heads`, a
 * token's queries of all heads: head is 0, and q and scores are rows of as many heads. */
struct locus_bias_op {
    int layer, head;
    const float *q;  /* [head_dim]: as rotate left it */
    size_t q_stride; /* all_heads: floats from one head's q to the next head's */
    int q_position;
    int n_k;                /* keys */
    const int *k_positions; /* [n_k]; NULL: key j is at k_first + j */
    int k_first;
    float *scores;        /* [n_k]: scaled, before the softmax; add the bias to it */
    size_t scores_stride; /* all_heads: the same of scores */
    float *scratch;       /* [scratch_floats(state, n_k)] */
    /* [layer_floats(state)] and [n_k, layer_floats(state)]: what `observe` kept of the query and of
     * the keys; NULL without that hook. */
    const float *q_token_state, *k_token_states;
    int n_axes;                               /* of coordinates */
    const int *q_coordinates, *k_coordinates; /* [n_axes], [n_k, n_axes]; NULL: none */
};

/* What a rotated key in the cache is relative to. */
enum locus_frame {
    /* Nothing. Keys are rotated once, for their own positions, and cached so. origin is 0. */
    LOCUS_FRAME_ABSOLUTE,
    /* An origin that neighbouring keys share. Their positions are origin to
     * origin + env->block_length - 1, so that no factor that grows with the position gets large. A
     * query is rotated again for each block of keys that it reads, with that block's origin. */
    LOCUS_FRAME_BLOCK,
    /* The query that reads it. Keys are cached as projected. They are rotated again for each query,
     * and origin is its position. (Queries are rotated as in LOCUS_FRAME_ABSOLUTE.) */
    LOCUS_FRAME_QUERY
};

/* ---- a scheme ------------------------------------------------------------------------------ */

/* The version of what this header says, raised whenever one of its structs changes: a scheme is
 * built with the header of the library that it meets, or refused. */
enum { LOCUS_POSITION_ABI = 2 };

struct locus_position_scheme {
    int abi; /* REQUIRED: LOCUS_POSITION_ABI */
    /* REQUIRED: its name in a SPEC. ASCII without spaces, ':', ';', ',' and '='. A name that the
     * library has, too, means yours in the session's SPEC, and the library's in the checkpoint's.
     */
    const char *name;
    const char *summary;              /* REQUIRED: one line */
    const struct locus_param *params; /* OPTIONAL: ends with an entry whose key is NULL */
    /* OPTIONAL: the checkpoint's tensors that the scheme reads; ends with NULL. "blk.N." stands for
     * each layer's. A model with a tensor that nothing reads is refused. When a model is opened, a
     * scheme of yours isn't known yet: its tensors must begin with "position_" or
     * "blk.N.position_". */
    const char *const *tensors;

    /* OPTIONAL: called when a session is created. Makes *state (angles in double), or refuses what
     * it can't serve. *error is never NULL: say what is missing. */
    enum locus_status (*init)(void **state, const struct locus_position_env *env,
                              const struct locus_position_spec *spec, locus_error *error);
    /* OPTIONAL: frees the state; also NULL, and what a failed init left. */
    void (*free)(void *state);

    /* OPTIONAL: adds positions to the tokens' vectors. One thread calls it, once a chunk of the
     * text, in order. */
    void (*embed)(const void *state, const struct locus_embed_op *op);
    /* OPTIONAL: changes queries and keys. */
    void (*rotate)(const void *state, const struct locus_rotate_op *op);
    /* OPTIONAL: adds to scores. */
    void (*bias)(const void *state, const struct locus_bias_op *op);

    /* ADVANCED, all OPTIONAL. */

    /* Tables for long texts: fills those that init made for positions below n_positions, which is
     * at most env->session_length and never falls. One thread calls it before a chunk in which
     * these positions occur. So a table costs what the text needs, not what the session may hold.
     */
    void (*fill)(void *state, int n_positions);
    /* Words as values: replaces them by numbers (factor=auto), once a SPEC's values are all there.
     */
    void (*settle)(struct locus_position_spec *spec, const struct locus_position_env *env);
    /* Parameters that matter beside others alone: what this one lacks to have an effect, such as
     * "scaling=yarn"; NULL: nothing. A SPEC that sets it nevertheless is refused with this text. A
     * value that is inherited from the checkpoint is dropped. */
    const char *(*lacks)(const struct locus_position_spec *spec, const char *key);
    /* An estimate of the position up to which these values carry a model; 0: none. *formula becomes
     * a sentence on where it comes from. */
    double (*reach)(const struct locus_position_spec *spec, const char **formula);
    /* How many positions the scheme has; 0, or no hook: as many as you like. */
    int (*max_positions)(const void *state);
    /* Floats of scratch that bias needs for n_k keys. */
    size_t (*scratch_floats)(const void *state, int n_k);
    /* A state a token, for an embed that depends on all tokens before: how many floats. The session
     * holds them in op->token_states, and a rewind drops them. The row before op->token_states[0]
     * is the previous token's; zeros before the first token. */
    int (*embed_floats)(const void *state);
    /* A state a token and layer, for gates and decays that depend on the data: observe looks at
     * what the layer's attention reads, and fills op->token_states, which rotate and bias are
     * given. layer_floats says how many floats. One thread calls observe, once a layer and chunk,
     * in order, before that layer's rotate. As in embed_floats, the session holds the states, and
     * the row before the first is the previous token's. */
    void (*observe)(const void *state, const struct locus_observe_op *op);
    int (*layer_floats)(const void *state);
    /* Coordinates: whether a token's place may be n_axes numbers that the caller of
     * locus_session_eval_at gives (rows and columns of a picture), each 0 to session_length - 1.
     * Positions still say the order. No hook: such a session is refused. */
    bool (*takes_axes)(const void *state, int n_axes);
    /* Whether rotate heeds op->divisor, and no bias looks at positions: positions between two, that
     * a cache policy makes of whole ones. No hook: such a policy is refused. */
    bool (*takes_fractions)(const void *state);
    /* What rotated keys are relative to; no hook: LOCUS_FRAME_ABSOLUTE. */
    enum locus_frame (*frame)(const void *state);
    /* True: bias needs all scores of a row at once. n_k is then every key that the query sees. */
    bool whole_row;
    /* True: bias needs the scores of all heads of a query and a key at once. One thread then works
     * on all heads of a row, and keys are read from memory for each row. */
    bool all_heads;
};

#ifdef __cplusplus
}
#endif
#endif
