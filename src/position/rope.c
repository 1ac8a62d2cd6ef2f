/* Rotary positions: pairs of a query's and a key's dimensions are rotated by an angle that grows
 * with the position, so that their product depends on the distance alone.
 *
 * Su et al., "RoFormer" (arXiv 2104.09864), equations 14, 15 and 34: theta_k = base^(-2k/dim) for
 * k < dim/2, (x0, x1) -> (x0 cos - x1 sin, x0 sin + x1 cos) at the angle p theta_k. Dimension k is
 * paired with k + dim/2 (`half`: GPT-NeoX, Llama as Hugging Face has it) or 2k with 2k+1
 * (`adjacent`: RoFormer, GPT-J, Llama in GGUF). Dimensions from `dim` on are left as they are.
 *
 * p < 1 (p-RoPE, Barbero et al., "Round and Round We Go!", arXiv 2410.06205, section 6) rotates the
 * first floor(p dim / 2) pairs, of the highest frequencies, and leaves the others as they are. (A
 * smaller `dim` spaces all frequencies over fewer pairs instead.)
 *
 * Scalings (rope_scaling.h) change the frequencies theta_k, and cosines and sines by a factor m. Of
 * those that depend on the text's length n, `length=N` takes one n for all; `length=row` takes n =
 * i + 1 for query row i and for every key it reads, so that keys are rotated for each row anew.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/math.h"
#include "position/places.h"
#include "position/registry.h"
#include "position/rope_params.h"
#include "position/tables.h"

enum { MAX_AXES = 3 };

struct rope {
    struct locus_rope_scaling scaling;
    struct locus_places places;
    /* [n_tables, n_rows, dim/2] each, times m, of positions from `first` on, n_filled of them so
     * far. The first table is for texts up to the trained length, where that matters. */
    float *cosines, *sines;
    double *frequencies; /* [n_tables, dim/2]: for positions that have no row */
    double m;
    int first, n_rows, n_filled;
    size_t n_tables;
    double *thetas; /* dynamic by row: [session's end - past, dim/2], from n = past + 1 on */
    int past, n_past, trained; /* n_past: those that have been filled */
    int dim, head_dim;
    size_t n_pairs;                /* that are rotated */
    int n_axes;                    /* sections of pairs, each rotated by its own axis */
    size_t sections[MAX_AXES + 1]; /* pairs at which they begin, and the end */
    bool own_ladders;
    bool adjacent;
    bool by_row, dynamic; /* frequencies differ by row; each n has its own, not one of two */
};

static size_t half_of(const struct rope *rope)
{
    return (size_t)rope->dim / 2;
}

static void free_rope(void *state)
{
    struct rope *rope = state;
    if (!rope) return;
    locus_places_free(&rope->places);
    locus_aligned_free(rope->cosines);
    locus_aligned_free(rope->sines);
    free(rope->frequencies);
    free(rope->thetas);
    free(rope);
}

/* theta[dim/2] of one ladder, or of one a section. */
static void fill_frequencies(const struct rope *rope, double n, double *theta)
{
    for (int s = 0; rope->own_ladders && s < rope->n_axes; s++) {
        struct locus_rope_scaling section = rope->scaling;
        section.dim = 2 * (int)(rope->sections[s + 1] - rope->sections[s]);
        if (section.divisors) section.divisors += rope->sections[s];
        locus_rope_frequencies(&section, n, theta + rope->sections[s]);
    }
    if (!rope->own_ladders) locus_rope_frequencies(&rope->scaling, n, theta);
}

/* n pairs at a place. The angle is one product in double, whatever the session's length. */
static void fill_row(const struct rope *rope, double place, const double *theta, size_t n,
                     float *cosines, float *sines)
{
    for (size_t k = 0; k < n; k++) {
        double sine, cosine;
        locus_sine_cosine(place * theta[k], &sine, &cosine);
        cosines[k] = (float)(cosine * rope->m);
        sines[k] = (float)(sine * rope->m);
    }
}

static void fill(void *state, int n_positions)
{
    struct rope *rope = state;
    const size_t half = half_of(rope);
    const int n =
        n_positions - rope->first < rope->n_rows ? n_positions - rope->first : rope->n_rows;
    for (size_t table = 0; table < rope->n_tables; table++)
        for (int row = rope->n_filled; row < n; row++) {
            const size_t at = (table * (size_t)rope->n_rows + (size_t)row) * half;
            fill_row(rope, locus_place(&rope->places, rope->first + row),
                     rope->frequencies + table * half, rope->n_pairs, rope->cosines + at,
                     rope->sines + at);
        }
    if (n > rope->n_filled) rope->n_filled = n;
    if (!rope->by_row || !rope->dynamic) return;
    for (; rope->past + rope->n_past < n_positions; rope->n_past++)
        fill_frequencies(rope, rope->past + rope->n_past + 1,
                         rope->thetas + (size_t)rope->n_past * half);
}

/* Rows that the tables have: positions past them are worked out as they come, which costs little
 * once a row, but much where keys are rotated for each query. */
static int count_rows(const struct rope *rope, int n)
{
    const int most = rope->by_row ? 1 << 20 : 1 << 16;
    return n < most ? n : most;
}

/* `n` is the text's length where it is one for all rows. */
static enum locus_status make_tables(struct rope *rope, const struct locus_position_env *env,
                                     double n, locus_error *error)
{
    const size_t half = half_of(rope), row_bytes = half * sizeof(float);
    size_t n_past = 0;
    rope->n_tables = rope->by_row && !rope->dynamic ? 2 : 1;
    rope->m = locus_rope_magnitude(&rope->scaling);
    rope->first = env->first_position;
    rope->n_rows = count_rows(rope, env->session_length - env->first_position);
    rope->past = rope->first > rope->trained ? rope->first : rope->trained;
    if (rope->by_row && rope->dynamic && env->session_length > rope->past)
        n_past = (size_t)(env->session_length - rope->past);
    const size_t n_rows = rope->n_tables * (size_t)rope->n_rows;
    rope->cosines = locus_aligned_zalloc(n_rows, row_bytes);
    rope->sines = locus_aligned_zalloc(n_rows, row_bytes);
    rope->frequencies = calloc(rope->n_tables, half * sizeof *rope->frequencies);
    rope->thetas = calloc(n_past ? n_past : 1, half * sizeof *rope->thetas);
    if (!rope->cosines || !rope->sines || !rope->frequencies || !rope->thetas)
        return locus_table_fail(error, "rope", env->session_length - env->first_position,
                                2 * n_rows * row_bytes + n_past * half * sizeof *rope->thetas);
    fill_frequencies(rope, rope->by_row ? rope->trained : n, rope->frequencies);
    if (rope->n_tables == 2) fill_frequencies(rope, rope->trained + 1.0, rope->frequencies + half);
    return LOCUS_OK;
}

/* Where each axis' pairs begin. */
static enum locus_status find_sections(struct rope *rope, const struct locus_rope_scaling *scaling,
                                       const struct locus_position_spec *spec, locus_error *error)
{
    static const char *const keys[MAX_AXES] = {NULL, "axis1", "axis2"};
    rope->n_axes = 1;
    for (int axis = 1; axis < MAX_AXES; axis++) {
        const int first = locus_position_int(spec, keys[axis]);
        if (first == 0) continue;
        if (rope->n_axes < axis || first <= (int)rope->sections[axis - 1] ||
            first >= (int)rope->n_pairs)
            return locus_fail(
                error, LOCUS_ERROR_ARGUMENT,
                "position rope: %s is %d; expected a pair past the axis before it and "
                "below the %d that are rotated",
                keys[axis], first, (int)rope->n_pairs);
        rope->sections[rope->n_axes++] = (size_t)first;
    }
    rope->sections[rope->n_axes] = rope->n_pairs;
    if (rope->own_ladders && rope->n_pairs < half_of(rope))
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: ladder=own with p=%g; expected p=1",
                          locus_position_number(spec, "p"));
    const bool scaled = scaling->kind != LOCUS_ROPE_UNSCALED && scaling->kind != LOCUS_ROPE_LINEAR;
    if (rope->own_ladders && scaled)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: ladder=own with this scaling; expected scaling=none or "
                          "linear");
    return LOCUS_OK;
}

static enum locus_status init_rope(void **state, const struct locus_position_env *env,
                                   const struct locus_position_spec *spec, locus_error *error)
{
    struct locus_rope_scaling scaling = locus_rope_read(spec);
    int length = locus_position_int(spec, "length");
    enum locus_status status = locus_rope_check(&scaling, env->head_dim, error);
    if (!status) status = locus_rope_find_tensors(&scaling, env, error);
    if (status) return status;
    struct rope *rope = calloc(1, sizeof *rope);
    if (!rope) return locus_fail_memory(error, sizeof *rope);
    *state = rope;
    *rope = (struct rope){
        .scaling = scaling,
        .trained = locus_position_int(spec, "trained"),
        .dim = scaling.dim,
        .head_dim = env->head_dim,
        .adjacent = locus_position_int(spec, "pairs") == 1,
        .by_row = length < 0 && locus_rope_varies(&scaling),
        .dynamic = scaling.kind == LOCUS_ROPE_DYNAMIC,
        .own_ladders = locus_position_int(spec, "ladder") == 1,
    };
    rope->n_pairs = (size_t)locus_rope_pairs(spec);
    if (rope->n_pairs == 0)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position rope: p is %g, which rotates none of %d pairs; expected %g or "
                          "more, or position none",
                          locus_position_number(spec, "p"), scaling.dim / 2, 2.0 / scaling.dim);
    const struct locus_places_query places = {"rope", env, spec, locus_position_int(spec, "offset"),
                                              0};
    if ((status = find_sections(rope, &scaling, spec, error)) ||
        (status = locus_places_init(&rope->places, &places, error)))
        return status;
    return make_tables(rope, env, length, error);
}

static enum locus_frame frame(const void *state)
{
    const struct rope *rope = state;
    return rope->by_row ? LOCUS_FRAME_QUERY : LOCUS_FRAME_ABSOLUTE;
}

/* cosines[half], sines[half]; x0[half] and x1[half] are the pairs' members. */
static void rotate_half(float *restrict x0, float *restrict x1, const float *restrict cosines,
                        const float *restrict sines, size_t half)
{
    for (size_t k = 0; k < half; k++) {
        float a = x0[k], b = x1[k];
        x0[k] = a * cosines[k] - b * sines[k];
        x1[k] = a * sines[k] + b * cosines[k];
    }
}

static void rotate_adjacent(float *restrict x, const float *restrict cosines,
                            const float *restrict sines, size_t half)
{
    for (size_t k = 0; k < half; k++) {
        float a = x[2 * k], b = x[2 * k + 1];
        x[2 * k] = a * cosines[k] - b * sines[k];
        x[2 * k + 1] = a * sines[k] + b * cosines[k];
    }
}

/* Rotates n pairs from `first` on, in each of n_heads heads. */
static void rotate_heads(const struct rope *rope, float *rows, int n_heads, const float *cosines,
                         const float *sines, size_t first, size_t n)
{
    for (int h = 0; h < n_heads; h++, rows += rope->head_dim) {
        if (rope->adjacent)
            rotate_adjacent(rows + 2 * first, cosines, sines, n);
        else
            rotate_half(rows + first, rows + half_of(rope) + first, cosines, sines, n);
    }
}

/* Pairs [first, end) to a position in a text longer, n, than the tables are for. */
static void rotate_past(const struct rope *rope, float *rows, int n_heads, int position, int n,
                        size_t first, size_t end)
{
    const double *theta = rope->thetas + (size_t)(n - rope->past - 1) * half_of(rope);
    const int place = locus_place(&rope->places, position);
    float cosines[LOCUS_ANGLES], sines[LOCUS_ANGLES];
    for (; first < end; first += LOCUS_ANGLES) {
        size_t left = end - first, count = left < LOCUS_ANGLES ? left : LOCUS_ANGLES;
        locus_sine_cosine_row(place, theta + first, (int)count, sines, cosines);
        rotate_heads(rope, rows, n_heads, cosines, sines, first, count);
    }
}

/* Pairs [first, end) to a place that the tables have no row for. */
static void rotate_beyond(const struct rope *rope, float *rows, int n_heads, double place,
                          const double *theta, size_t first, size_t end)
{
    float cosines[LOCUS_ANGLES], sines[LOCUS_ANGLES];
    for (; first < end; first += LOCUS_ANGLES) {
        size_t left = end - first, count = left < LOCUS_ANGLES ? left : LOCUS_ANGLES;
        fill_row(rope, place, theta + first, count, cosines, sines);
        rotate_heads(rope, rows, n_heads, cosines, sines, first, count);
    }
}

/* Pairs [first, end) to a position, by one of the tables. */
static void rotate_by_table(const struct rope *rope, float *rows, int n_heads, int position,
                            size_t table, size_t first, size_t end)
{
    const int row = position - rope->first;
    if (row < 0 || row >= rope->n_filled) {
        rotate_beyond(rope, rows, n_heads, locus_place(&rope->places, position),
                      rope->frequencies + table * half_of(rope), first, end);
        return;
    }
    const size_t at = (table * (size_t)rope->n_rows + (size_t)row) * half_of(rope) + first;
    rotate_heads(rope, rows, n_heads, rope->cosines + at, rope->sines + at, first, end - first);
}

/* Rows to positions between two. */
static void rotate_fractions(const struct rope *rope, const struct locus_rotate_op *op)
{
    float *rows = op->rows;
    for (int i = 0; i < op->n; i++, rows += (size_t)op->n_heads * (size_t)rope->head_dim)
        rotate_beyond(rope, rows, op->n_heads,
                      rope->places.offset + (double)op->positions[i] / op->divisor,
                      rope->frequencies, 0, rope->n_pairs);
}

static void rotate(const void *state, const struct locus_rotate_op *op)
{
    const struct rope *rope = state;
    const size_t row_floats = (size_t)op->n_heads * (size_t)rope->head_dim;
    const int n_sections = op->coordinates ? rope->n_axes : 1;
    float *rows = op->rows;
    if (op->divisor > 1) {
        rotate_fractions(rope, op);
        return;
    }
    for (int i = 0; i < op->n; i++, rows += row_floats) {
        const int position = op->positions[i];
        const int length = (op->which == LOCUS_KEY ? op->origin : position) + 1; /* by row */
        const bool past = rope->by_row && length > rope->trained;
        for (int s = 0; s < n_sections; s++) {
            const int along = op->coordinates ? op->coordinates[i * op->n_axes + s] : position;
            const size_t first = op->coordinates ? rope->sections[s] : 0;
            const size_t end = op->coordinates ? rope->sections[s + 1] : rope->n_pairs;
            if (past && rope->dynamic)
                rotate_past(rope, rows, op->n_heads, along, length, first, end);
            else
                rotate_by_table(rope, rows, op->n_heads, along, past, first, end);
        }
    }
}

static int max_positions(const void *state)
{
    const struct rope *rope = state;
    return rope->places.random;
}

/* Places are drawn for whole positions alone, and each row's own frequencies are for its own place.
 */
static bool takes_fractions(const void *state)
{
    const struct rope *rope = state;
    return !rope->places.drawn && !rope->by_row;
}

static bool takes_axes(const void *state, int n_axes)
{
    const struct rope *rope = state;
    return n_axes == rope->n_axes;
}

static const char *const tensors[] = {
    "rope_freqs.weight",
    "rope_factors_short.weight",
    "rope_factors_long.weight",
    NULL,
};

const struct locus_position_scheme locus_scheme_rope = {
    .abi = LOCUS_POSITION_ABI,
    .name = "rope",
    .summary = "queries and keys rotated by an angle that grows with the position (RoFormer)",
    .params = locus_rope_params,
    .tensors = tensors,
    .settle = locus_rope_settle,
    .lacks = locus_rope_lacks,
    .reach = locus_rope_reach,
    .init = init_rope,
    .free = free_rope,
    .fill = fill,
    .rotate = rotate,
    .max_positions = max_positions,
    .takes_axes = takes_axes,
    .takes_fractions = takes_fractions,
    .frame = frame,
};
