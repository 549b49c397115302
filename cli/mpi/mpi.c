/* mpi.c: lockstep-mpi.so. Errors come back as such where MPI lets them. */
#include "cli/mpi/mpi_api.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
	TAG = 1,
	ABORT_S = 5, /* an abort takes milliseconds; where a rank is dead and the job goes on, it may never end */
};

static volatile sig_atomic_t abort_status;

static bool fine(int rc, const char *what, char *why, size_t size)
{
	char text[MPI_MAX_ERROR_STRING];
	int n;
	if (rc == MPI_SUCCESS)
		return true;
	if (MPI_Error_string(rc, text, &n) != MPI_SUCCESS)
		snprintf(text, sizeof text, "error %d", rc);
	snprintf(why, size, "MPI's %s: %s", what, text);
	return false;
}

static bool open_mpi(int32_t *rank, int32_t *n, char *why, size_t size)
{
	int own, all;
	if (!fine(MPI_Init(NULL, NULL), "start", why, size) ||
	    !fine(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "start", why, size) ||
	    !fine(MPI_Comm_rank(MPI_COMM_WORLD, &own), "start", why, size) ||
	    !fine(MPI_Comm_size(MPI_COMM_WORLD, &all), "start", why, size))
		return false;
	*rank = own;
	*n = all;
	return true;
}

static bool gather(const void *mine, int32_t bytes, void *all, char *why, size_t size)
{
	return fine(MPI_Gather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, MPI_COMM_WORLD), "gather", why, size);
}

static bool broadcast(void *bytes, int32_t n, char *why, size_t size)
{
	return fine(MPI_Bcast(bytes, n, MPI_BYTE, 0, MPI_COMM_WORLD), "broadcast", why, size);
}

static bool send_bytes(int32_t to, const void *bytes, int32_t n, char *why, size_t size)
{
	return fine(MPI_Send(bytes, n, MPI_BYTE, to, TAG, MPI_COMM_WORLD), "send", why, size);
}

static bool receive(int32_t *from, void *to, int32_t most, int32_t *bytes, char *why, size_t size)
{
	MPI_Status s;
	int there, n;
	*bytes = 0;
	if (!fine(MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &there, &s), "probe", why, size))
		return false;
	if (!there)
		return true;
	if (!fine(MPI_Get_count(&s, MPI_BYTE, &n), "receive", why, size) ||
	    !fine(MPI_Recv(to, most, MPI_BYTE, s.MPI_SOURCE, TAG, MPI_COMM_WORLD, &s), "receive", why, size))
		return false;
	*from = s.MPI_SOURCE;
	*bytes = n;
	return true;
}

static void close_mpi(void)
{
	MPI_Finalize();
}

static void leave(int sig)
{
	(void)sig;
	_exit(abort_status);
}

static void abort_mpi(int status)
{
	abort_status = status;
	signal(SIGALRM, leave);
	alarm(ABORT_S);
	MPI_Abort(MPI_COMM_WORLD, status);
	abort();
}

__attribute__((visibility("default"))) const struct mpi_api lockstep_mpi_api = {
	MPI_API_VERSION, open_mpi, gather, broadcast, send_bytes, receive, close_mpi, abort_mpi,
};
