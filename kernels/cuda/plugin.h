/* plugin.h: what lockstep-cuda.so shows of itself (kernels/cuda_open.c looks for it). */
#ifndef KERNELS_CUDA_PLUGIN_H
#define KERNELS_CUDA_PLUGIN_H

#include "kernels/cuda.h"

/* Raised with every change of kernels/ops.h or of what follows. */
enum { CUDA_PLUGIN_VERSION = 2 };
#define CUDA_PLUGIN_FILE "lockstep-cuda.so"
#define CUDA_PLUGIN_SYMBOL "lockstep_cuda_plugin"

struct cuda_plugin {
	int32_t version, ops_bytes; /* sizeof(struct kernel_ops): the same header was compiled */
	const char *built; /* "CUDA 13.0: sm_80, sm_90, later ones by PTX" */
	int (*open)(struct kernel_set **out, const struct cuda_options *o, char *why, size_t size);
};

#endif
