/* PNG: rows filtered as the format has it, compressed by zlib, and a file that appears only when it
 * is whole. */
#include <stdlib.h>
#include <zlib.h>

#include "base/output.h"
#include "chart/canvas.h"

enum { CHANNELS = 3, N_FILTERS = 5, LEVEL = 8 /* of zlib's 9 */ };

/* Of three neighbours the one nearest to left + above - corner, the earlier of equals. */
static int paeth(int left, int above, int corner)
{
    int from_left = abs(above - corner), from_above = abs(left - corner);
    int from_corner = abs(left + above - 2 * corner);
    if (from_left <= from_above && from_left <= from_corner) return left;
    return from_above <= from_corner ? above : corner;
}

/* Byte i of a row, less what its neighbours let the filter expect. No row is above the first. */
static unsigned char filtered(int filter, const unsigned char *row, const unsigned char *before,
                              size_t i)
{
    int left = i < CHANNELS ? 0 : row[i - CHANNELS], above = before ? before[i] : 0;
    int corner = i < CHANNELS || !before ? 0 : before[i - CHANNELS];
    int expected = filter == 1   ? left
                   : filter == 2 ? above
                   : filter == 3 ? (left + above) / 2
                   : filter == 4 ? paeth(left, above, corner)
                                 : 0;
    return (unsigned char)(row[i] - expected);
}

/* The filter that leaves the smallest bytes, taken as signed: the format's own advice. */
static int best_filter(const unsigned char *row, const unsigned char *before, size_t n)
{
    int best = 0;
    unsigned least = 0;
    for (int filter = 0; filter < N_FILTERS; filter++) {
        unsigned sum = 0;
        for (size_t i = 0; i < n; i++)
            sum += (unsigned)abs((signed char)filtered(filter, row, before, i));
        if (filter && sum >= least) continue;
        best = filter;
        least = sum;
    }
    return best;
}

/* Into [height, 1 + 3 width]: each row's filter, and what it leaves. */
static void filter_rows(const struct locus_canvas *canvas, unsigned char *out)
{
    const size_t n = CHANNELS * (size_t)canvas->width;
    const unsigned char *row = canvas->pixels, *before = NULL;
    for (int j = 0; j < canvas->height; j++, before = row, row += n) {
        int filter = best_filter(row, before, n);
        *out++ = (unsigned char)filter;
        for (size_t i = 0; i < n; i++)
            *out++ = filtered(filter, row, before, i);
    }
}

static void put_big_endian(unsigned char out[4], unsigned long value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* `data` is no NULL, for which zlib would begin its sum anew. */
static void append_chunk(struct locus_buffer *png, const char *type, const void *data,
                         size_t n_bytes)
{
    unsigned char length[4], sum[4];
    put_big_endian(length, n_bytes);
    put_big_endian(sum, crc32(crc32(0, (const Bytef *)type, 4), data, (uInt)n_bytes));
    locus_buffer_append(png, length, sizeof length);
    locus_buffer_append(png, type, 4);
    locus_buffer_append(png, data, n_bytes);
    locus_buffer_append(png, sum, sizeof sum);
}

static void append_file(struct locus_buffer *png, const struct locus_canvas *canvas,
                        const unsigned char *data, size_t n_bytes)
{
    unsigned char header[13] = {[8] = 8, [9] = 2}; /* 8 bits a channel, RGB */
    put_big_endian(header, (unsigned long)canvas->width);
    put_big_endian(header + 4, (unsigned long)canvas->height);
    locus_buffer_append(png, "\x89PNG\r\n\x1a\n", 8);
    append_chunk(png, "IHDR", header, sizeof header);
    append_chunk(png, "IDAT", data, n_bytes);
    append_chunk(png, "IEND", "", 0);
}

enum locus_status locus_png_encode(struct locus_canvas *canvas, struct locus_buffer *png,
                                   locus_error *error)
{
    const size_t n_bytes = (size_t)canvas->height * (1 + CHANNELS * (size_t)canvas->width);
    uLong length = compressBound(n_bytes);
    unsigned char *rows = malloc(n_bytes), *data = malloc(length);
    bool done = rows && data;
    if (done) {
        filter_rows(canvas, rows);
        done = compress2(data, &length, rows, n_bytes, LEVEL) == Z_OK;
    }
    if (done) append_file(png, canvas, data, length);
    free(rows);
    free(data);
    locus_canvas_free(canvas);
    return done && !png->failed ? LOCUS_OK : locus_fail_memory(error, n_bytes);
}

enum locus_status locus_png_save(const char *path, struct locus_buffer *png,
                                 enum locus_status status, locus_error *error)
{
    if (!status) status = locus_output_save(path, png->bytes, png->length, error);
    locus_buffer_free(png);
    return status;
}
