#include "kernels/cpu/dnnl_api.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const libraries[] = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"};

/* As the library declares it, in 2 and 3. */
struct version {
	int major, minor, patch;
	const char *hash;
	unsigned cpu_runtime, gpu_runtime;
};

/* Through memcpy: C has no conversion from object to function pointers. */
static int find(void *lib, const char *name, void *function)
{
	void *f = dlsym(lib, name);
	memcpy(function, &f, sizeof f);
	return f ? 0 : -1;
}

int dnnl_api_open(struct dnnl_api *api)
{
	void *lib = NULL;
	const struct version *(*version)(void);
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !lib; i++)
		lib = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
	if (!lib)
		return -1;
	if (find(lib, "dnnl_sgemm", &api->sgemm) || find(lib, "dnnl_version", &version)) {
		dlclose(lib);
		return -1;
	}
	find(lib, "omp_set_num_threads", &api->set_threads);
	const struct version *v = version();
	snprintf(api->name, sizeof api->name, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
	return 0;
}
