#include "kernels/cuda/blas.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLAS_CALLS(X)                                                                                                  \
	X(cublasLtCreate)                                                                                              \
	X(cublasLtDestroy)                                                                                             \
	X(cublasLtGetVersion)                                                                                          \
	X(cublasLtGetStatusString)                                                                                     \
	X(cublasLtMatmul)                                                                                              \
	X(cublasLtMatmulDescCreate)                                                                                    \
	X(cublasLtMatmulDescDestroy)                                                                                   \
	X(cublasLtMatmulDescSetAttribute)                                                                              \
	X(cublasLtMatrixLayoutCreate)                                                                                  \
	X(cublasLtMatrixLayoutDestroy)                                                                                 \
	X(cublasLtMatmulPreferenceCreate)                                                                              \
	X(cublasLtMatmulPreferenceDestroy)                                                                             \
	X(cublasLtMatmulPreferenceSetAttribute)                                                                        \
	X(cublasLtMatmulAlgoGetHeuristic)

#define CALL_FIELD(name) __typeof__(name) *name;
#define CALL_NAME(name) #name,

/* The workspace is what NVIDIA advises for Hopper. */
enum { WORKSPACE = 32 << 20, BUCKETS = 1024, MOST_KEPT = 8192 };

struct kept {
	struct product shape;
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t w, x, y;
	cublasLtMatmulAlgo_t algo;
	struct kept *next;
};

struct blas {
	struct calls {
		BLAS_CALLS(CALL_FIELD)
	} f;
	cublasLtHandle_t handle;
	cublasLtMatmulPreference_t preference;
	void *workspace;
	struct kept *kept[BUCKETS];
	int32_t n_kept;
};

/* --- opening ---------------------------------------------------------------------------------------------------------- */

/* As a table of names and one of places: dlsym gives objects, ISO C wants functions, and POSIX says they are alike. */
static int find_calls(struct calls *f, void *so, const char **missing)
{
	static const char *const names[] = {BLAS_CALLS(CALL_NAME)};
	_Static_assert(sizeof *f == sizeof names, "one place for each name");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		void *p = dlsym(so, names[i]);
		*missing = names[i];
		if (!p)
			return -1;
		memcpy((char *)f + i * sizeof p, &p, sizeof p);
	}
	return 0;
}

static int load(struct blas *b, char *why, size_t size)
{
	char name[64];
	const char *missing;
	snprintf(name, sizeof name, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
	/* Never unloaded: it keeps what it has set up. */
	void *so = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!so) {
		snprintf(why, size,
			 "matrix products need cuBLAS of CUDA %d, and it cannot be loaded: %s (install it, or name its "
			 "folder in LD_LIBRARY_PATH)",
			 CUBLAS_VER_MAJOR, dlerror());
		return -1;
	}
	if (find_calls(&b->f, so, &missing) == 0)
		return 0;
	snprintf(why, size, "%s has no %s: it is of another version than the plug-in was built with", name, missing);
	return -1;
}

/* The heuristic counts on matrices at multiples of 256 bytes unless it is told less. Pieces of them begin at multiples of 16. */
static int set_preference(struct blas *b)
{
	static const cublasLtMatmulPreferenceAttributes_t places[] = {
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
	uint64_t workspace = WORKSPACE;
	uint32_t alignment = 16;
	int status = (int)b->f.cublasLtMatmulPreferenceCreate(&b->preference);
	if (!status)
		status = (int)b->f.cublasLtMatmulPreferenceSetAttribute(
			b->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
	for (int i = 0; i < 4 && !status; i++)
		status = (int)b->f.cublasLtMatmulPreferenceSetAttribute(b->preference, places[i], &alignment,
									sizeof alignment);
	return status;
}

static int start(struct blas *b, char *why, size_t size)
{
	size_t workspace = WORKSPACE;
	int status = (int)b->f.cublasLtCreate(&b->handle);
	if (!status)
		status = set_preference(b);
	if (status) {
		snprintf(why, size, "cuBLAS cannot be started: %s",
			 b->f.cublasLtGetStatusString((cublasStatus_t)status));
		return -1;
	}
	if (cudaMalloc(&b->workspace, workspace) == cudaSuccess)
		return 0;
	cudaGetLastError();
	snprintf(why, size, "out of memory: %zu bytes for cuBLAS to work in", workspace);
	return -1;
}

int blas_open(struct blas **out, char *what, size_t what_size, char *why, size_t size)
{
	struct blas *b = calloc(1, sizeof *b);
	*out = NULL;
	if (!b) {
		snprintf(why, size, "out of memory");
		return -1;
	}
	if (load(b, why, size) || start(b, why, size)) {
		blas_close(b);
		return -1;
	}
	size_t v = b->f.cublasLtGetVersion();
	snprintf(what, what_size, "cuBLASLt %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
	*out = b;
	return 0;
}

/* --- shapes ------------------------------------------------------------------------------------------------------------ */

static void forget(struct blas *b, struct kept *k)
{
	if (k->desc)
		b->f.cublasLtMatmulDescDestroy(k->desc);
	cublasLtMatrixLayout_t const layouts[] = {k->w, k->x, k->y};
	for (int i = 0; i < 3; i++)
		if (layouts[i])
			b->f.cublasLtMatrixLayoutDestroy(layouts[i]);
	free(k);
}

static void forget_all(struct blas *b)
{
	for (int i = 0; i < BUCKETS; i++)
		while (b->kept[i]) {
			struct kept *k = b->kept[i];
			b->kept[i] = k->next;
			forget(b, k);
		}
	b->n_kept = 0;
}

void blas_close(struct blas *b)
{
	if (!b)
		return;
	forget_all(b);
	if (b->preference)
		b->f.cublasLtMatmulPreferenceDestroy(b->preference);
	if (b->handle)
		b->f.cublasLtDestroy(b->handle);
	cudaFree(b->workspace);
	free(b);
}

int32_t blas_kept(const struct blas *b)
{
	return b->n_kept;
}

static cudaDataType_t type_of(enum num t)
{
	return t == NUM_F32 ? CUDA_R_32F : t == NUM_BF16 ? CUDA_R_16BF : CUDA_R_8F_E4M3;
}

/* cuBLAS counts down columns, so its matrices are ours transposed: y^T [n_out x rows] = w x^T, with w^T [n_in x n_out]
 * to be transposed. CUBLAS_COMPUTE_32F does not round f32 to TF32. */
static int describe(struct blas *b, struct kept *k)
{
	const struct product *p = &k->shape;
	cublasOperation_t transposed = CUBLAS_OP_T;
	cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
	cudaDataType_t bias = type_of(p->out);
	uint64_t n_in = (uint64_t)p->n_in, n_out = (uint64_t)p->n_out, rows = (uint64_t)p->rows;
	const struct calls *f = &b->f;
	int status = (int)f->cublasLtMatmulDescCreate(&k->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
	if (!status)
		status = (int)f->cublasLtMatmulDescSetAttribute(k->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
								sizeof transposed);
	if (!status && p->biased)
		status = (int)f->cublasLtMatmulDescSetAttribute(k->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
								sizeof epilogue);
	if (!status && p->biased)
		status = (int)f->cublasLtMatmulDescSetAttribute(k->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias,
								sizeof bias);
	if (!status)
		status = (int)f->cublasLtMatrixLayoutCreate(&k->w, type_of(p->in), n_in, n_out, (int64_t)n_in);
	if (!status)
		status = (int)f->cublasLtMatrixLayoutCreate(&k->x, type_of(p->in), n_in, rows, (int64_t)n_in);
	if (!status)
		status = (int)f->cublasLtMatrixLayoutCreate(&k->y, type_of(p->out), n_out, rows, p->apart);
	return status;
}

static struct kept **bucket(struct blas *b, const struct product *p)
{
	uint64_t h = (uint64_t)p->rows;
	h = h * 0x9e3779b97f4a7c15u + (uint64_t)p->n_out;
	h = h * 0x9e3779b97f4a7c15u + (uint64_t)p->apart;
	h = h * 0x9e3779b97f4a7c15u + (uint64_t)p->n_in;
	h = h * 0x9e3779b97f4a7c15u + (uint64_t)(p->in * 8 + p->out * 2 + p->biased);
	return &b->kept[h >> 40 & (BUCKETS - 1)];
}

static bool same(const struct product *a, const struct product *b)
{
	return a->rows == b->rows && a->n_out == b->n_out && a->n_in == b->n_in && a->in == b->in && a->out == b->out &&
	       a->biased == b->biased && a->apart == b->apart;
}

/* The bias's place is an attribute as well; it is wanted before anything can be chosen. */
static int set_bias(struct blas *b, struct kept *k, const void *bias)
{
	if (!k->shape.biased)
		return 0;
	return (int)b->f.cublasLtMatmulDescSetAttribute(k->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

static int choose(struct blas *b, struct kept *k, const void *bias)
{
	cublasLtMatmulHeuristicResult_t best;
	int n = 0, status = describe(b, k);
	if (!status)
		status = set_bias(b, k, bias);
	if (!status)
		status = (int)b->f.cublasLtMatmulAlgoGetHeuristic(b->handle, k->desc, k->w, k->x, k->y, k->y,
								  b->preference, 1, &best, &n);
	if (!status && !n)
		status = CUBLAS_STATUS_NOT_SUPPORTED;
	if (!status)
		k->algo = best.algo;
	return status;
}

static struct kept *get(struct blas *b, const struct product *p, const void *bias, int *status)
{
	struct kept **at = bucket(b, p);
	for (struct kept *k = *at; k; k = k->next)
		if (same(&k->shape, p))
			return k;
	/* Prompt pieces have many sizes: start anew rather than grow without end. */
	if (b->n_kept == MOST_KEPT)
		forget_all(b);
	struct kept *k = calloc(1, sizeof *k);
	*status = CUBLAS_STATUS_ALLOC_FAILED;
	if (!k)
		return NULL;
	k->shape = *p;
	*status = choose(b, k, bias);
	if (*status) {
		forget(b, k);
		return NULL;
	}
	k->next = *at;
	*at = k;
	b->n_kept++;
	return k;
}

int blas_run(struct blas *b, cudaStream_t st, const struct product *p, void *y, const void *x, const void *w,
	     const void *bias, const char **why)
{
	static const float one = 1, zero = 0;
	int status = 0;
	struct kept *k = get(b, p, bias, &status);
	if (k)
		status = set_bias(b, k, bias);
	if (k && !status)
		status = (int)b->f.cublasLtMatmul(b->handle, k->desc, &one, w, k->w, x, k->x, &zero, y, k->y, y, k->y,
						  &k->algo, b->workspace, WORKSPACE, st);
	*why = status ? b->f.cublasLtGetStatusString((cublasStatus_t)status) : NULL;
	return status ? -1 : 0;
}
