/* The canvas under the charts: what a shape covers, how a colour is laid over what is there, and
 * how text that the font lacks is written. */
#include <string.h>

#include "chart/canvas.h"
#include "chart/chart.h"
#include "chart/palette.h"
#include "testing.h"

enum { SIDE = 200 };

static const struct locus_colour black = {0, 0, 0};

static struct locus_canvas blank(void)
{
    struct locus_canvas canvas;
    locus_error error;
    ck_assert_msg(locus_canvas_create(&canvas, SIDE, SIDE, &error) == LOCUS_OK, "%s",
                  error.message);
    return canvas;
}

static int red_at(const struct locus_canvas *canvas, int i, int j)
{
    return canvas->pixels[3 * (j * SIDE + i)];
}

START_TEST(colours_are_blended_to_the_nearest)
{
    struct locus_canvas canvas = blank();
    locus_canvas_column(&canvas, 10, 0, SIDE, 1);
    locus_canvas_paint(&canvas, black, 0.5); /* 127.5 */
    locus_canvas_column(&canvas, 20, 0, SIDE, 1);
    locus_canvas_paint(&canvas, black, 1);
    locus_canvas_column(&canvas, 30, 50, 50.5, 1);
    locus_canvas_paint(&canvas, black, 1);
    ck_assert_int_eq(red_at(&canvas, 10, 50), 128);
    ck_assert_int_eq(red_at(&canvas, 20, 50), 0);
    ck_assert_int_eq(red_at(&canvas, 30, 50), 127);
    ck_assert_int_eq(red_at(&canvas, 30, 51), 255);
    ck_assert_int_eq(red_at(&canvas, 40, 50), 255);
    locus_canvas_free(&canvas);
}
END_TEST

/* Segments that meet are one shape: neither rubs the other out, or makes it darker. */
START_TEST(crossing_segments_are_one_shape)
{
    struct locus_canvas canvas = blank();
    const struct locus_point corners[] = {{20, 20}, {120, 120}, {120, 20}, {20, 120}};
    locus_canvas_segment(&canvas, corners[0], corners[1], 6);
    locus_canvas_segment(&canvas, corners[2], corners[3], 6);
    locus_canvas_paint(&canvas, black, 0.5);
    const int on[][2] = {{30, 30}, {110, 110}, {110, 30}, {30, 110}, {70, 70}};
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(red_at(&canvas, on[i][0], on[i][1]), 128);
    ck_assert_int_eq(red_at(&canvas, 70, 30), 255);
    /* Painted, it is gone from the mask. */
    locus_canvas_paint(&canvas, black, 1);
    ck_assert_int_eq(red_at(&canvas, 70, 70), 128);
    locus_canvas_free(&canvas);
}
END_TEST

START_TEST(shapes_end_at_the_clip)
{
    struct locus_canvas canvas = blank();
    locus_canvas_clip(&canvas, &(struct locus_box){50, -10, 100, 60});
    locus_canvas_fill(&canvas, (struct locus_box){-5, -5, SIDE + 5, SIDE + 5}, black);
    locus_canvas_clip(&canvas, NULL);
    int n = 0;
    for (int j = 0; j < SIDE; j++)
        for (int i = 0; i < SIDE; i++)
            n += red_at(&canvas, i, j) == 0;
    ck_assert_int_eq(n, 50 * 60);
    ck_assert_int_eq(red_at(&canvas, 50, 0), 0);
    ck_assert_int_eq(red_at(&canvas, 99, 59), 0);
    locus_canvas_free(&canvas);
}
END_TEST

/* Text is dark on light cells and light on dark ones: what is nearer to white is light. */
START_TEST(light_colours_are_those_that_dark_text_is_read_on)
{
    ck_assert(!locus_colour_is_light((struct locus_colour){0x80, 0x80, 0x80}));
    ck_assert(locus_colour_is_light((struct locus_colour){0x90, 0x90, 0x90}));
    ck_assert(!locus_colour_is_light((struct locus_colour){0, 0, 255}));
    ck_assert(locus_colour_is_light((struct locus_colour){0, 255, 0}));
    ck_assert(!locus_colour_is_light(locus_palette_at(LOCUS_VIRIDIS, 0.4)));
    ck_assert(locus_colour_is_light(locus_palette_at(LOCUS_VIRIDIS, 0.9)));
}
END_TEST

START_TEST(palettes_end_at_their_ends)
{
    for (int palette = LOCUS_VIRIDIS; palette <= LOCUS_INFERNO; palette++)
        for (int end = 0; end < 2; end++) {
            const struct locus_colour last = locus_palette_at((enum locus_palette)palette, end);
            const struct locus_colour past =
                locus_palette_at((enum locus_palette)palette, end ? 1.5 : -0.5);
            ck_assert_int_eq(memcmp(&last, &past, sizeof last), 0);
        }
}
END_TEST

/* What it has not is drawn as the same picture as its bytes in ASCII. */
START_TEST(characters_that_the_font_lacks_are_spelled)
{
    static const char *const texts[][2] = {{"caf\xC3\xA9", "caf\\xc3\\xa9"},
                                           {"\xE4\xBD\x8D", "\\xe4\\xbd\\x8d"},
                                           {"a\033\x7F\xFF.", "a\\x1b\\x7f\\xff."}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int upright = 0; upright < 2; upright++) {
            struct locus_canvas canvases[2] = {blank(), blank()};
            for (int j = 0; j < 2; j++)
                locus_text_draw(&canvases[j], &locus_text_plain, texts[i][j], strlen(texts[i][j]),
                                SIDE / 2, SIDE / 2, LOCUS_ALIGN_CENTRE, upright);
            ck_assert_mem_eq(canvases[0].pixels, canvases[1].pixels, (size_t)SIDE * SIDE * 3);
            locus_canvas_free(&canvases[0]);
            locus_canvas_free(&canvases[1]);
        }
    /* It is cut between characters. */
    const char *two = "\xE4\xBD\x8D\xE7\xBD\xAE";
    const double one = locus_text_width(&locus_text_plain, two, 3);
    ck_assert_double_eq(one, locus_text_width(&locus_text_plain, "\\xe4\\xbd\\x8d", 12));
    ck_assert_uint_eq(locus_text_fit(&locus_text_plain, two, one - 1), 0);
    ck_assert_uint_eq(locus_text_fit(&locus_text_plain, two, one + 1), 3);
    ck_assert_uint_eq(locus_text_fit(&locus_text_plain, two, 3 * one), 6);
}
END_TEST

START_TEST(a_chart_says_whether_its_font_has_all)
{
    const char *plain[] = {"a", "b"}, *other[] = {"a", "\xC3\xA9"};
    const struct locus_chart_series series = {.name = other[1]}, ascii = {.name = "a"};
    struct locus_line_chart chart = {.title = "a\nb", .n_series = 1, .series = &ascii};
    ck_assert(locus_line_chart_is_ascii(&chart));
    chart.series = &series;
    ck_assert(!locus_line_chart_is_ascii(&chart));
    chart = (struct locus_line_chart){.title = other[1]};
    ck_assert(!locus_line_chart_is_ascii(&chart));
    struct locus_heat_map map = {.n_rows = 2, .n_columns = 2, .rows.names = plain};
    ck_assert(locus_heat_map_is_ascii(&map));
    map.columns.names = other;
    ck_assert(!locus_heat_map_is_ascii(&map));
    map.n_columns = 1;
    ck_assert(locus_heat_map_is_ascii(&map));
    map.mark_label = other[1];
    ck_assert(!locus_heat_map_is_ascii(&map));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("canvas");
    TCase *tests = tcase_create("canvas");
    tcase_add_test(tests, colours_are_blended_to_the_nearest);
    tcase_add_test(tests, crossing_segments_are_one_shape);
    tcase_add_test(tests, shapes_end_at_the_clip);
    tcase_add_test(tests, light_colours_are_those_that_dark_text_is_read_on);
    tcase_add_test(tests, palettes_end_at_their_ends);
    tcase_add_test(tests, characters_that_the_font_lacks_are_spelled);
    tcase_add_test(tests, a_chart_says_whether_its_font_has_all);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
