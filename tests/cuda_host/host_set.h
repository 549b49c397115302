/* host_set.h: the CUDA kernels on the stand-in of shim.h, as a set of kernels (without matrix products), so that tests can
 * hold it against the reference. Everything its callers see is f32; with bf16 activations what goes in is rounded and what
 * comes out widened, in memory that begins as NaN and whose ends are looked at. */
#ifndef TESTS_CUDA_HOST_HOST_SET_H
#define TESTS_CUDA_HOST_HOST_SET_H

#include "kernels/ops.h"

struct host_options {
	enum num act;
	int32_t sms; /* what the attention's plan is made for */
	int32_t splits; /* parts of decodes' contexts; 0 = by the plan */
	int32_t max_ctx; /* what the plan counts on, where it is more than the step's largest */
	bool twice; /* attention runs again on the list of tiles that the first run made */
};
/* Ends the program when memory is out. */
struct kernel_set *host_set_open(const struct host_options *o);
struct host_options *host_set_options(struct kernel_set *k);

#endif
