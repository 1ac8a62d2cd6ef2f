/* New text on its way out: see stream.h.
 *
 *     pieces -> held, until no stop text can begin in it -> text, less what isn't shown
 *            -> stdout, whole characters at a time
 */
#include "cli/kit/stream.h"

#include <string.h>

#include "cli/kit/log.h"
#include "locus.h"

/* What a held byte is part of. */
enum { SHOWN, HIDDEN, HIDDEN_ON /* not the first of its piece */ };

static bool fail(struct locus_stream *stream, int *status)
{
    stream->failed = true;
    *status = locus_log_error("out of memory for the text");
    return false;
}

/* ---- letting out -------------------------------------------------------------------------- */

/* Writes the text as far as its characters are whole; all of it when no more is to come. */
static bool write_text(struct locus_stream *stream, bool last, int *status)
{
    const char *next = stream->text.bytes + stream->n_written;
    size_t n = stream->text.length - stream->n_written;
    if (stream->silent || n == 0) return true;
    if (!last) n = locus_utf8_whole(next, n);
    stream->failed = !locus_stdout_write(next, n, status);
    stream->n_written += n;
    return !stream->failed;
}

/* Moves the first n held bytes to the text, those that are shown. */
static bool let_out(struct locus_stream *stream, size_t n, int *status)
{
    struct locus_buffer *held = &stream->held, *marks = &stream->marks;
    if (n == 0) return true;
    for (size_t at = 0, end; at < n; at = end) {
        for (end = at; end < n && marks->bytes[end] == SHOWN;)
            end++;
        locus_buffer_append(&stream->text, held->bytes + at, end - at);
        while (end < n && marks->bytes[end] != SHOWN)
            end++;
    }
    if (stream->text.failed) return fail(stream, status);
    held->length -= n;
    marks->length -= n;
    memmove(held->bytes, held->bytes + n, held->length);
    memmove(marks->bytes, marks->bytes + n, marks->length);
    return write_text(stream, false, status);
}

/* ---- stop texts --------------------------------------------------------------------------- */

static size_t hidden_length(const struct locus_stream *stream, size_t at)
{
    size_t end = at + 1;
    while (end < stream->marks.length && stream->marks.bytes[end] == HIDDEN_ON)
        end++;
    return end - at;
}

enum fit { NONE, BEGUN, WHOLE };

/* Whether `stop`, or its beginning, lies at this byte of what is held: in the text with the hidden
 * pieces, or in the text without. */
static enum fit fits(const struct locus_stream *stream, size_t at, const char *stop, bool with)
{
    const struct locus_buffer *held = &stream->held;
    size_t left = strlen(stop);
    if (!with && stream->marks.bytes[at] != SHOWN) return NONE;
    while (left > 0) {
        if (at == held->length) return BEGUN;
        const bool hidden = stream->marks.bytes[at] != SHOWN;
        size_t n = hidden ? hidden_length(stream, at) : 1;
        if (!hidden || with) {
            if (n > left || memcmp(held->bytes + at, stop, n) != 0) return NONE;
            stop += n;
            left -= n;
        }
        at += n;
    }
    return WHOLE;
}

/* How many of the held bytes come before the first stop text, or before what may become one. */
static size_t find_stop(struct locus_stream *stream)
{
    const struct locus_texts *stops = stream->stops;
    size_t begun = stream->held.length;
    for (size_t at = 0; at < stream->held.length; at++) {
        if (stream->marks.bytes[at] == HIDDEN_ON) continue;
        for (int i = 0; i < 2 * stops->n_items; i++) {
            const char *stop = stops->items[i / 2];
            enum fit fit = fits(stream, at, stop, i % 2);
            if (fit == WHOLE) {
                stream->stop = stop;
                return at;
            }
            if (fit == BEGUN && at < begun) begun = at;
        }
    }
    return begun;
}

/* ---- the stream --------------------------------------------------------------------------- */

bool locus_stream_add(struct locus_stream *stream, const char *bytes, size_t n_bytes, bool shown,
                      int *status)
{
    if (stream->stop || stream->failed) return !stream->failed;
    locus_buffer_append(&stream->held, bytes, n_bytes);
    for (size_t i = 0; i < n_bytes; i++) {
        const char mark = shown ? SHOWN : i == 0 ? HIDDEN : HIDDEN_ON;
        locus_buffer_append(&stream->marks, &mark, 1);
    }
    if (stream->held.failed || stream->marks.failed) return fail(stream, status);
    size_t n = find_stop(stream);
    if (stream->stop) stream->held.length = stream->marks.length = n;
    return let_out(stream, n, status);
}

bool locus_stream_end(struct locus_stream *stream, int *status)
{
    if (stream->failed) return false;
    return let_out(stream, stream->held.length, status) && write_text(stream, true, status);
}

void locus_stream_free(struct locus_stream *stream)
{
    locus_buffer_free(&stream->text);
    locus_buffer_free(&stream->held);
    locus_buffer_free(&stream->marks);
}
