/* Memory that is taken as one block and given out in pieces: the same calls count it, and then,
 * with a base, give it out. */
#ifndef LOCUS_FORWARD_ARENA_H
#define LOCUS_FORWARD_ARENA_H

#include "base/buffer.h"

struct locus_arena {
    char *base;  /* aligned to 64 bytes; NULL: pieces are only counted */
    size_t used; /* bytes; SIZE_MAX: more than there can be */
};

/* An array [rows, cols] of elements of that size, aligned to 64 bytes; NULL where it has none, and
 * while pieces are only counted. */
static inline void *locus_arena_take(struct locus_arena *arena, size_t rows, size_t cols,
                                     size_t size)
{
    enum { LINE = 64 };
    char *piece = arena->base ? arena->base + arena->used : NULL;
    size_t n, lines;
    if (rows == 0 || cols == 0) return NULL;
    if (!locus_mul_size(rows, cols, &n) || !locus_mul_size(n, size, &n) ||
        !locus_mul_size(n / LINE + (n % LINE != 0), LINE, &lines) ||
        __builtin_add_overflow(arena->used, lines, &arena->used))
        arena->used = SIZE_MAX;
    return piece;
}

static inline float *locus_arena_floats(struct locus_arena *arena, size_t rows, size_t cols)
{
    return locus_arena_take(arena, rows, cols, sizeof(float));
}

static inline int *locus_arena_ints(struct locus_arena *arena, size_t rows, size_t cols)
{
    return locus_arena_take(arena, rows, cols, sizeof(int));
}

#endif
