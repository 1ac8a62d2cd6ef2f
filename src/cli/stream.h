/* New text on its way out: held back until its characters are whole and no stop text can begin in
 * it. */
#ifndef LOCUS_CLI_STREAM_H
#define LOCUS_CLI_STREAM_H

#include "base/buffer.h"
#include "cli/options.h"

struct locus_stream {
    const struct locus_texts *stops; /* none of them empty */
    bool silent;                     /* only collect */
    struct locus_buffer text;        /* all that was let out */
    struct locus_buffer held;
    bool stopped; /* a stop text came: nothing more goes out */
};

/* Both return false with the exit status in *status when the text can't be written. */
bool locus_stream_add(struct locus_stream *stream, const char *bytes, size_t n_bytes, int *status);
/* Lets out what is still held back: no more is to come. */
bool locus_stream_end(struct locus_stream *stream, int *status);
void locus_stream_free(struct locus_stream *stream);

#endif
