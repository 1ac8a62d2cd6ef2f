/* Sizes: of a tensor from its type and dimensions, of a metadata value; types refused by name. */
#include <stdio.h>

#include "checkpoint/internal.h"

const char *locus_foreign_type_name(uint32_t type)
{
    static const char *const names[] = {
        [4] = "Q4_2",      [5] = "Q4_3",        [9] = "Q8_1",        [15] = "Q8_K",
        [16] = "IQ2_XXS",  [17] = "IQ2_XS",     [18] = "IQ3_XXS",    [19] = "IQ1_S",
        [21] = "IQ3_S",    [22] = "IQ2_S",      [23] = "IQ4_XS",     [24] = "I8",
        [25] = "I16",      [26] = "I32",        [27] = "I64",        [29] = "IQ1_M",
        [31] = "Q4_0_4_4", [32] = "Q4_0_4_8",   [33] = "Q4_0_8_8",   [34] = "TQ1_0",
        [35] = "TQ2_0",    [36] = "IQ4_NL_4_4", [37] = "IQ4_NL_4_8", [38] = "IQ4_NL_8_8",
    };
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}

size_t locus_value_bytes(enum locus_value_type type)
{
    switch (type) {
    case LOCUS_VALUE_U8:
    case LOCUS_VALUE_I8:
    case LOCUS_VALUE_BOOL:
        return 1;
    case LOCUS_VALUE_U16:
    case LOCUS_VALUE_I16:
        return 2;
    case LOCUS_VALUE_U32:
    case LOCUS_VALUE_I32:
    case LOCUS_VALUE_F32:
        return 4;
    case LOCUS_VALUE_U64:
    case LOCUS_VALUE_I64:
    case LOCUS_VALUE_F64:
        return 8;
    case LOCUS_VALUE_STRING:
    case LOCUS_VALUE_ARRAY:
        break;
    }
    return 0;
}

bool locus_tensor_measure(struct locus_tensor *tensor, struct locus_problem *problem)
{
    const struct locus_tensor_type_info *info = locus_tensor_type_find((uint32_t)tensor->type);
    if (tensor->n_dims < 1 || tensor->n_dims > LOCUS_MAX_DIMS) {
        snprintf(problem->text, sizeof problem->text, "%d dimensions, expected 1 to %d",
                 tensor->n_dims, LOCUS_MAX_DIMS);
        return false;
    }
    uint64_t n_blocks = 1;
    for (int i = 0; i < LOCUS_MAX_DIMS; i++) {
        if (i >= tensor->n_dims) tensor->dims[i] = 1;
        int64_t dim = tensor->dims[i];
        if (dim < 1 || dim > INT32_MAX) {
            /* Negative only as a file's 64 bits read as signed. */
            snprintf(problem->text, sizeof problem->text, "dimension %d is %llu, expected 1 to %d",
                     i, (unsigned long long)dim, INT32_MAX);
            return false;
        }
        if (i == 0 && dim % info->block_values) {
            snprintf(problem->text, sizeof problem->text,
                     "rows of %lld values, expected a multiple of %d, the block of %s",
                     (long long)dim, info->block_values, info->name);
            return false;
        }
        if (i == 0) dim /= info->block_values;
        if (__builtin_mul_overflow(n_blocks, (uint64_t)dim, &n_blocks)) break;
        if (i == LOCUS_MAX_DIMS - 1 &&
            locus_mul_size(n_blocks, (size_t)info->block_bytes, &tensor->n_bytes))
            return true;
    }
    snprintf(problem->text, sizeof problem->text, "the product of its dimensions overflows");
    return false;
}
