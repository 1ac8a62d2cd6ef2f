/* PNG: what was drawn comes back pixel for pixel, and too little memory is an error. Files are read
 * here by the format's own rules and zlib, so that what is tested isn't what reads. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "chart/canvas.h"
#include "hostile.h"
#include "testing.h"

/* Sides of no round number: what a row takes divides nothing. */
enum { WIDTH = 261, HEIGHT = 243, ROW = 3 * WIDTH, CHUNK_EXTRA = 12 };

/* ---- pictures ------------------------------------------------------------------------------ */

static unsigned char noise(int i, int j)
{
    unsigned mixed = (unsigned)i * 2654435761U ^ (unsigned)j * 2246822519U;
    mixed = (mixed ^ mixed >> 15) * 3266489917U;
    return (unsigned char)(mixed >> 24);
}

static unsigned char blank(int i, int j)
{
    (void)i, (void)j;
    return 255;
}

static unsigned char slope(int i, int j)
{
    return (unsigned char)(i / 3 + 2 * j);
}

static unsigned char patches(int i, int j)
{
    return j < 60 ? noise(i, j) : j < 120 ? noise(i, 0) : j < 180 ? noise(0, j) : slope(i, j);
}

typedef unsigned char a_picture(int i, int j);

/* Among them every filter of a row is used. */
static a_picture *const pictures[] = {noise, blank, slope, patches};

static struct locus_canvas draw(a_picture *picture)
{
    struct locus_canvas canvas;
    locus_error error;
    ck_assert_msg(locus_canvas_create(&canvas, WIDTH, HEIGHT, &error) == LOCUS_OK, "%s",
                  error.message);
    for (int j = 0; j < HEIGHT; j++)
        for (int i = 0; i < ROW; i++)
            canvas.pixels[j * ROW + i] = picture(i, j);
    return canvas;
}

/* ---- reading ------------------------------------------------------------------------------- */

static unsigned big_endian(const unsigned char *bytes)
{
    return (unsigned)bytes[0] << 24 | (unsigned)bytes[1] << 16 | (unsigned)bytes[2] << 8 | bytes[3];
}

/* A chunk's data, when it is whole and of that type; steps past it. */
static const unsigned char *chunk(const struct locus_buffer *png, size_t *at, const char *type,
                                  unsigned *n_bytes)
{
    const unsigned char *bytes = (const unsigned char *)png->bytes + *at;
    ck_assert_uint_ge(png->length - *at, CHUNK_EXTRA);
    *n_bytes = big_endian(bytes);
    ck_assert_uint_le(*n_bytes, png->length - *at - CHUNK_EXTRA);
    ck_assert_mem_eq(bytes + 4, type, 4);
    ck_assert_uint_eq(big_endian(bytes + 8 + *n_bytes), crc32(0, bytes + 4, *n_bytes + 4));
    *at += *n_bytes + CHUNK_EXTRA;
    return bytes + 8;
}

static int paeth(int left, int above, int corner)
{
    int sum = left + above - corner;
    int from_left = abs(sum - left), from_above = abs(sum - above), from_corner = abs(sum - corner);
    if (from_left <= from_above && from_left <= from_corner) return left;
    return from_above <= from_corner ? above : corner;
}

/* A row's bytes, from what its filter left of them. */
static void unfilter(int filter, const unsigned char *row, const unsigned char *before,
                     unsigned char *out)
{
    for (int i = 0; i < ROW; i++) {
        int left = i < 3 ? 0 : out[i - 3], above = before ? before[i] : 0;
        int corner = i < 3 || !before ? 0 : before[i - 3];
        const int guesses[] = {0, left, above, (left + above) / 2, paeth(left, above, corner)};
        ck_assert_int_lt(filter, 5);
        out[i] = (unsigned char)(row[i] + guesses[filter]);
    }
}

/* [HEIGHT, WIDTH, 3], for the caller to free. */
static unsigned char *decode(const struct locus_buffer *png)
{
    size_t at = 8;
    unsigned n_bytes;
    ck_assert_uint_gt(png->length, at);
    ck_assert_mem_eq(png->bytes, "\x89PNG\r\n\x1a\n", at);
    const unsigned char *header = chunk(png, &at, "IHDR", &n_bytes);
    ck_assert_uint_eq(n_bytes, 13);
    ck_assert_uint_eq(big_endian(header), WIDTH);
    ck_assert_uint_eq(big_endian(header + 4), HEIGHT);
    ck_assert_mem_eq(header + 8, "\x08\x02\0\0\0", 5); /* 8 bits, RGB */

    static unsigned char rows[HEIGHT * (1 + ROW)];
    uLongf length = sizeof rows;
    const unsigned char *data = chunk(png, &at, "IDAT", &n_bytes);
    ck_assert_int_eq(uncompress(rows, &length, data, n_bytes), Z_OK);
    ck_assert_uint_eq(length, sizeof rows);
    chunk(png, &at, "IEND", &n_bytes);
    ck_assert_uint_eq(n_bytes, 0);
    ck_assert_uint_eq(at, png->length);

    unsigned char *pixels = malloc((size_t)HEIGHT * ROW);
    ck_assert_ptr_nonnull(pixels);
    for (int j = 0; j < HEIGHT; j++)
        unfilter(rows[j * (1 + ROW)], rows + j * (1 + ROW) + 1, j ? pixels + (j - 1) * ROW : NULL,
                 pixels + j * ROW);
    return pixels;
}

START_TEST(picture_comes_back_pixel_for_pixel)
{
    struct locus_canvas canvas = draw(pictures[_i]);
    struct locus_buffer png = {0};
    locus_error error;
    ck_assert_msg(locus_png_encode(&canvas, &png, &error) == LOCUS_OK, "%s", error.message);
    ck_assert_ptr_null(canvas.pixels);
    unsigned char *pixels = decode(&png);
    for (int j = 0; j < HEIGHT; j++)
        for (int i = 0; i < ROW; i++)
            ck_assert_msg(pixels[j * ROW + i] == pictures[_i](i, j), "row %d, byte %d", j, i);
    free(pixels);
    locus_buffer_free(&png);
}
END_TEST

/* ---- memory -------------------------------------------------------------------------------- */

enum outcome { ENCODED, REFUSED, NOT_LIMITED, WRONG };

/* In a process of its own, with n_bytes more than it has. */
static enum outcome encode_within(size_t n_bytes, const struct locus_buffer *expected)
{
    struct locus_canvas canvas = draw(patches);
    struct locus_buffer png = {0};
    locus_error error = {0};
    if (!hostile_limit_memory(n_bytes)) return NOT_LIMITED;
    enum locus_status status = locus_png_encode(&canvas, &png, &error);
    if (canvas.pixels) return WRONG;
    if (status)
        return status == LOCUS_ERROR_MEMORY && strstr(error.message, "out of memory") ? REFUSED
                                                                                      : WRONG;
    return png.length == expected->length && !memcmp(png.bytes, expected->bytes, png.length)
               ? ENCODED
               : WRONG;
}

START_TEST(too_little_memory_is_an_error)
{
    enum { STEP = 8 << 10, MOST = 2 << 20 };
    struct locus_canvas canvas = draw(patches);
    struct locus_buffer expected = {0};
    locus_error error;
    int counts[WRONG] = {0};
    ck_assert_int_eq(locus_png_encode(&canvas, &expected, &error), LOCUS_OK);
    for (size_t limit = 0; limit <= MOST && !counts[NOT_LIMITED]; limit += STEP) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (!child) _exit((int)encode_within(limit, &expected));
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) < WRONG,
                      "within %zu bytes: wait status %d", limit, status);
        counts[WEXITSTATUS(status)]++;
    }
    if (!counts[NOT_LIMITED]) {
        ck_assert_int_gt(counts[REFUSED], 20);
        ck_assert_int_gt(counts[ENCODED], 20);
    }
    locus_buffer_free(&expected);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("png");
    TCase *tests = tcase_create("pictures");
    tcase_add_loop_test(tests, picture_comes_back_pixel_for_pixel, 0,
                        sizeof pictures / sizeof *pictures);
    tcase_add_test(tests, too_little_memory_is_an_error);
    suite_add_tcase(suite, tests);
    return testing_run(suite);
}
