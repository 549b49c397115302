/* Any bytes as a trace of this format: an error of one line, or a workload that keeps the reader's promises. */
#include "tests/support/fuzz_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_trace(TRACE_TRACELAB, data, size);
}
