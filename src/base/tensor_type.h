/* Element types of stored tensors: what the file's numbers mean, shared by file and kernels. */
#ifndef LOCUS_BASE_TENSOR_TYPE_H
#define LOCUS_BASE_TENSOR_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbered as GGUF does; others are refused on reading. */
enum locus_tensor_type {
    LOCUS_F32 = 0,
    LOCUS_F16 = 1,
    LOCUS_Q4_0 = 2,
    LOCUS_Q4_1 = 3,
    LOCUS_Q5_0 = 6,
    LOCUS_Q5_1 = 7,
    LOCUS_Q8_0 = 8,
    LOCUS_Q2_K = 10,
    LOCUS_Q3_K = 11,
    LOCUS_Q4_K = 12,
    LOCUS_Q5_K = 13,
    LOCUS_Q6_K = 14,
    LOCUS_IQ4_NL = 20,
    LOCUS_F64 = 28,
    LOCUS_BF16 = 30,
    LOCUS_MXFP4 = 39,
    LOCUS_N_TENSOR_TYPES
};

struct locus_tensor_type_info {
    enum locus_tensor_type type;
    const char *name; /* "F32" */
    int block_values; /* values a block along a row: 1, 32 or 256 */
    int block_bytes;
};

/* The type's description, or NULL for a type this library doesn't read. */
const struct locus_tensor_type_info *locus_tensor_type_find(uint32_t type);

/* All that are read, floats first; NULL past the last. */
const struct locus_tensor_type_info *locus_tensor_type_at(size_t index);

/* Bytes of a stored row of n_values, a multiple of the type's block. */
size_t locus_tensor_row_bytes(enum locus_tensor_type type, size_t n_values);

/* Whether values are stored in blocks that share a scale. */
bool locus_tensor_is_quantised(enum locus_tensor_type type);

#endif
