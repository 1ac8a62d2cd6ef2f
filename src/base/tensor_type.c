/* Element types: see tensor_type.h. */
#include "base/tensor_type.h"

/* clang-format off */
static const struct locus_tensor_type_info types[] = {
    {LOCUS_F32,    "F32",      1,   4},
    {LOCUS_F16,    "F16",      1,   2},
    {LOCUS_BF16,   "BF16",     1,   2},
    {LOCUS_F64,    "F64",      1,   8},
    {LOCUS_Q8_0,   "Q8_0",    32,  34},
    {LOCUS_Q5_0,   "Q5_0",    32,  22},
    {LOCUS_Q5_1,   "Q5_1",    32,  24},
    {LOCUS_Q4_0,   "Q4_0",    32,  18},
    {LOCUS_Q4_1,   "Q4_1",    32,  20},
    {LOCUS_IQ4_NL, "IQ4_NL",  32,  18},
    {LOCUS_MXFP4,  "MXFP4",   32,  17},
    {LOCUS_Q6_K,   "Q6_K",   256, 210},
    {LOCUS_Q5_K,   "Q5_K",   256, 176},
    {LOCUS_Q4_K,   "Q4_K",   256, 144},
    {LOCUS_Q3_K,   "Q3_K",   256, 110},
    {LOCUS_Q2_K,   "Q2_K",   256,  84},
};
/* clang-format on */

enum { N_TYPES = sizeof types / sizeof *types };

const struct locus_tensor_type_info *locus_tensor_type_find(uint32_t type)
{
    for (size_t i = 0; i < N_TYPES; i++)
        if ((uint32_t)types[i].type == type) return &types[i];
    return NULL;
}

const struct locus_tensor_type_info *locus_tensor_type_at(size_t index)
{
    return index < N_TYPES ? &types[index] : NULL;
}

size_t locus_tensor_row_bytes(enum locus_tensor_type type, size_t n_values)
{
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)type);
    return n_values / (size_t)info->block_values * (size_t)info->block_bytes;
}

bool locus_tensor_is_quantised(enum locus_tensor_type type)
{
    return locus_tensor_type_find((uint32_t)type)->block_values > 1;
}
