/* cuda.h: the set of kernels for NVIDIA GPUs. It is a file of its own, lockstep-cuda.so, built where nvcc is found and
 * loaded when it is asked for: the program itself needs nothing of CUDA, and runs everything else without a driver. */
#ifndef KERNELS_CUDA_H
#define KERNELS_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/ops.h"

struct cuda_options {
	int32_t device; /* of those that CUDA_VISIBLE_DEVICES leaves; 0 = the first */
	enum num act; /* activations: f32 (with matrices in f32) or bf16 (with matrices in bf16, int8, fp8) */
	bool eager; /* no graphs */
};
/* -1 with a line in why[size] when it cannot be opened: not built, no driver, a driver too old, no device, ... */
int cuda_kernels_open(struct kernel_set **out, const struct cuda_options *o, char *why, size_t size);

/* What the plug-in was built for, "CUDA 13.0: sm_80, sm_90, later ones by PTX", or NULL and a line in why[size]. Asks no
 * driver. Lives as long as the program. */
const char *cuda_kernels_built(char *why, size_t size);

#endif
