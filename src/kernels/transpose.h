/* Rows into panels: 32 rows side by side become columns of 32, in vectors of 16 bytes.
 *
 * A square of values is transposed by zips: interleaving rows that lie half the square apart, as
 * often as the side is a power of 2.
 */
#ifndef LOCUS_KERNELS_TRANSPOSE_H
#define LOCUS_KERNELS_TRANSPOSE_H

#include "kernels/kernels.h"

typedef uint32_t quad __attribute__((vector_size(16)));
typedef uint16_t octet __attribute__((vector_size(16)));

#if defined(__clang__)
#define ZIP_QUADS(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define ZIP_OCTETS(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define ZIP_QUADS(a, b, ...) __builtin_shuffle(a, b, (quad){__VA_ARGS__})
#define ZIP_OCTETS(a, b, ...) __builtin_shuffle(a, b, (octet){__VA_ARGS__})
#endif

/* out[i * n_rows + r] = dword i of row r, for n dwords of n_rows rows, both multiples of 4. */
static inline void locus_transpose_dwords(uint32_t *out, const unsigned char *const *rows,
                                          size_t n_rows, size_t n)
{
    for (size_t r = 0; r < n_rows; r += 4)
        for (size_t i = 0; i < n; i += 4) {
            quad a[4], b[4];
            for (int k = 0; k < 4; k++)
                memcpy(&a[k], rows[r + (size_t)k] + 4 * i, sizeof a[k]);
            for (int k = 0; k < 2; k++) {
                b[2 * k] = ZIP_QUADS(a[k], a[k + 2], 0, 4, 1, 5);
                b[2 * k + 1] = ZIP_QUADS(a[k], a[k + 2], 2, 6, 3, 7);
            }
            for (int k = 0; k < 2; k++) {
                a[2 * k] = ZIP_QUADS(b[k], b[k + 2], 0, 4, 1, 5);
                a[2 * k + 1] = ZIP_QUADS(b[k], b[k + 2], 2, 6, 3, 7);
            }
            for (int k = 0; k < 4; k++)
                memcpy(out + (i + (size_t)k) * n_rows + r, &a[k], sizeof a[k]);
        }
}

/* out[i * 32 + r] = word i of row r, for n words (a multiple of 8) of 32 rows. */
static inline void locus_transpose_words(uint16_t *out,
                                         const unsigned char *const rows[LOCUS_PANEL], size_t n)
{
    for (size_t r = 0; r < LOCUS_PANEL; r += 8)
        for (size_t i = 0; i < n; i += 8) {
            octet a[8], b[8];
            for (int k = 0; k < 8; k++)
                memcpy(&a[k], rows[r + (size_t)k] + 2 * i, sizeof a[k]);
            for (int step = 0; step < 3; step++) {
                for (int k = 0; k < 4; k++) {
                    b[2 * k] = ZIP_OCTETS(a[k], a[k + 4], 0, 8, 1, 9, 2, 10, 3, 11);
                    b[2 * k + 1] = ZIP_OCTETS(a[k], a[k + 4], 4, 12, 5, 13, 6, 14, 7, 15);
                }
                memcpy(a, b, sizeof a);
            }
            for (int k = 0; k < 8; k++)
                memcpy(out + (i + (size_t)k) * LOCUS_PANEL + r, &a[k], sizeof a[k]);
        }
}

#endif
