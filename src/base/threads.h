/* Threads: one parallel region at a time, over OpenMP; one thread without it. */
#ifndef LOCUS_BASE_THREADS_H
#define LOCUS_BASE_THREADS_H

enum { LOCUS_MAX_THREADS = 1024 };

/* Physical cores this process may use: within its affinity mask and its cgroup's CPU quota (rounded
 * up); at least 1. Without OpenMP always 1. */
int locus_threads_default(void);

/* Runs worker(context, thread, n) on n threads, thread = 0 .. n-1, n <= n_threads as the system
 * grants, and returns when all are done. */
void locus_threads_run(int n_threads, void (*worker)(void *context, int thread, int n_threads),
                       void *context);

/* Where the threads of one region wait for each other. Zero-initialise. */
struct locus_barrier {
    _Atomic unsigned arrived, round;
    _Atomic unsigned long late; /* microseconds that threads waited without a CPU's work, in all */
};

/* Inside a worker: returns when all n_threads of the region (the number the worker was told) are
 * here. Waits awake for some microseconds, then lets others run, and is late: OpenMP's own barrier
 * stays awake for milliseconds, which on a busy machine is what the thread waited for needs. */
void locus_barrier_wait(struct locus_barrier *barrier, int n_threads);

/* How many threads a region gets, on CPUs that other programs may be busy on: one that waits for a
 * thread without a CPU takes longer than the work does. After a region that was late for a good
 * part of its time the next ones get half the threads; later, twice as many are tried again.
 * Zero-initialise. */
struct locus_crew {
    int halvings;
    double until; /* by locus_now: when more threads are tried */
};

int locus_crew_size(struct locus_crew *crew, int n_threads);

/* A region of n_threads has taken `seconds` until now; its barrier says how late it was, and is
 * made ready for the next. */
void locus_crew_done(struct locus_crew *crew, struct locus_barrier *barrier, int n_threads,
                     double seconds);

/* Work of `count` items in equal runs of whole items: this thread's is [*first, *end). */
static inline void locus_threads_share(int count, int thread, int n_threads, int *first, int *end)
{
    *first = (int)((long long)count * thread / n_threads);
    *end = (int)((long long)count * (thread + 1) / n_threads);
}

#endif
