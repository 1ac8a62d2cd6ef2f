/* New text on its way out: see stream.h. */
#include "cli/stream.h"

#include <string.h>

#include "cli/talk.h"
#include "locus.h"

/* Lets out the first n held bytes. */
static bool let_out(struct locus_stream *stream, size_t n, int *status)
{
    struct locus_buffer *held = &stream->held;
    if (n == 0) return true;
    locus_buffer_append(&stream->text, held->bytes, n);
    if (stream->text.failed) {
        *status = locus_talk_error("out of memory for the text");
        return false;
    }
    if (!stream->silent && !locus_stdout_write(held->bytes, n, status)) return false;
    memmove(held->bytes, held->bytes + n, held->length - n);
    held->length -= n;
    return true;
}

/* Where the first stop text begins, or the length of what is held. */
static size_t find_stop(const struct locus_stream *stream)
{
    const struct locus_buffer *held = &stream->held;
    size_t first = held->length;
    for (int i = 0; i < stream->stops->n_items; i++) {
        const char *stop = stream->stops->items[i];
        const char *found = memmem(held->bytes, held->length, stop, strlen(stop));
        if (found && (size_t)(found - held->bytes) < first) first = (size_t)(found - held->bytes);
    }
    return first;
}

/* Bytes at the end of what is held that a stop text may begin with. */
static size_t stop_begun(const struct locus_stream *stream)
{
    const struct locus_buffer *held = &stream->held;
    size_t longest = 0;
    for (int i = 0; i < stream->stops->n_items; i++) {
        const char *stop = stream->stops->items[i];
        size_t n = strlen(stop) - 1;
        if (n > held->length) n = held->length;
        while (n > longest && memcmp(held->bytes + held->length - n, stop, n) != 0)
            n--;
        if (n > longest) longest = n;
    }
    return longest;
}

bool locus_stream_add(struct locus_stream *stream, const char *bytes, size_t n_bytes, int *status)
{
    struct locus_buffer *held = &stream->held;
    if (stream->stopped || n_bytes == 0) return true;
    locus_buffer_append(held, bytes, n_bytes);
    if (held->failed) {
        *status = locus_talk_error("out of memory for the text");
        return false;
    }
    size_t stop = find_stop(stream);
    if (stop < held->length) {
        stream->stopped = true;
        held->length = stop;
        return let_out(stream, stop, status);
    }
    return let_out(stream, locus_utf8_whole(held->bytes, stop - stop_begun(stream)), status);
}

bool locus_stream_end(struct locus_stream *stream, int *status)
{
    return let_out(stream, stream->held.length, status);
}

void locus_stream_free(struct locus_stream *stream)
{
    locus_buffer_free(&stream->text);
    locus_buffer_free(&stream->held);
}
