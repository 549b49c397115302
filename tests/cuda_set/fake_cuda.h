/* fake_cuda.h: CUDA's runtime for tests: a stream is a queue that nothing is taken from until somebody waits for it, so that
 * whoever uses memory too early is caught; memory begins as NaN. Kernels run on shim.h. */
#ifndef TESTS_CUDA_SET_FAKE_CUDA_H
#define TESTS_CUDA_SET_FAKE_CUDA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the machine is like: change it, then open a set. */
struct fake_machine {
	int driver; /* 13000: CUDA 13.0; 0: none */
	int count_status, devices; /* of cudaGetDeviceCount */
	int major, minor;
	size_t memory, used; /* bytes of the device */
	int kernel_status; /* what waiting says from now on (a sticky error), 0: nothing */
	int fail_in; /* the so many-th kernel from now reaches into memory that is not there; 0: none does */
	int graph_status; /* what making one says */
	int no_pinned; /* there is no more pinned memory */
	int graphs; /* recorded so far */
	int replays; /* started so far */
	int heuristics; /* cuBLAS was asked for */
	size_t downloaded; /* bytes that came to the host */
};
extern struct fake_machine fake_machine;

#ifdef __cplusplus
}
#include <functional>
/* Puts work into the stream. */
void fake_enqueue(const std::function<void()> &work);
#endif
#endif
