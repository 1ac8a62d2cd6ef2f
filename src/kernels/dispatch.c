/* Which kernels run: the best this CPU has, or those asked for. See kernels.h. */
#include <stdio.h>
#include <string.h>

#include "kernels/share.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
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

/* Each tests what the Makefile's ISA_ flags let the compiler use in the level's file. */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_vnni(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

static bool has_bf16(void)
{
    return has_vnni() && __builtin_cpu_supports("avx512bf16");
}

/* AMD's CPUs begin vdpbf16ps about as often as a multiply-add of floats, which is half the work.
 * Intel's, from Sapphire Rapids on, begin one in 2 cycles and four of the others meanwhile: by
 * floats they are twice as fast, and take the level only when asked to. */
static bool has_slow_bf16(void)
{
    return has_bf16() && !__builtin_cpu_is("amd");
}
#elif defined(__aarch64__)
static bool has_dotprod(void)
{
#if defined(__linux__)
    return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
    return true; /* every 64-bit Mac has it */
#endif
}
#endif

/* Upwards: the set of a row's name is made of this row and of all before it that the CPU has. */
static const struct {
    const char *name;
    bool (*supported)(void);
    void (*overwrite)(struct locus_kernels *kernels);
} levels[] = {
    {"reference", always, locus_kernels_reference},
#if defined(__x86_64__)
    {"avx2", has_avx2, locus_kernels_avx2},
    {"avx512", has_avx512, locus_kernels_avx512},
    {"avx512+vnni", has_vnni, locus_kernels_avx512_vnni},
    {"avx512+vnni+bf16", has_bf16, locus_kernels_avx512_bf16},
#elif defined(__aarch64__)
    {"neon", always, locus_kernels_neon}, /* part of ARMv8's baseline */
    {"neon+dotprod", has_dotprod, locus_kernels_neon_dot},
#endif
};

enum { N_LEVELS = sizeof levels / sizeof *levels };

/* The level of the set that is number `index` from the best down; -1: there is none. */
static int level_at(int index)
{
    int order[N_LEVELS] = {0}, n = 0;
    for (int i = N_LEVELS - 1; i >= 0; i--)
        if (levels[i].supported()) order[n++] = i;
#if defined(__x86_64__)
    if (has_slow_bf16()) { /* the set below it is better */
        const int slow = order[0];
        order[0] = order[1];
        order[1] = slow;
    }
#endif
    return index < n ? order[index] : -1;
}

const char *locus_kernels_name(int index)
{
    const int level = level_at(index);
    return level < 0 ? NULL : levels[level].name;
}

enum locus_status locus_kernels_init(struct locus_kernels *kernels, const char *name,
                                     locus_error *error)
{
    char known[128] = "";
    size_t length = 0;
    if (name && !strcmp(name, "avx512_bf16")) name = "avx512+vnni+bf16";
    for (int n = 0, level; (level = level_at(n)) >= 0; n++) {
        if (!name || !strcmp(levels[level].name, name)) {
            for (int i = 0; i <= level; i++)
                if (levels[i].supported()) levels[i].overwrite(kernels);
            kernels->name = levels[level].name;
            return LOCUS_OK;
        }
        length += (size_t)snprintf(known + length, sizeof known - length, "%s%s", n ? ", " : "",
                                   levels[level].name);
    }
    return locus_fail(error, LOCUS_ERROR_ARGUMENT, "kernels \"%s\": this CPU has %s", name, known);
}

void locus_multiply(const struct locus_kernels *kernels, const struct locus_matmul *op, int thread,
                    int n_threads)
{
    const enum locus_form form = locus_weight_type(op->weight->type)->form;
    kernels->matmul[form](op, locus_share_of(op, thread, n_threads));
}
