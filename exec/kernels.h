/* kernels.h: sets of kernels by the name of their backend. */
#ifndef EXEC_KERNELS_H
#define EXEC_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/ops.h"

struct err;

struct exec_kernels {
	const char *backend; /* "cpu" or "cuda" */
	enum num weight_type; /* activations follow it: f32 with f32, on a GPU else bf16 */
	int32_t threads; /* cpu: 0 = all */
	const char *isa; /* cpu: NULL = the best */
	bool batch_invariant; /* cpu */
	bool eager; /* cuda: no graphs */
};
/* ERR_INPUT with a line that says what is missing: an instruction set, a driver, a device. Close with ops->close. */
int exec_kernels_open(struct kernel_set **out, const struct exec_kernels *s, struct err *e);

#endif
