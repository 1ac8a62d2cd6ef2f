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
#include "position/places.h"
#include "position/registry.h"
#include "position/tables.h"

enum { MOST_GROWTH = 1024 /* of a key within a block: what a half float bears */ };

struct xpos {
    float *cosines, *sines; /* [n_rows, dim/2] each, of positions from `first` on */
    double *thetas, *zetas; /* [dim/2] */
    double scale_base;
    float *query_scales; /* [n_distances, dim/2]: zeta^(n/scale_base), n from the origin */
    float *key_scales;   /* [block_places, dim/2]: zeta^(-n/scale_base) */
    struct locus_places places;
    int block_places; /* that the positions of a block may lie across */
    struct locus_position_env env;
    int first, n_rows, n_distances; /* n_*: those that have been filled */
    size_t half, head_dim;
    bool adjacent;
};

static void free_xpos(void *state)
{
    struct xpos *xpos = state;
    if (!xpos) return;
    locus_places_free(&xpos->places);
    locus_aligned_free(xpos->cosines);
    locus_aligned_free(xpos->sines);
    free(xpos->thetas);
    free(xpos->zetas);
    locus_aligned_free(xpos->query_scales);
    locus_aligned_free(xpos->key_scales);
    free(xpos);
}

/* Places across which the positions of a block may lie, and all those below n_positions. */
static int count_block_places(const struct locus_places *places,
                              const struct locus_position_env *env)
{
    int most = env->block_length;
    for (int p = 0; places->drawn && p < env->session_length; p++) {
        const int last = p + env->block_length < env->session_length ? p + env->block_length
                                                                     : env->session_length;
        const int n = places->drawn[last - 1] - places->drawn[p] + 1;
        most = n > most ? n : most;
    }
    return most;
}

static int count_distances(const struct xpos *xpos, int n_positions)
{
    const int *drawn = xpos->places.drawn;
    if (!drawn) return locus_distance_count(&xpos->env, n_positions);
    return drawn[n_positions - 1] - drawn[0] + 1;
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
    const int n_distances = count_distances(xpos, n_positions);
    for (; xpos->n_rows < n_positions - xpos->first; xpos->n_rows++) {
        const size_t at = (size_t)xpos->n_rows * xpos->half;
        const int place = locus_place(&xpos->places, xpos->first + xpos->n_rows);
        for (size_t k = 0; k < xpos->half; k++)
            fill_angle(place, xpos->thetas[k], xpos->cosines + at + k, xpos->sines + at + k);
    }
    for (; xpos->n_distances < n_distances; xpos->n_distances++)
        for (size_t k = 0; k < xpos->half; k++) {
            const double scale = locus_power(xpos->zetas[k], xpos->n_distances / xpos->scale_base);
            xpos->query_scales[(size_t)xpos->n_distances * xpos->half + k] =
                scale > 1e-37 ? (float)scale : 0; /* subnormals are slow */
        }
}

static enum locus_status check_dim(const struct locus_position_env *env, int dim,
                                   locus_error *error)
{
    if (dim < 2 || dim > env->head_dim || dim % 2 != 0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position xpos: dim is %d; expected an even number from 2 to the head's "
                          "width %d",
                          dim, env->head_dim);
    return LOCUS_OK;
}

static enum locus_status check_growth(int block_places, double zeta, double scale_base,
                                      locus_error *error)
{
    double growth = locus_power(zeta, -(block_places - 1) / scale_base);
    if (growth > MOST_GROWTH)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position xpos: with scale_base %g and zeta %g keys grow %g times within "
                          "%d positions; expected at most %d times",
                          scale_base, zeta, growth, block_places, MOST_GROWTH);
    return LOCUS_OK;
}

static enum locus_status init_xpos(void **state, const struct locus_position_env *env,
                                   const struct locus_position_spec *spec, locus_error *error)
{
    int dim = locus_position_int(spec, "dim");
    double gamma = locus_position_number(spec, "gamma");
    double scale_base = locus_position_number(spec, "scale_base");
    enum locus_status status = check_dim(env, dim, error);
    if (status) return status;
    struct xpos *xpos = calloc(1, sizeof *xpos);
    if (!xpos) return locus_fail_memory(error, sizeof *xpos);
    *state = xpos;
    const struct locus_places_query places = {"xpos", env, spec, locus_position_int(spec, "offset"),
                                              0};
    if ((status = locus_places_init(&xpos->places, &places, error))) return status;
    xpos->block_places = count_block_places(&xpos->places, env);
    status = check_growth(xpos->block_places, gamma / (1 + gamma), scale_base, error);
    if (status) return status;
    xpos->half = (size_t)dim / 2;
    xpos->head_dim = (size_t)env->head_dim;
    xpos->adjacent = locus_position_int(spec, "pairs") == 1;
    xpos->scale_base = scale_base;
    xpos->env = *env;
    xpos->first = env->first_position;
    const int n = locus_distance_count(env, env->session_length);
    const int n_distances = count_distances(xpos, env->session_length);
    const size_t n_block = (size_t)xpos->block_places, row_bytes = xpos->half * sizeof(float);
    xpos->thetas = calloc(xpos->half, sizeof *xpos->thetas);
    xpos->zetas = calloc(xpos->half, sizeof *xpos->zetas);
    xpos->cosines = locus_aligned_zalloc((size_t)n, row_bytes);
    xpos->sines = locus_aligned_zalloc((size_t)n, row_bytes);
    xpos->query_scales = locus_aligned_zalloc((size_t)n_distances, row_bytes);
    xpos->key_scales = locus_aligned_zalloc(n_block, row_bytes);
    if (!xpos->thetas || !xpos->zetas || !xpos->cosines || !xpos->sines || !xpos->query_scales ||
        !xpos->key_scales)
        return locus_table_fail(error, "xpos", n,
                                (2 * (size_t)n + (size_t)n_distances + n_block) * row_bytes);
    for (size_t k = 0; k < xpos->half; k++) {
        xpos->thetas[k] = locus_power(locus_position_number(spec, "base"), -2.0 * (double)k / dim);
        xpos->zetas[k] = (2.0 * (double)k / dim + gamma) / (1 + gamma);
        for (int p = 0; p < xpos->block_places; p++)
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

/* The same at a position that the tables have no row for. */
static void rotate_beyond(const struct xpos *xpos, float *rows, int n_heads, int position,
                          const float *scales)
{
    float cosines[LOCUS_ANGLES], sines[LOCUS_ANGLES];
    for (size_t first = 0; first < xpos->half; first += LOCUS_ANGLES) {
        const size_t left = xpos->half - first, n = left < LOCUS_ANGLES ? left : LOCUS_ANGLES;
        for (size_t k = 0; k < n; k++)
            fill_angle(locus_place(&xpos->places, position), xpos->thetas[first + k], cosines + k,
                       sines + k);
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
        const int row = op->positions[i] - xpos->first;
        const int past =
            locus_place(&xpos->places, op->positions[i]) - locus_place(&xpos->places, op->origin);
        const float *scale = scales + (past > 0 ? (size_t)past : 0) * xpos->half;
        const size_t at = (size_t)row * xpos->half;
        if (row >= 0 && row < xpos->n_rows)
            rotate_pairs(xpos, rows, op->n_heads, 0, xpos->half, xpos->cosines + at,
                         xpos->sines + at, scale);
        else
            rotate_beyond(xpos, rows, op->n_heads, op->positions[i], scale);
    }
}

static int max_positions(const void *state)
{
    const struct xpos *xpos = state;
    return xpos->places.random;
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
    {"offset", LOCUS_PARAM_INT, "0", 0, 1 << 30, NULL, false, "added to the position"},
    LOCUS_PLACE_PARAMS,
    {0},
};

const struct locus_position_scheme locus_scheme_xpos = {
    .abi = LOCUS_POSITION_ABI,
    .name = "xpos",
    .summary = "rotary positions that decay with the distance (xPos)",
    .params = params,
    .lacks = locus_places_lacks,
    .init = init_xpos,
    .free = free_xpos,
    .fill = fill,
    .rotate = rotate,
    .max_positions = max_positions,
    .frame = frame,
};
