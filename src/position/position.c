/* Schemes in use: made ready, and let go. See position.h. */
#include "position/position.h"

#include <stdlib.h>

#include "base/math.h"
#include "position/layers.h"

/* What a scheme's hooks answer to. */
static enum locus_status check_counts(const struct locus_position *position, locus_error *error)
{
    const struct {
        const char *name;
        int n;
    } counts[] = {{"embed_floats", position->embed_floats},
                  {"layer_floats", position->layer_floats},
                  {"max_positions", locus_position_max_positions(position)}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].n < 0)
            return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                              "position %s: %s is %d, expected 0 or more",
                              position->spec.scheme->name, counts[i].name, counts[i].n);
    if (position->frame < LOCUS_FRAME_ABSOLUTE || position->frame > LOCUS_FRAME_QUERY)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position %s: frame is %d, expected %d to %d",
                          position->spec.scheme->name, (int)position->frame, LOCUS_FRAME_ABSOLUTE,
                          LOCUS_FRAME_QUERY);
    return LOCUS_OK;
}

/* A scheme of the caller's may fail in any way, and is made to say so. */
static enum locus_status init_state(struct locus_position *position,
                                    const struct locus_position_env *env, locus_error *error)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    locus_error own = {0};
    if (!scheme->init) return LOCUS_OK;
    const enum locus_status status = scheme->init(&position->state, env, &position->spec, &own);
    if (!status) return LOCUS_OK;
    own.message[sizeof own.message - 1] = '\0';
    if (!own.message[0])
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position %s: init failed without saying why", scheme->name);
    return locus_fail(error, own.status ? own.status : status, "%s", own.message);
}

/* ---- the keys of any SPEC ----------------------------------------------------------------- */

/* logn: log n scaling (Su, "Attention's scale from entropy invariance", kexue.fm, 2021), with the
 * floor of 1 and the count p + 1 of Qwen (arXiv 2309.16609, and its code): of positions, whatever a
 * cache policy shows. temperature: softmax(scores / T), YaRN's t (arXiv 2309.00071), the bias being
 * in the scores. */
static enum locus_status init_common(struct locus_position *position,
                                     const struct locus_position_env *env, locus_error *error)
{
    const double stated = locus_position_number(&position->spec, "trained");
    const double trained = stated > 0 ? stated : env->trained_length;
    position->over_temperature = (float)(1 / locus_position_number(&position->spec, "temperature"));
    if (locus_position_int(&position->spec, "logn") == 0) return LOCUS_OK;
    if (trained < 2)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position %s: the trained length is %g; expected 2 or more for "
                          "logn=position",
                          position->spec.scheme->name, trained);
    position->log_trained = locus_log(trained);
    return LOCUS_OK;
}

float locus_position_query_scale(const struct locus_position *position, int at)
{
    if (position->log_trained == 0) return 1;
    const double scale = locus_log(at + 1.0) / position->log_trained;
    return scale > 1 ? (float)scale : 1;
}

enum locus_status locus_position_init(struct locus_position *position,
                                      const struct locus_position_env *env, locus_error *error)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    enum locus_status status = init_common(position, env, error);
    if (status || (status = init_state(position, env, error))) return status;
    if (scheme->frame) position->frame = scheme->frame(position->state);
    if (scheme->embed_floats) position->embed_floats = scheme->embed_floats(position->state);
    if (scheme->layer_floats) position->layer_floats = scheme->layer_floats(position->state);
    return check_counts(position, error);
}

void locus_position_free(struct locus_position *position)
{
    const struct locus_position_scheme *scheme = position->spec.scheme;
    if (scheme && scheme->free) scheme->free(position->state);
    position->state = NULL;
}

enum locus_status locus_positions_init(struct locus_positions *positions,
                                       const struct locus_layer_specs *specs,
                                       const struct locus_position_env *env, locus_error *error)
{
    struct locus_buffer printed = {0};
    enum locus_status status = LOCUS_OK;
    *positions = (struct locus_positions){.n_positions = env->session_length};
    locus_layer_specs_print(specs, &printed);
    positions->text = printed.bytes;
    positions->of_layer = calloc((size_t)env->n_layer, sizeof *positions->of_layer);
    if (printed.failed || !positions->of_layer)
        return locus_fail_memory(error, printed.length + (size_t)env->n_layer);
    for (int layer = 0; layer < env->n_layer; layer++)
        positions->of_layer[layer] = (unsigned char)locus_layer_specs_at(specs, layer);
    for (; positions->n < specs->n && !status; positions->n++) {
        struct locus_position *position = &positions->schemes[positions->n];
        position->spec = specs->specs[positions->n];
        status = locus_position_init(position, env, error);
    }
    return status;
}

enum locus_status locus_positions_open(struct locus_positions *positions, const char *text,
                                       const char *own, const struct locus_position_scheme *scheme,
                                       const struct locus_position_env *env, locus_error *error)
{
    struct locus_layer_specs specs;
    enum locus_status status = locus_layer_specs_resolve(&specs, text, own, scheme, env, error);
    *positions = (struct locus_positions){0};
    return status ? status : locus_positions_init(positions, &specs, env, error);
}

void locus_positions_fill(struct locus_positions *positions, int n)
{
    enum { AT_ONCE = 64 }; /* as a block of keys has */
    if (n <= positions->n_filled) return;
    const int left = positions->n_positions - n, more = AT_ONCE - 1 - (n - 1) % AT_ONCE;
    n += left < more ? left : more;
    for (int i = 0; i < positions->n; i++)
        locus_position_fill(&positions->schemes[i], n);
    positions->n_filled = n;
}

void locus_positions_close(struct locus_positions *positions)
{
    for (int i = 0; i < positions->n; i++)
        locus_position_free(&positions->schemes[i]);
    free(positions->of_layer);
    free(positions->text);
    *positions = (struct locus_positions){0};
}

double locus_positions_reach(const struct locus_positions *positions)
{
    double least = 0;
    for (int i = 0; i < positions->n; i++) {
        const char *formula;
        const double reach = locus_position_reach(&positions->schemes[i].spec, &formula);
        if (reach > 0 && (least == 0 || reach < least)) least = reach;
    }
    return least;
}

int locus_positions_max(const struct locus_positions *positions)
{
    int least = 0;
    for (int i = 0; i < positions->n; i++) {
        const int max = locus_position_max_positions(&positions->schemes[i]);
        if (max > 0 && (least == 0 || max < least)) least = max;
    }
    return least;
}
