/* SPECs of models whose layers differ: SPEC{; layers LIST SPEC}.
 *
 *     rope:base=10000; layers 5::6 rope:base=1000000
 *
 * The first SPEC is of every layer that no LIST names. A LIST is of numbers and ranges
 * FIRST:END:STEP, layers counted from 0, END not among them: "3", "0,7", "3::4", ":6".
 */
#ifndef LOCUS_POSITION_LAYERS_H
#define LOCUS_POSITION_LAYERS_H

#include "position/position.h"

extern const char locus_layers_help[]; /* what it is for, in a line or two */

enum { LOCUS_LAYER_RANGES = 32 };

/* first, first + step, ... below end. */
struct locus_layer_range {
    int first, end, step;
};

struct locus_layer_list {
    struct locus_layer_range ranges[LOCUS_LAYER_RANGES];
    int n;
};

/* A text's SPECs, resolved: specs[0] is the first, the others have their layers. */
struct locus_layer_specs {
    struct locus_position_spec specs[LOCUS_MAX_SCHEMES];
    struct locus_layer_list layers[LOCUS_MAX_SCHEMES];
    int n;
    bool alone;       /* of all layers, where the checkpoint's own SPEC has more than one */
    bool says_layers; /* which layers differ, if any, is the text's own, not the checkpoint's */
};

/* Resolves `text`, its SPECs as locus_spec_resolve does one. Keys that a later SPEC doesn't name
 * are as in the first, where the NAME is the same, else as in `own`'s first, where that is. Where
 * `text` has one SPEC alone, and takes values over from `own`, it takes over the layers that
 * differ, too. nope_every=N, in the first SPEC, is short for
 * "; layers N-1::N none", and nope_every=0 says that no layer differs. */
enum locus_status locus_layer_specs_resolve(struct locus_layer_specs *specs, const char *text,
                                            const char *own,
                                            const struct locus_position_scheme *scheme,
                                            const struct locus_position_env *env,
                                            locus_error *error);

/* The same where no model is known, of which env has values that are made up: what may go with its
 * own values isn't refused. */
enum locus_status locus_layer_specs_read(struct locus_layer_specs *specs, const char *text,
                                         const struct locus_position_env *env, locus_error *error);

/* Appends the canonical text: resolving it again, with the same own and model, gives the same. */
void locus_layer_specs_print(const struct locus_layer_specs *specs, struct locus_buffer *out);

/* What a text is at two ends of something, the second one's with values that differ as "2..16". */
void locus_layer_specs_print_range(const struct locus_layer_specs *from,
                                   const struct locus_layer_specs *to, struct locus_buffer *out);

/* Appends a LIST. */
void locus_layer_list_print(const struct locus_layer_list *list, struct locus_buffer *out);

/* Which of the SPECs a layer has. */
int locus_layer_specs_at(const struct locus_layer_specs *specs, int layer);

#endif
