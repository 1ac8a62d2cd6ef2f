/* Mamba 2 as a mixer (Dao and Gu 2024, arXiv 2405.21060). */
#ifndef LOCUS_FORWARD_MAMBA2_H
#define LOCUS_FORWARD_MAMBA2_H

#include "forward/mixer.h"

extern const struct locus_mixer locus_mixer_mamba2;

#endif
