/* Sinusoidal absolute positions: sines and cosines of p theta_k, added to the token embedding.
 *
 * Vaswani et al., "Attention Is All You Need" (arXiv 1706.03762), section 3.5: PE[p, 2k] =
 * sin(p base^(-2k/D)), PE[p, 2k+1] = cos(the same), which is layout=interleaved,denominator=paper.
 * layout=concat puts all sines before all cosines, and denominator=fairseq spaces the frequencies
 * as base^(-k/(D/2 - 1)), both as tensor2tensor and fairseq do (fairseq with offset=2). width > 0
 * reads p as a cell of a grid: half of the columns encode its row p div width, the rest its column.
 */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/math.h"
#include "position/places.h"
#include "position/registry.h"
#include "position/tables.h"

/* How a table of some columns is filled. */
struct layout {
    bool concat, fairseq;
    double base, offset, factor;
    int width; /* of the grid; 0: none */
};

struct sinusoidal {
    struct layout layout;
    struct locus_places places;
    double *theta; /* [n_embd / 2 + 2]: of both parts of the columns */
    float *table;  /* [n_rows, n_embd]: positions from `first` on */
    float *row;    /* [n_embd]: of one that has no row there, worked out as it comes */
    int first, n_rows, n_filled; /* rows there are room for, and that have been filled */
    int n_embd;
};

enum { MOST_ROWS = 1 << 16 };

/* theta[(width + 1) / 2]: the frequency of each pair of columns. */
static void fill_frequencies(const struct layout *layout, int width, double *theta)
{
    for (int k = 0; k < (width + 1) / 2; k++) {
        double exponent = layout->fairseq ? (double)k / (width / 2 - 1) : 2.0 * k / width;
        theta[k] = locus_power(layout->base, -exponent);
    }
}

/* row[width]: the encoding of position p. Of an odd width, the last column is zero in concat and a
 * sine in interleaved. */
static void fill_row(const struct layout *layout, int width, const double *theta, int p, float *row)
{
    int half = width / 2;
    double position = (p + layout->offset) / layout->factor;
    for (int k = 0; k < (layout->concat ? half : (width + 1) / 2); k++) {
        double sine, cosine;
        locus_sine_cosine(position * theta[k], &sine, &cosine);
        row[layout->concat ? k : 2 * k] = (float)sine;
        if (layout->concat)
            row[half + k] = (float)cosine;
        else if (2 * k + 1 < width)
            row[2 * k + 1] = (float)cosine;
    }
}

/* The columns' first part encodes the grid's row, the second its column; without a grid all columns
 * are one part. */
static int first_part(const struct sinusoidal *sinusoidal)
{
    return sinusoidal->layout.width > 0 ? sinusoidal->n_embd / 2 : sinusoidal->n_embd;
}

static void fill_position(const struct sinusoidal *sinusoidal, int position, float *row)
{
    const int p = locus_place(&sinusoidal->places, position);
    const struct layout *layout = &sinusoidal->layout;
    const int first = first_part(sinusoidal), width = layout->width;
    const double *theta = sinusoidal->theta;
    fill_row(layout, first, theta, width > 0 ? p / width : p, row);
    if (width > 0)
        fill_row(layout, sinusoidal->n_embd - first, theta + (first + 1) / 2, p % width,
                 row + first);
}

static void fill(void *state, int n_positions)
{
    struct sinusoidal *sinusoidal = state;
    const int n = n_positions - sinusoidal->first;
    for (int *row = &sinusoidal->n_filled; *row < n && *row < sinusoidal->n_rows; (*row)++)
        fill_position(sinusoidal, sinusoidal->first + *row,
                      sinusoidal->table + (size_t)*row * (size_t)sinusoidal->n_embd);
}

static void free_sinusoidal(void *state)
{
    struct sinusoidal *sinusoidal = state;
    if (!sinusoidal) return;
    locus_places_free(&sinusoidal->places);
    locus_aligned_free(sinusoidal->table);
    free(sinusoidal->row);
    free(sinusoidal->theta);
    free(sinusoidal);
}

static enum locus_status init_sinusoidal(void **state, const struct locus_position_env *env,
                                         const struct locus_position_spec *spec, locus_error *error)
{
    struct layout layout = {
        .concat = locus_position_int(spec, "layout") == 1,
        .fairseq = locus_position_int(spec, "denominator") == 1,
        .base = locus_position_number(spec, "base"),
        .offset = locus_position_number(spec, "offset"),
        .factor = locus_position_number(spec, "factor"),
        .width = locus_position_int(spec, "width"),
    };
    int table_width = layout.width > 0 ? env->n_embd / 2 : env->n_embd;
    int least = layout.fairseq ? 4 : 1;
    if (table_width < least)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position sinusoidal: the encoding is %d wide%s; expected %d or more%s",
                          table_width, layout.width > 0 ? " (half the model's, for the grid)" : "",
                          least, layout.fairseq ? " for denominator=fairseq" : "");
    struct sinusoidal *sinusoidal = calloc(1, sizeof *sinusoidal);
    if (!sinusoidal) return locus_fail_memory(error, sizeof *sinusoidal);
    *state = sinusoidal;
    const size_t n_embd = (size_t)env->n_embd, row_bytes = n_embd * sizeof(float);
    const int n = env->session_length - env->first_position;
    *sinusoidal = (struct sinusoidal){.layout = layout,
                                      .first = env->first_position,
                                      .n_rows = n < MOST_ROWS ? n : MOST_ROWS,
                                      .n_embd = env->n_embd};
    const struct locus_places_query places = {"sinusoidal", env, spec, 0, 0};
    enum locus_status status = locus_places_init(&sinusoidal->places, &places, error);
    if (status) return status;
    sinusoidal->table = locus_aligned_zalloc((size_t)sinusoidal->n_rows, row_bytes);
    sinusoidal->row = malloc(row_bytes);
    sinusoidal->theta = calloc(n_embd / 2 + 2, sizeof *sinusoidal->theta);
    if (!sinusoidal->table || !sinusoidal->row || !sinusoidal->theta)
        return locus_table_fail(error, "sinusoidal", sinusoidal->n_rows,
                                (size_t)sinusoidal->n_rows * row_bytes);
    const int part = first_part(sinusoidal);
    fill_frequencies(&layout, part, sinusoidal->theta);
    if (layout.width > 0)
        fill_frequencies(&layout, env->n_embd - part, sinusoidal->theta + (part + 1) / 2);
    return LOCUS_OK;
}

/* Scratch may be written to: one thread at a time embeds. */
static const float *row_of(const struct sinusoidal *sinusoidal, int place)
{
    const int row = place - sinusoidal->first;
    if (row >= 0 && row < sinusoidal->n_filled)
        return sinusoidal->table + (size_t)row * (size_t)sinusoidal->n_embd;
    fill_position(sinusoidal, place, sinusoidal->row);
    return sinusoidal->row;
}

static void embed(const void *state, const struct locus_embed_op *op)
{
    const struct sinusoidal *sinusoidal = state;
    size_t n_embd = (size_t)sinusoidal->n_embd;
    for (int i = 0; i < op->n; i++) {
        const int place = op->coordinates ? op->coordinates[i] : op->first_position + i;
        const float *row = row_of(sinusoidal, place);
        float *x = op->x + (size_t)i * n_embd;
        for (size_t c = 0; c < n_embd; c++)
            x[c] += row[c];
    }
}

static int max_positions(const void *state)
{
    const struct sinusoidal *sinusoidal = state;
    return sinusoidal->places.random;
}

static bool takes_axes(const void *state, int n_axes)
{
    (void)state;
    return n_axes == 1;
}

static const struct locus_param params[] = {
    {"layout", LOCUS_PARAM_CHOICE, "interleaved", 0, 0, "interleaved|concat", false,
     "sine and cosine side by side, or all sines before all cosines"},
    {"base", LOCUS_PARAM_FLOAT, "10000", 1, 1e15, NULL, false,
     "wavelengths grow from 2 pi towards 2 pi base"},
    {"denominator", LOCUS_PARAM_CHOICE, "paper", 0, 0, "paper|fairseq", false,
     "frequency k is base^(-2k/D), or base^(-k/(D/2 - 1))"},
    {"offset", LOCUS_PARAM_INT, "0", 0, 1 << 30, NULL, false, "added to the position"},
    {"factor", LOCUS_PARAM_FLOAT, "1", 1e-6, 1e6, "auto", false,
     "divides the position (after the offset)"},
    {"width", LOCUS_PARAM_INT, "0", 0, 1 << 30, NULL, false,
     "above 0: positions are the cells of a grid this wide, row by row"},
    LOCUS_PLACE_PARAMS,
    {0},
};

const struct locus_position_scheme locus_scheme_sinusoidal = {
    .abi = LOCUS_POSITION_ABI,
    .name = "sinusoidal",
    .summary = "fixed sines and cosines of the position, added to the token's vector",
    .params = params,
    .lacks = locus_places_lacks,
    .init = init_sinusoidal,
    .free = free_sinusoidal,
    .fill = fill,
    .max_positions = max_positions,
    .embed = embed,
    .takes_axes = takes_axes,
};
