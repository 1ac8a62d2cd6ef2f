/* Element types of stored tensors: what the file's numbers mean, shared by file and kernels. */
#ifndef LOCUS_BASE_TENSOR_TYPE_H
#define LOCUS_BASE_TENSOR_TYPE_H

#include <stddef.h>
#include <stdint.h>

/* Numbered as GGUF does; others are refused on reading. */
enum locus_tensor_type {
    LOCUS_F32 = 0,
    LOCUS_F16 = 1,
    LOCUS_Q4_0 = 2,
    LOCUS_Q8_0 = 8,
    LOCUS_BF16 = 30
};

struct locus_tensor_type_info {
    enum locus_tensor_type type;
    const char *name; /* "F32" */
    int block_values; /* values a block along a row: 1 or 32 */
    int block_bytes;
};

/* The type's description, or NULL for a type this library doesn't read. */
const struct locus_tensor_type_info *locus_tensor_type_find(uint32_t type);

/* Bytes of a stored row of n_values, a multiple of the type's block. */
size_t locus_tensor_row_bytes(enum locus_tensor_type type, size_t n_values);

#endif
