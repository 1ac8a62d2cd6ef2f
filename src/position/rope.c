/* Rotary positions: pairs of a query's and a key's dimensions turn by an angle that grows with the
 * position, so that their product depends on the distance alone.
 *
 * Su et al., "RoFormer" (arXiv 2104.09864), equations 14, 15 and 34: theta_k = base^(-2k/dim) for
 * k < dim/2, (x0, x1) -> (x0 cos - x1 sin, x0 sin + x1 cos) at the angle p theta_k. Dimension k is
 * paired with k + dim/2 (`half`: GPT-NeoX, Llama as Hugging Face has it) or 2k with 2k+1
 * (`adjacent`: RoFormer, GPT-J, Llama in GGUF). Dimensions from `dim` on are left as they are.
 */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "position/angle.h"
#include "position/registry.h"

struct rope {
    float *cosines, *sines; /* [session_length, dim/2] each */
    int dim, head_dim, nope_every;
    bool adjacent;
};

/* Inverse frequencies theta[dim/2]; rope_freqs.weight, where the checkpoint has it, divides them
 * (Llama 3.1's scaling, in GGUF files). */
static enum locus_status fill_theta(double *theta, int dim, double base,
                                    const struct locus_position_env *env, locus_error *error)
{
    const char *name = "rope_freqs.weight";
    int rows = 0, cols = 0, half = dim / 2;
    const float *divisors = env->tensor ? env->tensor(env->source, name, &rows, &cols) : NULL;
    if (divisors && (rows != 1 || cols != half))
        return locus_fail(error, LOCUS_ERROR_FORMAT,
                          "position rope: %s is [%d, %d]; expected [1, %d], half of dim=%d", name,
                          rows, cols, half, dim);
    for (int k = 0; k < half; k++) {
        theta[k] = locus_power(base, -2.0 * k / dim);
        if (!divisors) continue;
        if (!isfinite(divisors[k]) || divisors[k] < 1e-6f)
            return locus_fail(error, LOCUS_ERROR_FORMAT,
                              "position rope: %s[%d] is %g; expected a number above 0", name, k,
                              (double)divisors[k]);
        theta[k] /= (double)divisors[k];
    }
    return LOCUS_OK;
}

/* The angle is one product in double, whatever the session's length. */
static void fill_tables(struct rope *rope, const double *theta, int n)
{
    size_t half = (size_t)rope->dim / 2;
    for (int p = 0; p < n; p++) {
        for (size_t k = 0; k < half; k++) {
            double sine, cosine;
            locus_sine_cosine(p * theta[k], &sine, &cosine);
            rope->cosines[(size_t)p * half + k] = (float)cosine;
            rope->sines[(size_t)p * half + k] = (float)sine;
        }
    }
}

static void free_rope(void *state)
{
    struct rope *rope = state;
    if (!rope) return;
    locus_aligned_free(rope->cosines);
    locus_aligned_free(rope->sines);
    free(rope);
}

static enum locus_status make_tables(struct rope *rope, const struct locus_position_env *env,
                                     double base, locus_error *error)
{
    size_t half = (size_t)rope->dim / 2, row_bytes = half * sizeof(float);
    double *theta = calloc(half, sizeof *theta);
    if (!theta) return locus_fail_memory(error, half * sizeof *theta);
    enum locus_status status = fill_theta(theta, rope->dim, base, env, error);
    if (!status) {
        rope->cosines = locus_aligned_zalloc((size_t)env->session_length, row_bytes);
        rope->sines = locus_aligned_zalloc((size_t)env->session_length, row_bytes);
        if (rope->cosines && rope->sines)
            fill_tables(rope, theta, env->session_length);
        else
            status = locus_fail_memory(error, 2 * (size_t)env->session_length * row_bytes);
    }
    free(theta);
    return status;
}

static enum locus_status init_rope(void **state, const struct locus_position_env *env,
                                   const struct locus_position_spec *spec, locus_error *error)
{
    int dim = locus_position_int(spec, "dim");
    if (dim < 2 || dim > env->head_dim || dim % 2 != 0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: dim is %d; expected an even number from 2 to the head's "
                          "width %d",
                          dim, env->head_dim);
    struct rope *rope = calloc(1, sizeof *rope);
    if (!rope) return locus_fail_memory(error, sizeof *rope);
    *state = rope;
    rope->dim = dim;
    rope->head_dim = env->head_dim;
    rope->nope_every = locus_position_int(spec, "nope_every");
    rope->adjacent = locus_position_int(spec, "pairs") == 1;
    return make_tables(rope, env, locus_position_number(spec, "base"), error);
}

/* cosines[half], sines[half]; x0[half] and x1[half] are the pairs' members. */
static void turn_half(float *restrict x0, float *restrict x1, const float *restrict cosines,
                      const float *restrict sines, size_t half)
{
    for (size_t k = 0; k < half; k++) {
        float a = x0[k], b = x1[k];
        x0[k] = a * cosines[k] - b * sines[k];
        x1[k] = a * sines[k] + b * cosines[k];
    }
}

static void turn_adjacent(float *restrict x, const float *restrict cosines,
                          const float *restrict sines, size_t half)
{
    for (size_t k = 0; k < half; k++) {
        float a = x[2 * k], b = x[2 * k + 1];
        x[2 * k] = a * cosines[k] - b * sines[k];
        x[2 * k + 1] = a * sines[k] + b * cosines[k];
    }
}

static void rotate(const void *state, int layer, enum locus_position_rows which, float *rows,
                   int n_heads, const int *positions, int n, int reader)
{
    (void)reader;
    const struct rope *rope = state;
    size_t half = (size_t)rope->dim / 2;
    (void)which;
    if (rope->nope_every > 0 && (layer + 1) % rope->nope_every == 0) return;
    for (int i = 0; i < n; i++) {
        const float *cosines = rope->cosines + (size_t)positions[i] * half;
        const float *sines = rope->sines + (size_t)positions[i] * half;
        for (int h = 0; h < n_heads; h++, rows += rope->head_dim) {
            if (rope->adjacent)
                turn_adjacent(rows, cosines, sines, half);
            else
                turn_half(rows, rows + half, cosines, sines, half);
        }
    }
}

static const struct locus_position_param params[] = {
    {"pairs", LOCUS_PARAM_CHOICE, "half", 0, 0, "half|adjacent", true,
     "which dimensions turn together: k and k + dim/2, or 2k and 2k + 1"},
    {"dim", LOCUS_PARAM_INT, "head_dim", 2, 1 << 20, NULL, true,
     "dimensions of a head that turn, the first ones"},
    {"base", LOCUS_PARAM_FLOAT, "10000", 1, 1e15, NULL, true,
     "pair k turns by base^(-2k/dim) a position"},
    {"nope_every", LOCUS_PARAM_INT, "0", 0, 1 << 20, NULL, false,
     "above 0: each such layer, counted from 1, does not turn"},
    {0},
};

const struct locus_position_scheme locus_scheme_rope = {
    .name = "rope",
    .summary = "queries and keys rotated by an angle that grows with the position (RoFormer)",
    .params = params,
    .init = init_rope,
    .free = free_rope,
    .rotate = rotate,
};
