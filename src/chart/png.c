/* PNG: stb_image_write's encoder, and a file that appears only when it is whole. */
#include <stdlib.h>
#include <zlib.h>

#include "base/output.h"
#include "chart/canvas.h"

/* What stb_image_write compresses by: its own deflate writes past a block that can't grow. zlib's
 * result has a bound, so that one block is enough, and zlib says when it had no memory itself.
 * (If the file's own bytes then can't be had, once the rows are freed, stb leaks what this made.)
 */
static unsigned char *compress_rows(const unsigned char *rows, int n_bytes, int *n_compressed,
                                    int level)
{
    uLong length = compressBound((uLong)n_bytes);
    unsigned char *compressed = malloc(length);
    if (!compressed || compress2(compressed, &length, rows, (uLong)n_bytes, level) != Z_OK) {
        free(compressed);
        return NULL;
    }
    *n_compressed = (int)length;
    return compressed;
}

/* The encoder lives in this file alone: static, so that the constants it keeps in variables are no
 * globals of ours, and with its own warnings silenced. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wundef"
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
/* Never 0 bytes, whatever it multiplies. */
#define STBIW_MALLOC(size) malloc((size) ? (size) : 1)
#define STBIW_REALLOC(block, size) realloc(block, size)
#define STBIW_FREE(block) free(block)
#define STBIW_ZLIB_COMPRESS compress_rows
#define STBIW_ASSERT(condition) ((void)(condition))
#if __has_include(<stb/stb_image_write.h>)
#include <stb/stb_image_write.h>
#else
#include <stb_image_write.h>
#endif
#pragma GCC diagnostic pop

static void append(void *context, void *bytes, int n_bytes)
{
    locus_buffer_append(context, bytes, (size_t)n_bytes);
}

enum locus_status locus_png_encode(struct locus_canvas *canvas, struct locus_buffer *png,
                                   locus_error *error)
{
    const int width = canvas->width, height = canvas->height;
    int done = stbi_write_png_to_func(append, png, width, height, 3, canvas->pixels, 3 * width);
    locus_canvas_free(canvas);
    return done && !png->failed ? LOCUS_OK
                                : locus_fail_memory(error, 3 * (size_t)width * (size_t)height);
}

enum locus_status locus_png_save(const char *path, struct locus_buffer *png,
                                 enum locus_status status, locus_error *error)
{
    if (!status) status = locus_output_save(path, png->bytes, png->length, error);
    locus_buffer_free(png);
    return status;
}
