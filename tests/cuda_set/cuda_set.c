/* The CUDA set on a GPU that is not there: whole models against the reference set, recorded graphs, steps that run while the
 * host plans, what is said where there is no driver, no memory, no context any more. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/backend.h"
#include "exec/page_store.h"
#include "exec/prompts.h"
#include "kernels/cuda/plugin.h"
#include "kernels/cuda/set.h"
#include "tests/cuda_set/fake_cuda.h"
#include "tests/support/sched.h"
#include "tests/support/suite.h"
#include "tests/support/tiny.h"

extern const struct cuda_plugin lockstep_cuda_plugin;
static const struct fake_machine usual = {.driver = 13000, .devices = 1, .major = 9, .memory = (size_t)1 << 30};

enum { PAGES = 24, PROMPT = 19, OUTPUTS = 12 };

static struct kernel_set *open_set(enum num act, bool eager)
{
	struct kernel_set *k = NULL;
	char why[512] = "";
	const struct cuda_options o = {.act = act, .eager = eager};
	fake_machine = usual;
	if (lockstep_cuda_plugin.open(&k, &o, why, sizeof why)) {
		printf("  %s\n", why);
		exit(1);
	}
	return k;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void refused(struct fake_machine m, const char *text)
{
	struct kernel_set *k;
	char why[512] = "";
	const struct cuda_options o = {.act = NUM_BF16};
	fake_machine = m;
	CHECK_INT(lockstep_cuda_plugin.open(&k, &o, why, sizeof why), -1);
	CU_ASSERT(k == NULL && strstr(why, text) && !strchr(why, '\n'));
	if (!strstr(why, text))
		printf("  \"%s\" lacks \"%s\"\n", why, text);
	CHECK_INT(fake_machine.used, m.used);
}

static void each_way_of_having_no_gpu_has_its_own_sentence(void)
{
	struct fake_machine m = usual;
	m.driver = 0;
	m.count_status = cudaErrorInsufficientDriver;
	refused(m, "has no NVIDIA driver");
	m.driver = 12020;
	refused(m, "too old: it serves CUDA 12.2, the plug-in was built with CUDA 13.0");
	m.driver = 13000;
	m.count_status = cudaErrorNoDevice;
	refused(m, "finds no device");
	m.count_status = 0;
	m.devices = 0;
	refused(m, "finds no device");
	m = usual;
	m.major = 7;
	m.minor = 5;
	refused(m, "compute capability 7.5");
	m = usual;
	m.memory = 1000;
	refused(m, "out of memory");
	m.memory = 1 << 20; /* enough for the set, not for cuBLAS */
	refused(m, "for cuBLAS to work in");
}

static void closing_gives_everything_back(void)
{
	struct kernel_set *k = open_set(NUM_F32, false);
	CU_ASSERT(strstr(k->what, "cuda Fake GPU (sm_90, 4 SMs") && strstr(k->what, "cuBLASLt 13.1.0"));
	CU_ASSERT(fake_machine.used > 0);
	k->ops->close(k);
	CHECK_INT(fake_machine.used, 0);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void memory_is_zeroed_and_copies_are_in_order(void)
{
	struct kernel_set *k = open_set(NUM_F32, false);
	size_t n = 3 * (size_t)UPLOAD_BYTES + 5; /* through every pinned slot, and some twice */
	char *from = malloc(n), *to = malloc(n), *device = k->ops->alloc(k, n);
	CU_ASSERT_FATAL(from && to && device);
	CHECK_INT(k->ops->download(k, to, device, n), 0);
	for (size_t i = 0; i < n; i += 4093)
		CU_ASSERT(to[i] == 0);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < n; i++)
			from[i] = (char)(i * 31 + i / 251 + (size_t)round);
		CHECK_INT(k->ops->upload(k, device, from, n), 0);
		if (round == 1) {
			memset(to, 0, n);
			CHECK_INT(k->ops->download_later(k, to, device, n), 0);
			memset(from, 0, n); /* the caller's again */
			CU_ASSERT(to[1] == 0); /* only started */
			CHECK_INT(k->ops->finish(k, NULL), 0);
			CU_ASSERT(to[1] == (char)(31 + 1) && to[n - 1] == (char)((n - 1) * 31 + (n - 1) / 251 + 1));
			continue;
		}
		CHECK_INT(k->ops->download(k, to, device, n), 0);
		CU_ASSERT(memcmp(to, from, n) == 0);
	}
	k->ops->release(k, device);
	free(from);
	free(to);
	k->ops->close(k);
}

/* Pages go out and others come in beside the steps. `told`: what is called afterwards is told to wait. Returns how many of
 * `rounds` found what they should. */
static int pages_exchanged(struct kernel_set *k, bool told, int rounds)
{
	enum { N = 3000 };
	int right = 0;
	char *out = k->ops->host_alloc(k, N), *in = k->ops->host_alloc(k, N), here[N], *device = k->ops->alloc(k, N);
	CU_ASSERT_FATAL(out && in && device);
	for (int round = 0; round < rounds; round++) {
		int64_t first, second;
		bool done, fine;
		memset(here, 3 * round + 1, N);
		memset(in, 3 * round + 3, N);
		CHECK_INT(k->ops->upload(k, device, here, N), 0);
		const struct page_part leave[] = {{device, out, 1000}, {device + 1000, out + 1000, 2000}};
		CHECK_INT(k->ops->pages_copy(k, leave, 2, true, &first), 0);
		CHECK_INT(k->ops->pages_done(k, first, false, &done), 0);
		CU_ASSERT(!done); /* nobody has waited for anything */
		if (told)
			CHECK_INT(k->ops->pages_before(k, first), 0);
		memset(here, 3 * round + 2, N); /* the place is another's now */
		CHECK_INT(k->ops->upload(k, device, here, N), 0);
		const struct page_part come = {device, in, 1500};
		CHECK_INT(k->ops->pages_copy(k, &come, 1, false, &second), 0);
		if (told)
			CHECK_INT(k->ops->pages_before(k, second), 0);
		CHECK_INT(k->ops->download(k, here, device, N), 0);
		fine = here[0] == 3 * round + 3 && here[1499] == here[0] && here[1500] == 3 * round + 2;
		CHECK_INT(k->ops->pages_done(k, first, true, &done), 0);
		CU_ASSERT(done);
		fine = fine && out[0] == 3 * round + 1 && out[N - 1] == out[0];
		CHECK_INT(k->ops->pages_done(k, second, true, &done), 0);
		CHECK_INT(k->ops->pages_done(k, second, false, &done), 0); /* told already */
		CU_ASSERT(done && second == first + 1);
		right += fine;
	}
	k->ops->host_release(k, out);
	k->ops->host_release(k, in);
	k->ops->release(k, device);
	return right;
}

static void pages_leave_and_come_in_order(void)
{
	struct kernel_set *k = open_set(NUM_F32, false);
	CHECK_INT(pages_exchanged(k, true, 40), 40);
	CU_ASSERT(pages_exchanged(k, false, 40) < 40); /* and whoever does not wait is caught */
	k->ops->close(k);
	CHECK_INT(fake_machine.used, 0);
}

static void out_of_memory_says_what_asked_for_how_much(void)
{
	struct kernel_set *k = open_set(NUM_F32, false);
	CU_ASSERT(k->ops->alloc(k, (size_t)3 << 30) == NULL);
	CU_ASSERT(strstr(k->ops->error(k), "3.221 GB asked for") &&
		  strstr(k->ops->error(k), "of the device's 1.074 GB"));
	void *p = k->ops->alloc(k, 64); /* it is not the end */
	CU_ASSERT(p != NULL);
	k->ops->release(k, p);
	k->ops->close(k);
}

/* --- products ------------------------------------------------------------------------------------------------------- */

static float *numbers(size_t n, uint32_t seed)
{
	float *x = malloc(n * sizeof *x);
	for (size_t i = 0; i < n; i++)
		x[i] = (float)((int32_t)(seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f;
	return x;
}

static double relative_error(const float *got, const float *want, size_t n)
{
	double off = 0, all = 0;
	for (size_t i = 0; i < n; i++) {
		off += pow((double)got[i] - want[i], 2);
		all += pow(want[i], 2);
	}
	return sqrt(off / all);
}

/* Logits of `rows` rows through a matrix of two parts, the first with a bias; x is exact in bf16. */
static void multiply(struct kernel_set *k, enum num as, int32_t rows, int32_t n_in, const float *x, float *y)
{
	const int32_t n_out[] = {48, 16};
	float *w = numbers((size_t)(64 * n_in), 7), *bias = numbers(48, 8);
	const struct matrix_part parts[] = {{w, NUM_F32, n_out[0], bias}, {w + 48 * n_in, NUM_F32, n_out[1], NULL}};
	struct matrix *m;
	uint16_t *narrow = malloc((size_t)(rows * n_in) * 2);
	size_t each = (size_t)num_bytes(k->act);
	void *dx = k->ops->alloc(k, (size_t)(rows * n_in) * each), *dy = k->ops->alloc(k, (size_t)rows * 64 * 4);
	for (int32_t i = 0; i < rows * n_in; i++)
		memcpy(&narrow[i], (const char *)&x[i] + 2, 2);
	CHECK_INT(k->ops->pack(k, &m, parts, 2, n_in, as), 0);
	k->ops->upload(k, dx, k->act == NUM_F32 ? (const void *)x : narrow, (size_t)(rows * n_in) * each);
	CHECK_INT(k->ops->matmul_f32(k, dy, dx, rows, m), 0);
	CHECK_INT(k->ops->download(k, y, dy, (size_t)rows * 64 * 4), 0);
	k->ops->unpack_free(k, m);
	k->ops->release(k, dx);
	k->ops->release(k, dy);
	free(w);
	free(bias);
	free(narrow);
}

static void products_in_every_type(void)
{
	static const struct {
		enum num as;
		int32_t n_in;
		double tolerance;
	} cases[] = {
		{NUM_F32, 33, 1e-6}, {NUM_BF16, 80, 3e-3}, {NUM_I8, 80, 6e-3}, {NUM_I8, 33, 6e-3}, {NUM_F8, 80, 5e-2}};
	static const int32_t rows[] = {1, 2, 3, 4, 7, 40};
	struct kernel_set *reference;
	CU_ASSERT_FATAL(!reference_kernels_open(&reference));
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
		for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
			struct kernel_set *k = open_set(cases[c].as == NUM_F32 ? NUM_F32 : NUM_BF16, false);
			size_t n = (size_t)rows[r] * 64;
			float *x = numbers((size_t)(rows[r] * cases[c].n_in), 5), *got = malloc(4 * n),
			      *want = malloc(4 * n);
			for (int32_t i = 0; i < rows[r] * cases[c].n_in; i++)
				memset(&x[i], 0, 2);
			multiply(k, cases[c].as, rows[r], cases[c].n_in, x, got);
			multiply(reference, NUM_F32, rows[r], cases[c].n_in, x, want);
			double off = relative_error(got, want, n);
			CU_ASSERT(off <= cases[c].tolerance);
			if (!(off <= cases[c].tolerance))
				printf("  %s, %d rows of %d: off by %g\n", num_names[cases[c].as], rows[r],
				       cases[c].n_in, off);
			free(x);
			free(got);
			free(want);
			k->ops->close(k);
			CHECK_INT(fake_machine.used, 0);
		}
	reference->ops->close(reference);
}

static void what_cannot_be_held_is_refused(void)
{
	struct kernel_set *k = open_set(NUM_BF16, false);
	float w[64] = {0};
	const struct matrix_part part = {w, NUM_F32, 4, NULL};
	struct matrix *m;
	CHECK_INT(k->ops->pack(k, &m, &part, 1, 16, NUM_F32), -1);
	CU_ASSERT(strstr(k->ops->error(k), "matrices in f32 go with activations in f32") != NULL);
	CHECK_INT(k->ops->pack(k, &m, &part, 1, 16, NUM_F8), -1);
	CU_ASSERT(strstr(k->ops->error(k), "multiples of 16, and a matrix is 4 x 16") != NULL);
	cuda_set_of(k)->arch = 80;
	CHECK_INT(k->ops->pack(k, &m, &part, 1, 16, NUM_F8), -1);
	CU_ASSERT(strstr(k->ops->error(k), "compute capability 8.9") && strstr(k->ops->error(k), "has 8.0"));
	k->ops->close(k);
}

/* --- whole models --------------------------------------------------------------------------------------------------- */

/* A tiny model on a set: greedy tokens of one sequence, and the logits after the last. */
static void speak(struct kernel_set *k, enum num weights, enum num kv, int32_t *tokens, float *logits)
{
	struct tiny t;
	struct err e = {0};
	int32_t pages[PAGES], prompt[PROMPT], rows;
	const float *at;
	tiny_open(&t, NULL, 0);
	struct kernel_set *its = t.kernels;
	if (k)
		t.kernels = k;
	struct runner *r = tiny_runner(&t, (struct runner_setup){.n_pages = PAGES,
								 .block_size = 4,
								 .weight_type = weights,
								 .kv_type = kv,
								 .sampling = SAMPLING_GREEDY});
	for (int32_t i = 0; i < PAGES; i++)
		pages[i] = (i * 7 + 3) % PAGES;
	for (int32_t i = 0; i < PROMPT; i++)
		prompt[i] = (i * 13 + 5) % TINY_VOCAB;
	struct by_hand h = {.runner = r, .block_size = 4, .n_pages = PAGES, .pages = pages, .err = &e};
	for (int32_t i = 0; i < OUTPUTS; i++)
		tokens[i] = by_hand_step(&h, i ? &tokens[i - 1] : prompt, i ? 1 : PROMPT);
	CHECK_STR(e.text, "");
	CHECK_INT(runner_logits(r, &at, &rows, &e), ERR_NONE);
	CHECK_INT(rows, 1);
	memcpy(logits, at, TINY_VOCAB * sizeof *logits);
	runner_free(r);
	t.kernels = its;
	tiny_close(&t);
}

static void a_model_says_what_it_says_on_the_reference(void)
{
	int32_t want[OUTPUTS], got[OUTPUTS];
	float wanted[TINY_VOCAB], logits[TINY_VOCAB];
	speak(NULL, NUM_F32, NUM_F32, want, wanted);
	for (int eager = 0; eager < 2; eager++) {
		struct kernel_set *k = open_set(NUM_F32, eager);
		speak(k, NUM_F32, NUM_F32, got, logits);
		CU_ASSERT(memcmp(got, want, sizeof want) == 0);
		CU_ASSERT(relative_error(logits, wanted, TINY_VOCAB) < 1e-5);
		/* One shape of decode: first as it comes, then recorded with marks and without, then replayed. */
		CHECK_INT(fake_machine.graphs, eager ? 0 : 2);
		CU_ASSERT(eager ? fake_machine.replays == 0 : fake_machine.replays >= OUTPUTS - 4);
		k->ops->close(k);
		CHECK_INT(fake_machine.used, 0);
	}
}

/* Rounded weights, activations and pages move the logits, but not far. */
static void fewer_bits_stay_near(void)
{
	static const struct {
		enum num weights, kv;
		double tolerance;
	} cases[] = {{NUM_BF16, NUM_BF16, 0.02}, {NUM_I8, NUM_I8, 0.05}, {NUM_BF16, NUM_F8, 0.1}};
	int32_t tokens[OUTPUTS], first[OUTPUTS];
	float wanted[TINY_VOCAB], logits[TINY_VOCAB];
	speak(NULL, NUM_F32, NUM_F32, first, wanted);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kernel_set *k = open_set(NUM_BF16, false);
		speak(k, cases[i].weights, cases[i].kv, tokens, logits);
		double off = relative_error(logits, wanted, TINY_VOCAB);
		/* Another token once said, all that follows is of another text. */
		if (memcmp(tokens, first, sizeof first - sizeof *first) == 0)
			CU_ASSERT(off < cases[i].tolerance);
		CHECK_INT(tokens[0], first[0]);
		if (tokens[0] != first[0])
			printf("  weights %s, pages %s: off by %g\n", num_names[cases[i].weights],
			       num_names[cases[i].kv], off);
		k->ops->close(k);
	}
}

/* --- a workload -------------------------------------------------------------------------------------------------------- */

enum { REQUESTS = 5 };

struct served {
	int32_t tokens[REQUESTS][OUTPUTS];
	int64_t steps, host_ns, busy_ns;
	int graphs, replays;
	size_t downloaded;
	char error[1024];
	int rc;
};

static void serve(struct served *out, struct kernel_set *k, const struct sampling *how, bool async, bool check,
		  int fault_at)
{
	struct sched s;
	struct tiny t;
	struct sequences *q;
	struct backend b;
	sched_init(&s, "chunked", NULL);
	s.cfg.exact_walk = true;
	s.cfg.async_scheduling = async;
	for (int i = 0; i < REQUESTS; i++)
		sched_add(&s, i * 5, 3 + 4 * i, OUTPUTS - i);
	CU_ASSERT_EQUAL_FATAL(sched_open(&s), ERR_NONE);
	tiny_open(&t, NULL, 0);
	struct kernel_set *its = t.kernels;
	if (k)
		t.kernels = k;
	struct runner *r = tiny_runner(&t, (struct runner_setup){.n_pages = s.cfg.num_blocks,
								 .block_size = s.cfg.block_size,
								 .check = check,
								 .sampling = *how});
	CU_ASSERT_EQUAL_FATAL(sequences_create(&q, &s.w, TINY_VOCAB, 9, false, &s.err), 0);
	struct exec_setup setup = {.runner = r, .sequences = q, .check = check};
	CU_ASSERT_EQUAL_FATAL(exec_backend_create(&b, &setup, &s.err), ERR_NONE);
	if (fault_at)
		fake_machine.fail_in = fault_at;
	memset(out, 0, sizeof *out);
	out->rc = engine_run(s.engine, &b, NULL, &s.err);
	struct engine_stats stats;
	engine_stats(s.engine, &stats);
	out->steps = stats.steps;
	out->host_ns = stats.host_ns;
	out->busy_ns = stats.busy_ns;
	snprintf(out->error, sizeof out->error, "%s", s.err.text);
	for (int i = 0; i < REQUESTS; i++) {
		int32_t n;
		const int32_t *ids = sequences_outputs(q, i, &n);
		if (n)
			memcpy(out->tokens[i], ids, (size_t)n * sizeof *ids);
	}
	out->graphs = fake_machine.graphs;
	out->replays = fake_machine.replays;
	out->downloaded = fake_machine.downloaded;
	fake_machine.kernel_status = 0;
	exec_backend_free(&b);
	sched_close(&s);
	sequences_free(q);
	runner_free(r);
	t.kernels = its;
	tiny_close(&t);
	sched_free(&s);
}

static void requests_say_the_same_sync_async_checked_and_eager(void)
{
	struct served want, got;
	serve(&want, NULL, &SAMPLING_GREEDY, false, false, 0);
	CHECK_INT(want.rc, ERR_NONE);
	for (int i = 0; i < 8; i += test_short() ? 3 : 1) {
		bool async = i & 1, check = i & 2, eager = i & 4;
		struct kernel_set *k = open_set(NUM_F32, eager);
		serve(&got, k, &SAMPLING_GREEDY, async, check, 0);
		CHECK_INT(got.rc, ERR_NONE);
		CHECK_STR(got.error, "");
		CU_ASSERT(memcmp(got.tokens, want.tokens, sizeof want.tokens) == 0);
		/* Reads are verified on what is not recorded. */
		CU_ASSERT((got.graphs > 0) == (!check && !eager));
		CU_ASSERT(got.host_ns >= 0 && got.host_ns < got.busy_ns);
		k->ops->close(k);
		CHECK_INT(fake_machine.used, 0);
	}
}

/* The tokens that the host's sampler draws, in graphs and without; and they come to the host, not their logits. */
static void tokens_are_drawn_on_the_device(void)
{
	static const struct sampling how[] = {{0.8, 0, 1, 5}, {1.2, 20, 0.9, 6}, {2, 0, 0.7, 7}};
	struct served want, got;
	for (int i = 0; i < 3; i++) {
		serve(&want, NULL, &how[i], false, false, 0);
		CHECK_INT(want.rc, ERR_NONE);
		for (int eager = 0; eager < 2; eager++) {
			struct kernel_set *k = open_set(NUM_F32, eager);
			serve(&got, k, &how[i], i == 1, false, 0);
			CHECK_STR(got.error, "");
			CU_ASSERT(memcmp(got.tokens, want.tokens, sizeof want.tokens) == 0);
			CU_ASSERT((got.graphs > 0) == !eager);
			CU_ASSERT(got.downloaded > 0 && got.downloaded < TINY_VOCAB * sizeof(float));
			k->ops->close(k);
			CHECK_INT(fake_machine.used, 0);
		}
	}
	struct kernel_set *k = open_set(NUM_F32, false);
	serve(&want, k, &how[0], false, false, 0);
	k->ops->close(k);
	k = open_set(NUM_F32, false);
	serve(&got, k, &(struct sampling){0.8, 0, 1, 99}, false, false, 0); /* the seed matters */
	CU_ASSERT(memcmp(got.tokens, want.tokens, sizeof want.tokens) != 0);
	k->ops->close(k);
}

/* In a prompt and in a replayed graph, while the host waits and while it plans: the line says when, in what, and what was
 * started last; the first reason stays. */
static void a_lost_context_ends_the_run_and_names_step_and_batch(void)
{
	static const int fault_at[] = {40, 150};
	for (int i = 0; i < 8; i++) {
		struct served got;
		bool async = i & 1, eager = i & 2;
		struct kernel_set *k = open_set(NUM_F32, eager);
		char first[512];
		serve(&got, k, &SAMPLING_GREEDY, async, false, fault_at[i / 4]);
		CHECK_INT(got.rc, ERR_IO);
		CU_ASSERT(strstr(got.error, "step ") == got.error && strstr(got.error, " row"));
		CU_ASSERT(strstr(got.error, "cuda Fake GPU (sm_90") != NULL);
		CU_ASSERT(strstr(got.error, "illegal memory access") && strstr(got.error, "CUDA_LAUNCH_BLOCKING=1"));
		CU_ASSERT(strstr(got.error, "(the one started last: ") != NULL);
		snprintf(first, sizeof first, "%s", k->ops->error(k));
		fake_machine.kernel_status = cudaErrorIllegalAddress;
		CU_ASSERT(k->ops->alloc(k, (size_t)5 << 30) == NULL);
		CHECK_STR(k->ops->error(k), first);
		fake_machine.kernel_status = 0;
		k->ops->close(k);
	}
}

static void says(const char *got, const char *who, const char *how_much)
{
	CU_ASSERT(strstr(got, who) && strstr(got, how_much));
	if (!strstr(got, who) || !strstr(got, how_much))
		printf("  \"%s\" lacks \"%s\" or \"%s\"\n", got, who, how_much);
}

/* Each of those that take memory, when there is none left for them. */
static void whoever_finds_no_memory_says_who_it_is(void)
{
	struct tiny t;
	struct err e = {0};
	struct weights *w;
	struct runner *r;
	char why[512] = "";
	tiny_open(&t, NULL, 0);
	struct kernel_set *its = t.kernels, *k = open_set(NUM_F32, false);
	t.kernels = k;
	/* Weights, then pages. */
	struct runner_setup s = {.model = &t.model, .kernels = k, .block_size = 4, .n_pages = 1 << 22};
	for (int pages = 0; pages < 2; pages++) {
		fake_machine.memory = pages ? (size_t)1 << 30 : fake_machine.used + 4096;
		e = (struct err){0};
		CU_ASSERT_FATAL(!weights_open(&w, t.weights, &t.model, &e));
		s.weights = w;
		CU_ASSERT(runner_create(&r, &s, &e) != 0);
		says(e.text, pages ? "4194304 KV blocks of 4 tokens" : "GB for ", " GB");
		weights_close(w);
	}
	/* A step's activations, then a graph. */
	struct served got;
	fake_machine = (struct fake_machine){.used = fake_machine.used,
					     .driver = 13000,
					     .devices = 1,
					     .major = 9,
					     .memory = (size_t)1 << 30,
					     .graph_status = cudaErrorMemoryAllocation};
	serve(&got, k, &SAMPLING_GREEDY, false, false, 0);
	CHECK_INT(got.rc, ERR_IO);
	says(got.error, "out of memory for a graph: use --enforce-eager", "step ");
	r = tiny_runner(&t, (struct runner_setup){.n_pages = PAGES, .block_size = 4, .sampling = SAMPLING_GREEDY});
	int32_t pages[PAGES], prompt[PROMPT] = {0};
	for (int32_t i = 0; i < PAGES; i++)
		pages[i] = i;
	struct by_hand h = {.runner = r, .block_size = 4, .n_pages = PAGES, .pages = pages, .err = &e};
	fake_machine.memory = fake_machine.used + 8192;
	e = (struct err){0};
	by_hand_step(&h, prompt, PROMPT);
	says(e.text, "GB for a step's ", "of the device's");
	runner_free(r);
	k->ops->close(k);
	CHECK_INT(fake_machine.used, 0);
	/* Pinned memory. */
	fake_machine = usual;
	fake_machine.no_pinned = 1;
	const struct cuda_options o = {.act = NUM_F32};
	CHECK_INT(lockstep_cuda_plugin.open(&k, &o, why, sizeof why), -1);
	says(why, "taking 33554432 bytes of pinned memory", "out of memory");
	t.kernels = its;
	tiny_close(&t);
}

static void must_move(struct page_store *s, enum tier from, enum tier to, int32_t src, int32_t dst)
{
	struct err e = {0};
	const struct transfer t = {.from = from, .to = to, .src = &src, .dst = &dst, .n = 1};
	CHECK_INT(page_store_copy(s, &t, &e), ERR_NONE);
}

/* To the host's pinned memory, on to disk, and back into another page: all layers, byte for byte; and a page of the host that is
 * written while what it held still comes in is read first. */
static void pages_go_to_the_host_and_to_disk_and_come_back(void)
{
	struct tiny t;
	struct err e = {0};
	struct page_store s;
	tiny_open(&t, NULL, 0);
	struct kernel_set *its = t.kernels, *k = open_set(NUM_F32, false);
	t.kernels = k;
	struct runner *r =
		tiny_runner(&t, (struct runner_setup){.n_pages = PAGES, .block_size = 4, .sampling = SAMPLING_GREEDY});
	CU_ASSERT_EQUAL_FATAL(page_store_open(&s, r, 2, 2, temp_dir(), &e), ERR_NONE);
	size_t n = (size_t)s.page_bytes;
	uint8_t *bytes = mem_alloc(3 * n), *got = bytes + 2 * n;
	CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
	for (size_t i = 0; i < 2 * n; i++)
		bytes[i] = (uint8_t)(i * 7 + i / n);
	for (int32_t i = 0; i < 2; i++)
		CHECK_INT(runner_page_in(r, i, bytes + (size_t)i * n, &e), ERR_NONE);
	must_move(&s, TIER_DEVICE, TIER_HOST, 0, 0);
	must_move(&s, TIER_HOST, TIER_DISK, 0, 1);
	must_move(&s, TIER_DEVICE, TIER_HOST, 1, 0);
	must_move(&s, TIER_HOST, TIER_DEVICE, 0, 5); /* on its way when the host's page is written again: */
	must_move(&s, TIER_DISK, TIER_HOST, 1, 0);
	must_move(&s, TIER_HOST, TIER_DEVICE, 0, 6);
	for (int32_t i = 0; i < 2; i++) {
		CHECK_INT(runner_page_out(r, i ? 5 : 6, got, &e), ERR_NONE);
		CU_ASSERT(memcmp(got, bytes + (size_t)i * n, n) == 0);
	}
	mem_free(bytes);
	page_store_close(&s);
	runner_free(r);
	k->ops->close(k);
	CHECK_INT(fake_machine.used, 0);
	t.kernels = its;
	tiny_close(&t);
}

/* --- graphs -------------------------------------------------------------------------------------------------------------- */

/* The time of a step splits into parts whether it was recorded with marks, without, or not at all. */
static void parts_of_replayed_steps_add_up(void)
{
	struct tiny t;
	struct err e = {0};
	int32_t page[PAGES], tokens[1] = {5};
	tiny_open(&t, NULL, 0);
	struct kernel_set *its = t.kernels, *k = open_set(NUM_F32, false);
	t.kernels = k;
	struct runner *r = tiny_runner(&t, (struct runner_setup){.n_pages = PAGES, .block_size = 4});
	for (int32_t i = 0; i < PAGES; i++)
		page[i] = i;
	int32_t zero = 0, ctx = 1, one = 1, q_at[2] = {0, 1}, indptr[2] = {0, 1};
	int64_t slot = 0;
	uint8_t yes = 1, no = 0;
	struct batch_tables b = {.n_seqs = 1,
				 .n_rows = 1,
				 .n_decodes = 1,
				 .max_ctx = 1,
				 .req = &zero,
				 .q_at = q_at,
				 .ctx_len = &ctx,
				 .pad = &zero,
				 .pad_rows = &zero,
				 .first_token = &zero,
				 .kv_indptr = indptr,
				 .kv_indices = page,
				 .slots = &slot,
				 .samples = &yes,
				 .held = &no};
	struct step_input in = {.tables = &b, .row_tokens = tokens, .nth = &one};
	for (int i = 0; i < MARKED_EVERY + 4; i++) {
		struct step_output out = {0};
		CHECK_INT(runner_step(r, &in, &out, &e), ERR_NONE);
		for (int p = 0; p < N_PARTS; p++)
			CU_ASSERT(out.part_ns[p] > 0);
	}
	CHECK_INT(fake_machine.graphs, 2);
	/* Memory that moves takes the graphs with it: a longer context needs longer tables. */
	k->ops->release(k, k->ops->alloc(k, 64));
	struct step_output out;
	CHECK_INT(runner_step(r, &in, &out, &e), ERR_NONE);
	CHECK_INT(runner_step(r, &in, &out, &e), ERR_NONE);
	CHECK_INT(fake_machine.graphs, 3);
	runner_free(r);
	k->ops->close(k);
	t.kernels = its;
	tiny_close(&t);
}

/* What is recorded when a model is loaded serves every decode after that; and pages fill what memory is left. */
static void a_ready_runner_records_ahead_and_fills_its_share(void)
{
	struct tiny t;
	tiny_open(&t, NULL, 0);
	struct kernel_set *its = t.kernels, *k = open_set(NUM_F32, false);
	t.kernels = k;
	fake_machine.memory = (size_t)700 << 20;
	struct runner *r = tiny_runner(&t, (struct runner_setup){.block_size = 4,
								 .memory_share = 0.97,
								 .ready_rows = 64,
								 .ready_seqs = 11,
								 .ready_ctx = 1500,
								 .sampling = SAMPLING_GREEDY});
	/* 1, 2, 4, 8 and 16 rows, contexts of up to 1024 and 4096, each with marks and without. */
	CHECK_INT(fake_machine.graphs, 2 * 5 * 2);
	CU_ASSERT(runner_pages(r) > 1000);
	CU_ASSERT((double)fake_machine.used <= 0.97 * (double)fake_machine.memory);
	runner_free(r);
	struct err e = {0};
	struct weights *w;
	fake_machine.memory = (size_t)200 << 20;
	CU_ASSERT_FATAL(!weights_open(&w, t.weights, &t.model, &e));
	const struct runner_setup s = {
		.model = &t.model, .weights = w, .kernels = k, .block_size = 4, .memory_share = 0.9};
	CHECK_INT(runner_create(&r, &s, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "no memory is left for a KV cache") && strstr(e.text, "--gpu-memory-utilization"));
	weights_close(w);
	k->ops->close(k);
	t.kernels = its;
	tiny_close(&t);
}

static const struct test tests[] = {
	{"each_way_of_having_no_gpu_has_its_own_sentence", each_way_of_having_no_gpu_has_its_own_sentence},
	{"closing_gives_everything_back", closing_gives_everything_back},
	{"memory_is_zeroed_and_copies_are_in_order", memory_is_zeroed_and_copies_are_in_order},
	{"pages_leave_and_come_in_order", pages_leave_and_come_in_order},
	{"out_of_memory_says_what_asked_for_how_much", out_of_memory_says_what_asked_for_how_much},
	{"products_in_every_type", products_in_every_type},
	{"what_cannot_be_held_is_refused", what_cannot_be_held_is_refused},
	{"a_model_says_what_it_says_on_the_reference", a_model_says_what_it_says_on_the_reference},
	{"fewer_bits_stay_near", fewer_bits_stay_near},
	{"requests_say_the_same_sync_async_checked_and_eager", requests_say_the_same_sync_async_checked_and_eager},
	{"tokens_are_drawn_on_the_device", tokens_are_drawn_on_the_device},
	{"a_lost_context_ends_the_run_and_names_step_and_batch", a_lost_context_ends_the_run_and_names_step_and_batch},
	{"whoever_finds_no_memory_says_who_it_is", whoever_finds_no_memory_says_who_it_is},
	{"parts_of_replayed_steps_add_up", parts_of_replayed_steps_add_up},
	{"pages_go_to_the_host_and_to_disk_and_come_back", pages_go_to_the_host_and_to_disk_and_come_back},
	{"a_ready_runner_records_ahead_and_fills_its_share", a_ready_runner_records_ahead_and_fills_its_share},
};

int main(void)
{
	return SUITE_RUN("cuda_set", tests);
}
