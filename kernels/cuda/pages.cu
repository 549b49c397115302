/* pages.cu: pages copied within an arena and between arenas: copy on write, swapping. */
#include "kernels/cuda/launch.cuh"

enum { COPY_THREADS = 256, COPY_BLOCKS = 64 }; /* blocks that share a page's planes: pages are tens of KiB */

template <class W> static __device__ inline void copy_words(void *to, const void *from, int64_t n)
{
	for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
		((W *)to)[i] = ((const W *)from)[i];
}

__global__ void copy_pages_kernel(const struct page_plane *planes, const int32_t *pairs, int32_t n)
{
	const struct page_plane p = planes[blockIdx.y];
	for (int32_t i = blockIdx.x; i < n; i += gridDim.x) {
		const char *from = (const char *)p.from + pairs[2 * i] * p.page_bytes;
		char *to = (char *)p.to + pairs[2 * i + 1] * p.page_bytes;
		bool wide = (((uintptr_t)from | (uintptr_t)to) & 15) == 0;
		int64_t words = wide ? p.page_bytes / 16 : 0;
		copy_words<bytes16>(to, from, words);
		copy_words<char>(to + 16 * words, from + 16 * words, p.page_bytes - 16 * words);
	}
}

int cuda_copy_pages(cuda_stream st, const struct page_plane *planes, int32_t n_planes, const int32_t *pairs, int32_t n)
{
	if (n < 1 || n_planes < 1)
		return 0;
	dim3 grid((unsigned)(n < COPY_BLOCKS * 16 ? n : COPY_BLOCKS * 16), (unsigned)n_planes);
	return LAUNCH(copy_pages_kernel, grid, COPY_THREADS, 0, st, planes, pairs, n);
}
