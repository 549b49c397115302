/* set_pages.c: KV pages copied beside the steps: to the host and back, on a stream of their own, ordered by events. What is copied
 * begins when the work called before it has ended; what is called afterwards goes on at once, unless it is told to wait. */
#include <stdlib.h>

#include "kernels/cuda/set.h"

void *cuda_host_alloc(struct kernel_set *k, size_t bytes)
{
	void *p = NULL;
	if (cuda_check(cuda_set_of(k), cudaHostAlloc(&p, bytes ? bytes : 1, cudaHostAllocDefault),
		       "taking %zu bytes of pinned memory for KV pages", bytes))
		return NULL;
	return p;
}

void cuda_host_release(struct kernel_set *k, void *host)
{
	struct cuda_set *s = cuda_set_of(k);
	if (s->copies.stream)
		cudaStreamSynchronize(s->copies.stream); /* what goes wrong there is told by the next call */
	cudaFreeHost(host);
}

/* Its place in the list: events are used again, those of copies that are done without anybody having asked as well. */
static struct copying *next_place(struct cuda_set *s)
{
	struct copies *c = &s->copies;
	for (int i = 0; i < c->n; i++)
		if (!c->list[i].ticket || cudaEventQuery(c->list[i].done) == cudaSuccess)
			return &c->list[i];
	cudaGetLastError(); /* "not ready" is no error */
	struct copying *more = realloc(c->list, (size_t)(c->n + 1) * sizeof *more);
	if (!more) {
		cuda_refuse(s, "out of memory for copies of KV pages");
		return NULL;
	}
	c->list = more;
	c->list[c->n] = (struct copying){0};
	if (cuda_check(s, cudaEventCreateWithFlags(&c->list[c->n].done, cudaEventDisableTiming), "making an event"))
		return NULL;
	return &c->list[c->n++];
}

static int start_stream(struct cuda_set *s)
{
	struct copies *c = &s->copies;
	if (c->stream)
		return 0;
	return cuda_check(s, cudaEventCreateWithFlags(&c->before, cudaEventDisableTiming), "making an event") ||
			       cuda_check(s, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking),
					  "making a stream")
		       ? -1
		       : 0;
}

int cuda_pages_copy(struct kernel_set *k, const struct page_part *parts, int32_t n, bool out, int64_t *ticket)
{
	struct cuda_set *s = cuda_set_of(k);
	struct copies *c = &s->copies;
	struct copying *place = start_stream(s) ? NULL : next_place(s);
	if (!place || cuda_check(s, cudaEventRecord(c->before, s->stream), "copying KV pages") ||
	    cuda_check(s, cudaStreamWaitEvent(c->stream, c->before, 0), "copying KV pages"))
		return -1;
	for (int32_t i = 0; i < n; i++) {
		const struct page_part *p = &parts[i];
		if (cuda_check(s,
			       out ? cudaMemcpyAsync(p->host, p->device, p->bytes, cudaMemcpyDeviceToHost, c->stream)
				   : cudaMemcpyAsync(p->device, p->host, p->bytes, cudaMemcpyHostToDevice, c->stream),
			       "copying %d parts of KV pages %s the device", n, out ? "from" : "to"))
			return -1;
	}
	if (cuda_check(s, cudaEventRecord(place->done, c->stream), "copying KV pages"))
		return -1;
	*ticket = place->ticket = ++c->last;
	return 0;
}

static struct copying *find(struct cuda_set *s, int64_t ticket)
{
	for (int i = 0; i < s->copies.n; i++)
		if (s->copies.list[i].ticket == ticket)
			return &s->copies.list[i];
	return NULL;
}

int cuda_pages_done(struct kernel_set *k, int64_t ticket, bool wait, bool *done)
{
	struct cuda_set *s = cuda_set_of(k);
	struct copying *p = ticket ? find(s, ticket) : NULL;
	*done = true;
	if (!p)
		return 0;
	int status = wait ? cudaEventSynchronize(p->done) : cudaEventQuery(p->done);
	if (status == cudaErrorNotReady) {
		cudaGetLastError(); /* or the next launch would be told */
		*done = false;
		return 0;
	}
	p->ticket = 0;
	return cuda_check(s, status, "waiting for a copy of KV pages");
}

int cuda_pages_before(struct kernel_set *k, int64_t ticket)
{
	struct cuda_set *s = cuda_set_of(k);
	struct copying *p = ticket ? find(s, ticket) : NULL;
	return p ? cuda_check(s, cudaStreamWaitEvent(s->stream, p->done, 0), "waiting for a copy of KV pages") : 0;
}

void cuda_pages_close(struct cuda_set *s)
{
	struct copies *c = &s->copies;
	if (c->stream)
		cudaStreamSynchronize(c->stream);
	for (int i = 0; i < c->n; i++)
		cudaEventDestroy(c->list[i].done);
	free(c->list);
	if (c->before)
		cudaEventDestroy(c->before);
	if (c->stream)
		cudaStreamDestroy(c->stream);
	*c = (struct copies){0};
}
