/* Mamba's selective scan as a mixer (Gu and Dao 2023, arXiv 2312.00752). */
#ifndef LOCUS_FORWARD_MAMBA_H
#define LOCUS_FORWARD_MAMBA_H

#include "forward/session.h"

extern const struct locus_mixer locus_mixer_mamba;

#endif
