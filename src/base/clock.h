/* The clock that durations are measured by. */
#ifndef LOCUS_BASE_CLOCK_H
#define LOCUS_BASE_CLOCK_H

/* Seconds, from some fixed moment on. */
double locus_now(void);

#endif
