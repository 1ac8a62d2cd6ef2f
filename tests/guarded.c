/* Random values and guarded memory: see guarded.h. */
#include "guarded.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "testing.h"

/* ---- random values ------------------------------------------------------------------------ */

static uint64_t random_state = 1;

void random_seed(uint64_t seed)
{
    random_state = seed;
}

uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

int random_int(int from, int to)
{
    return from + (int)(random_bits() % (uint32_t)(to - from + 1));
}

float random_float(int odd)
{
    static const float special[] = {0.0f,   -0.0f, 1e-40f,    -3e-42f,    1e-38f,
                                    -3e38f, 1e30f, HUGE_VALF, -HUGE_VALF, NAN};
    if (random_int(0, 63) < odd) return special[random_int(0, 9)];
    return (float)(int32_t)random_bits() * 0x1p-30f;
}

/* ---- guarded memory ----------------------------------------------------------------------- */

struct guarded guard(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (size + page - 1) / page * page;
    struct guarded memory = {.n_pages_bytes = body + page, .size = size};
    memory.pages =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory.pages, MAP_FAILED);
    ck_assert_int_eq(mprotect(memory.pages + body, page, PROT_NONE), 0);
    memory.block = memory.pages + body - size;
    return memory;
}

void release(struct guarded *memory)
{
    munmap(memory->pages, memory->n_pages_bytes);
}

struct guarded random_floats(size_t n, int odd)
{
    struct guarded memory = guard(n * sizeof(float));
    float *values = (float *)(void *)memory.block;
    for (size_t i = 0; i < n; i++)
        values[i] = random_float(odd);
    return memory;
}

float *floats_of(const struct guarded *memory)
{
    return (float *)(void *)memory->block;
}

void assert_same(const struct guarded *expected, const struct guarded *found, const char *what)
{
    const float *a = floats_of(expected), *b = floats_of(found);
    if (memcmp(a, b, expected->size) == 0) return;
    for (size_t i = 0; i < expected->size / sizeof *a; i++)
        ck_assert_msg(memcmp(&a[i], &b[i], sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i])),
                      "%s: value %zu is %.9g, expected %.9g", what, i, (double)b[i], (double)a[i]);
}
