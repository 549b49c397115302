/* fake_blas.cpp: cuBLASLt for tests, in double, as its documentation says what is multiplied; and dlopen and dlsym, which find
 * it (the program is linked with --wrap). */
#include <cublasLt.h>
#include <dlfcn.h>
#include <string.h>

#include "kernels/half.h"
#include "tests/cuda_set/fake_cuda.h"

struct fake_desc {
	bool turned;
	cublasLtEpilogue_t epilogue;
	const void *bias;
	cudaDataType_t bias_type;
};
struct fake_layout {
	cudaDataType_t type;
	int64_t rows, cols, ld;
};

static double get(const void *p, cudaDataType_t type, int64_t i)
{
	if (type == CUDA_R_32F)
		return ((const float *)p)[i];
	if (type == CUDA_R_16BF)
		return bf16_to_float(((const uint16_t *)p)[i]);
	return f8_to_float(((const uint8_t *)p)[i]);
}

static void put(void *p, cudaDataType_t type, int64_t i, double x)
{
	if (type == CUDA_R_32F)
		((float *)p)[i] = (float)x;
	else
		((uint16_t *)p)[i] = float_to_bf16((float)x);
}

extern "C" {
cublasStatus_t cublasLtCreate(cublasLtHandle_t *h)
{
	static int one;
	*h = (cublasLtHandle_t)&one;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t)
{
	return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
	return 130100;
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
	return s == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "another status";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *d, cublasComputeType_t compute, cudaDataType_t scale)
{
	if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	*d = new fake_desc{false, CUBLASLT_EPILOGUE_DEFAULT, nullptr, CUDA_R_32F};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
	delete d;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a,
					      const void *from, size_t size)
{
	cublasOperation_t op;
	switch (a) {
	case CUBLASLT_MATMUL_DESC_TRANSA:
		memcpy(&op, from, size);
		d->turned = op == CUBLAS_OP_T;
		break;
	case CUBLASLT_MATMUL_DESC_EPILOGUE:
		memcpy(&d->epilogue, from, size);
		break;
	case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
		memcpy(&d->bias, from, size);
		break;
	case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
		memcpy(&d->bias_type, from, size);
		break;
	}
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *l, cudaDataType_t type, uint64_t rows, uint64_t cols,
					  int64_t ld)
{
	*l = new fake_layout{type, (int64_t)rows, (int64_t)cols, ld};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
	delete l;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
	static int one;
	*p = (cublasLtMatmulPreference_t)&one;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t)
{
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
						    const void *, size_t)
{
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
					      cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t,
					      cublasLtMatrixLayout_t y, cublasLtMatmulPreference_t, int,
					      cublasLtMatmulHeuristicResult_t *result, int *n)
{
	bool f8 = a->type == CUDA_R_8F_E4M3;
	memset(result, 0, sizeof *result);
	fake_machine.heuristics++;
	*n = 0;
	/* What the library refuses: shapes that do not meet, fp8 in another order or off 16 bytes, a bias of another type. */
	if (a->type != b->type || !d->turned || a->rows != b->rows || a->cols != y->rows || b->cols != y->cols ||
	    a->ld < a->rows || b->ld < b->rows || y->ld < y->rows ||
	    (f8 && (a->ld % 16 || b->ld % 16 || y->rows % 16)) ||
	    (d->epilogue == CUBLASLT_EPILOGUE_BIAS && (d->bias_type != y->type || !d->bias)))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	*n = 1;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *, const void *a,
			      cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *,
			      const void *, cublasLtMatrixLayout_t, void *y, cublasLtMatrixLayout_t ly,
			      const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t)
{
	fake_layout A = *la, B = *lb, Y = *ly;
	if ((uintptr_t)a % 16 || (uintptr_t)b % 16 || (uintptr_t)y % 16)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	fake_desc how = *d;
	fake_enqueue([=] {
		for (int64_t col = 0; col < Y.cols; col++)
			for (int64_t row = 0; row < Y.rows; row++) {
				double sum =
					how.epilogue == CUBLASLT_EPILOGUE_BIAS ? get(how.bias, how.bias_type, row) : 0;
				for (int64_t k = 0; k < A.rows; k++)
					sum += get(a, A.type, row * A.ld + k) * get(b, B.type, col * B.ld + k);
				put(y, Y.type, col * Y.ld + row, sum);
			}
	});
	return CUBLAS_STATUS_SUCCESS;
}

/* --- loading ---------------------------------------------------------------------------------------------------------------- */

void *__real_dlopen(const char *name, int flags);
void *__real_dlsym(void *so, const char *name);
static char here;

void *__wrap_dlopen(const char *name, int flags)
{
	return strcmp(name, "libcublasLt.so.13") == 0 ? &here : __real_dlopen(name, flags);
}

void *__wrap_dlsym(void *so, const char *name)
{
	static const struct {
		const char *name;
		void *at;
	} calls[] = {
#define CALL(f) {#f, (void *)f}
		CALL(cublasLtCreate),
		CALL(cublasLtDestroy),
		CALL(cublasLtGetVersion),
		CALL(cublasLtGetStatusString),
		CALL(cublasLtMatmul),
		CALL(cublasLtMatmulDescCreate),
		CALL(cublasLtMatmulDescDestroy),
		CALL(cublasLtMatmulDescSetAttribute),
		CALL(cublasLtMatrixLayoutCreate),
		CALL(cublasLtMatrixLayoutDestroy),
		CALL(cublasLtMatmulPreferenceCreate),
		CALL(cublasLtMatmulPreferenceDestroy),
		CALL(cublasLtMatmulPreferenceSetAttribute),
		CALL(cublasLtMatmulAlgoGetHeuristic),
	};
	for (size_t i = 0; so == &here && i < sizeof calls / sizeof *calls; i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].at;
	return so == &here ? nullptr : __real_dlsym(so, name);
}
}
