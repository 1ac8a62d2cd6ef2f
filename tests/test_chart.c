/* Charts: pictures that decode, show what they were given, and take any numbers. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chart/axes.h"
#include "chart/chart.h"
#include "chart/palette.h"
#include "testing.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wundef"
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#if __has_include(<stb/stb_image.h>)
#include <stb/stb_image.h>
#else
#include <stb_image.h>
#endif
#pragma GCC diagnostic pop

struct picture {
    int width, height;
    unsigned char *pixels; /* [height, width, 3] */
};

static struct picture decode(struct locus_buffer *png)
{
    struct picture picture = {0};
    int channels;
    picture.pixels = stbi_load_from_memory((const unsigned char *)png->bytes, (int)png->length,
                                           &picture.width, &picture.height, &channels, 3);
    ck_assert_msg(picture.pixels != NULL, "the PNG does not decode");
    locus_buffer_free(png);
    return picture;
}

static struct picture draw_lines(const struct locus_line_chart *chart)
{
    struct locus_buffer png = {0};
    locus_error error = {0};
    ck_assert_msg(locus_line_chart_draw(&png, chart, &error) == LOCUS_OK, "%s", error.message);
    return decode(&png);
}

static struct picture draw_map(const struct locus_heat_map *map)
{
    struct locus_buffer png = {0};
    locus_error error = {0};
    ck_assert_msg(locus_heat_map_draw(&png, map, &error) == LOCUS_OK, "%s", error.message);
    return decode(&png);
}

/* How many pixels within the box differ from white. */
static int count_ink(const struct picture *picture, struct locus_box box)
{
    int n = 0;
    for (int j = box.top; j < box.bottom; j++)
        for (int i = box.left; i < box.right; i++) {
            const unsigned char *pixel = picture->pixels + 3 * (j * picture->width + i);
            n += pixel[0] != 255 || pixel[1] != 255 || pixel[2] != 255;
        }
    return n;
}

static int count_colour(const struct picture *picture, struct locus_colour colour)
{
    int n = 0;
    for (int i = 0; i < picture->width * picture->height; i++) {
        const unsigned char *pixel = picture->pixels + 3 * i;
        n += pixel[0] == colour.red && pixel[1] == colour.green && pixel[2] == colour.blue;
    }
    return n;
}

static struct locus_box whole(const struct picture *picture)
{
    return (struct locus_box){0, 0, picture->width, picture->height};
}

static const double lengths[] = {64, 128, 256, 512, 1024};
static const double falling[] = {20, 18, 17, 16, 15};
static const double rising[] = {20, 18, 17, 80, 900};
static const double errors[] = {1, 1, 1, 4, 90};

static struct locus_line_chart two_lines(struct locus_chart_series series[2])
{
    series[0] = (struct locus_chart_series){
        .name = "alibi", .n = 5, .x = lengths, .y = falling, .trained_length = 256};
    series[1] = (struct locus_chart_series){
        .name = "rope", .n = 5, .x = lengths, .y = rising, .error = errors, .trained_length = 256};
    return (struct locus_line_chart){.title = "Perplexity against length",
                                     .x = {.label = "length"},
                                     .y = {.label = "perplexity"},
                                     .n_series = 2,
                                     .series = series};
}

START_TEST(a_line_chart_decodes_to_its_size_and_shows_its_lines)
{
    struct locus_chart_series series[2];
    struct locus_line_chart chart = two_lines(series);
    struct picture picture = draw_lines(&chart);
    ck_assert_int_eq(picture.width, 960);
    ck_assert_int_eq(picture.height, 560);
    ck_assert_int_gt(count_colour(&picture, (struct locus_colour){0x1B, 0x5F, 0xA8}), 400);
    ck_assert_int_gt(count_colour(&picture, (struct locus_colour){0xD1, 0x4F, 0x00}), 400);
    ck_assert_int_eq(count_ink(&picture, (struct locus_box){0, 0, 960, 10}), 0);
    stbi_image_free(picture.pixels);
    chart.width = 500;
    chart.height = 300;
    picture = draw_lines(&chart);
    ck_assert_int_eq(picture.width, 500);
    ck_assert_int_eq(picture.height, 300);
    stbi_image_free(picture.pixels);
}
END_TEST

START_TEST(an_error_band_and_a_trained_length_are_drawn)
{
    struct locus_chart_series series[2];
    struct locus_line_chart chart = two_lines(series);
    struct picture with = draw_lines(&chart);
    series[1].error = NULL;
    struct picture without_band = draw_lines(&chart);
    series[0].trained_length = series[1].trained_length = 0;
    struct picture without_mark = draw_lines(&chart);
    ck_assert_int_gt(count_ink(&with, whole(&with)),
                     count_ink(&without_band, whole(&without_band)) + 500);
    struct locus_colour grey = {0x80, 0x80, 0x80};
    ck_assert_int_gt(count_colour(&without_band, grey), count_colour(&without_mark, grey) + 150);
    stbi_image_free(with.pixels);
    stbi_image_free(without_band.pixels);
    stbi_image_free(without_mark.pixels);
}
END_TEST

START_TEST(a_line_that_ends_early_lies_on_the_others)
{
    const struct locus_chart_series series[] = {{.n = 3, .x = lengths, .y = falling},
                                                {.n = 5, .x = lengths, .y = falling},
                                                {.n = 5, .x = lengths, .y = rising}};
    struct locus_line_chart chart = {.n_series = 3, .series = series};
    struct picture picture = draw_lines(&chart);
    ck_assert_int_gt(count_colour(&picture, (struct locus_colour){0x1B, 0x5F, 0xA8}), 400);
    stbi_image_free(picture.pixels);
}
END_TEST

START_TEST(a_long_legend_makes_the_picture_higher_and_stays_inside)
{
    enum { N = 40 };
    struct locus_chart_series series[N];
    for (int i = 0; i < N; i++)
        series[i] = (struct locus_chart_series){
            .name =
                "tales-rope rope:pairs=half,dim=32,base=10000,scaling=yarn,factor=4,trained=256",
            .n = 5,
            .x = lengths,
            .y = falling};
    struct locus_line_chart chart = {.n_series = N, .series = series};
    struct picture picture = draw_lines(&chart);
    ck_assert_int_gt(picture.height, N * 30);
    struct locus_box rim = {picture.width - 6, 0, picture.width, picture.height};
    ck_assert_int_eq(count_ink(&picture, rim), 0);
    stbi_image_free(picture.pixels);
}
END_TEST

START_TEST(any_numbers_can_be_drawn_as_lines)
{
    static const double values[] = {NAN,   INFINITY, -INFINITY, 0,      -0.0,  1,    -1,
                                    1e308, -1e308,   5e-324,    1e-300, 1e300, 1e-5, 3.14159,
                                    1e6,   999999,   0.1,       -0.001, 16,    17,   1e15};
    enum { N = sizeof values / sizeof *values };
    for (int first = 0; first < N; first++)
        for (int n = 0; n <= 3; n++)
            for (int scale = LOCUS_SCALE_AUTO; scale <= LOCUS_SCALE_LOG10; scale++) {
                double x[3], y[3], error[3];
                for (int i = 0; i < n; i++) {
                    x[i] = values[(first + i * 5) % N];
                    y[i] = values[(first * 3 + i * 7) % N];
                    error[i] = values[(first + i * 11 + 2) % N];
                }
                struct locus_chart_series series = {
                    .name = first % 2 ? "" : "x", .n = n, .x = x, .y = y, .error = error};
                series.trained_length = values[(first + n) % N];
                struct locus_line_chart chart = {
                    .x = {.label = "x", .scale = (enum locus_scale)scale},
                    .y = {.label = "y", .scale = (enum locus_scale)scale},
                    .n_series = 1,
                    .series = &series,
                    .width = 200,
                    .height = 160};
                struct picture picture = draw_lines(&chart);
                ck_assert_int_gt(count_ink(&picture, whole(&picture)), 300);
                stbi_image_free(picture.pixels);
            }
}
END_TEST

START_TEST(a_chart_without_values_says_so)
{
    struct locus_line_chart chart = {.title = "nothing"};
    struct picture picture = draw_lines(&chart);
    ck_assert_int_gt(count_ink(&picture, (struct locus_box){400, 200, 600, 400}), 100);
    stbi_image_free(picture.pixels);
    struct locus_heat_map map = {.title = "nothing"};
    picture = draw_map(&map);
    ck_assert_int_gt(count_ink(&picture, whole(&picture)), 1000);
    stbi_image_free(picture.pixels);
}
END_TEST

START_TEST(a_heat_map_shows_its_cells_in_their_colours)
{
    enum { ROWS = 3, COLUMNS = 5 };
    float values[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (float)i;
    values[7] = NAN;
    struct locus_heat_map map = {.n_rows = ROWS,
                                 .n_columns = COLUMNS,
                                 .values = values,
                                 .rows = {.label = "head"},
                                 .columns = {.label = "distance"},
                                 .palette = LOCUS_INFERNO,
                                 .width = 600,
                                 .height = 400};
    struct picture picture = draw_map(&map);
    ck_assert_int_eq(picture.width, 600);
    ck_assert_int_eq(picture.height, 400);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        struct locus_colour colour = locus_palette_at(LOCUS_INFERNO, i / 14.0);
        if (i == 7) colour = (struct locus_colour){0xDD, 0xDD, 0xDD};
        ck_assert_msg(count_colour(&picture, colour) > 2000, "cell %d is not there", i);
    }
    stbi_image_free(picture.pixels);
}
END_TEST

START_TEST(a_mark_stands_between_two_columns_and_is_named)
{
    enum { ROWS = 2, COLUMNS = 4 };
    static const float values[ROWS * COLUMNS] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct locus_heat_map map = {.n_rows = ROWS,
                                 .n_columns = COLUMNS,
                                 .values = values,
                                 .mark_label = "trained length 256",
                                 .width = 600,
                                 .height = 400};
    struct locus_box above = {0, 0, 500, 30}; /* no title: only the mark's name stands there */
    static const int without[] = {0, -1, COLUMNS, COLUMNS + 1};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        map.mark_after = without[i];
        struct picture picture = draw_map(&map);
        ck_assert_int_eq(count_ink(&picture, (struct locus_box){0, 0, 500, 12}), 0);
        stbi_image_free(picture.pixels);
    }
    int first = 0;
    for (map.mark_after = 1; map.mark_after < COLUMNS; map.mark_after++) {
        struct picture picture = draw_map(&map);
        ck_assert_int_gt(count_ink(&picture, above), 200);
        /* The first pixel of its dash in the middle of the lighter row. */
        int at = 0;
        const unsigned char *row = picture.pixels + 3 * 300 * picture.width;
        for (int x = 100; x < 500 && !at; x++)
            if (memcmp(row + 3 * x, row + 3 * 99, 3) != 0) at = x;
        ck_assert_int_gt(at, first + 80);
        first = at;
        stbi_image_free(picture.pixels);
    }
}
END_TEST

START_TEST(any_numbers_can_be_drawn_as_a_heat_map)
{
    static const float values[] = {NAN,   INFINITY, -INFINITY, 0,       -0.0f, 1,
                                   3e38f, -3e38f,   1e-45f,    0.1234f, 99.5f, 123456};
    static const char *const names[] = {"Once", "\xE2\x82", "", NULL, "a\nb", "antidisestablish"};
    enum { N = sizeof values / sizeof *values };
    for (int first = 0; first < N; first++)
        for (int rows = 1; rows <= 6; rows += 5)
            for (int columns = 1; columns <= 6; columns += 5) {
                float cells[36];
                for (int i = 0; i < rows * columns; i++)
                    cells[i] = values[(first + (rows > 1 ? i : 0)) % N];
                struct locus_heat_map map = {.n_rows = rows,
                                             .n_columns = columns,
                                             .values = cells,
                                             .rows = {"row", names, 0, 0},
                                             .columns = {"column", NULL, -1e9, first},
                                             .square = first % 2,
                                             .width = 200,
                                             .height = 200};
                if (first % 3 == 0) map.columns.names = names;
                struct picture picture = draw_map(&map);
                ck_assert_int_gt(count_ink(&picture, whole(&picture)), 1000);
                stbi_image_free(picture.pixels);
            }
}
END_TEST

START_TEST(more_cells_than_pixels_are_averaged)
{
    enum { SIDE = 3000 };
    float *values = malloc((size_t)SIDE * SIDE * sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < SIDE * SIDE; i++)
        values[i] = (float)((i + i / SIDE) % 2);
    struct locus_heat_map map = {
        .n_rows = SIDE, .n_columns = SIDE, .values = values, .min = 0, .max = 1, .square = true};
    struct picture picture = draw_map(&map);
    int n_dark = count_colour(&picture, locus_palette_at(LOCUS_VIRIDIS, 0));
    ck_assert_msg(n_dark < 1000, "%d pixels show one cell of many", n_dark);
    stbi_image_free(picture.pixels);
    free(values);
}
END_TEST

/* Of the cells under a pixel those without a value don't count. */
START_TEST(holes_among_many_cells_are_left_out)
{
    enum { SIDE = 2000 };
    float *values = malloc((size_t)SIDE * SIDE * sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < SIDE * SIDE; i++)
        values[i] = (i + i / SIDE) % 2 ? NAN : 0.5f;
    struct locus_heat_map map = {
        .n_rows = SIDE, .n_columns = SIDE, .values = values, .min = 0, .max = 1, .square = true};
    struct picture picture = draw_map(&map);
    ck_assert_int_gt(count_colour(&picture, locus_palette_at(LOCUS_VIRIDIS, 0.5)), 100000);
    stbi_image_free(picture.pixels);
    free(values);
}
END_TEST

/* Two values of one colour, but of other digits. */
START_TEST(small_values_are_written_to_two_decimals)
{
    float values[] = {0.11f, 0.11f};
    struct locus_heat_map map = {
        .n_rows = 1, .n_columns = 2, .values = values, .min = -1e6f, .max = 1e6f};
    struct picture before = draw_map(&map);
    values[0] = 0.12f;
    struct picture after = draw_map(&map);
    ck_assert_int_ne(
        memcmp(before.pixels, after.pixels, 3 * (size_t)before.width * (size_t)before.height), 0);
    stbi_image_free(before.pixels);
    stbi_image_free(after.pixels);
}
END_TEST

START_TEST(lines_of_any_lengths_are_all_drawn)
{
    const struct locus_chart_series series[] = {{.n = 5, .x = lengths, .y = falling},
                                                {.n = 4, .x = lengths, .y = rising},
                                                {.n = 2, .x = lengths, .y = falling}};
    struct locus_line_chart chart = {.n_series = 3, .series = series};
    struct picture picture = draw_lines(&chart);
    ck_assert_int_gt(count_colour(&picture, (struct locus_colour){0x1B, 0x5F, 0xA8}), 300);
    ck_assert_int_gt(count_colour(&picture, (struct locus_colour){0xD1, 0x4F, 0x00}), 300);
    stbi_image_free(picture.pixels);
}
END_TEST

/* The lowest row with that colour, of so many. */
static double lowest(const struct picture *picture, struct locus_colour colour)
{
    for (int j = picture->height; j-- > 0;) {
        struct picture row = {picture->width, 1, picture->pixels + 3 * j * picture->width};
        if (count_colour(&row, colour) > 0) return (double)j / picture->height;
    }
    return 0;
}

/* A logarithm has no place for what an error takes below 0: the band goes down to the frame, and
 * the axis no farther than half the least value. */
START_TEST(a_band_down_to_zero_reaches_the_frame)
{
    static const double values[] = {10, 11, 12, 13, 400};
    double wide[5];
    struct locus_chart_series series = {.n = 5, .x = lengths, .y = values, .error = wide};
    const struct locus_line_chart chart = {
        .y = {.scale = LOCUS_SCALE_LOG10}, .n_series = 1, .series = &series};
    for (int near = 0; near < 2; near++) {
        for (int i = 0; i < 5; i++)
            wide[i] = values[i] * (near ? 0.999999 : 1);
        struct picture picture = draw_lines(&chart);
        const int n = count_ink(&picture, whole(&picture));
        ck_assert_msg(n > picture.width * picture.height / 4, "%d pixels", n);
        ck_assert_double_gt(lowest(&picture, (struct locus_colour){0x1B, 0x5F, 0xA8}), 0.6);
        stbi_image_free(picture.pixels);
    }
}
END_TEST

START_TEST(one_trained_length_is_marked_once)
{
    struct locus_chart_series series[2];
    struct locus_line_chart chart = two_lines(series);
    struct picture both = draw_lines(&chart);
    series[1].trained_length = 0;
    struct picture one = draw_lines(&chart);
    ck_assert_int_eq(memcmp(both.pixels, one.pixels, 3 * (size_t)one.width * (size_t)one.height),
                     0);
    stbi_image_free(both.pixels);
    stbi_image_free(one.pixels);
}
END_TEST

START_TEST(a_size_that_no_picture_has_is_refused)
{
    static const int sides[] = {
        -1, 1, LOCUS_CHART_MIN_SIDE - 1, LOCUS_CHART_MAX_SIDE + 1, 2147483647, -2147483647 - 1};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct locus_buffer png = {0};
        locus_error error = {0};
        struct locus_line_chart chart = {.width = sides[i]};
        ck_assert_int_eq(locus_line_chart_draw(&png, &chart, &error), LOCUS_ERROR_ARGUMENT);
        struct locus_heat_map map = {.height = sides[i]};
        ck_assert_int_eq(locus_heat_map_draw(&png, &map, &error), LOCUS_ERROR_ARGUMENT);
        ck_assert_msg(strstr(error.message, "expected"), "%s", error.message);
        ck_assert_uint_eq(png.length, 0);
    }
}
END_TEST

/* ---- files -------------------------------------------------------------------------------- */

START_TEST(a_file_that_cannot_be_written_leaves_nothing)
{
    struct locus_chart_series series[2];
    struct locus_line_chart chart = two_lines(series);
    locus_error error = {0};
    char folder[4096], path[4200];
    snprintf(folder, sizeof folder, "%s", testing_temporary("folder"));
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    snprintf(path, sizeof path, "%s/none/chart.png", folder);
    ck_assert_int_eq(locus_line_chart_write(path, &chart, &error), LOCUS_ERROR_IO);
    ck_assert_msg(strstr(error.message, path), "%s", error.message);
    ck_assert_int_eq(locus_line_chart_write(folder, &chart, &error), LOCUS_ERROR_IO);
    /* A disk that fills up half-way. */
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    snprintf(path, sizeof path, "%s/chart.png", folder);
    enum locus_status status = locus_line_chart_write(path, &chart, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_int_eq(status, LOCUS_ERROR_IO);
    ck_assert_int_eq(testing_count_files(path), 0);
    ck_assert_int_eq(locus_line_chart_write(path, &chart, &error), LOCUS_OK);
    ck_assert_int_eq(testing_count_files(path), 1);
    size_t n_bytes;
    char *bytes = testing_read(path, &n_bytes);
    struct locus_buffer png = {.bytes = bytes, .length = n_bytes, .capacity = n_bytes};
    struct picture picture = decode(&png);
    ck_assert_int_eq(picture.width, 960);
    stbi_image_free(picture.pixels);
}
END_TEST

/* ---- parts -------------------------------------------------------------------------------- */

START_TEST(lengths_are_ticked_at_powers_of_two)
{
    struct locus_extent extent = LOCUS_EXTENT_EMPTY;
    locus_extent_add(&extent, 64);
    locus_extent_add(&extent, 4096);
    struct locus_chart_axis wanted = {0};
    struct locus_axis axis = {.from = 0, .to = 700};
    locus_axis_fit(&axis, &wanted, &extent, LOCUS_SCALE_LOG2);
    ck_assert_int_eq(axis.scale, LOCUS_SCALE_LOG2);
    locus_axis_tick(&axis, &locus_text_plain, false);
    ck_assert_int_eq(axis.n_ticks, 7);
    for (int i = 0; i < 7; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "%d", 64 << i);
        ck_assert_str_eq(axis.ticks[i].text, expected);
    }
    double middle = (locus_axis_place(&axis, 256) + locus_axis_place(&axis, 1024)) / 2;
    ck_assert_double_eq_tol(locus_axis_place(&axis, 512), middle, 1e-9);
}
END_TEST

START_TEST(logarithms_begin_at_the_least_positive_value)
{
    struct locus_extent extent = LOCUS_EXTENT_EMPTY;
    const double values[] = {-5, 0, 3, 100};
    for (int i = 0; i < 4; i++)
        locus_extent_add(&extent, values[i]);
    struct locus_axis axis = {.from = 0, .to = 700};
    locus_axis_fit(&axis, &(struct locus_chart_axis){.scale = LOCUS_SCALE_LOG10}, &extent,
                   LOCUS_SCALE_LOG10);
    ck_assert_double_gt(axis.min, 2);
    ck_assert_double_le(axis.min, 3);
}
END_TEST

START_TEST(ends_that_are_asked_for_are_ticked)
{
    for (int i = 0; i < 400; i++) {
        const double first = i / 10.0;
        const struct locus_chart_axis wanted = {
            .scale = LOCUS_SCALE_LINEAR, .min = first, .max = first + 0.7};
        const struct locus_extent extent = LOCUS_EXTENT_EMPTY;
        struct locus_axis axis = {.from = 0, .to = 900};
        locus_axis_fit(&axis, &wanted, &extent, LOCUS_SCALE_LINEAR);
        locus_axis_tick(&axis, &locus_text_plain, false);
        ck_assert_msg(axis.n_ticks == 8, "from %g: %d ticks", first, axis.n_ticks);
    }
}
END_TEST

START_TEST(texts_of_ticks_never_touch)
{
    srand(1);
    for (int trial = 0; trial < 20000; trial++) {
        double span = pow(10, rand() % 40 - 20), at = (rand() % 2001 - 1000) / 100.0;
        struct locus_extent extent = LOCUS_EXTENT_EMPTY;
        locus_extent_add(&extent, at * (trial % 3 ? span : 1));
        locus_extent_add(&extent, at + span);
        struct locus_chart_axis wanted = {.scale = (enum locus_scale)(trial % 4)};
        struct locus_axis axis = {.from = 50, .to = 50 + 30 + rand() % 900};
        locus_axis_fit(&axis, &wanted, &extent, LOCUS_SCALE_LOG10);
        ck_assert(axis.min < axis.max);
        locus_axis_tick(&axis, &locus_text_plain, false);
        double end = -INFINITY;
        for (int i = 0; i < axis.n_ticks; i++) {
            const char *text = axis.ticks[i].text;
            double x = locus_axis_place(&axis, axis.ticks[i].value);
            double half = locus_text_width(&locus_text_plain, text, strlen(text)) / 2;
            ck_assert(x >= axis.from - 1e-3 && x <= axis.to + 1e-3);
            if (!*text) continue;
            ck_assert_msg(x - half > end + 4, "trial %d: %s from %g", trial, text, end);
            end = x + half;
        }
    }
}
END_TEST

START_TEST(numbers_are_printed_as_a_reader_writes_them)
{
    static const struct {
        double value, step;
        const char *text;
    } cases[] = {{0.1 + 0.2, 0.1, "0.3"},
                 {1e6, 1e6, "1e6"},
                 {2.5e-7, 1e-7, "2.5e-7"},
                 {4096, 1, "4096"},
                 {-0.0, 0.5, "0"},
                 {1e-17, 0.2, "0"},
                 {-20, 20, "-20"},
                 {0.25, 0.05, "0.25"},
                 {1e100, 1e100, "1e100"},
                 {100000, 1e5, "100000"},
                 {1.5e-300, 1e-300, "1.5e-300"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        locus_number_print(text, cases[i].value, cases[i].step);
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

START_TEST(palettes_grow_lighter_all_the_way)
{
    for (int palette = LOCUS_VIRIDIS; palette <= LOCUS_INFERNO; palette++) {
        double last = -1;
        for (int i = 0; i <= 64; i++) {
            struct locus_colour c = locus_palette_at((enum locus_palette)palette, i / 64.0);
            double light = 0.2126 * c.red + 0.7152 * c.green + 0.0722 * c.blue;
            ck_assert_msg(light > last, "palette %d darkens at %d/64", palette, i);
            last = light;
        }
    }
    struct locus_colour end = locus_palette_at(LOCUS_VIRIDIS, 1);
    ck_assert_int_le(abs(end.red - 253) + abs(end.green - 231) + abs(end.blue - 37), 6);
    struct locus_colour nan = locus_palette_at(LOCUS_VIRIDIS, NAN);
    struct locus_colour zero = locus_palette_at(LOCUS_VIRIDIS, 0);
    ck_assert_int_eq(memcmp(&nan, &zero, sizeof nan), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("chart");
    TCase *tests = tcase_create("chart");
    tcase_add_test(tests, a_line_chart_decodes_to_its_size_and_shows_its_lines);
    tcase_add_test(tests, an_error_band_and_a_trained_length_are_drawn);
    tcase_add_test(tests, a_line_that_ends_early_lies_on_the_others);
    tcase_add_test(tests, a_long_legend_makes_the_picture_higher_and_stays_inside);
    tcase_add_test(tests, any_numbers_can_be_drawn_as_lines);
    tcase_add_test(tests, a_chart_without_values_says_so);
    tcase_add_test(tests, a_heat_map_shows_its_cells_in_their_colours);
    tcase_add_test(tests, a_mark_stands_between_two_columns_and_is_named);
    tcase_add_test(tests, any_numbers_can_be_drawn_as_a_heat_map);
    tcase_add_test(tests, more_cells_than_pixels_are_averaged);
    tcase_add_test(tests, holes_among_many_cells_are_left_out);
    tcase_add_test(tests, small_values_are_written_to_two_decimals);
    tcase_add_test(tests, lines_of_any_lengths_are_all_drawn);
    tcase_add_test(tests, a_band_down_to_zero_reaches_the_frame);
    tcase_add_test(tests, one_trained_length_is_marked_once);
    tcase_add_test(tests, a_size_that_no_picture_has_is_refused);
    tcase_add_test(tests, a_file_that_cannot_be_written_leaves_nothing);
    tcase_add_test(tests, lengths_are_ticked_at_powers_of_two);
    tcase_add_test(tests, logarithms_begin_at_the_least_positive_value);
    tcase_add_test(tests, ends_that_are_asked_for_are_ticked);
    tcase_add_test(tests, texts_of_ticks_never_touch);
    tcase_add_test(tests, numbers_are_printed_as_a_reader_writes_them);
    tcase_add_test(tests, palettes_grow_lighter_all_the_way);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
