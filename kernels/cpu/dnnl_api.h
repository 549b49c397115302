/* dnnl_api.h: oneDNN, loaded when a set of kernels is opened that may use it. Only what has been the same since its first
 * version is called, so that 2 and 3 serve alike and no header of theirs is needed to build. */
#ifndef KERNELS_CPU_DNNL_API_H
#define KERNELS_CPU_DNNL_API_H

#include <stdint.h>

struct dnnl_api {
	char name[32]; /* "oneDNN 2.6.3" */
	/* C[m][n] = alpha A[m][k] B[k][n] + beta C, rows ld.. floats apart; transa and transb 'N' or 'T'. 0 = done. */
	int (*sgemm)(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
		     int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
	/* Makes calls from this thread run on this thread alone: its OpenMP must not fight with our threads. NULL when
	 * the library does not use OpenMP. */
	void (*set_threads)(int n);
};

/* -1 when it is not installed. It stays loaded until the program ends. */
int dnnl_api_open(struct dnnl_api *api);

#endif
