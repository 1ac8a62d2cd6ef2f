/* Position SPECs of families whose standard GGUF metadata tells the scheme. See model.h.
 *
 * Keys as llama.cpp writes them: rope.dimension_count, rope.freq_base, rope.scaling.* and
 * attention.max_alibi_bias, each after the family's name.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "model/keys.h"
#include "model/model.h"

/* A SPEC being built. */
struct derivation {
    struct locus_keys *keys;
    struct locus_config *config;
    const struct locus_architecture *architecture;
    size_t length; /* bytes of config->position */
    double base;   /* of the rotation */
    bool scaled;
};

__attribute__((format(printf, 2, 3))) static void append(struct derivation *derivation,
                                                         const char *format, ...)
{
    const size_t size = sizeof derivation->config->position;
    va_list args;
    va_start(args, format);
    int n = locus_print_args(derivation->config->position + derivation->length,
                             size - derivation->length, format, args);
    va_end(args);
    derivation->length += n > 0 ? (size_t)n : 0;
    if (derivation->length >= size) derivation->length = size - 1; /* found by check_length */
}

static enum locus_status check_length(const struct derivation *derivation)
{
    const size_t most = sizeof derivation->config->position - 2;
    if (derivation->length <= most) return LOCUS_OK;
    return locus_fail(
        derivation->keys->error, LOCUS_ERROR_UNSUPPORTED,
        "%s: %s.attention.sliding_window_pattern makes a SPEC of more than %zu bytes: "
        "\"%.60s...\"",
        locus_checkpoint_path(derivation->keys->checkpoint), derivation->keys->family, most,
        derivation->config->position);
}

/* ---- rotary positions --------------------------------------------------------------------- */

/* The file's rope.scaling.*; what a file leaves out has the value of no effect. */
struct scaling {
    double factor;         /* that stretches the text; 0: absent */
    double original;       /* length before that */
    double attn_factor;    /* multiplies sines and cosines */
    double yarn_attn;      /* stands in place of the paper's m; 0: absent */
    double log_multiplier; /* DeepSeek's mscale_all_dim: m is divided by its own m; 0: absent */
    double extrapolation;  /* share of YaRN's ramp; -1: the type's */
    double beta_fast, beta_slow; /* 0: absent */
};

/* A key of rope.scaling that has no place beside this type. */
static enum locus_status misplaced(struct derivation *derivation, const char *key, double value,
                                   double expected, const char *type)
{
    if (value == expected) return LOCUS_OK;
    return locus_fail(derivation->keys->error, LOCUS_ERROR_UNSUPPORTED,
                      "%s: %s.rope.scaling.%s is %g beside scaling of type %s, expected %g",
                      locus_checkpoint_path(derivation->keys->checkpoint), derivation->keys->family,
                      key, value, type, expected);
}

static enum locus_status read_scaling(struct derivation *derivation, struct scaling *scaling)
{
    struct locus_keys *keys = derivation->keys;
    const double least = -1e30;
    double old_factor = 0; /* its name in older files */
    enum locus_status status;
    *scaling = (struct scaling){
        .original = derivation->config->trained_length, .attn_factor = 1, .extrapolation = -1};
    if ((status = locus_keys_number(keys, "rope.scale_linear", 0, &old_factor)) ||
        (status = locus_keys_number(keys, "rope.scaling.factor", 0, &scaling->factor)) ||
        (status = locus_keys_number(keys, "rope.scaling.original_context_length", 1,
                                    &scaling->original)) ||
        (status = locus_keys_number(keys, "rope.scaling.attn_factor", 0, &scaling->attn_factor)) ||
        (status =
             locus_keys_number(keys, "rope.scaling.yarn_attn_factor", 0, &scaling->yarn_attn)) ||
        (status = locus_keys_number(keys, "rope.scaling.yarn_log_multiplier", 0,
                                    &scaling->log_multiplier)) ||
        (status = locus_keys_number(keys, "rope.scaling.yarn_ext_factor", least,
                                    &scaling->extrapolation)) ||
        (status = locus_keys_number(keys, "rope.scaling.yarn_beta_fast", 0, &scaling->beta_fast)) ||
        (status = locus_keys_number(keys, "rope.scaling.yarn_beta_slow", 0, &scaling->beta_slow)))
        return status;
    if (scaling->factor != 0 && old_factor != 0 && scaling->factor != old_factor)
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                          "%s: %s.rope.scaling.factor is %g and rope.scale_linear %g, expected one "
                          "factor",
                          locus_checkpoint_path(keys->checkpoint), keys->family, scaling->factor,
                          old_factor);
    if (scaling->factor == 0) scaling->factor = old_factor;
    return LOCUS_OK;
}

/* The paper's m (YaRN, equation 22), its logarithm times `share`. */
static double yarn_m(double factor, double share)
{
    return factor > 1 ? 0.1 * share * log(factor) + 1 : 1;
}

/* The SPEC's attn_factor is all that sines and cosines are multiplied by. */
static enum locus_status append_yarn(struct derivation *derivation, const struct scaling *scaling)
{
    const double m = yarn_m(scaling->factor, 1);
    double whole = m;
    if (scaling->extrapolation >= 0 && scaling->extrapolation != 1)
        return misplaced(derivation, "yarn_ext_factor", scaling->extrapolation, 1, "yarn");
    append(derivation, ",scaling=yarn,factor=%.9g,trained=%.9g", scaling->factor,
           scaling->original);
    if (scaling->beta_fast > 0) append(derivation, ",beta_fast=%.9g", scaling->beta_fast);
    if (scaling->beta_slow > 0) append(derivation, ",beta_slow=%.9g", scaling->beta_slow);
    if (derivation->architecture->whole_ramp) append(derivation, ",truncate=0");
    if (scaling->yarn_attn > 0)
        whole = scaling->yarn_attn;
    else if (scaling->log_multiplier > 0)
        whole = m / yarn_m(scaling->factor, scaling->log_multiplier);
    whole *= scaling->attn_factor;
    if (whole != m) append(derivation, ",attn_factor=%.9g", whole);
    return LOCUS_OK;
}

/* What only YaRN has. */
static enum locus_status check_no_yarn(struct derivation *derivation, const struct scaling *scaling,
                                       const char *type)
{
    enum locus_status status;
    if (scaling->extrapolation > 0 &&
        (status = misplaced(derivation, "yarn_ext_factor", scaling->extrapolation, 0, type)))
        return status;
    if ((status = misplaced(derivation, "yarn_beta_fast", scaling->beta_fast, 0, type)) ||
        (status = misplaced(derivation, "yarn_beta_slow", scaling->beta_slow, 0, type)))
        return status;
    if (scaling->yarn_attn > 0 &&
        (status = misplaced(derivation, "yarn_attn_factor", scaling->yarn_attn, 1, type)))
        return status;
    return misplaced(derivation, "yarn_log_multiplier", scaling->log_multiplier, 0, type);
}

/* The metadata's context is the stretched one; the file's factor of sines and cosines is all of m.
 */
static enum locus_status append_longrope(struct derivation *derivation,
                                         const struct scaling *scaling)
{
    const double factor = derivation->config->trained_length / scaling->original;
    if (scaling->factor != 1 && fabs(scaling->factor - factor) > 1e-6 * factor)
        return misplaced(derivation, "factor", scaling->factor, factor, "longrope");
    append(derivation, ",scaling=longrope,factor=%.9g,trained=%.9g", factor, scaling->original);
    if (locus_keys_has(derivation->keys, "rope.scaling.attn_factor"))
        append(derivation, ",attn_factor=%.9g", scaling->attn_factor);
    return check_no_yarn(derivation, scaling, "longrope");
}

static enum locus_status append_scaling(struct derivation *derivation)
{
    enum { NONE, LINEAR, YARN, LONGROPE };
    static const char *const types[] = {"none", "linear", "yarn", "longrope"};
    struct locus_keys *keys = derivation->keys;
    const bool long_factors =
        locus_checkpoint_tensor(keys->checkpoint, "rope_factors_long.weight") != NULL;
    const bool stated = locus_keys_has(keys, "rope.scaling.type");
    int type = long_factors ? LONGROPE : LINEAR; /* what a factor alone means */
    const char *name;
    struct scaling scaling;
    enum locus_status status = locus_keys_choice(keys, "rope.scaling.type", types, 4, &type);
    if (status || (status = read_scaling(derivation, &scaling))) return status;
    if (long_factors != (type == LONGROPE))
        return locus_fail(
            keys->error, LOCUS_ERROR_UNSUPPORTED, "%s: %s.rope.scaling.type is \"%s\", expected %s",
            locus_checkpoint_path(keys->checkpoint), keys->family, stated ? types[type] : "absent",
            long_factors ? "longrope, for the tensor rope_factors_long.weight"
                         : "none, linear or yarn, or the tensor "
                           "rope_factors_long.weight");
    if (stated && scaling.factor == 0 && (type == LINEAR || type == YARN))
        return locus_fail(keys->error, LOCUS_ERROR_FORMAT,
                          "%s: %s.rope.scaling.factor is %s beside rope.scaling.type %s, expected "
                          "a number above 0",
                          locus_checkpoint_path(keys->checkpoint), keys->family,
                          locus_keys_has(keys, "rope.scaling.factor") ? "0" : "missing",
                          types[type]);
    if (scaling.factor == 0) scaling.factor = 1;
    derivation->scaled = type != NONE && (type != LINEAR || scaling.factor != 1);
    if (type == LONGROPE) return append_longrope(derivation, &scaling);
    if (type == YARN) return append_yarn(derivation, &scaling);
    if (type == LINEAR && scaling.factor != 1)
        append(derivation, ",scaling=linear,factor=%.9g", scaling.factor);
    name = stated ? types[type] : "linear (rope.scaling.type is missing)";
    if ((status = misplaced(derivation, "attn_factor", scaling.attn_factor, 1, name)))
        return status;
    return check_no_yarn(derivation, &scaling, name);
}

/* ---- layers that differ ------------------------------------------------------------------- */

/* The least period of marked[n] that is below n, or 0. */
static int find_period(const bool *marked, int n)
{
    enum { LONGEST = 12 };
    for (int period = 1; period < n && period <= LONGEST; period++) {
        int i = 0;
        while (i + period < n && marked[i] == marked[i + period])
            i++;
        if (i + period == n) return period;
    }
    return 0;
}

/* Appends the numbers of the layers that are marked: "0::6,1::6", or ranges "0:5,6:11". */
static void append_layers(struct derivation *derivation, const bool *marked)
{
    const int n = derivation->config->n_layer, period = find_period(marked, n);
    const char *comma = "";
    for (int first = 0, end; first < (period ? period : n); first = end) {
        end = first + 1;
        if (!marked[first]) continue;
        while (!period && end < n && marked[end])
            end++;
        if (period && first + period < n)
            append(derivation, "%s%d::%d", comma, first, period);
        else if (end > first + 1)
            append(derivation, "%s%d:%d", comma, first, end);
        else
            append(derivation, "%s%d", comma, first);
        comma = ",";
    }
}

/* Layers without positions, and local ones of another rotation. */
static enum locus_status append_differing(struct derivation *derivation)
{
    const struct locus_architecture *architecture = derivation->architecture;
    const struct locus_config *config = derivation->config;
    const int n = config->n_layer;
    double local_base = architecture->local_base > 0 ? architecture->local_base : derivation->base;
    enum locus_status status =
        locus_keys_number(derivation->keys, "rope.freq_base_swa", 0, &local_base);
    if (status) return status;
    bool *local = calloc((size_t)n, sizeof *local),
         *unrotated = calloc((size_t)n, sizeof *unrotated);
    int n_local = 0, n_unrotated = 0;
    if (!local || !unrotated) {
        free(local);
        free(unrotated);
        return locus_fail_memory(derivation->keys->error, 2 * (size_t)n);
    }
    for (int i = 0; i < n; i++)
        n_local += local[i] = config->layers[i].window > 0;
    for (int i = 0; i < n; i++)
        n_unrotated += unrotated[i] =
            (architecture->unrotated_global && n_local > 0 && !local[i]) ||
            (architecture->unrotated_every > 0 && (i + 1) % architecture->unrotated_every == 0);
    const bool unscaled = architecture->unscaled_local && derivation->scaled;
    if (n_unrotated > 0) {
        append(derivation, "; layers ");
        append_layers(derivation, unrotated);
        append(derivation, " none");
    }
    if (n_local > 0 && (local_base != derivation->base || unscaled)) {
        append(derivation, "; layers ");
        append_layers(derivation, local);
        append(derivation, " rope:base=%.17g%s", local_base,
               unscaled ? ",scaling=none,factor=1" : "");
    }
    free(local);
    free(unrotated);
    return check_length(derivation);
}

static enum locus_status derive_rope(struct derivation *derivation)
{
    double base = 10000;
    int dim = derivation->config->head_dim;
    enum locus_status status =
        locus_keys_int(derivation->keys, "rope.dimension_count", 2, dim, &dim);
    if (!status) status = locus_keys_number(derivation->keys, "rope.freq_base", 0, &base);
    if (status) return status;
    append(derivation, ",dim=%d,base=%.17g", dim, base);
    derivation->base = base;
    status = append_scaling(derivation);
    return status ? status : append_differing(derivation);
}

/* ---- families ----------------------------------------------------------------------------- */

/* ALiBi; without a greatest slope a learned table, or without one no positions at all. */
static enum locus_status derive_alibi(struct derivation *derivation, double max_bias)
{
    enum locus_status status =
        locus_keys_number(derivation->keys, "attention.max_alibi_bias", 0, &max_bias);
    if (status) return status;
    if (max_bias > 0)
        append(derivation, "alibi:max_bias=%.9g", max_bias);
    else if (locus_checkpoint_tensor(derivation->keys->checkpoint, "position_embd.weight"))
        append(derivation, "learned");
    else
        append(derivation, "none");
    return LOCUS_OK;
}

enum locus_status locus_family_position(struct locus_keys *keys, struct locus_config *config,
                                        const struct locus_architecture *architecture)
{
    struct derivation derivation = {.keys = keys, .config = config, .architecture = architecture};
    if (architecture->biased_layers == config->n_layer) {
        locus_keys_has(keys, "rope.dimension_count"); /* that there is, and nothing turns by it */
        return derive_alibi(&derivation, architecture->max_bias);
    }
    if (!strcmp(architecture->position, "alibi"))
        return derive_alibi(&derivation, architecture->max_bias);
    append(&derivation, "%s", architecture->position);
    return strncmp(architecture->position, "rope:", 5) ? LOCUS_OK : derive_rope(&derivation);
}
