/* Hyena of order 2 as a mixer (Poli et al. 2023, arXiv 2302.10866). */
#ifndef LOCUS_FORWARD_HYENA_H
#define LOCUS_FORWARD_HYENA_H

#include "forward/mixer.h"

extern const struct locus_mixer locus_mixer_hyena;

#endif
