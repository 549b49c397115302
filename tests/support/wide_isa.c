/* wide_isa.c: the row kernels of kernels/cpu/isa/ with vectors of 16 lanes, which the compiler splits into what there is.
 * attention's are in wide_attend.c. */
#define ISA wide
#define ISA_LANES 16
#include "tests/support/wide_isa.h"

#include "kernels/cpu/isa/rows.c" /* NOLINT(bugprone-suspicious-include) */
