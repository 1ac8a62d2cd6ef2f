/* Threads: see threads.h. */
#include "base/threads.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"

static void pause_thread(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void locus_barrier_wait(struct locus_barrier *barrier, int n_threads)
{
    enum { SPINS = 10000 };
    if (n_threads == 1) return;
    unsigned round = atomic_load_explicit(&barrier->round, memory_order_relaxed);
    unsigned arrived = atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1;
    if (arrived == (unsigned)n_threads) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&barrier->round, round + 1, memory_order_release);
        return;
    }
    for (int spins = 0; spins < SPINS; spins++) {
        if (atomic_load_explicit(&barrier->round, memory_order_acquire) != round) return;
        pause_thread();
    }
    const double start = locus_now();
    while (atomic_load_explicit(&barrier->round, memory_order_acquire) == round)
        sched_yield();
    atomic_fetch_add_explicit(&barrier->late, (unsigned long)(1e6 * (locus_now() - start)),
                              memory_order_relaxed);
}

int locus_crew_size(struct locus_crew *crew, int n_threads)
{
    if (crew->halvings && locus_now() >= crew->until) crew->halvings--;
    while (crew->halvings && n_threads >> crew->halvings == 0)
        crew->halvings--;
    return n_threads >> crew->halvings;
}

/* Trying costs as much as the region was late, so it is done once in many times as long. */
void locus_crew_done(struct locus_crew *crew, struct locus_barrier *barrier, int n_threads,
                     double seconds)
{
    const double most = 0.3, rest = 20;
    const double late = 1e-6 * (double)atomic_exchange(&barrier->late, 0);
    if (n_threads == 1 || late < most * seconds * n_threads) return;
    crew->halvings++;
    crew->until = locus_now() + rest * seconds;
}

#ifdef _OPENMP

#include <omp.h>
#include <stdio.h>

#include "base/cgroup.h"

/* The number that a file holds, or `otherwise`. */
static long read_number(const char *path, long otherwise)
{
    long number;
    FILE *file = fopen(path, "re");
    if (!file) return otherwise;
    if (fscanf(file, "%ld", &number) != 1) number = otherwise;
    fclose(file);
    return number;
}

/* Cores behind the CPUs of the affinity mask: hyper-threads of one core count once. */
static int physical_cores(void)
{
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask)) return omp_get_num_procs();
    long seen[CPU_SETSIZE][2];
    int n_cores = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &mask)) continue;
        char path[128];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
        const long core = read_number(path, cpu);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id",
                 cpu);
        const long package = read_number(path, 0);
        int known = 0;
        while (known < n_cores && (seen[known][0] != core || seen[known][1] != package))
            known++;
        if (known < n_cores) continue;
        seen[n_cores][0] = core;
        seen[n_cores++][1] = package;
    }
    return n_cores;
}

int locus_threads_default(void)
{
    int n = physical_cores(), quota = locus_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota && quota < n) n = quota;
    return n < 1 ? 1 : n;
}

void locus_threads_run(int n_threads, void (*worker)(void *context, int thread, int n_threads),
                       void *context)
{
#pragma omp parallel num_threads(n_threads)
    worker(context, omp_get_thread_num(), omp_get_num_threads());
}

#else

int locus_threads_default(void)
{
    return 1;
}

void locus_threads_run(int n_threads, void (*worker)(void *context, int thread, int n_threads),
                       void *context)
{
    (void)n_threads;
    worker(context, 0, 1);
}

#endif
