/* Position SPECs of families whose standard GGUF metadata tells the scheme. See model.h.
 *
 * Keys as llama.cpp writes and reads them: rope.dimension_count, rope.freq_base, rope.scaling.* and
 * attention.max_alibi_bias, each after the family's name.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/model.h"

/* A SPEC in the making. */
struct derivation {
    const struct locus_checkpoint *checkpoint;
    const char *family;
    struct locus_config *config;
    size_t length; /* bytes of config->position */
    locus_error *error;
};

__attribute__((format(printf, 2, 3))) static void append(struct derivation *derivation,
                                                         const char *format, ...)
{
    const size_t size = sizeof derivation->config->position;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(derivation->config->position + derivation->length, size - derivation->length,
                      format, args);
    va_end(args);
    derivation->length += n > 0 ? (size_t)n : 0;
    if (derivation->length >= size) derivation->length = size - 1;
}

static bool number(const struct derivation *derivation, const char *key, double *value)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", derivation->family, key);
    return locus_checkpoint_float(derivation->checkpoint, full, value) && isfinite(*value);
}

/* Appends ",key=value" if the metadata has `theirs`. */
static void append_number(struct derivation *derivation, const char *key, const char *theirs)
{
    double value;
    if (number(derivation, theirs, &value)) append(derivation, ",%s=%.9g", key, value);
}

/* ---- rotary positions --------------------------------------------------------------------- */

/* The factor that stretches the text: 1 where it is absent or 0. */
static double scaling_factor(const struct derivation *derivation)
{
    double factor = 0;
    if (!number(derivation, "rope.scaling.factor", &factor))
        number(derivation, "rope.scale_linear", &factor); /* its name in older files */
    return factor > 0 ? factor : 1;
}

static double original_length(const struct derivation *derivation)
{
    double length = derivation->config->trained_length;
    number(derivation, "rope.scaling.original_context_length", &length);
    return length;
}

/* The file's factor multiplies the paper's m; the SPEC's replaces it. */
static void append_yarn(struct derivation *derivation)
{
    double factor = scaling_factor(derivation), attn_factor = 1;
    append(derivation, ",scaling=yarn,factor=%.9g,trained=%.9g", factor,
           original_length(derivation));
    append_number(derivation, "beta_fast", "rope.scaling.yarn_beta_fast");
    append_number(derivation, "beta_slow", "rope.scaling.yarn_beta_slow");
    number(derivation, "rope.scaling.attn_factor", &attn_factor);
    if (attn_factor != 1)
        append(derivation, ",attn_factor=%.9g",
               attn_factor * (factor > 1 ? 0.1 * log(factor) + 1 : 1));
}

/* The metadata's context is the stretched one; the file's factor of sines and cosines is all of m.
 */
static void append_longrope(struct derivation *derivation)
{
    double original = original_length(derivation);
    append(derivation, ",scaling=longrope,factor=%.9g,trained=%.9g",
           original > 0 ? derivation->config->trained_length / original : 1, original);
    append_number(derivation, "attn_factor", "rope.scaling.attn_factor");
}

static enum locus_status append_scaling(struct derivation *derivation)
{
    char key[96];
    const char *type = "linear"; /* what a factor alone means */
    size_t n_bytes = strlen(type);
    snprintf(key, sizeof key, "%s.rope.scaling.type", derivation->family);
    if (locus_checkpoint_has(derivation->checkpoint, key) &&
        !locus_checkpoint_string(derivation->checkpoint, key, &type, &n_bytes))
        type = "", n_bytes = 0;
    if (locus_checkpoint_tensor(derivation->checkpoint, "rope_factors_long.weight")) {
        append_longrope(derivation);
    } else if (locus_text_is(type, n_bytes, "linear")) {
        if (scaling_factor(derivation) != 1)
            append(derivation, ",scaling=linear,factor=%.9g", scaling_factor(derivation));
    } else if (locus_text_is(type, n_bytes, "yarn")) {
        append_yarn(derivation);
    } else if (!locus_text_is(type, n_bytes, "none")) {
        return locus_fail(derivation->error, LOCUS_ERROR_UNSUPPORTED,
                          "%s: %s is \"%.*s\", expected none, linear or yarn, or the tensor "
                          "rope_factors_long.weight",
                          locus_checkpoint_path(derivation->checkpoint), key,
                          (int)(n_bytes < 40 ? n_bytes : 40), type);
    }
    return LOCUS_OK;
}

static enum locus_status derive_rope(struct derivation *derivation, const char *pairs)
{
    double dim = derivation->config->head_dim, base = 10000;
    number(derivation, "rope.dimension_count", &dim);
    number(derivation, "rope.freq_base", &base);
    append(derivation, "rope:pairs=%s,dim=%.0f,base=%.17g", pairs, dim, base);
    return append_scaling(derivation);
}

/* ---- families ----------------------------------------------------------------------------- */

static struct derivation begin(const struct locus_checkpoint *checkpoint, const char *family,
                               struct locus_config *config, locus_error *error)
{
    return (struct derivation){checkpoint, family, config, 0, error};
}

enum locus_status locus_family_none(const struct locus_checkpoint *checkpoint, const char *family,
                                    struct locus_config *config, locus_error *error)
{
    struct derivation derivation = begin(checkpoint, family, config, error);
    append(&derivation, "none");
    return LOCUS_OK;
}

enum locus_status locus_family_learned(const struct locus_checkpoint *checkpoint,
                                       const char *family, struct locus_config *config,
                                       locus_error *error)
{
    struct derivation derivation = begin(checkpoint, family, config, error);
    append(&derivation, "learned");
    return LOCUS_OK;
}

enum locus_status locus_family_rope_adjacent(const struct locus_checkpoint *checkpoint,
                                             const char *family, struct locus_config *config,
                                             locus_error *error)
{
    struct derivation derivation = begin(checkpoint, family, config, error);
    return derive_rope(&derivation, "adjacent");
}

enum locus_status locus_family_rope_half(const struct locus_checkpoint *checkpoint,
                                         const char *family, struct locus_config *config,
                                         locus_error *error)
{
    struct derivation derivation = begin(checkpoint, family, config, error);
    return derive_rope(&derivation, "half");
}

enum locus_status locus_family_alibi(const struct locus_checkpoint *checkpoint, const char *family,
                                     struct locus_config *config, locus_error *error)
{
    struct derivation derivation = begin(checkpoint, family, config, error);
    append(&derivation, "alibi:max_bias=8");
    return LOCUS_OK;
}

enum locus_status locus_family_alibi_or_learned(const struct locus_checkpoint *checkpoint,
                                                const char *family, struct locus_config *config,
                                                locus_error *error)
{
    struct derivation derivation = begin(checkpoint, family, config, error);
    double max_bias = 0;
    number(&derivation, "attention.max_alibi_bias", &max_bias);
    if (max_bias > 0)
        append(&derivation, "alibi:max_bias=%.9g", max_bias);
    else
        append(&derivation, "learned");
    return LOCUS_OK;
}
