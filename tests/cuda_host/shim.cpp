/* shim.cpp: fibers, and how they meet (tests/cuda_host/shim.h). */
#include "tests/cuda_host/shim.h"

#include <map>
#include <numeric>
#include <sys/mman.h>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

enum { MOST_THREADS = 1024, STACK = 256 << 10 };

/* Switching is a handful of instructions of the machine: x86-64. (swapcontext would cost two system calls each time.) */
typedef void *context;
extern "C" void shim_switch(context *from, context to);
asm(".text\n.globl shim_switch\nshim_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\nmovq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#define SWITCH(from, to) shim_switch(&(from), (to))
static void make_context(context *c, char *stack, void (*run)())
{
	void **top = (void **)(void *)(stack + STACK - 64);
	top[-1] = NULL; /* where run would return to; the stack is aligned as after a call */
	top[-2] = (void *)run;
	*c = top - 8;
}
static struct fiber {
	context at;
	enum { READY, WAITS, DONE } state;
	std::vector<std::function<void()>> copies; /* not done yet */
} fibers[MOST_THREADS];
static struct {
	unsigned char given[2][32][32]; /* by turns */
	int arrived;
	unsigned turn;
} warps[MOST_THREADS / 32];
dim3 threadIdx, blockIdx, blockDim, gridDim;
unsigned char *shim_dynamic;
uint64_t shim_random = 1;
const char *shim_complaint;
int shim_drop_last;
static std::map<const void *, std::vector<unsigned char>> statics;
static char *const stacks = (char *)mmap(NULL, (size_t)MOST_THREADS *STACK, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
static context scheduler;
static int n_threads, running, at_barrier, n_done;
static const std::function<void()> *body;

static unsigned next_random(unsigned n)
{
	shim_random = shim_random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((shim_random >> 33) % n);
}
static void run_thread()
{
	(*body)();
	fibers[running].state = fiber::DONE;
	n_done++;
	SWITCH(fibers[running].at, scheduler);
}
/* The last to come is not the first to go on. */
static void go_on(int first, int n, bool all_here)
{
	for (int i = 0; i < n && all_here; i++)
		fibers[first + i].state = fiber::READY;
	if (!all_here)
		fibers[running].state = fiber::WAITS;
	SWITCH(fibers[running].at, scheduler);
}
void shim_barrier(int site)
{
	if (site == shim_dropped)
		return;
	at_barrier = (at_barrier + 1) % n_threads;
	go_on(0, n_threads, at_barrier == 0);
}
const unsigned char *shim_meet(const void *mine, size_t bytes)
{
	auto *w = &warps[running / 32];
	int first = running / 32 * 32, lanes = std::min(n_threads - first, 32);
	unsigned char(*given)[32] = w->given[w->turn & 1];
	memcpy(given[running % 32], mine, bytes);
	w->arrived = (w->arrived + 1) % lanes;
	w->turn += w->arrived == 0;
	go_on(first, lanes, w->arrived == 0);
	return given[0];
}
void shim_sync_warp(int site)
{
	if (site != shim_dropped)
		shim_meet("", 1);
}
/* Passes over the threads, each beginning and stepping somewhere else, until all are done or all wait. */
static bool run_block()
{
	memset(warps, 0, sizeof warps);
	at_barrier = n_done = 0;
	for (int i = 0; i < n_threads; i++) {
		fibers[i].state = fiber::READY;
		fibers[i].copies.clear();
		make_context(&fibers[i].at, stacks + (size_t)i * STACK, run_thread);
	}
	/* For some passes some warps are held back, so that others get ahead of them as far as barriers let them. */
	uint32_t held = 0;
	for (bool moved = true; (moved || held) && n_done < n_threads;) {
		unsigned n = (unsigned)n_threads, at = next_random(n), by = 2 * next_random(n) + 1;
		by = std::gcd(by, n) == 1 ? by : 1;
		held = !moved ? 0 : next_random(held ? 16 : 3) ? held : next_random(~0u);
		moved = false;
		for (unsigned i = 0; i < n; i++, at = (at + by) % n)
			if (fibers[at].state == fiber::READY && !(held >> at / 32 & 1)) {
				running = (int)at;
				threadIdx = dim3(at);
				SWITCH(scheduler, fibers[at].at);
				moved = true;
			}
	}
	return n_done == n_threads;
}
int (*shim_start)(dim3, dim3, size_t, const std::function<void()> &) = shim_launch;

int shim_launch(dim3 grid, dim3 block, size_t smem, const std::function<void()> &thread)
{
	uint64_t n = (uint64_t)grid.x * grid.y * grid.z;
	if (n == 0 || block.x == 0 || block.x > MOST_THREADS || block.y * block.z != 1)
		return 1; /* as cudaErrorInvalidValue */
	n_threads = (int)block.x;
	blockDim = block;
	gridDim = grid;
	body = &thread;
	uint64_t first = next_random((unsigned)n), by = next_random(2) ? 1 : n - 1;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t b = (first + i * by) % n;
		if (shim_drop_last && b == n - 1)
			continue;
		blockIdx = dim3(unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y));
		std::vector<unsigned char> dynamic(smem ? smem : 1, 0xff);
		shim_dynamic = dynamic.data();
		bool done = run_block();
		statics.clear();
		if (done)
			continue;
#if defined(__SANITIZE_ADDRESS__)
		__asan_unpoison_memory_region(stacks, (size_t)MOST_THREADS * STACK);
#endif
		shim_complaint = "threads wait for each other for ever";
		return 719; /* as cudaErrorLaunchFailure */
	}
	return 0;
}
void *shim_shared(const void *key, size_t bytes)
{
	if (statics[key].empty())
		statics[key].assign(bytes, 0xff);
	return statics[key].data();
}
/* Copies are done at once or when they are waited for, by chance. */
void shim_copy(void *to, const void *from, size_t bytes, bool valid)
{
	auto copy = [=] { valid ? memcpy(to, from, bytes) : memset(to, 0, bytes); };
	if (((uintptr_t)to | (valid ? (uintptr_t)from : 0)) % bytes)
		shim_complaint = "a copy is not aligned";
	else if (next_random(2))
		copy();
	else
		fibers[running].copies.push_back(copy);
}
void shim_copies_wait(int site)
{
	for (size_t i = 0; i < fibers[running].copies.size() && site != shim_dropped; i++)
		fibers[running].copies[i]();
	if (site != shim_dropped)
		fibers[running].copies.clear();
}
static float half_of(uint32_t pair, int which)
{
	float x = 0;
	memcpy((char *)&x + 2, (char *)&pair + 2 * which, 2);
	return x;
}
void mma_bf16(float c[4], const uint32_t a[4], const uint32_t *b)
{
	uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
	int lane = running % 32;
	const uint32_t *all = (const uint32_t *)(const void *)shim_meet(mine, sizeof mine);
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 16; k++)
			c[i] += half_of(all[8 * (lane / 4 * 4 + k % 8 / 2) + i / 2 + k / 8 * 2], k % 2) *
				half_of(all[8 * ((lane % 4 * 2 + i % 2) * 4 + k % 8 / 2) + 4 + k / 8], k % 2);
}
void shim_load_tiles(uint32_t to[4], const void *row, bool turned)
{
	int lane = running % 32;
	const unsigned char *all = shim_meet(&row, sizeof row);
	for (int i = 0; i < 8; i++) {
		int half = i % 2, r = turned ? lane % 4 * 2 + half : lane / 4,
		    c = turned ? lane / 4 : lane % 4 * 2 + half;
		const uint16_t *from;
		memcpy(&from, all + 32 * (i / 2 * 8 + r), sizeof from);
		to[i / 2] = half ? to[i / 2] | (uint32_t)from[c] << 16 : from[c];
	}
}