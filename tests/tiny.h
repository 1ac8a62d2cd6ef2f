/* A tiny random decoder that holds the tensors of every position scheme. */
#ifndef LOCUS_TESTS_TINY_H
#define LOCUS_TESTS_TINY_H

#include <stdint.h>

#include "locus.h"

enum {
    TINY_VOCAB = 40,
    TINY_EMBD = 32,
    TINY_LAYERS = 2,
    TINY_HEADS = 4,
    TINY_HEADS_KV = 2,
    TINY_HEAD_DIM = 8,
    TINY_FF = 48,
    TINY_TRAINED = 24,
    TINY_ROWS = 128 /* positions of its learned tables */
};

/* The values [n] of the tensor of that name, the same in every process; free() them. */
float *tiny_values(const char *name, int n);

/* Writes and opens it. RMSNorm before each half, relu, a tied head; no scheme of its own ("none").
 * Local layers see `window` positions, each `window_every`-th layer (0: no local layers). */
locus_model *tiny_model(int window, int window_every);

/* Token i of its text. */
int32_t tiny_token(int i);

#endif
