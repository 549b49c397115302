/* shim.cpp: fibers, and how they meet (tests/cuda_host/shim.h). */
#include "tests/cuda_host/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

enum { MOST_THREADS = 1024, STACK = 256 << 10 };
enum state { READY, AT_BARRIER, AT_WARP, DONE };

/* Switching costs a handful of instructions where we know the machine, two system calls elsewhere. */
#if defined(__x86_64__)
typedef void *context;
extern "C" void shim_switch(context *from, context to);
asm(".text\n.globl shim_switch\nshim_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#define SWITCH(from, to) shim_switch(&(from), (to))
static void make_context(context *c, char *stack, void (*run)())
{
	void **top = (void **)(void *)(stack + STACK - 64);
	*--top = NULL; /* where run would return to; the stack is aligned as after a call */
	*--top = (void *)run;
	*c = top - 6;
}
#else
typedef ucontext_t context;
#define SWITCH(from, to) swapcontext(&(from), &(to))
static void make_context(context *c, char *stack, void (*run)())
{
	getcontext(c);
	c->uc_stack.ss_sp = stack;
	c->uc_stack.ss_size = STACK;
	makecontext(c, run, 0);
}
#endif

struct copy {
	void *to;
	const void *from;
	size_t bytes;
	bool valid;
};
struct fiber {
	context at;
	enum state state;
	dim3 idx;
	std::vector<struct copy> copies; /* not done yet */
};
struct warp {
	unsigned char given[2][32][32]; /* by turns */
	int arrived;
	unsigned turn;
};
struct shared {
	const void *key;
	void *at;
};

dim3 threadIdx, blockIdx, blockDim, gridDim;
unsigned char *shim_dynamic;

static struct fiber fibers[MOST_THREADS];
static struct warp warps[MOST_THREADS / 32];
static std::vector<struct shared> statics;
static char *stacks;
static context scheduler;
static int n_threads, running, at_barrier, n_done, dropped = -1, drop_last;
static const std::function<void()> *body;
static uint64_t random_state = 1;
static const char *complaint;
static std::vector<struct place> *sites;
struct place {
	const char *file;
	int line;
	char name[96];
};

static unsigned next_random(unsigned n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((random_state >> 33) % n);
}

extern "C" void shim_seed(uint64_t seed)
{
	random_state = seed * 2 + 1;
}
extern "C" const char *shim_complaint(void)
{
	const char *was = complaint;
	complaint = NULL;
	return was;
}
extern "C" int shim_sites(void)
{
	return sites ? (int)sites->size() : 0;
}
extern "C" const char *shim_site_name(int site)
{
	return (*sites)[(size_t)site].name;
}
extern "C" void shim_drop(int site)
{
	dropped = site;
}
extern "C" void shim_drop_last_block(int yes)
{
	drop_last = yes;
}

int shim_site(const char *file, int line, const char *what)
{
	if (!sites)
		sites = new std::vector<struct place>;
	for (size_t i = 0; i < sites->size(); i++)
		if (strcmp((*sites)[i].file, file) == 0 && (*sites)[i].line == line)
			return (int)i;
	struct place p = {file, line, ""};
	snprintf(p.name, sizeof p.name, "%s at %s:%d", what, file, line);
	sites->push_back(p);
	return (int)sites->size() - 1;
}

/* --- threads ---------------------------------------------------------------------------------------------------------- */

static void run_thread()
{
	(*body)();
	fibers[running].state = DONE;
	n_done++;
	SWITCH(fibers[running].at, scheduler);
	abort();
}

static void wait_as(enum state s)
{
	fibers[running].state = s;
	SWITCH(fibers[running].at, scheduler);
}

void shim_barrier(int site)
{
	if (site == dropped)
		return;
	if (++at_barrier < n_threads)
		return wait_as(AT_BARRIER);
	at_barrier = 0;
	for (int i = 0; i < n_threads; i++)
		fibers[i].state = READY;
	wait_as(READY); /* the last to come is not the first to go on */
}

const unsigned char *shim_meet(const void *mine, size_t bytes)
{
	struct warp *w = &warps[running / 32];
	int first = running / 32 * 32, lanes = n_threads - first < 32 ? n_threads - first : 32;
	unsigned char(*given)[32] = w->given[w->turn & 1];
	memcpy(given[running % 32], mine, bytes);
	if (++w->arrived < lanes) {
		wait_as(AT_WARP);
		return given[0];
	}
	w->arrived = 0;
	w->turn++;
	for (int i = 0; i < lanes; i++)
		fibers[first + i].state = READY;
	wait_as(READY);
	return given[0];
}

void shim_sync_warp(int site)
{
	if (site != dropped)
		shim_meet("", 1);
}

/* Passes over the threads, each beginning and stepping somewhere else, until all are done or all wait. */
static bool run_block(char *stack)
{
	for (int i = 0; i < n_threads; i++) {
		fibers[i].state = READY;
		fibers[i].copies.clear();
		fibers[i].idx = dim3((unsigned)i);
		make_context(&fibers[i].at, stack + (size_t)i * STACK, run_thread);
	}
	memset(warps, 0xff, sizeof warps);
	for (struct warp &w : warps)
		w.arrived = 0;
	at_barrier = n_done = 0;
	for (bool moved = true; moved && n_done < n_threads;) {
		static const unsigned steps[] = {1, 5, 7, 11, 13, 31, 37, 61, 67, 127};
		unsigned n = (unsigned)n_threads, at = next_random(n), by = steps[next_random(10)];
		while (n % by == 0 && by > 1)
			by = steps[next_random(10)];
		moved = false;
		for (unsigned i = 0; i < n; i++, at = (at + by) % n)
			if (fibers[at].state == READY) {
				running = (int)at;
				threadIdx = fibers[at].idx;
				SWITCH(scheduler, fibers[at].at);
				moved = true;
			}
	}
	return n_done == n_threads;
}

int shim_launch(dim3 grid, dim3 block, size_t smem, const std::function<void()> &thread)
{
	if (!stacks)
		stacks = (char *)mmap(NULL, (size_t)MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t n = (uint64_t)grid.x * grid.y * grid.z, first;
	if (n == 0 || block.x == 0 || block.x > MOST_THREADS || block.y * block.z != 1)
		return 1; /* as cudaErrorInvalidValue */
	n_threads = (int)block.x;
	blockDim = block;
	gridDim = grid;
	body = &thread;
	first = next_random((unsigned)n);
	bool upwards = next_random(2);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t b = upwards ? (first + i) % n : (first + n - i) % n;
		if (drop_last && b == n - 1)
			continue;
		blockIdx = dim3((unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y));
		shim_dynamic = (unsigned char *)malloc(smem + 1);
		memset(shim_dynamic, 0xff, smem);
		bool done = run_block(stacks);
		free(shim_dynamic);
		for (struct shared &s : statics)
			free(s.at);
		statics.clear();
		if (done)
			continue;
#if defined(__SANITIZE_ADDRESS__)
		__asan_unpoison_memory_region(stacks, (size_t)MOST_THREADS * STACK);
#endif
		complaint = "threads wait for each other for ever";
		return 719; /* as cudaErrorLaunchFailure */
	}
	return 0;
}

void *shim_shared(const void *key, size_t bytes)
{
	for (struct shared &s : statics)
		if (s.key == key)
			return s.at;
	statics.push_back({key, malloc(bytes)});
	return memset(statics.back().at, 0xff, bytes);
}

/* --- copies, tiles ---------------------------------------------------------------------------------------------------- */

static void do_copy(const struct copy *c)
{
	if (c->valid)
		memcpy(c->to, c->from, c->bytes);
	else
		memset(c->to, 0, c->bytes);
}

/* Copies are done at once or when they are waited for, by chance. */
void shim_copy(void *to, const void *from, size_t bytes, bool valid)
{
	struct copy c = {to, from, bytes, valid};
	if (((uintptr_t)to | (valid ? (uintptr_t)from : 0)) % bytes)
		complaint = "a copy is not aligned";
	else if (next_random(2))
		do_copy(&c);
	else
		fibers[running].copies.push_back(c);
}

void shim_copies_wait(int site)
{
	if (site == dropped)
		return;
	for (const struct copy &c : fibers[running].copies)
		do_copy(&c);
	fibers[running].copies.clear();
}

static float half_of(uint32_t pair, int which)
{
	uint32_t u = which ? pair & 0xffff0000u : pair << 16;
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

void mma_bf16(float c[4], const uint32_t a[4], const uint32_t *b)
{
	uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
	int lane = running % 32;
	const uint32_t *all = (const uint32_t *)(const void *)shim_meet(mine, sizeof mine);
	for (int i = 0; i < 4; i++) {
		int row = lane / 4, column = lane % 4 * 2 + i % 2;
		for (int k = 0; k < 16; k++) {
			float x = half_of(all[8 * (row * 4 + k % 8 / 2) + i / 2 + k / 8 * 2], k % 2);
			c[i] += x * half_of(all[8 * (column * 4 + k % 8 / 2) + 4 + k / 8], k % 2);
		}
	}
}

static void load(uint32_t to[4], const void *row, bool turned)
{
	int lane = running % 32;
	const unsigned char *all = shim_meet(&row, sizeof row);
	for (int i = 0; i < 8; i++) {
		int half = i % 2, r = turned ? lane % 4 * 2 + half : lane / 4, c = turned ? lane / 4 : lane % 4 * 2 + half;
		const uint16_t *from;
		memcpy(&from, all + 32 * (i / 2 * 8 + r), sizeof from);
		uint32_t x = from[c];
		to[i / 2] = half ? to[i / 2] | x << 16 : x;
	}
}
void load_tiles(uint32_t to[4], const void *row)
{
	load(to, row, false);
}
void load_tiles_turned(uint32_t to[4], const void *row)
{
	load(to, row, true);
}
