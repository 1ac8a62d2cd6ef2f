/* Threads: see threads.h. */
#include "base/threads.h"

#include <sched.h>
#include <stdatomic.h>

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
    for (int spins = 0; atomic_load_explicit(&barrier->round, memory_order_acquire) == round;
         spins++)
        if (spins < SPINS)
            pause_thread();
        else
            sched_yield();
}

#ifdef _OPENMP

#include <omp.h>
#include <stdio.h>
#include <string.h>

/* The one or two numbers that a file such as cpu.max begins with ("200000 100000"). Returns how
 * many were read: none of "max 100000". */
static int read_numbers(const char *path, long numbers[2])
{
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    int n = fscanf(file, "%ld %ld", &numbers[0], &numbers[1]);
    fclose(file);
    return n < 0 ? 0 : n;
}

/* CPUs that the cgroup's quota pays for, rounded up; 0: no quota. Version 2 first, then 1. */
static int quota_cpus(void)
{
    long numbers[2], period[2];
    if (read_numbers("/sys/fs/cgroup/cpu.max", numbers) != 2) {
        if (read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", numbers) != 1) return 0;
        if (read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period) != 1) return 0;
        numbers[1] = period[0];
    }
    if (numbers[0] <= 0 || numbers[1] <= 0) return 0;
    return (int)((numbers[0] + numbers[1] - 1) / numbers[1]);
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
        long core[2], package[2];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", cpu);
        if (read_numbers(path, core) != 1) core[0] = cpu;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id",
                 cpu);
        if (read_numbers(path, package) != 1) package[0] = 0;
        int known = 0;
        while (known < n_cores && (seen[known][0] != core[0] || seen[known][1] != package[0]))
            known++;
        if (known < n_cores) continue;
        seen[n_cores][0] = core[0];
        seen[n_cores++][1] = package[0];
    }
    return n_cores;
}

int locus_threads_default(void)
{
    int n = physical_cores(), quota = quota_cpus();
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
