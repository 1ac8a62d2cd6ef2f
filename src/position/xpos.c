/* xPos: rotary positions whose pairs also decay with the distance, fast ones the most.
 *
 * Sun et al., "A Length-Extrapolatable Transformer" (arXiv 2212.10554), equations 10 to 12: with
 * zeta_k = (2k/dim + gamma) / (1 + gamma), queries are turned as in rope.c and multiplied by
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
#include "position/angle.h"
#include "position/registry.h"

enum { MOST_GROWTH = 1024 /* of a key within a block: what a half float bears */ };

struct xpos {
    float *cosines, *sines; /* [session_length, dim/2] each */
    float *query_scales;    /* [session_length, dim/2]: zeta^(n/scale_base), n from the origin */
    float *key_scales;      /* [block_length, dim/2]: zeta^(-n/scale_base) */
    int block_length;
    size_t half, head_dim;
    bool adjacent;
};

static void free_xpos(void *state)
{
    struct xpos *xpos = state;
    if (!xpos) return;
    locus_aligned_free(xpos->cosines);
    locus_aligned_free(xpos->sines);
    locus_aligned_free(xpos->query_scales);
    locus_aligned_free(xpos->key_scales);
    free(xpos);
}

/* One pair's column of every table. */
static void fill_pair(struct xpos *xpos, size_t k, int n, double theta, double zeta,
                      double scale_base)
{
    for (int p = 0; p < n; p++) {
        size_t at = (size_t)p * xpos->half + k;
        double sine, cosine, scale = locus_power(zeta, p / scale_base);
        locus_sine_cosine(p * theta, &sine, &cosine);
        xpos->cosines[at] = (float)cosine;
        xpos->sines[at] = (float)sine;
        xpos->query_scales[at] = scale > 1e-37 ? (float)scale : 0; /* subnormals are slow */
    }
    for (int p = 0; p < xpos->block_length; p++)
        xpos->key_scales[(size_t)p * xpos->half + k] = (float)locus_power(zeta, -p / scale_base);
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
    xpos->block_length = env->block_length;
    size_t n = (size_t)env->session_length, n_block = (size_t)env->block_length;
    size_t row_bytes = xpos->half * sizeof(float);
    xpos->cosines = locus_aligned_zalloc(n, row_bytes);
    xpos->sines = locus_aligned_zalloc(n, row_bytes);
    xpos->query_scales = locus_aligned_zalloc(n, row_bytes);
    xpos->key_scales = locus_aligned_zalloc(n_block, row_bytes);
    if (!xpos->cosines || !xpos->sines || !xpos->query_scales || !xpos->key_scales)
        return locus_fail_memory(error, (3 * n + n_block) * row_bytes);
    for (size_t k = 0; k < xpos->half; k++)
        fill_pair(xpos, k, env->session_length,
                  locus_power(locus_position_number(spec, "base"), -2.0 * (double)k / dim),
                  (2.0 * (double)k / dim + gamma) / (1 + gamma), scale_base);
    return LOCUS_OK;
}

/* x0[half] and x1[half], `step` apart, are the pairs' members. */
static void turn(const struct xpos *xpos, float *x0, float *x1, size_t step, size_t position,
                 const float *restrict scales)
{
    const float *restrict cosines = xpos->cosines + position * xpos->half;
    const float *restrict sines = xpos->sines + position * xpos->half;
    for (size_t k = 0; k < xpos->half; k++) {
        float a = x0[k * step], b = x1[k * step];
        x0[k * step] = (a * cosines[k] - b * sines[k]) * scales[k];
        x1[k * step] = (a * sines[k] + b * cosines[k]) * scales[k];
    }
}

static void rotate(const void *state, const struct locus_rotate_op *op)
{
    const struct xpos *xpos = state;
    const float *scales = op->which == LOCUS_KEY ? xpos->key_scales : xpos->query_scales;
    float *rows = op->rows;
    for (int i = 0; i < op->n; i++) {
        /* A query before the block sees none of it: its product is not used. */
        const int past = op->positions[i] - op->origin;
        const size_t position = (size_t)op->positions[i], from_origin = past > 0 ? (size_t)past : 0;
        for (int h = 0; h < op->n_heads; h++, rows += xpos->head_dim)
            turn(xpos, rows, xpos->adjacent ? rows + 1 : rows + xpos->half, xpos->adjacent ? 2 : 1,
                 position, scales + from_origin * xpos->half);
    }
}

static enum locus_frame frame(const void *state)
{
    (void)state;
    return LOCUS_FRAME_BLOCK;
}

static const struct locus_position_param params[] = {
    {"pairs", LOCUS_PARAM_CHOICE, "adjacent", 0, 0, "half|adjacent", true,
     "which dimensions turn together: k and k + dim/2, or 2k and 2k + 1"},
    {"dim", LOCUS_PARAM_INT, "head_dim", 2, 1 << 20, NULL, true,
     "dimensions of a head that turn, the first ones"},
    {"base", LOCUS_PARAM_FLOAT, "10000", 1, 1e15, NULL, true,
     "pair k turns by base^(-2k/dim) a position"},
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
    .rotate = rotate,
    .frame = frame,
};
