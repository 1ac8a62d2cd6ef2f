/* FIRE: a small learned network of the distance, in proportion to the query's position.
 *
 * Li et al., "Functional Interpolation for Relative Positions Improves Long Context Transformers"
 * (arXiv 2310.04418), equations 5, 6 and 18: x = ln(|c (i - j)| + 1) / (ln(|c max(threshold, i)| +
 * 1) + eps), score(i, j) += (W2 relu(W1 x + b1) + b2)_h. Positions i count from 0.
 *
 * The network has one input and relus, so each head is a broken line of x: its corners are found
 * once, and a score costs one multiply-add on the piece where its x lies.
 */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/math.h"
#include "position/registry.h"
#include "position/tables.h"
#include "position/tensors.h"

/* The network of one layer, [w] hidden. */
struct network {
    const float *c, *threshold;     /* [1] each */
    const float *w1, *b1, *w2, *b2; /* [w, 1], [w], [n_head, w], [n_head] */
    int width;
};

struct fire_layer {
    double c, threshold;
    float *numerators;  /* [n_distances]: ln(|c distance| + 1) */
    float *reciprocals; /* [n_rows]: one over x's denominator at each i from the first on */
    int n_corners;
    /* Piece s is from corners[s] up to the next corner: heights + slopes (x - corners[s]). */
    float *corners;          /* [n_corners], rising, the first 0 */
    float *heights, *slopes; /* [n_head, n_corners] */
};

struct fire {
    int n_layers; /* 1: all layers share the first */
    double eps;
    struct locus_position_env env;
    int n_distances, n_rows; /* that have been filled */
    struct fire_layer layers[];
};

/* ---- set-up ------------------------------------------------------------------------------- */

static enum locus_status find_network(struct network *network, const struct locus_position_env *env,
                                      int layer, locus_error *error)
{
    const struct locus_tensor_query query = {env, "fire", layer};
    int w = 0, n_head = env->n_head;
    enum locus_status status;
    if ((status = locus_tensor_find(&query, "position_fire.c", 1, 1, &network->c, NULL, error)) ||
        (status = locus_tensor_find(&query, "position_fire.threshold", 1, 1, &network->threshold,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_fire.fc1.weight", LOCUS_ANY_ROWS, 1,
                                    &network->w1, &w, error)) ||
        (status = locus_tensor_find(&query, "position_fire.fc1.bias", 1, w, &network->b1, NULL,
                                    error)) ||
        (status = locus_tensor_find(&query, "position_fire.fc2.weight", n_head, w, &network->w2,
                                    NULL, error)) ||
        (status = locus_tensor_find(&query, "position_fire.fc2.bias", 1, n_head, &network->b2, NULL,
                                    error)))
        return status;
    network->width = w;
    return LOCUS_OK;
}

/* A head's value at x, and its slope to the right of x. */
static double evaluate(const struct network *network, int head, double x, double *slope)
{
    double sum = (double)network->b2[head];
    *slope = 0;
    for (int n = 0; n < network->width; n++) {
        double w1 = (double)network->w1[n], w2 = (double)network->w2[head * network->width + n];
        double hidden = w1 * x + (double)network->b1[n];
        if (hidden > 0) sum += w2 * hidden;
        if (hidden > 0 || (hidden == 0 && w1 > 0)) *slope += w2 * w1;
    }
    return sum;
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double log_of(double c, double distance)
{
    return locus_log(fabs(c * distance) + 1);
}

/* One over x's denominator at position i. */
static float reciprocal(const struct fire_layer *layer, int i, double eps)
{
    const double threshold = layer->threshold;
    const double denominator = log_of(layer->c, threshold > i ? threshold : i) + eps;
    return denominator > 0 ? (float)(1 / denominator) : 0;
}

static void fill(void *state, int n_positions)
{
    struct fire *fire = state;
    const int n_distances = locus_distance_count(&fire->env, n_positions);
    const int first = fire->env.first_position;
    for (int l = 0; l < fire->n_layers; l++) {
        struct fire_layer *layer = &fire->layers[l];
        for (int d = fire->n_distances; d < n_distances; d++)
            layer->numerators[d] = (float)log_of(layer->c, d);
        for (int row = fire->n_rows; row < n_positions - first; row++)
            layer->reciprocals[row] = reciprocal(layer, first + row, fire->eps);
    }
    fire->n_distances = n_distances;
    fire->n_rows = n_positions - first;
}

static enum locus_status make_layer(struct fire_layer *layer, const struct network *network,
                                    const struct locus_position_env *env, locus_error *error)
{
    const size_t most = (size_t)network->width + 1, n_head = (size_t)env->n_head;
    const int n_distances = locus_distance_count(env, env->session_length);
    layer->c = (double)*network->c;
    layer->threshold = (double)*network->threshold;
    layer->numerators = locus_aligned_zalloc((size_t)n_distances, sizeof(float));
    layer->reciprocals = locus_aligned_zalloc((size_t)n_distances, sizeof(float));
    layer->corners = calloc(most, sizeof(float));
    layer->heights = calloc(n_head * most, sizeof(float));
    layer->slopes = calloc(n_head * most, sizeof(float));
    if (!layer->numerators || !layer->reciprocals || !layer->corners || !layer->heights ||
        !layer->slopes)
        return locus_table_fail(error, "fire", n_distances,
                                2 * (size_t)n_distances * sizeof(float));
    /* x is never below 0. */
    layer->n_corners = 1;
    for (int n = 0; n < network->width; n++) {
        float corner = -network->b1[n] / network->w1[n];
        if (corner > 0 && corner < HUGE_VALF) layer->corners[layer->n_corners++] = corner;
    }
    qsort(layer->corners, (size_t)layer->n_corners, sizeof(float), compare);
    for (size_t h = 0; h < n_head; h++)
        for (int s = 0; s < layer->n_corners; s++) {
            /* The slope is that of the piece's middle: a corner is rounded. */
            double x = (double)layer->corners[s], slope;
            double next = s + 1 < layer->n_corners ? (double)layer->corners[s + 1] : x + 2;
            size_t at = h * (size_t)layer->n_corners + (size_t)s;
            layer->heights[at] = (float)evaluate(network, (int)h, x, &slope);
            evaluate(network, (int)h, (x + next) / 2, &slope);
            layer->slopes[at] = (float)slope;
        }
    return LOCUS_OK;
}

static void free_fire(void *state)
{
    struct fire *fire = state;
    for (int l = 0; fire && l < fire->n_layers; l++) {
        locus_aligned_free(fire->layers[l].numerators);
        locus_aligned_free(fire->layers[l].reciprocals);
        free(fire->layers[l].corners);
        free(fire->layers[l].heights);
        free(fire->layers[l].slopes);
    }
    free(fire);
}

static enum locus_status init_fire(void **state, const struct locus_position_env *env,
                                   const struct locus_position_spec *spec, locus_error *error)
{
    static const char *const names[] = {"position_fire.c",          "position_fire.threshold",
                                        "position_fire.fc1.weight", "position_fire.fc1.bias",
                                        "position_fire.fc2.weight", "position_fire.fc2.bias"};
    const size_t n_names = sizeof names / sizeof *names;
    int n_layers = locus_tensors_by_layer(env, names, n_names) ? env->n_layer : 1;
    size_t n_bytes = sizeof(struct fire) + (size_t)n_layers * sizeof(struct fire_layer);
    struct fire *fire = calloc(1, n_bytes);
    if (!fire) return locus_fail_memory(error, n_bytes);
    *state = fire;
    fire->n_layers = n_layers;
    fire->eps = locus_position_number(spec, "eps");
    fire->env = *env;
    enum locus_status status = LOCUS_OK;
    for (int layer = 0; !status && layer < n_layers; layer++) {
        struct network network;
        status = find_network(&network, env, layer, error);
        if (!status) status = make_layer(&fire->layers[layer], &network, env, error);
    }
    return status;
}

/* ---- use ---------------------------------------------------------------------------------- */

/* The piece of x. */
static int piece_of(const struct fire_layer *layer, float x)
{
    int low = 0, high = layer->n_corners;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (x >= layer->corners[middle])
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* scores[n] += the piece's line at numerators[n] falling distances. */
static void add_piece(float *restrict scores, const float *restrict numerators, int n, float factor,
                      float corner, float height, float slope)
{
    for (int j = 0; j < n; j++)
        scores[j] += height + slope * (numerators[-j] * factor - corner);
}

static void bias(const void *state, const struct locus_bias_op *op)
{
    const struct fire *fire = state;
    const struct fire_layer *layer = &fire->layers[fire->n_layers > 1 ? op->layer : 0];
    const size_t row = (size_t)op->head * (size_t)layer->n_corners;
    const float *heights = layer->heights + row, *slopes = layer->slopes + row;
    const int at_row = op->q_position - fire->env.first_position; /* below 0: a policy moved it */
    const float factor =
        at_row >= 0 ? layer->reciprocals[at_row] : reciprocal(layer, op->q_position, fire->eps);
    const int *k_positions = op->k_positions, n_k = op->n_k;
    for (int j = 0; j < n_k;) {
        int at = k_positions ? k_positions[j] : op->k_first + j, distance = op->q_position - at;
        int run = 1;
        int s = piece_of(layer, layer->numerators[distance] * factor);
        const float *numerators = layer->numerators + distance;
        /* Distances fall along the row, and x with them: keys of one piece lie together. */
        if (!k_positions)
            while (j + run < n_k && numerators[-run] * factor >= layer->corners[s])
                run++;
        add_piece(op->scores + j, numerators, run, factor, layer->corners[s], heights[s],
                  slopes[s]);
        j += run;
    }
}

static const struct locus_param params[] = {
    {"eps", LOCUS_PARAM_FLOAT, "1e-06", 0, 1, NULL, false, "added to the denominator of x"},
    {0},
};

static const char *const tensors[] = {
    "position_fire.c",
    "position_fire.threshold",
    "position_fire.fc1.weight",
    "position_fire.fc1.bias",
    "position_fire.fc2.weight",
    "position_fire.fc2.bias",
    "blk.N.position_fire.c",
    "blk.N.position_fire.threshold",
    "blk.N.position_fire.fc1.weight",
    "blk.N.position_fire.fc1.bias",
    "blk.N.position_fire.fc2.weight",
    "blk.N.position_fire.fc2.bias",
    NULL,
};

const struct locus_position_scheme locus_scheme_fire = {
    .abi = LOCUS_POSITION_ABI,
    .name = "fire",
    .summary = "a small network of the distance over the position, added to each score (FIRE)",
    .params = params,
    .tensors = tensors,
    .init = init_fire,
    .free = free_fire,
    .fill = fill,
    .bias = bias,
};
