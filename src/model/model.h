/* The model: a decoder's configuration and its packed weights, from a checkpoint. Immutable. */
#ifndef LOCUS_MODEL_H
#define LOCUS_MODEL_H

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "kernels/kernels.h"

/* What of each half of a layer is normed. */
enum locus_norm_position {
    LOCUS_NORM_INPUT,  /* what it reads (GPT-2, Llama); its output too, where there is a norm for it
                        * (Gemma 2) */
    LOCUS_NORM_SUM,    /* the sum of what it read and its output (GPT-1, the first transformer) */
    LOCUS_NORM_OUTPUT, /* its output alone (OLMo 2) */
};

struct locus_layer_part;

/* The sizes of selective scans (Mamba, Mamba 2). */
struct locus_ssm_config {
    int n_inner; /* channels, each with a state of its own; 0: no layer has a scan */
    int n_state; /* numbers of such a state */
    int n_conv;  /* tokens that the convolution before it sees, each token's own among them */
    int rank;    /* Mamba: of what a token's step of time comes from */
    int n_head;  /* Mamba 2: of as many channels each, which decay alike, */
    int n_group; /* and of which as many share their b and c */
    bool normed; /* step, b and c are normed (Falcon Mamba), even if no tensor says by what */
    float norm_epsilon; /* of those norms, or of Mamba 2's after its gate */
};

/* The sizes of retention. */
struct locus_retention_config {
    int n_head;    /* 0: no layer has it */
    int key_dim;   /* of a head's queries and keys: even */
    int value_dim; /* of its values, and of what comes of them */
};

/* The sizes of Hyena's filters. */
struct locus_hyena_config {
    int n_conv;  /* tokens that the short convolution sees; 0: no layer has one */
    int length;  /* that the long one was trained to */
    int n_band;  /* frequencies of the features that it is made of */
    int width;   /* of the network that makes it */
    int n_layer; /* of that, which end in sines */
    float shift; /* below which the window on it never falls */
};

/* One layer's part of the configuration: what it is made of. */
struct locus_layer_config {
    const struct locus_layer_part *mixer, *mlp;
    int window; /* positions that it sees, each token's own among them; 0: all */
};

/* The shape of a decoder; the checkpoint's metadata, checked. */
struct locus_config {
    int n_vocab, n_embd, n_layer, n_head, n_head_kv, head_dim, n_ff;
    int trained_length;
    enum locus_norm_kind norm;
    enum locus_norm_position norm_position;
    float norm_epsilon;
    bool embedding_norm;    /* a norm right after the embedding */
    bool parallel_residual; /* attention and MLP read the same x */
    enum locus_activation activation;
    bool gated;                   /* MLP: down(act(gate(x)) * up(x)), else down(act(up(x))) */
    float embedding_scale;        /* token embeddings times this */
    float attention_scale;        /* scores times this */
    float residual_scale;         /* what a half adds, times this */
    float logit_scale;            /* logits times this */
    float score_cap;              /* scores become cap tanh(score / cap), before the bias; 0: not */
    float logit_cap;              /* logits likewise; 0: not */
    float clip_qkv;               /* q, k and v clamped to +-this; 0: not */
    int n_expert, n_expert_used;  /* a mixture of experts: how many, and how many a token takes */
    int n_ff_expert, n_ff_shared; /* width of an expert, and of the one that all tokens take; 0 */
    int n_dense;                  /* layers before the first that has experts */
    bool normed_experts;          /* the shares of a token's experts add up to 1 */
    struct locus_ssm_config ssm;
    struct locus_retention_config retention;
    struct locus_hyena_config hyena;
    struct locus_layer_config *layers; /* [n_layer], the configuration's own */
    char position[1024];               /* SPEC of the scheme it was trained with */
};

/* A norm of a layer by another name than the usual one, where the file has a tensor of that name.
 */
struct locus_renamed {
    const char *name, *in_file;
};

enum { LOCUS_MAX_RENAMED = 3 };

/* A family of checkpoints: what its metadata leaves unsaid. Keys are "<name>.<key>". */
struct locus_architecture {
    const char *name;
    struct locus_config defaults;
    const char *epsilon_key;
    bool spelled_out; /* every key of struct locus_config may be in the metadata */
    /* The SPEC that its files are made for, to which rope.* add ("rope:...") or whose
     * attention.max_alibi_bias decides ("alibi"). */
    const char *position;
    float max_bias;     /* "alibi": of files that don't say it; 0: a learned table, or none */
    const char *needed; /* tensors of each layer that are optional elsewhere, or NULL */
    bool root_embedding_scale; /* token embeddings times sqrt(n_embd) */
    bool divides_logits;       /* logit_scale divides */
    int window;                /* of local layers, where the file doesn't say it; 0: none */
    int window_every;          /* of so many layers the last sees all, where no pattern is given */
    int wide_scores_layers;  /* a model of so many layers scales scores by sqrt(n_head / n_embd) */
    const char *needed_keys; /* above 0, that other families may leave out, or NULL */
    const char *layout;      /* what tensor_data_layout has to say, or NULL: the usual ones */
    struct locus_renamed renamed[LOCUS_MAX_RENAMED];
    bool bare_norms; /* norms have no weights, and none are multiplied by */
    /* Positions of layers that differ: */
    int unrotated_every;   /* of so many layers the last has none */
    bool unrotated_global; /* beside local layers the others have none */
    double local_base; /* of local layers' rotation, where the file doesn't say it; 0: as others' */
    bool unscaled_local; /* whose rotation isn't scaled */
    int biased_layers; /* a model of so many layers has that scheme, its greatest slope 2^-max_bias
                        */
    bool whole_ramp;   /* the ramp of "yarn" ends between dimensions, not at whole ones */
    const struct locus_layer_part *mixer; /* of all layers, which have no MLP; NULL: attention */
    bool headless_scans; /* layers without key and value heads have Mamba's scan instead */
};

/* Whether a layer has that part. */
bool locus_config_has(const struct locus_config *config, const struct locus_layer_part *part);

struct locus_keys;

/* Writes the SPEC that the family's standard metadata tells into config->position; config's shape
 * is read already. */
enum locus_status locus_family_position(struct locus_keys *keys, struct locus_config *config,
                                        const struct locus_architecture *architecture);

/* Refuses a file that holds something else than a whole model, by what it is: an adapter, a part of
 * a split file, a vocabulary alone, ... */
enum locus_status locus_model_check_kind(const struct locus_checkpoint *checkpoint,
                                         locus_error *error);

/* The table's row for general.architecture, or NULL with the families that are known. */
const struct locus_architecture *locus_architecture_find(const struct locus_checkpoint *checkpoint,
                                                         locus_error *error);

/* Row `index` of the table; NULL past the last. */
const struct locus_architecture *locus_architecture_at(size_t index);

/* Reads and checks a checkpoint's configuration; config->layers is to be freed in any case. */
enum locus_status locus_config_read(struct locus_config *config,
                                    const struct locus_architecture *architecture,
                                    const struct locus_checkpoint *checkpoint, locus_error *error);

/* Makes config->layers, each with its mixer, and reads the sizes of those that aren't attention. */
enum locus_status locus_config_read_mixers(struct locus_keys *keys, struct locus_config *config,
                                           const struct locus_architecture *architecture);

/* A projection [rows, cols] with its bias [rows] (NULL: none); weight.panels NULL: absent. */
struct locus_linear {
    struct locus_weight weight;
    float *bias;
};

/* A norm's parameters [n_embd]; weight NULL: absent. */
struct locus_norm_weights {
    float *weight, *bias;
};

/* A norm of queries or keys: each part of `width` values of a row (a head, or all of them) has
 * weights [width] of its own, or the same as the others. */
struct locus_head_norm {
    struct locus_norm_weights weights; /* [n, width]; weight NULL: absent */
    int width, n;                      /* n 1: the same for all */
};

struct locus_loading;

/* What a layer is made of beside its norms: something that mixes tokens, and an MLP. Here are its
 * tensors; what it does with them is in forward/, by the same struct: struct locus_mixer, struct
 * locus_mlp_kind. */
struct locus_layer_part {
    const char *name;
    size_t size;                            /* of its weights: a struct of its own */
    const struct locus_linear_row *linears; /* model/loading.h; up to one without a name */
    /* OPTIONAL: loads what the rows can't say, before them; and frees it. */
    enum locus_status (*load)(struct locus_loading *loading, int layer, void *weights);
    void (*free)(void *weights);
};

/* ---- attention ------------------------------------------------------------------------------ */

struct locus_attention_weights {
    struct locus_linear q, k, v; /* [n_head * head_dim, n_embd], [n_head_kv * head_dim, n_embd] */
    struct locus_linear output;  /* [n_embd, n_head * head_dim] */
    struct locus_head_norm q_norm, k_norm;
    float *sinks; /* [n_head]: a score that each softmax has beside its keys', or NULL */
};

extern const struct locus_layer_part locus_attention_part;

/* ---- a selective scan ----------------------------------------------------------------------- */

/* Mamba (Gu and Dao 2023). Those of panels: channels side by side, see struct locus_scan. */
struct locus_mamba_weights {
    struct locus_linear x, z;   /* [n_inner, n_embd] each: what is scanned, and its gate */
    struct locus_linear low;    /* [rank, n_inner]: of what step_from makes the step of time */
    struct locus_linear b, c;   /* [n_state, n_inner] each */
    struct locus_linear dt;     /* [n_inner, rank] */
    struct locus_linear output; /* [n_embd, n_inner] */
    float *taps, *bias;         /* of the convolution: panels of n_conv, and of 1 */
    float *a, *skip;            /* panels of n_state, and of 1 */
    struct locus_norm_weights low_norm, b_norm, c_norm; /* absent: not normed */
};

extern const struct locus_layer_part locus_mamba_part;

/* Mamba 2 (Dao and Gu 2024, arXiv 2405.21060). */
struct locus_mamba2_weights {
    struct locus_linear z, x;       /* [n_inner, n_embd]: the gate; [convolved, n_embd]: what the
                                     * convolution is of, channels, b and c */
    struct locus_linear dt;         /* [n_head, n_embd] */
    struct locus_linear output;     /* [n_embd, n_inner] */
    float *taps, *bias;             /* of the convolution: panels of n_conv, and of 1 */
    float *step_bias, *a, *skip;    /* [n_head] */
    struct locus_norm_weights norm; /* [n_inner]: of each group */
};

extern const struct locus_layer_part locus_mamba2_part;

/* Channels of Mamba 2's convolution: those that are scanned, and each group's b and c. */
int locus_convolved_channels(const struct locus_ssm_config *ssm);

/* ---- retention ------------------------------------------------------------------------------ */

/* Sun et al. 2023. */
struct locus_retention_weights {
    struct locus_linear q, k;       /* [n_head * key_dim, n_embd] */
    struct locus_linear v, gate;    /* [n_head * value_dim, n_embd] */
    struct locus_linear output;     /* [n_embd, n_head * value_dim] */
    struct locus_norm_weights norm; /* [value_dim] ones: of each head's values */
};

extern const struct locus_layer_part locus_retention_part;

/* ---- Hyena ---------------------------------------------------------------------------------- */

/* Most layers of the network that makes a filter, and how wide they are, and its input. */
enum { LOCUS_HYENA_LAYERS = 8, LOCUS_HYENA_WIDTH = 512 };

/* Poli et al. 2023, of order 2. */
struct locus_hyena_weights {
    struct locus_linear in;     /* [3 n_embd, n_embd]: the gate, and what p is a product of */
    struct locus_linear output; /* [n_embd, n_embd] */
    float *taps, *bias;         /* of the short convolution: panels of n_conv, and of 1 */
    float *skip;                /* panels of 1 */
    float *filters[LOCUS_HYENA_LAYERS]; /* [width, features], then [width, width]: up to n_layer, */
    float *biases[LOCUS_HYENA_LAYERS];  /* [width] each */
    float *last;                        /* [n_embd, width] */
    float *frequency, *decay;           /* [width], [n_embd] */
};

extern const struct locus_layer_part locus_hyena_part;

/* What that network reads of a distance: a share of the length, and two of each band. */
static inline int locus_hyena_features(const struct locus_hyena_config *hyena)
{
    return 1 + 2 * hyena->n_band;
}

/* ---- MLPs ----------------------------------------------------------------------------------- */

/* down(act(gate(x)) * up(x)), or down(act(up(x))) without a gate. */
struct locus_mlp {
    struct locus_linear gate, up, down; /* [n_ff, n_embd] twice, [n_embd, n_ff] */
};

/* Some experts for each token, chosen by a router. */
struct locus_experts {
    struct locus_linear router; /* [n_expert, n_embd] */
    struct locus_mlp *each;     /* [n] */
    int n;
    struct locus_mlp shared; /* the expert that every token takes; up.weight.panels NULL: none */
    struct locus_linear shared_gate; /* [1, n_embd]: its share, before a sigmoid; absent: 1 */
};

/* Weights: struct locus_mlp, the same, struct locus_experts; none, of a layer that is a mixer
 * alone.
 */
extern const struct locus_layer_part locus_dense_part, locus_gated_part, locus_experts_part,
    locus_no_mlp_part;

/* The one of these that a layer has. */
const struct locus_layer_part *locus_mlp_part(const struct locus_config *config, int layer);

/* ---- the model ------------------------------------------------------------------------------ */

struct locus_layer {
    struct locus_norm_weights attn_norm, ffn_norm;           /* of each half's input, or of sums */
    struct locus_norm_weights attn_post_norm, ffn_post_norm; /* of each half's output */
    void *mixer, *mlp; /* weights of the parts that struct locus_layer_config names */
};

/* A tensor that the decoder doesn't use itself: a position scheme's, as floats [rows, cols]. */
struct locus_extra_tensor {
    const char *name;
    int rows, cols;
    float *values;
};

struct locus_model {
    struct locus_checkpoint *checkpoint;
    const struct locus_architecture *architecture;
    struct locus_config config;
    struct locus_weight embedding; /* [n_vocab, n_embd] */
    struct locus_norm_weights embedding_norm, output_norm;
    struct locus_linear head;          /* [n_vocab, n_embd]; absent: tied to the embedding */
    struct locus_layer *layers;        /* [n_layer] */
    void *panels;                      /* those of all weights, where they found room in it */
    struct locus_extra_tensor *extras; /* [n_extras], sorted by name */
    size_t n_extras;
    char name[128];
    int n_tokens;
    int32_t bos_token, eos_token; /* -1: none */
    bool *ends;                   /* [n_vocab]: tokens that end a text, eos_token among them */
};

/* Checks and packs every tensor the configuration calls for; those that a position scheme may call
 * for become extras, and any other is refused. */
enum locus_status locus_model_load_weights(struct locus_model *model, locus_error *error);
void locus_model_free_weights(struct locus_model *model);

/* The checkpoint behind the model: metadata and tensor table (its data pages are dropped). */
const struct locus_checkpoint *locus_model_checkpoint(const locus_model *model);

/* The extra tensor of that name, or NULL. */
const struct locus_extra_tensor *locus_model_find_extra(const struct locus_model *model,
                                                        const char *name);
/* Refuses an extra tensor that neither a scheme of the registry nor `own` (NULL: none) names. */
enum locus_status locus_model_check_extras(const struct locus_model *model,
                                           const struct locus_position_scheme *own,
                                           locus_error *error);

/* The values of the extra tensor of that name, or NULL; `model` is a struct locus_model (the
 * signature is that of struct locus_position_env's hook). */
const float *locus_model_extra(const void *model, const char *name, int *rows, int *cols);

#endif
