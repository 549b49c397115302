#include "tests/support/kernel_sets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/set.h"
#include "tests/support/wide_isa.h"

const char *kernel_set_name(int i)
{
	for (int isa = 0; isa < N_CPU_ISAS; isa++)
		if (cpu_isa_usable((enum cpu_isa)isa) && i-- == 0)
			return cpu_isa_names[isa];
	return i == 0 ? "wide" : NULL;
}

static void stop(const char *why)
{
	fprintf(stderr, "kernel_sets: %s\n", why);
	exit(1);
}

struct kernel_set *kernel_set_open(const char *name, int32_t threads)
{
	struct kernel_set *k;
	char why[256] = "";
	bool wide = strcmp(name, "wide") == 0;
	struct cpu_options o = {.threads = threads, .isa = wide ? "base" : name, .no_library = true};
	if (cpu_kernels_open(&k, &o, why, sizeof why))
		stop(why);
	if (wide) {
		cpu_set_of(k)->row = &row_isa_wide;
		cpu_set_of(k)->attention.isa = &attention_isa_wide;
	}
	return k;
}

struct kernel_set *kernel_set_reference(void)
{
	struct kernel_set *k;
	if (reference_kernels_open(&k))
		stop("out of memory");
	return k;
}
