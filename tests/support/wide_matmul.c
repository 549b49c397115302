/* wide_matmul.c: matrix products with vectors of 16 lanes; see wide_isa.c. */
#pragma GCC diagnostic ignored "-Wpsabi"
#define ISA wide
#define ISA_LANES 16
#include "tests/support/wide_isa.h"

#include "kernels/cpu/isa/matmul.c" /* NOLINT(bugprone-suspicious-include) */
