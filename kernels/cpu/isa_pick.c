#include "kernels/cpu/isa_pick.h"

#include <stddef.h>

const char *const cpu_isa_names[] = {"base", "avx2", "avx512", NULL};

bool cpu_isa_usable(enum cpu_isa isa)
{
#ifdef __x86_64__
	if (isa == CPU_AVX512)
		return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
		       cpu_isa_usable(CPU_AVX2);
	/* Whatever has AVX2 and FMA has F16C. */
	if (isa == CPU_AVX2)
		return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
	return isa == CPU_BASE;
}

enum cpu_isa cpu_isa_best(void)
{
	enum cpu_isa best = CPU_BASE;
	for (enum cpu_isa i = CPU_BASE; i < N_CPU_ISAS; i++)
		if (cpu_isa_usable(i))
			best = i;
	return best;
}
