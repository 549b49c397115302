/* isa_pick.h: which instruction set the kernels of kernels/cpu/isa/ run with. A family of kernels puts its functions into
 * a table, defined once per instruction set by its file (`const struct matmul_isa ISA_NAME(matmul_isa) = {...}`, declared
 * for all three in a header), and lists them by enum cpu_isa:
 *     const struct matmul_isa *const matmul_isas[N_CPU_ISAS] = CPU_ISA_TABLES(matmul_isa); */
#ifndef KERNELS_CPU_ISA_PICK_H
#define KERNELS_CPU_ISA_PICK_H

#include <stdbool.h>

enum cpu_isa { CPU_BASE, CPU_AVX2, CPU_AVX512, N_CPU_ISAS };
extern const char *const cpu_isa_names[]; /* "base", "avx2", "avx512", NULL */

/* The program holds it and this machine can run it. */
bool cpu_isa_usable(enum cpu_isa isa);
enum cpu_isa cpu_isa_best(void);

#ifdef __x86_64__
#define CPU_ISA_TABLES(name)                                                                                           \
	{                                                                                                              \
		&name##_base, &name##_avx2, &name##_avx512                                                             \
	}
#else
#define CPU_ISA_TABLES(name)                                                                                           \
	{                                                                                                              \
		&name##_base                                                                                           \
	}
#endif

#endif
