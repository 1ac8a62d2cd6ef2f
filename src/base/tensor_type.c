/* Element types: see tensor_type.h. */
#include "base/tensor_type.h"

static const struct locus_tensor_type_info types[] = {
    {LOCUS_F32, "F32", 1, 4},     {LOCUS_F16, "F16", 1, 2},     {LOCUS_BF16, "BF16", 1, 2},
    {LOCUS_Q8_0, "Q8_0", 32, 34}, {LOCUS_Q4_0, "Q4_0", 32, 18},
};

const struct locus_tensor_type_info *locus_tensor_type_find(uint32_t type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((uint32_t)types[i].type == type) return &types[i];
    return NULL;
}

size_t locus_tensor_row_bytes(enum locus_tensor_type type, size_t n_values)
{
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)type);
    return n_values / (size_t)info->block_values * (size_t)info->block_bytes;
}
