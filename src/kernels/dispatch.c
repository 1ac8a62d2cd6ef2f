/* Which kernel set runs: the best this CPU has, or the one asked for. See kernels.h. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
/* Not every compiler's __builtin_cpu_supports knows "f16c". */
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

/* Each tests what the Makefile's ISA_ flags let the compiler use in the set's files. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512_bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* AMD's CPUs begin vdpbf16ps about as often as a multiply-add of floats, which is half the work.
 * Intel's, from Sapphire Rapids on, begin one in 2 cycles and four of the others meanwhile: by
 * floats they are twice as fast, and take the set only when asked to. */
static bool has_fast_bf16(void)
{
    return has_avx512_bf16() && __builtin_cpu_is("amd");
}

static bool has_slow_bf16(void)
{
    return has_avx512_bf16() && !__builtin_cpu_is("amd");
}
#endif

/* Best first. */
static const struct {
    const struct locus_kernels *kernels;
    bool (*supported)(void);
} sets[] = {
#if defined(__x86_64__)
    {&locus_kernels_avx512_bf16, has_fast_bf16},
    {&locus_kernels_avx512, has_avx512},
    {&locus_kernels_avx512_bf16, has_slow_bf16},
    {&locus_kernels_avx2, has_avx2},
#endif
#if defined(__aarch64__)
    {&locus_kernels_neon, always}, /* part of ARMv8's baseline */
#endif
    {&locus_kernels_reference, always},
};

enum { N_SETS = sizeof sets / sizeof *sets };

const struct locus_kernels *locus_kernels_at(int index)
{
    for (int i = 0; i < N_SETS; i++)
        if (sets[i].supported() && index-- == 0) return sets[i].kernels;
    return NULL;
}

const struct locus_kernels *locus_kernels_find(const char *name, locus_error *error)
{
    if (!name) return locus_kernels_at(0);
    char known[64] = "";
    size_t length = 0;
    const struct locus_kernels *kernels;
    for (int i = 0; (kernels = locus_kernels_at(i)); i++) {
        if (!strcmp(kernels->name, name)) return kernels;
        if (i) memcpy(known + length, ", ", 3), length += 2;
        size_t n = strlen(kernels->name);
        memcpy(known + length, kernels->name, n + 1);
        length += n;
    }
    locus_fail(error, LOCUS_ERROR_ARGUMENT, "kernels \"%s\": this CPU has %s", name, known);
    return NULL;
}
