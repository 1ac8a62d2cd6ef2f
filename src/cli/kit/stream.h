/* New text on its way out: held back until its characters are whole and no stop text can begin in
 * it.
 *
 * Pieces that are not shown (special tokens) don't go out, but a stop text may lie in the text with
 * all of them as well as in the text without: "end<|sep|>" is found however it is written.
 */
#ifndef LOCUS_CLI_STREAM_H
#define LOCUS_CLI_STREAM_H

#include "base/buffer.h"
#include "cli/kit/options.h"

struct locus_stream {
    const struct locus_texts *stops; /* none of them empty */
    bool silent;                     /* only collect */
    struct locus_buffer text;        /* all that is no longer held back for a stop text */
    size_t n_written;                /* bytes of it on stdout */
    struct locus_buffer held, marks; /* of one length: bytes, and what each is part of */
    const char *stop;                /* the stop text that came: nothing more goes out */
    bool failed;                     /* what went wrong has been said: nothing more goes out */
};

/* Both return false with the exit status in *status when the text can't be written. A piece that is
 * not `shown` counts whole in a stop text, or not at all. */
bool locus_stream_add(struct locus_stream *stream, const char *bytes, size_t n_bytes, bool shown,
                      int *status);
/* Lets out what is still held back: no more is to come. */
bool locus_stream_end(struct locus_stream *stream, int *status);
void locus_stream_free(struct locus_stream *stream);

#endif
