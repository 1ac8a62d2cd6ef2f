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
};

/* Inside a worker: returns when all n_threads of the region (the number the worker was told) are
 * here. Waits awake for some microseconds, then lets others run: OpenMP's own barrier stays awake
 * for milliseconds, which on a busy machine is what the thread waited for needs. */
void locus_barrier_wait(struct locus_barrier *barrier, int n_threads);

/* Work of `count` items in equal runs of whole items: this thread's is [*first, *end). */
static inline void locus_threads_share(int count, int thread, int n_threads, int *first, int *end)
{
    *first = (int)((long long)count * thread / n_threads);
    *end = (int)((long long)count * (thread + 1) / n_threads);
}

#endif
