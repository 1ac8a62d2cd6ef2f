/* Mamba's selective scan as a mixer (Gu and Dao 2023, arXiv 2312.00752). */
#ifndef LOCUS_FORWARD_MAMBA_H
#define LOCUS_FORWARD_MAMBA_H

#include "forward/session.h"

extern const struct locus_mixer locus_mixer_mamba;

/* Tokens from one copy of the state to the next: so many that a session has no more than
 * LOCUS_MAMBA_COPIES. */
enum { LOCUS_MAMBA_INTERVAL = 256, LOCUS_MAMBA_COPIES = 64 };

int locus_mamba_interval(int capacity);

#endif
