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
#include "position/angle.h"
#include "position/registry.h"

struct sinusoidal {
    float *table; /* [session_length, n_embd] */
    int n_embd;
};

/* How a table of `width` columns is filled. */
struct layout {
    bool concat, fairseq;
    double base, offset, factor;
};

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

/* The columns' first part [first] encodes the grid's row, the second its column; without a grid all
 * columns are one table. */
static void fill_table(struct sinusoidal *sinusoidal, const struct layout *layout, int n, int width,
                       double *theta)
{
    int n_embd = sinusoidal->n_embd, first = width > 0 ? n_embd / 2 : n_embd;
    double *theta_column = theta + (first + 1) / 2;
    fill_frequencies(layout, first, theta);
    if (width > 0) fill_frequencies(layout, n_embd - first, theta_column);
    for (int p = 0; p < n; p++) {
        float *row = sinusoidal->table + (size_t)p * (size_t)n_embd;
        fill_row(layout, first, theta, width > 0 ? p / width : p, row);
        if (width > 0) fill_row(layout, n_embd - first, theta_column, p % width, row + first);
    }
}

static void free_sinusoidal(void *state)
{
    struct sinusoidal *sinusoidal = state;
    if (sinusoidal) locus_aligned_free(sinusoidal->table);
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
    };
    int width = locus_position_int(spec, "width");
    int table_width = width > 0 ? env->n_embd / 2 : env->n_embd;
    int least = layout.fairseq ? 4 : 1;
    if (table_width < least)
        return locus_fail(error, LOCUS_ERROR_ARGUMENT,
                          "position sinusoidal: the encoding is %d wide%s; expected %d or more%s",
                          table_width, width > 0 ? " (half the model's, for the grid)" : "", least,
                          layout.fairseq ? " for denominator=fairseq" : "");
    struct sinusoidal *sinusoidal = calloc(1, sizeof *sinusoidal);
    if (!sinusoidal) return locus_fail_memory(error, sizeof *sinusoidal);
    *state = sinusoidal;
    size_t row_bytes = (size_t)env->n_embd * sizeof(float);
    sinusoidal->n_embd = env->n_embd;
    sinusoidal->table = locus_aligned_zalloc((size_t)env->session_length, row_bytes);
    double *theta = calloc((size_t)env->n_embd / 2 + 2, sizeof *theta);
    bool failed = !sinusoidal->table || !theta;
    if (!failed) fill_table(sinusoidal, &layout, env->session_length, width, theta);
    free(theta);
    return failed ? locus_fail_memory(error, (size_t)env->session_length * row_bytes) : LOCUS_OK;
}

static void embed(const void *state, const struct locus_embed_op *op)
{
    const struct sinusoidal *sinusoidal = state;
    size_t n_embd = (size_t)sinusoidal->n_embd;
    for (int i = 0; i < op->n; i++) {
        const int place = op->coordinates ? op->coordinates[i] : op->first_position + i;
        const float *row = sinusoidal->table + (size_t)place * n_embd;
        float *x = op->x + (size_t)i * n_embd;
        for (size_t c = 0; c < n_embd; c++)
            x[c] += row[c];
    }
}

static bool takes_axes(const void *state, int n_axes)
{
    (void)state;
    return n_axes == 1;
}

static const struct locus_position_param params[] = {
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
    {0},
};

const struct locus_position_scheme locus_scheme_sinusoidal = {
    .abi = LOCUS_POSITION_ABI,
    .name = "sinusoidal",
    .summary = "fixed sines and cosines of the position, added to the token's vector",
    .params = params,
    .init = init_sinusoidal,
    .free = free_sinusoidal,
    .embed = embed,
    .takes_axes = takes_axes,
};
