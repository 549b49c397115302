/* mpi_api.h: the little of MPI that a sweep needs. What uses the library is a file of its own, lockstep-mpi.so, built where
 * mpicc is and loaded when the program was started as one of several ranks (cli/ranks.c). */
#ifndef CLI_MPI_MPI_API_H
#define CLI_MPI_MPI_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MPI_API_VERSION = 1 };

/* Functions that may fail return false, and a line in why[size]. Messages are plain bytes. */
struct mpi_api {
	int32_t version;
	bool (*open)(int32_t *rank, int32_t *n, char *why, size_t size);
	/* Each rank's `bytes` bytes, in order of rank, at `all` of rank 0. */
	bool (*gather)(const void *mine, int32_t bytes, void *all, char *why, size_t size);
	/* Rank 0's bytes, at all ranks. */
	bool (*broadcast)(void *bytes, int32_t n, char *why, size_t size);
	bool (*send)(int32_t to, const void *bytes, int32_t n, char *why, size_t size);
	/* A message that has come, from whichever rank; *bytes = 0: none is there. Does not wait. One longer than most is
	 * an error. */
	bool (*receive)(int32_t *from, void *to, int32_t most, int32_t *bytes, char *why, size_t size);
	void (*close)(void); /* all ranks together */
	void (*abort)(int status); /* all ranks, from any; does not return */
};

/* The one symbol of lockstep-mpi.so. */
extern const struct mpi_api lockstep_mpi_api;

#endif
