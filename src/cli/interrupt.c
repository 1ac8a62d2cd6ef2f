/* SIGINT: see interrupt.h. */
#include "cli/interrupt.h"

#include <signal.h>

static volatile sig_atomic_t interrupted; /* a signal handler can reach nothing but a global */

static void remember(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void locus_interrupt_watch(void)
{
    struct sigaction action = {.sa_handler = remember};
    sigemptyset(&action.sa_mask);
    /* No SA_RESTART: a read that waits for the prompt ends too. */
    action.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGINT, &action, NULL);
}

bool locus_interrupted(void)
{
    return interrupted != 0;
}
