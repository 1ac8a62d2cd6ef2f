/* Settings for a length: see stretch.h. A row a way; its factor is what factor=auto comes to, or
 * what the scaling's own estimate says.
 */
#include "position/stretch.h"

#include <math.h>
#include <string.h>

#include "base/math.h"
#include "base/number.h"
#include "position/registry.h"
#include "position/rope_params.h"

#define TWO_PI 6.283185307179586

/* ---- ways --------------------------------------------------------------------------------- */

static double rope_factor(const struct locus_position_spec *spec,
                          const struct locus_position_env *env)
{
    const struct locus_rope_scaling scaling = locus_rope_read(spec);
    return locus_rope_factor_for(&scaling, env->session_length);
}

static const struct way {
    const struct locus_position_scheme *scheme;
    const char *spec;    /* ends with "factor=", where it has one */
    const char *trivial; /* the factor to begin with */
    /* That factor for a length; NULL: what it has come to. */
    double (*factor)(const struct locus_position_spec *spec, const struct locus_position_env *env);
} ways[] = {
    {&locus_scheme_learned, "learned:beyond=clamp", NULL, NULL},
    {&locus_scheme_learned, "learned:beyond=wrap", NULL, NULL},
    {&locus_scheme_learned, "learned:beyond=tile", NULL, NULL},
    {&locus_scheme_learned, "learned:beyond=interpolate,factor=", "auto", NULL},
    {&locus_scheme_learned, "learned:beyond=resize,factor=", "auto", NULL},
    {&locus_scheme_sinusoidal, "sinusoidal:factor=", "auto", NULL},
    {&locus_scheme_rope, "yarn:factor=", "auto", NULL}, /* first: costs the least untrained */
    {&locus_scheme_rope, "linear:factor=", "auto", NULL},
    {&locus_scheme_rope, "ntk:factor=", "1", rope_factor},
    {&locus_scheme_rope, "dynamic-ntk:factor=", "1", rope_factor},
    {&locus_scheme_rope, "llama3:factor=", "auto", NULL},
    {&locus_scheme_rope, "longrope:factor=", "auto", NULL},
    {&locus_scheme_alibi, "alibi:factor=", "auto", NULL},
};

enum { N_WAYS = sizeof ways / sizeof *ways };

static const struct way *find_way(const struct locus_position_scheme *scheme, int index)
{
    for (int i = 0; i < N_WAYS; i++)
        if (ways[i].scheme == scheme && index-- == 0) return &ways[i];
    return NULL;
}

bool locus_stretch_any(const struct locus_position_scheme *scheme)
{
    return find_way(scheme, 0) != NULL;
}

/* To four digits, of which the last is rounded up, so that what it reaches isn't less. */
static double round_up(double value)
{
    const double unit = locus_power(10, floor(log10(value)) - 3);
    const double up = ceil(value / unit - 1e-6) * unit;
    char text[LOCUS_NUMBER_TEXT];
    locus_print(text, sizeof text, "%.4g", up);
    return locus_number_read(text, NULL);
}

bool locus_stretch_way(const struct locus_position_scheme *scheme, int index, const char *own,
                       const struct locus_position_env *env, struct locus_buffer *out,
                       enum locus_status *status, locus_error *error)
{
    const struct way *way = find_way(scheme, index);
    const size_t start = out->length;
    struct locus_layer_specs specs;
    *status = LOCUS_OK;
    if (!way) return false;
    locus_buffer_printf(out, "%s%s", way->spec, way->trivial ? way->trivial : "");
    if (!way->trivial || out->failed) return true;
    *status = locus_layer_specs_resolve(&specs, out->bytes + start, own, NULL, env, error);
    double factor = *status       ? 1
                    : way->factor ? way->factor(&specs.specs[0], env)
                                  : locus_position_number(&specs.specs[0], "factor");
    out->length = start;
    if (!*status && !(factor < 1e6)) {
        *status = locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                             "no factor carries it so far: pairs of wavelengths above the trained "
                             "length begin at the first");
    }
    if (*status)
        locus_buffer_printf(out, "%.*s", (int)strcspn(way->spec, ":"), way->spec);
    else
        locus_buffer_printf(out, "%s%.10g", way->spec, round_up(factor));
    return true;
}

/* ---- what values come to ------------------------------------------------------------------ */

double locus_stretch_trained(const struct locus_position_spec *spec,
                             const struct locus_position_env *env)
{
    int rows, cols;
    const double trained = locus_position_number(spec, "trained");
    if (spec->scheme == &locus_scheme_learned && env->tensor &&
        env->tensor(env->source, "position_embd.weight", &rows, &cols))
        return rows - locus_position_number(spec, "offset");
    return trained > 0 ? trained : env->trained_length;
}

static enum locus_status read_rope(struct locus_stretch *stretch,
                                   const struct locus_position_spec *spec, double trained,
                                   const struct locus_position_env *env, locus_error *error)
{
    struct locus_rope_scaling scaling = locus_rope_read(spec);
    const int last = locus_rope_pairs(spec) - 1;
    const double n = env->session_length;
    enum locus_status status = locus_rope_check(&scaling, env->head_dim, error);
    if (!status) status = locus_rope_find_tensors(&scaling, env, error);
    if (status) return status;
    if (locus_position_int(spec, "ladder") == 1)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "position rope: ladder=own has a lowest frequency an axis; expected "
                          "ladder=shared");
    /* These drop a `trained` of the checkpoint's, which stays what they start from. */
    if (scaling.kind == LOCUS_ROPE_UNSCALED || scaling.kind == LOCUS_ROPE_LINEAR)
        scaling.trained = trained;
    struct locus_rope_scaling plain = scaling;
    plain.kind = LOCUS_ROPE_UNSCALED;
    *stretch = (struct locus_stretch){
        .factor = scaling.kind == LOCUS_ROPE_UNSCALED ? (double)NAN : scaling.factor,
        .base = locus_rope_base(&scaling, n),
        .reach = scaling.trained * locus_rope_reach_ratio(&scaling, last + 1, n),
        .attention = locus_rope_magnitude(&scaling),
        .turns = n * locus_rope_frequency(&scaling, n, last) / TWO_PI,
        .trained = scaling.trained * locus_rope_frequency(&plain, n, last) / TWO_PI,
    };
    return LOCUS_OK;
}

/* As many as the scheme says that it has, or rows where it goes on without an end. */
static enum locus_status read_learned(struct locus_stretch *stretch,
                                      const struct locus_position_spec *spec,
                                      const struct locus_position_env *env, locus_error *error)
{
    enum { FEW = 16 };
    struct locus_position position = {.spec = *spec};
    struct locus_position_env brief = *env;
    brief.session_length = FEW;
    enum locus_status status = locus_position_init(&position, &brief, error);
    const int most = status ? 0 : locus_position_max_positions(&position);
    const double factor = locus_position_number(spec, "factor");
    locus_position_free(&position);
    stretch->factor = factor > 1 ? factor : (double)NAN;
    stretch->reach = most > 0 ? most : locus_stretch_trained(spec, env);
    return status;
}

static enum locus_status read_sinusoidal(struct locus_stretch *stretch,
                                         const struct locus_position_spec *spec,
                                         const struct locus_position_env *env, locus_error *error)
{
    const bool fairseq = locus_position_int(spec, "denominator") == 1;
    const double base = locus_position_number(spec, "base"),
                 factor = locus_position_number(spec, "factor");
    if (locus_position_int(spec, "width") > 0)
        return locus_fail(error, LOCUS_ERROR_UNSUPPORTED,
                          "position sinusoidal: a grid has two lowest frequencies; expected "
                          "width=0");
    const int last = (env->n_embd + 1) / 2 - 1;
    const double theta = locus_power(base, fairseq ? -1 : -2.0 * last / env->n_embd);
    *stretch = (struct locus_stretch){.factor = factor,
                                      .base = base,
                                      .reach = env->trained_length * factor,
                                      .attention = (double)NAN,
                                      .turns = env->session_length * theta / factor / TWO_PI,
                                      .trained = env->trained_length * theta / TWO_PI};
    return LOCUS_OK;
}

enum locus_status locus_stretch_read(struct locus_stretch *stretch,
                                     const struct locus_position_spec *spec, double trained,
                                     const struct locus_position_env *env, locus_error *error)
{
    const struct locus_position_scheme *scheme = spec->scheme;
    const double none = (double)NAN;
    *stretch = (struct locus_stretch){none, none, (double)INFINITY, none, none, none};
    if (scheme == &locus_scheme_rope) return read_rope(stretch, spec, trained, env, error);
    if (scheme == &locus_scheme_learned) return read_learned(stretch, spec, env, error);
    if (scheme == &locus_scheme_sinusoidal) return read_sinusoidal(stretch, spec, env, error);
    stretch->factor = locus_position_number(spec, "factor"); /* ALiBi's: distances have no end */
    return LOCUS_OK;
}
