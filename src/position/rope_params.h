/* RoPE's parameters: their table, which of them goes with which, and the scaling that they say. */
#ifndef LOCUS_POSITION_ROPE_PARAMS_H
#define LOCUS_POSITION_ROPE_PARAMS_H

#include "position/rope_scaling.h"

extern const struct locus_param locus_rope_params[];

/* The scaling of a SPEC, without the tensors that it may need; refused where the values don't make
 * one, in heads of that width. */
struct locus_rope_scaling locus_rope_read(const struct locus_position_spec *spec);
enum locus_status locus_rope_check(const struct locus_rope_scaling *scaling, int head_dim,
                                   locus_error *error);

/* Its tensors, those that the checkpoint has or the scaling must have. */
enum locus_status locus_rope_find_tensors(struct locus_rope_scaling *scaling,
                                          const struct locus_position_env *env, locus_error *error);

/* Pairs that are rotated: the first ones (p-RoPE), of dim / 2. */
int locus_rope_pairs(const struct locus_position_spec *spec);

/* The hooks of those names. */
void locus_rope_settle(struct locus_position_spec *spec, const struct locus_position_env *env);
double locus_rope_reach(const struct locus_position_spec *spec, const char **formula);
const char *locus_rope_lacks(const struct locus_position_spec *spec, const char *key);

#endif
