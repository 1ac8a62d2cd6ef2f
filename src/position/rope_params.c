/* RoPE's parameters: see rope_params.h. */
#include "position/rope_params.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "position/places.h"
#include "position/tensors.h"

const struct locus_param locus_rope_params[] = {
    {"pairs", LOCUS_PARAM_CHOICE, "half", 0, 0, "half|adjacent", true,
     "which dimensions are rotated together: k and k + dim/2, or 2k and 2k + 1"},
    {"dim", LOCUS_PARAM_INT, "head_dim", 2, 1 << 20, NULL, true,
     "dimensions of a head that are rotated, the first ones"},
    {"base", LOCUS_PARAM_FLOAT, "10000", 1, 1e15, NULL, true,
     "pair k is rotated by base^(-2k/dim) a position"},
    {"p", LOCUS_PARAM_FLOAT, "1", 0, 1, NULL, false,
     "the share of pairs that are rotated, those of the highest frequencies (p-RoPE)"},
    {"scaling", LOCUS_PARAM_CHOICE, "none", 0, 0, "none|linear|ntk|dynamic|yarn|llama3|longrope",
     false, "how angles are changed for texts longer than `trained`"},
    {"factor", LOCUS_PARAM_FLOAT, "1", 1e-6, 1e6, "auto", false,
     "how many times longer (auto: the session's length over `trained`, at least 1); ntk: alpha"},
    {"trained", LOCUS_PARAM_INT, "trained_length", 1, 1 << 30, NULL, false,
     "the length before any scaling"},
    {"length", LOCUS_PARAM_INT, "row", 1, 1 << 30, "row", false,
     "dynamic, longrope: the text's length, or each row's own"},
    {"beta_fast", LOCUS_PARAM_FLOAT, "32", 1e-6, 1e6, NULL, false,
     "yarn: a pair that turns as often within `trained` is kept"},
    {"beta_slow", LOCUS_PARAM_FLOAT, "1", 1e-6, 1e6, NULL, false,
     "yarn: a pair that turns no oftener is divided by factor"},
    {"truncate", LOCUS_PARAM_INT, "1", 0, 1, NULL, false,
     "yarn: 1 rounds the range of pairs between to whole ones"},
    {"attn_factor", LOCUS_PARAM_FLOAT, "auto", 0, 1e6, "auto", false,
     "yarn, longrope: multiplies cosines and sines (auto: the paper's value)"},
    {"low", LOCUS_PARAM_FLOAT, "1", 1e-6, 1e6, NULL, false,
     "llama3: wavelengths above trained/low are multiplied by factor"},
    {"high", LOCUS_PARAM_FLOAT, "4", 1e-6, 1e6, NULL, false,
     "llama3: wavelengths below trained/high are kept"},
    {"factors", LOCUS_PARAM_CHOICE, "auto", 0, 0, "auto|short|long", false,
     "longrope: which of the checkpoint's factors (auto: long past `trained`)"},
    {"axis1", LOCUS_PARAM_INT, "0", 0, 1 << 20, NULL, false,
     "above 0: pairs from this one on are rotated by the second coordinate a token has (M-RoPE)"},
    {"axis2", LOCUS_PARAM_INT, "0", 0, 1 << 20, NULL, false,
     "above 0: pairs from this one on are rotated by the third"},
    {"ladder", LOCUS_PARAM_CHOICE, "shared", 0, 0, "shared|own", false,
     "axes share one row of frequencies (Qwen2-VL), or each begins anew (axial)"},
    {"offset", LOCUS_PARAM_INT, "0", 0, 1 << 30, NULL, false, "added to the position"},
    LOCUS_PLACE_PARAMS,
    {0},
};

struct locus_rope_scaling locus_rope_read(const struct locus_position_spec *spec)
{
    return (struct locus_rope_scaling){
        .kind = (enum locus_rope_scaling_kind)locus_position_int(spec, "scaling"),
        .dim = locus_position_int(spec, "dim"),
        .base = locus_position_number(spec, "base"),
        .factor = locus_position_number(spec, "factor"),
        .trained = locus_position_number(spec, "trained"),
        .beta_fast = locus_position_number(spec, "beta_fast"),
        .beta_slow = locus_position_number(spec, "beta_slow"),
        .truncate = locus_position_int(spec, "truncate") == 1,
        .low = locus_position_number(spec, "low"),
        .high = locus_position_number(spec, "high"),
        .attn_factor = locus_position_number(spec, "attn_factor"),
        .factors = (enum locus_rope_factors)locus_position_int(spec, "factors"),
    };
}

int locus_rope_pairs(const struct locus_position_spec *spec)
{
    return (int)(locus_position_number(spec, "p") * locus_position_int(spec, "dim") / 2);
}

enum locus_status locus_rope_check(const struct locus_rope_scaling *scaling, int head_dim,
                                   locus_error *error)
{
    enum locus_rope_scaling_kind kind = scaling->kind;
    if (scaling->dim < 2 || scaling->dim > head_dim || scaling->dim % 2 != 0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: dim is %d; expected an even number from 2 to the head's "
                          "width %d",
                          scaling->dim, head_dim);
    if ((kind == LOCUS_ROPE_NTK || kind == LOCUS_ROPE_DYNAMIC) && scaling->dim < 4)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: dim is %d; expected 4 or more for scaling=%s",
                          scaling->dim, kind == LOCUS_ROPE_NTK ? "ntk" : "dynamic");
    if (kind == LOCUS_ROPE_YARN && scaling->base <= 1)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: base is 1; expected more for scaling=yarn");
    if (kind == LOCUS_ROPE_YARN && scaling->beta_fast <= scaling->beta_slow)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: beta_fast is %g; expected more than beta_slow, %g",
                          scaling->beta_fast, scaling->beta_slow);
    if (kind == LOCUS_ROPE_LLAMA3 && scaling->high <= scaling->low)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: high is %g; expected more than low, %g", scaling->high,
                          scaling->low);
    if (kind == LOCUS_ROPE_LONGROPE && scaling->trained < 2)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: trained is 1; expected 2 or more for scaling=longrope");
    return LOCUS_OK;
}

static enum locus_status find_divisors(const struct locus_position_env *env, const char *name,
                                       int half, const float **divisors, locus_error *error)
{
    const struct locus_tensor_query query = {env, "rope", LOCUS_WHOLE_MODEL};
    enum locus_status status = locus_tensor_find(&query, name, 1, half, divisors, NULL, error);
    for (int k = 0; !status && k < half; k++)
        if (!isfinite((*divisors)[k]) || (*divisors)[k] < 1e-6f)
            return locus_fail(error, LOCUS_ERROR_FORMAT,
                              "position rope: %s[%d] is %g; expected a number above 0", name, k,
                              (double)(*divisors)[k]);
    return status;
}

/* rope_freqs.weight divides all frequencies (Llama 3.1's scaling, in GGUF files); LongRoPE has two
 * such tensors. */
enum locus_status locus_rope_find_tensors(struct locus_rope_scaling *scaling,
                                          const struct locus_position_env *env, locus_error *error)
{
    const char *always = "rope_freqs.weight";
    int half = scaling->dim / 2;
    enum locus_status status = LOCUS_OK;
    if (locus_tensor_exists(env, always)) {
        if (scaling->kind == LOCUS_ROPE_LLAMA3)
            return locus_fail(
                error, LOCUS_ERROR_ARGUMENT,
                "position rope: the checkpoint's %s holds its llama3 scaling already; "
                "expected another scaling, or none",
                always);
        status = find_divisors(env, always, half, &scaling->divisors, error);
    }
    if (scaling->kind != LOCUS_ROPE_LONGROPE) return status;
    if (!status && scaling->factors != LOCUS_ROPE_LONG)
        status =
            find_divisors(env, "rope_factors_short.weight", half, &scaling->short_factors, error);
    if (!status && scaling->factors != LOCUS_ROPE_SHORT)
        status =
            find_divisors(env, "rope_factors_long.weight", half, &scaling->long_factors, error);
    return status;
}

/* Where each row is rotated by its own length, and the text's is known, all are rotated by that. */
void locus_rope_settle(struct locus_position_spec *spec, const struct locus_position_env *env)
{
    const struct locus_rope_scaling scaling = locus_rope_read(spec);
    if (env->text_length > 0 && locus_rope_varies(&scaling) &&
        !locus_position_given(spec, "length"))
        locus_position_set(spec, "length", env->text_length);
}

double locus_rope_reach(const struct locus_position_spec *spec, const char **formula)
{
    const struct locus_rope_scaling scaling = locus_rope_read(spec);
    *formula =
        "Under ntk factor is alpha, not a ratio of lengths: it carries a model to about\n"
        "alpha^(2 k/(dim-2)) times `trained`, where k = dim ln(trained / 2 pi) / (2 ln base)";
    if (scaling.kind != LOCUS_ROPE_NTK || scaling.dim < 4 || scaling.base <= 1) return 0;
    return locus_rope_ntk_reach(&scaling) * scaling.trained;
}

/* Whether `trained` has an effect. A factor that is a word (auto, negative) is a ratio to it. */
static bool uses_trained(const struct locus_rope_scaling *scaling)
{
    switch (scaling->kind) {
    case LOCUS_ROPE_UNSCALED:
        return false;
    case LOCUS_ROPE_LINEAR:
        return scaling->factor < 0;
    case LOCUS_ROPE_NTK: /* its reach */
    case LOCUS_ROPE_DYNAMIC:
        return true;
    case LOCUS_ROPE_YARN:
    case LOCUS_ROPE_LLAMA3:
        return scaling->factor != 1;
    case LOCUS_ROPE_LONGROPE:
        return scaling->factors == LOCUS_ROPE_BY_LENGTH ||
               (scaling->attn_factor < 0 && scaling->factor != 1);
    }
    return true;
}

/* Scalings that read a parameter, and whether they do at a factor of 1. */
static const struct reader {
    const char *key;
    int scalings;
    bool stretched; /* not at 1 */
    const char *expected;
} readers[] = {
    {"factor", ~(1 << LOCUS_ROPE_UNSCALED), false, "a scaling"},
    {"length", 1 << LOCUS_ROPE_DYNAMIC | 1 << LOCUS_ROPE_LONGROPE, false,
     "scaling=dynamic or longrope"},
    {"beta_fast", 1 << LOCUS_ROPE_YARN, true, "scaling=yarn and a factor that isn't 1"},
    {"beta_slow", 1 << LOCUS_ROPE_YARN, true, "scaling=yarn and a factor that isn't 1"},
    {"truncate", 1 << LOCUS_ROPE_YARN, true, "scaling=yarn and a factor that isn't 1"},
    {"attn_factor", 1 << LOCUS_ROPE_YARN | 1 << LOCUS_ROPE_LONGROPE, false,
     "scaling=yarn or longrope"},
    {"low", 1 << LOCUS_ROPE_LLAMA3, true, "scaling=llama3 and a factor that isn't 1"},
    {"high", 1 << LOCUS_ROPE_LLAMA3, true, "scaling=llama3 and a factor that isn't 1"},
    {"factors", 1 << LOCUS_ROPE_LONGROPE, false, "scaling=longrope"},
};

const char *locus_rope_lacks(const struct locus_position_spec *spec, const char *key)
{
    const struct locus_rope_scaling scaling = locus_rope_read(spec);
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        const struct reader *reader = &readers[i];
        if (strcmp(reader->key, key) != 0) continue;
        if (!(reader->scalings >> scaling.kind & 1) || (reader->stretched && scaling.factor == 1))
            return reader->expected;
    }
    if (scaling.kind == LOCUS_ROPE_LONGROPE && scaling.factors != LOCUS_ROPE_BY_LENGTH &&
        !strcmp(key, "length"))
        return "factors=auto";
    if (!strcmp(key, "trained") && !uses_trained(&scaling))
        return scaling.kind == LOCUS_ROPE_LINEAR ? "factor=auto" : "a scaling that stretches";
    if (locus_places_lacks(spec, key)) return locus_places_lacks(spec, key);
    if (!strcmp(key, "ladder") && locus_position_int(spec, "axis1") == 0) return "axis1";
    return NULL;
}
