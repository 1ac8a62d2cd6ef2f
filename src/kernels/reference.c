/* The oracle: the operations in plain C for any CPU. Every other set gives these bits. */
#define KERNEL_SET locus_kernels_reference
#define KERNEL_NAME "reference"
#include "kernels/lanes.h"
