/* The version of the library: see locus.h. */
#include "locus.h"

const char *locus_version(void)
{
    return LOCUS_VERSION;
}
