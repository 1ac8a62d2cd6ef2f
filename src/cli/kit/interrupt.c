/* Signals that end a command: see interrupt.h. */
#include "cli/kit/interrupt.h"

#include <signal.h>

#include "cli/kit/log.h"

static volatile sig_atomic_t interrupted; /* a signal handler can reach nothing but a global */

static void remember(int signal_number)
{
    if (!interrupted)
        interrupted = signal_number;
    else
        signal(signal_number, SIG_DFL);
}

void locus_interrupt_watch(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = remember}, before;
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 3; i++) {
        /* No SA_RESTART: a read that waits for the prompt ends too. */
        action.sa_flags = signals[i] == SIGINT ? (int)SA_RESETHAND : 0;
        const bool ignored = signals[i] == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 &&
                             before.sa_handler == SIG_IGN;
        if (!ignored) sigaction(signals[i], &action, NULL);
    }
}

bool locus_interrupted(void)
{
    return interrupted != 0;
}

int locus_interrupt_status(void)
{
    return interrupted ? 128 + (int)interrupted : LOCUS_EXIT_INTERRUPTED;
}
