/* SIGINT, SIGTERM, SIGHUP: noticed, so that a command can finish the token it is at, and leaves no
 * file that is not whole. */
#ifndef LOCUS_CLI_INTERRUPT_H
#define LOCUS_CLI_INTERRUPT_H

#include <stdbool.h>

/* From here on the first of these signals is only remembered. A second SIGINT kills as usual; of
 * the others, which timeout(1) and a closing terminal may send twice, the third. A SIGHUP that is
 * ignored (nohup) stays so. */
void locus_interrupt_watch(void);
bool locus_interrupted(void);

/* The exit status of a command that was interrupted: 128 and the signal's number. */
int locus_interrupt_status(void);

#endif
