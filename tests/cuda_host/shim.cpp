/* shim.cpp: fibers, and how they meet (tests/cuda_host/shim.h). */
#include "tests/cuda_host/shim.h"

#include <map>
#include <numeric>
#include <string>
#include <vector>

enum { MOST_THREADS = 1024, WARPS = MOST_THREADS / 32, STACK = 4161 * 64 }; /* nowhere alike in the cache */

/* Switching is a handful of instructions of the machine: x86-64. (swapcontext would cost two system calls each time.) */
typedef void *context;
extern "C" void shim_switch(context *from, context to);
asm(".text\n.globl shim_switch\nshim_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\nmovq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *at, size_t bytes);
static struct fiber {
	context at;
	enum { READY, WAITS, DONE } state;
	std::vector<std::function<void()>> copies; /* not done yet */
} fibers[MOST_THREADS];
/* Threads that wait for each other: a warp, or the block (the last of these). */
static struct group {
	int first, n, arrived, turn;
} groups[WARPS + 1];
static shim_gift given[WARPS][2][32]; /* by turns */
alignas(64) static char stacks[MOST_THREADS][STACK];
dim3 threadIdx, blockIdx, blockDim, gridDim;
uint64_t shim_random = 1;
const char *shim_complaint;
int shim_dropped = -1, shim_drop_last;
static std::vector<std::string> sites;
static std::map<const void *, std::vector<unsigned char>> shared;
static context scheduler;
static unsigned n_threads, n_done, running;
static const std::function<void()> *body;

const char *shim_site_name(int site)
{
	return (size_t)site < sites.size() ? sites[(size_t)site].c_str() : NULL;
}
int shim_site(const char *file, int line, const char *what)
{
	std::string name = std::string(what) + " at " + file + ":" + std::to_string(line);
	int i = int(std::find(sites.begin(), sites.end(), name) - sites.begin());
	sites.resize(std::max(sites.size(), (size_t)i + 1), name);
	return i;
}
static unsigned next_random(unsigned n)
{
	shim_random = shim_random * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((shim_random >> 33) % n);
}
/* Passes over the threads, each beginning and stepping somewhere else, until all are done or all wait. For some passes some
 * warps are held back, so that others get ahead of them as far as barriers let them. */
static unsigned left, at, by;
static uint32_t held;
static bool moved;
static bool find_thread()
{
	while (n_done < n_threads) {
		while (left--) {
			running = at;
			at += by - (at + by < n_threads ? 0 : n_threads);
			if (fibers[running].state == fiber::READY && !(held >> running / 32 & 1))
				return moved = true;
		}
		if (!moved && !held)
			break;
		left = n_threads, at = next_random(n_threads), by = next_random(n_threads);
		by = std::gcd(by, n_threads) == 1 ? by : 1;
		held = !moved ? 0 : next_random(held ? 16 : 3) ? held : next_random(~0u);
		moved = false;
	}
	return false;
}
static void go_on(context *from, unsigned me)
{
	context to = find_thread() ? fibers[running].at : scheduler;
	threadIdx = dim3(running);
	if (running != me || to == scheduler)
		shim_switch(from, to);
}
static void run_thread()
{
	(*body)();
	fibers[running].state = fiber::DONE;
	n_done++;
	go_on(&fibers[running].at, MOST_THREADS);
}
/* The last to come is not the first to go on. */
static void arrive(struct group *g)
{
	unsigned me = running;
	fibers[me].state = fiber::WAITS;
	g->arrived = (g->arrived + 1) % g->n;
	g->turn ^= g->arrived == 0;
	for (int i = 0; i < g->n && g->arrived == 0; i++)
		fibers[g->first + i].state = fiber::READY;
	go_on(&fibers[me].at, me);
}
void shim_barrier()
{
	arrive(&groups[WARPS]);
}
const shim_gift *shim_meet(const void *mine, size_t bytes)
{
	unsigned warp = running / 32;
	const shim_gift *all = given[warp][groups[warp].turn];
	memcpy(given[warp][groups[warp].turn][running % 32], mine, bytes);
	arrive(&groups[warp]);
	return all;
}
static bool run_block()
{
	for (int i = 0; i < WARPS; i++)
		groups[i] = {32 * i, std::min((int)n_threads - 32 * i, 32), 0, 0};
	groups[WARPS] = {0, (int)n_threads, 0, 0};
	for (unsigned i = 0; i < n_threads; i++) {
		void **top = (void **)(void *)(stacks[i + 1] - 64);
		top[-1] = NULL; /* where it would return to; the stack is aligned as after a call */
		top[-2] = (void *)run_thread;
		fibers[i] = {top - 8, fiber::READY, {}};
	}
	n_done = 0;
	left = held = 0, moved = true;
	go_on(&scheduler, MOST_THREADS);
	return n_done == n_threads;
}
int (*shim_start)(dim3, dim3, size_t, const std::function<void()> &) = shim_launch;

int shim_launch(dim3 grid, dim3 block, size_t smem, const std::function<void()> &thread)
{
	uint64_t n = (uint64_t)grid.x * grid.y * grid.z;
	if (n == 0 || block.x == 0 || block.x > MOST_THREADS || block.y * block.z != 1)
		return 1; /* as cudaErrorInvalidValue */
	n_threads = block.x;
	blockDim = block;
	gridDim = grid;
	body = &thread;
	uint64_t first = next_random((unsigned)n), by = next_random(2) ? 1 : n - 1;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t b = (first + i * by) % n;
		blockIdx = dim3(unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y));
		shared = {{NULL, std::vector<unsigned char>(smem, 0xff)}};
		if ((shim_drop_last && b == n - 1) || run_block())
			continue;
		if (__asan_unpoison_memory_region) /* what was on the stacks that are left */
			__asan_unpoison_memory_region(stacks, sizeof stacks);
		shim_complaint = "threads wait for each other for ever";
		return 719; /* as cudaErrorLaunchFailure */
	}
	return 0;
}
void *shim_shared(const void *key, size_t bytes)
{
	return shared.try_emplace(key, bytes, 0xff).first->second.data();
}
/* Done at once or when it is waited for, by chance. */
template <int BYTES> void copy_async(void *to, const void *from, bool valid)
{
	auto copy = [=] { valid ? memcpy(to, from, BYTES) : memset(to, 0, BYTES); };
	if (((uintptr_t)to | (valid ? (uintptr_t)from : 0)) % BYTES)
		shim_complaint = "a copy is not aligned";
	else if (next_random(2))
		copy();
	else
		fibers[running].copies.push_back(copy);
}
template void copy_async<4>(void *, const void *, bool);
template void copy_async<16>(void *, const void *, bool);
void shim_copies_wait()
{
	for (const std::function<void()> &copy : fibers[running].copies)
		copy();
	fibers[running].copies.clear();
}
/* The sum itself is most of what attention's tests do: never sanitized, since every index is a constant. */
__attribute__((noinline, optimize("O3"), no_sanitize("address", "undefined"))) static void
add_products(float c[4], const shim_gift *x, const shim_gift *y)
{
#pragma GCC unroll 16
	for (int k = 0; k < 16; k++)
#pragma GCC unroll 4
		for (int i = 0; i < 4; i++)
			c[i] += x[k % 8 / 2][i / 2 * 2 + k / 8 * 4 + k % 2] *
				y[i % 2 * 4 + k % 8 / 2][8 + k / 8 * 2 + k % 2];
}
void mma_bf16(float c[4], const uint32_t a[4], const uint32_t *b)
{
	uint32_t mine[12]; /* the bits of floats: a's 8, b's 4 */
	for (int i = 0; i < 12; i++) {
		uint32_t pair = i < 8 ? a[i / 2] : b[i / 2 - 4];
		mine[i] = i % 2 ? pair & 0xffff0000u : pair << 16;
	}
	unsigned lane = running % 32;
	const shim_gift *all = shim_meet(mine, sizeof mine);
	add_products(c, all + lane / 4 * 4, all + lane % 4 * 8);
}
void shim_load_tiles(uint32_t to[4], const void *row, bool turned)
{
	unsigned lane = running % 32;
	const shim_gift *all = shim_meet(&row, sizeof row);
	for (unsigned i = 0; i < 8; i++) {
		unsigned half = i % 2, along = lane % 4 * 2 + half;
		const uint16_t *from;
		memcpy(&from, all[i / 2 * 8 + (turned ? along : lane / 4)], sizeof from);
		uint32_t x = from[turned ? lane / 4 : along];
		to[i / 2] = half ? to[i / 2] | x << 16 : x;
	}
}
