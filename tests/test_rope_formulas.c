/* Rotary positions and their scalings, through the hooks, against the papers' formulas written out
 * plainly in double, and published values.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "position/rope_scaling.h"
#include "position_testing.h"
#include "testing.h"

enum { HEAD_DIM = 8, N = 64, TRAINED = 16 };

/* ---- arithmetic --------------------------------------------------------------------------- */

START_TEST(angles_of_the_hot_path_are_within_1e7)
{
    double theta[LOCUS_ANGLES];
    float sines[LOCUS_ANGLES], cosines[LOCUS_ANGLES];
    for (int k = 0; k < LOCUS_ANGLES; k++)
        theta[k] = pow(10000, -k / 64.0);
    static const int positions[] = {0, 1, 2, 3, 5, 17, 100, 4095, 131071, 1000003};
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        int p = positions[i];
        locus_sine_cosine_row(p, theta, LOCUS_ANGLES, sines, cosines);
        for (int k = 0; k < LOCUS_ANGLES; k++) {
            ck_assert_double_le(fabs((double)sines[k] - sin(p * theta[k])), 1e-7);
            ck_assert_double_le(fabs((double)cosines[k] - cos(p * theta[k])), 1e-7);
        }
    }
}
END_TEST

START_TEST(logarithms_and_powers_are_those_of_libm)
{
    for (double x = 1e-9; x < 1e12; x *= 1.37) {
        ck_assert_double_le(fabs(locus_log(x) - log(x)), 4e-16 * fmax(1, fabs(log(x))));
        ck_assert_double_le(fabs(locus_power(x, 0.37) / pow(x, 0.37) - 1), 1e-14);
    }
    ck_assert_double_eq(locus_log(1), 0);
}
END_TEST

static const struct range {
    int dim;
    double trained, low, high;
} ranges[] = {
    {64, 1024, 5, 18},
    {64, 2048, 8, 21},
    {128, 2048, 16, 41},
    {128, 4096, 20, 46},
};

START_TEST(yarn_ranges_are_the_known_ones)
{
    const struct range *range = &ranges[_i];
    struct locus_rope_scaling scaling = {.kind = LOCUS_ROPE_YARN,
                                         .dim = range->dim,
                                         .base = 10000,
                                         .trained = range->trained,
                                         .beta_fast = 32,
                                         .beta_slow = 1,
                                         .truncate = true};
    double low, high;
    locus_rope_yarn_range(&scaling, &low, &high);
    ck_assert_double_eq(low, range->low);
    ck_assert_double_eq(high, range->high);
    scaling.truncate = false;
    locus_rope_yarn_range(&scaling, &low, &high);
    ck_assert(floor(low) == range->low && ceil(high) == range->high && low != range->low);
}
END_TEST

/* A length within which no pair turns even once: all are below 0, where the range ends at both
 * sides, and pairs 1 and on are divided. */
START_TEST(yarn_range_of_one_pair_divides_by_no_zero)
{
    struct locus_rope_scaling scaling = {.kind = LOCUS_ROPE_YARN,
                                         .dim = 8,
                                         .base = 10000,
                                         .factor = 4,
                                         .trained = 6,
                                         .beta_fast = 32,
                                         .beta_slow = 1,
                                         .truncate = true};
    double low, high, theta[4];
    locus_rope_yarn_range(&scaling, &low, &high);
    ck_assert_double_eq(low, 0);
    ck_assert_double_eq(high, 0.001);
    locus_rope_frequencies(&scaling, 24, theta);
    ck_assert_double_eq(theta[0], 1);
    for (int k = 1; k < 4; k++)
        position_near(theta[k], pow(10000, -2.0 * k / 8) / 4, 1e-15, "yarn", k);
}
END_TEST

/* Positions counted in thirds: 100 of them are at 33 1/3. */
START_TEST(positions_between_two_turn_by_their_part)
{
    struct locus_position_env env = position_env(NULL);
    struct locus_position position = position_open(&env, "rope:offset=2");
    for (int at = 0; at < 200; at += 7) {
        float raw[HEAD_DIM], row[HEAD_DIM];
        position_random(raw, HEAD_DIM, 1, (unsigned)at);
        memcpy(row, raw, sizeof row);
        const struct locus_rotate_op op = {.which = LOCUS_QUERY,
                                           .rows = row,
                                           .n = 1,
                                           .n_heads = 1,
                                           .positions = &at,
                                           .divisor = 3};
        locus_position_rotate(&position, &op);
        for (int k = 0; k < HEAD_DIM / 2; k++) {
            const double angle = (at / 3.0 + 2) * pow(10000, -2.0 * k / HEAD_DIM);
            const double x0 = (double)raw[k], x1 = (double)raw[k + HEAD_DIM / 2];
            position_near((double)row[k], x0 * cos(angle) - x1 * sin(angle), 1e-6, "x0", at);
            position_near((double)row[k + HEAD_DIM / 2], x0 * sin(angle) + x1 * cos(angle), 1e-6,
                          "x1", at);
        }
    }
    locus_position_free(&position);
}
END_TEST

/* p-RoPE: the pairs of the highest frequencies as with p=1, the others untouched by m, too. */
START_TEST(share_of_pairs_that_rotate_is_the_fastest)
{
    static const char *const specs[][2] = {
        {"yarn:factor=4", "yarn:factor=4,p=0.7"},
        {"yarn:factor=4,pairs=adjacent", "yarn:factor=4,p=0.7,pairs=adjacent"}};
    struct locus_position_env env = position_env(NULL);
    for (int i = 0; i < 2; i++) {
        struct locus_position whole = position_open(&env, specs[i][0]);
        struct locus_position part = position_open(&env, specs[i][1]);
        float raw[HEAD_DIM], all[HEAD_DIM], some[HEAD_DIM];
        position_random(raw, HEAD_DIM, 1, 7);
        memcpy(all, raw, sizeof raw);
        memcpy(some, raw, sizeof raw);
        position_rotate(&whole, 0, LOCUS_QUERY, all, 1, 9, 0);
        position_rotate(&part, 0, LOCUS_QUERY, some, 1, 9, 0);
        for (int d = 0; d < HEAD_DIM; d++) {
            const int pair = i == 0 ? d % (HEAD_DIM / 2) : d / 2;
            ck_assert_float_eq(some[d], pair < 2 ? all[d] : raw[d]); /* floor(0.7 * 8 / 2) */
            ck_assert_float_ne(all[d], raw[d]);
        }
        locus_position_free(&whole);
        locus_position_free(&part);
    }
    position_refused(&env, "rope:p=0.2", "p is 0.2, which rotates none of 4 pairs; expected 0.25");
    position_refused(&env, "rope:p=1.5", "p is '1.5'; expected a number from 0 to 1");
    position_refused(&env, "rope:p=0.5,axis1=2", "axis1 is 2; expected a pair");
    position_refused(&env, "rope:p=0.75,axis1=1,ladder=own", "ladder=own with p=0.75");
}
END_TEST

START_TEST(magnitudes_are_the_papers)
{
    struct locus_rope_scaling scaling = {
        .kind = LOCUS_ROPE_LONGROPE, .dim = 96, .factor = 32, .trained = 4096, .attn_factor = -1};
    position_near(locus_rope_magnitude(&scaling), 1.190238, 1e-6, "Phi-3", 0);
    scaling.kind = LOCUS_ROPE_YARN;
    position_near(locus_rope_magnitude(&scaling), 0.1 * log(32) + 1, 1e-15, "yarn", 0);
    scaling.factor = 0.5;
    ck_assert_double_eq(locus_rope_magnitude(&scaling), 1);
    scaling.attn_factor = 0.75;
    ck_assert_double_eq(locus_rope_magnitude(&scaling), 0.75);
    scaling.kind = LOCUS_ROPE_NTK;
    ck_assert_double_eq(locus_rope_magnitude(&scaling), 1);
}
END_TEST

START_TEST(ntk_reach_is_estimated)
{
    static const double trained[] = {2048, 4096, 8192}, reach[] = {2.4, 2.7, 3.0};
    for (int i = 0; i < 3; i++) {
        struct locus_rope_scaling scaling = {
            .kind = LOCUS_ROPE_NTK, .dim = 128, .base = 10000, .factor = 4, .trained = trained[i]};
        ck_assert_double_le(fabs(locus_rope_ntk_reach(&scaling) - reach[i]), 0.051);
    }
}
END_TEST

/* ---- rotation, against plain formulas ----------------------------------------------------- */

/* Theta of pair k of r dimensions as the papers have it, for a text of n positions. */
typedef double (*plain_theta)(int k, int r, double n);

static const float short_factors[4] = {1, 1.1F, 1.25F, 1.5F}, long_factors[4] = {1, 2, 4.5F, 9};
static const float freqs[4] = {1, 1, 2, 8};

static double base_theta(double base, int k, int r)
{
    return pow(base, -2.0 * k / r);
}

static double plain(int k, int r, double n)
{
    (void)n;
    return base_theta(10000, k, r);
}

static double linear(int k, int r, double n)
{
    return plain(k, r, n) / 4;
}

static double ntk(int k, int r, double n)
{
    (void)n;
    return base_theta(500 * pow(4, r / (r - 2.0)), k, r);
}

static double dynamic(int k, int r, double n)
{
    double s = n > TRAINED ? 2 * n / TRAINED - 1 : 1;
    return base_theta(10000 * pow(s, r / (r - 2.0)), k, r);
}

static double dynamic_48(int k, int r, double n)
{
    (void)n;
    return dynamic(k, r, 48);
}

/* Hugging Face's form: a mask of extrapolation over both frequencies. */
static double yarn(int k, int r, double n)
{
    (void)n;
    double low = floor(r * log(TRAINED / (4 * 2 * M_PI)) / (2 * log(100)));
    double high = ceil(r * log(TRAINED / (0.5 * 2 * M_PI)) / (2 * log(100)));
    low = fmax(low, 0);
    high = fmin(high, r - 1);
    double ramp = fmin(1, fmax(0, (k - low) / (high - low)));
    double theta = base_theta(100, k, r), extrapolated = 1 - ramp;
    return theta / 4 * (1 - extrapolated) + theta * extrapolated;
}

static double llama3(int k, int r, double n)
{
    (void)n;
    double theta = base_theta(100, k, r), wavelength = 2 * M_PI / theta;
    double low_wavelength = 32 / 1.0, high_wavelength = 32 / 4.0;
    if (wavelength < high_wavelength) return theta;
    if (wavelength > low_wavelength) return theta / 8;
    double smooth = (32 / wavelength - 1.0) / (4.0 - 1.0);
    return (1 - smooth) * theta / 8 + smooth * theta;
}

static double longrope(int k, int r, double n)
{
    return plain(k, r, n) / (double)(n > TRAINED ? long_factors : short_factors)[k];
}

static double longrope_short(int k, int r, double n)
{
    return plain(k, r, n) / (double)short_factors[k];
}

static double longrope_16(int k, int r, double n)
{
    (void)n;
    return longrope(k, r, 16);
}

static double divided(int k, int r, double n)
{
    return plain(k, r, n) / (double)freqs[k];
}

static const struct rotation {
    const char *spec;
    plain_theta theta;
    double m;
    bool by_row, freqs;
} rotations[] = {
    {"rope", plain, 1, false, false},
    {"rope:dim=4", plain, 1, false, false},
    {"rope:pairs=adjacent,dim=6", plain, 1, false, false},
    {"rope", divided, 1, false, true},
    {"linear:factor=4", linear, 1, false, false},
    {"ntk:factor=4,base=500,dim=6", ntk, 1, false, false},
    {"dynamic-ntk:factor=2", dynamic, 1, true, false},
    {"dynamic-ntk:factor=2,pairs=adjacent,dim=4", dynamic, 1, true, false},
    {"rope:scaling=dynamic,factor=2,length=48", dynamic_48, 1, false, false},
    {"yarn:factor=4,base=100,beta_fast=4,beta_slow=0.5", yarn, 1.138629436, false, false},
    {"yarn:factor=4,base=100,beta_fast=4,beta_slow=0.5,attn_factor=0.5", yarn, 0.5, false, false},
    {"llama3:factor=8,base=100,trained=32", llama3, 1, false, false},
    {"longrope:factor=4", longrope, 1.224744871, true, false},
    {"longrope:factor=4,factors=short", longrope_short, 1.224744871, false, false},
    {"longrope:factor=4,length=16,attn_factor=1", longrope_16, 1, false, false},
};

enum { N_ROTATIONS = sizeof rotations / sizeof *rotations };

static struct fake_checkpoint longrope_checkpoint(bool with_freqs)
{
    struct fake_checkpoint checkpoint = {{{"rope_factors_short.weight", 1, 4, short_factors},
                                          {"rope_factors_long.weight", 1, 4, long_factors},
                                          {with_freqs ? "rope_freqs.weight" : NULL, 1, 4, freqs}}};
    return checkpoint;
}

/* row[HEAD_DIM] turned for position p of a text of n, in double. */
static void turn(const struct rotation *rotation, const struct locus_position *position,
                 const float *row, int p, double n, double *out)
{
    int r = locus_position_int(&position->spec, "dim");
    bool adjacent = locus_position_int(&position->spec, "pairs") == 1;
    for (int d = 0; d < HEAD_DIM; d++)
        out[d] = (double)row[d];
    for (int k = 0; k < r / 2; k++) {
        int a = adjacent ? 2 * k : k, b = adjacent ? 2 * k + 1 : k + r / 2;
        double angle = p * rotation->theta(k, r, n);
        double c = cos(angle) * rotation->m, s = sin(angle) * rotation->m;
        out[a] = (double)row[a] * c - (double)row[b] * s;
        out[b] = (double)row[a] * s + (double)row[b] * c;
    }
}

START_TEST(rows_turn_as_the_paper_has_it)
{
    const struct rotation *rotation = &rotations[_i];
    struct fake_checkpoint checkpoint = longrope_checkpoint(rotation->freqs);
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position position = position_open(&env, rotation->spec);
    ck_assert_int_eq(position.frame == LOCUS_FRAME_QUERY, rotation->by_row);
    float rows[2 * HEAD_DIM], raw[2 * HEAD_DIM];
    double expected[HEAD_DIM];
    position_random(raw, 2 * HEAD_DIM, 1, 7);
    for (int query = 0; query < N; query++)
        for (int p = 0; p <= query; p++) {
            memcpy(rows, raw, sizeof rows);
            position_rotate(&position, 0, LOCUS_KEY, rows, 2, p, rotation->by_row ? query : 0);
            for (int h = 0; h < 2; h++) {
                turn(rotation, &position, raw + (ptrdiff_t)h * HEAD_DIM, p, query + 1, expected);
                for (int d = 0; d < HEAD_DIM; d++)
                    position_near((double)rows[h * HEAD_DIM + d], expected[d], 5e-7, rotation->spec,
                                  p);
            }
        }
    /* A query is its own origin. */
    for (int p = 0; p < N; p++) {
        memcpy(rows, raw, sizeof rows);
        position_rotate(&position, 1, LOCUS_QUERY, rows, 1, p, 0);
        turn(rotation, &position, raw, p, p + 1, expected);
        for (int d = 0; d < HEAD_DIM; d++)
            position_near((double)rows[d], expected[d], 5e-7, "query", p);
    }
    locus_position_free(&position);
}
END_TEST

START_TEST(products_depend_on_distance_and_norms_are_kept)
{
    const struct rotation *rotation = &rotations[_i];
    struct fake_checkpoint checkpoint = longrope_checkpoint(rotation->freqs);
    struct locus_position_env env = position_env(&checkpoint);
    struct locus_position position = position_open(&env, rotation->spec);
    int r = locus_position_int(&position.spec, "dim");
    float raw[2 * HEAD_DIM];
    position_random(raw, 2 * HEAD_DIM, 1, 8);
    for (int distance = 0; distance < 40; distance++) {
        double products[2];
        for (int shift = 0; shift < 2; shift++) {
            float q[HEAD_DIM], k[HEAD_DIM];
            int j = shift * 20, i = j + distance, origin = rotation->by_row ? 59 : 0;
            memcpy(q, raw, sizeof q);
            memcpy(k, raw + HEAD_DIM, sizeof k);
            /* The query, too, as at the origin's length. */
            position_rotate(&position, 0, LOCUS_KEY, q, 1, i, origin);
            position_rotate(&position, 0, LOCUS_KEY, k, 1, j, origin);
            double turned = 0, before = 0;
            products[shift] = 0;
            for (int d = 0; d < HEAD_DIM; d++) {
                products[shift] += (double)q[d] * (double)k[d];
                turned += (double)q[d] * (double)q[d];
                before += (double)raw[d] * (double)raw[d] * (d < r ? pow(rotation->m, 2) : 1);
            }
            position_near(turned, before, 1e-6, "norm", i);
        }
        position_near(products[0], products[1], 2e-6, rotation->spec, distance);
    }
    locus_position_free(&position);
}
END_TEST

/* ---- xPos --------------------------------------------------------------------------------- */

static const struct xpos_case {
    const char *spec;
    double scale_base, gamma;
    bool adjacent;
    int first; /* position of the first key */
} xpos_cases[] = {
    {"xpos", 512, 0.4, true, 0},
    {"xpos:scale_base=32,gamma=0.2", 32, 0.2, true, 0},
    {"xpos:pairs=half", 512, 0.4, false, 0},
    {"xpos:scale_base=32", 32, 0.4, true, 40000}, /* a fixed origin would have overflowed */
};

static void turn_xpos(const struct locus_position *position, enum locus_position_rows which,
                      const float *raw, int at, int origin, float *row)
{
    memcpy(row, raw, HEAD_DIM * sizeof *row);
    position_rotate(position, 0, which, row, 1, at, origin);
}

START_TEST(xpos_products_decay_with_distance)
{
    const struct xpos_case *which = &xpos_cases[_i];
    struct locus_position_env env = position_env(NULL);
    env.session_length = which->first + 400;
    struct locus_position position = position_open(&env, which->spec);
    ck_assert_int_eq(position.frame, LOCUS_FRAME_BLOCK);
    float raw[2 * HEAD_DIM], q[HEAD_DIM], key[HEAD_DIM];
    position_random(raw, 2 * HEAD_DIM, 1, 9);
    for (int j = which->first; j < which->first + 128; j += 7)
        for (int i = j; i < which->first + 400; i += 11) {
            int origin = j / env.block_length * env.block_length;
            turn_xpos(&position, LOCUS_QUERY, raw, i, origin, q);
            turn_xpos(&position, LOCUS_KEY, raw + HEAD_DIM, j, origin, key);
            double product = 0, expected = 0;
            for (int d = 0; d < HEAD_DIM; d++)
                product += (double)q[d] * (double)key[d];
            for (int k = 0; k < HEAD_DIM / 2; k++) {
                int a = which->adjacent ? 2 * k : k;
                int b = which->adjacent ? 2 * k + 1 : k + HEAD_DIM / 2;
                double q0 = (double)raw[a], q1 = (double)raw[b];
                double k0 = (double)raw[HEAD_DIM + a], k1 = (double)raw[HEAD_DIM + b];
                double angle = (i - j) * base_theta(10000, k, HEAD_DIM);
                double zeta = (2.0 * k / HEAD_DIM + which->gamma) / (1 + which->gamma);
                expected += pow(zeta, (i - j) / which->scale_base) *
                            ((q0 * k0 + q1 * k1) * cos(angle) + (q0 * k1 - q1 * k0) * sin(angle));
            }
            position_near(product, expected, 1e-6, which->spec, i - j);
        }
    locus_position_free(&position);
}
END_TEST

START_TEST(xpos_has_the_known_decay)
{
    struct locus_position_env env = position_env(NULL);
    env.head_dim = 64;
    env.session_length = 513;
    struct locus_position position = position_open(&env, "xpos");
    float row[64] = {0};
    row[0] = row[62] = 1;
    position_rotate(&position, 0, LOCUS_QUERY, row, 1, 512, 0);
    position_near(hypot((double)row[0], (double)row[1]), 0.285714, 1e-6, "zeta", 0);
    position_near(hypot((double)row[62], (double)row[63]), 0.977679, 1e-6, "zeta", 31);
    locus_position_free(&position);
}
END_TEST

/* ---- refusals --------------------------------------------------------------------- */

START_TEST(rope_refuses_what_it_cannot_serve)
{
    static const float wrong[4] = {1, 0, 1, 1};
    const struct fake_checkpoint zero = {{{"rope_freqs.weight", 1, 4, wrong}}};
    const struct fake_checkpoint shape = {{{"rope_factors_short.weight", 1, 4, short_factors},
                                           {"rope_factors_long.weight", 1, 3, long_factors}}};
    struct fake_checkpoint both = longrope_checkpoint(true);
    struct locus_position_env env = position_env(NULL);
    position_refused(&env, "rope:dim=7", "dim is 7; expected an even number from 2 to");
    position_refused(&env, "rope:dim=10", "dim is 10; expected an even number from 2 to");
    position_refused(&env, "rope:factor=4", "'factor' has no effect beside the other values");
    position_refused(&env, "ntk:dim=2,factor=2", "expected 4 or more for scaling=ntk");
    position_refused(&env, "dynamic-ntk:dim=2,factor=2", "4 or more for scaling=dynamic");
    position_refused(&env, "yarn:factor=0", "factor is '0'; expected a number from 1e-06");
    position_refused(&env, "yarn:factor=4,beta_fast=1", "expected more than beta_slow, 1");
    position_refused(&env, "yarn:base=1,factor=2", "base is 1");
    position_refused(&env, "llama3:factor=8,low=4", "expected more than low, 4");
    position_refused(&env, "longrope:factor=2", "no tensor rope_factors_short.weight");
    position_refused(&env, "dynamic", "'recurrent'");
    position_refused(&env, "dynamic:factor=2", "rope:scaling=dynamic");
    position_refused(&env, "yarn:scaling=ntk", "scaling is given twice");
    position_refused(&env, "dynamic-ntk:length=0", "from 1 to 1073741824, or row");
    position_refused(&env, "xpos:dim=5", "dim is 5; expected an even number from 2 to");
    position_refused(&env, "xpos:scale_base=2", "keys grow");
    env = position_env(&zero);
    position_refused(&env, "rope", "rope_freqs.weight[1] is 0");
    env = position_env(&shape);
    position_refused(&env, "longrope:factor=2",
                     "rope_factors_long.weight is [1, 3]; expected [1, 4]");
    env = position_env(&both);
    position_refused(&env, "llama3:factor=8", "holds its llama3 scaling already");
}
END_TEST

/* ---- SPECs of scalings -------------------------------------------------------------------- */

static const struct printed {
    const char *text, *own, *printed;
} prints[] = {
    {"yarn:factor=4", NULL, "rope:pairs=half,dim=8,base=10000,scaling=yarn,factor=4"},
    {"yarn:factor=4", "rope:pairs=adjacent,base=500",
     "rope:pairs=adjacent,dim=8,base=500,scaling=yarn,factor=4"},
    {"yarn:factor=auto", NULL, "rope:pairs=half,dim=8,base=10000,scaling=yarn,factor=4"},
    {"yarn:factor=auto,trained=32", NULL,
     "rope:pairs=half,dim=8,base=10000,scaling=yarn,factor=2,trained=32"},
    {"yarn:factor=auto,trained=128", NULL, "rope:pairs=half,dim=8,base=10000,scaling=yarn"},
    {"dynamic-ntk:length=row", NULL, "rope:pairs=half,dim=8,base=10000,scaling=dynamic"},
    {"dynamic-ntk:length=48", NULL, "rope:pairs=half,dim=8,base=10000,scaling=dynamic,length=48"},
    {"rope:length=row", "dynamic-ntk:length=48",
     "rope:pairs=half,dim=8,base=10000,scaling=dynamic,length=row"},
    {NULL, "longrope:factor=4,trained=20",
     "rope:pairs=half,dim=8,base=10000,scaling=longrope,"
     "factor=4,trained=20"},
    {"rope:trained=16", "longrope:factor=4,trained=20",
     "rope:pairs=half,dim=8,base=10000,scaling=longrope,factor=4,trained=16"},
    {"alibi:factor=auto", NULL, "alibi:factor=4"},
    {"sinusoidal:factor=auto", NULL, "sinusoidal:factor=4"},
};

START_TEST(specs_of_scalings_print_resolved)
{
    const struct printed *which = &prints[_i];
    struct locus_position_env env = position_env(NULL);
    struct locus_position_spec spec, again;
    struct locus_buffer out = {0}, twice = {0};
    locus_error error;
    ck_assert_msg(position_resolve(&spec, which->text, which->own, NULL, &env, &error) == LOCUS_OK,
                  "%s", error.message);
    locus_position_print(&spec, &out);
    ck_assert_str_eq(out.bytes, which->printed);
    ck_assert_int_eq(position_resolve(&again, out.bytes, which->own, NULL, &env, &error), LOCUS_OK);
    ck_assert(memcmp(again.values, spec.values, sizeof spec.values) == 0);
    locus_position_print(&again, &twice);
    ck_assert_str_eq(twice.bytes, which->printed);
    locus_buffer_free(&out);
    locus_buffer_free(&twice);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rope formulas");
    TCase *tests = tcase_create("scalings");
    tcase_add_test(tests, angles_of_the_hot_path_are_within_1e7);
    tcase_add_test(tests, logarithms_and_powers_are_those_of_libm);
    tcase_add_loop_test(tests, yarn_ranges_are_the_known_ones, 0, sizeof ranges / sizeof *ranges);
    tcase_add_test(tests, yarn_range_of_one_pair_divides_by_no_zero);
    tcase_add_test(tests, positions_between_two_turn_by_their_part);
    tcase_add_test(tests, share_of_pairs_that_rotate_is_the_fastest);
    tcase_add_test(tests, magnitudes_are_the_papers);
    tcase_add_test(tests, ntk_reach_is_estimated);
    tcase_add_loop_test(tests, rows_turn_as_the_paper_has_it, 0, N_ROTATIONS);
    tcase_add_loop_test(tests, products_depend_on_distance_and_norms_are_kept, 0, N_ROTATIONS);
    tcase_add_loop_test(tests, xpos_products_decay_with_distance, 0,
                        sizeof xpos_cases / sizeof *xpos_cases);
    tcase_add_test(tests, xpos_has_the_known_decay);
    tcase_add_test(tests, rope_refuses_what_it_cannot_serve);
    tcase_add_loop_test(tests, specs_of_scalings_print_resolved, 0, sizeof prints / sizeof *prints);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
