/* Position schemes inside the engine: the registry, SPECs, and the hooks as the forward pass calls
 * them. The interface of a scheme itself is include/locus_position.h.
 */
#ifndef LOCUS_POSITION_INTERNAL_H
#define LOCUS_POSITION_INTERNAL_H

#include "base/buffer.h"
#include "base/error.h"
#include "locus_position.h"

/* ---- registry ----------------------------------------------------------------------------- */

size_t locus_position_count(void);
const struct locus_position_scheme *locus_position_at(size_t index); /* index < count */
const struct locus_position_scheme *locus_position_find(const char *name, size_t n_bytes);

/* ---- SPEC: NAME[:key=value[,key=value]...] ------------------------------------------------ */

/* Resolved by layers.h: a model's layers may have several. */

/* Appends the canonical SPEC: the keys marked `shown`, those that are not at their default, and
 * those `stated`. Resolving it again, with the same own and model, gives the same values. */
void locus_position_print(const struct locus_position_spec *spec, struct locus_buffer *out);
/* The same of `to`, with values that differ in `from` as "2..16". */
void locus_position_print_range(const struct locus_position_spec *from,
                                const struct locus_position_spec *to, struct locus_buffer *out);

/* An estimate of the position up to which these values carry a model, and a sentence on where it
 * comes from; 0: the scheme gives none. */
double locus_position_reach(const struct locus_position_spec *spec, const char **formula);

/* ---- a scheme in use ---------------------------------------------------------------------- */

enum { LOCUS_MAX_SCHEMES = 8 };

struct locus_position {
    struct locus_position_spec spec;
    void *state;
    enum locus_frame frame;
    int embed_floats, layer_floats;
    double log_trained;     /* logn=position: ln of the trained length; 0: queries aren't scaled */
    float over_temperature; /* what scores are multiplied by after the bias */
};

/* The schemes of a model's layers. The first also has the tokens. */
struct locus_positions {
    struct locus_position schemes[LOCUS_MAX_SCHEMES];
    int n;
    int n_positions, n_filled; /* that may occur; those that the schemes' tables are filled for */
    unsigned char *of_layer;   /* [n_layer]: an index of schemes */
    char *text;                /* full SPEC */
};

struct locus_layer_specs;

/* Makes the schemes of resolved SPECs ready. Close it in any case. */
enum locus_status locus_positions_init(struct locus_positions *positions,
                                       const struct locus_layer_specs *specs,
                                       const struct locus_position_env *env, locus_error *error);

/* Resolves a SPEC as locus_layer_specs_resolve does, and makes its schemes ready. Close it in any
 * case. */
enum locus_status locus_positions_open(struct locus_positions *positions, const char *text,
                                       const char *own, const struct locus_position_scheme *scheme,
                                       const struct locus_position_env *env, locus_error *error);
void locus_positions_close(struct locus_positions *positions);

/* Before positions below n occur, in hooks that embed, rotate, or add a bias: fills tables. */
void locus_positions_fill(struct locus_positions *positions, int n);

/* An estimate of the position up to which they carry a model; 0: they give none. */
double locus_positions_reach(const struct locus_positions *positions);

/* The most positions that all of them have; 0: unbounded. */
int locus_positions_max(const struct locus_positions *positions);

static inline const struct locus_position *
locus_positions_at(const struct locus_positions *positions, int layer)
{
    return &positions->schemes[positions->of_layer[layer]];
}

/* Makes one scheme ready, whose spec is filled in. */
enum locus_status locus_position_init(struct locus_position *position,
                                      const struct locus_position_env *env, locus_error *error);
void locus_position_free(struct locus_position *position);

static inline int locus_position_max_positions(const struct locus_position *position)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    return scheme->max_positions ? scheme->max_positions(position->state) : 0;
}

static inline void locus_position_fill(const struct locus_position *position, int n_positions)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    if (scheme->fill) scheme->fill(position->state, n_positions);
}

static inline void locus_position_embed(const struct locus_position *position,
                                        const struct locus_embed_op *op)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    if (scheme->embed) scheme->embed(position->state, op);
}

static inline void locus_position_rotate(const struct locus_position *position,
                                         const struct locus_rotate_op *op)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    if (scheme->rotate) scheme->rotate(position->state, op);
}

static inline void locus_position_bias(const struct locus_position *position,
                                       const struct locus_bias_op *op)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    if (scheme->bias) scheme->bias(position->state, op);
}

/* What the projected query at a position is multiplied by. */
float locus_position_query_scale(const struct locus_position *position, int at);

/* What its hooks are, for those who may not ask which scheme it is. */
static inline bool locus_position_has_bias(const struct locus_position *position)
{
    return position->spec.scheme->bias != NULL;
}

static inline bool locus_position_rotates(const struct locus_position *position)
{
    return position->spec.scheme->rotate != NULL;
}

static inline bool locus_position_embeds(const struct locus_position *position)
{
    return position->spec.scheme->embed != NULL;
}

static inline bool locus_position_whole_row(const struct locus_position *position)
{
    return position->spec.scheme->whole_row;
}

static inline bool locus_position_all_heads(const struct locus_position *position)
{
    return position->spec.scheme->all_heads;
}

static inline void locus_position_observe(const struct locus_position *position,
                                          const struct locus_observe_op *op)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    if (scheme->observe) scheme->observe(position->state, op);
}

/* A scheme without a hook has nothing that coordinates could change. */
static inline bool locus_position_takes_axes(const struct locus_position *position, int n_axes)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    if (scheme->takes_axes) return scheme->takes_axes(position->state, n_axes);
    return !scheme->embed && !scheme->rotate && !scheme->bias;
}

/* The same of positions between two. */
static inline bool locus_position_takes_fractions(const struct locus_position *position)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    if (scheme->takes_fractions) return scheme->takes_fractions(position->state);
    return !scheme->embed && !scheme->rotate && !scheme->bias;
}

static inline size_t locus_position_scratch_floats(const struct locus_position *position, int n_k)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    return scheme->scratch_floats ? scheme->scratch_floats(position->state, n_k) : 0;
}

#endif
