/* names.c: what number types and parts of a step are called. */
#include "kernels/ops.h"

const char *const num_names[] = {"f32", "bf16", "f16", "int8", "fp8", 0};
const char *const part_names[] = {"matmul", "attention", "head", "other", 0};

int32_t num_bytes(enum num t)
{
	return t == NUM_F32 ? 4 : t == NUM_I8 || t == NUM_F8 ? 1 : 2;
}
