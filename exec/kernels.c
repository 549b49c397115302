#include "exec/kernels.h"

#include <string.h>

#include "core/err.h"
#include "kernels/cuda.h"

static int cpu_kernels(struct kernel_set **out, const struct exec_kernels *s, struct err *e)
{
	const struct cpu_options o = {.threads = s->threads, .isa = s->isa, .batch_invariant = s->batch_invariant};
	char why[256] = "";
	if (cpu_kernels_open(out, &o, why, sizeof why))
		return err_set(e, ERR_INPUT, "the CPU's kernels cannot be used: %s", why);
	return ERR_NONE;
}

static int cuda_kernels(struct kernel_set **out, const struct exec_kernels *s, struct err *e)
{
	const struct cuda_options o = {.act = s->weight_type == NUM_F32 ? NUM_F32 : NUM_BF16, .eager = s->eager};
	char why[512] = "";
	if (s->batch_invariant)
		return err_set(e, ERR_INPUT,
			       "--batch-invariant is for --backend cpu: cuBLAS chooses by the rows there are");
	if (cuda_kernels_open(out, &o, why, sizeof why))
		return err_set(e, ERR_INPUT, "--backend cuda cannot be used: %s", why);
	return ERR_NONE;
}

int exec_kernels_open(struct kernel_set **out, const struct exec_kernels *s, struct err *e)
{
	*out = NULL;
	if (strcmp(s->backend, "cpu") == 0)
		return cpu_kernels(out, s, e);
	if (strcmp(s->backend, "cuda") == 0)
		return cuda_kernels(out, s, e);
	return err_set(e, ERR_INPUT, "there is no backend \"%s\" to run kernels on: use cpu or cuda", s->backend);
}
