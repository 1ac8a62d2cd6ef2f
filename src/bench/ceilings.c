/* What this machine can do at most: see bench.h.
 *
 * Rates are those of loops that do nothing else: independent chains of multiply-adds in registers,
 * and a plain read of memory. Functions carry their own target, and run only where the CPU has it.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/threads.h"
#include "bench/bench.h"

enum {
    CHAINS = 12, /* enough to hide the latency of one multiply-add */
    STEPS = 4000000,
    BASELINE_STEPS = STEPS / 4, /* where the compiler may not even have vectors */
    BASELINE_LANES = 4,
    RUNS = 5
};

/* One thread's share of a measurement; `sink` keeps the work from being dropped. */
struct work {
    const uint64_t *block;
    size_t n_words;
    uint64_t (*loop)(const struct work *work, int thread, int n_threads);
    uint64_t *sinks; /* [n_threads * 8], a cache line each */
};

static void run_share(void *context, int thread, int n_threads)
{
    const struct work *work = context;
    work->sinks[thread * 8] += work->loop(work, thread, n_threads);
}

/* Seconds of the fastest of a few runs. */
static double best_time(struct work *work, int n_threads)
{
    double best = INFINITY;
    for (int run = 0; run < RUNS; run++) {
        double start = locus_now();
        locus_threads_run(n_threads, run_share, work);
        best = fmin(best, locus_now() - start);
    }
    return best;
}

/* Words [first, end) of a thread, in whole steps of READ_WORDS. */
enum { READ_WORDS = 64, READ_AHEAD = 256 /* words */ };

static void share_words(const struct work *work, int thread, int n_threads, size_t *first,
                        size_t *end)
{
    const size_t n_steps = work->n_words / READ_WORDS;
    *first = n_steps * (size_t)thread / (size_t)n_threads * READ_WORDS;
    *end = n_steps * (size_t)(thread + 1) / (size_t)n_threads * READ_WORDS;
}

static uint64_t read_baseline(const struct work *work, int thread, int n_threads)
{
    size_t first, end;
    uint64_t sums[16] = {0};
    share_words(work, thread, n_threads, &first, &end);
    for (size_t i = first; i < end; i += 16) {
        __builtin_prefetch(work->block + i + READ_AHEAD);
        __builtin_prefetch(work->block + i + READ_AHEAD + 8);
        for (size_t j = 0; j < 16; j++)
            sums[j] ^= work->block[i + j];
    }
    for (int j = 1; j < 16; j++)
        sums[0] ^= sums[j];
    return sums[0];
}

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f"))) static uint64_t read_avx512(const struct work *work, int thread,
                                                               int n_threads)
{
    size_t first, end;
    __m512i sums[8];
    share_words(work, thread, n_threads, &first, &end);
    for (int j = 0; j < 8; j++)
        sums[j] = _mm512_setzero_si512();
    for (size_t i = first; i < end; i += READ_WORDS)
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            __builtin_prefetch(work->block + i + READ_AHEAD + 8 * j);
            sums[j] = _mm512_xor_si512(sums[j], _mm512_loadu_si512(work->block + i + 8 * j));
        }
    for (int j = 1; j < 8; j++)
        sums[0] = _mm512_xor_si512(sums[0], sums[j]);
    return (uint64_t)_mm512_reduce_or_epi64(sums[0]);
}

__attribute__((target("avx512f"))) static uint64_t f32_avx512(const struct work *work, int thread,
                                                              int n_threads)
{
    (void)work, (void)n_threads;
    __m512 a[CHAINS], factor = _mm512_set1_ps(0.999f), term = _mm512_set1_ps(0.001f);
    for (int c = 0; c < CHAINS; c++)
        a[c] = _mm512_set1_ps((float)(c + thread));
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            a[c] = _mm512_fmadd_ps(a[c], factor, term);
    for (int c = 1; c < CHAINS; c++)
        a[0] = _mm512_add_ps(a[0], a[c]);
    return (uint64_t)_mm512_cvtss_f32(a[0]);
}

__attribute__((target("avx2,fma"))) static uint64_t f32_avx2(const struct work *work, int thread,
                                                             int n_threads)
{
    (void)work, (void)n_threads;
    __m256 a[CHAINS], factor = _mm256_set1_ps(0.999f), term = _mm256_set1_ps(0.001f);
    for (int c = 0; c < CHAINS; c++)
        a[c] = _mm256_set1_ps((float)(c + thread));
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            a[c] = _mm256_fmadd_ps(a[c], factor, term);
    for (int c = 1; c < CHAINS; c++)
        a[0] = _mm256_add_ps(a[0], a[c]);
    return (uint64_t)_mm256_cvtss_f32(a[0]);
}

__attribute__((target("avx512f,avx512bf16"))) static uint64_t bf16_avx512(const struct work *work,
                                                                          int thread, int n_threads)
{
    (void)work, (void)n_threads;
    const __m512i halves = _mm512_set1_epi32(0x3A003A00), ones = _mm512_set1_epi32(0x3F803F80);
    __m512bh x, y;
    memcpy(&x, &ones, sizeof x);
    memcpy(&y, &halves, sizeof y);
    __m512 a[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        a[c] = _mm512_set1_ps((float)(c + thread));
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            a[c] = _mm512_dpbf16_ps(a[c], x, y);
    for (int c = 1; c < CHAINS; c++)
        a[0] = _mm512_add_ps(a[0], a[c]);
    return (uint64_t)_mm512_cvtss_f32(a[0]);
}

__attribute__((target("avx512f,avx512vnni"))) static uint64_t int8_avx512(const struct work *work,
                                                                          int thread, int n_threads)
{
    (void)work, (void)n_threads;
    const __m512i x = _mm512_set1_epi32(0x01010101), y = _mm512_set1_epi32(0x01020304);
    __m512i a[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        a[c] = _mm512_set1_epi32(c + thread);
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            a[c] = _mm512_dpbusd_epi32(a[c], x, y);
    for (int c = 1; c < CHAINS; c++)
        a[0] = _mm512_add_epi32(a[0], a[c]);
    return (uint64_t)_mm_cvtsi128_si32(_mm512_castsi512_si128(a[0]));
}
#endif

/* Chains of whatever the compiler's baseline has. */
static uint64_t f32_baseline(const struct work *work, int thread, int n_threads)
{
    (void)work, (void)n_threads;
    float a[CHAINS][BASELINE_LANES];
    for (int c = 0; c < CHAINS; c++)
        for (int lane = 0; lane < BASELINE_LANES; lane++)
            a[c][lane] = (float)(c + thread + lane);
    for (int s = 0; s < BASELINE_STEPS; s++)
        for (int c = 0; c < CHAINS; c++)
            for (int lane = 0; lane < BASELINE_LANES; lane++)
#if defined(__aarch64__)
                a[c][lane] = fmaf(a[c][lane], 0.999f, 0.001f);
#else
                a[c][lane] = a[c][lane] * 0.999f + 0.001f;
#endif
    float sum = 0;
    for (int c = 0; c < CHAINS; c++)
        for (int lane = 0; lane < BASELINE_LANES; lane++)
            sum += a[c][lane];
    return (uint64_t)sum;
}

/* Billions of operations a second, at `operations` a step and thread. */
static double compute_rate(struct work *work, int n_threads, double operations)
{
    return operations * STEPS * CHAINS * n_threads / best_time(work, n_threads) / 1e9;
}

static void measure_compute(struct locus_ceilings *ceilings, struct work *work, int n_threads)
{
    work->loop = f32_baseline;
    double lanes = (double)BASELINE_LANES * BASELINE_STEPS / STEPS;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        work->loop = f32_avx512;
        lanes = 16;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        work->loop = f32_avx2;
        lanes = 8;
    }
#endif
    ceilings->f32_gflops = compute_rate(work, n_threads, 2 * lanes);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16")) {
        work->loop = bf16_avx512;
        ceilings->bf16_gflops = compute_rate(work, n_threads, 64);
    }
    if (__builtin_cpu_supports("avx512vnni")) {
        work->loop = int8_avx512;
        ceilings->int8_gops = compute_rate(work, n_threads, 128);
    }
#endif
}

enum locus_status locus_ceilings_measure(struct locus_ceilings *ceilings, size_t n_bytes,
                                         int n_threads, locus_error *error)
{
    enum { LEAST = 16 << 20 };
    if (n_bytes < LEAST) n_bytes = LEAST;
    *ceilings = (struct locus_ceilings){0};
    uint64_t *block = locus_aligned_zalloc(n_bytes / 4096 + 1, 4096);
    uint64_t *sinks = locus_aligned_zalloc((size_t)n_threads, 64);
    struct work work = {.block = block, .n_words = n_bytes / 8, .sinks = sinks};
    enum locus_status status = LOCUS_OK;
    if (block && sinks) {
        locus_aligned_huge(block, n_bytes); /* as weights lie */
        memset(block, 1, n_bytes);          /* untouched pages would all be the same one */
        work.loop = read_baseline;
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f")) work.loop = read_avx512;
#endif
        ceilings->read_gb_per_second = (double)n_bytes / best_time(&work, n_threads) / 1e9;
        measure_compute(ceilings, &work, n_threads);
    } else {
        status = locus_fail_memory(error, n_bytes);
    }
    locus_aligned_free(block);
    locus_aligned_free(sinks);
    return status;
}
