#include "tests/cuda_set/fake_cuda.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tests/cuda_host/shim.h"

typedef std::vector<std::function<void()>> work_list;
struct CUgraph_st {
	work_list work;
};
struct CUgraphExec_st {
	work_list work;
};
struct CUevent_st {
	double ms;
	bool happened;
	long recorded, reached; /* how often */
};
struct CUstream_st {
	work_list queue;
	std::map<size_t, std::pair<CUevent_st *, long>>
		waits; /* before the work at that place: for that record of the event */
	size_t at; /* what comes next */
};

/* As a plug-in of the program it is told by its environment which kernel is to fail. */
static int told(const char *name)
{
	const char *value = getenv(name);
	return value ? atoi(value) : 0;
}
struct fake_machine fake_machine = {13000, 0, 1, 9, 0, (size_t)1 << 30, 0, 0, told("FAKE_CUDA_FAIL_IN"), 0,
				    0,     0, 0, 0, 0};
static std::vector<CUstream_st *> streams; /* kernels go to the first */
static work_list captured;
static bool capturing;
static std::map<void *, size_t> sizes;

void fake_enqueue(const std::function<void()> &work)
{
	(capturing ? captured : streams.at(0)->queue).push_back(work);
}

static int start(dim3 grid, dim3 block, size_t smem, const std::function<void()> &thread)
{
	if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.y > 65535 || grid.z > 65535 ||
	    block.x * block.y * block.z > 1024)
		return cudaErrorInvalidValue;
	fake_enqueue([=] {
		if (fake_machine.fail_in && --fake_machine.fail_in == 0)
			fake_machine.kernel_status = cudaErrorIllegalAddress;
		else if (shim_launch(grid, block, smem, thread))
			fake_machine.kernel_status = cudaErrorLaunchFailure;
	});
	return 0;
}
static const bool started = ((void)(shim_start = start), true);

static cudaError_t status(void)
{
	return (cudaError_t)fake_machine.kernel_status;
}

static void put(cudaStream_t st, const std::function<void()> &work)
{
	if (capturing && st == streams.at(0))
		captured.push_back(work);
	else
		st->queue.push_back(work);
}

/* Whether the stream's next work, if there is any, waits for nothing. */
static bool may_go_on(const CUstream_st *st)
{
	auto wait = st->waits.find(st->at);
	return st->at < st->queue.size() &&
	       (wait == st->waits.end() || wait->second.first->reached >= wait->second.second);
}

static void one_of(CUstream_st *st)
{
	st->queue[st->at++]();
	if (st->at < st->queue.size())
		return;
	st->queue.clear();
	st->waits.clear();
	st->at = 0;
}

/* Until the stream (NULL: each) has done all: others do something only where it waits for them, or, by chance, before. */
static cudaError_t run(cudaStream_t until = NULL)
{
	static unsigned chance = 1;
	(void)started;
	if (capturing)
		return cudaErrorStreamCaptureUnsupported;
	for (bool moved = true; moved && !status();) {
		moved = false;
		for (CUstream_st *st : streams) {
			chance = chance * 1664525u + 1013904223u;
			bool first = !until || st == until || !may_go_on(until) || chance >> 30 == 0;
			while (first && may_go_on(st) && !status() && (!until || !until->queue.empty())) {
				one_of(st);
				moved = true;
			}
		}
	}
	for (CUstream_st *st : streams)
		if (status())
			*st = CUstream_st();
	return status();
}

/* --- memory ------------------------------------------------------------------------------------------------------------ */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	if (status() || capturing)
		return capturing ? cudaErrorStreamCaptureUnsupported : status();
	if (fake_machine.used + bytes > fake_machine.memory)
		return cudaErrorMemoryAllocation;
	*p = aligned_alloc(256, (bytes + 255) / 256 * 256);
	memset(*p, 0xff, (bytes + 255) / 256 * 256);
	sizes[*p] = bytes;
	fake_machine.used += bytes;
	return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
	run();
	if (!p)
		return cudaSuccess;
	fake_machine.used -= sizes.at(p);
	sizes.erase(p);
	free(p);
	return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
	if (fake_machine.no_pinned)
		return cudaErrorMemoryAllocation;
	*p = malloc(bytes);
	return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
	run();
	free(p);
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *there, size_t *all)
{
	*there = fake_machine.memory - fake_machine.used;
	*all = fake_machine.memory;
	return status();
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t st)
{
	put(st, [=] { memset(p, value, bytes); });
	return status();
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t st)
{
	fake_machine.downloaded += kind == cudaMemcpyDeviceToHost ? bytes : 0;
	put(st, [=] { memcpy(to, from, bytes); });
	return status();
}

/* --- order --------------------------------------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *st, unsigned)
{
	*st = new CUstream_st();
	streams.push_back(*st);
	return status();
}

cudaError_t cudaStreamDestroy(cudaStream_t st)
{
	run();
	streams.erase(std::find(streams.begin(), streams.end(), st));
	delete st;
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t st)
{
	return run(st);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t st, cudaEvent_t e, unsigned)
{
	if (capturing)
		return cudaErrorStreamCaptureUnsupported;
	st->waits[st->queue.size()] = {e, e->recorded};
	st->queue.push_back([] {});
	return status();
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
	*e = new CUevent_st();
	(*e)->happened = true;
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
	return cudaEventCreate(e);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	run();
	delete e;
	return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t st, unsigned flags)
{
	/* Inside a graph an event is recorded only when that is asked for. */
	if (capturing && flags != cudaEventRecordExternal)
		return cudaErrorStreamCaptureUnsupported;
	if (!capturing)
		e->happened = false;
	long nth = capturing ? 0 : ++e->recorded;
	put(st, [=] {
		struct timespec t;
		clock_gettime(CLOCK_MONOTONIC, &t);
		e->ms = (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
		e->happened = true;
		e->reached = std::max(e->reached, nth);
	});
	return status();
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t st)
{
	return cudaEventRecordWithFlags(e, st, cudaEventRecordDefault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
	return e->happened ? status() : run();
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
	return status() ? status() : e->happened ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	if (!from->happened || !to->happened)
		return cudaErrorInvalidValue;
	*ms = (float)(to->ms - from->ms);
	return status();
}

/* --- graphs -------------------------------------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t, enum cudaStreamCaptureMode)
{
	captured.clear();
	capturing = true;
	return status();
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *g)
{
	capturing = false;
	*g = new CUgraph_st{captured};
	captured.clear();
	return status();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long)
{
	if (fake_machine.graph_status)
		return (cudaError_t)fake_machine.graph_status;
	*x = new CUgraphExec_st{g->work};
	fake_machine.graphs++;
	return status();
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
	delete g;
	return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
	run();
	delete x;
	return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t)
{
	fake_machine.replays++;
	for (const std::function<void()> &work : x->work)
		streams.at(0)->queue.push_back(work);
	return status();
}

/* --- the machine ----------------------------------------------------------------------------------------------------------- */

const char *cudaGetErrorString(cudaError_t e)
{
	switch (e) {
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorIllegalAddress:
		return "an illegal memory access was encountered";
	default:
		return "another error";
	}
}

cudaError_t cudaGetLastError(void)
{
	return status();
}

cudaError_t cudaDriverGetVersion(int *v)
{
	*v = fake_machine.driver;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = fake_machine.devices;
	return (cudaError_t)fake_machine.count_status;
}

cudaError_t cudaSetDevice(int)
{
	return status();
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int)
{
	*p = cudaDeviceProp();
	strcpy(p->name, "Fake GPU");
	p->totalGlobalMem = fake_machine.memory;
	p->major = fake_machine.major;
	p->minor = fake_machine.minor;
	p->multiProcessorCount = 4;
	return status();
}
