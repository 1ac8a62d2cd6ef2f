/* Learned absolute positions: h0[t] = wte[token] + wpe[offset + position].
 *
 * Radford et al., "Language Models are Unsupervised Multitask Learners" (GPT-2, 2019), with
 * offset=0; OPT (Zhang et al., arXiv 2205.01068) has offset=2. The table's rows, not the metadata,
 * say how many positions there are. Past them `beyond` decides: `interpolate` reads row p / factor,
 * linearly between two rows (position interpolation, Chen et al., arXiv 2306.15595, for a table).
 * factor=auto puts the session's last position on the last row: (n - 1) / (rows - 1), at least 1.
 * `resize` stretches it as pictures are resized, whose pixels have centres: row (p + 1/2) / factor
 * - 1/2, not before the first nor past the last (as tables of image models are made larger,
 * Dosovitskiy et al., arXiv 2010.11929, section 3.2, here linearly); factor=auto is n / rows, at
 * least 1. `tile` reads the rows as `wrap` does: a table that is made longer by copies of itself,
 * as Longformer (Beltagy et al., arXiv 2004.05150, section 5) and BigBird begin from RoBERTa's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "position/places.h"
#include "position/registry.h"
#include "position/tensors.h"

enum beyond {
    BEYOND_ERROR,
    BEYOND_CLAMP,
    BEYOND_WRAP,
    BEYOND_INTERPOLATE,
    BEYOND_TILE,
    BEYOND_RESIZE
};

struct learned {
    const float *table; /* [n_rows, n_embd], past the offset; the model's */
    int n_rows, n_embd;
    enum beyond beyond;
    double factor;
    struct locus_places places;
};

/* The largest number of positions whose p / factor is at most the last row. */
static int interpolated_positions(int n_rows, double factor)
{
    double last = n_rows - 1, p = floor(last * factor);
    if (p >= 0x7FFFFFFE) return 0x7FFFFFFF;
    while (p / factor > last)
        p--;
    while ((p + 1) / factor <= last)
        p++;
    return (int)p + 1;
}

static const char table_name[] = "position_embd.weight";

/* The rows of a table that is resized. */
static int resized_positions(int n_rows, double factor)
{
    const double n = floor(n_rows * factor);
    return n >= 0x7FFFFFFF ? 0x7FFFFFFF : n > 1 ? (int)n : 1;
}

/* factor=auto: the least under which a table that is stretched has the session's last place; 1
 * where there is none to stretch, as init will say. */
static double least_factor(const struct locus_position_env *env,
                           const struct locus_position_spec *spec)
{
    const int ends = locus_position_int(spec, "beyond") == BEYOND_RESIZE ? 0 : 1;
    int rows = 0, cols;
    if (!env->tensor || !env->tensor(env->source, table_name, &rows, &cols)) return 1;
    /* Rows, or steps from the first to the last. */
    const double of_table = (double)rows - locus_position_int(spec, "offset") - ends;
    const int random = locus_position_int(spec, "random");
    const double wanted = (random > 0 ? random : env->session_length) - ends;
    if (of_table < 1 || wanted <= of_table) return 1;
    double factor = wanted / of_table;
    while (wanted / factor > of_table || of_table * factor < wanted) /* it was rounded down */
        factor = nextafter(factor, (double)INFINITY);
    return factor;
}

/* factor=auto: a word's value is negative. */
static void settle(struct locus_position_spec *spec, const struct locus_position_env *env)
{
    if (locus_position_number(spec, "factor") < 0)
        locus_position_set(spec, "factor", least_factor(env, spec));
}

static const char *lacks(const struct locus_position_spec *spec, const char *key)
{
    const int beyond = locus_position_int(spec, "beyond");
    const bool stretches = beyond == BEYOND_INTERPOLATE || beyond == BEYOND_RESIZE;
    if (!strcmp(key, "factor") && !stretches) return "beyond=interpolate or resize";
    return locus_places_lacks(spec, key);
}

/* Places that there are; 0: unbounded. */
static int count_places(const struct learned *learned)
{
    switch (learned->beyond) {
    case BEYOND_ERROR:
        return learned->n_rows;
    case BEYOND_INTERPOLATE:
        return interpolated_positions(learned->n_rows, learned->factor);
    case BEYOND_RESIZE:
        return resized_positions(learned->n_rows, learned->factor);
    default:
        return 0;
    }
}

static void free_learned(void *state)
{
    struct learned *learned = state;
    if (learned) locus_places_free(&learned->places);
    free(learned);
}

static enum locus_status init_learned(void **state, const struct locus_position_env *env,
                                      const struct locus_position_spec *spec, locus_error *error)
{
    const struct locus_tensor_query query = {env, "learned", LOCUS_WHOLE_MODEL};
    const char *name = table_name;
    int rows, offset = locus_position_int(spec, "offset");
    enum beyond beyond = (enum beyond)locus_position_int(spec, "beyond");
    double factor = locus_position_number(spec, "factor");
    const float *table;
    enum locus_status status =
        locus_tensor_find(&query, name, LOCUS_ANY_ROWS, env->n_embd, &table, &rows, error);
    if (status) return status;
    if (offset >= rows)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position learned: offset is %d; expected less than the %d rows of %s",
                          offset, rows, name);
    struct learned *learned = calloc(1, sizeof *learned);
    if (!learned) return locus_fail_memory(error, sizeof *learned);
    *state = learned;
    *learned = (struct learned){.table = table + (size_t)offset * (size_t)env->n_embd,
                                .n_rows = rows - offset,
                                .n_embd = env->n_embd,
                                .beyond = beyond,
                                .factor = factor};
    const struct locus_places_query places = {"learned", env, spec, 0, count_places(learned)};
    return locus_places_init(&learned->places, &places, error);
}

static int max_positions(const void *state)
{
    const struct learned *learned = state;
    return learned->places.random ? learned->places.random : count_places(learned);
}

/* The table's row for a place, and how far towards the next row it lies, in [0, 1). */
static int find_row(const struct learned *learned, int place, float *towards_next)
{
    int last = learned->n_rows - 1;
    *towards_next = 0;
    if (learned->beyond == BEYOND_WRAP || learned->beyond == BEYOND_TILE)
        return place % learned->n_rows;
    const bool resized = learned->beyond == BEYOND_RESIZE;
    if (learned->beyond != BEYOND_INTERPOLATE && !resized) return place < last ? place : last;
    const double centred = (place + 0.5) / learned->factor - 0.5;
    const double x = !resized ? place / learned->factor : centred > 0 ? centred : 0;
    const double row = floor(x);
    if (row >= last) return last;
    *towards_next = (float)(x - row);
    return (int)row;
}

static void embed(const void *state, const struct locus_embed_op *op)
{
    const struct learned *learned = state;
    size_t n_embd = (size_t)learned->n_embd;
    float *x = op->x;
    for (int i = 0; i < op->n; i++, x += n_embd) {
        const int position = op->coordinates ? op->coordinates[i] : op->first_position + i;
        const int place = locus_place(&learned->places, position);
        float t;
        const float *row = learned->table + (size_t)find_row(learned, place, &t) * n_embd;
        if (t == 0) {
            for (size_t d = 0; d < n_embd; d++)
                x[d] += row[d];
        } else {
            const float *next = row + n_embd;
            for (size_t d = 0; d < n_embd; d++)
                x[d] += row[d] + t * (next[d] - row[d]);
        }
    }
}

static bool takes_axes(const void *state, int n_axes)
{
    (void)state;
    return n_axes == 1;
}

static const struct locus_param params[] = {
    {"offset", LOCUS_PARAM_INT, "0", 0, 1 << 30, NULL, false, "the table's row for position 0"},
    {"beyond", LOCUS_PARAM_CHOICE, "error", 0, 0, "error|clamp|wrap|interpolate|tile|resize", false,
     "past the table: refuse, repeat its last row, start again (wrap; as copies one after another "
     "to train on, tile), or stretch it by factor (interpolate; as pictures are, resize)"},
    {"factor", LOCUS_PARAM_FLOAT, "1", 1e-6, 1e6, "auto", false,
     "interpolate: position p reads row p / factor (auto: the last one reads the last row); "
     "resize: "
     "(p + 1/2) / factor - 1/2 (auto: positions over rows)"},
    LOCUS_PLACE_PARAMS,
    {0},
};

static const char *const tensors[] = {
    "position_embd.weight",
    NULL,
};

const struct locus_position_scheme locus_scheme_learned = {
    .abi = LOCUS_POSITION_ABI,
    .name = "learned",
    .summary = "a learned vector a position, added to the token's (GPT-2, OPT)",
    .params = params,
    .tensors = tensors,
    .settle = settle,
    .lacks = lacks,
    .init = init_learned,
    .free = free_learned,
    .max_positions = max_positions,
    .embed = embed,
    .takes_axes = takes_axes,
};
