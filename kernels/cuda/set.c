/* set.c: opening and closing the CUDA set, and what the plug-in shows of itself. */
#include "kernels/cuda/set.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/plugin.h"

void cuda_close(struct kernel_set *k)
{
	struct cuda_set *s = cuda_set_of(k);
	if (!k)
		return;
	if (s->stream)
		cudaStreamSynchronize(s->stream);
	cuda_pages_close(s);
	cuda_graphs_drop(s);
	cuda_marks_free(&s->marks);
	cuda_memory_close(s);
	blas_close(s->blas);
	if (s->stream)
		cudaStreamDestroy(s->stream);
	free(s);
}

/* --- the device --------------------------------------------------------------------------------------------------------- */

static void version(char *text, size_t size, int v)
{
	snprintf(text, size, "%d.%d", v / 1000, v % 1000 / 10);
}

/* Each way of having no GPU has its own remedy, and so its own sentence. */
static int find_device(int wanted, char *why, size_t size)
{
	int driver = 0, n = 0;
	char has[16], needs[16];
	int status = cudaDriverGetVersion(&driver);
	version(needs, sizeof needs, CUDART_VERSION);
	if (status == cudaSuccess)
		status = cudaGetDeviceCount(&n);
	version(has, sizeof has, driver);
	if (driver == 0)
		snprintf(why, size,
			 "this machine has no NVIDIA driver (libcuda.so.1): install it, or run where there is a GPU");
	else if (status == cudaErrorInsufficientDriver)
		snprintf(why, size,
			 "the NVIDIA driver is too old: it serves CUDA %s, the plug-in was built with CUDA %s; update "
			 "the "
			 "driver, or build with an older CUDA",
			 has, needs);
	else if (status == cudaErrorNoDevice || (status == cudaSuccess && n == 0))
		snprintf(why, size,
			 "the NVIDIA driver (CUDA %s) finds no device: does CUDA_VISIBLE_DEVICES hide it, or the "
			 "container?",
			 has);
	else if (status != cudaSuccess)
		snprintf(why, size, "the NVIDIA driver (CUDA %s) cannot be used: %s", has,
			 cudaGetErrorString((cudaError_t)status));
	else if (wanted >= n)
		snprintf(why, size, "there is no device %d: the driver finds %d, counted from 0", wanted, n);
	else
		return 0;
	return -1;
}

static int look_at(struct cuda_set *s, struct cudaDeviceProp *p, char *why, size_t size)
{
	int status = cudaSetDevice(s->device);
	if (status == cudaSuccess)
		status = cudaGetDeviceProperties(p, s->device);
	if (status != cudaSuccess) {
		snprintf(why, size, "device %d cannot be used: %s", s->device, cudaGetErrorString((cudaError_t)status));
		return -1;
	}
	s->sms = p->multiProcessorCount;
	s->arch = p->major * 10 + p->minor;
	if (s->arch >= 80)
		return 0;
	snprintf(why, size, "%s has compute capability %d.%d, and the kernels need 8.0 or later", p->name, p->major,
		 p->minor);
	return -1;
}

/* --- the set ------------------------------------------------------------------------------------------------------------ */

static int make(struct cuda_set *s)
{
	if (cuda_check(s, cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "making a stream") ||
	    cuda_memory_open(s))
		return -1;
	s->told = calloc(FAULTS, sizeof *s->told);
	s->faults = cuda_alloc(&s->base, FAULTS * sizeof *s->faults);
	if (s->told && s->faults)
		return 0;
	return s->faults ? cuda_refuse(s, "out of memory") : -1;
}

static int open_on(struct cuda_set *s, char *why, size_t size)
{
	struct cudaDeviceProp p;
	char blas[64];
	if (find_device(s->device, why, size) || look_at(s, &p, why, size))
		return -1;
	if (make(s)) {
		snprintf(why, size, "%s", s->error.text);
		return -1;
	}
	if (blas_open(&s->blas, blas, sizeof blas, why, size))
		return -1;
	char runtime[16];
	version(runtime, sizeof runtime, CUDART_VERSION);
	snprintf(s->base.what, sizeof s->base.what, "cuda %.60s (sm_%d, %d SMs, %.1f GB), CUDA %s, %s%s", p.name,
		 s->arch, s->sms, (double)p.totalGlobalMem / 1e9, runtime, blas, s->graphs.off ? ", no graphs" : "");
	return 0;
}

static int open_set(struct kernel_set **out, const struct cuda_options *o, char *why, size_t size)
{
	*out = NULL;
	if (o->act != NUM_F32 && o->act != NUM_BF16) {
		snprintf(why, size, "activations are f32 or bf16, not %s", num_names[o->act]);
		return -1;
	}
	struct cuda_set *s = calloc(1, sizeof *s);
	if (!s) {
		snprintf(why, size, "out of memory");
		return -1;
	}
	s->base.ops = &cuda_ops;
	s->base.act = o->act;
	s->base.threads = 1;
	s->base.asynchronous = true;
	s->device = o->device;
	s->graphs.off = o->eager;
	if (open_on(s, why, size)) {
		cuda_close(&s->base);
		return -1;
	}
	*out = &s->base;
	return 0;
}

#ifndef CUDA_BUILT_FOR /* what nvcc compiled the kernels for; the Makefile says */
#define CUDA_BUILT_FOR "kernels run by the host"
#endif

__attribute__((visibility("default"))) extern const struct cuda_plugin lockstep_cuda_plugin;
const struct cuda_plugin lockstep_cuda_plugin = {.version = CUDA_PLUGIN_VERSION,
						 .ops_bytes = (int32_t)sizeof(struct kernel_ops),
						 .built = CUDA_BUILT_FOR,
						 .open = open_set};
