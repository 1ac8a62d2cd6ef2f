/* xPos: rotary positions whose pairs also decay with the distance, fast ones the most.
 *
 * Sun et al., "A Length-Extrapolatable Transformer" (arXiv 2212.10554), equations 10 to 12: with
 * zeta_k = (2k/dim + gamma) / (1 + gamma), queries are rotated as in rope.c and multiplied by
 * zeta_k^(p/scale_base), keys by zeta_k^(-p/scale_base): pair k of a product has
 * zeta_k^(distance/scale_base).
 *
 * Counted from a fixed place the keys' scales overflow (in floats at p = 36,260 for the defaults).
 * They count from the start of the keys' block, and queries are scaled anew for each block they
 * read: no key is multiplied by more than a few units, at any length and as any cache type.
 */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/math.h"
#include "position/registry.h"
#include "position/tables.h"

enum { MOST_GROWTH = 1024 /* of a key within a block: what a half float bears */ };

struct xpos {
    float *cosines, *sines; /* [n_rows, dim/2] each, of positions from `first` on */
    double *thetas, *zetas; /* [dim/2] */
    double scale_base;
    float *query_scales; /* [n_distances, dim/2]: zeta^(n/scale_base), n from the origin */
    float *key_scales;   /* [block_length, dim/2]: zeta^(-n/scale_base) */
    struct locus_position_env env;
    int first, n_rows, n_distances; /* n_*: those that have been filled */
    size_t half, head_dim;
    bool adjacent;
};

static void free_xpos(void *state)
{
    struct xpos *xpos = state;
    if (!xpos) return;
    locus_aligned_free(xpos->cosines);
    locus_aligned_free(xpos->sines);
    free(xpos->thetas);
    free(xpos->zetas);
    locus_aligned_free(xpos->query_scales);
    locus_aligned_free(xpos->key_scales);
    free(xpos);
}

static void fill_angle(int place, double theta, float *cosine_at, float *sine_at)
{
    double sine, cosine;
    locus_sine_cosine(place * theta, &sine, &cosine);
    *cosine_at = (float)cosine;
    *sine_at = (float)sine;
}

static void fill(void *state, int n_positions)
{
    struct xpos *xpos = state;
    const int n_distances = locus_distance_count(&xpos->env, n_positions);
    for (; xpos->n_rows < n_positions - xpos->first; xpos->n_rows++) {
        const size_t at = (size_t)xpos->n_rows * xpos->half;
        for (size_t k = 0; k < xpos->half; k++)
            fill_angle(xpos->first + xpos->n_rows, xpos->thetas[k], xpos->cosines + at + k,
                       xpos->sines + at + k);
    }
    for (; xpos->n_distances < n_distances; xpos->n_distances++)
        for (size_t k = 0; k < xpos->half; k++) {
            const double scale = locus_power(xpos->zetas[k], xpos->n_distances / xpos->scale_base);
            xpos->query_scales[(size_t)xpos->n_distances * xpos->half + k] =
                scale > 1e-37 ? (float)scale : 0; /* subnormals are slow */
        }
}

static enum locus_status check(const struct locus_position_env *env, int dim, double zeta,
                               double scale_base, locus_error *error)
{
    if (dim < 2 || dim > env->head_dim || dim % 2 != 0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position xpos: dim is %d; expected an even number from 2 to the head's "
                          "width %d",
                          dim, env->head_dim);
    double growth = locus_power(zeta, -(env->block_length - 1) / scale_base);
    if (growth > MOST_GROWTH)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position xpos: with scale_base %g and zeta %g keys grow %g times within "
                          "%d positions; expected at most %d times",
                          scale_base, zeta, growth, env->block_length, MOST_GROWTH);
    return LOCUS_OK;
}

static enum locus_status init_xpos(void **state, const struct locus_position_env *env,
                                   const struct locus_position_spec *spec, locus_error *error)
{
    int dim = locus_position_int(spec, "dim");
    double gamma = locus_position_number(spec, "gamma");
    double scale_base = locus_position_number(spec, "scale_base");
    enum locus_status status = check(env, dim, gamma / (1 + gamma), scale_base, error);
    if (status) return status;
    struct xpos *xpos = calloc(1, sizeof *xpos);
    if (!xpos) return locus_fail_memory(error, sizeof *xpos);
    *state = xpos;
    xpos->half = (size_t)dim / 2;
    xpos->head_dim = (size_t)env->head_dim;
    xpos->adjacent = locus_position_int(spec, "pairs") == 1;
    xpos->scale_base = scale_base;
    xpos->env = *env;
    xpos->first = env->first_position;
    const int n = locus_distance_count(env, env->session_length);
    const size_t n_block = (size_t)env->block_length, row_bytes = xpos->half * sizeof(float);
    xpos->thetas = calloc(xpos->half, sizeof *xpos->thetas);
    xpos->zetas = calloc(xpos->half, sizeof *xpos->zetas);
    xpos->cosines = locus_aligned_zalloc((size_t)n, row_bytes);
    xpos->sines = locus_aligned_zalloc((size_t)n, row_bytes);
    xpos->query_scales = locus_aligned_zalloc((size_t)n, row_bytes);
    xpos->key_scales = locus_aligned_zalloc(n_block, row_bytes);
    if (!xpos->thetas || !xpos->zetas || !xpos->cosines || !xpos->sines || !xpos->query_scales ||
        !xpos->key_scales)
        return locus_table_fail(error, "xpos", n, (3 * (size_t)n + n_block) * row_bytes);
    for (size_t k = 0; k < xpos->half; k++) {
        xpos->thetas[k] = locus_power(locus_position_number(spec, "base"), -2.0 * (double)k / dim);
        xpos->zetas[k] = (2.0 * (double)k / dim + gamma) / (1 + gamma);
        for (int p = 0; p < env->block_length; p++)
            xpos->key_scales[(size_t)p * xpos->half + k] =
                (float)locus_power(xpos->zetas[k], -p / scale_base);
    }
    return LOCUS_OK;
}

/* Rotates n pairs from `first` on, in each of n_heads heads; cosines, sines and scales are theirs.
 */
static void rotate_pairs(const struct xpos *xpos, float *rows, int n_heads, size_t first, size_t n,
                         const float *restrict cosines, const float *restrict sines,
                         const float *restrict scales)
{
    const size_t step = xpos->adjacent ? 2 : 1;
    for (int h = 0; h < n_heads; h++, rows += xpos->head_dim) {
        float *x0 = rows + step * first; /* the pairs' members */
        float *x1 = xpos->adjacent ? x0 + 1 : x0 + xpos->half;
        for (size_t k = 0; k < n; k++) {
            float a = x0[k * step], b = x1[k * step];
            x0[k * step] = (a * cosines[k] - b * sines[k]) * scales[k];
            x1[k * step] = (a * sines[k] + b * cosines[k]) * scales[k];
        }
    }
}

/* The same at a place that the tables have no row for. */
static void rotate_beyond(const struct xpos *xpos, float *rows, int n_heads, int place,
                          const float *scales)
{
    float cosines[LOCUS_ANGLES], sines[LOCUS_ANGLES];
    for (size_t first = 0; first < xpos->half; first += LOCUS_ANGLES) {
        const size_t left = xpos->half - first, n = left < LOCUS_ANGLES ? left : LOCUS_ANGLES;
        for (size_t k = 0; k < n; k++)
            fill_angle(place, xpos->thetas[first + k], cosines + k, sines + k);
        rotate_pairs(xpos, rows, n_heads, first, n, cosines, sines, scales + first);
    }
}

static void rotate(const void *state, const struct locus_rotate_op *op)
{
    const struct xpos *xpos = state;
    const float *scales = op->which == LOCUS_KEY ? xpos->key_scales : xpos->query_scales;
    float *rows = op->rows;
    for (int i = 0; i < op->n; i++, rows += (size_t)op->n_heads * xpos->head_dim) {
        /* A query before the block sees none of it: its product is not used. */
        const int past = op->positions[i] - op->origin, row = op->positions[i] - xpos->first;
        const float *scale = scales + (past > 0 ? (size_t)past : 0) * xpos->half;
        const size_t at = (size_t)row * xpos->half;
        if (row >= 0 && row < xpos->n_rows)
            rotate_pairs(xpos, rows, op->n_heads, 0, xpos->half, xpos->cosines + at,
                         xpos->sines + at, scale);
        else
            rotate_beyond(xpos, rows, op->n_heads, op->positions[i], scale);
    }
}

static enum locus_frame frame(const void *state)
{
    (void)state;
    return LOCUS_FRAME_BLOCK;
}

static const struct locus_param params[] = {
    {"pairs", LOCUS_PARAM_CHOICE, "adjacent", 0, 0, "half|adjacent", true,
     "which dimensions are rotated together: k and k + dim/2, or 2k and 2k + 1"},
    {"dim", LOCUS_PARAM_INT, "head_dim", 2, 1 << 20, NULL, true,
     "dimensions of a head that are rotated, the first ones"},
    {"base", LOCUS_PARAM_FLOAT, "10000", 1, 1e15, NULL, true,
     "pair k is rotated by base^(-2k/dim) a position"},
    {"scale_base", LOCUS_PARAM_FLOAT, "512", 1e-6, 1e15, NULL, false,
     "over this distance pair k decays by zeta_k = (2k/dim + gamma) / (1 + gamma)"},
    {"gamma", LOCUS_PARAM_FLOAT, "0.4", 1e-6, 1e6, NULL, false, "the larger, the less decay"},
    {0},
};

const struct locus_position_scheme locus_scheme_xpos = {
    .abi = LOCUS_POSITION_ABI,
    .name = "xpos",
    .summary = "rotary positions that decay with the distance (xPos)",
    .params = params,
    .init = init_xpos,
    .free = free_xpos,
    .fill = fill,
    .rotate = rotate,
    .frame = frame,
};
