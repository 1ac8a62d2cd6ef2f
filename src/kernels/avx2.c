/* AVX2: the operations of lanes.h, compiled for CPUs with it (the Makefile's flags for this file).
 */
#if defined(__x86_64__)
#define KERNEL_SET locus_kernels_avx2
#define KERNEL_NAME "avx2"
#include "kernels/lanes.h"
#endif
