#include "cli/ranks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/mpi/mpi_api.h"
#include "core/err.h"

/* SLURM_NTASKS would be there in a batch script as well, where the program is alone. */
static const struct {
	const char *size, *rank, *starter;
} starters[] = {
	{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun"},
	{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "mpirun"},
	{"PMI_SIZE", "PMI_RANK", "mpirun"},
	{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"},
};

void ranks_find(struct ranks *out)
{
	*out = (struct ranks){.n = 1};
	for (size_t i = 0; i < sizeof starters / sizeof starters[0]; i++) {
		const char *size = getenv(starters[i].size), *rank = getenv(starters[i].rank);
		long n = size && rank ? strtol(size, NULL, 10) : 0, own = rank ? strtol(rank, NULL, 10) : 0;
		if (n < 2 || n > 1000000 || own < 0 || own >= n)
			continue;
		*out = (struct ranks){(int32_t)own, (int32_t)n, starters[i].starter, NULL};
		return;
	}
}

/* Beside the program, or where it is installed. */
int ranks_load(struct ranks *r, struct err *e)
{
	static const char *const places[] = {"", "../lib/lockstep/"};
	char self[512], path[600];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n < 0 ? 0 : n] = '\0';
	char *slash = strrchr(self, '/');
	if (slash)
		slash[1] = '\0';
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		snprintf(path, sizeof path, "%s%slockstep-mpi.so", self, places[i]);
		if (access(path, R_OK) != 0)
			continue;
		/* Global: parts of some MPI libraries look for the others' names. Never unloaded. */
		void *so = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
		const struct mpi_api *api = so ? dlsym(so, "lockstep_mpi_api") : NULL;
		if (!api || api->version != MPI_API_VERSION)
			return err_set(e, ERR_INPUT, "%s", api ? "lockstep-mpi.so is another version's" : dlerror());
		r->api = api;
		return ERR_NONE;
	}
	return err_set(
		e, ERR_INPUT,
		"%s started this %d times, which takes MPI, and lockstep-mpi.so is not beside the program: it is "
		"built where mpicc is installed (libopenmpi-dev). Without it use -j, without %s",
		r->starter, r->n, r->starter);
}

int ranks_open(struct ranks *r, struct err *e)
{
	char why[600];
	int32_t rank, n;
	if (!r->api->open(&rank, &n, why, sizeof why))
		return err_set(e, ERR_INPUT, "%s", why);
	if (n != r->n)
		return err_set(
			e, ERR_INPUT,
			"%s started %d ranks, and MPI sees %d: it must be the same MPI that this program was built "
			"with (Slurm: srun --mpi=pmix)",
			r->starter, r->n, n);
	r->rank = rank;
	return ERR_NONE;
}
