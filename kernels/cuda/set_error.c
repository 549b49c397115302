/* set_error.c: what failed, in words. The device works behind the host, so that an operation's fault may show only at a
 * later call: the text then says which was started last, and how to find out. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/set.h"

const char *cuda_error(struct kernel_set *k)
{
	return cuda_set_of(k)->error.text;
}

int cuda_refuse(struct cuda_set *s, const char *what, ...)
{
	va_list args;
	if (s->error.sticky)
		return -1;
	va_start(args, what);
	vsnprintf(s->error.text, sizeof s->error.text, what, args);
	va_end(args);
	return -1;
}

/* After these the context is lost: every further call says the same. */
static bool is_sticky(int status)
{
	switch (status) {
	case cudaErrorIllegalAddress:
	case cudaErrorLaunchFailure:
	case cudaErrorLaunchTimeout:
	case cudaErrorAssert:
	case cudaErrorHardwareStackError:
	case cudaErrorIllegalInstruction:
	case cudaErrorMisalignedAddress:
	case cudaErrorInvalidAddressSpace:
	case cudaErrorInvalidPc:
	case cudaErrorECCUncorrectable:
	case cudaErrorUnknown:
		return true;
	default:
		return false;
	}
}

int cuda_check(struct cuda_set *s, int status, const char *what, ...)
{
	char doing[sizeof s->error.last];
	va_list args;
	va_start(args, what);
	vsnprintf(doing, sizeof doing, what, args);
	va_end(args);
	if (status == cudaSuccess) {
		memcpy(s->error.last, doing, sizeof doing);
		return 0;
	}
	if (s->error.sticky)
		return -1;
	const char *says = cudaGetErrorString((cudaError_t)status);
	if (!is_sticky(status)) {
		cudaGetLastError(); /* so that the next call does not report it again */
		return cuda_refuse(s, "%s: %s", doing, says);
	}
	cuda_refuse(
		s,
		"%s: %s; the device works behind the host, so it may have been an operation before (the one started "
		"last: %s): run again with CUDA_LAUNCH_BLOCKING=1 and --enforce-eager to be told which",
		doing, says, s->error.last[0] ? s->error.last : "none");
	s->error.sticky = true;
	return -1;
}
