/* Arrays that grow as elements come. */
#ifndef LOCUS_BASE_ARRAY_H
#define LOCUS_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Room for one more element after `count`: a full array (NULL at first) is doubled. False when
 * memory is short: all is as it was then. */
bool locus_array_grow(void **array, size_t count, size_t *capacity, size_t element_bytes);

#endif
