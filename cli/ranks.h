/* ranks.h: whether this program is one of several that mpirun or srun started, and MPI where it is. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include <stdint.h>

struct err;
struct mpi_api;

struct ranks {
	int32_t rank, n; /* 0 of 1: alone */
	const char *starter; /* "mpirun" or "srun"; NULL when alone */
	const struct mpi_api *api; /* NULL until ranks_open */
};

/* From what the starter left in the environment; no library is touched. */
void ranks_find(struct ranks *out);

/* Loads lockstep-mpi.so, without starting anything. ERR_INPUT says what is missing. */
int ranks_load(struct ranks *r, struct err *e);

/* Starts MPI; every rank must. What forks should have forked before. ERR_INPUT when MPI does not see the ranks that the
 * starter made: each would take itself for the only one. */
int ranks_open(struct ranks *r, struct err *e);

#endif
