/* kernel_sets.h: every set of kernels this machine can run, to be compared with the reference. */
#ifndef TESTS_SUPPORT_KERNEL_SETS_H
#define TESTS_SUPPORT_KERNEL_SETS_H

#include "kernels/ops.h"

/* "base", "avx2", "avx512" where the machine has it, and "wide": vectors of 16 lanes whatever the machine, so that the code
 * of AVX-512 is tried everywhere. NULL past the last. */
const char *kernel_set_name(int i);
/* Ends the program when it cannot be opened. Matrix products are our own. */
struct kernel_set *kernel_set_open(const char *name, int32_t threads);
struct kernel_set *kernel_set_reference(void);

#endif
