#ifndef TESTS_SUPPORT_WIDE_ISA_H
#define TESTS_SUPPORT_WIDE_ISA_H

#include "kernels/cpu/attention_isa.h"
#include "kernels/cpu/matmul_isa.h"
#include "kernels/cpu/row_isa.h"

extern const struct row_isa row_isa_wide;
extern const struct attention_isa attention_isa_wide;
extern const struct matmul_isa matmul_isa_wide;

#endif
