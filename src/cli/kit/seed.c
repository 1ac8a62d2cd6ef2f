/* Seeds that are drawn: see options.h. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/kit/options.h"

uint64_t locus_seed_draw(void)
{
    /* 32 bits are short to type again, and survive JSON readers whose numbers are doubles. */
    uint32_t seed;
    FILE *random = fopen("/dev/urandom", "rb");
    bool drawn = random && fread(&seed, sizeof seed, 1, random) == 1;
    if (random) fclose(random);
    if (drawn) return seed;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint32_t)time.tv_nsec ^ (uint32_t)time.tv_sec << 12 ^ (uint32_t)getpid();
}
