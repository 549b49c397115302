/* set_memory.c: the device's memory, and the pinned memory of the host that copies go through. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/set.h"

/* --- the device's ------------------------------------------------------------------------------------------------------ */

static void say_full(struct cuda_set *s, size_t bytes, const char *what)
{
	size_t there = 0, all = 0;
	cudaGetLastError();
	if (cudaMemGetInfo(&there, &all) != cudaSuccess)
		there = all = 0;
	cuda_refuse(s, "out of memory: %.3f GB%s%s asked for, %.3f of the device's %.3f GB are free",
		    (double)bytes / 1e9, what ? " for " : "", what ? what : "", (double)there / 1e9, (double)all / 1e9);
}

static void *take(struct cuda_set *s, size_t bytes, const char *what)
{
	void *p = NULL;
	int status = cudaMalloc(&p, bytes ? bytes : 1);
	if (status == cudaErrorMemoryAllocation)
		say_full(s, bytes, what);
	else if (cuda_check(s, status, "taking %zu bytes", bytes) == 0 &&
		 cuda_check(s, cudaMemsetAsync(p, 0, bytes ? bytes : 1, s->stream), "zeroing %zu bytes", bytes) == 0)
		return p;
	if (status == cudaSuccess)
		cudaFree(p);
	return NULL;
}

void *cuda_alloc(struct kernel_set *k, size_t bytes)
{
	return take(cuda_set_of(k), bytes, NULL);
}

void cuda_release(struct kernel_set *k, void *device)
{
	struct cuda_set *s = cuda_set_of(k);
	if (!device)
		return;
	cuda_graphs_drop(s);
	s->planned = false; /* the tables of the next step may come to lie where the last one's did */
	cudaFree(device); /* waits for the device */
}

int cuda_fit(struct cuda_set *s, struct scratch *r, size_t bytes, const char *what)
{
	if (bytes <= r->cap)
		return 0;
	if (s->graphs.recording)
		return cuda_refuse(s, "%s needs %zu bytes while a graph is recorded, and has %zu", what, bytes, r->cap);
	cuda_release(&s->base, r->at);
	size_t cap = bytes + bytes / 4;
	r->cap = 0;
	r->at = take(s, cap, what);
	if (!r->at)
		return -1;
	r->cap = cap;
	return 0;
}

int cuda_memory(struct kernel_set *k, int64_t *free_bytes, int64_t *total_bytes)
{
	size_t there = 0, all = 0;
	if (cuda_check(cuda_set_of(k), cudaMemGetInfo(&there, &all), "asking how much memory is free"))
		return -1;
	*free_bytes = (int64_t)there;
	*total_bytes = (int64_t)all;
	return 0;
}

/* --- to the device ------------------------------------------------------------------------------------------------------ */

static int upload_piece(struct cuda_set *s, void *device, const void *host, size_t bytes)
{
	struct uploads *u = &s->uploads;
	int slot = u->next;
	char *through = u->host + (size_t)slot * UPLOAD_BYTES;
	u->next = (slot + 1) % UPLOAD_SLOTS;
	if (cuda_check(s, cudaEventSynchronize(u->done[slot]), "waiting for a copy to the device"))
		return -1;
	memcpy(through, host, bytes);
	if (cuda_check(s, cudaMemcpyAsync(device, through, bytes, cudaMemcpyHostToDevice, s->stream),
		       "copying %zu bytes to the device", bytes))
		return -1;
	return cuda_check(s, cudaEventRecord(u->done[slot], s->stream), "copying %zu bytes to the device", bytes);
}

int cuda_upload(struct kernel_set *k, void *device, const void *host, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		size_t n = bytes - at < UPLOAD_BYTES ? bytes - at : UPLOAD_BYTES;
		if (upload_piece(cuda_set_of(k), (char *)device + at, (const char *)host + at, n))
			return -1;
		at += n;
	}
	return 0;
}

/* --- from the device ---------------------------------------------------------------------------------------------------- */

int cuda_download(struct kernel_set *k, void *host, const void *device, size_t bytes)
{
	struct cuda_set *s = cuda_set_of(k);
	if (!bytes)
		return 0;
	if (cuda_check(s, cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, s->stream),
		       "copying %zu bytes from the device", bytes))
		return -1;
	return cuda_check(s, cudaStreamSynchronize(s->stream), "waiting for %zu bytes from the device", bytes);
}

/* Nothing is under way to what grows: copies that were started before are waited for. */
static int downloads_grow(struct cuda_set *s, size_t bytes)
{
	struct downloads *d = &s->downloads;
	char *host = NULL;
	size_t cap = 2 * (d->used + bytes) + 4096;
	if (cuda_check(s, cudaStreamSynchronize(s->stream), "waiting for copies from the device") ||
	    cuda_check(s, cudaHostAlloc((void **)&host, cap, cudaHostAllocDefault), "taking %zu bytes of pinned memory",
		       cap))
		return -1;
	if (d->used)
		memcpy(host, d->host, d->used);
	cudaFreeHost(d->host);
	d->host = host;
	d->cap = cap;
	return 0;
}

int cuda_download_later(struct kernel_set *k, void *host, const void *device, size_t bytes)
{
	struct cuda_set *s = cuda_set_of(k);
	struct downloads *d = &s->downloads;
	if (!bytes)
		return 0;
	if (d->n == d->list_cap) {
		struct later *more = realloc(d->list, (size_t)(d->list_cap + 8) * sizeof *more);
		if (!more)
			return cuda_refuse(s, "out of memory for what is copied from the device");
		d->list = more;
		d->list_cap += 8;
	}
	if (d->used + bytes > d->cap && downloads_grow(s, bytes))
		return -1;
	if (cuda_check(s, cudaMemcpyAsync(d->host + d->used, device, bytes, cudaMemcpyDeviceToHost, s->stream),
		       "copying %zu bytes from the device", bytes))
		return -1;
	d->list[d->n++] = (struct later){host, d->used, bytes};
	d->used += (bytes + 63) / 64 * 64;
	return 0;
}

void cuda_downloads_deliver(struct cuda_set *s)
{
	struct downloads *d = &s->downloads;
	for (int i = 0; i < d->n; i++)
		memcpy(d->list[i].to, d->host + d->list[i].at, d->list[i].bytes);
	d->n = 0;
	d->used = 0;
}

/* --- both ---------------------------------------------------------------------------------------------------------------- */

int cuda_memory_open(struct cuda_set *s)
{
	struct uploads *u = &s->uploads;
	size_t bytes = (size_t)UPLOAD_SLOTS * UPLOAD_BYTES;
	if (cuda_check(s, cudaHostAlloc((void **)&u->host, bytes, cudaHostAllocDefault),
		       "taking %zu bytes of pinned memory", bytes))
		return -1;
	for (int i = 0; i < UPLOAD_SLOTS; i++)
		if (cuda_check(s, cudaEventCreateWithFlags(&u->done[i], cudaEventDisableTiming), "making an event"))
			return -1;
	return 0;
}

void cuda_memory_close(struct cuda_set *s)
{
	for (int i = 0; i < UPLOAD_SLOTS; i++)
		if (s->uploads.done[i])
			cudaEventDestroy(s->uploads.done[i]);
	cudaFreeHost(s->uploads.host);
	cudaFreeHost(s->downloads.host);
	free(s->downloads.list);
	cudaFree(s->attention.at);
	cudaFree(s->products.at);
	cudaFree(s->faults);
	free(s->told);
}
