/* Multi-scale retention as a mixer (Sun et al. 2023, arXiv 2307.08621). */
#ifndef LOCUS_FORWARD_RETENTION_H
#define LOCUS_FORWARD_RETENTION_H

#include "forward/mixer.h"

extern const struct locus_mixer locus_mixer_retention;

#endif
