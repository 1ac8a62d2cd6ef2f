/* SIGINT: noticed, so that a command can finish the token it is at. */
#ifndef LOCUS_CLI_INTERRUPT_H
#define LOCUS_CLI_INTERRUPT_H

#include <stdbool.h>

/* From here on the first SIGINT is only remembered; a second one kills as usual. */
void locus_interrupt_watch(void);
bool locus_interrupted(void);

#endif
