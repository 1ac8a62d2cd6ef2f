/* Arrays that grow: see array.h. */
#include "base/array.h"

#include <stdlib.h>

#include "base/buffer.h"

bool locus_array_grow(void **array, size_t count, size_t *capacity, size_t element_bytes)
{
    if (count < *capacity) return true;
    size_t larger = *capacity ? 2 * *capacity : 16, n_bytes;
    if (!locus_mul_size(larger, element_bytes, &n_bytes)) return false;
    void *block = realloc(*array, n_bytes);
    if (!block) return false;
    *array = block;
    *capacity = larger;
    return true;
}
