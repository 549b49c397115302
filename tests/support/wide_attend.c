/* wide_attend.c: attention with vectors of 16 lanes; see wide_isa.c. */
#define ISA wide
#define ISA_LANES 16
#include "tests/support/wide_isa.h"

#include "kernels/cpu/isa/attend.c" /* NOLINT(bugprone-suspicious-include) */
