/* cuda_open.c: finds lockstep-cuda.so and loads it. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/plugin.h"

/* The folder of the running program, with its slash; "" when it cannot be told. */
static void own_folder(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);
	path[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(path, '/');
	if (slash)
		slash[1] = '\0';
}

static const struct cuda_plugin *load(const char *path, char *why, size_t size)
{
	/* Never unloaded: the runtime keeps what it has set up. */
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!so) {
		snprintf(why, size, "the CUDA plug-in cannot be loaded: %s", dlerror());
		return NULL;
	}
	const struct cuda_plugin *p = dlsym(so, CUDA_PLUGIN_SYMBOL);
	if (p && p->version == CUDA_PLUGIN_VERSION && p->ops_bytes == (int32_t)sizeof(struct kernel_ops))
		return p;
	snprintf(why, size, "%s belongs to another version of the program: build both anew", path);
	return NULL;
}

/* Beside the program (built), one folder up (a test program, built), or where it is installed. */
static const struct cuda_plugin *find(char *why, size_t size)
{
	static const char *const places[] = {"", "../", "../lib/lockstep/"};
	static const struct cuda_plugin *found;
	char self[512], path[600];
	if (found)
		return found;
	own_folder(self, sizeof self);
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		snprintf(path, sizeof path, "%s%s" CUDA_PLUGIN_FILE, self, places[i]);
		if (access(path, R_OK) == 0)
			return found = load(path, why, size);
	}
	snprintf(why, size,
		 "this build has no CUDA plug-in (" CUDA_PLUGIN_FILE
		 " beside the program): it is built where nvcc is on "
		 "PATH or CUDA_HOME names CUDA's folder");
	return NULL;
}

int cuda_kernels_open(struct kernel_set **out, const struct cuda_options *o, char *why, size_t size)
{
	const struct cuda_plugin *p = find(why, size);
	*out = NULL;
	return p ? p->open(out, o, why, size) : -1;
}

const char *cuda_kernels_built(char *why, size_t size)
{
	const struct cuda_plugin *p = find(why, size);
	return p ? p->built : NULL;
}
