/* The sampler inside the engine: made without a model. Its public face is in include/locus.h. */
#ifndef LOCUS_SAMPLER_H
#define LOCUS_SAMPLER_H

#include "base/error.h"

/* What a sampler needs to know of a model. */
struct locus_sampler_vocabulary {
    int n_vocab;  /* logits a token */
    int n_tokens; /* ids that may be drawn: 1 <= n_tokens <= n_vocab */
    bool (*is_end)(const void *source, int32_t token); /* NULL: no token ends a text */
    const void *source;
};

/* As locus_sampler_create. `source` is only asked during this call. */
locus_sampler *locus_sampler_create_for(const struct locus_sampler_vocabulary *vocabulary,
                                        const locus_sampler_params *params, locus_error *error);

#endif
